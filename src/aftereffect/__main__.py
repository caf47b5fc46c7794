"""``python -m aftereffect``."""

from aftereffect.cli import command

command()
