"""im2col, col2im and max_unpool: patches of an image as columns, and back."""

from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape
from aotpack.lower.indexing.scatter import Points, take_in
from aotpack.lower.linalg.windows import Steps, spread
from aotpack.lower.registry import lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, constant, guarded, position, target_from
from aotpack.stages import Ref


@lowering("aten.im2col.default")
def im2col(
    c: Context, self: Ref, kernel_size: Steps, dilation: Steps, padding: Steps, stride: Steps
) -> None:
    """``result[.., (channel, offsets), window] = self[.., channel, window * stride + offsets]``."""
    kernel = tuple(map(Int.of, spread(kernel_size, 2)))
    gaps, pads, steps = (spread(each, 2) for each in (dilation, padding, stride))
    plane = c.shape(self)[-2:]
    windows = _windows(plane, kernel, gaps, pads, steps)

    def value(index: Index) -> Value:
        channel, *offsets = unflatten_index(index[-2], (c.shape(self)[-3], *kernel))
        window = unflatten_index(index[-1], windows)
        parts = zip(window, offsets, steps, gaps, pads, strict=True)
        places = tuple(w * s + o * g - p for w, o, s, g, p in parts)
        conditions = [
            condition
            for place, size in zip(places, plane, strict=True)
            for condition in range_checks(place, 0, size)
        ]
        element = c.load(self, (*index[:-2], channel, *places))
        return guarded(conditions, element, constant(0, element.dtype))

    c.pointwise(c.result(), value)


@lowering("aten.col2im.default")
def col2im(
    c: Context,
    self: Ref,
    output_size: tuple[Int | int, ...],
    kernel_size: Steps,
    dilation: Steps,
    padding: Steps,
    stride: Steps,
) -> None:
    """A pixel is the sum over the windows that cover it: a reduction over kernel positions."""
    kernel = tuple(map(Int.of, spread(kernel_size, 2)))
    gaps, pads, steps = (spread(each, 2) for each in (dilation, padding, stride))
    plane = c.shape(c.result())[-2:]
    windows = _windows(plane, kernel, gaps, pads, steps)
    wide = c.dtype(c.result()).accumulator

    def args(outer: Index, inner: Index) -> tuple[Value, ...]:
        conditions: list[Value] = []
        window = []
        parts = zip(outer[-2:], inner, windows, steps, gaps, pads, strict=True)
        for pixel, offset, count, step, gap, pad in parts:
            reach = pixel + pad - offset * gap
            window.append(reach // step)
            conditions += range_checks(reach // step, 0, count)
            if step > 1:
                conditions.append(apply("eq", position(reach % step), 0))
        row = flatten_index((outer[-3], *inner), (c.shape(c.result())[-3], *kernel))
        column = flatten_index(tuple(window), windows)
        element = cast(c.load(self, (*outer[:-3], row, column)), wide)
        return (guarded(conditions, element, constant(0, wide)),)

    if wide is c.dtype(c.result()):
        c.reduction((c.result(),), "sum", kernel, args)
        return
    total = c.temporary("total", wide, c.shape(c.result()))
    c.reduction((total,), "sum", kernel, args)
    c.pointwise(c.result(), lambda index: c.load(total, index))


def _windows(
    plane: Shape,
    kernel: Shape,
    gaps: tuple[int, ...],
    pads: tuple[int, ...],
    steps: tuple[int, ...],
) -> Shape:
    """The number of windows along each side."""
    sides = zip(plane, kernel, gaps, pads, steps, strict=True)
    return tuple((n + 2 * p - (k - 1) * g - 1) // s + 1 for n, k, g, p, s in sides)


def _register_unpool(dims: int) -> None:
    @lowering(f"aten.max_unpool{dims}d.default")
    def max_unpool(
        c: Context,
        self: Ref,
        indices: Ref,
        output_size: tuple[Int | int, ...],
        stride: Steps = (),
        padding: Steps = (),
    ) -> None:
        """Zeros, with each element scattered to its index in the plane."""
        plane = c.shape(c.result())[-dims:]
        zeros = c.temporary("zeros", c.dtype(self), c.shape(c.result()))
        c.pointwise(zeros, lambda index: constant(0, c.dtype(self)))

        def place(point: Index) -> Index:
            flat = target_from(c.load(indices, point), product(plane))
            return (*point[:-dims], *unflatten_index(flat, plane))

        points = Points(c.shape(self), place)
        take_in(c, c.result(), zeros, "set", points, lambda point: c.load(self, point))


for _dims in (2, 3):
    _register_unpool(_dims)
