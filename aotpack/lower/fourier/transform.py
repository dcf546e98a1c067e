"""A transform along one dimension: stages of short transforms, or a convolution.

    n = r * m:  X[k + r * l] = sum over j < m of v(j, l) * w(j, k) * y[k, j]
                     y[k, j] = sum over i < r of u(i, k) * x[m * i + j]

Each stage transforms ``r`` points that are ``m`` apart; all but the first turn them before.
Lengths up to ``WHOLE`` are sums with a table, and so are stages of longer primes. A length with a
prime above ``LONGEST_SUM`` is a convolution with a chirp (Bluestein, 1970), by transforms of a
power of two.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Pointwise
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.symbolic.integers import Int, Number
from aotpack.ir.values import Load, Value
from aotpack.lower.context import Context, Index, Shape, points
from aotpack.lower.fourier.butterflies import Pair, Part, butterfly, prime_factors, product
from aotpack.lower.fourier.tables import (
    Table,
    chirp,
    chirp_spectrum,
    complex_table,
    roots,
    stage_roots,
)
from aotpack.lower.values import constant, guarded
from aotpack.lower.views.concat import write_concats
from aotpack.lower.views.view import replaced
from aotpack.stages import Ref

WHOLE = 63
LONGEST_SUM = 211
LONGEST_BUTTERFLY = 10

Read = Callable[[Index], Pair]
"""A complex number for each index of a tensor."""


@dataclass(frozen=True, slots=True)
class Along:
    """Transforms along a dimension of tensors of a shape, which may differ in its length."""

    c: Context
    shape: Shape
    dim: int
    dtype: DType  # of the parts
    role: str

    def transformed(self, read: Read, length: int, sign: int) -> Read:
        """``X[k] = sum over j of x[j] * exp(sign * 2 pi i * j * k / length)``."""
        lengths = stage_lengths(length)
        if not lengths:
            return self._convolved(read, length, sign)

        numbers = self._named_numbers(read, length) if length <= WHOLE else read

        def first(index: Index) -> Pair:
            *rest, _, place = index
            return numbers((*rest[: self.dim], place, *rest[self.dim :]))

        at: Read = first
        done = 1
        for number, size in enumerate(lengths):
            stage = _Stage(self, f"stage{number}", at, done, size, length // done // size)
            is_sum = length <= WHOLE or size > LONGEST_BUTTERFLY
            at = stage.summed(sign) if is_sum else stage.unrolled(sign)
            done *= size
        return self._at_last(at)

    def _named_numbers(self, read: Read, length: int) -> Read:
        """The numbers as tensors, since a sum reads each of them for each result."""
        c, shape = self.c, replaced(self.shape, self.dim, Int.of(length))
        axes = c.axes("i", shape)
        names: list[Ref | None] = []
        for value, role in zip(read(points(axes)), ("real", "imaginary"), strict=True):
            name = None if value is None else c.temporary(f"{self.role}_{role}", self.dtype, shape)
            names.append(name)
            if value is not None and name is not None:
                at = points(axes)
                c.builder.append(Pointwise(c.computed(name), axes, value, at, c.origin))

        def numbers(index: Index) -> Pair:
            real, imaginary = (None if name is None else c.load(name, index) for name in names)
            return real, imaginary

        return numbers

    def _at_last(self, at: Read) -> Read:
        """After all stages the last digit is gone."""

        def read(index: Index) -> Pair:
            rest = (*index[: self.dim], *index[self.dim + 1 :])
            return at((*rest, index[self.dim], Int.of(0)))

        return read

    def _convolved(self, read: Read, length: int, sign: int) -> Read:
        """``j * k`` is half of ``j * j + k * k - (k - j) * (k - j)``: a product of spectra."""
        padded = 1 << (2 * length - 2).bit_length()
        name = f"{length}{sign_name(sign)}"
        turns = self._table(f"chirp_{name}", chirp(length, sign))
        spectrum = self._table(
            f"chirp_spectrum_{name}", chirp_spectrum(length, padded, sign) / padded
        )

        def turned(index: Index) -> Pair:
            place = index[self.dim]
            if known_le(length, place):
                return None, None
            value = product(read(index), turns(place))
            inside = range_checks(place, 0, length)
            real, imaginary = (_or_zero(inside, part, self.dtype) for part in value)
            return real, imaginary

        first = self._named("spectrum").transformed(turned, padded, -1)

        def multiplied(index: Index) -> Pair:
            return product(first(index), spectrum(index[self.dim]))

        second = self._named("convolved").transformed(multiplied, padded, 1)
        return lambda index: product(second(index), turns(index[self.dim]))

    def _named(self, role: str) -> "Along":
        return Along(self.c, self.shape, self.dim, self.dtype, f"{self.role}_{role}")

    def _table(self, name: str, numbers: Table) -> Callable[..., Pair]:
        return read_table(self.c, complex_table(self.c, name, numbers, self.dtype))


@dataclass(frozen=True, slots=True)
class _Stage:
    """A transform of ``length`` points for each of ``done`` results and of ``left`` places.

    ``read`` takes the index of the other dimensions, the result so far, and the place.
    """

    along: Along
    name: str
    read: Read
    done: int
    length: int
    left: int

    def unrolled(self, sign: int) -> Read:
        """The points of a transform are read once; each result is an operation."""
        c, shape = self.along.c, self._shape(self.done)
        axes = c.axes("i", shape)
        index = points(axes)

        def write(role: str, value: Part) -> Ref:
            target = self._temporary(role, shape)
            stored = constant(0, self.along.dtype) if value is None else value
            c.builder.append(Pointwise(c.computed(target), axes, stored, index, c.origin))
            return target

        def named(value: Part) -> Part:
            is_named = value is None or isinstance(value, Load)
            return value if is_named else c.load(write("point", value), index)

        def keep(pair: Pair) -> Pair:
            return named(pair[0]), named(pair[1])

        found = butterfly(self._turned_points(index, sign), sign, keep)
        whole = []
        for part, name in enumerate(("real", "imaginary")):
            pieces = [write(f"{name}{k}", pair[part]) for k, pair in enumerate(found)]
            joined = self._temporary(name, self._shape(self.done * self.length))
            write_concats(c, joined, pieces, len(shape) - 2)
            whole.append(joined)
        real, imaginary = whole
        return lambda index: (c.load(real, index), c.load(imaginary, index))

    def _turned_points(self, index: Index, sign: int) -> list[Pair]:
        *rest, result, place = index
        given = [self.read((*rest, result, place + j * self.left)) for j in range(self.length)]
        if self.done == 1:
            return given
        along = self.along
        name = f"turns_{self.done}x{self.length}{sign_name(sign)}"
        table = complex_table(along.c, name, stage_roots(self.done, self.length, sign), along.dtype)
        turn = read_table(along.c, table)
        return [given[0], *(product(given[j], turn(j, result)) for j in range(1, self.length))]

    def summed(self, sign: int) -> Read:
        """A sum over the points, with a table of roots, for each result."""
        c, dtype, length, done = self.along.c, self.along.dtype, self.length, self.done
        whole = length * done
        numbers = roots(np.arange(whole), whole, sign)
        name = f"roots_{whole}{sign_name(sign)}"
        turn = read_table(c, complex_table(c, name, numbers, dtype))
        *rest, _, left = self._shape(done)
        shape = (*rest, Int.of(length), Int.of(done), left)

        def summand(index: Index, inner: Index) -> Pair:
            *others, digit, result, place = index
            (j,) = inner
            point = self.read((*others, result, place + j * self.left))
            return product(point, turn((j * (result + digit * done)) % whole))

        parts = []
        for part, role in enumerate(("real", "imaginary")):

            def lifted(index: Index, inner: Index, part: int = part) -> tuple[Value]:
                value = summand(index, inner)[part]
                return (constant(0, dtype) if value is None else value,)

            parts.append(self._temporary(role, shape))
            c.reduction((parts[-1],), "sum", (Int.of(length),), lifted)

        def read(index: Index) -> Pair:
            *others, result, place = index
            at = (*others, result // done, result % done, place)
            return c.load(parts[0], at), c.load(parts[1], at)

        return read

    def _shape(self, results: int) -> Shape:
        shape, dim = self.along.shape, self.along.dim
        return (*shape[:dim], *shape[dim + 1 :], Int.of(results), Int.of(self.left))

    def _temporary(self, role: str, shape: Shape) -> Ref:
        along = self.along
        return along.c.temporary(f"{along.role}_{self.name}_{role}", along.dtype, shape)


def read_table(c: Context, table: Ref) -> Callable[..., Pair]:
    """The numbers of a complex table by their indices."""

    def read(*index: Number) -> Pair:
        real, imaginary = (c.load(table, tuple(map(Int.of, (part, *index)))) for part in (0, 1))
        return real, imaginary

    return read


def stage_lengths(length: int) -> tuple[int, ...]:
    """The lengths of the stages, in order; none for a convolution."""
    if length <= WHOLE:
        return (length,)
    primes = [*prime_factors(length)]
    if primes[-1] > LONGEST_SUM:
        return ()
    long = [prime for prime in primes if prime > LONGEST_BUTTERFLY]
    return (*_balanced(length // prod(long)), *long)


@cache
def _balanced(number: int) -> tuple[int, ...]:
    """The fewest factors that are short enough, of those the most alike."""
    if number == 1:
        return ()
    short = [k for k in range(2, LONGEST_BUTTERFLY + 1) if number % k == 0]
    ways = [(k, *_balanced(number // k)) for k in short]
    return min(ways, key=lambda way: (len(way), sorted(way, reverse=True), way))


def _or_zero(conditions: list[Value], value: Part, dtype: DType) -> Value:
    zero = constant(0, dtype)
    return zero if value is None else guarded(conditions, value, zero)


def sign_name(sign: int) -> str:
    """What tells the tables of both directions apart."""
    return "_inverse" if sign > 0 else ""
