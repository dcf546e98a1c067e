"""Conditions on sizes that torch derives and cannot prove, such as ``2*(n // 2) < n + 2``.

An export that asserts them, in place of refusing the model, is taken if they hold for all sizes.
"""

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import sympy
import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils._sympy.printers import PythonPrinter

from aotpack.errors import TraceError
from aotpack.trace.diagnostics.asked.questions import Branch
from aotpack.trace.diagnostics.assumed import ASSUMED, fails_near, may_assume
from aotpack.trace.diagnostics.conditions import place_of, shown_size
from aotpack.trace.diagnostics.evaluated import DIVISIONS, Values, evaluated, holds_for
from aotpack.trace.diagnostics.multiples import Declared

_MOST_TRIED = 4096
_LONGEST_PERIOD = 1024
_REMAINDER = r"\w*Mod\((?:[^()]|\([^()]*\))*\)"  # alone, it is no count of elements
_IS_ONE = re.compile(rf"evaluate_expr: (Eq|Ne)\((?:.*, 1|(?!{_REMAINDER}, 0).*, 0)\)")
_ASKED = re.compile(r"evaluate_expr: (Eq|Ne)\(.*\)")
_IS_STRIDE = re.compile(
    rf"evaluate_expr: Ne\((?!{_REMAINDER}, 0\)).*\)"
)  # a stride is not the product of the sizes
_REPEATED = re.compile(r".*/TensorCompare\.cpp:\d+")  # an assertion that torch traced again


def drop_derived(program: ExportedProgram) -> list[str]:
    """Remove, in place, the assertions about sizes of inputs alone; those that are not proved."""
    conditions, open_ones = _asserted(program)
    if not open_ones:
        _drop(program, conditions)
    return [with_names(program, one) for one in open_ones]


def drop_assumed(program: ExportedProgram, branches: Collection[Branch] | None) -> list[Any]:
    """The same, also of what may be assumed: the conditions to try are in the meta.

    ``branches`` are conditions that the model asks for; None if they are not known.
    """
    conditions, open_ones = _asserted(program)
    ranges = {str(symbol): span_of(bounds) for symbol, bounds in program.range_constraints.items()}
    noted = _noted(program.graph, program.range_constraints)
    why = [(condition, asked) for condition, asked in noted if not _REPEATED.fullmatch(asked)]
    others = {condition for condition, asked in why if not _is_of_layouts(condition, asked)}
    known = {condition for condition, _ in why} - others
    refused = [
        one for one in open_ones if one not in known or not may_assume(one, ranges, branches)
    ]
    if not refused:
        _drop(program, conditions)
        program.graph_module.meta[ASSUMED] = tuple(open_ones)
    return refused


def breaks_guards(program: ExportedProgram) -> bool:
    """True where sizes that are admitted break a condition under which torch exported."""
    ranges = {str(symbol): span_of(bounds) for symbol, bounds in program.range_constraints.items()}
    guards = (
        environment.replace(guard.expr)  # where sizes are equal, by one symbol
        for environment in _environments(program.graph)
        for guard in environment.guards
    )
    return any(fails_near(one, ranges) for one in dict.fromkeys(guards))


def _is_of_layouts(condition: Any, asked: str) -> bool:
    """True for what torch asks to know how a tensor lies.

    A size is not 1 (of ``n - 1 != 1`` it notes ``n != 2``), a count of elements is not 0 (``n % 2``
    alone is none), or, with either answer, a stride is not the product of the sizes behind it:
    ``n != 8`` of the first n columns of 8.
    """
    if not isinstance(condition, (sympy.Eq, sympy.Ne)):
        return False
    is_one = isinstance(condition, sympy.Ne) and (_ASKED if condition.rhs == 1 else _IS_ONE)
    return bool(_IS_STRIDE.fullmatch(asked) or (is_one and is_one.fullmatch(asked)))


def _number_last(condition: Any) -> Any:
    """``8 != n`` as ``n != 8``, which torch writes both ways."""
    is_turned = isinstance(condition, (sympy.Eq, sympy.Ne)) and condition.lhs.is_number
    return condition.reversed if is_turned else condition


def _asserted(program: ExportedProgram) -> tuple[Collection[Any], list[Any]]:
    """The conditions on sizes of inputs that are asserted, and those that are not proved."""
    ranges = program.range_constraints
    written = (condition for _, condition in _about_inputs(program.graph, ranges))
    noted = (condition for condition, _ in _noted(program.graph, ranges))
    conditions = dict.fromkeys((*written, *noted))
    return conditions, [one for one in conditions if not _holds(one, ranges)]


def _drop(program: ExportedProgram, conditions: Collection[Any]) -> None:
    """Remove what asserts these, also inside of branches and loops."""
    for part in program.graph_module.modules():
        if isinstance(part, fx.GraphModule):
            for node, condition in _about_inputs(part.graph, program.range_constraints):
                if condition in conditions:
                    drop_assertion(node)
            part.recompile()


class OnlySome(Exception):
    """The sizes of a program, and the conditions on them under which alone it is right."""

    def __init__(self, sizes: Collection[Declared], conditions: Collection[str]) -> None:
        super().__init__(*conditions)
        self.sizes, self.conditions = sizes, dict.fromkeys(conditions, "")


def only_some(program: ExportedProgram, conditions: Collection[Any]) -> OnlySome | None:
    """The error that names conditions; None where they are about sizes that no input has alone."""
    symbols = {one for condition in conditions for one in condition.free_symbols}
    sizes = {symbol: _declared(program, symbol) for symbol in sorted(symbols, key=str)}
    known = {symbol: size for symbol, size in sizes.items() if size is not None}
    if len(known) < len(symbols):
        return None
    names = {symbol: sympy.Symbol(size.name, integer=True) for symbol, size in known.items()}
    texts = [PythonPrinter().doprint(one.xreplace(names)) for one in conditions]
    return OnlySome([*known.values()], texts)


def with_names(program: ExportedProgram, size: Any) -> str:
    """A size of a program, or a condition, with the names of the sizes of its inputs."""
    expression = size.node.expr if isinstance(size, torch.SymInt) else size
    if not isinstance(expression, sympy.Basic):
        return str(size)
    found = {symbol: _name(program, symbol) for symbol in expression.free_symbols}
    names = {symbol: sympy.Symbol(name, integer=True) for symbol, name in found.items() if name}
    named = expression.xreplace(names)
    return PythonPrinter().doprint(named) if isinstance(named, sympy.Rel) else str(named)


def _name(program: ExportedProgram, symbol: sympy.Symbol) -> str | None:
    """The name that a size was declared by, else its place, such as ``x.shape[0]``."""
    for environment in _environments(program.graph):
        for source in environment.var_to_sources.get(symbol, ()):
            declared = environment.source_name_to_debug_name.get(source.name)
            return declared or shown_size(source.name)
    return None


def _declared(program: ExportedProgram, symbol: sympy.Symbol) -> Declared | None:
    """The declaration of a size."""
    for environment in _environments(program.graph):
        for source in environment.var_to_sources.get(symbol, ()):
            name = environment.source_name_to_debug_name.get(source.name)
            if name is not None:
                low, high = span_of(program.range_constraints[symbol])
                return Declared(name, *place_of(source.name), low, high)
    return None


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
            yield node, _number_last(condition)


def _noted(graph: fx.Graph, known: Collection[Any]) -> Iterator[tuple[Any, str]]:
    """The conditions on sizes of inputs that torch has noted, with what it asked.

    It does not assert all of them, as nothing about floats: of ``int(0.6 * n)`` the example's
    number stays in the program.
    """
    for environment in _environments(graph):
        for noted in itertools.chain(*environment.deferred_runtime_asserts.values()):
            condition = environment.replace(noted.expr)
            symbols = condition.free_symbols
            if symbols <= {*known} and not any(map(environment.is_unbacked_symint, symbols)):
                yield _number_last(condition), noted.msg


def _environments(graph: fx.Graph) -> set[Any]:
    """torch's knowledge about the sizes of a graph."""
    values = (node.meta.get("val") for node in graph.nodes)
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    sizes: Iterator[Any] = (size for one in tensors for size in one.shape)
    return {size.node.shape_env for size in sizes if isinstance(size, torch.SymInt)}


def _holds(condition: Any, ranges: Mapping[Any, Any]) -> bool:
    """True for a condition that holds for all sizes: all are tried; a long range needs a proof."""
    spans = {symbol: span_of(ranges[symbol]) for symbol in sorted(condition.free_symbols, key=str)}
    longest = max(spans, key=lambda symbol: spans[symbol][1] - spans[symbol][0], default=None)
    others = [symbol for symbol in spans if symbol is not longest]
    count = math.prod(high - low + 1 for low, high in map(spans.__getitem__, others))
    if longest is None or count > _MOST_TRIED:
        return condition is sympy.true
    tried = itertools.product(*(range(spans[one][0], spans[one][1] + 1) for one in others))
    most = _MOST_TRIED // count
    cases = (dict(zip(others, values, strict=True)) for values in tried)
    try:
        return all(_holds_along(condition, case, longest, *spans[longest], most) for case in cases)
    except ZeroDivisionError:  # of a remainder
        return False


def _holds_along(
    condition: Any, case: Values, symbol: sympy.Symbol, low: int, high: int, most: int
) -> bool:
    """True if a condition holds for all sizes of a symbol, where others are those of a case."""
    if high - low >= most:
        return is_proved(condition, symbol, low, case) or is_proved(
            condition.subs(case), symbol, low, {}
        )
    found = holds_for(condition, {**case, symbol: np.arange(low, high + 1)})
    if found is not None:
        return found
    one = condition.subs(case)
    return all(one.subs(symbol, n) is sympy.true for n in range(low, high + 1))


def is_proved(condition: Any, symbol: sympy.Symbol, low: int, case: Values) -> bool:
    """True if a relation holds from ``low`` on.

    Its sides are sums of multiples, and of quotients and remainders by constants: from one period
    of the divisors to the next, their difference changes by the same for all sizes. Other symbols
    have the numbers of a ``case``.
    """
    if condition is sympy.true:
        return True
    period = _period(condition, symbol, case) if isinstance(condition, sympy.Rel) else None
    if period is None or period > _LONGEST_PERIOD:
        return False
    sizes = {**case, symbol: np.arange(low, low + 2 * period)}
    sides = [evaluated(side, sizes) for side in condition.args]
    if any(side is None for side in sides):
        return False
    apart = np.broadcast_to(sides[0] - sides[1], (2 * period,))
    first: list[int] = apart[:period].tolist()
    second: list[int] = apart[period:].tolist()
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


def _period(expression: Any, symbol: sympy.Symbol, case: Values) -> int | None:
    """The product of all divisors; None for an expression with other terms."""
    if isinstance(expression, DIVISIONS):
        of, divisor = expression.args
        inner = _period(of, symbol, case)
        size = None if symbol in divisor.free_symbols else evaluated(divisor, case)
        if inner is None or size is None or size <= 0:
            return None
        return inner * int(size)
    if expression.is_Integer or expression.is_Symbol:
        return 1
    if not isinstance(expression, (sympy.Add, sympy.Mul, sympy.Rel)):
        return None
    parts = expression.args
    if isinstance(expression, sympy.Mul) and sum(symbol in a.free_symbols for a in parts) > 1:
        return None
    periods = [_period(part, symbol, case) for part in parts if symbol in part.free_symbols]
    known = [one for one in periods if one is not None]
    return math.prod(known) if len(known) == len(periods) else None


def span_of(bounds: Any) -> tuple[int, int]:
    """The least and largest size of a range of torch; sizes are at least 1."""
    high = int(bounds.upper) if bounds.upper.is_Integer else 2**31
    low = int(bounds.lower) if bounds.lower.is_Integer else 1  # what is computed has no end
    return max(1, low), high
