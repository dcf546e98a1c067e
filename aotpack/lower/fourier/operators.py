"""torch's three transforms: of complex numbers, from real numbers, and to real numbers.

A real transform of an even length is one of half the length, whose points are neighbours:

    z[j] = x[2 j] + i x[2 j + 1]
    X[k] = (Z[k] + conj Z[m - k]) / 2 - i w(k) (Z[k] - conj Z[m - k]) / 2
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape
from aotpack.lower.elementwise.complex_pairs import part_of, parts_of
from aotpack.lower.fourier.butterflies import Pair, Part, conjugate, minus, plus, product, times
from aotpack.lower.fourier.tables import Table, complex_table, roots
from aotpack.lower.fourier.transform import Along, Read, read_table, sign_name
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, constant, guarded, position, where
from aotpack.lower.views.view import replaced
from aotpack.stages import Ref

_BY_ROOT, _BY_LENGTH = 1, 2  # how torch numbers the norms; 0 is none
SHORTEST_HALVED = 32


@lowering("pair.fft_c2c")
def fft_c2c(c: Context, self: Ref, dim: tuple[int, ...], normalization: int, forward: bool) -> None:
    shape = _complex_shape(c, self)
    lengths = _lengths(shape, dim)
    read = _along_each(c, shape, _read(c, self), dim, -1 if forward else 1)
    _write(c, read, _factor(lengths, normalization))


@lowering("pair.fft_r2c")
def fft_r2c(
    c: Context, self: Ref, dim: tuple[int, ...], normalization: int, onesided: bool
) -> None:
    """The last of ``dim`` is transformed first; with ``onesided``, half of its results are."""
    shape = c.shape(self)
    lengths = _lengths(shape, dim)
    last, length = dim[-1], lengths[-1]
    along = Along(c, shape, last, c.dtype(self), f"d{last}")

    def real(index: Index) -> Pair:
        return c.load(self, index), None

    read = _halved(along, real, length) if _halves(length) else along.transformed(real, length, -1)
    read = _along_each(c, _complex_shape(c, c.result()), read, dim[:-1], -1)
    _write(c, read, _factor(lengths, normalization))


@lowering("pair.fft_c2r")
def fft_c2r(
    c: Context, self: Ref, dim: tuple[int, ...], normalization: int, last_dim_size: int
) -> None:
    """The last of ``dim`` is transformed last; what it lacks is the conjugate of what it has."""
    shape, last, length = _complex_shape(c, self), dim[-1], last_dim_size
    lengths = [*_lengths(shape, dim[:-1]), _length(Int.of(length))]
    read = _along_each(c, shape, _read(c, self), dim[:-1], 1)
    along = Along(c, shape, last, c.dtype(self), f"d{last}")
    if _halves(length):
        numbers = _joined(along, read, length)
    else:
        whole = along.transformed(_mirrored(along, read, length), length, 1)

        def numbers(index: Index) -> Part:
            return whole(index)[0]

    factor = _factor(lengths, normalization)

    def value(index: Index) -> Value:
        return _or(times((numbers(index), None), factor)[0], constant(0, c.dtype(self)))

    c.pointwise(c.result(), value)


# --- shapes and norms ---------------------------------------------------------------------------


def _complex_shape(c: Context, ref: Ref) -> Shape:
    return c.shape(ref)[:-1]


def _lengths(shape: Shape, dims: Sequence[int]) -> list[int]:
    return [_length(shape[dim]) for dim in dims]


def _length(size: Int) -> int:
    if size.constant is None:
        raise CannotLower(
            f"the length of a Fourier transform is dynamic ({size}); fixed lengths are accepted: "
            "give n= (or s=), which pads or cuts, or transform along a dimension of fixed length"
        )
    return size.constant


def _factor(lengths: Sequence[int], normalization: int) -> float:
    whole = math.prod(lengths)
    if normalization == _BY_ROOT:
        return 1 / math.sqrt(whole)
    return 1 / whole if normalization == _BY_LENGTH else 1.0


# --- reading and writing ------------------------------------------------------------------------


def _read(c: Context, ref: Ref) -> Read:
    return lambda index: parts_of(c, ref, index)


def _along_each(c: Context, shape: Shape, read: Read, dims: Sequence[int], sign: int) -> Read:
    """Transforms along several dimensions of complex numbers, the last first."""
    dtype = c.dtype(c.result())
    for dim in reversed(dims):
        along = Along(c, shape, dim, dtype, f"d{dim}")
        read = along.transformed(read, _length(shape[dim]), sign)
    return read


def _write(c: Context, read: Read, factor: float) -> None:
    zero = constant(0, c.dtype(c.result()))

    def value(index: Index) -> Value:
        real, imaginary = times(read(index[:-1]), factor)
        return part_of(index, (_or(real, zero), _or(imaginary, zero)))

    c.pointwise(c.result(), value)


def _or(part: Part, zero: Value) -> Value:
    return zero if part is None else part


# --- half lengths -------------------------------------------------------------------------------


def _halves(length: int) -> bool:
    return length % 2 == 0 and length >= SHORTEST_HALVED


def _turns(along: Along, length: int, sign: int) -> Read:
    """``exp(sign * 2 pi i * k / length)`` for the index along the dimension."""
    table: Table = roots(np.arange(length), length, sign)
    name = f"roots_{length}{sign_name(sign)}"
    read = read_table(along.c, complex_table(along.c, name, table, along.dtype))
    return lambda index: read(index[along.dim])


def _halved(along: Along, read: Read, length: int) -> Read:
    """A transform of real numbers: neighbours are the parts of a complex number."""
    dim, half = along.dim, length // 2

    def neighbours(index: Index) -> Pair:
        places = (replaced(index, dim, index[dim] * 2 + part) for part in (0, 1))
        real, imaginary = (read(place)[0] for place in places)
        return real, imaginary

    whole = along.transformed(neighbours, half, -1)
    turns = _turns(along, length, -1)

    def found(index: Index) -> Pair:
        k = index[dim]
        here = whole(replaced(index, dim, k % half))
        there = conjugate(whole(replaced(index, dim, (length - k) % half)))
        even, odd = plus(here, there), minus(here, there)
        turned = product((odd[1], times(odd, -1)[0]), turns(index))
        return times(plus(even, turned), 0.5)

    return found


def _joined(along: Along, read: Read, length: int) -> Callable[[Index], Part]:
    """Real numbers from half of a spectrum: neighbours are the parts of a complex number."""
    dim, half = along.dim, length // 2
    turns = _turns(along, length, 1)

    def real_ends(index: Index) -> Pair:
        """The first and the last number count as real."""
        real, imaginary = read(index)
        k = position(index[dim])
        if imaginary is None:
            return real, None
        is_end = apply("logical_or", apply("eq", k, 0), apply("eq", k, half))
        return real, where(is_end, 0.0, imaginary)

    def spectrum(index: Index) -> Pair:
        here = real_ends(index)
        there = conjugate(real_ends(replaced(index, dim, half - index[dim])))
        turned = product(minus(here, there), turns(index))
        return plus(plus(here, there), (times(turned, -1)[1], turned[0]))

    whole = along.transformed(spectrum, half, 1)

    def number(index: Index) -> Part:
        pair = whole(replaced(index, dim, index[dim] // 2))
        zero = constant(0, along.dtype)
        is_even = apply("eq", position(index[dim] % 2), 0)
        return where(is_even, _or(pair[0], zero), _or(pair[1], zero))

    return number


def _mirrored(along: Along, read: Read, length: int) -> Read:
    """A spectrum of which the second half is the conjugate of the first, in reverse."""
    dim, half = along.dim, length // 2
    zero = constant(0, along.dtype)

    def whole(index: Index) -> Pair:
        k = index[dim]
        near = read(index)
        far = conjugate(read(replaced(index, dim, length - k)))
        inside, behind = range_checks(k, 0, half + 1), range_checks(k, half + 1, length)

        def chosen(a: Part, b: Part) -> Value:
            return guarded(inside, _or(a, zero), guarded(behind, _or(b, zero), zero))

        return chosen(near[0], far[0]), chosen(near[1], far[1])

    return whole
