"""The bytes that scheduled kernels move, over the least that any kernels would have to.

    python -m tools.bench_traffic [--cases NAME ...] [--arch 90]

Counted, not timed: the schedule for one architecture at the sizes of the example. A kernel reads
each tensor once and writes each result once (``aotpack/ir/kernels/traffic.py``); rows too long for
L2 that it reads in two passes count twice. ``tools/traffic_cases.py`` holds the graphs and the rule
of what must move, and those that are known to move more.
"""

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from aotpack.ir.kernels.access import axes_in, points
from aotpack.ir.kernels.kernel import Kernel, Schedule, launches
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.kernels.traffic import work_of
from aotpack.ir.program import Program, loads, read_whole
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import Int, minimum, product, total
from aotpack.lower import LOWERINGS, lower
from aotpack.render import reserved_names
from aotpack.schedule import schedule
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.tiles.long_rows import LARGEST_IN_L2, reads_again
from aotpack.target import parse_targets
from aotpack.trace import trace
from tools.traffic_cases import APART, CASES, ROWS, Case

SMALLEST, LARGEST = 256, 65536  # dynamic rows; their typical number is that of the static cases


class Graph(nn.Module):
    """The function of a case as a module."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case

    def forward(self, *tensors: torch.Tensor) -> object:
        return self.case.function(*tensors)


@dataclass(frozen=True, slots=True)
class Row:
    """Bytes moved, the least that must move, and the launches."""

    name: str
    launches: int
    moved: int
    least: int

    @property
    def ratio(self) -> float:
        """The bytes moved over the least."""
        return self.moved / self.least


def count(case: Case, arch: int = 90) -> Row:
    """Schedule a case for one architecture, and count."""
    first = torch.export.Dim("b", min=SMALLEST, max=LARGEST)
    shapes = tuple({0: first} if shape[0] == ROWS else None for shape, _ in case.inputs)
    traced = trace(
        Graph(case),
        case.tensors(),
        dynamic_shapes={"tensors": shapes} if case.dynamic else None,
        name="m",
        version="1",
        reserved=reserved_names(),
        golden=0,
        whole=frozenset(LOWERINGS),
    )
    lowered = lower(traced)
    made = schedule(lowered, targets=parse_targets(f"sm_{arch}")).on(arch)
    moved = moved_bytes(made, arch)
    launched = len(launches(made.kernels))
    return Row(case.name, launched, moved, _least(lowered.program) + case.crossing)


def moved_bytes(made: Schedule, arch: int) -> int:
    """The bytes of all kernels of a schedule."""
    return sum(_moved(kernel, made, arch) for kernel in made.kernels)


def _moved(kernel: Kernel, made: Schedule, arch: int) -> int:
    """The bytes of one kernel; what it reads in two passes counts twice if rows are longer."""
    moved = typical(work_of(kernel, made.program).moved)
    tile = next(variant.tile for variant in kernel.variants if variant.takes(arch))
    if not isinstance(tile, ReductionTile) or tile.persistent or tile.ring:
        return moved
    read = sum(typical_bytes(made.program.buffers[name]) for name in kernel.reads)
    row = read // max(1, typical(kernel.axes[0].extent))
    return moved + read if reads_again(kernel) and row > LARGEST_IN_L2 else moved


def _least(program: Program) -> int:
    """Each input read once, as far as it is read at all, and each output written once."""
    given = {*program.inputs, *program.weights}
    touched: dict[str, dict[tuple[Int, ...], Int]] = {}
    for operation in program.operations:
        for load in loads(operation):
            if load.buffer in given:
                number = points(axes_in(load.index))
                touched.setdefault(load.buffer, {})[load.index] = number
        for name in given.intersection(read_whole(operation)):
            touched.setdefault(name, {})[()] = product(program.buffers[name].shape)
    read = [
        minimum(product(program.buffers[name].shape), total(numbers.values()))
        * program.buffers[name].dtype.itemsize
        for name, numbers in touched.items()
    ]
    written = [buffer_bytes(program.buffers[name]) for name in program.results]
    return typical(total([*read, *written]))


def table(rows: Sequence[Row]) -> str:
    """A line for each case, then the mean and the worst."""
    lines = ["| graph | launches | MB moved | MB at least | ratio |", "|---|---|---|---|---|"]
    for row in rows:
        moved, least = (f"{number / 1e6:.2f}" for number in (row.moved, row.least))
        lines.append(f"| {row.name} | {row.launches} | {moved} | {least} | {row.ratio:.3f} |")
    worst = max(rows, key=lambda row: row.ratio)
    mean = statistics.geometric_mean(row.ratio for row in rows)
    return "\n".join(
        [*lines, "", f"{len(rows)} graphs: geometric mean {mean:.3f}, worst {worst.ratio:.3f}"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--arch", type=int, default=90)
    options = parser.parse_args()
    chosen = [case for case in CASES if not options.cases or case.name in options.cases]
    if chosen:
        print(table([count(case, options.arch) for case in chosen]))
    if not options.cases:
        print("\nKnown to move more:\n")
        print(table([count(case, options.arch) for case in APART]))


if __name__ == "__main__":
    main()
