"""Raises at one event of the runtime's own code: a line, an instruction, a call or a return."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import aotpack.runtime
from aotpack.runtime.devices.block import release

_FOLDER = str(Path(aotpack.runtime.__file__).parent)


class Interrupted(BaseException):
    """What a signal handler raises."""


class Interrupter:
    """Counts the events while ``run`` works, and raises at the one with ``number``."""

    def __init__(self, number: int, *, instructions: bool = False) -> None:
        self._left, self._instructions = number, instructions
        self.has_raised = False

    def run(self, work: Callable[[], Any]) -> Interrupted | None:
        """The exception, with its traceback, if the event came."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            work()
        except Interrupted as error:
            return error
        finally:
            sys.settrace(before)
        return None

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_FOLDER) or _is_finalizer(frame):
            return None
        frame.f_trace_opcodes = self._instructions
        return self._event(frame, event, arg)

    def _event(self, frame: FrameType, event: str, arg: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            sys.settrace(None)
            self.has_raised = True
            raise Interrupted
        return self._event


def _is_finalizer(frame: FrameType | None) -> bool:
    """True where memory goes: Python reports what a finalizer raises, and goes on."""
    while frame is not None:
        if frame.f_code is release.__code__:
            return True
        frame = frame.f_back
    return False
