"""The command line: ``aftereffect``, or ``python -m aftereffect``.

Here are the app with its commands, the options of every command, and how errors end.
"""

import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from cyclopts.exceptions import CycloptsError, MissingArgumentError, UnusedCliTokensError

from aftereffect._core import __version__, load_plugins
from aftereffect.cli import _feeds, _live, _storage
from aftereffect.cli._list import list_names
from aftereffect.cli._plan import plan
from aftereffect.cli._reproduce import reproduce
from aftereffect.cli._shared import catch_interrupts
from aftereffect.cli._simulate import simulate
from aftereffect.cli._sweep import sweep
from aftereffect.errors import AftereffectError

__all__ = [
    "command",
    "main",
]


#: The exit status that shells report for a program that SIGPIPE ended: 128 and its number.
_BROKEN_PIPE = 141
_IMPORT = "--import"

app = App(
    name="aftereffect",
    help="Bandits whose rewards arrive late, spread over time, and anonymously.",
    version=__version__,
    help_format="markdown",  # which joins the lines of a docstring before it wraps them
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    suppress_keyboard_interrupt=False,
)
app.meta.group_parameters = Group("Options of every command")
app.meta.suppress_keyboard_interrupt = False
_SIMULATION, _LIVE, _SERVICE = (
    Group(title, sort_key=place)
    for place, title in enumerate(("Simulation", "Live experiments", "The service"))
)
_COMMANDS: tuple[tuple[Group, str, Callable[..., None]], ...] = (
    (_SIMULATION, "simulate", simulate),
    (_SIMULATION, "sweep", sweep),
    (_SIMULATION, "reproduce", reproduce),
    (_SIMULATION, "list", list_names),
    (_LIVE, "plan", plan),
    (_LIVE, "create", _live.create),
    (_LIVE, "ask", _live.ask),
    (_LIVE, "tell", _feeds.tell),
    (_LIVE, "follow", _feeds.follow),
    (_LIVE, "notify", _feeds.notify),
    (_LIVE, "mark-missing", _feeds.mark_missing),
    (_LIVE, "skip", _live.skip),
    (_LIVE, "arms", _live.arms),
    (_LIVE, "status", _live.status),
    (_LIVE, "history", _live.history),
    (_LIVE, "lag", _live.lag),
    (_LIVE, "results", _live.results),
    (_LIVE, "export", _live.export),
    (_LIVE, "verify", _live.verify),
    (_LIVE, "end", _live.end),
    (_LIVE, "experiments", _storage.experiments),
    (_LIVE, "delete", _storage.delete),
    (_SERVICE, "serve", _storage.serve),
    (_SERVICE, "demo", _storage.demo),
)
for _place, (_group, _name, _command) in enumerate(_COMMANDS):
    app.command(_command, name=_name, group=_group, sort_key=_place)
_storage.token.group = _SERVICE
app.command(_storage.token)
for _flag in ("--help", "--version"):
    app[_flag].group = app.meta.group_parameters


@app.meta.default
def run(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    modules: Annotated[
        tuple[str, ...],
        Parameter(
            name=_IMPORT,
            metavar="MODULE",
            negative=(),
            show_default=False,
            help="Import your own Python module first. Then the command knows the policies and "
            "delays that the module registers. You can repeat this option. The environment "
            "variable AFTEREFFECT_IMPORT=A,B does the same.",
        ),
    ] = (),
) -> Any:
    """Import what the user asks for, and run the command."""
    load_plugins(modules)
    return app(tokens)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    The status is 0 if all went well. It is 2 if not; then standard error has a line for everything
    that is wrong. It is 141 if the reader of the output has gone, as for other programs in a shell.
    All files are written before anything is printed.
    """
    try:
        app.meta(_move_imports_first(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except (CycloptsError, AftereffectError) as error:
        _print_errors(*getattr(error, "problems", [_explain(error)]))
        return 2
    except BrokenPipeError as error:  # `aftereffect ... | head`
        _discard_output()
        if isinstance(error.__context__, AftereffectError):  # something else had failed before
            _print_errors(error.__context__)
        return _BROKEN_PIPE
    except OSError as error:  # only standard output is left: files have messages of their own
        _print_errors(f"cannot write the output: {error.strerror}")
        _discard_output()
        return 2
    except MemoryError:
        _print_errors(
            "this needs more memory than there is: "
            "ask for fewer replications, checkpoints, arms or slots"
        )
        return 2
    return 0


def _move_imports_first(arguments: Sequence[str]) -> list[str]:
    """Put every ``--import MODULE`` before the command.

    A command whose arguments may begin with a hyphen, such as ``tell``, would take it for one.
    """
    imports: list[str] = []
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word.startswith(f"{_IMPORT}="):
            imports.append(word)
        elif word == _IMPORT and (module := next(words, None)) is not None:
            imports += [word, module]
        else:
            rest += [word, *words] if word == "--" else [word]
    return imports + rest


def _explain(error: Exception) -> str:
    """What is wrong, and what to do, where the words of cyclopts are those of its own code."""
    if not isinstance(error, CycloptsError):
        return str(error)
    command = " ".join(("aftereffect", *(error.command_chain or ())))
    if isinstance(error, UnusedCliTokensError):
        extra = " ".join(map(repr, error.unused_tokens or ()))
        return (
            f"{command} takes no further argument, got {extra}: write lists as A,B, put text with "
            f"spaces in quotes, and see {command} --help"
        )
    if isinstance(error, MissingArgumentError):
        return f"{error} {command} --help shows what it takes."
    return str(error)


def _print_errors(*problems: object) -> None:
    for problem in problems:
        print(f"aftereffect: {' '.join(str(problem).split())}", file=sys.stderr)


def _discard_output() -> None:
    """Keep Python from trying again, at its end, to print what could not be printed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def command() -> None:
    """Run the program. An interrupt ends it at once: compiled code cannot be stopped otherwise."""
    catch_interrupts()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # for terminals that lack a character
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("aftereffect: stopped", file=sys.stderr, flush=True)
        os._exit(130)
