"""Reductions whose number of rows is dynamic beside the same ones of fixed sizes, in one run.

    python -m tools.bench_dynamic --build-only --packages DIR        no GPU is needed
    python -m tools.bench_dynamic --packages DIR [CASE ...] [--csv FILE]

One dynamic package of a case serves all its numbers of rows; each number has a static package
besides. Figures are taken as in ``bench_kernels.py``: medians of replayed graphs, both calls in
turn, inputs from sets beyond L2. "copy" is the share of a copy's bandwidth at which the dynamic
package moves what must move; what only reads may reach more than a copy of as many bytes.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from aotpack.pipeline import Source
from aotpack.runtime import load
from aotpack.target import native_target
from tools.bench_kernels import in_turns
from tools.bench_matmul import copy_rate
from tools.case_packages import add_package_options, built, graded, measured, write_figures
from tools.codegen_corpus import Function

COLUMNS = 1024
ROWS = (1, 64, 1000, 8192, 65_536)
MOST_ROWS = 2**17
SETS_BYTES = 320 * 2**20  # several times L2
FEWEST_SETS, MOST_SETS = 2, 64


def _int8_by_tensor(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    scale = x.abs().amax().float() / 127
    return (x.float() / scale).round().clamp(-127, 127).to(torch.int8), scale


@dataclass(frozen=True, slots=True)
class Case:
    """A function of a matrix, the bytes that it writes for each element, how often it reads it."""

    function: Callable[[torch.Tensor], Any]
    written: int = 0
    reads: int = 1


CASES = {
    "mean of rows": Case(lambda x: x.mean(-1)),
    "mean": Case(lambda x: x.mean()),
    "sum": Case(lambda x: x.sum()),
    "amax": Case(lambda x: x.amax()),
    "argmax": Case(lambda x: x.argmax()),
    "var": Case(lambda x: x.float().var()),
    "norm": Case(lambda x: x.norm()),
    "softmax": Case(lambda x: x.softmax(-1), 2),
    "int8 by tensor": Case(_int8_by_tensor, 1, reads=2),
    "sum of columns": Case(lambda x: x.sum(0)),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A package of a case, of all numbers of rows or of one."""

    name: str
    rows: int | None
    target: str
    folder: Path

    @property
    def package(self) -> Path:
        return self.folder / f"{self.name}_{self.rows or 'any'}".replace(" ", "_")

    def source(self) -> Source:
        """What is packaged."""
        x = torch.randn(self.rows or 4096, COLUMNS, dtype=torch.bfloat16)
        any_rows = {0: torch.export.Dim("rows", min=1, max=MOST_ROWS)}
        shapes = None if self.rows else ((any_rows,),)  # of the arguments of a Function
        return Source(Function(CASES[self.name].function), (x,), None, shapes, "case")


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of both packages, and the share of a copy's bandwidth."""

    name: str
    rows: int
    dynamic: float
    static: float
    of_copy: float
    complaint: str | None

    def line(self) -> str:
        words = f"  WRONG: {self.complaint}" if self.complaint else ""
        times = f"dynamic {self.dynamic:8.2f}  static {self.static:8.2f} us"
        ratio = f"{self.static / self.dynamic:5.2f}x  copy {self.of_copy:4.0%}"
        return f"{self.name:16} {self.rows:6} rows  {times}  {ratio}{words}"


def measure(static: Job, copied: float) -> Row:
    """Time both packages in turn, and check the dynamic one; ``copied`` is in bytes a us."""
    case, rows = CASES[static.name], static.rows
    assert rows is not None
    size = rows * COLUMNS
    count = min(max(SETS_BYTES // (2 * size) + 1, FEWEST_SETS), MOST_SETS)
    shape = (rows, COLUMNS)
    sets = [(torch.randn(shape, dtype=torch.bfloat16, device="cuda"),) for _ in range(count)]
    dynamic = Job(static.name, None, static.target, static.folder)
    with load(dynamic.package, 0) as any_rows, load(static.package, 0) as these:
        calls: dict[str, Callable[..., object]] = {"dynamic": any_rows, "static": these}
        complaint = _complaint(any_rows, case.function, *sets[0])
        found = {name: statistics.median(of) for name, of in in_turns(calls, sets).items()}
    moved = size * (2 * case.reads + case.written)
    of_copy = moved / found["dynamic"] / copied
    return Row(static.name, rows, found["dynamic"], found["static"], of_copy, complaint)


def _complaint(
    ours: Callable[..., Any], function: Callable[..., Any], x: torch.Tensor
) -> str | None:
    """How the law of accuracy is broken."""
    results = (ours(x), function(x), function(x.double()))
    parts = zip(*(_tensors(one) for one in results), strict=True)
    said = (graded(mine.cpu(), eager.cpu(), exact.cpu())[1] for mine, eager, exact in parts)
    return next((words for words in said if words), None)


def _tensors(result: Any) -> tuple[torch.Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def write_csv(path: Path, rows: Sequence[Row], copied: float) -> None:
    """In the format of docs/measurements."""
    header = {
        "title": f"reductions of [rows, {COLUMNS}] in bf16, any number of rows and a fixed one",
        "versions": f"torch {torch.__version__}, CUDA {torch.version.cuda}",
        "command": "python -m tools.bench_dynamic",
        "note": f"dynamic packages' share of a copy's bandwidth, {copied / 1e6:.2f} TB/s",
    }
    figures = list[tuple[str, str, str, str, str, str]]()
    for row in rows:
        case = f"{row.name} of {row.rows} rows"
        figures.append((case, "dynamic", f"{row.dynamic:.2f}", "", "us", row.complaint or ""))
        figures.append((case, "static", f"{row.static:.2f}", "", "us", ""))
        figures.append((case, "share", f"{row.of_copy:.3f}", "", "of a copy", ""))
    write_figures(path, header, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cases", nargs="*", default=[*CASES], metavar="CASE")
    add_package_options(parser, "dynamic-rows")
    given = parser.parse_args()
    target = given.target or str(native_target())
    sizes = (None, *ROWS)
    jobs = [Job(name, rows, target, given.packages) for name in given.cases for rows in sizes]
    jobs = built(jobs, given.jobs, anew=given.build_only)
    if given.build_only:
        return
    copied = copy_rate()
    fixed = [job for job in jobs if job.rows]
    rows = list(measured(fixed, given.limit, lambda job: measure(job, copied)))
    large = [row for row in rows if row.rows == max(ROWS)]
    print(f"dynamic beside static, worst: {min(row.static / row.dynamic for row in rows):.2f}")
    print(f"{max(ROWS)} rows, least share of a copy: {min(row.of_copy for row in large):.0%}")
    if given.csv:
        write_csv(given.csv, rows, copied)


if __name__ == "__main__":
    main()
