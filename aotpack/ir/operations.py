"""Computations: loop nests over axes, each with a value to compute.

    computation = Pointwise(target, axes, value, index)        # target[index] = value, for all axes
                | Reduction(targets, axes, inner, kind, args)  # targets[axes] = kind over inner
                | Scan(targets, axes, along, kind, args)       # targets[axes] = kind up to along
                | Scatter(target, base, axes, index, value, kind)  # base, with value at index
                | Sort(targets, axes, along, value, descending)  # values, positions
                | Matmul(target, batch, m, n, k, lhs, rhs)     # target[batch, m, n], sum over k
                | Attention(target, ..., query, key, value...) # target[b, h, i, e], softmax over j

``Foreign`` is in ``ir/foreign.py``; ``Branch``, ``Loop`` and the grammar of programs are in
``ir/program.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from textwrap import indent
from typing import Union

from aotpack.ir.dtypes import DType
from aotpack.ir.origin import Origin
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import (
    INFIX,
    Apply,
    Guarded,
    IndexValue,
    Value,
    element,
    indirect_values,
)


@dataclass(frozen=True, slots=True)
class Pointwise:
    """``target[index] = value`` for every point of ``axes``; each point writes another element.

    ``index`` is usually the axes; it may be loaded if points still write distinct elements.
    Elements that no point writes are undefined.
    """

    target: str
    axes: tuple[Axis, ...]
    value: Value
    index: tuple[Int, ...]
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Reduction:
    """``targets[axes] = finalise(combine(lift(args) over inner))``, by ``kind`` of monoid."""

    targets: tuple[str, ...]
    axes: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    kind: str
    args: tuple[Value, ...]
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Scan:
    """``targets[axes]`` = the inclusive scan by ``kind`` of monoid along ``along``, one of axes."""

    targets: tuple[str, ...]
    axes: tuple[Axis, ...]
    along: Axis
    kind: str
    args: tuple[Value, ...]
    origin: Origin = Origin()


SCATTER_KINDS = ("set", "sum", "prod", "max", "min")


@dataclass(frozen=True, slots=True)
class Scatter:
    """``target = base``; then each point of ``axes`` combines ``value`` into ``target[index]``.

    ``base`` is a buffer of the target's shape and type, no value: the target may lie in its memory.
    ``index`` may be loaded; points whose index is outside the buffer are skipped. Kind "set" stores
    the value of any one of the points of an element. The other kinds are commutative monoids,
    applied in any order, on types with 32 or 64 bits, as atomics need: lowering widens.
    """

    target: str
    base: str
    axes: tuple[Axis, ...]
    index: tuple[Int, ...]
    value: Value
    kind: str
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Sort:
    """``targets`` = the values sorted along ``along``, one of axes, and their int64 positions.

    NaN is the largest, -0.0 and 0.0 are equal, and the sort is stable.
    """

    targets: tuple[str, ...]
    axes: tuple[Axis, ...]
    along: Axis
    value: Value
    descending: bool
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Matmul:
    """``target[*batch, m, n] = sum over k of lhs * rhs``, accumulated wide, rounded once.

    ``lhs`` is a value over batch, m, k; ``rhs`` over batch, k, n. Both are rounded to ``operand``
    before they are multiplied; the result has its accumulator type. The right one
    may be ``wide``: a kernel that multiplies in the accumulator type need not round it.
    """

    target: str
    batch: tuple[Axis, ...]
    m: Axis
    n: Axis
    k: Axis
    lhs: Value
    rhs: Value
    operand: DType
    origin: Origin = Origin()
    wide: bool = False

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (*self.batch, self.m, self.n)


@dataclass(frozen=True, slots=True)
class Attention:
    """``target[b, h, i, e] = sum_j softmax_j(scale * sum_d query * key + bias) * value``.

    ``query`` is a value over b, h, i, d; ``key`` over b, h, j, d; ``value`` over b, h, j, e.
    ``bias`` (added, in logits) and ``mask`` (bool, True = attend) are values over b, h, i, j;
    ``causal`` keeps j <= i. A row without any allowed j gives zeros. The factors of both products
    are rounded to ``operand``; logits, softmax and sums are in its accumulator type.
    """

    target: str
    batch: Axis
    head: Axis
    i: Axis
    j: Axis
    d: Axis
    e: Axis
    query: Value
    key: Value
    value: Value
    scale: float
    causal: bool
    bias: Value | None
    mask: Value | None
    operand: DType
    origin: Origin = Origin()

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.batch, self.head, self.i, self.e)


Computation = Union[Pointwise, Reduction, Scan, Scatter, Sort, Matmul, Attention]


# --- text --------------------------------------------------------------------------------------


def every_axis(operation: Computation) -> tuple[Axis, ...]:
    """The axes of the result, then the inner ones."""
    match operation:
        case Reduction():
            return (*operation.axes, *operation.inner)
        case Matmul():
            return (*operation.axes, operation.k)
        case Attention():
            return (*operation.axes, operation.j, operation.d)
        case _:
            return operation.axes


def computed_values(operation: Computation) -> tuple[Value, ...]:
    """The expressions that an operation computes."""
    match operation:
        case Pointwise():
            return (operation.value, *indirect_values(operation.index))
        case Sort():
            return (operation.value, *indirect_values(tuple(map(Int.of, operation.axes))))
        case Reduction() | Scan():
            return operation.args
        case Scatter():
            places = (IndexValue(part, DType.INT64) for part in operation.index)
            return (operation.value, *places)
        case Matmul():
            return (operation.lhs, operation.rhs)
        case Attention(query=query, key=key, value=value, bias=bias, mask=mask):
            slots = (query, key, value, bias, mask)
            return tuple(slot for slot in slots if slot is not None)


_INDENT = "    "


def computation_lines(operation: Computation, text: Callable[[Value], str]) -> list[str]:
    """An operation's body as text; ``text`` prints its values."""
    match operation:
        case Pointwise():
            return [f"{element(operation.target, operation.index)} = {text(operation.value)}"]
        case Reduction():
            args = ", ".join(map(text, operation.args))
            over = f" for {ranges(operation.inner)}" if operation.inner else ""
            return [f"{_results(operation)} = {operation.kind}({args}{over})"]
        case Scan():
            args = ", ".join(map(text, operation.args))
            return [
                f"{_results(operation)} = scan_{operation.kind}({args}, along {operation.along})"
            ]
        case Scatter():
            return _scatter(operation, text)
        case Sort():
            order = ", descending" * operation.descending
            value = text(operation.value)
            return [f"{_results(operation)} = sort({value}, along {operation.along}{order})"]
        case Matmul():
            factors = f"{_factor(operation.lhs, text)} * {_factor(operation.rhs, text)}"
            product = f"sum({factors} for {ranges((operation.k,))})"
            return [f"{_results(operation)} = {product}  # factors in {operation.operand}"]
        case Attention():
            return _attention(operation, text)


def _scatter(operation: Scatter, text: Callable[[Value], str]) -> list[str]:
    place, value = element(operation.target, operation.index), text(operation.value)
    sign = "=" if operation.kind == "set" else f"{operation.kind}="
    return [f"{place} {sign} {value}  # in {operation.base}"]


def _factor(value: Value, text: Callable[[Value], str]) -> str:
    shown = text(value)
    compound = isinstance(value, Guarded) or (isinstance(value, Apply) and value.op in INFIX)
    return f"({shown})" if compound and not shown.isidentifier() else shown


def _attention(operation: Attention, text: Callable[[Value], str]) -> list[str]:
    slots = {
        "query": operation.query,
        "key": operation.key,
        "value": operation.value,
        "bias": operation.bias,
        "mask": operation.mask,
    }
    inner = ranges((operation.j, operation.d))
    lines = [f"{_results(operation)} = attention(  # over {inner}; factors in {operation.operand}"]
    lines += [f"{_INDENT}{name}={text(slot)}," for name, slot in slots.items() if slot is not None]
    return [*lines, f"{_INDENT}scale={operation.scale!r}, causal={operation.causal})"]


def _results(operation: Computation) -> str:
    if isinstance(operation, (Reduction, Scan, Sort)):
        return ", ".join(element(name, operation.axes) for name in operation.targets)
    return element(operation.target, operation.axes)


def ranges(axes: Iterable[Axis]) -> str:
    """``i < 4, j < n``."""
    return ", ".join(f"{axis} < {axis.extent}" for axis in axes)


def weight_program_lines(made: object) -> list[str]:
    """The text of a weight program or its schedule."""
    return [f"once, from weights alone:\n{indent(str(made).rstrip(), _INDENT)}\n"] if made else []
