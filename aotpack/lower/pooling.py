"""Pooling and resizing: reductions over windows, and nearest-neighbour reads."""

from collections.abc import Callable

from aotpack.ir.conditions import inside
from aotpack.ir.integers import Int, ceil_div, maximum, minimum, product
from aotpack.ir.nodes import Value
from aotpack.ir.rewrite import as_index
from aotpack.lower.context import Context, Index, Shape
from aotpack.lower.convolution import Steps, spread
from aotpack.lower.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.reshape import flatten_index, unflatten_index
from aotpack.lower.values import apply, constant, guarded, position
from aotpack.lower.view import emit_view
from aotpack.stages import Arg, Ref


def _register_max(dims: int) -> None:
    @lowering(f"aten.max_pool{dims}d.default", f"aten.max_pool{dims}d_with_indices.default")
    def max_pool(
        c: Context,
        self: Ref,
        kernel_size: Steps,
        stride: Steps = (),
        padding: Steps = (0,),
        dilation: Steps = (1,),
        ceil_mode: bool = False,
    ) -> None:
        kernel = spread(kernel_size, dims)
        steps = spread(stride or kernel, dims)
        pads, gaps = spread(padding, dims), spread(dilation, dims)

        def at(outer: Index, inner: Index) -> Index:
            window = zip(outer[-dims:], inner, steps, pads, gaps, strict=True)
            return tuple(o * s - p + r * g for o, r, s, p, g in window)

        _write_maximum(c, self, tuple(map(Int.of, kernel)), at)


def _write_maximum(
    c: Context, self: Ref, kernel: Shape, at: Callable[[Index, Index], Index]
) -> None:
    """The largest element of each window and, for a second result, its place in the plane."""
    dims = len(kernel)
    plane = c.shape(self)[-dims:]
    if not c.dtype(self).is_float:
        raise CannotLower(f"{c.dtype(self)} tensors are not accepted")

    def args(outer: Index, inner: Index) -> tuple[Value, ...]:
        places = at(outer, inner)
        return (_element(c, self, outer[:-dims], places, plane, float("-inf")),)

    c.reduction((c.result(),), "max", kernel, args)
    if len(c.node.results) == 1:
        return
    window = c.temporary("argmax", c.dtype(c.result(1)), c.shape(c.result(1)))
    c.reduction((window,), "argmax", kernel, args)

    def place(index: Index) -> Value:
        flat = c.load(window, index)
        inner = unflatten_index(as_index(flat, product(kernel)), kernel)
        return position(flatten_index(at(index, inner), plane))

    c.pointwise(c.result(1), place)


def _element(
    c: Context, self: Ref, lead: Index, places: Index, plane: Shape, otherwise: float
) -> Value:
    conditions: list[Value] = []
    for found, size in zip(places, plane, strict=True):
        conditions += inside(found, 0, size)
    value = c.load(self, (*lead, *places))
    return guarded(conditions, value, constant(otherwise, value.dtype))


def _register_average(dims: int) -> None:
    @lowering(f"aten.avg_pool{dims}d.default")
    def avg_pool(
        c: Context,
        self: Ref,
        kernel_size: Steps,
        stride: Steps = (),
        padding: Steps = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        kernel = spread(kernel_size, dims)
        steps, pads = spread(stride or kernel, dims), spread(padding, dims)
        plane = c.shape(self)[-dims:]

        def starts(outer: Index) -> Index:
            return tuple(o * s - p for o, s, p in zip(outer[-dims:], steps, pads, strict=True))

        def count(outer: Index) -> Int:
            if divisor_override is not None:
                return Int.of(divisor_override)
            lengths = []
            for start, k, size, p in zip(starts(outer), kernel, plane, pads, strict=True):
                end = minimum(start + k, size + p)
                if not count_include_pad:
                    start, end = maximum(start, 0), minimum(end, size)
                lengths.append(end - start)
            return product(lengths)

        def ends(outer: Index) -> Index:
            return plane

        _write_average(c, self, tuple(map(Int.of, kernel)), starts, ends, count)


def _register_adaptive(dims: int) -> None:
    @lowering(f"aten.adaptive_avg_pool{dims}d.default", f"aten._adaptive_avg_pool{dims}d.default")
    def adaptive_avg_pool(c: Context, self: Ref, output_size: Arg) -> None:
        """Window o is [o*in//out, ceil((o+1)*in/out))."""
        plane, result = c.shape(self)[-dims:], c.shape(c.result())[-dims:]

        def starts(outer: Index) -> Index:
            sizes = zip(outer[-dims:], plane, result, strict=True)
            return tuple(o * size // n for o, size, n in sizes)

        def ends(outer: Index) -> Index:
            sizes = zip(outer[-dims:], plane, result, strict=True)
            return tuple(ceil_div((o + 1) * size, n) for o, size, n in sizes)

        def count(outer: Index) -> Int:
            return product(b - a for a, b in zip(starts(outer), ends(outer), strict=True))

        longest = tuple(_longest_window(size, n) for size, n in zip(plane, result, strict=True))
        _write_average(c, self, longest, starts, ends, count)


def _longest_window(size: Int, windows: Int) -> Int:
    exact = (size % windows).constant == 0
    return size // windows if exact else ceil_div(size, windows) + 1


def _write_average(
    c: Context,
    self: Ref,
    kernel: Shape,
    starts: Callable[[Index], Index],
    ends: Callable[[Index], Index],
    count: Callable[[Index], Int],
) -> None:
    """The sum of what lies in each window and before its end, divided by ``count``."""
    wide = result_dtype(c).accumulator
    if not c.dtype(self).is_float:
        raise CannotLower(f"{c.dtype(self)} tensors are not accepted")
    total = c.temporary("sum", wide, c.shape(c.result()))
    dims = len(kernel)

    def args(outer: Index, inner: Index) -> tuple[Value, ...]:
        places = tuple(s + r for s, r in zip(starts(outer), inner, strict=True))
        return (_element(c, self, outer[:-dims], places, ends(outer), 0.0),)

    def value(index: Index) -> Value:
        return apply("div", c.load(total, index), position(count(index), wide))

    c.reduction((total,), "sum", kernel, args)
    c.pointwise(c.result(), value)


def _register_nearest(dims: int) -> None:
    @lowering(f"aten.upsample_nearest{dims}d.vec", f"aten.upsample_nearest{dims}d.default")
    def upsample_nearest(c: Context, input: Ref, output_size: Arg, *scales: Arg) -> None:
        """Output o reads input ``o*in//out``: exact where sizes are given or factors are whole."""
        plane, result = c.shape(input)[-dims:], c.shape(c.result())[-dims:]
        given = [s for s in scales if s is not None]
        if given and any((n % size).constant != 0 for n, size in zip(result, plane, strict=True)):
            raise CannotLower("scale factors that are not whole numbers are not accepted")

        def mapped(index: Index) -> Index:
            sizes = zip(index[-dims:], plane, result, strict=True)
            return (*index[:-dims], *(o * size // n for o, size, n in sizes))

        emit_view(c, input, mapped)


for _dims in (1, 2, 3):
    _register_max(_dims)
    _register_average(_dims)
    _register_adaptive(_dims)
    _register_nearest(_dims)
