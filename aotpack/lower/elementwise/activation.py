"""Activations: elementwise formulas over several operators of the op table.

Each function maps values to a value; ``elementwise`` loads its first arguments, broadcast and in
the result's compute type, and passes the rest unchanged.
"""

from collections.abc import Callable

from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, bind, lowering
from aotpack.lower.values import apply, constant, where
from aotpack.stages import Arg, Ref

Formula = Callable[..., Value]


def elementwise(*operators: str, operands: int = 1) -> Callable[[Formula], Formula]:
    """Register a formula over values as the lowering of operators."""

    def register(formula: Formula) -> Formula:
        def handler(c: Context, *args: Arg, **kwargs: Arg) -> None:
            common = result_dtype(c)
            bound = bind(formula, args, kwargs, leading=0)
            tensors = [_tensor(arg) for arg in bound.args[:operands]]

            def value(index: Index) -> Value:
                loaded = [c.operand(tensor, index, common) for tensor in tensors]
                return formula(*loaded, *bound.args[operands:], **bound.kwargs)

            c.pointwise(c.result(), value)

        lowering(*operators)(handler)
        return formula

    return register


def _tensor(arg: object) -> Ref | Scalar:
    if isinstance(arg, (Ref, Int, bool, int, float)):
        return arg
    raise CannotLower(f"{arg!r} is given where a tensor or a number is accepted")


# --- activations --------------------------------------------------------------------------------


@elementwise("aten.gelu.default")
def gelu(x: Value, *, approximate: str = "none") -> Value:
    return apply("gelu_tanh" if approximate == "tanh" else "gelu", x)


@elementwise("aten.silu.default")
def silu(x: Value) -> Value:
    return apply("mul", x, apply("sigmoid", x))


@elementwise("aten.mish.default")
def mish(x: Value) -> Value:
    return apply("mul", x, apply("tanh", softplus(x)))


@elementwise("aten.softplus.default")
def softplus(x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    scaled = apply("mul", x, beta)
    soft = apply("div", apply("log1p", apply("exp", scaled)), beta)
    return where(apply("gt", scaled, threshold), x, soft)


@elementwise("aten.log_sigmoid.default")
def log_sigmoid(x: Value) -> Value:
    tail = apply("log1p", apply("exp", apply("neg", apply("abs", x))))
    return apply("sub", apply("minimum", x, 0.0), tail)


@elementwise("aten.hardtanh.default")
def hardtanh(x: Value, min_val: float = -1.0, max_val: float = 1.0) -> Value:
    return apply("minimum", apply("maximum", x, min_val), max_val)


@elementwise("aten.relu6.default")
def relu6(x: Value) -> Value:
    return hardtanh(x, 0.0, 6.0)


@elementwise("aten.hardsigmoid.default")
def hardsigmoid(x: Value) -> Value:
    return apply("div", relu6(apply("add", x, 3.0)), 6.0)


@elementwise("aten.hardswish.default")
def hardswish(x: Value) -> Value:
    return apply("mul", x, hardsigmoid(x))


@elementwise("aten.leaky_relu.default")
def leaky_relu(x: Value, negative_slope: float = 0.01) -> Value:
    return where(apply("gt", x, 0), x, apply("mul", x, negative_slope))


@elementwise("aten.rrelu.default")
def rrelu(x: Value, lower: float = 0.125, upper: float = 1 / 3, training: bool = False) -> Value:
    if training:
        raise CannotLower("rrelu is in training mode; call model.eval() before the build")
    return leaky_relu(x, (lower + upper) / 2)


@elementwise("aten.elu.default")
def elu(x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    below = apply("mul", apply("expm1", apply("mul", x, input_scale)), alpha * scale)
    return where(apply("gt", x, 0), apply("mul", x, scale), below)


@elementwise("aten.celu.default")
def celu(x: Value, alpha: float = 1.0) -> Value:
    return elu(x, alpha, 1.0, 1.0 / alpha)


@elementwise("aten.selu.default")
def selu(x: Value) -> Value:
    return elu(x, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@elementwise("aten.threshold.default")
def threshold(x: Value, threshold: float, value: float) -> Value:
    return where(apply("le", x, threshold), constant(value, x.dtype), x)


@elementwise("aten.softshrink.default")
def softshrink(x: Value, lambd: float = 0.5) -> Value:
    low = where(apply("lt", x, -lambd), apply("add", x, lambd), apply("mul", x, 0.0))
    return where(apply("gt", x, lambd), apply("sub", x, lambd), low)


@elementwise("aten.hardshrink.default")
def hardshrink(x: Value, lambd: float = 0.5) -> Value:
    within = apply("le", apply("abs", x), lambd)
    return where(within, constant(0, x.dtype), x)


@elementwise("aten.logit.default", "aten.special_logit.default")
def logit(x: Value, eps: float | None = None) -> Value:
    """Below ``eps`` that of ``eps``, else at most that of ``1 - eps``, which may be less."""
    if eps is not None:
        low, high = constant(eps, x.dtype), constant(1.0 - eps, x.dtype)
        x = where(apply("lt", x, low), low, where(apply("gt", x, high), high, x))
    return apply("log", apply("div", x, apply("sub", constant(1, x.dtype), x)))


@lowering("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(c: Context, self: Ref, weight: Ref) -> None:
    """The weight is indexed by dimension 1, or is a single number."""

    def value(index: Index) -> Value:
        x = c.load(self, index)
        if c.rank(weight) == 1:
            slope = c.load(weight, (index[1] if len(index) > 1 else Int.of(0),))
        else:
            slope = c.broadcast(weight, index)
        return where(apply("gt", x, 0), x, apply("mul", x, slope))

    c.pointwise(c.result(), value)


@lowering("aten.glu.default")
def glu(c: Context, self: Ref, dim: int = -1) -> None:
    along = c.dim(self, dim)
    half = c.shape(c.result())[along]

    def value(index: Index) -> Value:
        gate = (*index[:along], index[along] + half, *index[along + 1 :])
        return apply("mul", c.load(self, index), apply("sigmoid", c.load(self, gate)))

    c.pointwise(c.result(), value)
