"""Random small programs with changes in place, and a machine that runs their schedules."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np
from hypothesis import strategies as st

from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.kernels.kernel import Kernel, Schedule, launches
from aotpack.ir.program import Buffer, Program, Update, targets
from aotpack.ir.symbolic.integers import Var
from tests.schedule.programs import Writer, apply, load

Arrays = dict[str, np.ndarray]
N = Var("s", 1, 9)
SIDES = (4, 5)
KINDS = ("add", "turned", "mirrored", "row", "column", "product", "exp", "scaled", "joined")


def step(w: Writer, name: str, kind: str, a: Buffer, b: Buffer) -> Buffer:
    """An operation over two matrices of equal sides."""
    side = a.shape[0]
    both = [side, side]
    if kind == "product":
        return w.matmul(name, side, side, side, a, b)
    if kind in ("row", "column"):
        top = w.reduction(f"{name}_top", [side], [side], lambda i, r: load(a, i, r), kind="max")
        at = 0 if kind == "row" else 1
        return w.pointwise(name, both, lambda *i: apply("sub", load(b, *i), load(top, i[at])))
    values = {
        "add": lambda i, j: apply("add", load(a, i, j), load(b, i, j)),
        "turned": lambda i, j: apply("sub", load(a, i, j), load(b, j, i)),
        "mirrored": lambda i, j: apply("mul", load(a, side - 1 - i, j), load(b, i, j)),
        "exp": lambda i, j: apply("tanh", load(a, i, j)),
        "scaled": lambda i, j: apply("mul", load(a, i, j), 0.5),
        "joined": lambda i, j: apply("maximum", load(a, i, (j + 1) % side), load(b, i, j)),
    }
    return w.pointwise(name, both, values[kind])


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Up to nine operations; the last results are returned, and inputs and weights may change."""
    side = draw(st.sampled_from((*SIDES, N)))
    w = Writer((N,))
    known = [w.input("x", side, side), w.input("y", side, side), w.weight("w", side, side)]
    for number in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(KINDS))
        a, b = (known[draw(st.integers(0, len(known) - 1))] for _ in range(2))
        known.append(step(w, f"t{number}", kind, a, b))
    made = known[3:]
    changed = draw(st.lists(st.sampled_from(("x", "w")), unique=True, max_size=2))
    values = draw(st.permutations(made))[: len(changed)]
    rest = [buffer for buffer in made[-2:] if buffer not in values]
    updates = tuple(Update(name, value.name) for name, value in zip(changed, values, strict=False))
    return replace(w.program(*rest), updates=updates)


def arrays_of(program: Program, sizes: Mapping[str, int], seed: int = 0) -> Arrays:
    """Random numbers in [-1, 1] for inputs and weights."""
    rng = np.random.default_rng(seed)
    shapes = {name: program.buffers[name].shape for name in (*program.inputs, *program.weights)}
    return {
        name: rng.uniform(-1, 1, [int(n.evaluate(dict(sizes))) for n in shape]).astype(np.float32)
        for name, shape in shapes.items()
    }


def results_of(program: Program, given: Arrays, sizes: Mapping[str, int]) -> Arrays:
    """The outputs and the new values, by the slow meaning of the program."""
    return _evaluated(replace(program, outputs=program.results, updates=()), given, sizes)


def _evaluated(program: Program, given: Arrays, sizes: Mapping[str, int]) -> Arrays:
    inputs = {name: given[name] for name in program.inputs}
    weights = {name: given[name] for name in program.weights}
    return evaluate(program, inputs, weights, sizes)


@dataclass(slots=True)
class Machine:
    """Memory as storages, each with the buffer that lives in it; launches happen in order.

    What a launch reads is what its storages hold at that time, so a buffer that another has
    overwritten, or whose life has ended, is noticed.
    """

    schedule: Schedule
    sizes: Mapping[str, int]
    memory: dict[str, tuple[str, np.ndarray]] = field(default_factory=dict)

    def run(self, given: Arrays) -> Arrays:
        """The results after all launches."""
        program, weights = self.schedule.program, self.schedule.weights
        if weights is not None:
            known = {name: given[name] for name in weights.program.weights}
            given = {**given, **Machine(weights, self.sizes).run(known)}
        homes = {life.buffer: life.storage for life in self.schedule.lifetimes}
        homes |= {update.value: update.name for update in program.updates}
        self.memory = {name: (name, array.copy()) for name, array in given.items()}
        for position, together in enumerate(launches(self.schedule.kernels)):
            made = [self._launched(kernel, homes) for kernel in together]
            self._check_apart(together, homes)
            for name, array in (pair for part in made for pair in part.items()):
                self.memory[homes.get(name, name)] = (name, array)
            self._end_lives(position)
        return {name: self._read(name, homes) for name in program.results}

    def _check_apart(self, together: tuple[Kernel, ...], homes: Mapping[str, str]) -> None:
        """Kernels of one launch run in any order: none writes what another touches."""
        for a, b in permutations(together, 2):
            written = {homes.get(name, name) for name in a.stored}
            touched = {homes.get(name, name) for name in (*b.reads, *b.stored)}
            assert not written & touched, f"{a.name} and {b.name} share {written & touched}"

    def _launched(self, kernel: Kernel, homes: Mapping[str, str]) -> Arrays:
        whole = self.schedule.program
        given = {name: self._read(name, homes) for name in kernel.reads}
        operations = tuple(member.operation for member in kernel.members)
        inside = {name for operation in operations for name in targets(operation)}
        buffers = {n: b for n, b in whole.buffers.items() if n in inside | set(kernel.reads)}
        part = Program(whole.sizes, buffers, kernel.reads, (), operations, kernel.stored)
        return _evaluated(part, given, self.sizes)

    def _read(self, name: str, homes: Mapping[str, str]) -> np.ndarray:
        owner, array = self.memory[homes.get(name, name)]
        assert owner == name, f"{name} is read where {owner} lies"
        return array

    def _end_lives(self, position: int) -> None:
        for life in self.schedule.lifetimes:
            owner = self.memory.get(life.storage, ("", None))[0]
            if life.last == position and owner == life.buffer:
                del self.memory[life.storage]
