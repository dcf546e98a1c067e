"""Ranges of sizes that data decide, where torch.export narrowed them for sizes of 2 or more.

    torch._check(u0 + n <= 8), n from 1 to 5:  u0 <= 6  ->  u0 <= 7

torch takes n for 2 or more, derives ``u0 <= 6`` from what the model checks, and asserts that too. A
check that follows from others leaves no trace in the program, so checks are noted where they stand.
"""

import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch import fx
from torch._guards import TracingContext
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._sympy.solve import try_solve
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from aotpack.trace.diagnostics.derived import assertions, drop_assertion
from aotpack.trace.source import is_user_file

_Ranges = Mapping[sympy.Symbol, Any]
_WIDENED = "widened counted ranges"  # in the meta of a graph module
_UPPER, _LOWER = (sympy.Le, sympy.Lt), (sympy.Ge, sympy.Gt)


@contextmanager
def noted_checks() -> Iterator[dict[Any, None]]:
    """The conditions that the model checks inside the block, as expressions of symbols.

    torch also checks what it has derived, when no line of the model runs.
    """
    found: dict[Any, None] = {}
    before: Any = ShapeEnv.guard_or_defer_runtime_assert
    depth = len(traceback.extract_stack())

    def checked(self: ShapeEnv, condition: Any, *args: Any, **kwargs: Any) -> Any:
        lines = (*traceback.extract_stack()[depth:], *TracingContext.extract_stack())
        if any(is_user_file(frame.filename) for frame in lines):
            found[condition] = None
        return before(self, condition, *args, **kwargs)

    environment: Any = ShapeEnv
    environment.guard_or_defer_runtime_assert = checked
    try:
        yield found
    finally:
        environment.guard_or_defer_runtime_assert = before


def widen_counted_ranges(program: ExportedProgram, checks: Iterable[Any]) -> None:
    """Give such sizes, in place, the ranges that follow for all sizes that are admitted.

    ``checks`` are the conditions that the export checked.
    """
    widened = program.graph_module.meta.setdefault(_WIDENED, {})
    environment, relations = _shape_environment(program.graph), list(checks)
    if environment is None:
        return
    admitted: _Ranges = program.range_constraints
    traced = environment.var_to_range
    for symbol in environment.deferred_runtime_asserts:
        known = traced.get(symbol)
        if known is None or symbol not in admitted:
            continue
        low, high = _widened(symbol, known, relations, traced, admitted)
        if (low, high) == (known.lower, known.upper):
            continue
        widened[symbol] = known, ValueRanges(low, high)
    keep_counted_ranges(program, program)


def keep_counted_ranges(program: ExportedProgram, before: ExportedProgram) -> None:
    """Give the sizes of a program, in place, the ranges that those of ``before`` were given."""
    environment = _shape_environment(program.graph)
    for symbol, (known, wide) in before.graph_module.meta.get(_WIDENED, {}).items():
        program.range_constraints[symbol] = environment.var_to_range[symbol] = wide
        _drop_assertions(program.graph, _derived(symbol, known, wide.lower, wide.upper))
    program.graph_module.recompile()


def _shape_environment(graph: fx.Graph) -> Any:
    """torch's facts about the symbols of a graph; None without symbols."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for size in (*value.shape,) if isinstance(value, torch.Tensor) else (value,):
            if isinstance(size, torch.SymInt):
                return size.node.shape_env
    return None


def _widened(
    symbol: sympy.Symbol, known: Any, relations: list[Any], traced: _Ranges, admitted: _Ranges
) -> tuple[Any, Any]:
    """The range whose ends come from relations with other sizes, for the admitted ones."""
    low, high = known.lower, known.upper
    for kinds, is_upper in ((_UPPER, True), (_LOWER, False)):
        ends = [
            (*(_end(kind, bound, one, is_upper) for one in (traced, admitted)), bound)
            for kind, bound in _solved(symbol, relations)
            if isinstance(kind, (*kinds, sympy.Eq))
        ]
        end = high if is_upper else low
        if any(before == end and not bound.free_symbols for before, _, bound in ends):
            continue  # the model checks this end itself
        if any(before == end for before, _, _ in ends):
            choose = min if is_upper else max
            found = choose(after for _, after, _ in ends)
            low, high = (low, max(found, high)) if is_upper else (min(found, low), high)
    return low, high


def _solved(symbol: sympy.Symbol, relations: list[Any]) -> Iterator[tuple[Any, Any]]:
    """The relations with the symbol alone on the left, and their right sides.

    Of ``u0 * n <= 12`` torch narrows nothing: it has no ranges of quotients by sizes.
    """
    for relation in relations:
        is_about = isinstance(relation, sympy.Rel) and symbol in relation.free_symbols
        found = try_solve(relation, symbol) if is_about else None
        if found is not None and not found[1].as_numer_denom()[1].free_symbols:
            yield found


def _end(relation: Any, bound: Any, ranges: _Ranges, is_upper: bool) -> Any:
    """The most or least integer that a solved relation admits for some sizes."""
    strict = int(isinstance(relation, (sympy.Lt, sympy.Gt)))
    around = bound_sympy(bound, {name: ranges[name] for name in bound.free_symbols & {*ranges}})
    return around.upper - strict if is_upper else around.lower + strict


def _derived(symbol: sympy.Symbol, known: Any, low: Any, high: Any) -> set[Any]:
    """The conditions that torch asserts for ends of the range that are given up."""
    found = set()
    if high != known.upper:
        found |= {sympy.Le(symbol, known.upper), sympy.Ge(known.upper, symbol)}
    if low != known.lower:
        found |= {sympy.Ge(symbol, known.lower), sympy.Le(known.lower, symbol)}
    return found


def _drop_assertions(graph: fx.Graph, conditions: set[Any]) -> None:
    """Remove the assertions of these conditions."""
    for node, value in assertions(graph):
        if value.node.expr in conditions:
            drop_assertion(node)
