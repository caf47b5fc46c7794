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

app = App(
    name="aftereffect",
    help="Bandits whose rewards come late, spread over time, and unsigned.",
    version=__version__,
    help_format="plaintext",
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
    """Run a command line; returns the exit status: 0, or 2 with a line on standard error for everything that is wrong."""
    try:
        app(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except (CycloptsError, AftereffectError) as error:
        for problem in getattr(error, "problems", [error]):
            line = " ".join(str(problem).split())
            print(f"aftereffect: {line}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `aftereffect ... | head`: the reader has what it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a full disk, say; all other files are written with messages of their own
        print(f"aftereffect: cannot write the output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    return 0


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
