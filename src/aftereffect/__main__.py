"""The program ``aftereffect``, or ``python -m aftereffect``.

It starts where the libraries of the command line are not installed, too, and says how to get them.
"""

import sys

from aftereffect._core import __version__, require_extra
from aftereffect.errors import MissingExtraError

#: The extra that a command needs besides the command line; it has the command line, too.
_EXTRAS = {
    "": "cli",
    "list": "cli",
    **dict.fromkeys(("simulate", "sweep", "plan"), "simulation"),
    "reproduce": "paper",
    **dict.fromkeys(("serve", "demo", "token"), "service"),
}


def command() -> None:
    """Run the program."""
    try:
        require_extra("cli")
    except MissingExtraError:
        sys.exit(_run_without_libraries(sys.argv[1:]))
    from aftereffect.cli import command

    command()


def _run_without_libraries(arguments: list[str]) -> int:
    """Tell the version, or what to install for a command; gives the exit status."""
    if "--version" in arguments:
        print(__version__)
        return 0
    name = next((word for word in arguments if not word.startswith("-")), "")
    extra = _EXTRAS.get(name, "live")
    what = f"the command {name}" if name else "the command line"
    print(
        f'aftereffect: {what} needs an extra: pip install "aftereffect[{extra}]"', file=sys.stderr
    )
    return 2


if __name__ == "__main__":
    command()
