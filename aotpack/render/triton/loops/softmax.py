"""Cheaper forms of the elementwise part of a softmax.

    exp(x[k] - m) / s    ->    exp2((x[k] - m) * log2(e)) * (1 / s)    for results of 16 bits
                         ->    e[k] * (exp(p - m) / s)                 where e is resident

The sum s is at least 1: elements that flush to zero below the maximum m are negligible beside it. A
program with a resident part of a row has computed e[k] = exp(x[k] - p), p the maximum of that part,
for the sum; one factor for a row makes the result of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from aotpack.ir.values import Apply, Load, Value, walk
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.texts import LOG2_E


@dataclass(frozen=True, slots=True)
class ResidentExponentials:
    """Resident exponentials: their name, the ``value``, and the maximum ``top`` of its part."""

    value: Value
    name: str
    top: str


@dataclass(slots=True)
class Softmax:
    """Maxima of rows, sums of exponentials of the distances from them, and the resident ones.

    ``resident`` is keyed by the buffers of the maxima.
    """

    tops: set[str] = field(default_factory=set)
    sums: set[str] = field(default_factory=set)
    resident: dict[str, ResidentExponentials] = field(default_factory=dict)

    def shortcut(self, emitter: Emitter, value: Apply, is_short: bool) -> str | None:
        """The text of an exponential or a quotient in its cheaper form, if it has one.

        ``is_short``: it is rounded to 16 bits.
        """
        last = value.args[-1]
        if value.op == "div" and isinstance(last, Load) and last.buffer in self.sums:
            resident = self._resident(emitter, value.args[0])
            if resident is not None:
                name, scale = resident
                ratio = emitter.once(f"{scale} / {emitter.value(last)}", value.dtype)
                return f"{name} * {ratio}"
            if is_short:
                inverse = emitter.value(Apply("reciprocal", (last,), last.dtype))
                return f"{emitter.value(value.args[0])} * {inverse}"
        if value.op == "exp":
            resident = self._resident(emitter, value)
            if resident is not None:
                return " * ".join(resident)
            top = _top(value)
            if is_short and top is not None and top.buffer in self.tops:
                return f"tl.exp2({emitter.value(last)} * {LOG2_E})"
        return None

    def wants(self, emitter: Emitter, values: Iterable[Value], value: Value, top: str) -> bool:
        """True when exponentials of ``value`` less the row's ``top`` are among the values."""
        return any(
            isinstance(one, Apply) and _is_exponential_of(emitter, one, value, top)
            for one in walk(values)
        )

    def _resident(self, emitter: Emitter, value: Value) -> tuple[str, str] | None:
        """The name of resident exponentials for a value, and the missing factor."""
        value = emitter.made(value)
        top = _top(value)
        if top is None or top.buffer not in self.resident or not isinstance(value, Apply):
            return None
        resident = self.resident[top.buffer]
        if not _is_exponential_of(emitter, value, resident.value, top.buffer):
            return None
        less = f"{resident.top} - {emitter.value(top)}"
        return resident.name, emitter.once(exponential(less, is_short=False), value.dtype)


def exponential(text: str, *, is_short: bool) -> str:
    """The text of an exponential of a number that is not positive."""
    return f"tl.exp2(({text}) * {LOG2_E})" if is_short else f"libdevice.exp({text})"


def _top(value: Value) -> Load | None:
    """The maximum of an exponential of a distance."""
    if not isinstance(value, Apply) or value.op != "exp":
        return None
    (less,) = value.args
    if not isinstance(less, Apply) or less.op != "sub" or not isinstance(less.args[1], Load):
        return None
    return less.args[1]


def _is_exponential_of(emitter: Emitter, value: Apply, reduced: Value, top: str) -> bool:
    """True for exp(reduced - top)."""
    found, (less,) = _top(value), value.args[-1:]
    if found is None or found.buffer != top or not isinstance(less, Apply):
        return False
    return emitter.made(less.args[0]) == emitter.made(reduced)
