"""Copies, conversions, bit casts, and operators that do nothing in inference."""

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.opinfo import TWINS
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, decoded, encoded, position, round_to
from aotpack.stages import Arg, Ref


def _convert(c: Context, self: Ref | Scalar, *_: Arg, **__: Arg) -> None:
    """Copies and conversions: a cast to the result's dtype. ``vmap`` makes tensors of numbers."""
    if isinstance(self, Ref):
        c.pointwise(c.result(), lambda index: _converted(c, c.load(self, index)))
    else:
        number = round_to(constant(self, result_dtype(c)), result_dtype(c))
        c.pointwise(c.result(), lambda index: number)


def _converted(c: Context, value: Value) -> Value:
    """The value in the result's type; the model's own conversion rounds it."""
    return (round_to if c.node.rounds else cast)(value, result_dtype(c))


lowering(
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.to.other",
    "aten._to_copy.default",
    "aten.type_as.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.alias.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "aten.lift.default",
    "aten.positive.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
    "prims.convert_element_type.default",
)(_convert)


@lowering("aten.view.dtype")
def view_dtype(c: Context, self: Ref, dtype: DType) -> None:
    """A bit cast; with another item size an element splits into several, or several join."""
    before = c.dtype(self)
    if dtype is DType.BOOL is not before:
        raise CannotLower(f"reading {before} bytes as {dtype} is not accepted")

    def value(index: Index) -> Value:
        if before.itemsize > dtype.itemsize:
            return _with_bits(_split_bits(c, self, index, dtype.itemsize), dtype)
        if before.itemsize < dtype.itemsize:
            return _with_bits(_joined_bits(c, self, index, dtype.itemsize), dtype)
        return _with_bits(_bits(c.load(self, index), before), dtype)

    c.pointwise(c.result(), value)


def _split_bits(c: Context, self: Ref, index: Index, size: int) -> Value:
    """An integer whose low bits are one part, of ``size`` bytes, of an element."""
    before = c.dtype(self)
    ratio = before.itemsize // size
    bits = _bits(c.load(self, (*index[:-1], index[-1] // ratio)), before)
    return apply("shift_right", bits, position(index[-1] % ratio * (8 * size), bits.dtype))


def _joined_bits(c: Context, self: Ref, index: Index, size: int) -> Value:
    """The joined bits of neighbours, ``size`` bytes in all, in little-endian order."""
    before = c.dtype(self)
    ratio, width = size // before.itemsize, before.facts.bits
    wide = DType.INT64 if size == 8 else DType.INT32
    total: Value = constant(0, wide)
    for part in range(ratio):
        element = c.load(self, (*index[:-1], index[-1] * ratio + part))
        bits = apply("bitwise_and", cast(_bits(element, before), wide), (1 << width) - 1)
        total = apply("bitwise_or", total, apply("shift_left", bits, part * width))
    return total


def _bits(value: Value, dtype: DType) -> Value:
    """An integer whose low bits are those of an element; the high bits are undefined."""
    if dtype is DType.FLOAT16:
        return apply("half_bits", value)
    if dtype is DType.BFLOAT16:
        return apply("shift_right", apply("bits", apply("round_bfloat16", value)), 16)
    if dtype.is_float8:
        return encoded(value, dtype)
    return apply("bits", value) if dtype.is_float else value


def _with_bits(bits: Value, dtype: DType) -> Value:
    """The value of a type with the given bits."""
    if not dtype.is_float:
        return cast(bits, dtype)
    if dtype is DType.FLOAT16:
        return apply("of_half_bits", cast(bits, DType.INT32))
    if dtype is DType.BFLOAT16:
        return apply("bits", apply("shift_left", cast(bits, DType.INT32), 16))
    if dtype.is_float8:
        return decoded(cast(bits, DType.UINT8), dtype)
    return apply("bits", cast(bits, TWINS[dtype]))


@lowering("aten.copy.default")
def copy(c: Context, self: Ref, src: Ref, non_blocking: bool = False) -> None:
    c.pointwise(c.result(), lambda index: _converted(c, c.broadcast(src, index)))


@lowering("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
def dropout(c: Context, input: Ref, p: float, train: bool) -> None:
    if train and p > 0:
        raise CannotLower("dropout is on; call model.eval() before the build")
    c.pointwise(c.result(), lambda index: c.load(input, index))
