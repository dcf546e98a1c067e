"""nonzero_static: the indices of nonzero elements, in a result of fixed size."""

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.registry import lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, constant, position, target_from, where
from aotpack.stages import Ref


@lowering("aten.nonzero_static.default")
def nonzero_static(c: Context, self: Ref, *, size: Scalar, fill_value: int = -1) -> None:
    """The running count of nonzero elements gives the row of each index."""
    shape = c.shape(self)
    numel = product(shape)

    def is_found(flat: Int) -> Value:
        return cast(c.load(self, unflatten_index(flat, shape)), DType.BOOL)

    row = c.temporary("row", DType.INT64, (numel,))
    c.scan((row,), "sum", 0, lambda index: cast(is_found(index[0]), DType.INT64))
    start = c.temporary("start", DType.INT64, c.shape(c.result()))
    c.pointwise(start, lambda index: constant(fill_value, DType.INT64))
    rows = c.shape(c.result())[0]

    def place(point: Index) -> Index:
        found = apply("sub", c.load(row, point[:1]), 1)
        return target_from(where(is_found(point[0]), found, position(rows)), rows), point[1]

    def value(point: Index) -> Value:
        return coordinate(unflatten_index(point[0], shape), point[1])

    c.scatter(c.result(), start, "set", (numel, Int.of(len(shape))), place, value)


def coordinate(index: Index, column: Int) -> Value:
    """The entry of an index for a column of coordinates."""
    chosen = constant(0, DType.INT64)
    for number, entry in enumerate(index):
        is_here = apply("eq", position(column), number)
        chosen = where(is_here, position(entry), chosen)
    return chosen
