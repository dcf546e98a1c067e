"""One axis as two, so that inner loops have no divisions: m = row * width + column.

    x[m // 56, m % 56]    ->    x[row, column]

Rows of an image, or heads of a hidden size, become an outer loop; the inner one is affine.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import (
    Axis,
    Extremum,
    Indirect,
    Int,
    Quotient,
    Remainder,
    ceil_div,
)
from aotpack.ir.values import IndexValue, Load, Value, walk


@dataclass(frozen=True, slots=True)
class Split:
    """``axis`` is ``row * width + column``; without a width, ``column`` is the axis itself."""

    axis: Axis
    row: Axis | None
    column: Axis
    width: Int | None

    @property
    def parts(self) -> Mapping[Axis, Int]:
        """The substitution."""
        if self.row is None or self.width is None:
            return {self.axis: Int.of(self.column)}
        return {self.axis: Int.of(self.row) * self.width + Int.of(self.column)}

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The new axes, outermost first."""
        return (self.column,) if self.row is None else (self.row, self.column)


def split(axis: Axis, expressions: Iterable[Int]) -> Split:
    """Split at the narrowest width by which some expression divides the axis."""
    widths = {den for expression in expressions for den in _divisors(expression, axis)}
    if not widths:
        return Split(axis, None, axis, None)
    width = min(widths, key=lambda w: (typical(w), str(w)))
    row = Axis(f"{axis.name}_row", ceil_div(axis.extent, width))
    return Split(axis, row, Axis(f"{axis.name}_column", width), width)


def indices(values: Iterable[Value]) -> Iterator[Int]:
    """Every integer expression in some values."""
    for value in walk(values):
        if isinstance(value, Load):
            yield from value.index
        elif isinstance(value, IndexValue):
            yield value.index


def _divisors(expression: Int, axis: Axis) -> Iterator[Int]:
    for atom in expression.atoms():
        if isinstance(atom, (Quotient, Remainder)):
            if atom.num is Int.of(axis):
                yield atom.den
            yield from _divisors(atom.num, axis)
        elif isinstance(atom, Extremum):
            yield from _divisors(atom.a, axis)
            yield from _divisors(atom.b, axis)
        elif isinstance(atom, Indirect):
            yield from (d for index in indices((atom.value,)) for d in _divisors(index, axis))
