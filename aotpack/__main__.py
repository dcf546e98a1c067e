"""``python -m aotpack`` is the command ``aotpack``."""

from aotpack.cli import main

raise SystemExit(main())
