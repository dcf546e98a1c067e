"""Reductions over dimensions: a Reduction, and a Pointwise epilogue if needed."""

from collections.abc import Callable
from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import lowering
from aotpack.lower.values import apply, cast, constant, position
from aotpack.stages import Arg, Ref

Dims = tuple[int, ...] | int | None
Element = Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class Reduced:
    """The reduced dimensions of a tensor, and the index maps between outer, inner and source."""

    dims: tuple[int, ...]
    rank: int
    keepdim: bool
    inner: Shape

    def source(self, outer: Index, inner: Index) -> Index:
        """The index in the tensor for an index of the result and one of the reduced dimensions."""
        rest, over = iter(outer), iter(inner)
        entries = []
        for dim in range(self.rank):
            if dim in self.dims:
                entries.append(next(over))
                if self.keepdim:
                    next(rest)
            else:
                entries.append(next(rest))
        return tuple(entries)

    def kept(self, index: Index) -> Index:
        """The index of the result for an element of the tensor; 0 in reduced dimensions."""
        zero = Int.of(0)
        if self.keepdim:
            return tuple(zero if dim in self.dims else i for dim, i in enumerate(index))
        return tuple(i for dim, i in enumerate(index) if dim not in self.dims)

    @property
    def count(self) -> Int:
        """The number of elements of one result."""
        return product(self.inner)


def over(c: Context, self: Ref, dims: Dims, keepdim: bool = False) -> Reduced:
    """The reduction of a tensor over ``dims``; none given means all."""
    rank = c.rank(self)
    given = (dims,) if isinstance(dims, int) else dims
    chosen = tuple(sorted({c.dim(self, dim) for dim in given})) if given else tuple(range(rank))
    inner = tuple(c.shape(self)[dim] for dim in chosen) if rank else ()
    return Reduced(chosen if rank else (), rank, keepdim, inner)


def kept_shape(c: Context, self: Ref, reduced: Reduced) -> Shape:
    """The shape with reduced dimensions of size 1."""
    return tuple(Int.of(1) if k in reduced.dims else n for k, n in enumerate(c.shape(self)))


def reduce_to(
    c: Context, target: Ref, kind: str, self: Ref, reduced: Reduced, element: Element
) -> None:
    """Write ``target`` as the monoid over a function of the tensor's elements."""

    def args(outer: Index, inner: Index) -> tuple[Value, ...]:
        return (element(c.load(self, reduced.source(outer, inner))),)

    c.reduction((target,), kind, reduced.inner, args)


def finished(
    c: Context, kind: str, self: Ref, reduced: Reduced, element: Element, finish: Element
) -> None:
    """Write ``finish`` of the monoid, which is stored in its wide type in between."""
    probe = element(c.load(self, (Int.of(0),) * c.rank(self))).dtype
    state = c.temporary(kind, probe, c.shape(c.result()))
    reduce_to(c, state, kind, self, reduced, element)
    c.pointwise(c.result(), lambda index: finish(c.load(state, index)))


# --- sums, products, means ----------------------------------------------------------------------


@lowering("aten.sum.default", "aten.sum.dim_IntList")
def sum_(
    c: Context, self: Ref, dim: Dims = None, keepdim: bool = False, *, dtype: Arg = None
) -> None:
    _accumulate(c, "sum", self, over(c, self, dim, keepdim))


@lowering("aten.prod.default", "aten.prod.dim_int")
def prod(
    c: Context, self: Ref, dim: Dims = None, keepdim: bool = False, *, dtype: Arg = None
) -> None:
    _accumulate(c, "prod", self, over(c, self, dim, keepdim))


def _accumulate(c: Context, kind: str, self: Ref, reduced: Reduced) -> None:
    """In the accumulator of the result's type; integer results wrap to their type at the end."""
    result = result_dtype(c)

    def element(x: Value) -> Value:
        return cast(cast(x, result), result.accumulator)

    if result.accumulator is result.compute:
        reduce_to(c, c.result(), kind, self, reduced, element)
    else:
        finished(c, kind, self, reduced, element, lambda total: cast(total, result))


@lowering("aten.mean.default", "aten.mean.dim")
def mean(
    c: Context, self: Ref, dim: Dims = None, keepdim: bool = False, *, dtype: Arg = None
) -> None:
    reduced = over(c, self, dim, keepdim)
    common = result_dtype(c)

    def finish(total: Value) -> Value:
        return apply("div", total, count_of(reduced, common))

    finished(c, "sum", self, reduced, lambda x: cast(x, common), finish)


def count_of(reduced: Reduced, dtype: DType, less: float = 0) -> Value:
    """The number of elements of one result, minus ``less`` but at least 0, as a float."""
    count = reduced.count
    if count.constant is not None:
        return constant(max(count.constant - less, 0), dtype)
    wide = position(count, dtype)
    return wide if less == 0 else apply("maximum", apply("sub", wide, less), 0)


@lowering("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList")
def count_nonzero(c: Context, self: Ref, dim: Dims = None) -> None:
    reduced = over(c, self, dim)
    reduce_to(c, c.result(), "sum", self, reduced, lambda x: cast(cast(x, DType.BOOL), DType.INT64))


# --- extremes -----------------------------------------------------------------------------------


@lowering("aten.amax.default", "aten.max.default")
def amax(c: Context, self: Ref, dim: Dims = None, keepdim: bool = False) -> None:
    _extreme(c, "max", self, over(c, self, dim, keepdim))


@lowering("aten.amin.default", "aten.min.default")
def amin(c: Context, self: Ref, dim: Dims = None, keepdim: bool = False) -> None:
    _extreme(c, "min", self, over(c, self, dim, keepdim))


def _extreme(c: Context, kind: str, self: Ref, reduced: Reduced) -> None:
    if c.dtype(self) is DType.BOOL:
        kind = "any" if kind == "max" else "all"
    reduce_to(c, c.result(), kind, self, reduced, lambda x: x)


@lowering("aten.max.dim")
def max_dim(c: Context, self: Ref, dim: int, keepdim: bool = False) -> None:
    _extreme_and_place(c, "max", self, over(c, self, dim, keepdim))


@lowering("aten.min.dim")
def min_dim(c: Context, self: Ref, dim: int, keepdim: bool = False) -> None:
    _extreme_and_place(c, "min", self, over(c, self, dim, keepdim))


def _extreme_and_place(c: Context, kind: str, self: Ref, reduced: Reduced) -> None:
    _extreme(c, kind, self, reduced)
    reduce_to(c, c.result(1), f"arg{kind}", self, reduced, _ordered)


def _ordered(x: Value) -> Value:
    """Bools are compared as numbers."""
    return cast(x, DType.INT32) if x.dtype is DType.BOOL else x


@lowering("aten.argmax.default")
def argmax(c: Context, self: Ref, dim: Dims = None, keepdim: bool = False) -> None:
    reduce_to(c, c.result(), "argmax", self, over(c, self, dim, keepdim), _ordered)


@lowering("aten.argmin.default")
def argmin(c: Context, self: Ref, dim: Dims = None, keepdim: bool = False) -> None:
    reduce_to(c, c.result(), "argmin", self, over(c, self, dim, keepdim), _ordered)


@lowering("aten.aminmax.default")
def aminmax(c: Context, self: Ref, *, dim: Dims = None, keepdim: bool = False) -> None:
    reduced = over(c, self, dim, keepdim)
    _extreme(c, "min", self, reduced)
    kind = "any" if c.dtype(self) is DType.BOOL else "max"
    reduce_to(c, c.result(1), kind, self, reduced, lambda x: x)


# --- truth --------------------------------------------------------------------------------------


@lowering("aten.any.default", "aten._is_any_true.default", "aten.any.dim", "aten.any.dims")
def any_(c: Context, self: Ref, dim: Dims = None, keepdim: bool = False) -> None:
    _truth(c, "any", self, dim, keepdim=keepdim)


@lowering("aten.all.default", "aten._is_all_true.default", "aten.all.dim", "aten.all.dims")
def all_(c: Context, self: Ref, dim: Dims = None, keepdim: bool = False) -> None:
    _truth(c, "all", self, dim, keepdim=keepdim)


def _truth(c: Context, kind: str, self: Ref, dim: Dims, *, keepdim: bool) -> None:
    """uint8 tensors yield uint8. Over no dimensions, ``()``, it is that of each element."""
    result = result_dtype(c)
    if dim is not None and not isinstance(dim, int) and not dim:
        c.pointwise(c.result(), lambda index: cast(cast(c.load(self, index), DType.BOOL), result))
        return
    reduced = over(c, self, dim, keepdim)
    if result is DType.BOOL:
        reduce_to(c, c.result(), kind, self, reduced, lambda x: cast(x, DType.BOOL))
    else:
        finished(c, kind, self, reduced, lambda x: cast(x, DType.BOOL), lambda x: x)


@lowering("aten.logsumexp.default")
def logsumexp(c: Context, self: Ref, dim: Dims, keepdim: bool = False) -> None:
    common = result_dtype(c)
    reduced = over(c, self, dim, keepdim)
    reduce_to(c, c.result(), "logsumexp", self, reduced, lambda x: cast(x, common))
