"""The command ``aotpack``, which is ``python -m aotpack`` too: the process and its signals."""

import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run() -> int:
    """Run the command for its exit code; an interrupt may come while modules are imported."""
    for number in _INTERRUPTS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, and shells' background jobs
            signal.signal(number, _interrupt)
    try:
        from aotpack.cli import main

        return main()
    except KeyboardInterrupt:
        print("aotpack: interrupted; nothing was left behind", file=sys.stderr)
        return 130


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Raise once, so that resources are cleaned up; later signals do not disturb that."""
    for one in _INTERRUPTS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(run())
