"""softmax and variants: a maximum, a sum of exponentials, then elementwise arithmetic."""

from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.reductions.reduction import Reduced, kept_shape, over
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, where
from aotpack.stages import Arg, Ref


@lowering("aten.softmax.int", "aten._softmax.default", "aten.special_softmax.int")
def softmax(c: Context, self: Ref, dim: int, dtype: Arg = None) -> None:
    top, total, reduced = _exponential_sums(c, self, dim)

    def value(index: Index) -> Value:
        kept = reduced.kept(index)
        return apply("div", _exponential(c, self, top, index, kept), c.load(total, kept))

    c.pointwise(c.result(), value)


@lowering("aten._safe_softmax.default")
def safe_softmax(c: Context, self: Ref, dim: int, dtype: Arg = None) -> None:
    """A row of -inf gives zeros."""
    top, total, reduced = _exponential_sums(c, self, dim)

    def value(index: Index) -> Value:
        kept = reduced.kept(index)
        share = apply("div", _exponential(c, self, top, index, kept), c.load(total, kept))
        return where(apply("eq", c.load(top, kept), float("-inf")), 0.0, share)

    c.pointwise(c.result(), value)


@lowering("aten.log_softmax.int", "aten._log_softmax.default", "aten.special_log_softmax.int")
def log_softmax(c: Context, self: Ref, dim: int, dtype: Arg = None) -> None:
    top, total, reduced = _exponential_sums(c, self, dim)

    def value(index: Index) -> Value:
        kept = reduced.kept(index)
        distance = apply("sub", _wide(c, self, index), c.load(top, kept))
        return apply("sub", distance, apply("log", c.load(total, kept)))

    c.pointwise(c.result(), value)


def _wide(c: Context, self: Ref, index: Index) -> Value:
    return cast(c.load(self, index), result_dtype(c))


def _exponential(c: Context, self: Ref, top: Ref, index: Index, kept: Index) -> Value:
    return apply("exp", apply("sub", _wide(c, self, index), c.load(top, kept)))


def _exponential_sums(c: Context, self: Ref, dim: int) -> tuple[Ref, Ref, Reduced]:
    """The maximum along ``dim``, and the sum of exp(x - maximum)."""
    reduced = over(c, self, dim, keepdim=True)
    wide, shape = result_dtype(c).compute, kept_shape(c, self, reduced)
    top, total = c.temporary("max", wide, shape), c.temporary("sum", wide, shape)

    def elements(outer: Index, inner: Index) -> tuple[Value, ...]:
        return (_wide(c, self, reduced.source(outer, inner)),)

    def exponentials(outer: Index, inner: Index) -> tuple[Value, ...]:
        return (_exponential(c, self, top, reduced.source(outer, inner), outer),)

    c.reduction((top,), "max", reduced.inner, elements)
    c.reduction((total,), "sum", reduced.inner, exponentials)
    return top, total, reduced
