"""Calls that demand what a declared size may not give, as an element: refused at the build."""

import operator
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from aotpack.errors import TraceError
from aotpack.ir.symbolic.integers import Var
from aotpack.trace.diagnostics.guards import admitted
from aotpack.trace.operators.control_flow.control import COND, part_of
from aotpack.trace.operators.counted.demand import Demand
from aotpack.trace.operators.counted.demands import demands_in
from aotpack.trace.sizes import Sizes
from aotpack.trace.source import source_of

_SOUGHT = 4096  # sizes, for the first that is right


def check_demands(name: str, program: ExportedProgram, sizes: Sizes) -> None:
    """Refuse a call whose demands an admitted size does not meet: eager raises there.

    torch.export makes no condition of all, as the maximum of ``x[3:]``. What data decide, a call
    of the package checks. So are calls in bodies refused, which read before a call could look at a
    flag, but for branches that a size chooses.
    """
    counted = {sizes.variables[symbol] for symbol in sizes.counted}
    first: dict[Demand, fx.Node] = {}  # calls of one kind demand the same
    for node, asked in chain(*(demands_in(graph, sizes) for graph in _graphs(program))):
        first.setdefault(asked, node)
    for asked, node in first.items():
        variables = [one for one in asked.holds.leaves() if isinstance(one, Var)]
        if variables and counted.isdisjoint(variables) and not asked.is_checked_in_calls:
            for values in _tried(variables, asked):
                if asked.holds.evaluate(values) != 1:
                    raise _without_elements(name, node, asked, values)


def _tried(variables: Sequence[Var], asked: Demand) -> Iterator[Mapping[str, int]]:
    """Sizes at ends of ranges and near numbers of the condition; of one size, many more."""
    numbers = [int(number) for number in re.findall(r"\b\d+\b", asked.text)]
    yield from admitted(variables, numbers)
    if len(variables) == 1:
        (size,) = variables
        yield from ({size.name: n} for n in range(size.low, min(size.high + 1, size.low + _SOUGHT)))


def _graphs(program: ExportedProgram) -> Iterator[fx.Graph]:
    """That of the program, and those of bodies which run for some data."""
    parts = [one for one in program.graph_module.modules() if isinstance(one, fx.GraphModule)]
    nodes = [node for one in parts for node in one.graph.nodes if node.target is COND]
    by_size = [node for node in nodes if _is_of_sizes(node.args[0])]
    chosen = {part_of(part) for node in by_size for part in node.args[1:3]}
    return (one.graph for one in parts if one not in chosen)


def _is_of_sizes(predicate: Any) -> bool:
    value = predicate.meta.get("val") if isinstance(predicate, fx.Node) else predicate
    return not isinstance(value, torch.Tensor)


def _without_elements(
    name: str, node: fx.Node, asked: Demand, values: Mapping[str, int]
) -> TraceError:
    found = ", ".join(f"{key}={value}" for key, value in values.items())
    what = "a division" if node.target is operator.truediv else str(node.target)
    source = source_of(node)
    place = f"\n  at {source}" if source else ""
    return TraceError(
        f"exporting {name}: {what} needs {asked.text}, which does not hold for {found}. "
        f"Give the dimension {_remedy(asked, values)}, or change the line.{place}"
    )


def _remedy(asked: Demand, values: Mapping[str, int]) -> str:
    """A range without the value of a single size."""
    ((key, value), *others) = values.items()
    (low,) = {one.low for one in asked.holds.leaves() if isinstance(one, Var) and one.name == key}

    def holds(n: int) -> bool:
        return bool(asked.holds.evaluate({key: n}) == 1)

    if others:
        return "a range where it holds"
    if value > low and holds(low):
        return f"max={low + bisect_left(range(low, value), True, key=lambda n: not holds(n)) - 1}"
    least = next((n for n in range(value, value + _SOUGHT) if holds(n)), None)
    return "a range where it holds" if least is None else f"min={least}"
