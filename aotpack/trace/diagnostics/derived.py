"""Conditions on sizes that torch derives and cannot prove, such as ``2*(n // 2) < n + 2``.

An export that asserts them, in place of refusing the model, is taken where they hold.
"""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram

_MOST_TRIED = 4096
_NEAR = 24  # sizes tried from each end of a longer range


def drop_derived(program: ExportedProgram) -> bool:
    """Remove, in place, the assertions about sizes of inputs alone; False if one may fail.

    All sizes of a range are tried, of longer ones many.
    """
    ranges = program.range_constraints
    found = list(_assertions(program.graph, {*ranges}))
    if not all(_holds(condition, ranges) for _, condition in found):
        return False
    for node, _ in found:
        asked = node.args[0]
        program.graph.erase_node(node)
        if isinstance(asked, fx.Node) and not asked.users:
            program.graph.erase_node(asked)
    program.graph_module.recompile()
    return True


def _assertions(graph: fx.Graph, known: set[Any]) -> Iterator[tuple[fx.Node, Any]]:
    """The assertions about sizes of inputs, with their conditions."""
    for node in list(graph.nodes):
        if node.target is not torch.ops.aten._assert_scalar.default:
            continue
        value = node.args[0].meta.get("val") if isinstance(node.args[0], fx.Node) else None
        if not isinstance(value, torch.SymBool):
            continue
        condition, environment = value.node.expr, value.node.shape_env
        symbols = condition.free_symbols
        if symbols <= known and not any(map(environment.is_unbacked_symint, symbols)):
            yield node, condition


def _holds(condition: Any, ranges: Any) -> bool:
    symbols = sorted(condition.free_symbols, key=str)
    spans = [_span(ranges[symbol]) for symbol in symbols]
    each = max(2, int(_MOST_TRIED ** (1 / max(1, len(spans)))))
    tried = [_some(low, high, each) for low, high in spans]
    for values in itertools.product(*tried):
        if condition.subs(dict(zip(symbols, values, strict=True))) is not sympy.true:
            return False
    return True


def _span(bounds: Any) -> tuple[int, int]:
    high = int(bounds.upper) if bounds.upper.is_Integer else 2**31
    return max(1, int(bounds.lower)), high


def _some(low: int, high: int, most: int) -> list[int]:
    """Sizes of a range: all, or those near its ends and powers of two between, and their sides."""
    if high - low < most:
        return list(range(low, high + 1))
    near = min(_NEAR, most // 4)
    ends = {*range(low, low + near), *range(high - near + 1, high + 1)}
    powers = (2**k + d for k in range(int(math.log2(high)) + 1) for d in (-1, 0, 1))
    return sorted(ends | {n for n in powers if low <= n <= high})
