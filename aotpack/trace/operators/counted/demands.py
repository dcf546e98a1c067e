"""What calls of operators demand of sizes, where torch.export does not check it.

A maximum has an element at least, and so has what an index reads. A size that data decide may be 0:
then eager execution raises, and so does a call of the package. One that follows from declared sizes
may be 0 too: then the build is refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import reduce
from typing import Any, TypeAlias

import torch
from torch import fx

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.integers import Int, maximum, minimum, product, total
from aotpack.trace.operators.counted.bindings import length_of_slice
from aotpack.trace.operators.counted.demand import Demand, is_some
from aotpack.trace.operators.counted.numbers import demands_of_numbers
from aotpack.trace.operators.positions import arguments_of
from aotpack.trace.operators.strided import BY_STRIDES, reach_of
from aotpack.trace.sizes import Sizes

_Arguments: TypeAlias = Mapping[str, Any]
_RESULT = "the result"  # beside the arguments of a call


_Finder: TypeAlias = Callable[[_Arguments, Sizes], Iterator[Demand]]


def demands_of(node: fx.Node, sizes: Sizes) -> list[Demand]:
    """What a call demands; nothing for what the ranges of the sizes decide."""
    found = [*demands_of_numbers(node, sizes)]
    find = _FINDERS.get(str(node.target).removeprefix("aten."))
    if find is not None:
        found += find({**arguments_of(node), _RESULT: node}, sizes)
    return [one for one in found if one.holds.constant != 1]


def demands_in(graph: fx.Graph, sizes: Sizes) -> Iterator[tuple[fx.Node, Demand]]:
    """What the calls of a graph demand."""
    for node in graph.nodes:
        with suppress(UnsupportedError):  # of sizes that are none: reading the call tells
            yield from [(node, one) for one in demands_of(node, sizes)]


def _shape(node: fx.Node, sizes: Sizes) -> list[Int]:
    return [sizes.convert(size) for size in node.meta["val"].shape]


def _some(size: Int, unless: Int | None = None) -> Demand:
    """The size is 1 at least, unless another one is 0."""
    if unless is None or unless.constant:
        return Demand(is_some(size), f"{size} >= 1")
    return Demand(maximum(is_some(size), 1 - is_some(unless)), f"{size} >= 1, or {unless} == 0")


def _along(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """Reductions that nothing begins: each dimension that they take has elements."""
    shape = _shape(given["self"], sizes)
    dims = given.get("dim")
    taken = [dims] if isinstance(dims, int) else dims or range(len(shape))
    for dim in taken if shape else ():
        yield _some(shape[dim])


def _middle(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """The median of no floats is NaN."""
    if not given["self"].meta["val"].dtype.is_floating_point:
        yield from _along(given, sizes)


def _indexed(tensor: str) -> _Finder:
    """Reads and writes at positions along a dimension."""

    def find(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
        shape = _shape(given[tensor], sizes)
        positions = given["indices" if "indices" in given else "index"]
        if shape and isinstance(positions, fx.Node):
            asked = product(_shape(positions, sizes))
            yield _some(shape[given.get("dim", 0)], unless=asked)

    return find


def _taken(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """Positions in the whole tensor."""
    asked = product(_shape(given["index"], sizes))
    yield _some(product(_shape(given["self"], sizes)), unless=asked)


def _at(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """A tensor for each dimension, or None; masks are no positions."""
    shape = _shape(given["self"], sizes)
    for size, index in zip(shape, given["indices"], strict=False):
        if index is not None and index.meta["val"].dtype in (torch.bool, torch.uint8):
            return
        if index is not None:
            yield _some(size, unless=product(_shape(index, sizes)))


def _put(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """What is written broadcasts to the positions, and to the dimensions without."""
    yield from _at(given, sizes)
    indices = [*given["indices"]]
    used = [one for one in indices if one is not None]
    if any(one.meta["val"].dtype in (torch.bool, torch.uint8) for one in used):
        return
    places = [place for place, one in enumerate(indices) if one is not None]
    start = places[0] if places == [*range(places[0], places[-1] + 1)] else 0
    shape = _shape(given["self"], sizes)
    rest = [size for dim, size in enumerate(shape) if dim not in places]
    written = [*rest[:start], *_broadcast(used, sizes), *rest[start:]]
    for target, size in zip(written[::-1], _shape(given["values"], sizes)[::-1], strict=False):
        if size.constant != 1:
            yield _same(target, size, sizes)


def _broadcast(tensors: Iterable[fx.Node], sizes: Sizes) -> list[Int]:
    """The common shape; of unequal sizes, the first that is not 1."""
    shapes = [_shape(one, sizes)[::-1] for one in tensors]
    columns = [[s[k] for s in shapes if len(s) > k] for k in range(max(map(len, shapes)))]
    return [next((s for s in column if s.constant != 1), column[0]) for column in columns][::-1]


def _same(size: Int, other: Int, sizes: Sizes) -> Demand:
    return Demand(sizes.equal(size, other), f"{size} == {other}")


def _padded(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """Negative pads take elements away that are there."""
    pads = given["pad"]
    for size, low, high in zip(
        _shape(given["self"], sizes)[::-1], pads[::2], pads[1::2], strict=False
    ):
        ends = (one.meta["val"] if isinstance(one, fx.Node) else one for one in (low, high))
        left = total([size, *(minimum(sizes.convert(end), 0) for end in ends)])
        yield Demand(is_some(left + 1), f"{left} >= 0")


def _resized(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """Images have elements before and after, however many there are."""
    for one in (given["self" if "self" in given else "input"], given[_RESULT]):
        yield from map(_some, _shape(one, sizes)[1:])


def _sampled(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """Sides have elements, however many images there are."""
    yield from map(_some, _shape(given["input"], sizes)[2:])


def _pooled(dims: int) -> _Finder:
    def find(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
        yield from map(_some, _shape(given["self"], sizes)[-dims:])

    return find


def _row(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """A number selects a row that is there, perhaps from the end."""
    index = given["index"]
    if isinstance(index, fx.Node):
        return
    size = _shape(given["self"], sizes)[given["dim"]]
    at = sizes.convert(index)
    yield _some(size - at)
    yield _some(size + at + 1)


def _part(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """What replaces a slice has its length."""
    ends = (given["start"], given["end"], given["step"])
    length = length_of_slice(given["self"], given["dim"], *ends, sizes)
    yield _same(length, _shape(given["src"], sizes)[given["dim"]], sizes)


def _strided(given: _Arguments, sizes: Sizes) -> Iterator[Demand]:
    """Strides reach elements that are there, or no element is asked for."""
    view = reach_of(given, sizes)
    none = reduce(maximum, (1 - is_some(size) for size in view.shape), Int.of(0))
    yield Demand(maximum(is_some(view.left + 1), none), f"{view.left} >= 0")


_FINDERS: dict[str, _Finder] = {
    **dict.fromkeys(
        (
            *("max.default", "min.default", "max.dim", "min.dim", "amax.default", "amin.default"),
            *("argmax.default", "argmin.default", "aminmax.default", "mode.default"),
            *("median.dim", "nanmedian.dim", "kthvalue.default"),
        ),
        _along,
    ),
    **dict.fromkeys(("median.default", "nanmedian.default"), _middle),
    **dict.fromkeys(("take.default", "put.default"), _taken),
    **dict.fromkeys(("index.Tensor", "_unsafe_index.Tensor"), _at),
    **dict.fromkeys(("index_put.default", "_unsafe_index_put.default"), _put),
    **dict.fromkeys(
        (
            *("gather.default", "index_select.default", "index_reduce.default"),
            *("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce"),
            *("scatter_add.default", "scatter_reduce.two", "index_add.default"),
            *("index_copy.default", "index_fill.int_Scalar", "index_fill.int_Tensor"),
        ),
        _indexed("self"),
    ),
    **dict.fromkeys(
        (
            *("embedding.default", "embedding_bag.default", "embedding_bag.padding_idx"),
            *("_embedding_bag.default", "_embedding_bag_forward_only.default"),
        ),
        _indexed("weight"),
    ),
    **dict.fromkeys(("pad.default", "constant_pad_nd.default"), _padded),
    **{
        f"upsample_{kind}.{form}": _resized
        for kind in (
            *("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d"),
            *("bicubic2d", "_nearest_exact1d", "_nearest_exact2d", "_nearest_exact3d"),
        )
        for form in ("vec", "default")
    },
    **{
        f"adaptive_{kind}_pool{rank}d.default": _pooled(rank)
        for kind in ("avg", "max")
        for rank in (1, 2, 3)
    },
    **dict.fromkeys(
        ("grid_sampler.default", "grid_sampler_2d.default", "grid_sampler_3d.default"), _sampled
    ),
    "select_scatter.default": _row,
    "slice_scatter.default": _part,
    **dict.fromkeys((one.removeprefix("aten.") for one in BY_STRIDES), _strided),
}
