"""Golden data: eager's results on the golden inputs, beside the float64 reference."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram

from aotpack.stages import Golden, Graph
from aotpack.trace.golden.bounds import Runs
from aotpack.trace.golden.budget import why_without_reference
from aotpack.trace.golden.configurations import EveryConfiguration
from aotpack.trace.golden.cost import cost_of
from aotpack.trace.golden.inputs import GoldenInputs
from aotpack.trace.golden.noise import Noisy, OwnNoisy, rounded_results
from aotpack.trace.golden.reference import Eager, Reference, results_of
from aotpack.trace.golden.results import kept_results
from aotpack.trace.golden.tf32 import tf32_products
from aotpack.trace.operators.control_flow.control import WHILE_LOOP, EndlessLoop, Turns
from aotpack.trace.triton.triton_kernels import TritonPort

_MANY = 4096  # numbers that show eager's usual error
_NOISE = 10.0  # what a further run costs beside the reference
_MORE_TURNS = 4, 16  # times the turns of the longest loop in own types, and beside them
_FLOAT_RUNS, _INTEGER_RUNS = (2, 1.0), (4, 4.0)  # pairs, and seconds by estimate

Results = Sequence[torch.Tensor]


def without_results(inputs: GoldenInputs, why: str) -> Golden:
    """Golden data without results; the inputs serve to time a package."""
    return Golden(inputs.whole, (), (), drawn=inputs.drawn, note=why)


def record_golden(
    eager: Results | None,
    program: ExportedProgram,
    example: Sequence[Any],
    graph: Graph,
    inputs: GoldenInputs,
    size: float = math.inf,
    triton: TritonPort | None = None,
    fp32_precision: str = "ieee",
) -> Golden:
    """The reference's results in ``size`` bytes with the inputs, and the errors of eager.

    ``example`` are the leaves of the inputs in the program's order. ``eager`` are eager's results
    and new values, None for a model that launches Triton kernels: then the program is interpreted
    in its place, with its kernels run by ``triton``. ``fp32_precision`` "tf32" admits its errors.
    """
    why = why_without_reference(program, size)
    with torch.no_grad():
        turns = Turns()
        eager = _in_own_types(eager, program, example, triton, turns)
        turns.most = _MORE_TURNS[0] * turns.longest + _MORE_TURNS[1]
        seen, why = _seen(eager, program, example, triton, turns, why)
        _add_products(seen, program, example, triton, turns, fp32_precision)
    other = [e for e, s in zip(eager, seen, strict=True) if e.shape != s.first.shape]
    if other:
        return without_results(inputs, "the graph gives results of other shapes than eager")
    keys = [f"outputs/{spec.name}" for spec in graph.signature.outputs]
    count = len(keys)
    keys += [f"updates/{name}" for name in graph.signature.updates]
    used = sum(len(data) for *_, data in inputs.whole)
    kept = kept_results(keys, seen, eager, size - used)
    golden = without_results(inputs, _note(inputs, why))
    return replace(
        golden,
        outputs=tuple(kept.values[:count]),
        updates=tuple(kept.values[count:]),
        eager_errors=tuple(kept.errors),
        limits=tuple(kept.limits),
        sampled=tuple(kept.sampled),
    )


def _in_own_types(
    eager: Results | None,
    program: ExportedProgram,
    example: Sequence[Any],
    triton: TritonPort | None,
    turns: Turns,
) -> Results:
    """Eager's results, or the program's where there are none; counts the turns of its loops."""
    if eager is None:
        every = EveryConfiguration(program.graph_module, triton, turns)
        return results_of(program, example, every)
    if _has_loop(program):
        with torch.random.fork_rng(devices=[]):
            results_of(program, example, Eager(program.graph_module, triton, turns))
    return eager


def _note(inputs: GoldenInputs, why: str) -> str:
    """What golden data are not, in words; nothing if they are whole."""
    drawn = ", ".join(one.name for one in inputs.drawn)
    words = [f"{drawn}: drawn from a seed, for the example's are large"] if drawn else []
    words += [f"no reference: {why}; results are compared with eager's"] if why else []
    return "; ".join(words)


def _has_loop(program: ExportedProgram) -> bool:
    parts = [one for one in program.graph_module.modules() if isinstance(one, fx.GraphModule)]
    return any(node.target is WHILE_LOOP for part in parts for node in part.graph.nodes)


def _seen(
    eager: Results,
    program: ExportedProgram,
    example: Sequence[Any],
    triton: TritonPort | None,
    turns: Turns,
    why: str,
) -> tuple[list[Runs], str]:
    """The results of all runs, and why they are without a reference; "" if they have one."""
    if not why:
        try:
            return _reference(program, example, triton, turns), ""
        except EndlessLoop:
            why = f"in float64 a while_loop takes more than {turns.most} turns"
    return _own_runs(eager, program, example, triton, turns), why


def _reference(
    program: ExportedProgram, example: Sequence[Any], triton: TritonPort | None, turns: Turns
) -> list[Runs]:
    """The results in float64, and their values in runs with other roundings."""
    module = program.graph_module
    reference = Reference(module, triton, turns)
    seen = [Runs(exact) for exact in results_of(program, example, reference)]
    for number in range(_pairs(program, [one.first for one in seen])):
        _add_pair(seen, program, example, partial(Noisy, module, triton, turns, number))
    return seen


def _own_runs(
    eager: Results,
    program: ExportedProgram,
    example: Sequence[Any],
    triton: TritonPort | None,
    turns: Turns,
) -> list[Runs]:
    """Eager's results, and their values in runs with other roundings in the model's types."""
    module = program.graph_module
    seen = [Runs(one, is_exact=False) for one in eager]
    _add_pair(seen, program, example, partial(OwnNoisy, module, triton, turns, 0))
    return seen


def _add_pair(
    seen: Sequence[Runs],
    program: ExportedProgram,
    example: Sequence[Any],
    noisy: Callable[[int], Eager],
) -> None:
    """Two runs with opposite roundings; one whose loop does not end counts for nothing."""
    for sign in (1, -1):
        try:
            results = results_of(program, example, noisy(sign))
        except EndlessLoop:
            continue
        for one, result in zip(seen, results, strict=True):
            one.more.append(result)


def _add_products(
    seen: Sequence[Runs],
    program: ExportedProgram,
    example: Sequence[Any],
    triton: TritonPort | None,
    turns: Turns,
    fp32_precision: str,
) -> None:
    """Results with the factors of products in tf32, if asked for, may be as far off as eager's."""
    if fp32_precision != "tf32":
        return
    try:
        with tf32_products(), torch.random.fork_rng(devices=[]):
            results = results_of(program, example, Eager(program.graph_module, triton, turns))
    except EndlessLoop:
        return
    for one, result in zip(seen, results, strict=True):
        one.more.append(result)
        if result.is_floating_point() and result.shape == one.first.shape:
            one.others.append(result)


def _pairs(program: ExportedProgram, exact: Results) -> int:
    """The number of pairs of further runs, as far as results need them and time admits them.

    A result of many numbers shows eager's usual error by itself; few numbers and integers do not.
    """
    seconds = cost_of(program.graph_module, wide=True).seconds

    def affordable(most: int, allowed: float) -> int:
        return min(most, int(allowed / (2 * _NOISE * seconds)))

    is_rounded = rounded_results(program)
    turned = [one for one, is_own in zip(exact, is_rounded, strict=True) if is_own]
    if any(not one.is_floating_point() for one in turned):
        return max(1, affordable(*_INTEGER_RUNS))
    is_few = any(one.numel() < _MANY for one in turned)
    return affordable(*_FLOAT_RUNS) if is_few else 0
