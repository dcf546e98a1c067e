"""Products with large weights, and lookups in them, which widen a piece of the weight at a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

PIECE = 2**22  # elements: 32 MB of float64
_ATEN = torch.ops.aten


def widened_in_pieces(node: fx.Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result in float64; None where the node is no such product, or its weight is small."""
    place = _WEIGHTS.get(node.target)
    if place is None or kwargs:
        return None
    weight = args[place]
    if weight.numel() <= PIECE or not weight.is_floating_point() or weight.dim() != 2:
        return None
    return _MEANINGS[node.target](*args)


def bytes_held(node: fx.Node, operand: fx.Node, size: float) -> float:
    """Those of ``size`` bytes in float64 that a node holds at once of an operand."""
    place = _WEIGHTS.get(node.target)
    is_weight = place is not None and node.args[place] is operand
    return min(size, 8.0 * PIECE) if is_weight else size


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    step = max(1, PIECE // weight.shape[1])
    wide = x.double()
    parts = [wide @ piece.double().T for piece in weight.split(step)]
    product = torch.cat(parts, dim=-1)
    return product if bias is None else product + bias.double()


def _mm(x: Any, weight: Any) -> Any:
    return _linear(x, weight.T)


def _addmm(bias: Any, x: Any, weight: Any) -> Any:
    return _linear(x, weight.T, bias)


def _embedding(weight: Any, indices: Any, *_: Any) -> Any:
    return weight[indices].double()


_WEIGHTS: Mapping[Any, int] = {
    _ATEN.linear.default: 1,
    _ATEN.matmul.default: 1,
    _ATEN.mm.default: 1,
    _ATEN.addmm.default: 2,
    _ATEN.embedding.default: 0,
}
"""The place of the weight among the arguments."""

_MEANINGS: Mapping[Any, Callable[..., Any]] = {
    _ATEN.linear.default: _linear,
    _ATEN.matmul.default: _mm,
    _ATEN.mm.default: _mm,
    _ATEN.addmm.default: _addmm,
    _ATEN.embedding.default: _embedding,
}
