"""Sizes for which a reshape that copies gives a view, or the reverse, of equally ordered memory.

    y.t().reshape(y.shape)        a view where y is square, a copy elsewhere

torch.export takes the way of the example's sizes for all, and notes no condition. Where the order
of memory itself depends on sizes, it does (``assumed``). Which way a reshape takes depends on which
sizes, strides and products of these are equal. So all sizes that are admitted are sorted by that,
and the call is tried, without memory, on one of each kind.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import sympy
import torch
from torch import fx
from torch.fx.node import map_arg

from aotpack.trace.diagnostics.asked.questions import Contiguous
from aotpack.trace.diagnostics.evaluated import evaluated

Values: TypeAlias = Mapping[Any, int]
"""Sizes by symbol."""
Ranges: TypeAlias = Mapping[Any, tuple[int, int]]
"""Their least and largest ones."""

_MOST = 2**16  # sets of sizes


class TooManySizesError(Exception):
    """There are too many sizes to tell, or sizes of an unknown form."""


def sizes_of_another_way(node: fx.Node, example: Values, ranges: Ranges) -> Values | None:
    """Sizes for which a reshape shares memory and does not for the example's, or the reverse.

    TooManySizesError where that cannot be told.
    """
    sizes = [one for one in _sizes(node) if isinstance(one, torch.SymInt)]
    symbols = sorted({s for one in sizes for s in one.node.expr.free_symbols}, key=str)
    if not symbols or _is_plain(node.args[0]):
        return None
    if not {*symbols} <= {*ranges} & {*example}:
        raise TooManySizesError
    first = _tried(node, example)
    if first is None:
        raise TooManySizesError
    for case in _kinds(node, symbols, ranges):
        found = _tried(node, case)
        if found is not None and found[0] == first[0] and found[1] != first[1]:
            return case
    return None


def _is_plain(node: Any) -> bool:
    """True for a tensor that is contiguous whatever its sizes are: a reshape is a view."""
    shape, strides = _layout(node.meta["val"])
    return bool(Contiguous(tuple(shape), tuple(strides)).condition == sympy.true)


def _kinds(node: fx.Node, symbols: Sequence[Any], ranges: Ranges) -> Iterator[Values]:
    """One of all sizes for each set of equal numbers."""
    spans = [range(low, high + 1) for low, high in (ranges[symbol] for symbol in symbols)]
    if math.prod(map(len, spans)) > _MOST:
        raise TooManySizesError
    grid = np.array([*itertools.product(*spans)], np.int64).T
    values = dict(zip(symbols, grid, strict=True))
    numbers = np.array([np.broadcast_to(x, grid.shape[1:]) for x in _compared(node, values)])
    above = np.triu_indices(len(numbers), 1)
    kinds = np.packbits(numbers[above[0]] == numbers[above[1]], axis=0)
    _, firsts = np.unique(kinds, axis=1, return_index=True)
    for at in sorted(firsts.tolist()):
        yield {symbol: int(value[at]) for symbol, value in values.items()}


def _compared(node: fx.Node, values: Mapping[Any, Any]) -> Iterator[Any]:
    """What decides the way: 1, strides, these times sizes, and products of neighbouring sizes."""
    own, made = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    strides, *shapes = (
        [_evaluated(one, values) for one in some] for some in (own.stride(), own.shape, made.shape)
    )
    yield 1
    yield from strides
    yield from (size * stride for size, stride in zip(shapes[0], strides, strict=True))
    for shape in shapes:
        for begin, end in itertools.combinations(range(len(shape) + 1), 2):
            yield math.prod(shape[begin:end])


def _tried(node: fx.Node, values: Values) -> tuple[bool, bool] | None:
    """Whether the input is contiguous, and whether the result shares its memory."""
    try:
        given: Any = map_arg((node.args, node.kwargs), lambda one: _given(one, values))
        args, kwargs = given
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    except (RuntimeError, TypeError, ValueError):
        return None  # refused elsewhere, where it is admitted
    own, made = (one.untyped_storage()._cdata for one in (args[0], result))
    return args[0].is_contiguous(), own == made


def _given(node: fx.Node, values: Values) -> Any:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return number_of(value, values)
    shape, strides = ([number_of(one, values) for one in some] for some in _layout(value))
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")


def number_of(size: Any, values: Values) -> int:
    """A size of such sizes; TooManySizesError for an expression of another form."""
    return int(_evaluated(size, values))


def _evaluated(size: Any, values: Mapping[Any, Any]) -> Any:
    if not isinstance(size, torch.SymInt):
        return int(size)
    try:
        found = evaluated(size.node.expr, values)
    except ZeroDivisionError:
        found = None
    if found is None:
        raise TooManySizesError
    return found


def _layout(tensor: torch.Tensor) -> tuple[Sequence[Any], Sequence[Any]]:
    return tensor.shape, tensor.stride()


def _sizes(node: fx.Node) -> Iterator[Any]:
    """All sizes and strides of the tensors of a call, and its numbers."""
    for one in (node, *node.all_input_nodes):
        value = one.meta.get("val")
        if isinstance(value, torch.Tensor):
            yield from itertools.chain(*_layout(value))
        else:
            yield value


def example_sizes(graph: fx.Graph) -> Values:
    """The sizes that the inputs of a graph were traced with."""
    inputs = (node.meta.get("val") for node in graph.find_nodes(op="placeholder"))
    sizes = (one for x in inputs for one in (x.shape if isinstance(x, torch.Tensor) else [x]))
    nodes = (size.node for size in sizes if isinstance(size, torch.SymInt))
    return {one.expr: one.hint for one in nodes if one.expr.is_Symbol and one.hint is not None}
