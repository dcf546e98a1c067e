"""Factories: constants, ranges, the identity matrix."""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, constant, position, round_to, where
from aotpack.stages import Arg, Ref

_END_KINDS = ("default", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor")


def _filled(number: Scalar) -> Callable[..., None]:
    def handler(c: Context, *_: Arg, **__: Arg) -> None:
        c.pointwise(c.result(), lambda index: constant(number, result_dtype(c)))

    return handler


for _kind, _number in (("zeros", 0), ("ones", 1), ("empty", 0)):
    lowering(
        f"aten.{_kind}.default" if _kind != "empty" else "aten.empty.memory_format",
        f"aten.{_kind}_like.default",
        f"aten.new_{_kind}.default",
    )(_filled(_number))
lowering("aten.zero.default")(_filled(0))
lowering("aten.empty_strided.default", "aten.new_empty_strided.default")(_filled(0))
lowering("aten.empty_permuted.default")(_filled(0))


@lowering("aten.full.default")
def full(c: Context, size: Arg, fill_value: Ref | Scalar, **_: Arg) -> None:
    dtype = result_dtype(c)
    c.pointwise(c.result(), lambda index: round_to(c.operand(fill_value, index, dtype), dtype))


@lowering("aten.full_like.default")
def full_like(c: Context, self: Ref, fill_value: Ref | Scalar, *, dtype: Arg = None) -> None:
    full(c, None, fill_value)


@lowering("aten.new_full.default")
def new_full(
    c: Context, self: Ref, size: Arg, fill_value: Ref | Scalar, *, dtype: Arg = None
) -> None:
    full(c, size, fill_value)


@lowering("aten.scalar_tensor.default")
def scalar_tensor(c: Context, s: Ref | Scalar, *, dtype: Arg = None) -> None:
    full(c, None, s)


@lowering("aten.fill.Scalar", "aten.fill.Tensor")
def fill(c: Context, self: Ref, value: Ref | Scalar) -> None:
    c.pointwise(c.result(), lambda index: c.operand(value, index, result_dtype(c)))


@lowering("aten.arange.default")
def arange(c: Context, end: Scalar, *, dtype: Arg = None) -> None:
    arange_step(c, 0, end)


@lowering("aten.arange.start")
def arange_start(c: Context, start: Scalar, end: Scalar, *, dtype: Arg = None) -> None:
    arange_step(c, start, end)


@lowering("aten.arange.start_step")
def arange_step(
    c: Context, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Arg = None
) -> None:
    """``start + step * i``: an index where both are integers, else in the result's type."""
    common = result_dtype(c)

    def value(index: Index) -> Value:
        if not isinstance(start, float) and not isinstance(step, float):
            return position(Int.of(start) + index[0] * step, common)
        counted = apply("mul", position(index[0], common), constant(step, common))
        return apply("add", counted, constant(start, common))

    c.pointwise(c.result(), value)


@lowering(*(f"aten.linspace.{kind}" for kind in _END_KINDS))
def linspace(
    c: Context, start: Ref | Scalar, end: Ref | Scalar, steps: Scalar, *, dtype: Arg = None
) -> None:
    """Computed from the nearer end, as in torch, so that both ends are exact.

    For integers the ends are truncated first, then the values between them, from float64.
    """
    result = result_dtype(c)
    common = result if result.is_float else DType.FLOAT64
    count = c.shape(c.result())[0]

    def value(index: Index) -> Value:
        first, last = (cast(c.operand(x, (), result), common) for x in (start, end))
        return cast(between(first, last, index[0], count, common), result)

    c.pointwise(c.result(), value)


def between(first: Value, last: Value, place: Int, count: Int, common: DType) -> Value:
    """The value at a position of ``count`` equal steps from first to last."""
    if count.constant == 1:
        return first
    step = apply("div", apply("sub", last, first), position(count - 1, common))
    low = apply("add", apply("mul", position(place, common), step), first)
    left = position(count - 1 - place, common)
    high = apply("sub", last, apply("mul", left, step))
    return where(apply("lt", position(place), position(count // 2)), low, high)


@lowering("aten.eye.default", "aten.eye.m")
def eye(c: Context, n: Scalar, m: Scalar = 0, *, dtype: Arg = None) -> None:
    def value(index: Index) -> Value:
        return cast(apply("eq", position(index[0]), position(index[1])), result_dtype(c))

    c.pointwise(c.result(), value)
