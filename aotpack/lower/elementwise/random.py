"""Random bits, to which tracing reduces all random operators."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Value
from aotpack.lower.context import Context, Index
from aotpack.lower.registry import lowering
from aotpack.lower.values import position
from aotpack.stages import Arg, Ref

LONGEST_STREAM = 2**40  # elements of one drawn tensor


@lowering("aotpack.philox.default")
def philox(c: Context, seed: Ref, stream: int, size: Arg) -> None:
    """An element's counter is its row-major position after all earlier streams."""

    def value(index: Index) -> Value:
        place = flatten_index(index, c.shape(c.result()))
        counter = position(Int.of(stream) * LONGEST_STREAM + place)
        return Apply("philox", (c.load(seed, ()), counter), DType.INT64)

    c.pointwise(c.result(), value)
