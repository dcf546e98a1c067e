"""Tables of roots of unity, computed in float64 and rounded once.

Angles are reduced as integers first, so that a long table is as exact as a short one.
"""

import numpy as np

from aotpack.ir.dtypes import DType
from aotpack.lower.context import Context
from aotpack.stages import Ref

Table = np.ndarray


def roots(numbers: Table, length: int, sign: int) -> Table:
    """``exp(sign * 2 pi i * number / length)``."""
    turns = numbers % length
    eighth = (8 * turns) // length  # angles within an eighth of a turn of a multiple of a quarter
    quarter = ((eighth + 1) // 2) % 4
    rest = 4 * turns - length * ((eighth + 1) // 2)
    angle = rest * (np.pi / 2) / length
    cosine, sine = np.cos(angle), np.sin(angle)
    real = np.choose(quarter, [cosine, -sine, -cosine, sine])
    imaginary = np.choose(quarter, [sine, cosine, -sine, -cosine])
    return real + 1j * (sign * imaginary)


def root(number: int, length: int, sign: int) -> complex:
    """One root of unity."""
    return complex(roots(np.asarray(number), length, sign))


def stage_roots(done: int, length: int, sign: int) -> Table:
    """The turns of point ``j`` (of ``length``) for each result ``k`` (of ``done``)."""
    return roots(np.outer(np.arange(length), np.arange(done)), done * length, sign)


def chirp(length: int, sign: int) -> Table:
    """``exp(sign * pi i * j * j / length)`` for all j."""
    places = np.arange(length, dtype=np.int64)
    return roots(places * places, 2 * length, sign)


def chirp_spectrum(length: int, padded: int, sign: int) -> Table:
    """The spectrum over ``padded`` of the chirp that turns the other way, around 0."""
    turned = np.zeros(padded, np.complex128)
    turned[:length] = chirp(length, -sign)
    turned[padded - length + 1 :] = turned[1:length][::-1]
    return np.fft.fft(turned)


def complex_table(c: Context, name: str, table: Table, dtype: DType) -> Ref:
    """A constant with real parts in front of imaginary ones."""
    parts = np.stack([table.real, table.imag])
    return c.builder.table(f"{name}_{dtype}", dtype, parts)
