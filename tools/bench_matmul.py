"""Matrix products with bias and activation beside cuBLAS, GPU time of a call, in one run.

    python -m tools.bench_matmul --build-only --packages DIR [GROUP ...]     no GPU is needed
    python -m tools.bench_matmul --packages DIR [GROUP ...] [--dtype float32] [--csv FILE]

Packages that are not in DIR are built first, several at a time; those that are there are used as
they are, and ``--build-only`` builds all anew. They have no weights: these are bound at load.
Figures are taken as in ``bench_kernels.py``: medians of replayed graphs, all calls in turn. Inputs
and weights alternate between sets that are several times L2. The peer is ``torch.matmul`` alone;
ours adds the bias and the activation. The group "bmm" has batched products, whose peer runs the
same function. "copy" is the share of a copy's bandwidth at which ours moves weights, input and
result: of a copy of the same bytes, timed in turn, and of a large one, which no launch of
microseconds reaches. No TF32 on either side. Errors are against float64, in units of eager's;
"WRONG" breaks the law of tests/e2e/law.py.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch

from aotpack.pipeline import Source
from aotpack.runtime import load
from aotpack.runtime.devices.cuda import CudaDevice
from aotpack.target import native_target
from tools.bench_kernels import in_turns, microseconds
from tools.bmm_cases import Batched, BatchedCase, batched_cases
from tools.case_packages import add_package_options, built, graded, measured, write_figures
from tools.matmul_cases import GROUPS, Case, Product, cases_of

SETS_BYTES = 160 * 2**20  # several times L2
FEWEST_SETS, MOST_SETS = 2, 16
COPIED_BYTES = 256 * 2**20
CHECKED_ROWS = 512  # of a long product
BATCHED = "bmm"
Call = Callable[..., Any]
AnyCase: TypeAlias = Case | BatchedCase


@dataclass(frozen=True, slots=True)
class Job:
    """A package to build."""

    case: AnyCase
    dtype: str
    target: str
    folder: Path

    @property
    def package(self) -> Path:
        return self.folder / f"{self.case.name}_{self.dtype}".replace(" ", "_")

    @property
    def type(self) -> torch.dtype:
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def source(self) -> Source:
        """What is packaged."""
        return Source(self.case.unfilled(self.type), self.case.inputs(self.type, "cpu"))

    @property
    def moved(self) -> int:
        """The bytes that must move."""
        return self.case.elements * self.type.itemsize


# --- measuring


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of ours, of cuBLAS and of a copy of the same bytes, and the errors.

    ``of_large_copy`` is the share of the bandwidth of a large copy.
    """

    job: Job
    ours: float
    peer: float
    copy: float
    of_large_copy: float
    error: float
    complaint: str | None
    groups: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.peer / self.ours

    @property
    def of_copy(self) -> float:
        """The share of the bandwidth of a copy of the same bytes."""
        return self.copy / self.ours

    def line(self) -> str:
        words = f"  WRONG: {self.complaint}" if self.complaint else ""
        times = f"aotpack {self.ours:8.2f}  cuBLAS {self.peer:8.2f} us  {self.ratio:5.2f}x"
        name = f"{self.job.case.name:26} {self.job.dtype:8}"
        copies = f"{self.of_copy:4.0%} (large {self.of_large_copy:4.0%})"
        return f"{name} {times}  copy {copies}  error {self.error:.2f}x{words}"


def measure(job: Job, copied: float, groups: tuple[str, ...]) -> Row:
    """Time a case and its peer in turn, and check the answer; ``copied`` is in bytes a us."""
    case, dtype = job.case, job.type
    count = min(max(SETS_BYTES // job.moved + 1, FEWEST_SETS), MOST_SETS)
    modules = [case.module(dtype) for _ in range(count)]
    port = CudaDevice(0)  # whose models share a kernel, as the layers of a network do
    loaded = [load(job.package, port, weights=module.state_dict()) for module in modules]
    xs = [case.inputs(dtype, "cuda") for _ in range(count)]
    half = job.moved // 2  # is read, and as much written
    bytes_of = [torch.empty(2, half, dtype=torch.uint8, device="cuda") for _ in range(count)]
    calls: dict[str, Call] = {
        "aotpack": lambda number: loaded[number](*xs[number]),
        "cuBLAS": lambda number: case.peer(modules[number], xs[number]),
        "copy": lambda number: bytes_of[number][1].copy_(bytes_of[number][0]),
    }
    error, complaint = _checked(loaded[0], modules[0], xs[0])
    found = in_turns(calls, [(number,) for number in range(count)])  # type: ignore[misc]
    ours, peer, copy = (statistics.median(found[name]) for name in calls)
    return Row(job, ours, peer, copy, job.moved / ours / copied, error, complaint, groups)


def _checked(
    ours: Call, module: Product | Batched, xs: tuple[torch.Tensor, ...]
) -> tuple[float, str | None]:
    """The largest error in units of eager's, and how the law of accuracy is broken."""
    mine, eager = torch.as_tensor(ours(*xs)), module(*xs)
    some = slice(None, None, max(1, len(mine) // CHECKED_ROWS))
    mine, eager, exact = mine[some], eager[some], module.exact(xs[0][some], *xs[1:])
    return graded(mine, eager, exact)


def copy_rate() -> float:
    """Bytes a microsecond that a copy reads and writes."""
    count = COPIED_BYTES // 4
    sets = [(torch.empty(count, device="cuda"), torch.empty(count, device="cuda"))]
    return 2 * COPIED_BYTES / microseconds(lambda source, target: target.copy_(source), sets * 4)


# --- reporting


def report(rows: Sequence[Row]) -> None:
    """Means and worst by group, and what is slowest."""
    print()
    for group in dict.fromkeys(group for row in rows for group in row.groups):
        _summary(group, [row for row in rows if group in row.groups])
    _summary("all", rows)
    print("\nslowest beside cuBLAS:")
    for row in sorted(rows, key=lambda row: row.ratio)[:12]:
        print(row.line())
    wrong = [row for row in rows if row.complaint]
    print(f"{len(wrong)} wrong" + "".join(f"\n{row.line()}" for row in wrong))


def _summary(name: str, rows: Sequence[Row]) -> None:
    worst = min(rows, key=lambda row: row.ratio)
    mean = statistics.geometric_mean(row.ratio for row in rows)
    words = f"geomean {mean:.2f} of cuBLAS; worst {worst.ratio:.2f} {worst.job.case.name}"
    print(f"{name:10} {len(rows):4} cases: {words}; least copy {min(r.of_copy for r in rows):.0%}")


def write_csv(path: Path, rows: Sequence[Row], copied: float) -> None:
    """In the format of docs/measurements."""
    header = {
        "title": "product + bias + activation beside cuBLAS's product alone; names are m x n x k",
        "versions": f"torch {torch.__version__}, CUDA {torch.version.cuda}",
        "command": "python -m tools.bench_matmul",
        "note": f"ratio is cuBLAS's time over ours; error in units of eager's; share of the "
        f"bandwidth of a copy of the same bytes, and of a large one, {copied / 1e6:.2f} TB/s",
    }
    figures = list[tuple[str, str, str, str, str, str]]()
    for row in rows:
        case, note = f"{row.job.case.name} {row.job.dtype}", " ".join(row.groups)
        figures.append((case, "aotpack", f"{row.ours:.2f}", "", "us", note))
        figures.append((case, "cuBLAS", f"{row.peer:.2f}", "", "us", note))
        figures.append((case, "ratio", f"{row.ratio:.3f}", "", "times", ""))
        figures.append((case, "share", f"{row.of_copy:.3f}", "", "of a copy", "same bytes"))
        figures.append((case, "share", f"{row.of_large_copy:.3f}", "", "of a copy", "large"))
        figures.append((case, "error", f"{row.error:.3f}", "", "times", row.complaint or ""))
    write_figures(path, header, figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    groups = (*GROUPS, BATCHED)
    parser.add_argument("groups", nargs="*", default=list(GROUPS), help=", ".join(groups))
    parser.add_argument("--dtype", default="bfloat16", help="bfloat16, float16 or float32")
    parser.add_argument("--cases", default="", help="such as 1x4096x4096,16x2048x8192 alone")
    add_package_options(parser, "products")
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    groups: dict[AnyCase, tuple[str, ...]] = {}
    wanted = set(filter(None, options.cases.split(",")))
    for group in options.groups:
        for case in batched_cases() if group == BATCHED else cases_of(group):
            if not wanted or case.name in wanted:
                groups[case] = (*groups.get(case, ()), group)
    target = options.target or str(native_target())
    jobs = [Job(case, options.dtype, target, options.packages) for case in groups]
    jobs = built(jobs, options.jobs, anew=options.build_only)
    if options.build_only:
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    copied = copy_rate()
    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, copy {copied / 1e6:.2f} TB/s"
    )

    def measure_one(job: Job) -> Row:
        return measure(job, copied, groups[job.case])

    rows = list[Row]()
    for row in measured(jobs, options.limit, measure_one):
        rows.append(row)
        if options.csv:
            write_csv(options.csv, rows, copied)
    if rows:
        report(rows)


if __name__ == "__main__":
    with torch.no_grad():
        main()
