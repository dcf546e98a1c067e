"""Chebyshev polynomials of any degree, by their trigonometric forms.

With x = cos(a): T_n = cos(n a), U_n = sin((n + 1) a) / sin(a), V_n = cos((n + 1/2) a) / cos(a / 2)
and W_n = sin((n + 1/2) a) / sin(a / 2); beyond 1 with hyperbolic functions. Negative x use the
parity of n, which swaps V and W. Computed in float64, as the degree multiplies rounding errors.
(Abramowitz and Stegun 22.3.15-16, 22.5.)
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, constant, where
from aotpack.stages import Ref

WIDE = DType.FLOAT64


def _ratio(form: str, sine: str, cosine: str, n: Value, angle: Value) -> Value:
    """The form at one angle; ``sine`` and ``cosine`` are the circular or hyperbolic functions."""
    if form == "t":
        return apply(cosine, apply("mul", n, angle))
    if form == "u":
        return apply(
            "div", apply(sine, apply("mul", apply("add", n, 1.0), angle)), apply(sine, angle)
        )
    function = cosine if form == "v" else sine
    over = apply(function, apply("mul", apply("add", n, 0.5), angle))
    return apply("div", over, apply(function, apply("mul", angle, 0.5)))


def _at_one(form: str, n: Value) -> Value:
    """The value at angle 0."""
    if form == "u":
        return apply("add", n, 1.0)
    if form == "w":
        return apply("add", apply("mul", n, 2.0), 1.0)
    return constant(1, n.dtype)


def _of_positive(form: str, x: Value, n: Value) -> Value:
    inner = _ratio(form, "sin", "cos", n, apply("acos", apply("minimum", x, 1.0)))
    outer = _ratio(form, "sinh", "cosh", n, apply("acosh", apply("maximum", x, 1.0)))
    found = where(apply("gt", x, 1.0), outer, inner)
    return where(apply("eq", x, 1.0), _at_one(form, n), found)


def polynomial(form: str, x: Value, n: Value) -> Value:
    """The polynomial of degree ``n``, a whole number as float64; 0 for negative degrees."""
    size = apply("abs", x)
    mirrored = {"v": "w", "w": "v"}.get(form, form)
    odd = apply("ne", apply("fmod", n, 2.0), 0.0)
    turned = _of_positive(mirrored, size, n)
    turned = where(odd, apply("neg", turned), turned)
    found = where(apply("lt", x, 0.0), turned, _of_positive(form, size, n))
    found = where(apply("eq", n, 0.0), constant(1, x.dtype), found)
    return where(apply("lt", n, 0.0), constant(0, x.dtype), found)


def _register(name: str, form: str, *, shifted: bool) -> None:
    """The shifted polynomials are those of ``2 x - 1``."""

    def handler(c: Context, x: Ref | Scalar, n: Ref | Scalar) -> None:
        def value(index: Index) -> Value:
            point = c.operand(x, index, WIDE)
            point = apply("sub", apply("add", point, point), 1.0) if shifted else point
            degree = cast(c.operand(n, index, WIDE), DType.INT64)
            return cast(polynomial(form, point, cast(degree, WIDE)), result_dtype(c))

        c.pointwise(c.result(), value)

    for overload in ("default", "x_scalar", "n_scalar"):
        lowering(f"aten.special_{name}_{form}.{overload}")(handler)


for _form in ("t", "u", "v", "w"):
    _register("chebyshev_polynomial", _form, shifted=False)
    _register("shifted_chebyshev_polynomial", _form, shifted=True)
