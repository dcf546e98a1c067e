"""Sizes for which a reshape that copies gives a view, or the reverse, of equally ordered memory.

    y.t().reshape(y.shape)        a view where y is square, a copy elsewhere

torch.export takes the way of the example's sizes for all, and notes no condition. Where the order
of memory itself depends on sizes, it does (``assumed``). Each call is tried without memory, on
small sizes and on those that its numbers suggest.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.fx.node import map_arg

from aotpack.trace.diagnostics.evaluated import evaluated

Values: TypeAlias = Mapping[Any, int]
"""Sizes by symbol."""
Ranges: TypeAlias = Mapping[Any, tuple[int, int]]
"""Their least and largest ones."""

_NEAR, _TOGETHER = 24, 10  # small sizes of one, and of each of two
_MOST = 4096


def sizes_of_another_way(node: fx.Node, example: Values, ranges: Ranges) -> Values | None:
    """Sizes for which a reshape shares memory and does not for the example's, or the reverse."""
    symbols = sorted({*_symbols(node)} & {*ranges} & {*example}, key=str)
    first = _tried(node, example)
    if first is None:
        return None
    for case in itertools.islice(_cases(node, symbols, example, ranges), _MOST):
        found = _tried(node, case)
        if found is not None and found[0] == first[0] and found[1] != first[1]:
            return {symbol: case[symbol] for symbol in symbols}
    return None


def _cases(
    node: fx.Node, symbols: Sequence[Any], example: Values, ranges: Ranges
) -> Iterator[Values]:
    suggested = _suggested(node)

    def admitted(symbol: Any, count: int) -> list[int]:
        low, high = ranges[symbol]
        return sorted({n for n in (*range(low, low + count), *suggested) if low <= n <= high})

    for symbol in symbols:
        yield from ({**example, symbol: n} for n in admitted(symbol, _NEAR))
    for one, other in itertools.combinations(symbols, 2):
        pairs = itertools.product(admitted(one, _TOGETHER), admitted(other, _TOGETHER))
        yield from ({**example, one: n, other: m} for n, m in pairs)


def _suggested(node: fx.Node) -> set[int]:
    """The numbers among sizes and strides, and their quotients."""
    numbers = {abs(one) for one in _sizes(node) if isinstance(one, int) and abs(one) > 1}
    numbers |= {a // b for a in numbers for b in numbers if a % b == 0}
    return {one for one in numbers if one > 0}


def _tried(node: fx.Node, values: Values) -> tuple[bool, bool] | None:
    """Whether the input is contiguous, and whether the result shares its memory."""
    try:
        given: Any = map_arg((node.args, node.kwargs), lambda one: _given(one, values))
        args, kwargs = given
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    except (RuntimeError, TypeError, ValueError, ZeroDivisionError):
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
    """A size of such sizes; ValueError for an expression of another form."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    found = evaluated(size.node.expr, values)
    if found is None:
        raise ValueError(f"{size} is no sum, product or quotient of sizes")
    return int(found)


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


def _symbols(node: fx.Node) -> Iterator[Any]:
    for size in _sizes(node):
        if isinstance(size, torch.SymInt):
            yield from size.node.expr.free_symbols


def example_sizes(graph: fx.Graph) -> Values:
    """The sizes that the inputs of a graph were traced with."""
    inputs = (node.meta.get("val") for node in graph.find_nodes(op="placeholder"))
    sizes = (one for x in inputs for one in (x.shape if isinstance(x, torch.Tensor) else [x]))
    nodes = (size.node for size in sizes if isinstance(size, torch.SymInt))
    return {one.expr: one.hint for one in nodes if one.expr.is_Symbol and one.hint is not None}
