"""The command ``aotpack``, which is ``python -m aotpack`` too."""

import sys


def run() -> int:
    """Run the command for its exit code; an interrupt may come while modules are imported."""
    try:
        from aotpack.cli import main

        return main()
    except KeyboardInterrupt:
        print("aotpack: interrupted; nothing was left behind", file=sys.stderr)
        return 130


if __name__ == "__main__":
    raise SystemExit(run())
