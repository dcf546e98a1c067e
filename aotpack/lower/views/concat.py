"""cat, stack, pad and diff: results assembled from several tensors, or one with a border."""

from collections.abc import Callable

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.facts import known_le, known_one
from aotpack.ir.symbolic.integers import Int, maximum, minimum, total
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.elementwise.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import apply, cast, constant, guarded, position, target_from
from aotpack.lower.views.view import emit_view, from_end, replaced, slice_start, without
from aotpack.stages import Ref


@lowering("aten.cat.default", "aten.concat.default", "aten.concatenate.default")
def cat(c: Context, tensors: tuple[Ref, ...], dim: int = 0) -> None:
    """Empty one-dimensional tensors among larger ones are skipped, as torch does."""
    rank = c.rank(c.result())
    parts = [ref for ref in tensors if c.rank(ref) == rank]
    write_concats(c, c.result(), parts, c.dim(parts[0], dim))


def write_concats(c: Context, target: Ref, parts: list[Ref], dim: int) -> None:
    """Select the part that contains the index; a part of size 1 is read without a condition."""
    dtype = c.dtype(target)
    sizes = [c.shape(part)[dim] for part in parts]
    begins = [total(sizes[:k]) for k in range(len(sizes))]
    single = next((k for k, size in enumerate(sizes) if known_one(size)), None)

    def value(index: Index) -> Value:
        def read(k: int) -> Value:
            moved = replaced(index, dim, index[dim] - begins[k])
            return cast(c.load(parts[k], moved), dtype)

        result: Value = constant(0, dtype) if single is None else read(single)
        for k in reversed(range(len(parts))):
            if k != single and sizes[k].constant != 0:
                conditions = range_checks(index[dim], begins[k], begins[k] + sizes[k])
                result = guarded(conditions, read(k), result)
        return result

    c.pointwise(target, value)


@lowering("aten.stack.default")
def stack(c: Context, tensors: tuple[Ref, ...], dim: int = 0) -> None:
    """The last tensor needs no condition: its index does not depend on the new dimension."""
    along = c.dim(c.result(), dim)
    dtype = result_dtype(c)

    def value(index: Index) -> Value:
        parts = [cast(c.load(tensor, without(index, along)), dtype) for tensor in tensors]
        result = parts[-1]
        for k in reversed(range(len(parts) - 1)):
            result = guarded(range_checks(index[along], k, k + 1), parts[k], result)
        return result

    c.pointwise(c.result(), value)


@lowering("aten.constant_pad_nd.default")
def constant_pad_nd(c: Context, self: Ref, pad: tuple[Scalar, ...], value: Scalar = 0) -> None:
    """``pad`` has (before, after) from the last dimension; negative entries crop."""
    before = _before(c, self, pad)
    dtype = result_dtype(c)

    def padded(index: Index) -> Value:
        moved = tuple(i - low for i, low in zip(index, before, strict=True))
        conditions = []
        for i, size in zip(moved, c.shape(self), strict=True):
            conditions += range_checks(i, 0, size)
        return guarded(conditions, c.load(self, moved), constant(value, dtype))

    c.pointwise(c.result(), padded)


def _before(c: Context, self: Ref, pad: tuple[Scalar, ...]) -> list[Int]:
    counts = [Int.of(p) for p in pad if not isinstance(p, float)]
    padded = list(reversed(counts[0::2]))
    return [Int.of(0)] * (c.rank(self) - len(padded)) + padded


@lowering("aten.pad.default")
def pad(
    c: Context,
    self: Ref,
    pad: tuple[Scalar, ...],
    mode: str = "constant",
    value: Scalar | None = None,
) -> None:
    if mode == "constant":
        constant_pad_nd(c, self, pad, 0 if value is None else value)
        return
    before, shape = _before(c, self, pad), c.shape(self)

    def mapped(index: Index) -> Index:
        moved = zip(index, before, shape, c.shape(c.result()), strict=True)
        if mode == "circular":
            return tuple(_around(i, low, size, count) for i, low, size, count in moved)
        return tuple(border_index(i - low, size, mode) for i, low, size, _ in moved)

    emit_view(c, self, mapped)


def _around(position: Int, before: Int, size: Int, count: Int) -> Int:
    """Circular padding: the source position; negative counts crop first."""
    after = count - size - before
    first = maximum(-before, 0)
    length = size - first - maximum(-after, 0)
    return first + (position - maximum(before, 0)) % length


def border_index(position: Int, size: Int, mode: str) -> Int:
    """The source of a position outside ``[0, size)``: mirrored, or at the edge."""
    last = size - 1
    if mode == "replicate":
        return minimum(maximum(position, 0), last)
    if mode != "reflect":
        raise CannotLower(f"the pad mode {mode!r} is not constant, reflect, replicate or circular")
    folded = last - maximum(position, -position)
    return last - maximum(folded, -folded)


def _pad_with(mode: str, rank: int) -> None:
    def handler(c: Context, self: Ref, padding: tuple[Scalar, ...]) -> None:
        pad(c, self, padding, mode)

    suffix = "reflection" if mode == "reflect" else "replication"
    lowering(f"aten.{suffix}_pad{rank}d.default")(handler)


for _mode in ("reflect", "replicate"):
    for _rank in (1, 2, 3):
        _pad_with(_mode, _rank)


@lowering("aten.slice_scatter.default")
def slice_scatter(
    c: Context,
    self: Ref,
    src: Ref,
    dim: int = 0,
    start: Scalar | None = None,
    end: Scalar | None = None,
    step: int = 1,
) -> None:
    along = c.dim(self, dim)
    begin = slice_start(start, c.shape(self)[along])
    count = c.shape(src)[along]
    if c.builder.is_written_in_place(c.result()):
        _write_part(c, self, src, lambda at: replaced(at, along, begin + at[along] * step))
        return

    def value(index: Index) -> Value:
        steps = index[along] - begin
        conditions = range_checks(steps, 0, count * step)
        if step != 1:
            conditions.append(apply("eq", position(steps % step), 0))
        replaced_value = c.load(src, replaced(index, along, steps // step))
        return guarded(conditions, replaced_value, c.load(self, index))

    c.pointwise(c.result(), value)


@lowering("aten.select_scatter.default")
def select_scatter(c: Context, self: Ref, src: Ref, dim: int, index: Scalar) -> None:
    along = c.dim(self, dim)
    size = c.shape(self)[along]
    entry = from_end(index, size)
    if not known_le(0, entry):
        entry = target_from(position(entry), size, from_end=True)
    if c.builder.is_written_in_place(c.result()):
        _write_part(c, self, src, lambda at: (*at[:along], entry, *at[along:]))
        return

    def value(place: Index) -> Value:
        part = c.load(src, without(place, along))
        return guarded(range_checks(place[along], entry, entry + 1), part, c.load(self, place))

    c.pointwise(c.result(), value)


def _write_part(c: Context, base: Ref, part: Ref, place: Callable[[Index], Index]) -> None:
    """Replace a part of a tensor that forward changes; writes only that part."""
    c.scatter(c.result(), base, "set", c.shape(part), place, lambda index: c.load(part, index))


@lowering("aten.diff.default")
def diff(
    c: Context,
    self: Ref,
    n: int = 1,
    dim: int = -1,
    prepend: Ref | None = None,
    append: Ref | None = None,
) -> None:
    """``n``-th differences along a dimension, with ``prepend`` and ``append`` concatenated."""
    if n == 0:  # then torch ignores prepend and append
        c.pointwise(c.result(), lambda index: c.load(self, index))
        return
    along = c.dim(self, dim)
    current = self
    parts = [ref for ref in (prepend, self, append) if ref is not None]
    if len(parts) > 1:
        length = total(c.shape(part)[along] for part in parts)
        current = c.temporary("joined", c.dtype(self), replaced(c.shape(self), along, length))
        write_concats(c, current, parts, along)
    for step in range(n):
        shape = replaced(c.shape(current), along, c.shape(current)[along] - 1)
        last = step == n - 1
        target = c.result() if last else c.temporary(f"step{step}", c.dtype(self), shape)
        _write_difference(c, target, current, along)
        current = target


def _write_difference(c: Context, target: Ref, source: Ref, dim: int) -> None:
    def value(index: Index) -> Value:
        after = c.load(source, replaced(index, dim, index[dim] + 1))
        before = c.load(source, index)
        return apply("logical_xor" if before.dtype is DType.BOOL else "sub", after, before)

    c.pointwise(target, value)
