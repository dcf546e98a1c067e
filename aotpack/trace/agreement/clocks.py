"""The time that forward reads from a clock.

An export keeps that of the build. Where eager's results follow it, the model is refused; a time
that is measured, printed or stored is accepted. Other threads of the process see the other times
too, while such a model runs.
"""

import datetime
import gc
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from torch._dynamo import convert_frame

from aotpack.trace.agreement.exported import AnotherFunction
from aotpack.trace.agreement.second_call import disagreement, run_apart
from aotpack.trace.diagnostics.asked.branches import is_model
from aotpack.trace.eager import Call
from aotpack.trace.operators.modes import patched
from aotpack.trace.source import is_user_file, shown_path

_STEP = 1_000_000  # nanoseconds from one read of a clock to the next
_SHIFT = 7_025_204_123_456_789  # nanoseconds: 81 days, 7 hours, 26 minutes and 44 seconds
_SHIFTS = 8
_SECONDS = "time", "monotonic", "perf_counter", "process_time", "thread_time"
_TEXTS = "localtime", "gmtime", "ctime"  # of the present, without an argument
_STAMPS = "strftime", "asctime"  # of the present, without a second or first one
_NAMES = (*_SECONDS, *(f"{name}_ns" for name in _SECONDS), *_TEXTS, *_STAMPS)
_OTHERS = tuple(name for name in ("clock_gettime", "clock_gettime_ns") if hasattr(time, name))
_CLOCKS = {getattr(time, name): f"time.{name}" for name in (*_NAMES, *_OTHERS)}
_DATES = "now", "utcnow", "today"


@contextmanager
def clocks_read() -> Iterator[dict[str, None]]:
    """Inside the block, clocks that the model's code reads, with their lines, get into the result.

    Those that functions in ``gc.callbacks`` read are not the model's, though Python may call these
    in any of its lines. Nothing is seen beside a profiler that is no function of Python.
    """
    read: dict[str, None] = {}

    def see(frame: FrameType, event: str, arg: Any) -> None:
        if event == "c_call" and (name := _name(arg)) and _is_models(frame):
            line = f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"
            read.setdefault(f"{name} at {line}")

    before: Any = sys.getprofile()
    if before is not None and not isinstance(before, (FunctionType, MethodType)):
        yield read
        return
    sys.setprofile(see)
    try:
        with patched(convert_frame, "_compile", _paused(see)):
            yield read
    finally:
        sys.setprofile(before)


def _paused(profiler: Callable[..., None]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes a function one without the profiler: dynamo reads bodies, and runs none."""

    def make(plain: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **options: Any) -> Any:
            is_seen = sys.getprofile() is profiler
            if is_seen:
                sys.setprofile(None)
            try:
                return plain(*given, **options)
            finally:
                if is_seen:
                    sys.setprofile(profiler)

        return run

    return make


def _is_models(frame: FrameType) -> bool:
    own = is_model(frame.f_code)
    called: list[Any] = gc.callbacks
    codes = {getattr(one, "__code__", None) for each in called for one in (each, each.__call__)}
    outer: FrameType | None = frame
    while own and outer is not None:
        own, outer = outer.f_code not in codes, outer.f_back
    return own


def _name(function: Any) -> str:
    """The name of a clock; "" for other functions."""
    if getattr(function, "__name__", "") in _DATES:
        owner: Any = getattr(function, "__self__", None)
        is_date = isinstance(owner, type) and issubclass(owner, datetime.date)
        return f"datetime.{owner.__name__}.{function.__name__}" if is_date else ""
    return _of(_CLOCKS, function) or ""


def _of(table: dict[Any, Any], key: Any) -> Any:
    """What a table has for a key; None for one without a hash."""
    try:
        return table.get(key)
    except TypeError:
        return None


def check_clocks(call: Call, read: Iterable[str]) -> None:
    """Refuse a model whose results follow the clocks that it has ``read``."""
    clocks = [*read]
    if not clocks:
        return
    with clocks_read() as running:
        first = run_apart(call, _set(0))
    how = "it cannot be given another time" if running else ""
    for number in range(1, _SHIFTS):
        found = run_apart(call, _set(number * _SHIFT))
        how = how or disagreement(call, first, found, "a call at another time")
    if how:
        raise AnotherFunction(
            f"tracing {call.signature.name}: forward reads {' and '.join(clocks[:3])}, and a "
            f"package would keep the time of its build: {how}. Take the time as an argument."
        )


@contextmanager
def _set(shift: int) -> Iterator[None]:
    """Inside the block, clocks that modules hold are ``shift`` nanoseconds from now, by steps."""
    steps = itertools.count(0, _STEP)
    replaced: dict[Any, Any] = {}
    for name in _SECONDS:
        begin = getattr(time, f"{name}_ns")() + shift
        replaced[getattr(time, name)] = lambda begin=begin: (begin + next(steps)) / 1e9
        replaced[getattr(time, f"{name}_ns")] = lambda begin=begin: begin + next(steps)
    begin = time.time_ns() + shift

    def now() -> float:
        return (begin + next(steps)) / 1e9

    local = time.localtime
    for name in _TEXTS:
        replaced[getattr(time, name)] = _at(getattr(time, name), now)
    strftime, asctime = time.strftime, time.asctime
    replaced[strftime] = lambda form, at=None: strftime(form, local(now()) if at is None else at)
    replaced[asctime] = lambda at=None: asctime(local(now()) if at is None else at)
    for kind in (datetime.datetime, datetime.date):
        replaced[kind] = _moved(kind, now)
    with ExitStack() as undo:
        for module in [*sys.modules.values()]:
            if module is time or module is datetime or _is_users(module):
                for name, value in [*vars(module).items()]:
                    other = _of(replaced, value) if callable(value) else None
                    if other is not None:
                        undo.callback(setattr, module, name, value)
                        setattr(module, name, other)
        yield


def _is_users(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or (isinstance(file, str) and is_user_file(file))


def _at(function: Callable[..., Any], now: Callable[[], float]) -> Callable[..., Any]:
    return lambda seconds=None: function(now() if seconds is None else seconds)


def _moved(kind: Any, now: Callable[[], float]) -> Any:
    """A class of dates with another present; those of ``kind`` are of it."""

    class Same(type(kind)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, kind)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, kind)

    class Moved(kind, metaclass=Same):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return kind.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return kind.fromtimestamp(now(), datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Any:
            return kind.fromtimestamp(now())

    return Moved
