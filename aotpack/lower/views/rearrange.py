"""diagonal, unfold, flip, roll, repeat, pixel_shuffle: index maps with arithmetic."""

from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.registry import lowering
from aotpack.lower.reshape import reshape_index, unflatten_index
from aotpack.lower.values import constant, guarded
from aotpack.lower.views.view import emit_view, replaced, whole
from aotpack.stages import Arg, Ref


@lowering("aten.diagonal.default", "aten.diagonal_copy.default")
def diagonal(c: Context, self: Ref, offset: int = 0, dim1: int = 0, dim2: int = 1) -> None:
    first, second = c.dim(self, dim1), c.dim(self, dim2)

    def mapped(index: Index) -> Index:
        rest = iter(index[:-1])
        place = {first: index[-1] + max(-offset, 0), second: index[-1] + max(offset, 0)}
        return tuple(place[k] if k in place else next(rest) for k in range(c.rank(self)))

    emit_view(c, self, mapped)


@lowering("aten.unfold.default", "aten.unfold_copy.default")
def unfold(c: Context, self: Ref, dimension: int, size: int, step: int) -> None:
    """A tensor without dimensions counts as one of a single element."""
    along = c.dim(self, dimension)

    def mapped(index: Index) -> Index:
        return replaced(index[:-1], along, index[along] * step + index[-1])

    emit_view(c, self, mapped if c.rank(self) else lambda index: ())


@lowering("pair.unfold")
def unfold_pairs(c: Context, self: Ref, dimension: int, size: int, step: int) -> None:
    """The windows of complex numbers stand in front of the pair's dimension."""

    def mapped(index: Index) -> Index:
        *others, place, part = index
        return (*replaced(tuple(others), dimension, index[dimension] * step + place), part)

    emit_view(c, self, mapped)


@lowering("aten.unfold_backward.default")
def unfold_backward(
    c: Context, grad_in: Ref, input_sizes: tuple[Scalar, ...], dim: int, size: int, step: int
) -> None:
    """Each place is the sum of what the windows around it hold there."""
    if not input_sizes:
        c.pointwise(c.result(), lambda index: c.load(grad_in, (Int.of(0),)))
        return
    along = c.dim(c.result(), dim)
    count = c.shape(grad_in)[along]

    def held(index: Index, inner: Index) -> tuple[Value]:
        window = index[along] // step - inner[0]
        place = index[along] - window * step
        inside = [*range_checks(window, 0, count), *range_checks(place, 0, size)]
        element = c.load(grad_in, (*replaced(index, along, window), place))
        return (guarded(inside, element, constant(0, c.dtype(grad_in))),)

    c.reduction((c.result(),), "sum", (Int.of(-(-size // step)),), held)


@lowering("aten.flip.default")
def flip(c: Context, self: Ref, dims: tuple[int, ...]) -> None:
    turned = {c.dim(self, dim) for dim in dims}
    shape = c.shape(self)

    def mapped(index: Index) -> Index:
        return tuple(shape[k] - 1 - i if k in turned else i for k, i in enumerate(index))

    emit_view(c, self, mapped)


@lowering("aten.roll.default")
def roll(c: Context, self: Ref, shifts: tuple[Scalar, ...], dims: tuple[int, ...] = ()) -> None:
    """Without dims all elements move, in row-major order; shifts of one dimension add up."""
    shape = c.shape(self)
    if not dims:
        (shift,) = _tuple(shifts)
        numel = product(shape)
        emit_view(
            c,
            self,
            lambda at: unflatten_index((flatten_index(at, shape) - whole(shift)) % numel, shape),
        )
        return
    moves: dict[int, Int] = {}
    for dim, shift in zip(dims, _tuple(shifts), strict=True):
        along = c.dim(self, dim)
        moves[along] = moves.get(along, Int.of(0)) + whole(shift)

    def mapped(index: Index) -> Index:
        return tuple(
            (i - moves[k]) % shape[k] if k in moves and shape[k].constant != 0 else i
            for k, i in enumerate(index)
        )

    emit_view(c, self, mapped)


def _tuple(entries: Scalar | tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return entries if isinstance(entries, tuple) else (entries,)


@lowering("aten.repeat.default", "aten.tile.default")
def repeat(c: Context, self: Ref, repeats: tuple[Scalar, ...]) -> None:
    shape = c.shape(self)

    def mapped(index: Index) -> Index:
        inner = index[len(index) - len(shape) :]
        return tuple(i % n if n.constant != 0 else i for i, n in zip(inner, shape, strict=True))

    emit_view(c, self, mapped)


@lowering("aten.repeat_interleave.self_int")
def repeat_interleave(
    c: Context, self: Ref, repeats: Scalar, dim: int | None = None, *, output_size: Arg = None
) -> None:
    times = Int.of(whole(repeats))
    if dim is None:
        shape = c.shape(self)
        emit_view(
            c, self, lambda index: reshape_index((index[0] // times,), (product(shape),), shape)
        )
        return
    along = c.dim(self, dim)
    emit_view(c, self, lambda index: replaced(index, along, index[along] // times))


@lowering("aten.pixel_shuffle.default")
def pixel_shuffle(c: Context, self: Ref, upscale_factor: int) -> None:
    """[.., c*r*r, h, w] -> [.., c, h*r, w*r]."""
    r = upscale_factor

    def mapped(index: Index) -> Index:
        *lead, channel, y, x = index
        return (*lead, channel * (r * r) + (y % r) * r + x % r, y // r, x // r)

    emit_view(c, self, mapped)


@lowering("aten.pixel_unshuffle.default")
def pixel_unshuffle(c: Context, self: Ref, downscale_factor: int) -> None:
    """[.., c, h*r, w*r] -> [.., c*r*r, h, w]."""
    r = downscale_factor

    def mapped(index: Index) -> Index:
        *lead, channel, y, x = index
        return (*lead, channel // (r * r), y * r + channel // r % r, x * r + channel % r)

    emit_view(c, self, mapped)
