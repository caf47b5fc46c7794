"""The command line: ``aftereffect``, or ``python -m aftereffect``."""

from aftereffect.cli.main import command, main

__all__ = ["command", "main"]
