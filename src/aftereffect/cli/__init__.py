"""The command line: ``aftereffect``, or ``python -m aftereffect``."""

from aftereffect.cli.main import main

__all__ = ["main"]
