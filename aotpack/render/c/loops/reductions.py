"""Reductions in C: accumulators with several lanes, which are merged in fixed order."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.render.c.monoids import C_MONOIDS, TwoPass
from aotpack.render.c.regions import SIMD
from aotpack.render.c.types import C_TYPES, c_literal

LANES, WIDE_LANES = 32, 16  # of states up to 32 bits, and of wider ones


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The states of one monoid over elements of ``dtype``, an array of lanes for each state."""

    kind: str
    dtype: DType
    names: tuple[str, ...]

    @property
    def types(self) -> tuple[DType, ...]:
        """The types of the states. Sums are wide, as eager's, to be as accurate."""
        if self.kind == "sum" and self.dtype is DType.FLOAT32:
            return (DType.FLOAT64,)
        return MONOIDS[self.kind].state_dtypes(self.dtype)

    def declare(self, lanes: int) -> Iterator[str]:
        """The arrays, filled with the identity."""
        identities = MONOIDS[self.kind].identities(self.dtype)
        for name, own, value in zip(self.names, self.types, identities, strict=True):
            filled = f"{name}[lane] = {c_literal(value, own)};"
            yield f"{C_TYPES[own]} {name}[{lanes}];"
            yield f"for (int lane = 0; lane < {lanes}; lane++) {filled}"

    def add(self, lane: str, element: str, index: str) -> list[str]:
        """Combine a lane with an element."""
        lifted = [self._text(text, element, index=index) for text in C_MONOIDS[self.kind].lift]
        return self.combine(lane, lifted)

    def combine(self, lane: str, states: Sequence[str]) -> list[str]:
        """Combine a lane with states."""
        own = [f"{name}[{lane}]" for name in self.names]
        return self._combine_lines(own, states)

    def join(self, lanes: int) -> list[str]:
        """Merge all lanes into the first, pair by pair."""
        lines: list[str] = []
        step = lanes // 2
        while step > 0:
            pair = self.combine("lane", [f"{name}[lane + {step}]" for name in self.names])
            lines += [SIMD, f"for (int lane = 0; lane < {step}; lane++) {{"]
            lines += [*(f"    {line}" for line in pair), "}"]
            step //= 2
        return lines

    def finalise(self, states: Sequence[str]) -> list[str]:
        """The results, from the states."""
        return [self._text(text, *states) for text in C_MONOIDS[self.kind].finalise]

    def _combine_lines(self, own: Sequence[str], other: Sequence[str]) -> list[str]:
        """Statements that replace the states ``own`` by their combination with ``other``."""
        monoid = C_MONOIDS[self.kind]
        given = [
            f"const {C_TYPES[kind]} a{n} = {a}, b{n} = {b};"
            for n, (kind, a, b) in enumerate(zip(self.types, own, other, strict=True))
        ]
        texts = zip(own, monoid.combine, strict=True)
        results = [f"{a} = {self._text(text)};" for a, text in texts]
        lines = [*given, *map(self._text, monoid.locals), *results]
        return ["{", *(f"    {line}" for line in lines), "}"]

    def _text(self, text: str, *operands: str, index: str = "") -> str:
        return fill(text, self.dtype, *operands, index=index, state=str(self.types[0]))


def two_pass(kind: str) -> TwoPass | None:
    """The two passes of a kind over elements in cache, if they are quicker; else None."""
    return C_MONOIDS[kind].passes


def lane_count(accumulators: Sequence[Accumulator], extent: int | None) -> int:
    """The lanes for a loop with these accumulators and ``extent`` iterations (None: unknown)."""
    wide = any(own.itemsize > 4 for one in accumulators for own in one.types)
    lanes = WIDE_LANES if wide else LANES
    while extent is not None and lanes > max(1, extent):
        lanes //= 2
    return lanes


def fill(text: str, dtype: DType, *operands: str, **others: str) -> str:
    """A text of the monoid table with its operands and named texts."""
    return text.format(*operands, type=C_TYPES[dtype], dtype=str(dtype), **others)
