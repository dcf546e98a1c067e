"""Convolutions with bias and relu beside cuDNN, GPU time of a call, in one run.

    python -m tools.bench_conv --build-only --packages DIR [GROUP ...]     no GPU is needed
    python -m tools.bench_conv --packages DIR [GROUP ...] [--dtype float32] [--csv FILE]

Packages that are not in DIR are built first, several at a time; those that are there are used as
they are, and ``--build-only`` builds all anew. They have no weights: these are bound at load.
Figures are taken as in ``bench_kernels.py``: medians of replayed graphs, all calls in turn, inputs
from many sets. The peers are torch's module in both layouts (``cudnn.benchmark``) and, as
information, cuDNN's convolution with bias and relu in one call. ``--inputs`` says what ours gets:
"nchw", "channels-last" (such a tensor), or "nhwc" (a view of contiguous memory, and so its result).
No TF32 on either side. Errors are against float64, in units of eager's; "WRONG" breaks the law of
tests/e2e/law.py.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from aotpack.pipeline import Source
from aotpack.runtime import load
from aotpack.target import native_target
from tools.bench_kernels import in_turns
from tools.case_packages import add_package_options, built, graded, measured, write_figures
from tools.conv_cases import GROUPS, Case, cases_of

INPUTS = ("nchw", "channels-last", "nhwc")
SETS_BYTES = 256 * 2**20  # several times L2
FEWEST_SETS, MOST_SETS = 4, 64
Call = Callable[..., Any]


class ChannelsInnermost(nn.Module):
    """The module for images whose channels are the last dimension, and such a result."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.module(x.movedim(-1, 1)).movedim(1, -1)


@dataclass(frozen=True, slots=True)
class Job:
    """A package to build."""

    case: Case
    dtype: str
    inputs: str
    target: str
    folder: Path

    @property
    def package(self) -> Path:
        return self.folder / f"{self.case.name}_{self.dtype}_{self.inputs}"

    def module(self) -> nn.Module:
        """What is packaged."""
        module = self.case.module().to(getattr(torch, self.dtype))
        return ChannelsInnermost(module) if self.inputs == "nhwc" else module

    def source(self) -> Source:
        """The module with its example."""
        image = self.case.input("cpu", getattr(torch, self.dtype))
        return Source(self.module(), (self.given(image),))

    def given(self, x: torch.Tensor) -> torch.Tensor:
        """The package's argument for an image."""
        if self.inputs == "nchw":
            return x.contiguous()
        last = channels_last(self.case, x)
        return last.movedim(1, -1) if self.inputs == "nhwc" else last


def channels_last(case: Case, x: torch.Tensor) -> torch.Tensor:
    """The same image with its channels innermost in memory."""
    if case.memory_format is None:
        return x.movedim(1, -1).contiguous().movedim(-1, 1)
    return x.contiguous(memory_format=case.memory_format)


# --- measuring


@dataclass(frozen=True, slots=True)
class Row:
    """Microseconds of each call of a case, ours among them, and what was found of the errors."""

    job: Job
    times: dict[str, float]
    error: float
    complaint: str | None
    groups: tuple[str, ...] = ()

    def gain(self, *peers: str) -> float:
        """The time of the best of these peers over ours; 0 without any."""
        found = [self.times[peer] for peer in peers if peer in self.times]
        return min(found) / self.times["aotpack"] if found else 0.0

    @property
    def ratio(self) -> float:
        """Of torch's better layout."""
        return self.gain("nchw", "channels-last")

    def line(self) -> str:
        times = "  ".join(f"{name} {time:8.2f}" for name, time in self.times.items())
        words = f"  WRONG: {self.complaint}" if self.complaint else ""
        name = f"{self.job.case.name:44} {self.job.dtype:8}"
        return f"{name} {times} us  {self.ratio:5.2f}x  error {self.error:.2f}x{words}"


def measure(job: Job, peers: Sequence[str]) -> Row:
    """Time a case and its peers in turn, and check the answer."""
    dtype, case = getattr(torch, job.dtype), job.case
    ours = load(job.package, 0, weights=job.module().state_dict())
    plain = case.module().to("cuda", dtype)
    x = case.input("cuda", dtype)
    result = plain(x)
    sets = [(job.given(one), one, channels_last(case, one)) for one in _images(x, result)]
    calls = {"aotpack": lambda given, *_: ours(given)} | _peers(case, plain, result, peers)
    error, complaint = _checked(job, ours, plain, sets[0])
    found = in_turns(calls, sets)
    times = {name: statistics.median(all_rounds) for name, all_rounds in found.items()}
    return Row(job, times, error, complaint)


def _images(x: torch.Tensor, result: torch.Tensor) -> Iterable[torch.Tensor]:
    """So many that they and their results are far larger than L2."""
    count = SETS_BYTES // (x.nbytes + result.nbytes) + 1
    for _ in range(min(max(count, FEWEST_SETS), MOST_SETS)):
        yield torch.randn_like(x)


def _peers(
    case: Case, plain: nn.Module, result: torch.Tensor, names: Sequence[str]
) -> dict[str, Call]:
    """Torch's module in both layouts, and the fused call where cuDNN has it."""
    last: Any = case.module().to("cuda", result.dtype)
    if case.memory_format is not None:
        last = last.to(memory_format=case.memory_format)
    found: dict[str, Call] = {"nchw": lambda _, x, __: plain(x)}
    if case.memory_format is not None:
        found["channels-last"] = lambda _, __, x: last(x)
    conv = last.conv
    how = (case.stride, case.padding, case.dilation, case.groups)

    def fused(_: torch.Tensor, __: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.cudnn_convolution_relu(x, conv.weight, conv.bias, *how)

    if case.dims == 2 and not case.is_transposed:
        try:
            sample = case.input("cuda", result.dtype)
            fused(sample, sample, channels_last(case, sample))
            found["fused"] = fused
        except RuntimeError as error:
            print(f"{case.name}: no fused call: {str(error)[:100]}")
    return {name: call for name, call in found.items() if name in names}


def _checked(
    job: Job, ours: Call, plain: nn.Module, one: tuple[torch.Tensor, ...]
) -> tuple[float, str | None]:
    """The largest error in units of eager's, and how the law of accuracy is broken."""
    given, x, _ = one
    mine = torch.as_tensor(ours(given))
    mine = mine.movedim(-1, 1) if job.inputs == "nhwc" else mine
    eager = plain(x)
    with torch.backends.cudnn.flags(enabled=True, benchmark=False):
        wide = job.case.module().to("cuda", torch.float64)
        exact = torch.cat([wide(part.double()) for part in x.split(1)])
    return graded(mine, eager, exact)


# --- reporting


def report(rows: Sequence[Row]) -> None:
    """Means and worst by group and batch, and what is slowest."""
    print()
    for group in dict.fromkeys(group for row in rows for group in row.groups):
        members = [row for row in rows if group in row.groups]
        _summary(group, members)
        for batch in sorted({row.job.case.batch for row in members}) if group != "other" else ():
            _summary(f"  batch {batch}", [r for r in members if r.job.case.batch == batch])
    _summary("all", rows)
    print("\nslowest beside torch's better layout:")
    for row in sorted(rows, key=lambda row: row.ratio)[:10]:
        print(row.line())
    wrong = [row for row in rows if row.complaint]
    print(f"{len(wrong)} wrong" + "".join(f"\n{row.line()}" for row in wrong))


def _summary(name: str, rows: Sequence[Row]) -> None:
    worst = min(rows, key=lambda row: row.ratio)
    mean = statistics.geometric_mean(row.ratio for row in rows)
    fused = [row.gain("fused") for row in rows if "fused" in row.times]
    beside = f", of the fused call {statistics.geometric_mean(fused):.2f}" if fused else ""
    words = f"geomean {mean:.2f} of torch's better layout{beside}"
    print(f"{name:14} {len(rows):4} cases: {words}; worst {worst.ratio:.2f} {worst.job.case.name}")


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """In the format of docs/measurements."""
    header = {
        "title": "convolution + bias + relu beside cuDNN in both layouts; names are batch x "
        "channels x size - out, kernel, stride, padding, dilation, groups",
        "versions": f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}",
        "command": "python -m tools.bench_conv",
        "note": "ratio is the better layout's time over ours; error in units of eager's",
    }
    figures = list[tuple[str, str, str, str, str, str]]()
    for row in rows:
        case, note = f"{row.job.case.name} {row.job.dtype}", " ".join(row.groups)
        for name, us in row.times.items():
            figures.append((case, name, f"{us:.2f}", "", "us", note))
        figures.append((case, "ratio", f"{row.ratio:.3f}", "", "times", row.job.inputs))
        figures.append((case, "error", f"{row.error:.3f}", "", "times", row.complaint or ""))
    write_figures(path, header, figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", default=list(GROUPS), help=", ".join(GROUPS))
    parser.add_argument("--dtype", default="bfloat16", help="bfloat16, float16 or float32")
    parser.add_argument("--batch", help="such as 1,32 (default: those of the group)")
    parser.add_argument("--inputs", choices=INPUTS, default="nchw", help="what ours is given")
    parser.add_argument("--peers", default="nchw,channels-last,fused")
    add_package_options(parser, "convolutions")
    return parser.parse_args()


def main() -> None:
    options = _arguments()
    batches = tuple(map(int, options.batch.split(","))) if options.batch else None
    groups: dict[Case, tuple[str, ...]] = {}
    for group in options.groups:
        for case in cases_of(group, batches):
            groups[case] = (*groups.get(case, ()), group)
    target = options.target or str(native_target())
    jobs = [Job(case, options.dtype, options.inputs, target, options.packages) for case in groups]
    jobs = built(jobs, options.jobs, anew=options.build_only)
    if options.build_only:
        return
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {options.inputs}")

    def measure_one(job: Job) -> Row:
        return replace(measure(job, options.peers.split(",")), groups=groups[job.case])

    rows = list[Row]()
    for row in measured(jobs, options.limit, measure_one):
        rows.append(row)
        if options.csv:
            write_csv(options.csv, rows)
    if rows:
        report(rows)


if __name__ == "__main__":
    with torch.no_grad():
        main()
