"""Reads at indices that are data: embedding, gather, advanced indexing."""

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, index_from, position
from aotpack.lower.views.view import emit_view, replaced
from aotpack.stages import Ref


@lowering("aten.embedding.default")
def embedding(
    c: Context,
    weight: Ref,
    indices: Ref,
    padding_idx: Scalar = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> None:
    rows = c.shape(weight)[0]

    def mapped(index: Index) -> Index:
        return (index_from(c.load(indices, index[:-1]), rows), index[-1])

    emit_view(c, weight, mapped)


@lowering("aten.gather.default")
def gather(c: Context, self: Ref, dim: int, index: Ref, *, sparse_grad: bool = False) -> None:
    along = c.dim(self, dim)
    size = c.shape(self)[along] if c.rank(self) else Int.of(1)

    def mapped(place: Index) -> Index:
        entry = index_from(c.load(index, place), size)
        return replaced(place, along, entry) if c.rank(self) else ()

    emit_view(c, self, mapped)


@lowering("aten.index_select.default")
def index_select(c: Context, self: Ref, dim: int, index: Ref) -> None:
    """A 0-d tensor has one element to select."""
    if not c.rank(self):
        emit_view(c, self, lambda place: ())
        return
    along = c.dim(self, dim)
    size = c.shape(self)[along]

    def mapped(place: Index) -> Index:
        entry = index_from(c.broadcast(index, place[along : along + 1]), size)
        return replaced(place, along, entry)

    emit_view(c, self, mapped)


@lowering("aten.take.default")
def take(c: Context, self: Ref, index: Ref) -> None:
    shape = c.shape(self)
    count = product(shape)

    def mapped(place: Index) -> Index:
        return unflatten_index(index_from(c.load(index, place), count), shape)

    emit_view(c, self, mapped)


@lowering("aten.index.Tensor")
def index_tensor(c: Context, self: Ref, indices: tuple[Ref | None, ...]) -> None:
    """Index tensors broadcast; their shape replaces their dimensions, or leads if not adjacent."""
    given = {dim: ref for dim, ref in enumerate(indices) if ref is not None}
    for dim, ref in given.items():
        if c.dtype(ref) in (DType.BOOL, DType.UINT8):
            raise CannotLower(f"the index of dimension {dim} is a mask: the result's size is data")
    shape = c.shape(self)
    rank = max(c.rank(ref) for ref in given.values())
    dims = list(given)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    start = dims[0] if adjacent else 0

    def mapped(place: Index) -> Index:
        shared = place[start : start + rank]
        rest = iter((*place[:start], *place[start + rank :]))
        return tuple(
            index_from(c.broadcast(given[dim], shared), shape[dim]) if dim in given else next(rest)
            for dim in range(len(shape))
        )

    emit_view(c, self, mapped)


@lowering("aten.one_hot.default")
def one_hot(c: Context, self: Ref, num_classes: Scalar = -1) -> None:
    if num_classes == -1:
        raise CannotLower("the number of classes is data; give it")

    def value(place: Index) -> Value:
        chosen = c.load(self, place[:-1])
        return cast(apply("eq", chosen, position(place[-1], chosen.dtype)), DType.INT64)

    c.pointwise(c.result(), value)
