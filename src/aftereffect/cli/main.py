"""The app: its commands, and how errors end."""

import io
import os
import sys
from collections.abc import Sequence

from cyclopts import App
from cyclopts.exceptions import CycloptsError

from aftereffect import __version__
from aftereffect.cli import live, manage, service
from aftereffect.cli.list import list_names
from aftereffect.cli.paper import paper
from aftereffect.cli.progress import catch_interrupts
from aftereffect.cli.simulate import simulate
from aftereffect.cli.sweep import sweep
from aftereffect.errors import AftereffectError

#: What shells report of a program that wrote where nobody reads: 128 and the number of SIGPIPE.
_BROKEN_PIPE = 141

app = App(
    name="aftereffect",
    help="Bandits whose rewards come late, spread over time, and anonymously.",
    version=__version__,
    help_format="markdown",  # which joins the lines of a docstring before it wraps them anew
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
app.command(simulate)
app.command(sweep)
app.command(paper)
app.command(list_names, name="list")
for commands in (live, manage, service):
    for each in commands.COMMANDS:
        app.command(each, group=commands.GROUP)
app.command(service.token)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    That is 0; 2, with a line on standard error for everything that is wrong; or 141 if nobody read the output to its end, as
    for a program that a shell ends for it. All files are written before anything is printed.
    """
    try:
        app(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except (CycloptsError, AftereffectError) as error:
        _tell(*getattr(error, "problems", [error]))
        return 2
    except BrokenPipeError as error:  # `aftereffect ... | head`
        _close_output()
        if isinstance(error.__context__, AftereffectError):  # printed after something else had failed
            _tell(error.__context__)
        return _BROKEN_PIPE
    except OSError as error:  # a full disk, say; all other files are written with messages of their own
        _tell(f"cannot write the output: {error.strerror}")
        _close_output()
        return 2
    except MemoryError:
        _tell("this needs more memory than there is: ask for fewer replications, checkpoints, arms or slots")
        return 2
    return 0


def _tell(*problems: object) -> None:
    for problem in problems:
        print(f"aftereffect: {' '.join(str(problem).split())}", file=sys.stderr)


def _close_output() -> None:
    """What could not be printed is not tried again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command() -> None:
    """The program. An interrupt ends it at once: compiled batches cannot be stopped, and nothing of theirs is needed."""
    catch_interrupts()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a mark that an old terminal cannot show is no reason to fail
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("aftereffect: stopped", file=sys.stderr, flush=True)
        os._exit(130)
