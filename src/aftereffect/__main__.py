"""``python -m aftereffect``."""

from aftereffect.cli import main

raise SystemExit(main())
