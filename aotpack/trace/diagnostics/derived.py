"""Conditions on sizes that torch derives and cannot prove, such as ``2*(n // 2) < n + 2``.

An export that asserts them, in place of refusing the model, is taken if they hold for all sizes.
"""

import itertools
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod

from aotpack.errors import TraceError

_MOST_TRIED = 4096
_LONGEST_PERIOD = 1024
_DIVISIONS = (FloorDiv, Mod, PythonMod)


def drop_derived(program: ExportedProgram) -> list[str]:
    """Remove, in place, the assertions about sizes of inputs alone; those that are not proved."""
    ranges = program.range_constraints
    found = list(_about_inputs(program.graph, ranges))
    conditions = dict.fromkeys((*(one for _, one in found), *_unwritten(program.graph, ranges)))
    open_ones = [str(condition) for condition in conditions if not _holds(condition, ranges)]
    if open_ones:
        return open_ones
    for node, _ in found:
        drop_assertion(node)
    program.graph_module.recompile()
    return []


def check_asserted(name: str, program: ExportedProgram) -> None:
    """Refuse an exported program that asserts sizes of inputs which it admits and others."""
    if open_ones := drop_derived(program):
        raise TraceError(
            f"tracing {name}: the program asserts {'; '.join(open_ones)}, which does not hold, or "
            "is not proved, for all sizes that it admits. Export it without "
            "prefer_deferred_runtime_asserts_over_guards, with ranges for which it holds."
        )


def assertions(graph: fx.Graph) -> Iterator[tuple[fx.Node, torch.SymBool]]:
    """The assertions about sizes, with what they assert."""
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._assert_scalar.default:
            value = node.args[0].meta.get("val") if isinstance(node.args[0], fx.Node) else None
            if isinstance(value, torch.SymBool):
                yield node, value


def drop_assertion(node: fx.Node) -> None:
    """Remove an assertion, and its condition if nothing else reads that."""
    (asked, *_), graph = node.args, node.graph
    graph.erase_node(node)
    if isinstance(asked, fx.Node) and not asked.users:
        graph.erase_node(asked)


def _about_inputs(graph: fx.Graph, known: Collection[Any]) -> Iterator[tuple[fx.Node, Any]]:
    """The assertions about sizes of inputs, with their conditions."""
    for node, value in assertions(graph):
        condition, environment = value.node.expr, value.node.shape_env
        symbols = condition.free_symbols
        if symbols <= {*known} and not any(map(environment.is_unbacked_symint, symbols)):
            yield node, condition


def _unwritten(graph: fx.Graph, known: Collection[Any]) -> Iterator[Any]:
    """The conditions on sizes of inputs that torch has noted, also those that it does not assert.

    It asserts nothing about floats: of ``int(0.6 * n)`` the example's number stays in the program.
    """
    values = (node.meta.get("val") for node in graph.nodes)
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    sizes: Iterator[Any] = (size for one in tensors for size in one.shape)
    environments = {size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)}
    for environment in environments:
        noted = (one.expr for some in environment.deferred_runtime_asserts.values() for one in some)
        for condition in noted:
            symbols = condition.free_symbols
            if symbols <= {*known} and not any(map(environment.is_unbacked_symint, symbols)):
                yield condition


def _holds(condition: Any, ranges: Mapping[Any, Any]) -> bool:
    """True for a condition that holds for all sizes: all are tried; a long range needs a proof."""
    spans = {symbol: _span(ranges[symbol]) for symbol in sorted(condition.free_symbols, key=str)}
    longest = max(spans, key=lambda symbol: spans[symbol][1] - spans[symbol][0], default=None)
    others = [symbol for symbol in spans if symbol is not longest]
    count = math.prod(high - low + 1 for low, high in map(spans.__getitem__, others))
    if longest is None or count > _MOST_TRIED:
        return condition is sympy.true
    tried = itertools.product(*(range(spans[one][0], spans[one][1] + 1) for one in others))
    most = _MOST_TRIED // count
    cases = (condition.subs(dict(zip(others, values, strict=True))) for values in tried)
    return all(_holds_along(case, longest, *spans[longest], most) for case in cases)


def _holds_along(condition: Any, symbol: sympy.Symbol, low: int, high: int, most: int) -> bool:
    if condition is sympy.true or condition is sympy.false:
        return condition is sympy.true
    if high - low < most:
        return all(condition.subs(symbol, n) is sympy.true for n in range(low, high + 1))
    return is_proved(condition, symbol, low)


def is_proved(condition: Any, symbol: sympy.Symbol, low: int) -> bool:
    """True if a relation holds from ``low`` on.

    Its sides are sums of multiples, and of quotients and remainders by constants: from one period
    of the divisors to the next, their difference changes by the same for all sizes.
    """
    period = _period(condition) if isinstance(condition, sympy.Rel) else None
    if period is None or period > _LONGEST_PERIOD:
        return False
    apart = condition.lhs - condition.rhs
    first, second = (
        [int(apart.subs(symbol, n + begin)) for n in range(low, low + period)]
        for begin in (0, period)
    )
    (drift, *others) = {after - before for before, after in zip(first, second, strict=True)}
    if others:
        return False
    below, above = max(first), min(first)
    match condition:
        case sympy.Lt():
            return below < 0 and drift <= 0
        case sympy.Le():
            return below <= 0 and drift <= 0
        case sympy.Gt():
            return above > 0 and drift >= 0
        case sympy.Ge():
            return above >= 0 and drift >= 0
        case sympy.Ne():
            return (below < 0 and drift <= 0) or (above > 0 and drift >= 0)
        case sympy.Eq():
            return below == above == drift == 0
    return False


def _period(expression: Any) -> int | None:
    """The product of all divisors; None for an expression with other terms."""
    if isinstance(expression, _DIVISIONS):
        of, divisor = expression.args
        inner = _period(of)
        if inner is None or not divisor.is_Integer or divisor <= 0:
            return None
        return inner * int(divisor)
    if expression.is_Integer or expression.is_Symbol:
        return 1
    if not isinstance(expression, (sympy.Add, sympy.Mul, sympy.Rel)):
        return None
    if isinstance(expression, sympy.Mul) and sum(not a.is_Integer for a in expression.args) > 1:
        return None
    periods = [_period(part) for part in expression.args]
    known = [one for one in periods if one is not None]
    return math.prod(known) if len(known) == len(periods) else None


def _span(bounds: Any) -> tuple[int, int]:
    high = int(bounds.upper) if bounds.upper.is_Integer else 2**31
    return max(1, int(bounds.lower)), high
