"""Variances and norms: one reduction, then arithmetic on its result."""

import math
from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.facts import known_le
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, Shape, is_empty
from aotpack.lower.elementwise.pointwise import constant_power, result_dtype
from aotpack.lower.reductions.reduction import Dims, Element, Reduced, count_of, finished, over
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, position, where
from aotpack.stages import Arg, Ref

Args = Callable[[Index, Index], tuple[Value, ...]]


def elements_of(c: Context, self: Ref, reduced: Reduced) -> Args:
    """What a reduction of a tensor reads."""
    return lambda outer, inner: (c.load(self, reduced.source(outer, inner)),)


def statistics(c: Context, self: Ref, reduced: Reduced, shape: Shape) -> tuple[Ref, Ref]:
    """Mean and sum of squared differences from it, in the compute type."""
    state = c.dtype(self).compute
    targets = (c.temporary("mean", state, shape), c.temporary("m2", state, shape))
    c.reduction(targets, "welford", reduced.inner, elements_of(c, self, reduced))
    return targets


def write_mean(c: Context, target: Ref, mean: Ref, reduced: Reduced, args: Args) -> None:
    """Write the means that moments hold. One that is not finite is that of the sum, as ``mean``'s:
    where moments are merged, an infinity becomes NaN or stays, by its place in the row.
    """
    state = c.dtype(mean)
    total = c.temporary("total", state, c.shape(mean))
    c.reduction((total,), "sum", reduced.inner, args)

    def value(index: Index) -> Value:
        found = c.load(mean, index)
        is_finite = apply("eq", apply("sub", found, found), 0)
        summed = apply("div", c.load(total, index), count_of(reduced, state))
        mean_of_some = where(is_finite, found, summed)
        if known_le(1, reduced.count):
            return mean_of_some
        return where(apply("gt", position(reduced.count), 0), mean_of_some, summed)

    nothing = constant(math.nan, state)
    c.pointwise(target, (lambda index: nothing) if is_empty(reduced.inner) else value)


def _variance(
    c: Context, self: Ref, reduced: Reduced, correction: float, *, root: bool, with_mean: bool
) -> None:
    mean_ref, m2 = statistics(c, self, reduced, c.shape(c.result()))

    def value(index: Index) -> Value:
        spread = c.load(m2, index)
        variance = apply("div", spread, count_of(reduced, spread.dtype, correction))
        return apply("sqrt", variance) if root else variance

    c.pointwise(c.result(), value)
    if with_mean:
        write_mean(c, c.result(1), mean_ref, reduced, elements_of(c, self, reduced))


def _register_spread(name: str, *, root: bool, with_mean: bool) -> None:
    @lowering(f"aten.{name}.correction")
    def corrected(
        c: Context,
        self: Ref,
        dim: Dims = None,
        *,
        correction: float | None = None,
        keepdim: bool = False,
    ) -> None:
        less = 1 if correction is None else correction
        reduced = over(c, self, dim, keepdim)
        _variance(c, self, reduced, less, root=root, with_mean=with_mean)

    @lowering(f"aten.{name}.dim")
    def along(
        c: Context, self: Ref, dim: Dims, unbiased: bool = True, keepdim: bool = False
    ) -> None:
        corrected(c, self, dim, correction=int(unbiased), keepdim=keepdim)

    @lowering(f"aten.{name}.default")
    def whole(c: Context, self: Ref, unbiased: bool = True) -> None:
        corrected(c, self, None, correction=int(unbiased))


_register_spread("var", root=False, with_mean=False)
_register_spread("std", root=True, with_mean=False)
_register_spread("var_mean", root=False, with_mean=True)
_register_spread("std_mean", root=True, with_mean=True)


@lowering("aten.linalg_vector_norm.default")
def vector_norm(
    c: Context,
    self: Ref,
    ord: Scalar = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Arg = None,
) -> None:
    reduced = over(c, self, dim, keepdim)
    common = result_dtype(c)
    if isinstance(ord, Int):
        raise CannotLower(f"the order {ord} of the norm is not a constant")
    kind, element, finish = norm_parts(float(ord))
    finished(c, kind, self, reduced, lambda x: element(cast(x, common)), finish)


def norm_parts(order: float) -> tuple[str, Element, Element]:
    """The monoid, the function of its elements, and the function of its result."""

    def size(x: Value) -> Value:
        return apply("abs", x)

    def same(x: Value) -> Value:
        return x

    if math.isinf(order):
        return ("max" if order > 0 else "min"), size, same
    if order == 0:
        return "sum", lambda x: cast(cast(x, DType.BOOL), x.dtype), same
    if order == 1:
        return "sum", size, same
    if order == 2:
        return "sum", lambda x: apply("square", x), lambda total: apply("sqrt", total)
    return "sum", lambda x: _power(size(x), order), lambda total: _power(total, 1 / order)


def _power(x: Value, exponent: float) -> Value:
    return constant_power(x, exponent) or apply("pow", x, exponent)


@lowering("aten.norm.ScalarOpt_dim", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim_dtype")
@lowering("aten.norm.ScalarOpt_dtype")
def norm(
    c: Context,
    self: Ref,
    p: Scalar | None = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Arg = None,
) -> None:
    vector_norm(c, self, 2 if p is None else p, dim, keepdim)
