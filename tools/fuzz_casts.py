"""Random graphs with conversions, 16-bit decisions and integers: python -m tools.fuzz --casts 1000

A graph is a few lines over tensors that all graphs of a batch share; a batch is one model. Built
with ``precision="strict"`` its answers must be eager's, bit for bit. By default the result of a
16-bit operator may be kept wider, or not, by each of its readers, unless that is a conversion, a
decision or the caller: each element must be the answer of one of these choices.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aotpack.emit import write_package
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime import Model, load
from aotpack.target import parse_targets
from tools.fuzz_cast_operators import (
    BF16,
    CONVERSIONS,
    F16,
    F32,
    OPERATORS,
    Operator,
    wide_type,
)

SHAPE = (4, 6)
SHORT = (F16, BF16)
PRECISIONS = ("default", "strict")
TARGETS = ("cpu", "interpreter")
MOST_CHOICES = 6  # readers of 16-bit results in a graph: there are 2 ** 6 ways to round
GRAPHS_IN_A_MODEL = 50
LARGEST_INTEGER = 2e9

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Line:
    """``name = operator(operands)``, with a result of this type."""

    name: str
    operator: Operator
    operands: tuple[str, ...]
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph's lines; its results are what no line reads. ``seed`` makes it again."""

    seed: int
    lines: tuple[Line, ...]

    @property
    def results(self) -> tuple[Line, ...]:
        read = {name for line in self.lines for name in line.operands}
        return tuple(line for line in self.lines if line.name not in read)

    def choices(self) -> list[tuple[str, int]]:
        """The operands of lines that may be wider than their 16-bit type, as (line, position)."""
        short = (line for line in self.lines if line.dtype in SHORT)
        kept = {line.name for line in short if line.operator.is_kept}
        return [
            (line.name, place)
            for line in self.lines
            for place, name in enumerate(line.operands)
            if name in kept and not line.operator.rounds
        ]

    def text(self, prefix: str = "") -> list[str]:
        """Its lines of Python, with its own names after a prefix."""
        own = {line.name: f"{prefix}{line.name}" for line in self.lines}
        lines = []
        for line in self.lines:
            operands = [own.get(name, name) for name in line.operands]
            lines.append(f"{own[line.name]} = {line.operator.text.format(*operands)}")
        return lines

    def run(self, inputs: Tensors, wide: frozenset[tuple[str, int]]) -> Tensors:
        """Its values in wide types, if these operands are kept wide."""
        values = {name: tensor.to(wide_type(tensor.dtype)) for name, tensor in inputs.items()}
        types = {name: tensor.dtype for name, tensor in inputs.items()}
        for line in self.lines:
            given = [
                values[name] if (line.name, place) in wide else _rounded(values[name], types[name])
                for place, name in enumerate(line.operands)
            ]
            values[line.name] = line.operator.compute(*given).to(wide_type(line.dtype))
            types[line.name] = line.dtype
        return values

    def answers(self, inputs: Tensors, *, strict: bool) -> list[list[torch.Tensor]]:
        """Each choice's results."""
        places = [] if strict else self.choices()
        found = []
        for count in range(len(places) + 1):
            for wide in itertools.combinations(places, count):
                values = self.run(inputs, frozenset(wide))
                found.append([_rounded(values[r.name], r.dtype) for r in self.results])
        return found


def _rounded(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return x.to(dtype).to(x.dtype) if dtype in SHORT else x


class Batch(nn.Module):
    """Graphs as one model, from its text."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        super().__init__()
        self.source = source(graphs)
        scope: dict[str, Any] = {"torch": torch}
        exec(compile(self.source, "fuzzed.py", "exec"), scope)
        self.forward = scope["forward"].__get__(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Batch:
        return self


def source(graphs: Sequence[Graph]) -> str:
    """The text of a model's forward."""
    lines = [line for n, graph in enumerate(graphs) for line in graph.text(f"g{n}_")]
    results = [f"g{n}_{one.name}" for n, graph in enumerate(graphs) for one in graph.results]
    lines.append(f"return [{', '.join(results)}]")
    head = f"def forward(self, {', '.join(INPUTS)}):\n"
    return head + "".join(f"    {line}\n" for line in lines)


INPUTS = {"x": F32, "y": F32, "h": F16, "g": F16, "b": BF16, "c": BF16, "n": torch.int64}


def drawn(seed: int) -> Tensors:
    """The inputs of a batch: normal numbers, and some at and beside ties, steps and limits."""
    rng = torch.Generator().manual_seed(seed)

    def numbers() -> torch.Tensor:
        normal = torch.randn(SHAPE, generator=rng) * 4
        near = torch.randint(-9, 300, SHAPE, generator=rng) + 2.0 ** torch.randint(
            -12, -6, SHAPE, generator=rng
        )
        odd = torch.tensor([0.999, 2049.0, 257.0, 1 / 3, 1.00390625, 65519.0, 7e4, 3e-8, 0.0])
        picked = odd[torch.randint(0, len(odd), SHAPE, generator=rng)]
        kind = torch.randint(0, 6, SHAPE, generator=rng)
        return torch.where(kind < 3, normal, torch.where(kind < 5, near, picked))

    made = {}
    for name, dtype in INPUTS.items():
        whole = dtype is torch.int64
        made[name] = torch.randint(-9, 3000, SHAPE, generator=rng) if whole else numbers().to(dtype)
    made["c"][0] = (made["b"] + made["c"])[0]  # what a comparison of a sum finds equal
    return made


KINDS = {torch.bool: "bool", torch.int32: "int", torch.int64: "int"}


def make(seed: int, inputs: Tensors) -> Graph:
    """The graph of a seed."""
    rng = random.Random(seed)
    graph, types = Graph(seed, ()), {name: one.dtype for name, one in inputs.items()}
    wanted = rng.randint(3, 8)
    for _ in range(200):
        if len(graph.lines) == wanted:
            break
        operator = rng.choice(OPERATORS)
        operands = []
        for kind in operator.takes:
            fits = [name for name, dtype in types.items() if KINDS.get(dtype, "float") == kind]
            operands.append(rng.choice(fits[-6:]) if fits else "")
        dtype = None if "" in operands else operator.gives(*(types[name] for name in operands))
        if dtype is None:
            continue
        line = Line(f"v{len(graph.lines)}", operator, tuple(operands), dtype)
        longer = Graph(seed, (*graph.lines, line))
        if _is_tame(longer, line, types, inputs):
            graph, types[line.name] = longer, dtype
    return graph


def _is_tame(graph: Graph, line: Line, types: Mapping[str, torch.dtype], inputs: Tensors) -> bool:
    """False for a line that torch skips, and for numbers whose answer is nobody's promise."""
    places = graph.choices()
    is_skipped = line.operator in CONVERSIONS and types[line.operands[0]] is line.dtype
    if is_skipped or len(places) > MOST_CHOICES:
        return False
    for wide in (frozenset[tuple[str, int]](), frozenset(places)):
        values = graph.run(inputs, wide)
        if values[line.name].isnan().any():
            return False
        given = [values[name].double().abs().max() for name in line.operands]
        if KINDS.get(line.dtype) == "int" and max(given) > LARGEST_INTEGER:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Wrong:
    """A result that is nobody's answer."""

    graph: Graph
    target: str
    precision: str
    words: str


def built(
    graphs: Sequence[Graph], inputs: Tensors, targets: Sequence[str], precisions: Sequence[str]
) -> Iterator[tuple[str, str, Model]]:
    """The graphs as one model, traced once and loaded for each target and precision."""
    source = Source(Batch(graphs), tuple(inputs.values()))
    chosen, traced = parse_targets(",".join(targets)), None
    for precision in precisions:
        made = Build(source, BuildOptions(chosen, precision=precision, jobs=1))
        if traced is not None:
            vars(made)["traced"] = traced
        traced = made.traced
        with tempfile.TemporaryDirectory() as folder:
            write_package(made.precompiled, Path(folder))
            for target in targets:
                device = InterpreterDevice() if target == "interpreter" else target
                yield target, precision, load(folder, device if target in TARGETS else 0)


def mistakes(
    graphs: Sequence[Graph],
    inputs: Tensors,
    targets: Sequence[str] = TARGETS,
    precisions: Sequence[str] = PRECISIONS,
) -> Iterator[Wrong]:
    """Build the graphs as one model, and compare each result with the answers it may have."""
    args = tuple(inputs.values())
    eager = Batch(graphs)(*args)
    for target, precision, model in built(graphs, inputs, targets, precisions):
        given = args if target in TARGETS else tuple(one.cuda() for one in args)
        pairs = iter(zip((one.cpu() for one in model(*given)), eager, strict=True))
        for graph in graphs:
            answers = graph.answers(inputs, strict=precision == "strict")
            for number, line in enumerate(graph.results):
                ours, theirs = next(pairs)
                words = _complaint(ours, theirs, [one[number] for one in answers])
                if words:
                    yield Wrong(graph, target, precision, f"{line.name} {line.dtype}: {words}")


def _complaint(ours: torch.Tensor, eager: torch.Tensor, answers: Sequence[torch.Tensor]) -> str:
    """What is wrong with a result; "" if each element is that of an answer."""
    first = answers[0].to(eager.dtype)
    if not torch.equal(first, eager):
        return f"the fuzzer takes eager for {first.tolist()}; it is {eager.tolist()}"
    good = torch.zeros(ours.shape, dtype=torch.bool)
    for answer in answers:
        good |= ours == answer.to(ours.dtype)
    if good.all():
        return ""
    place = tuple((~good).nonzero()[0].tolist())
    return f"at {place} {ours[place].item()}, eager {eager[place].item()}"


def shrink(wrong: Wrong, inputs: Tensors) -> Wrong:
    """The graph alone, with as few lines as are wrong in the same way."""

    def again(graph: Graph) -> Wrong | None:
        if not graph.lines:
            return None
        return next(mistakes([graph], inputs, [wrong.target], [wrong.precision]), None)

    smallest = again(wrong.graph)
    if smallest is None:
        return replace(wrong, words=f"beside others only: {wrong.words}")
    for line in reversed(smallest.graph.lines):
        smallest = again(_without(smallest.graph, line.name)) or smallest
    return smallest


def _without(graph: Graph, name: str) -> Graph:
    """The graph without a line and what depends on it."""
    gone, kept = {name}, []
    for line in graph.lines:
        if line.name in gone or gone.intersection(line.operands):
            gone.add(line.name)
        else:
            kept.append(line)
    return Graph(graph.seed, tuple(kept))


def check(seeds: range, targets: Sequence[str] = TARGETS) -> tuple[int, list[str]]:
    """The number of results compared, and what was wrong, for the graphs of some seeds."""
    torch.set_num_threads(1)
    inputs = drawn(seeds[0])
    graphs = [graph for graph in (make(seed, inputs) for seed in seeds) if graph.lines]
    found = []
    try:
        for wrong in mistakes(graphs, inputs, targets):
            small = shrink(wrong, inputs)
            place = f"{seeds}, {small.target}, {small.precision}: seed {small.graph.seed}"
            found.append("\n".join([f"{place}: {small.words}", *small.graph.text()]))
    except Exception:  # a fuzzer's work: whatever is raised is a finding
        found.append(f"{seeds}: {traceback.format_exc()}")
    forms = len(targets) * len(PRECISIONS)
    return forms * sum(len(graph.results) for graph in graphs), found


def run(count: int, seed: int, jobs: int, targets: tuple[str, ...]) -> int:
    """Check this many graphs from a seed on, in processes; 1 if anything was wrong."""
    checked = partial(check, targets=targets)
    end = seed + count
    firsts = range(seed, end, GRAPHS_IN_A_MODEL)
    batches = [range(n, min(n + GRAPHS_IN_A_MODEL, end)) for n in firsts]
    start, totals = time.perf_counter(), Counter[str]()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for batch, (compared, found) in zip(batches, pool.map(checked, batches), strict=True):
            totals.update(graphs=len(batch), results=compared, wrong=len(found))
            for words in found:
                print(words, flush=True)
    print(f"{dict(totals)} in {time.perf_counter() - start:.0f} s")
    return 1 if totals["wrong"] else 0
