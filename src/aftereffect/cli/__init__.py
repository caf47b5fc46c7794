"""The command line: ``aftereffect``, or ``python -m aftereffect``."""

from aftereffect.cli._app import command, main

__all__ = [
    "command",
    "main",
]
