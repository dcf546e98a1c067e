"""Elementwise operators that map to one operator of the op table, or nearly: table-driven.

A call computes in the type of its result ("result"), in the promoted type of its operands
("operands": comparisons), or in bool ("truth").
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.promotion import Operand, number_type, result_type
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, constant, rounded, where
from aotpack.stages import Arg, Ref


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An aten operator's entry in the op table; ``boolean`` is the operator for bools."""

    op: str
    domain: str = "result"
    boolean: str | None = None


_SAME_NAME = [
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "sigmoid",
    "reciprocal",
    "neg",
    "abs",
    "sign",
    "relu",
    "square",
]
UNARY = {
    **{name: name for name in _SAME_NAME},
    "_neg_view": "neg",
    **{f"special_{name}": name for name in ("erf", "erfc", "exp2", "expm1", "log1p")},
    "special_expit": "sigmoid",
    "sgn": "sign",
}
ROUNDING = ("floor", "ceil", "trunc", "round")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

BINARY = {
    "mul": Elementwise("mul", boolean="logical_and"),
    "remainder": Elementwise("remainder"),
    "fmod": Elementwise("fmod"),
    "maximum": Elementwise("maximum", boolean="logical_or"),
    "minimum": Elementwise("minimum", boolean="logical_and"),
    "atan2": Elementwise("atan2"),
    "arctan2": Elementwise("atan2"),
    "bitwise_and": Elementwise("bitwise_and", boolean="logical_and"),
    "bitwise_or": Elementwise("bitwise_or", boolean="logical_or"),
    "bitwise_xor": Elementwise("bitwise_xor", boolean="logical_xor"),
    "__and__": Elementwise("bitwise_and", boolean="logical_and"),
    "__or__": Elementwise("bitwise_or", boolean="logical_or"),
    "__xor__": Elementwise("bitwise_xor", boolean="logical_xor"),
    "bitwise_left_shift": Elementwise("shift_left"),
    "bitwise_right_shift": Elementwise("shift_right"),
    "__lshift__": Elementwise("shift_left"),
    "__rshift__": Elementwise("shift_right"),
    "floor_divide": Elementwise("floordiv"),
    **{name: Elementwise(name, "operands") for name in COMPARISONS},
    **{f"logical_{name}": Elementwise(f"logical_{name}", "truth") for name in ("and", "or", "xor")},
}
OVERLOADS = ("Tensor", "Scalar", "Scalar_Tensor", "Tensor_Scalar", "default")


def operand_type(c: Context, operands: tuple[Arg, ...]) -> DType:
    """The type that torch promotes tensors and numbers to."""
    found = []
    for operand in operands:
        if isinstance(operand, Ref):
            strength = "tensor" if c.rank(operand) else "zero-dim"
            found.append(Operand(c.dtype(operand), strength))
        else:
            found.append(Operand(number_type(operand), "number"))
    return result_type(found)


def result_dtype(c: Context) -> DType:
    """The element type of the first result."""
    return c.dtype(c.result())


def _binary(entry: Elementwise) -> Callable[[Context, Ref | Scalar, Ref | Scalar], None]:
    def handler(c: Context, self: Ref | Scalar, other: Ref | Scalar) -> None:
        common, op = result_dtype(c), entry.op
        if entry.domain == "truth":
            common = DType.BOOL
        elif entry.domain == "operands":
            common = operand_type(c, (self, other))
            self, other = _round_number(self, common), _round_number(other, common)
            common = DType.INT32 if common is DType.BOOL else common
        elif common is DType.BOOL:
            op = entry.boolean or op

        def value(index: Index) -> Value:
            return apply(op, c.operand(self, index, common), c.operand(other, index, common))

        c.pointwise(c.result(), value)

    return handler


def _round_number(operand: Ref | Scalar, dtype: DType) -> Ref | Scalar:
    """Round a number to the tensor's type before a comparison, as eager does."""
    return rounded(operand, dtype) if isinstance(operand, float) else operand


for _name, _entry in BINARY.items():
    _handler = _binary(_entry)
    lowering(*(f"aten.{_name}.{overload}" for overload in OVERLOADS))(_handler)


_KEEP_TRUTH = ("sign",)


def _unary(op: str) -> Callable[[Context, Ref], None]:
    def handler(c: Context, self: Ref) -> None:
        common = result_dtype(c)
        if common is DType.BOOL and op in _KEEP_TRUTH:
            c.pointwise(c.result(), lambda index: c.load(self, index))
            return
        c.pointwise(c.result(), lambda index: apply(op, c.operand(self, index, common)))

    return handler


for _name, _op in UNARY.items():
    lowering(f"aten.{_name}.default")(_unary(_op))


def _to_integral(op: str) -> Callable[[Context, Ref], None]:
    def handler(c: Context, self: Ref) -> None:
        def value(index: Index) -> Value:
            x = c.load(self, index)
            return apply(op, x) if x.dtype.is_float else x

        c.pointwise(c.result(), value)

    return handler


for _name in ROUNDING:
    lowering(f"aten.{_name}.default")(_to_integral(_name))


@lowering("aten.round.decimals")
def round_decimals(c: Context, self: Ref, *, decimals: int) -> None:
    def value(index: Index) -> Value:
        x = c.load(self, index)
        if not x.dtype.is_float or decimals == 0:
            return apply("round", x) if x.dtype.is_float else x
        scale = 10.0 ** abs(decimals)
        there, back = ("mul", "div") if decimals > 0 else ("div", "mul")
        return apply(back, apply("round", apply(there, x, scale)), scale)

    c.pointwise(c.result(), value)


@lowering("aten.add.Tensor", "aten.add.Scalar")
def add(c: Context, self: Ref | Scalar, other: Ref | Scalar, alpha: Ref | Scalar = 1) -> None:
    _scaled_sum(c, "add", self, other, alpha)


@lowering("aten.sub.Tensor", "aten.sub.Scalar")
def sub(c: Context, self: Ref | Scalar, other: Ref | Scalar, alpha: Ref | Scalar = 1) -> None:
    _scaled_sum(c, "sub", self, other, alpha)


@lowering("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(c: Context, self: Ref | Scalar, other: Ref | Scalar, alpha: Ref | Scalar = 1) -> None:
    _scaled_sum(c, "sub", other, self, alpha)


def _scaled_sum(
    c: Context, op: str, self: Ref | Scalar, other: Ref | Scalar, alpha: Ref | Scalar
) -> None:
    common = result_dtype(c)
    boolean = common is DType.BOOL and op == "add"

    def value(index: Index) -> Value:
        a, b = c.operand(self, index, common), c.operand(other, index, common)
        if boolean:
            return apply("logical_or", a, b) if alpha != 0 else a
        return apply(op, a, b if alpha == 1 else apply("mul", b, c.operand(alpha, index, common)))

    c.pointwise(c.result(), value)


@lowering(
    "aten.div.Tensor", "aten.div.Scalar", "aten.true_divide.Tensor", "aten.true_divide.Scalar"
)
@lowering("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div(
    c: Context, self: Ref | Scalar, other: Ref | Scalar, *, rounding_mode: str | None = None
) -> None:
    common = result_dtype(c)

    def value(index: Index) -> Value:
        a, b = c.operand(self, index, common), c.operand(other, index, common)
        if rounding_mode == "floor":
            return apply("floordiv", a, b)
        if rounding_mode == "trunc" and not common.is_float:
            return apply("truncdiv", a, b)
        quotient = apply("div", a, b)
        return apply("trunc", quotient) if rounding_mode == "trunc" else quotient

    c.pointwise(c.result(), value)


@lowering("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(c: Context, self: Ref | Scalar, exponent: Ref | Scalar) -> None:
    common = result_dtype(c)

    def value(index: Index) -> Value:
        base = c.operand(self, index, common)
        if isinstance(exponent, (bool, int, float)):
            short = constant_power(base, exponent)
            if short is not None:
                return short
        power = c.operand(exponent, index, common)
        return apply("pow", base, power) if common.is_float else _integer_power(base, power)

    c.pointwise(c.result(), value)


def _integer_power(base: Value, exponent: Value) -> Value:
    """By squaring, one step for each bit; negative powers are 0, except of 1 and -1."""
    result, square, rest = constant(1, base.dtype), base, exponent
    for _ in range(base.dtype.facts.bits - (base.dtype.facts.kind == "int")):
        odd = apply("ne", apply("bitwise_and", rest, 1), 0)
        result = where(odd, apply("mul", result, square), result)
        square = apply("mul", square, square)
        rest = apply("shift_right", rest, 1)
    unit = apply("eq", apply("mul", base, base), 1)
    inverse = where(apply("eq", apply("bitwise_and", exponent, 1), 0), 1, base)
    negative = where(apply("logical_and", unit, apply("le", apply("abs", base), 1)), inverse, 0)
    return where(apply("lt", exponent, 0), negative, result)


def constant_power(base: Value, exponent: float) -> Value | None:
    """A power as products, a root or a reciprocal; None for other exponents."""
    if exponent == 0.5:
        return apply("sqrt", base)
    if exponent in (-0.5, -1, -2):
        inner = apply("square", base) if exponent == -2 else base
        return apply("rsqrt" if exponent == -0.5 else "reciprocal", inner)
    if (
        not math.isfinite(exponent)
        or exponent != int(exponent)
        or exponent < 0
        or (base.dtype.is_float and exponent > 3)
    ):
        return None
    return _product_power(base, int(exponent))


def _product_power(base: Value, exponent: int) -> Value:
    if exponent == 0:
        return constant(1, base.dtype)
    half = _product_power(base, exponent // 2) if exponent > 1 else base
    if exponent == 1:
        return base
    even = apply("mul", half, half)
    return apply("mul", even, base) if exponent % 2 else even
