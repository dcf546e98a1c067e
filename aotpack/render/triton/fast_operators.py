"""Cheaper forms of operators on float32, by the 16-bit type that all their results end up in.

The error of a form is within ``FAST_ULP`` of that type's last place. Each polynomial was fitted:
minimax over the range where the function is not yet flat.
"""

from collections.abc import Mapping

from aotpack.ir.dtypes import DType

FAST_ULP = 0.25

_ERF = (  # 1 - 2**(-|x| * polynomial), error 2e-8; two terms of the series near zero
    "tl.where(tl.abs({0}) < 0.1, {0} * (1.1283792 - 0.37612639 * {0} * {0}), "
    "tl.where({0} < 0.0, -1.0, 1.0) * (1.0 - tl.exp2(-tl.abs({0}) * (1.6279086"
    " + tl.abs({0}) * (0.91841638 + tl.abs({0}) * (0.1484816 + tl.abs({0}) * (-0.028253649"
    " + tl.abs({0}) * (0.00077457930 + tl.abs({0}) * (0.0014894811 + tl.abs({0}) * (-0.00044552289"
    " + tl.abs({0}) * 0.000045360866))))))))))"
)
_TANH = (
    "tl.where(tl.abs({0}) < 0.1, {0} * (1.0 - {0} * {0} * 0.33333334), "
    "1.0 - 2.0 / (tl.exp({0} * 2.0) + 1.0))"
)


def _tail_share(coefficients: str) -> str:
    """``x * (x < 0 ? tail : 1 - tail)`` with tail = 2**p(|x|), p's highest power first.

    The polynomials fall to -inf beyond the range they were fitted on, so the tail is 0 there.
    """
    power, *rest = coefficients.split()
    for coefficient in rest:
        power = f"({power}) * tl.abs({{0}}) + {coefficient}"
    tail = f"tl.exp2({power})"
    return f"{{0}} * tl.where({{0}} < 0.0, {tail}, 1.0 - {tail})"


_GELU = {
    DType.FLOAT16: _tail_share(
        "-1.8348105e-06 6.1598272e-05 -9.3052465e-04 8.50789e-03 -5.3960067e-02 -4.584464e-01"
        " -1.151251 -9.9999529e-01"
    ),
    DType.BFLOAT16: _tail_share(
        "-2.2654643e-04 4.7871569e-03 -4.4248179e-02 -4.7027027e-01 -1.1459152 -1.0003901"
    ),
}
_GELU_TANH = {
    DType.FLOAT16: _tail_share(
        "-5.4789727e-05 1.2013208e-03 -9.8256056e-03 3.1335578e-02 -7.8850323e-02 -4.4501659e-01"
        " -1.1534467 -1.000029"
    )
}

FAST_TEXTS: Mapping[str, Mapping[DType, str]] = {
    "div": {DType.FLOAT16: "{0} / {1}"},
    "reciprocal": {DType.FLOAT16: "1.0 / {0}"},
    "exp": {DType.FLOAT16: "tl.exp({0})"},
    "exp2": {DType.FLOAT16: "tl.exp2({0})"},
    "erf": {DType.FLOAT16: _ERF},
    "tanh": {DType.FLOAT16: _TANH},
    "rsqrt": {DType.FLOAT16: "tl.rsqrt({0})"},
    "sqrt": {DType.FLOAT16: "tl.sqrt({0})"},
    "sigmoid": {DType.FLOAT16: "1.0 / (1.0 + tl.exp2({0} * -1.4426950408889634))"},
    "gelu": _GELU,
    "gelu_tanh": _GELU_TANH,
}


def fast_text(op: str, ends_in: DType) -> str | None:
    """The cheaper form of an operator, if there is one; that of float16 serves bfloat16 too."""
    forms = FAST_TEXTS.get(op, {})
    return forms.get(ends_in, forms.get(DType.FLOAT16))
