"""Hermite, Laguerre and Legendre polynomials of a fixed degree, by their recurrences.

Computed in float64, as each step multiplies rounding errors (Abramowitz and Stegun 22.7).
"""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant
from aotpack.stages import Ref

WIDE = DType.FLOAT64
MOST = 64
"""The largest degree: the text of a kernel has a line for each step."""

Step = Callable[[Value, int, Value, Value], Value]


def _hermite(x: Value, k: int, here: Value, before: Value) -> Value:
    """``2 x H_k - 2 k H_(k-1)``."""
    first = apply("mul", apply("add", x, x), here)
    return apply("sub", first, apply("mul", before, 2.0 * k))


def _probabilists(x: Value, k: int, here: Value, before: Value) -> Value:
    """``x He_k - k He_(k-1)``."""
    return apply("sub", apply("mul", x, here), apply("mul", before, float(k)))


def _laguerre(x: Value, k: int, here: Value, before: Value) -> Value:
    """``((2 k + 1 - x) L_k - k L_(k-1)) / (k + 1)``."""
    factor = apply("sub", constant(2.0 * k + 1.0, WIDE), x)
    found = apply("sub", apply("mul", factor, here), apply("mul", before, float(k)))
    return apply("div", found, k + 1.0)


def _legendre(x: Value, k: int, here: Value, before: Value) -> Value:
    """``((2 k + 1) x P_k - k P_(k-1)) / (k + 1)``."""
    first = apply("mul", apply("mul", x, 2.0 * k + 1.0), here)
    return apply("div", apply("sub", first, apply("mul", before, float(k))), k + 1.0)


def polynomial(step: Step, x: Value, degree: int) -> Value:
    """The polynomial; 0 for negative degrees. A first step needs none before it."""
    if degree < 0:
        return constant(0, WIDE)
    before, here = constant(0, WIDE), constant(1, WIDE)
    for k in range(degree):
        before, here = here, step(x, k, here, before)
    return here


def _register(name: str, step: Step) -> None:
    def handler(c: Context, x: Ref | Scalar, n: Ref | Scalar) -> None:
        if isinstance(n, Ref):
            raise CannotLower("its degree is a tensor; a number is accepted")
        degree = int(n)
        if degree > MOST:
            raise CannotLower(f"its degree is {degree}; up to {MOST} are accepted")

        def value(index: Index) -> Value:
            return cast(polynomial(step, c.operand(x, index, WIDE), degree), result_dtype(c))

        c.pointwise(c.result(), value)

    for overload in ("default", "x_scalar", "n_scalar"):
        lowering(f"aten.special_{name}.{overload}")(handler)


for _name, _step in {
    "hermite_polynomial_h": _hermite,
    "hermite_polynomial_he": _probabilists,
    "laguerre_polynomial_l": _laguerre,
    "legendre_polynomial_p": _legendre,
}.items():
    _register(_name, _step)
