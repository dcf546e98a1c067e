"""Transposed convolutions: one convolution of stride 1 for each phase of the stride (polyphase).

Along a dimension a position of the result takes ``x[i] * w[o]`` where ``position + padding =
i * stride + o * dilation``. Offsets a multiple of ``period = stride / gcd(stride, dilation)`` apart
reach the same positions. So with ``o = phase + j * period`` and ``gap = dilation / gcd``,

    result[position] = sum over j of x[q - j * gap] * w[phase + j * period]
    where position + padding = q * stride + phase * dilation

No product multiplies by a zero inserted between elements of the input: it would be wasted, and turn
infinity into NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from itertools import product as cartesian
from math import gcd

from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.ops.conditions import bounds_checks, range_checks
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape
from aotpack.lower.linalg.matmul import emit_product
from aotpack.lower.linalg.windows import Geometry, group_axes, window_element, write_channels
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, constant, guarded, position
from aotpack.stages import Ref


@dataclass(frozen=True, slots=True)
class Phases:
    """Consecutive phases, from ``first``, with the same number of terms."""

    first: int
    count: int
    terms: int
    period: int

    def offset(self, phase: Int, term: Int) -> Int:
        """The kernel offset of a phase and term."""
        return self.first + phase + term * self.period


@dataclass(frozen=True, slots=True)
class Side:
    """One dimension of a transposed convolution; ``result`` is the size of the result."""

    stride: int
    padding: int
    dilation: int
    kernel: int
    result: Int

    @property
    def common(self) -> int:
        return gcd(self.stride, self.dilation)

    @property
    def period(self) -> int:
        return self.stride // self.common

    @property
    def gap(self) -> int:
        return self.dilation // self.common

    @property
    def low(self) -> int:
        """The first q that both a position and the input have; rows count from it."""
        return max(0, -(((self.period - 1) * self.dilation - self.padding) // self.stride))

    @property
    def rows(self) -> Int:
        """The number of q, up to that of the last position in phase 0."""
        return (self.result - 1 + self.padding) // self.stride + 1 - self.low

    @property
    def is_whole(self) -> bool:
        """True if the result is all phases of all rows, with equal numbers of terms."""
        fits = known_equal(self.rows * self.stride, self.result)
        even = self.kernel % self.stride == 0 and self.padding % self.stride == 0
        return self.dilation == 1 and even and fits

    def phases(self) -> list[Phases]:
        """The phases of the kernel's offsets, grouped by number of terms."""
        terms, more = divmod(self.kernel, self.period)
        counts = ((0, more, terms + 1), (more, self.period - more, terms))
        return [Phases(*found, self.period) for found in counts if found[1] and found[2]]

    def place(self, at: Int) -> tuple[Int, Int, list[Value]]:
        """The row and phase of a position, and the conditions for them to exist."""
        reach = at + self.padding
        digit = reach % self.stride // self.common
        phase = digit * pow(self.gap, -1, self.period) % self.period
        row = reach // self.stride - phase * self.dilation // self.stride - self.low
        conditions = range_checks(row, 0, self.rows)
        if self.common > 1:
            conditions.append(apply("eq", position(reach % self.common), 0))
        return row, phase, conditions

    def source(self, row: Int, term: Int) -> Int:
        """The input position of a row and term."""
        return row + self.low - term * self.gap


@dataclass(frozen=True, slots=True)
class Form:
    """``[group, rows, columns] = sum over window`` of the input's windows and a weight.

    Rows are items and q of each side, columns phases and channels of the group, a window terms and
    channels of the input's group.
    """

    groups: Shape
    columns: Shape
    rows: Shape
    channels: Int
    terms: Shape

    @property
    def depth(self) -> Int:
        """The elements of a window."""
        return product((self.channels, *self.terms))

    def window(self, k: Int) -> tuple[Int, Index]:
        """The channel and the terms of an element of a window."""
        channel, *terms = window_element(k, self.channels, self.terms)
        return channel, tuple(terms)

    def source(self, group: Index, channel: Int) -> Int:
        """The input channel of a group and channel."""
        return flatten_index((*group, channel), (*self.groups, self.channels))


def phased_convolution(
    c: Context, input: Ref, weight: Ref, bias: Ref | None, geometry: Geometry
) -> None:
    """One product for each set of phases with equal terms, and a gather of the result.

    A side has at most two sets, and one if the kernel is a multiple of the period. Unless the
    product stores the result directly, products are stored in the accumulator's type.
    """
    groups = group_axes(geometry)
    dims = c.rank(weight) - 2
    sides = _sides(c, input, weight, geometry)
    rows = (*c.shape(input)[: -dims - 1], *(side.rows for side in sides))
    channels, per_group = c.shape(weight)[0] // geometry.groups, c.shape(weight)[1]
    parts = []
    for own in cartesian(*(side.phases() for side in sides)):
        columns = (*(Int.of(phases.count) for phases in own), per_group)
        terms = tuple(Int.of(phases.terms) for phases in own)
        form = Form(groups, columns, rows, channels, terms)
        parts.append((own, form, _product(c, input, weight, form, sides, own)))

    def read(item: Index, group: Index, channel: Int, place: Index) -> Value:
        found, phases, reached = zip(*map(Side.place, sides, place), strict=True)
        value: Value = constant(0, c.dtype(input).accumulator)
        row = flatten_index((*item, *found), rows)
        for own, form, total in parts:
            digits = tuple(phase - part.first for part, phase in zip(own, phases, strict=True))
            column = flatten_index((*digits, channel), form.columns)
            conditions = [*chain(*reached), *bounds_checks(digits, form.columns[:-1])]
            value = guarded(conditions, c.load(total, (*group, row, column)), value)
        return value

    write_channels(c, bias, groups, _digits(sides), read)


def _sides(c: Context, input: Ref, weight: Ref, geometry: Geometry) -> tuple[Side, ...]:
    """One side for each dimension. For an input of one element, each offset is a phase."""
    kernel, sizes = c.shape(weight)[2:], c.shape(c.result())[2 - c.rank(weight) :]
    steps = (geometry.stride, geometry.padding, geometry.dilation, kernel, sizes)
    sides = [Side(s, p, d, int(k), size) for s, p, d, k, size in zip(*steps, strict=True)]
    return tuple(
        replace(side, stride=side.dilation * side.kernel) if size.constant == 1 else side
        for side, size in zip(sides, c.shape(input)[-len(sides) :], strict=True)
    )


def _digits(sides: Sequence[Side]) -> list[Shape]:
    """The positions of the result; as rows and phases if the product stores them directly."""
    if any(side.stride > 1 for side in sides) and all(side.is_whole for side in sides):
        return [(side.rows, Int.of(side.stride)) for side in sides]
    return [(side.result,) for side in sides]


def _product(
    c: Context, input: Ref, weight: Ref, form: Form, sides: Sequence[Side], own: Sequence[Phases]
) -> Ref:
    """The product of a form."""
    operand = c.dtype(input)
    shape = (*form.groups, product(form.rows), product(form.columns))
    total = c.temporary("product", operand.accumulator, shape)
    dense = _dense(c, weight, form, own)
    sizes = c.shape(input)[-len(own) :]

    def left(group: Index, m: Int, k: Int) -> Value:
        channel, terms = form.window(k)
        row = unflatten_index(m, form.rows)
        found = tuple(map(Side.source, sides, row[-len(own) :], terms))
        element = c.load(input, (*row[: -len(own)], form.source(group, channel), *found))
        return guarded(bounds_checks(found, sizes), element, constant(0, operand))

    def right(group: Index, k: Int, n: Int) -> Value:
        return c.load(dense, (*group, n, k))

    emit_product(c, total, operand, form.depth, left, right)
    return total


def _dense(c: Context, weight: Ref, form: Form, own: Sequence[Phases]) -> Ref:
    """[group, columns, window]: the kernel at the offsets of some phases, rows along the depth.

    Without this copy the product gathers the kernel for each tile.
    """
    shape = (*form.groups, product(form.columns), form.depth)
    dense = c.temporary("weight", c.dtype(weight), shape, unfusable=True)

    def element(index: Index) -> Value:
        *group, column, k = index
        channel, terms = form.window(k)
        *phases, out = unflatten_index(column, form.columns)
        offsets = map(Phases.offset, own, phases, terms)
        return c.load(weight, (form.source(tuple(group), channel), out, *offsets))

    c.pointwise(dense, element)
    return dense
