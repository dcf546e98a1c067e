"""cumsum, cumprod, cummax, logcumsumexp: running reductions along one dimension."""

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import cast, position
from aotpack.stages import Arg, Ref


def _register(operator: str, kind: str) -> None:
    @lowering(operator)
    def handler(c: Context, self: Ref, dim: int, *, dtype: Arg = None) -> None:
        """In the accumulator of the result's type, rounded or wrapped to it at the end."""
        result = result_dtype(c)
        if c.rank(self) == 0:
            c.pointwise(c.result(), lambda index: cast(c.load(self, index), result))
            return

        def element(index: Index) -> Value:
            return cast(cast(c.load(self, index), result), result.accumulator)

        if result.accumulator is result.compute:
            c.scan((c.result(),), kind, c.dim(self, dim), element)
            return
        wide = c.temporary(kind, result.accumulator, c.shape(self))
        c.scan((wide,), kind, c.dim(self, dim), element)
        c.pointwise(c.result(), lambda index: c.load(wide, index))


_register("aten.cumsum.default", "sum")
_register("aten.cumprod.default", "prod")


@lowering("aten.logcumsumexp.default")
def logcumsumexp(c: Context, self: Ref, dim: int) -> None:
    if c.rank(self) == 0:
        c.pointwise(c.result(), lambda index: c.load(self, index))
        return
    c.scan((c.result(),), "logsumexp", c.dim(self, dim), lambda index: c.load(self, index))


def _register_extreme(kind: str) -> None:
    @lowering(f"aten.{kind}.default")
    def handler(c: Context, self: Ref, dim: int) -> None:
        targets = (c.result(0), c.result(1))
        if c.rank(self) == 0:
            c.pointwise(targets[0], lambda index: c.load(self, index))
            c.pointwise(targets[1], lambda index: position(0))
            return
        if c.dtype(self) is not DType.BOOL:
            c.scan(targets, kind, c.dim(self, dim), lambda index: c.load(self, index))
            return
        numbers = c.temporary("numbers", DType.INT32, c.shape(self))
        along, both = c.dim(self, dim), (numbers, targets[1])
        c.scan(both, kind, along, lambda index: cast(c.load(self, index), DType.INT32))
        c.pointwise(targets[0], lambda index: cast(c.load(numbers, index), DType.BOOL))


_register_extreme("cummax")
_register_extreme("cummin")
