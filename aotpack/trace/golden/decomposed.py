"""The graph that is packaged must give the function of the exported program.

What can make another one: torch's functionalisation and decompositions, and types that torch
records in a graph but does not compute. Both are run. Where results differ by more than half of
their digits, the graph is run with other roundings too (``noise``): what these change as much is no
departure. Overflow on the way is one, unless roundings in the model's own types avoid it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.stages import Signature
from aotpack.trace.agreement.exported import AnotherFunction
from aotpack.trace.agreement.values import difference, shown, tolerance
from aotpack.trace.eager import in_program_order
from aotpack.trace.golden.blame import departure
from aotpack.trace.golden.bounds import Seen, wide
from aotpack.trace.golden.noise import STRENGTH, Noisy, OwnNoisy
from aotpack.trace.golden.reference import (
    Eager,
    Reference,
    in_order_of_results,
    results_of,
)
from aotpack.trace.operators.control_flow.control import EndlessLoop, Turns, is_part, part_of
from aotpack.trace.operators.random.seeds import Example
from aotpack.trace.source import source_of

_RUNS = 2  # pairs of each kind
_MORE_TURNS = 4, 16  # times the turns of the longest loop, and beside them
_ADVICE = (
    "A package would compute what the graph does. Write this part of the model another way, for "
    "instance without a change in place"
)

Results = Sequence[torch.Tensor]


def check_decomposed(
    exported: ExportedProgram,
    program: ExportedProgram,
    example: Example,
    signature: Signature,
    wanted: Results,
    where: str = "on the example inputs",
) -> None:
    """Refuse a graph whose results depart from ``wanted``, those of the exported program.

    ``where`` is a word of the refusal.
    """
    run = _Runs(program, in_program_order(exported, *example), Turns(), signature.name)
    with torch.no_grad():
        found = run.own()
        how = list(map(difference, wanted, found))
        if not any(how):
            return
        seen = run.seen(found)
    names = [*(spec.name for spec in signature.outputs), *signature.updates]
    rows = zip(names, how, wanted, found, seen, strict=True)
    complaints = {
        place: f"{name} {one}"
        for place, (name, one, theirs, ours, runs) in enumerate(rows)
        if one and not runs.explain(theirs, ours)
    }
    if complaints:
        blamed = departure(exported, program, example, signature, min(complaints))
        raise AnotherFunction(
            f"tracing {signature.name}: the graph without changes in place and with decomposed "
            f"operators gives another function than the model: {where} "
            f"{'; '.join(complaints.values())}.\n"
            f"The first operator whose value departs: {blamed or 'not found'}\n{_ADVICE}."
        )


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of a graph on the leaves of the example inputs."""

    program: ExportedProgram
    leaves: Sequence[Any]
    turns: Turns
    name: str

    def own(self) -> Results:
        """The results in the model's types; from float64 where an operator lacks these."""
        module = self.program.graph_module
        try:
            return self.results(_Typed(module, self.turns, self.name))
        except AnotherFunction:
            raise
        except Exception:
            outputs = in_order_of_results(self.program, self.program.graph.output_node().args[0])
            types = [one.meta["val"].dtype for one in outputs]
            wide = self.results(Reference(module, None, self.turns))
            return [one.to(dtype) for one, dtype in zip(wide, types, strict=True)]

    def results(self, interpreter: Eager) -> Results:
        return results_of(self.program, self.leaves, interpreter)

    def seen(self, found: Results) -> list["_Others"]:
        """The results' values in runs with other roundings."""
        module, turns = self.program.graph_module, self.turns
        turns.most = _MORE_TURNS[0] * turns.longest + _MORE_TURNS[1]
        runs: list[Eager] = [Reference(module, None, turns)]
        for number in range(_RUNS):
            for sign in (1, -1):
                runs.append(OwnNoisy(module, None, turns, number, sign))
                runs.append(Noisy(module, None, turns, number, sign))
        seen = [
            _Others(Seen(wide(one)), one.isfinite(), one.isfinite(), unit)
            for one, unit in zip(found, _units(self.program), strict=True)
        ]
        for run in runs:
            try:
                results = self.results(run)
            except EndlessLoop:
                continue
            for one, result, own in zip(seen, results, found, strict=True):
                one.add(result.to(own.dtype), is_own=isinstance(run, OwnNoisy))
        return seen


@dataclass(slots=True)
class _Others:
    """The values of one result in runs with other roundings."""

    seen: Seen
    sometimes: torch.Tensor  # finite in a run in the model's own types
    always: torch.Tensor  # finite in each of them
    unit: float  # of the coarsest type on the way

    def add(self, result: torch.Tensor, *, is_own: bool) -> None:
        self.seen.add(wide(result))
        if is_own and result.shape == self.always.shape:
            finite = result.isfinite()
            self.sometimes, self.always = self.sometimes | finite, self.always & finite

    def explain(self, wanted: torch.Tensor, found: torch.Tensor) -> bool:
        """True if other roundings explain how a result differs."""
        return _is_rounding(wanted, found, self.seen, self.unit) and not self._is_lost(
            wanted, found
        )

    def _is_lost(self, wanted: torch.Tensor, found: torch.Tensor) -> bool:
        """True if finite numbers became infinite or NaN, more than turn so by roundings.

        float64 shows nothing here: its range is wider.
        """
        lost = wanted.isfinite() & ~found.isfinite() & ~self.sometimes
        turned = self.sometimes & ~self.always
        return int(torch.count_nonzero(lost)) > int(torch.count_nonzero(turned))


class _Typed(Eager):
    """Runs each operator as it is, and refuses one that gives another type than recorded."""

    def __init__(self, module: fx.GraphModule, turns: Turns, name: str) -> None:
        super().__init__(module, None, turns)
        self.name = name

    def inner(self, module: fx.GraphModule) -> Eager:
        return _Typed(module, self.turns, self.name)

    def computed(self, n: fx.Node) -> Any:
        result, known = super().computed(n), n.meta.get("val")
        if not isinstance(result, torch.Tensor) or not isinstance(known, torch.Tensor):
            return result
        if n.op != "call_function" or result.dtype is known.dtype:
            return result
        place = source_of(n)
        raise AnotherFunction(
            f"tracing {self.name}: torch records another type for {n.target} than it computes: "
            f"{shown(known)} instead of {shown(result)}"
            + (f"\n  at {place}" if place else "")
            + "\nA package would return the recorded type. Convert the operands to one type first."
        )


def _units(program: ExportedProgram) -> list[float]:
    """For each result, the unit of the coarsest floats that operators on its way return."""
    coarsest: dict[fx.Node, float] = {}
    for node in program.graph.nodes:
        parts = part_of(node).modules() if is_part(node) else ()
        inside = [
            one for part in parts if isinstance(part, fx.GraphModule) for one in part.graph.nodes
        ]
        own = max(map(_unit, [node, *inside]))
        coarsest[node] = max([own, *(coarsest[one] for one in node.all_input_nodes)])
    (results,) = program.graph.output_node().args
    return [coarsest[one] for one in in_order_of_results(program, results)]


def _unit(node: fx.Node) -> float:
    """The unit of the floats that an operator returns; 0 where nothing is rounded."""
    given = pytree.tree_leaves(node.meta.get("val")) if node.op == "call_function" else ()
    floats = (one for one in given if isinstance(one, torch.Tensor) and one.is_floating_point())
    return max((torch.finfo(one.dtype).eps for one in floats), default=0.0)


def _is_rounding(wanted: torch.Tensor, found: torch.Tensor, seen: Seen, unit: float) -> bool:
    """True if other roundings explain how a result differs.

    They explain an element that they change as much. Some runs do not show all that may turn: as
    many elements more are explained as turn in them. One turns that changes by more than half of
    the digits of ``unit``: where a step rounds to 16 bits, all floats change by some of theirs.
    """
    if wanted.dtype is not found.dtype or wanted.shape != found.shape or wanted.is_complex():
        return False
    if not wanted.is_floating_point():
        turned = seen.low != seen.high
        unexplained = (wanted != found) & ~turned
    else:
        x, y, change, limit = wanted.double(), found.double(), seen.change, tolerance(wanted)
        off = (x - y).abs()
        is_same = (x == y) | (x.isnan() & y.isnan())
        reached = tolerance(found[x.isfinite()])  # where all that is wanted is 0, the limit is too
        coarse = math.sqrt(max(1.0, unit / torch.finfo(wanted.dtype).eps))
        turned = ~(change <= coarse * max(limit, reached))
        unexplained = ~is_same & change.isfinite() & ~(off <= limit + STRENGTH * change)
    return int(torch.count_nonzero(unexplained)) <= int(torch.count_nonzero(turned))
