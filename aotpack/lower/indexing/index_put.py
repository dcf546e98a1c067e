"""Assignment through indices and masks: ``x[i, :, j] = v``, ``x[mask] = v``."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.indexing.counted import MASKS, broadcast_shape
from aotpack.lower.indexing.scatter import Points, take_in
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, guarded, index_from, target_from, where
from aotpack.stages import Ref


@lowering("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    c: Context,
    self: Ref,
    indices: tuple[Ref | None, ...],
    values: Ref,
    accumulate: bool = False,
) -> None:
    given = {dim: ref for dim, ref in enumerate(indices) if ref is not None}
    masks = [dim for dim, ref in given.items() if c.dtype(ref) in MASKS]
    if not given:
        raise CannotLower("no dimension has an index")
    if not masks:
        points = _points(c, self, given)
        kind = "sum" if accumulate else "set"
        take_in(c, c.result(), self, kind, points, lambda point: c.broadcast(values, point))
    elif len(given) == 1:
        _put_mask(c, self, masks[0], given[masks[0]], values, accumulate)
    else:
        raise CannotLower(
            "a mask beside another index is not accepted; use torch.where, or positions alone"
        )


def _points(c: Context, self: Ref, given: dict[int, Ref]) -> Points:
    """Index tensors broadcast; their shape replaces their dimensions, or leads if not adjacent."""
    shape, dims = c.shape(self), list(given)
    shared = broadcast_shape([c.shape(ref) for ref in given.values()])
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    start = dims[0] if adjacent else 0
    rest = tuple(size for dim, size in enumerate(shape) if dim not in given)
    over = (*rest[:start], *shared, *rest[start:])

    def place(point: Index) -> Index:
        at = point[start : start + len(shared)]
        others = iter((*point[:start], *point[start + len(shared) :]))
        return tuple(
            target_from(c.broadcast(given[dim], at), size, from_end=True)
            if dim in given
            else next(others)
            for dim, size in enumerate(shape)
        )

    return Points(over, place)


# --- masks --------------------------------------------------------------------------------------


def _put_mask(c: Context, self: Ref, dim: int, mask: Ref, values: Ref, accumulate: bool) -> None:
    """A select of the old elements and the new ones, of which each True has its own or all one."""
    end = dim + c.rank(mask)
    after = c.rank(self) - end
    count = c.shape(values)[-1 - after] if c.rank(values) > after else Int.of(1)
    rank = None if count.constant == 1 else _ranks(c, mask)
    dtype = c.dtype(self).compute

    def value(index: Index) -> Value:
        old = c.load(self, index)
        number = Int.of(0)
        if rank is not None:
            at = flatten_index(index[dim:end], c.shape(mask))
            number = index_from(apply("sub", c.load(rank, (at,)), 1), count)
        new = cast(c.broadcast(values, (*index[:dim], number, *index[end:])), dtype)
        if accumulate:
            new = apply("logical_or" if dtype is DType.BOOL else "add", old, new)
        chosen = cast(c.load(mask, index[dim:end]), DType.BOOL)
        return where(chosen, new, old) if rank is None else guarded([chosen], new, old)

    c.pointwise(c.result(), value)


def _ranks(c: Context, mask: Ref) -> Ref:
    """A running count of the elements where a mask holds."""
    shape = c.shape(mask)
    rank = c.temporary("rank", DType.INT64, (product(shape),))
    c.scan((rank,), "sum", 0, lambda i: _flag(c.load(mask, unflatten_index(i[0], shape))))
    return rank


def _flag(element: Value) -> Value:
    return cast(cast(element, DType.BOOL), DType.INT64)


@lowering("aten.masked_scatter.default")
def masked_scatter(c: Context, self: Ref, mask: Ref, source: Ref) -> None:
    """A running count of the mask gives the element of ``source`` for each True."""
    shape, count = c.shape(c.result()), product(c.shape(source))
    length = product(shape)

    def chosen(index: Index) -> Value:
        return cast(c.broadcast(mask, index), DType.BOOL)

    if length.constant == 0 or count.constant == 0:
        c.pointwise(c.result(), lambda index: c.broadcast(self, index))
        return
    rank = c.temporary("rank", DType.INT64, (length,))
    c.scan((rank,), "sum", 0, lambda i: cast(chosen(unflatten_index(i[0], shape)), DType.INT64))

    def value(index: Index) -> Value:
        number = apply("sub", c.load(rank, (flatten_index(index, shape),)), 1)
        place = unflatten_index(index_from(number, count), c.shape(source))
        element = c.load(source, place)
        return guarded([chosen(index)], element, c.broadcast(self, index))

    c.pointwise(c.result(), value)
