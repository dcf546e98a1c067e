"""Conversions that the model asks for, and those that a decomposition inserted.

A decomposition computes an operator on 16-bit numbers in float32: it widens the operands and
converts the result back. That last conversion is the rounding of the operator's result. All others,
those of an autocast region included, are the model's own and round where they stand.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import fx

from aotpack.ir.rounding import CONVERSIONS

_TORCHS = ("aten.", "prims.")


def is_inserted(node: fx.Node) -> bool:
    """True for a conversion that a decomposition of another operator of torch inserted.

    ``from_node`` has the nodes of earlier graphs that a node was made from: for the model's own
    conversion all are conversions. In an autocast region it has the region alone; there
    ``original_aten`` is the operator that was decomposed. The function of an operator that the
    user registered is the user's own code.
    """
    made_from = [*_targets(node.meta.get("from_node") or ()), str(node.meta.get("original_aten"))]
    return any(one.startswith(_TORCHS) and one not in CONVERSIONS for one in made_from)


def _targets(sources: Iterable[Any]) -> Iterable[str]:
    for source in sources:
        yield source.target
        yield from _targets(source.from_node)


def is_rounding(node: fx.Node) -> bool:
    """True for a conversion of the model's own to a type that lacks values of the operand's."""
    if str(node.target) not in CONVERSIONS or is_inserted(node):
        return False
    before, after = _source(node).meta["val"].dtype, node.meta["val"].dtype
    return after.is_floating_point and not _contains(after, before)


def _source(node: fx.Node) -> Any:
    """The tensor that is converted; that of a copy is its second argument."""
    return node.args[1 if str(node.target).startswith("aten.copy") else 0]


def _contains(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """True when each number of ``narrow`` is one of ``wide``, a type of floats."""
    if narrow is torch.bool:
        return True
    if not narrow.is_floating_point:
        return torch.iinfo(narrow).max < 2 / torch.finfo(wide).eps
    a, b = torch.finfo(wide), torch.finfo(narrow)
    return a.eps <= b.eps and a.max >= b.max and a.smallest_normal <= b.smallest_normal
