"""The time that forward reads from a clock.

An export keeps that of the build. Where eager's results follow it, the model is refused; a time
that is measured, printed or kept aside is accepted.
"""

import datetime
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, ModuleType, TracebackType
from typing import Any

from aotpack.trace.agreement.attributes import Attributes
from aotpack.trace.agreement.exported import AnotherFunction
from aotpack.trace.agreement.second_call import disagreement, drawing_alike
from aotpack.trace.eager import Call, Tensors
from aotpack.trace.source import is_user_file, shown_path

_SHIFTS = [n * 7_000_004_321_123_457 for n in range(8)]  # nanoseconds: 81 days and some hours
_SECONDS = "time", "monotonic", "perf_counter", "process_time", "thread_time"
_CLOCKS = {getattr(time, name): f"time.{name}" for name in _SECONDS}
_CLOCKS |= {getattr(time, f"{name}_ns"): f"time.{name}_ns" for name in _SECONDS}
_CLOCKS |= {getattr(time, name): f"time.{name}" for name in ("localtime", "gmtime", "strftime")}
_DATES = "now", "utcnow", "today"


class Clocks:
    """Inside the block, ``read`` gets the clocks that the user's code reads, with their lines."""

    def __init__(self) -> None:
        self.read: dict[str, None] = {}

    def __enter__(self) -> "Clocks":
        self._before = sys.getprofile()
        sys.setprofile(self._see)
        return self

    def _see(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and (name := _name(arg)) and is_user_file(frame.f_code.co_filename):
            line = f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"
            self.read.setdefault(f"{name} at {line}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.setprofile(self._before)


def _name(function: Any) -> str:
    """The name of a clock; "" for other functions."""
    if getattr(function, "__name__", "") in _DATES:
        owner: Any = getattr(function, "__self__", None)
        is_date = isinstance(owner, type) and issubclass(owner, datetime.date)
        return f"datetime.{owner.__name__}.{function.__name__}" if is_date else ""
    try:
        return _CLOCKS.get(function, "")
    except TypeError:  # of what has no hash
        return ""


def check_clocks(call: Call, read: Iterable[str]) -> None:
    """Refuse a model whose results follow the clocks that it has ``read``."""
    clocks = [*read]
    if not clocks:
        return
    first = _results(call, _SHIFTS[0])
    for shift in _SHIFTS[1:]:
        how = disagreement(call, first, _results(call, shift), "a call at another time")
        if how:
            raise AnotherFunction(
                f"tracing {call.signature.name}: forward reads {' and '.join(clocks[:3])}, and a "
                f"package would keep the time of its build: {how}. Take the time as an argument."
            )


def _results(call: Call, shift: int) -> Tensors:
    """Of eager, with clocks that stand still, ``shift`` nanoseconds from now."""
    before = Attributes({"": call.module})
    try:
        with drawing_alike(), _stopped(shift):
            return call.run()
    finally:
        before.restore()


@contextmanager
def _stopped(shift: int) -> Iterator[None]:
    """Inside the block, the clocks of ``time`` and of dates stand, where modules hold them."""
    replaced: dict[Any, Any] = {}
    for name in _SECONDS:
        nanoseconds = getattr(time, f"{name}_ns")() + shift
        replaced[getattr(time, name)] = _constant(nanoseconds / 1e9)
        replaced[getattr(time, f"{name}_ns")] = _constant(nanoseconds)
    now = (time.time_ns() + shift) / 1e9
    for name in ("localtime", "gmtime"):
        replaced[getattr(time, name)] = _at(getattr(time, name), now)
    for kind in (datetime.datetime, datetime.date):
        replaced[kind] = _standing(kind, now)
    with ExitStack() as undo:
        for module in [*sys.modules.values()]:
            if module is time or module is datetime or _is_users(module):
                for name, value in [*vars(module).items()]:
                    if (other := _other(replaced, value)) is not None:
                        undo.callback(setattr, module, name, value)
                        setattr(module, name, other)
        yield


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or (isinstance(file, str) and is_user_file(file))


def _other(replaced: dict[Any, Any], value: Any) -> Any:
    if not callable(value):
        return None
    try:
        return replaced.get(value)
    except TypeError:
        return None


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _at(function: Callable[..., Any], now: float) -> Callable[..., Any]:
    return lambda seconds=None: function(now if seconds is None else seconds)


def _standing(kind: Any, now: float) -> Any:
    """A class of dates whose present is fixed."""

    class Standing(kind):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return kind.fromtimestamp(now, tz)

        @classmethod
        def utcnow(cls) -> Any:
            return kind.fromtimestamp(now, datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return kind.fromtimestamp(now)

    return Standing
