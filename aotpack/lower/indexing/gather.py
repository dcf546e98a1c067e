"""Reads at indices that are data: embedding, gather, advanced indexing."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar, Shape
from aotpack.lower.indexing.counted import MASKS, chosen_positions
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
    """Index tensors broadcast; their shape replaces their dimensions, or leads if not adjacent.

    A mask stands for the positions of its elements, one index for each of its dimensions.
    """
    dims, rank = _dims(c, indices)
    adjacent = dims == list(range(dims[0], dims[0] + len(dims)))
    start = dims[0] if adjacent else 0
    given = _entries(c, self, indices, c.shape(c.result())[start : start + rank])

    def mapped(place: Index) -> Index:
        shared = place[start : start + rank]
        rest = iter((*place[:start], *place[start + rank :]))
        return tuple(
            given[dim](shared) if dim in given else next(rest) for dim in range(c.rank(self))
        )

    emit_view(c, self, mapped)


_Entry: TypeAlias = Callable[[Index], Int]


def _dims(c: Context, indices: tuple[Ref | None, ...]) -> tuple[list[int], int]:
    """The dimensions that have an index, and the rank of the indices' common shape."""
    dims: list[int] = []
    dim = rank = masks = 0
    for ref in indices:
        is_mask = ref is not None and c.dtype(ref) in MASKS
        width = c.rank(ref) if ref is not None and is_mask else 1
        if ref is not None:
            dims += range(dim, dim + width)
            rank = max(rank, 1 if is_mask else c.rank(ref))
        masks += is_mask
        dim += width
    if masks > 1 or not dims:
        raise CannotLower("two masks, or one without dimensions, are not accepted")
    return dims, rank


def _entries(
    c: Context, self: Ref, indices: tuple[Ref | None, ...], shared: Shape
) -> dict[int, _Entry]:
    """The index of each dimension that has one, by an index of the ``shared`` shape."""
    given: dict[int, _Entry] = {}
    dim = 0
    for ref in indices:
        if ref is not None and c.dtype(ref) in MASKS:
            at = chosen_positions(c, c.shape(ref), partial(c.load, ref), shared[-1])
            given |= {dim + k: partial(_coordinate, at, k) for k in range(c.rank(ref))}
            dim += c.rank(ref)
            continue
        if ref is not None:
            given[dim] = partial(_read, c, ref, c.shape(self)[dim])
        dim += 1
    return given


def _coordinate(at: Callable[[Int], Index], dim: int, shared: Index) -> Int:
    return at(shared[-1])[dim]


def _read(c: Context, ref: Ref, size: Int, shared: Index) -> Int:
    return index_from(c.broadcast(ref, shared), size)


@lowering("aten.one_hot.default")
def one_hot(c: Context, self: Ref, num_classes: Scalar = -1) -> None:
    if num_classes == -1:
        raise CannotLower("the number of classes is data; give it")

    def value(place: Index) -> Value:
        chosen = c.load(self, place[:-1])
        return cast(apply("eq", chosen, position(place[-1], chosen.dtype)), DType.INT64)

    c.pointwise(c.result(), value)
