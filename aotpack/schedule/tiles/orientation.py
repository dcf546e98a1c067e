"""Which side of a product's tile the lanes of a warp go along when they store its results.

    y[n*3199 + m % 3199]      a result of [b, n, t], rows are (b, t)

Triton lays lanes along the side with the longer runs of neighbours that it can prove, of equal runs
along columns. Runs in steps of 2, or of an odd length, prove nothing: each lane would then store to
a cache line of its own. A turned tile has the rows of the product as columns
(docs/measurements/h200_convolution_kinds.csv).

float32 factors are split in parts in registers, and the columns' go back to shared memory: rows
that do not lie along the sum are slow there (a 1x1 convolution in 675 us, not 285).
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import Strides, accesses, axes_in, dot, local_slope
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int, Remainder
from aotpack.ir.values import Load, Value, walk


def is_turned(kernel: Kernel, strides: Strides) -> bool:
    """True if results of neighbouring rows lie nearer than those of columns, and none shows it."""
    product = kernel.template_op
    assert isinstance(product, Matmul)
    if product.operand is DType.FLOAT32 and not _lies_along(product.lhs, product.k, strides):
        return False
    stored = [access.offset(strides) for access in accesses(kernel) if access.is_store]
    return bool(stored) and all(_hides_rows(offset, product.m, product.n) for offset in stored)


def _lies_along(factor: Value, k: Axis, strides: Strides) -> bool:
    """True if every element that a factor reads is a neighbour of that of the next step."""
    loads = [part for part in walk((factor,)) if isinstance(part, Load)]
    along = [load for load in loads if k in axes_in(load.index)]
    return all(local_slope(dot(load.index, strides[load.buffer]), k) == 1 for load in along)


def _hides_rows(offset: Int, row: Axis, column: Axis) -> bool:
    along, across = local_slope(offset, row), local_slope(offset, column)
    if not along or not across or abs(along) >= abs(across):
        return False
    return along != 1 or not _has_pairs(offset, row)


def _has_pairs(offset: Int, axis: Axis) -> bool:
    """True if neighbours along an axis come at least by two, at a known place."""
    for monomial, step in offset.terms:
        if step != 1 or len(monomial) != 1:
            continue
        (atom,) = monomial
        if atom is axis:
            return True
        if isinstance(atom, Remainder) and atom.num.atom is axis:
            return known_multiple(atom.den, 2)
    return False


def turned(tile: MatmulTile) -> MatmulTile:
    """The same work of matrix units, with sides exchanged."""
    return replace(tile, m=tile.n, n=tile.m, swapped=True)


def may_turn(tile: MatmulTile) -> bool:
    """False for tiles through descriptors, and those of several blocks of columns."""
    return not tile.descriptors and len(tile.columns) == 1
