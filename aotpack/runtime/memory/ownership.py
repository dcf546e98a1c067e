"""Ownership that cannot be lost: a thing belongs to a frame until it is released or the frame ends.

No lock is held at any time, so an exception may come between any two instructions, as those of
signal handlers do. An owner that died without a release is found out by the next claimant.
"""

from types import FrameType
from typing import Any

_FRAME, _NEXT = "frame", "next"


class Owned:
    """A thing with one owner at a time.

    Each turn is a dictionary with its owner's frame, and the turn after it. ``dict.setdefault`` is
    atomic: of all claimants of a turn one wins, and all move on to the same next turn.
    """

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn: dict[str, Any] = {}

    def claim(self, frame: FrameType) -> bool:
        """Make ``frame``, which is running, the owner; False while another owner is running."""
        turn = self._turn
        while True:
            owner = turn.setdefault(_FRAME, frame)
            if owner is frame:
                self._turn = turn  # behind: a claimant starts at any earlier turn
                return True
            if owner is not None and is_running(owner):
                return False
            turn = turn.setdefault(_NEXT, {})

    def release(self) -> None:
        """End the owner's turn; only by the owner, once."""
        self._turn[_FRAME] = None

    def owner(self) -> FrameType | None:
        """The frame of the owner, if there is one."""
        turn: dict[str, Any] | None = self._turn
        while turn is not None:
            frame: FrameType | None = turn.get(_FRAME)
            if frame is not None and is_running(frame):
                return frame
            turn = turn.get(_NEXT)
        return None

    def abandon(self) -> None:
        """End the turn of an owner that will never run again: in a forked child."""
        self._turn = {}


def is_running(frame: FrameType) -> bool:
    """False once the frame has ended; one that a traceback keeps then loses its variables."""
    try:
        frame.clear()
    except RuntimeError:
        return True
    return False


def frames_below(frame: FrameType | None) -> set[FrameType]:
    """The frame and all that wait for its return, in this thread."""
    found = set[FrameType]()
    while frame is not None:
        found.add(frame)
        frame = frame.f_back
    return found
