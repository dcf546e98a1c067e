"""Elementwise choices between values: where, masked_fill, clamp, triu, tril."""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Number
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, constant, position, where
from aotpack.stages import Ref


@lowering("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def select_where(c: Context, condition: Ref, self: Ref | Scalar, other: Ref | Scalar) -> None:
    common = result_dtype(c)

    def value(index: Index) -> Value:
        a, b = c.operand(self, index, common), c.operand(other, index, common)
        return where(c.operand(condition, index, DType.BOOL), a, b)

    c.pointwise(c.result(), value)


@lowering("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(c: Context, self: Ref, mask: Ref, value: Ref | Scalar) -> None:
    select_where(c, mask, value, self)


@lowering("aten.clamp.default", "aten.clamp.Tensor", "aten.clip.default", "aten.clip.Tensor")
def clamp(
    c: Context, self: Ref, min: Ref | Scalar | None = None, max: Ref | Scalar | None = None
) -> None:
    common = result_dtype(c)

    def value(index: Index) -> Value:
        x = c.operand(self, index, common)
        if min is not None:
            x = apply("maximum", x, c.operand(min, index, common))
        return x if max is None else apply("minimum", x, c.operand(max, index, common))

    c.pointwise(c.result(), value)


@lowering("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(c: Context, self: Ref, min: Ref | Scalar) -> None:
    clamp(c, self, min=min)


@lowering("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(c: Context, self: Ref, max: Ref | Scalar) -> None:
    clamp(c, self, max=max)


def _triangle(keep: str) -> Callable[[Context, Ref, Number], None]:
    def handler(c: Context, self: Ref, diagonal: Number = 0) -> None:
        def value(index: Index) -> Value:
            inside = apply(keep, position(index[-1]), position(index[-2] + diagonal))
            x = c.load(self, index)
            return where(inside, x, constant(0, x.dtype))

        c.pointwise(c.result(), value)

    return handler


lowering("aten.tril.default")(_triangle("le"))
lowering("aten.triu.default")(_triangle("ge"))
