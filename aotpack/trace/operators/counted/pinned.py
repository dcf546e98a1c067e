"""Calls that count, where torch.export has put a size of its own in place of their count.

In ``x[mask] + y[:4]`` torch takes four elements to be chosen: the call yields 4, and no symbol. The
data may choose others, so such a call yields a size too, and a call of the package compares it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from aotpack.trace.operators.assertions import reads_number

_MASKS = (torch.bool, torch.uint8)
_DECIDING = {  # the argument that decides the count, of calls whose count is their first dimension
    "aten.nonzero.default": 0,
    "aten.masked_select.default": 1,
    "aten._unique2.default": 0,
    "aten.unique_consecutive.default": 0,
    "aten.repeat_interleave.Tensor": 0,
    "aten.bincount.default": 0,
}
_INDEX = "aten.index.Tensor"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A count: a dimension of a call's first result, or (None) the number it reads."""

    dimension: int | None
    value: Any


def pinned(node: fx.Node, counting: Collection[fx.Node]) -> Pinned | None:
    """The count of a call that no symbol stands for; ``counting`` are the calls that have one.

    torch counts equal masks once: a call whose mask another has counted yields its symbol.
    """
    value = node.meta.get("val")
    if reads_number(node):
        return Pinned(None, value) if _is_given(value) else None
    deciding = set(_deciding(node))
    if not deciding or any(deciding.intersection(_deciding(one)) for one in counting):
        return None
    if all(one.meta["val"].numel() == 0 for one in deciding):
        return None
    first = value[0] if isinstance(value, (tuple, list)) else value
    dimension = _dimension(node)
    assert isinstance(first, torch.Tensor)
    return Pinned(dimension, first.shape[dimension])


def _is_given(value: Any) -> bool:
    """True for an integer that is known, or that sizes of inputs give."""
    if not isinstance(value, torch.SymInt):
        return type(value) is int
    environment = value.node.shape_env
    return not any(map(environment.is_unbacked_symint, value.node.expr.free_symbols))


def _deciding(node: fx.Node) -> Iterator[fx.Node]:
    """The tensors by which a call counts."""
    if str(node.target) == _INDEX:
        yield from (one for one in _given(node) if one.meta["val"].dtype in _MASKS)
    elif str(node.target) in _DECIDING:
        argument = node.args[_DECIDING[str(node.target)]]
        assert isinstance(argument, fx.Node)
        yield argument


def _given(node: fx.Node) -> list[fx.Node]:
    indices = node.args[1]
    assert isinstance(indices, (tuple, list))
    return [one for one in indices if isinstance(one, fx.Node)]


def _dimension(node: fx.Node) -> int:
    """The dimension of the count: the last of those that indices give."""
    if str(node.target) != _INDEX:
        return 0
    indices = node.args[1]
    assert isinstance(indices, (tuple, list))
    places = [place for place, one in enumerate(indices) if one is not None]
    is_adjacent = places == list(range(places[0], places[0] + len(places)))
    values = [one.meta["val"] for one in _given(node)]
    rank = max(1 if value.dtype in _MASKS else value.dim() for value in values)
    return (places[0] if is_adjacent else 0) + rank - 1
