"""Distances between the rows of one or two tensors."""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.rewrite import as_index
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, is_empty
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.reductions.variance_norms import norm_parts
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, constant, position, where
from aotpack.stages import Arg, Ref


@lowering("aten._cdist_forward.default")
def cdist(c: Context, x1: Ref, x2: Ref, p: float, compute_mode: Arg = None) -> None:
    """[..., n, d] and [..., m, d] -> [..., n, m]: the p-norms of all differences of rows.

    Dimensions before the last two broadcast.
    """

    def difference(outer: Index, k: Int) -> Value:
        *batch, row, column = outer
        first, second = (*batch, row, k), (*batch, column, k)
        return apply("sub", c.broadcast(x1, first), c.broadcast(x2, second))

    _write_norms(c, p, c.shape(x1)[-1], difference)


@lowering("aten._pdist_forward.default")
def pdist(c: Context, self: Ref, p: float = 2.0) -> None:
    """[n, d] -> [n * (n - 1) / 2]: the p-norms of the differences of each row and later ones."""
    rows = c.shape(self)[0]

    def difference(outer: Index, k: Int) -> Value:
        first, second = _pair(outer[0], rows)
        return apply("sub", c.load(self, (first, k)), c.load(self, (second, k)))

    _write_norms(c, p, c.shape(self)[1], difference)


def _pair(number: Int, rows: Int) -> tuple[Int, Int]:
    """The rows of a numbered pair; below 2**26 rows one step corrects the root's rounding."""
    wide, whole = DType.FLOAT64, DType.INT64
    odd = position(2 * rows - 1, wide)
    square = apply("sub", apply("square", odd), position(8 * number, wide))
    guess = cast(apply("mul", apply("sub", odd, apply("sqrt", square)), 0.5), whole)

    def before(row: Value) -> Value:
        """The number of pairs with an earlier first row."""
        return apply("floordiv", apply("mul", row, apply("sub", position(2 * rows - 1), row)), 2)

    late = apply("gt", before(guess), position(number))
    first = apply("sub", guess, cast(late, whole))
    early = apply("le", before(apply("add", first, 1)), position(number))
    first = apply("add", first, cast(early, whole))
    first = apply("maximum", apply("minimum", first, position(rows - 2)), 0)
    second = apply("add", apply("sub", position(number + 1), before(first)), first)
    second = apply("maximum", apply("minimum", second, position(rows - 1)), 0)
    return as_index(first, rows), as_index(second, rows)


def _write_norms(
    c: Context, p: float, depth: Int, difference: Callable[[Index, Int], Value]
) -> None:
    wide = result_dtype(c).compute
    kind, element, finish = norm_parts(float(p))
    element = _is_other if p == 0 else element
    if is_empty((depth,)):
        c.pointwise(c.result(), lambda index: constant(0, wide))
        return
    state = c.temporary(kind, wide, c.shape(c.result()))
    c.reduction(
        (state,), kind, (depth,), lambda outer, inner: (element(difference(outer, inner[0])),)
    )
    c.pointwise(c.result(), lambda index: finish(c.load(state, index)))


def _is_other(difference: Value) -> Value:
    """1 for a difference, 0 for none, NaN for what is no number."""
    is_number = apply("eq", difference, difference)
    return where(is_number, cast(cast(difference, DType.BOOL), difference.dtype), difference)
