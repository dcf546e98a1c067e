"""Views: the result's element at an index is the source's element at a mapped index."""

from collections.abc import Callable

from aotpack.ir.symbolic.facts import known_le, known_lt
from aotpack.ir.symbolic.integers import Int, Number, maximum, minimum
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import reshape_index
from aotpack.lower.values import index_from, position
from aotpack.stages import Arg, Ref

IndexMap = Callable[[Index], Index]


def emit_view(c: Context, source: Ref, mapped: IndexMap, output: int = 0) -> None:
    """Write a result whose elements are those of ``source`` at mapped indices."""
    c.pointwise(c.result(output), lambda index: c.load(source, mapped(index)))


def replaced(index: Index, dim: int, entry: Int) -> Index:
    """The index with one entry exchanged."""
    return (*index[:dim], entry, *index[dim + 1 :])


def without(index: Index, dim: int) -> Index:
    """The index with one entry removed."""
    return (*index[:dim], *index[dim + 1 :])


def with_entry(index: Index, dim: int, entry: Int) -> Index:
    """The index with one entry inserted before position ``dim``."""
    return (*index[:dim], entry, *index[dim:])


@lowering(
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten._reshape_copy.default",
    "aten.view_copy.default",
    "aten.view_as.default",
    "aten.reshape_as.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.ravel.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.unsqueeze.default",
    "aten.atleast_1d.default",
)
def reshape(c: Context, self: Ref, *_: Arg, **__: Arg) -> None:
    """All views that keep row-major order; the result's shape determines the index map."""
    shape, source = c.shape(c.result()), c.shape(self)
    emit_view(c, self, lambda index: reshape_index(index, shape, source))


@lowering("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")
@lowering("aten.expand_copy.default")
def expand(c: Context, self: Ref, *_: Arg, **__: Arg) -> None:
    c.pointwise(c.result(), lambda index: c.broadcast(self, index))


@lowering("aten.permute.default", "aten.permute_copy.default")
def permute(c: Context, self: Ref, dims: tuple[int, ...]) -> None:
    order = [c.dim(self, dim) for dim in dims]
    emit_view(c, self, lambda index: tuple(index[order.index(k)] for k in range(len(order))))


@lowering("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default")
def transpose(c: Context, self: Ref, dim0: int, dim1: int) -> None:
    order = list(range(c.rank(self)))
    if order:
        a, b = c.dim(self, dim0), c.dim(self, dim1)
        order[a], order[b] = order[b], order[a]
    permute(c, self, tuple(order))


@lowering("aten.t.default", "aten.numpy_T.default")
def reverse_dims(c: Context, self: Ref) -> None:
    permute(c, self, tuple(reversed(range(c.rank(self)))))


@lowering("aten.mT.default", "aten.adjoint.default")
def matrix_transpose(c: Context, self: Ref) -> None:
    transpose(c, self, -2, -1)


@lowering("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.intlist", "aten.moveaxis.int")
def movedim(
    c: Context, self: Ref, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> None:
    sources = source if isinstance(source, tuple) else (source,)
    places = destination if isinstance(destination, tuple) else (destination,)
    order: dict[int, int] = {
        c.dim(self, place): c.dim(self, dim) for place, dim in zip(places, sources, strict=True)
    }
    rest = iter(dim for dim in range(c.rank(self)) if dim not in order.values())
    permute(
        c, self, tuple(order.get(k, -1) if k in order else next(rest) for k in range(c.rank(self)))
    )


# --- slices -------------------------------------------------------------------------------------


def slice_start(start: Scalar | None, size: Int) -> Int:
    """The start of a slice: negative starts count from the end; all are clamped."""
    begin = Int.of(0 if start is None else whole(start))
    if known_lt(begin, 0):
        begin = begin + size
    elif not known_le(0, begin):
        begin = begin + minimum(maximum(-begin, 0), 1) * size
    return minimum(maximum(begin, 0), size)


def wrapped(index: Scalar, size: Int) -> Int:
    """A position that may count from the end."""
    position = from_end(index, size)
    if not known_le(0, position):
        raise CannotLower(
            f"the index {position} may be negative or not: torch._check(n >= 0) says which of a "
            "number n = i.item()"
        )
    return position


def from_end(index: Scalar, size: Int) -> Int:
    """A position from the start, where it is known to count from the end; others as they are."""
    position = Int.of(whole(index))
    return position + size if known_lt(position, 0) else position


def whole(number: Scalar) -> Number:
    if isinstance(number, float):
        raise CannotLower(f"{number} is given where an integer is accepted")
    return number


@lowering("aten.slice.Tensor", "aten.slice_copy.Tensor")
def slice_(
    c: Context,
    self: Ref,
    dim: int = 0,
    start: Scalar | None = None,
    end: Scalar | None = None,
    step: int = 1,
) -> None:
    along = c.dim(self, dim)
    begin = slice_start(start, c.shape(self)[along])
    emit_view(c, self, lambda index: replaced(index, along, begin + index[along] * step))


@lowering("aten.narrow.default", "aten.narrow_copy.default")
def narrow(c: Context, self: Ref, dim: int, start: Scalar, length: Scalar) -> None:
    along = c.dim(self, dim)
    begin = wrapped(start, c.shape(self)[along])
    emit_view(c, self, lambda index: replaced(index, along, begin + index[along]))


@lowering("aten.select.int", "aten.select_copy.int")
def select(c: Context, self: Ref, dim: int, index: Scalar | Ref) -> None:
    along = c.dim(self, dim)
    size = c.shape(self)[along]
    given = c.load(index, ()) if isinstance(index, Ref) else position(from_end(index, size))
    entry = index_from(given, size)  # data may decide a size too: no read leaves the tensor
    emit_view(c, self, lambda place: with_entry(place, along, entry))


@lowering(
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.split_with_sizes_copy.default",
    "aten.split_copy.Tensor",
    "aten.chunk.default",
    "aten.tensor_split.sections",
)
def split(c: Context, self: Ref, sizes: Arg, dim: int = 0) -> None:
    """Consecutive pieces; the results' shapes give their lengths."""
    along = c.dim(self, dim)
    begin = Int.of(0)
    for output in range(len(c.node.results)):
        _emit_piece(c, self, along, begin, output)
        begin = begin + c.shape(c.result(output))[along]


@lowering("aten.tensor_split.indices")
def tensor_split(c: Context, self: Ref, indices: tuple[Scalar, ...], dim: int = 0) -> None:
    """Slices between places, which need not ascend: one that ends before its begin is empty."""
    along = c.dim(self, dim)
    size = c.shape(self)[along]
    for output, place in enumerate((0, *indices)):
        _emit_piece(c, self, along, slice_start(place, size), output)


def _emit_piece(c: Context, self: Ref, dim: int, begin: Int, output: int) -> None:
    emit_view(c, self, lambda index: replaced(index, dim, begin + index[dim]), output)


@lowering("aten.unbind.int", "aten.unbind_copy.int")
def unbind(c: Context, self: Ref, dim: int = 0) -> None:
    along = c.dim(self, dim)
    for output in range(len(c.node.results)):
        _emit_entry(c, self, along, output)


def _emit_entry(c: Context, self: Ref, dim: int, output: int) -> None:
    emit_view(c, self, lambda index: with_entry(index, dim, Int.of(output)), output)
