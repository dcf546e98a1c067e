"""Cheaper forms of what a softmax does to each element of a row.

    exp(x[k] - m) / s    ->    exp2((x[k] - m) * log2(e)) * (1 / s)    where results have 16 bits
                         ->    e[k] * (exp(p - m) / s)                 where a program holds e

The sum s is at least 1: what flushes to zero below the maximum m does not count beside it. A
program that holds its part of a row in registers has computed e[k] = exp(x[k] - p), p the maximum
of that part, for the sum; one factor a row makes the result of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aotpack.ir.values import Apply, Load, Value, walk
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.texts import LOG2_E


@dataclass(frozen=True, slots=True)
class Held:
    """Exponentials in registers: the name of those of ``value`` less its part's maximum ``top``."""

    value: Value
    name: str
    top: str


@dataclass(slots=True)
class Softmax:
    """Maxima of rows, sums of exponentials of the distances from them, and what is held of these.

    ``held`` goes by the buffers of the maxima.
    """

    tops: set[str] = field(default_factory=set)
    sums: set[str] = field(default_factory=set)
    held: dict[str, Held] = field(default_factory=dict)

    def shortcut(self, emitter: Emitter, value: Apply, is_short: bool) -> str | None:
        """The text of an exponential or a quotient in its cheaper form, if it has one.

        ``is_short``: it is rounded to 16 bits.
        """
        last = value.args[-1]
        if value.op == "div" and isinstance(last, Load) and last.buffer in self.sums:
            held = self._held(emitter, value.args[0])
            if held is not None:
                name, scale = held
                ratio = emitter.once(f"{scale} / {emitter.value(last)}", value.dtype)
                return f"{name} * {ratio}"
            if is_short:
                inverse = emitter.value(Apply("reciprocal", (last,), last.dtype))
                return f"{emitter.value(value.args[0])} * {inverse}"
        if value.op == "exp":
            held = self._held(emitter, value)
            if held is not None:
                return " * ".join(held)
            top = _top(value)
            if is_short and top is not None and top.buffer in self.tops:
                return f"tl.exp2({emitter.value(last)} * {LOG2_E})"
        return None

    def wants(self, emitter: Emitter, values: Iterable[Value], value: Value, top: str) -> bool:
        """True when exponentials of ``value`` less the row's ``top`` are among the values."""
        return any(
            isinstance(one, Apply) and _is_share(emitter, one, value, top) for one in walk(values)
        )

    def _held(self, emitter: Emitter, value: Value) -> tuple[str, str] | None:
        """What is held of a value, and the factor that it lacks."""
        value = emitter.made(value)
        top = _top(value)
        if top is None or top.buffer not in self.held or not isinstance(value, Apply):
            return None
        held = self.held[top.buffer]
        if not _is_share(emitter, value, held.value, top.buffer):
            return None
        less = f"{held.top} - {emitter.value(top)}"
        return held.name, emitter.once(exponential(less, is_short=False), value.dtype)


def exponential(text: str, *, is_short: bool) -> str:
    """The text of an exponential of what is not above 0."""
    return f"tl.exp2(({text}) * {LOG2_E})" if is_short else f"libdevice.exp({text})"


def _top(value: Value) -> Load | None:
    """The maximum of an exponential of a distance."""
    if not isinstance(value, Apply) or value.op != "exp":
        return None
    (less,) = value.args
    if not isinstance(less, Apply) or less.op != "sub" or not isinstance(less.args[1], Load):
        return None
    return less.args[1]


def _is_share(emitter: Emitter, value: Apply, reduced: Value, top: str) -> bool:
    """True for exp(reduced - top)."""
    found, (less,) = _top(value), value.args[-1:]
    if found is None or found.buffer != top or not isinstance(less, Apply):
        return False
    return emitter.made(less.args[0]) == emitter.made(reduced)
