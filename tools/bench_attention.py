"""Attention beside flash attention, cuDNN and memory-efficient attention, in one run.

    python -m tools.bench_attention --build-only --packages DIR [GROUP ...]     no GPU is needed
    python -m tools.bench_attention --packages DIR [GROUP ...] [--dtype float16] [--csv FILE]

The groups are "decode", one query over many keys, and "prefill". Packages that are not in DIR are
built first, several at a time; those that are there are used as they are, and ``--build-only``
builds all anew. Figures are taken as in ``bench_kernels.py``: medians of replayed graphs, all calls
in turn, inputs from many sets. A peer that does not take a case is left out of it. Errors are
against float64, for the heads of one group of keys, in units of eager's; "WRONG" breaks the law of
tests/e2e/law.py.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from aotpack.pipeline import Source
from aotpack.runtime import load
from aotpack.target import native_target
from tools.bench_kernels import in_turns
from tools.case_packages import add_package_options, built, graded, measured, write_figures

SETS_BYTES = 256 * 2**20  # several times L2
FEWEST_SETS, MOST_SETS = 2, 96
BANDWIDTH = 4.3e6  # bytes a us of a copy on an H200
Call = Callable[..., Any]
PEERS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A shape; ``shared`` are the heads of keys and values."""

    batch: int
    heads: int
    shared: int
    queries: int
    keys: int
    depth: int
    causal: bool = False

    @property
    def name(self) -> str:
        sizes = (self.batch, self.heads, self.shared, self.queries, self.keys, self.depth)
        return ",".join(map(str, sizes)) + (" causal" if self.causal else "")

    @property
    def group(self) -> str:
        return "decode" if self.queries == 1 else "prefill"

    def factors(self, device: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values."""

        def one(heads: int, count: int) -> torch.Tensor:
            return torch.randn(self.batch, heads, count, self.depth, device=device, dtype=dtype)

        return one(self.heads, self.queries), *(one(self.shared, self.keys) for _ in "kv")

    def floor(self, itemsize: int) -> float:
        """Microseconds in which a copy moves the keys and values."""
        return 2 * itemsize * self.batch * self.shared * self.keys * self.depth / BANDWIDTH


def _decode(batch: int, heads: int, shared: int, keys: int, depth: int) -> Case:
    return Case(batch, heads, shared, 1, keys, depth)


def _prefill(
    batch: int, heads: int, shared: int, length: int, depth: int, *, causal: bool = False
) -> Case:
    return Case(batch, heads, shared, length, length, depth, causal)


DECODE = (
    *(_decode(1, 32, 8, keys, 64) for keys in (1024, 2048, 8192)),
    *(_decode(1, 32, 8, keys, 128) for keys in (2048, 4096, 16_384, 32_768)),
    *(_decode(1, 16, 16, keys, 128) for keys in (2048, 16_384)),
    _decode(1, 16, 16, 4096, 64),
    _decode(4, 32, 8, 1024, 64),
    _decode(4, 32, 8, 8192, 128),
    _decode(8, 32, 8, 2048, 64),
    _decode(8, 16, 16, 4096, 128),
    _decode(16, 32, 8, 4096, 128),
    _decode(16, 16, 16, 1024, 64),
    _decode(32, 32, 8, 1024, 128),
    _decode(32, 16, 16, 2048, 64),
    _decode(64, 32, 8, 2048, 128),
    _decode(64, 16, 16, 1024, 64),
)
PREFILL = (
    *(_prefill(batch, 12, 12, 128, 64) for batch in (1, 8, 32)),
    *(_prefill(batch, 12, 12, 512, 64) for batch in (1, 8, 32)),
    *(_prefill(batch, 16, 16, 1024, 64) for batch in (1, 8)),
    *(_prefill(batch, 16, 16, 4096, 64) for batch in (1, 4)),
    *(_prefill(batch, 12, 12, 1024, 64, causal=True) for batch in (1, 8)),
    _prefill(8, 16, 16, 2048, 64, causal=True),
    _prefill(2, 16, 16, 8192, 64, causal=True),
    *(_prefill(batch, 32, 8, 512, 64, causal=True) for batch in (1, 8)),
    *(_prefill(batch, 32, 8, 512, 128, causal=True) for batch in (1, 8)),
    *(_prefill(batch, 32, 8, 2048, 128, causal=True) for batch in (1, 4)),
    _prefill(1, 32, 8, 8192, 128, causal=True),
    *(_prefill(batch, 16, 16, 1024, 128) for batch in (1, 8)),
    _prefill(2, 16, 16, 4096, 128),
    _prefill(8, 8, 8, 4096, 40),
    _prefill(2, 10, 10, 4096, 80),
    _prefill(4, 16, 16, 1024, 80),
    _prefill(4, 16, 16, 1024, 96, causal=True),
    _prefill(2, 8, 8, 2048, 256),
    _prefill(2, 16, 4, 2048, 256, causal=True),
)
GROUPS = {"decode": DECODE, "prefill": PREFILL}


class Attended(nn.Module):
    """What is packaged."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=True)


@dataclass(frozen=True, slots=True)
class Job:
    """A package to build."""

    case: Case
    dtype: str
    target: str
    folder: Path

    @property
    def package(self) -> Path:
        words = self.case.name.replace(",", "_").replace(" ", "_")
        return self.folder / f"attention_{words}_{self.dtype}"

    def source(self) -> Source:
        """What is packaged."""
        args = self.case.factors("meta", getattr(torch, self.dtype))
        return Source(Attended(self.case.causal), args)


# --- measuring


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of each call of a case, ours among them, and what was found of the errors."""

    job: Job
    times: dict[str, float]
    error: float
    complaint: str | None

    @property
    def peer(self) -> str:
        """The fastest peer."""
        return min((name for name in self.times if name != "aotpack"), key=self.times.__getitem__)

    @property
    def ratio(self) -> float:
        """The fastest peer's time over ours."""
        return self.times[self.peer] / self.times["aotpack"]

    def line(self) -> str:
        times = "  ".join(f"{name} {time:8.2f}" for name, time in self.times.items())
        words = f"  WRONG: {self.complaint}" if self.complaint else ""
        floor = self.job.case.floor(getattr(torch, self.job.dtype).itemsize)
        share = f"  {floor / self.times['aotpack']:4.0%} of the copy" if self.is_decode else ""
        name = f"{self.job.case.group} {self.job.case.name:32}"
        return f"{name} {times} us  {self.ratio:5.2f}x{share}  error {self.error:.2f}x{words}"

    @property
    def is_decode(self) -> bool:
        return self.job.case.group == "decode"


def measure(job: Job) -> Row:
    """Time a case and its peers in turn, and check the answer."""
    case, dtype = job.case, getattr(torch, job.dtype)
    ours = load(job.package, 0)
    sets = list(_sets(case, dtype))
    calls = {"aotpack": ours} | _peers(case, sets[0])
    error, complaint = _checked(case, ours, sets[0])
    found = in_turns(calls, sets)
    times = {name: statistics.median(all_rounds) for name, all_rounds in found.items()}
    return Row(job, times, error, complaint)


def _sets(case: Case, dtype: torch.dtype) -> Iterator[tuple[torch.Tensor, ...]]:
    """So many that they are far larger than L2."""
    first = case.factors("cuda", dtype)
    count = SETS_BYTES // sum(x.nbytes for x in first) + 1
    yield first
    for _ in range(min(max(count, FEWEST_SETS), MOST_SETS) - 1):
        yield case.factors("cuda", dtype)


def _peers(case: Case, args: tuple[torch.Tensor, ...]) -> dict[str, Call]:
    """The backends of torch that take a case."""
    found: dict[str, Call] = {}
    is_grouped = case.heads != case.shared

    def attended(backend: SDPBackend, *given: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(
                *given, is_causal=case.causal, enable_gqa=is_grouped
            )

    for name, backend in PEERS.items():
        call = partial(attended, backend)
        try:
            call(*args)
        except RuntimeError:
            continue
        found[name] = call
    return found


def _checked(case: Case, ours: Call, args: tuple[torch.Tensor, ...]) -> tuple[float, str | None]:
    """The largest error in units of eager's, and how the law of accuracy is broken."""
    group = case.heads // case.shared
    q, k, v = args
    few = (q[:1, :group], k[:1, :1], v[:1, :1])
    eager = F.scaled_dot_product_attention(*few, is_causal=case.causal, enable_gqa=True)
    wide = (x.double() for x in few)
    exact = F.scaled_dot_product_attention(*wide, is_causal=case.causal, enable_gqa=True)
    mine = torch.as_tensor(ours(*args))[:1, :group]
    return graded(mine, eager, exact)


# --- reporting


def report(rows: Sequence[Row]) -> None:
    """Means and worst by group."""
    print()
    for group in GROUPS:
        members = [row for row in rows if row.job.case.group == group]
        if members:
            worst = min(members, key=lambda row: row.ratio)
            mean = statistics.geometric_mean(row.ratio for row in members)
            words = f"geomean {mean:.2f} of the best peer; worst {worst.ratio:.2f}"
            print(f"{group:8} {len(members):3} cases: {words} {worst.job.case.name}")
    wrong = [row for row in rows if row.complaint]
    print(f"{len(wrong)} wrong" + "".join(f"\n{row.line()}" for row in wrong))


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """In the format of docs/measurements."""
    header = {
        "title": "attention beside torch's backends; names are batch, heads, heads of keys, "
        "queries, keys, head size",
        "versions": f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "command": "python -m tools.bench_attention",
        "note": "ratio is the best peer's time over ours; error in units of eager's",
    }
    figures = list[tuple[str, str, str, str, str, str]]()
    for row in rows:
        case, group = f"{row.job.case.name} {row.job.dtype}", row.job.case.group
        for name, us in row.times.items():
            figures.append((case, name, f"{us:.2f}", "", "us", group))
        figures.append((case, "ratio", f"{row.ratio:.3f}", "", "times", row.peer))
        figures.append((case, "error", f"{row.error:.3f}", "", "times", row.complaint or ""))
    write_figures(path, header, figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", default=list(GROUPS), help=", ".join(GROUPS))
    parser.add_argument("--dtype", default="bfloat16", help="bfloat16, float16 or float32")
    add_package_options(parser, "attention")
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    target = options.target or str(native_target())
    cases = [case for group in options.groups for case in GROUPS[group]]
    jobs = [Job(case, options.dtype, target, options.packages) for case in cases]
    jobs = built(jobs, options.jobs, anew=options.build_only)
    if options.build_only:
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    rows = list[Row]()
    for row in measured(jobs, options.limit, measure):
        rows.append(row)
        if options.csv:
            write_csv(options.csv, rows)
    if rows:
        report(rows)


if __name__ == "__main__":
    with torch.no_grad():
        main()
