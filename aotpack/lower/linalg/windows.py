"""Sliding windows: the steps, groups and results that convolutions and pooling share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.operations import Pointwise
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Int, product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Shape, points
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast
from aotpack.stages import Ref

Steps = tuple[int, ...]
LEAST_CHANNELS = 16  # of an inner digit: a step of a matrix unit


@dataclass(frozen=True, slots=True)
class Geometry:
    """The relation of output, kernel and input positions."""

    stride: Steps
    padding: Steps
    dilation: Steps
    groups: int
    transposed: bool


def spread(steps: Steps | int, dims: int) -> Steps:
    """Expand one number to all dimensions; a tuple is unchanged."""
    given = steps if isinstance(steps, tuple) else (steps,)
    return given * dims if len(given) == 1 else given


def has_inner_channels(channels: Int) -> bool:
    """True for many channels: they are the inner digit of a window, so a step reads neighbours."""
    return known_multiple(channels, LEAST_CHANNELS)


def window_element(k: Int, channels: Int, kernel: Shape) -> Index:
    """The channel of a group and the offsets in the kernel of an element of a window."""
    if has_inner_channels(channels):
        *offsets, channel = unflatten_index(k, (*kernel, channels))
        return (channel, *offsets)
    return unflatten_index(k, (channels, *kernel))


def group_axes(geometry: Geometry) -> Shape:
    """The group dimension of a product; none for a single group."""
    return (Int.of(geometry.groups),) if geometry.groups > 1 else ()


def write_channels(
    c: Context,
    bias: Ref | None,
    groups: Shape,
    digits: Sequence[Shape],
    read: Callable[[Index, Index, Int, Index], Value],
) -> None:
    """Write [item, channel, position] from sums by item, group, channel of the group and position.

    Each dimension of positions is iterated by its digits.
    """
    items = c.shape(c.result())[: -len(digits) - 1]
    per_group = c.shape(c.result())[len(items)] // product(groups)
    axes = c.axes("i", (*items, *groups, per_group, *chain(*digits)))
    rest = iter(points(axes))
    item, group = tuple(islice(rest, len(items))), tuple(islice(rest, len(groups)))
    own = next(rest)
    place = tuple(flatten_index(tuple(islice(rest, len(part))), part) for part in digits)
    channel = flatten_index((*group, own), (*groups, per_group))
    value = read(item, group, own, place)
    if bias is not None:
        value = apply("add", value, cast(c.load(bias, (channel,)), value.dtype))
    name = c.computed(c.result())
    stored = cast(value, c.dtype(c.result()))
    c.builder.append(Pointwise(name, axes, stored, (*item, channel, *place), c.origin))
