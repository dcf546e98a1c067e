"""The semantics of elementwise operators: numpy functions in the type of their operands.

Accuracy is numpy's; where numpy has no such function, it is computed in float64 and rounded.
Integer results wrap. Used by the evaluator, by constant folding and by the tests of the op table.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from aotpack.ir.dtypes import DType

Array: TypeAlias = npt.NDArray[Any]
Reference: TypeAlias = Callable[..., Array]

add: Reference = np.add
sub: Reference = np.subtract
mul: Reference = np.multiply
square: Reference = np.square
absolute: Reference = np.abs
div: Reference = np.true_divide
fmod: Reference = np.fmod
minimum: Reference = np.minimum
maximum: Reference = np.maximum
where: Reference = np.where
exp: Reference = np.exp
exp2: Reference = np.exp2
sqrt: Reference = np.sqrt
tanh: Reference = np.tanh
atan2: Reference = np.arctan2
logical_and: Reference = np.logical_and
logical_or: Reference = np.logical_or
logical_xor: Reference = np.logical_xor
logical_not: Reference = np.logical_not
bitwise_and: Reference = np.bitwise_and
bitwise_or: Reference = np.bitwise_or
bitwise_xor: Reference = np.bitwise_xor
bitwise_not: Reference = np.invert
isnan: Reference = np.isnan
isinf: Reference = np.isinf


def identity(x: Array) -> Array:
    """The operand itself; the caller casts it to the result's type."""
    return x


def neg(x: Array) -> Array:
    """The negative, wrapping for integers."""
    return np.subtract(np.zeros((), x.dtype), x) if x.dtype.kind == "u" else np.negative(x)


def reciprocal(x: Array) -> Array:
    """``1 / x``."""
    return np.true_divide(np.ones((), x.dtype), x)


def relu(x: Array) -> Array:
    """The larger of x and zero; NaN stays."""
    return np.maximum(x, np.zeros((), x.dtype))


def sign(x: Array) -> Array:
    """-1, 0 or 1; 0 for NaN, as in torch."""
    return np.asarray(np.asarray(x > 0).astype(x.dtype) - np.asarray(x < 0).astype(x.dtype))


def signbit(x: Array) -> Array:
    """True for negative numbers and -0.0."""
    return np.signbit(x) if x.dtype.kind == "f" else np.asarray(x < 0)


def floordiv(a: Array, b: Array) -> Array:
    """The quotient rounded down; of floats, exact by the remainder."""
    return np.asarray(np.floor_divide(a, b))


def truncdiv(a: Array, b: Array) -> Array:
    """The quotient rounded towards zero."""
    if a.dtype.kind == "f":
        return np.asarray(np.trunc(np.true_divide(a, b)))
    return np.asarray(np.floor_divide(a - np.fmod(a, b), b))


def remainder(a: Array, b: Array) -> Array:
    """The remainder of ``floordiv``, with the sign of ``b``."""
    if a.dtype.kind != "f":
        return np.remainder(a, b)
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


def power(a: Array, b: Array) -> Array:
    """``a ** b`` of floats."""
    return np.asarray(np.power(a, b))


def rsqrt(x: Array) -> Array:
    """``1 / sqrt(x)``, rounded once."""
    return _wide(lambda wide: 1.0 / np.sqrt(wide))(x)


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``, rounded once."""
    return _wide(lambda wide: 1.0 / (1.0 + np.exp(-wide)))(x)


def shift_left(a: Array, b: Array) -> Array:
    """``a << b``; 0 for a count outside the width."""
    outside = _outside(a, b)
    return np.where(outside, np.zeros((), a.dtype), np.left_shift(a, np.where(outside, 0, b)))


def shift_right(a: Array, b: Array) -> Array:
    """``a >> b`` with sign extension; a count outside the width leaves only the sign."""
    outside = _outside(a, b)
    full = np.asarray(a < 0).astype(a.dtype) * a.dtype.type(-1 if a.dtype.kind == "i" else 0)
    return np.where(outside, full, np.right_shift(a, np.where(outside, 0, b)))


def bits(x: Array) -> Array:
    """The bits as a number of the other kind."""
    twins = {"float32": np.int32, "float64": np.int64, "int32": np.float32, "int64": np.float64}
    return np.ascontiguousarray(x).view(twins[str(x.dtype)]).reshape(np.shape(x))


def half_bits(x: Array) -> Array:
    """The bits of the nearest float16, sign-extended to an int32."""
    half = np.ascontiguousarray(x).astype(np.float16)
    return half.view(np.int16).astype(np.int32).reshape(np.shape(x))


def of_half_bits(x: Array) -> Array:
    """The float16 whose bits are the lower half."""
    half = np.ascontiguousarray(x).astype(np.int16).view(np.float16)
    return half.astype(np.float32).reshape(np.shape(x))


def _outside(a: Array, b: Array) -> Array:
    return np.asarray((b < 0) | (b >= a.dtype.itemsize * 8))


def _wide(function: Callable[[Array], Array]) -> Reference:
    """The function computed in float64 and rounded to the operand's type."""

    def rounded(x: Array) -> Array:
        return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

    return rounded


def _elementwise(function: Callable[[float], float]) -> Reference:
    return _wide(np.vectorize(function, otypes=[np.float64]))


def lgamma(x: Array) -> Array:
    """``log(|gamma(x)|)``: Stirling's series thirty steps on, in the longest float."""
    wide = x.astype(np.longdouble)
    pi, steps = np.longdouble("3.141592653589793238462643383279502884"), 30
    reflected = wide < 0.5
    start = np.where(reflected, 1 - wide, wide)
    small = start < steps
    rising = np.ones_like(start)
    for step in range(steps):
        rising = np.where(small, rising * (start + step), rising)
    far = np.where(small, start + steps, start)
    series = sum(
        c / far ** (2 * k + 1) for k, c in enumerate(1 / np.longdouble(d) for d in _STIRLING)
    )
    found = (far - 0.5) * np.log(far) - far + np.log(2 * pi) / 2 + series - np.log(rising)
    sine = np.abs(np.sin(pi * (wide - np.rint(wide))))
    found = np.where(reflected, np.log(pi / sine) - found, found)
    return np.asarray(np.where(np.isinf(wide), np.inf, found)).astype(x.dtype)


_STIRLING = (12, -360, 1260, -1680, 1188)


erf: Reference = _elementwise(math.erf)
erfc: Reference = _elementwise(math.erfc)
gelu: Reference = _wide(lambda x: 0.5 * x * erfc(x * -math.sqrt(0.5)))
gelu_tanh: Reference = _wide(
    lambda x: x / (1.0 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
)

LIBRARY: Mapping[str, Reference] = {
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "erfc": erfc,
    "lgamma": lgamma,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def round_bfloat16(array: Array) -> Array:
    """float32 numbers rounded to the nearest bfloat16, ties to even, still as float32."""
    bits = np.asarray(array, np.float32, order="C").view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(array), np.float32(np.nan), rounded.view(np.float32))


TO_16_BITS: Mapping[DType, Reference] = {
    DType.FLOAT16: lambda x: x.astype(np.float16).astype(x.dtype),
    DType.BFLOAT16: lambda x: round_bfloat16(x.astype(np.float32)).astype(x.dtype),
}
ROUNDING: Mapping[str, Reference] = {
    name: (lambda x, function=function: function(x) if x.dtype.kind == "f" else x)
    for name, function in {
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "round": np.rint,
    }.items()
}
COMPARISONS: Mapping[str, Reference] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def cast(x: Array, dtype: np.dtype[Any]) -> Array:
    """The value in another type: floats truncate towards zero, integers wrap, bool is ``!= 0``."""
    if dtype.kind in "iu" and x.dtype.kind == "f":
        return x.astype(np.int64).astype(dtype)
    return np.asarray(x.astype(dtype))
