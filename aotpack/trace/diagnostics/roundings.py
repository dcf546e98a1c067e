"""Refuses sizes that are rounded from floats which were rounded more than once.

torch folds ``n * 0.3 * 10`` to ``3.0 * n`` in the sizes that it records, and for 9 the one is
26.999999999999996, the other 27. A product or quotient alone is what it records.
"""

import math
import operator
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import sympy
import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from aotpack.errors import UnsupportedError
from aotpack.trace.source import users_source_of

ROUNDINGS = ("TruncToInt", "FloorToInt", "CeilToInt")  # of floats to sizes, by torch's names
_ROUNDED = (*ROUNDINGS, "RoundToInt")


class _Steps(IntEnum):
    """How often a float was rounded on its way from sizes."""

    NONE = 0
    ONE = 1
    MORE = 2


def check_roundings(name: str, program: ExportedProgram) -> None:
    """Raise ``UnsupportedError`` where a size is rounded from a float of several steps."""
    for part in program.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            found = _first(part.graph)
            if found is not None:
                source = users_source_of(found)
                raise UnsupportedError(
                    f"tracing {name}: a size is rounded from a float that is computed in several "
                    "steps, which torch records as one; accepted are one factor or divisor, as "
                    "math.floor(0.6 * n), and integers, as n * 6 // 10"
                    + (f"\n  at {source}" if source else "")
                )


def _first(graph: fx.Graph) -> fx.Node | None:
    """The first node that makes a size of such a float."""
    steps: dict[fx.Node, _Steps] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.SymFloat) and free_unbacked_symbols(value):
            continue  # a number that is data, which is refused as such
        floats = [steps[one] for one in node.all_input_nodes if one in steps]
        if isinstance(value, torch.SymFloat):
            steps[node] = _steps_of(node, steps)
        elif isinstance(node.target, OpOverload):  # which computes with it once more
            if max(floats, default=0) > _Steps.NONE and _makes_rounded(node):
                return node  # type: ignore[no-any-return]
        elif isinstance(value, (int, torch.SymInt)) and _Steps.MORE in floats:
            return node  # type: ignore[no-any-return]
    return None


def _steps_of(node: fx.Node, steps: dict[fx.Node, _Steps]) -> _Steps:
    """Those of the number that a node computes."""
    if node.target is torch.sym_float:
        return _Steps.NONE
    if node.target not in (operator.mul, operator.truediv) or len(node.args) != 2:
        return _Steps.MORE
    first, second = node.args
    if node.target is operator.mul and isinstance(second, fx.Node):
        first, second = second, first
    if isinstance(second, fx.Node) or not isinstance(second, (int, float)):
        return _Steps.MORE
    before = steps.get(first, _Steps.NONE) if isinstance(first, fx.Node) else _Steps.MORE
    if abs(math.frexp(second)[0]) == 0.5:  # a power of 2, which is exact
        return before
    return _Steps(min(before + 1, _Steps.MORE))


def _makes_rounded(node: fx.Node) -> bool:
    """True for an operator that rounds a size for its result, which no operand has."""
    known = {one for given in node.all_input_nodes for one in _rounded_in(given)}
    return not known.issuperset(_rounded_in(node))


def _rounded_in(node: fx.Node) -> Iterator[Any]:
    """The rounded floats in the sizes that a node is, or has."""
    for value in pytree.tree_leaves(node.meta.get("val")):
        for size in value.shape if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                functions = size.node.expr.atoms(sympy.Function)
                yield from (one for one in functions if type(one).__name__ in _ROUNDED)
