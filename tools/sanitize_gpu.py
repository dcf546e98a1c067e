"""Kernels of each template under NVIDIA's compute-sanitizer, and their results by the law.

    python -m tools.sanitize_gpu --build-only --packages DIR [CASE ...]          no GPU is needed
    python -m tools.sanitize_gpu --packages DIR [CASE ...] [--checks memcheck,racecheck]

Each case is small, with sizes that are no multiples of tiles. One process runs all cases under one
check, so that the start is paid once; a report names the kernel. Packages that are not in DIR are
built first. The exit status is the number of checks that found something.
"""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import gettempdir

import torch
from torch import nn
from torch.nn import functional as F

from aotpack.ir.ops.quantization import read_quantization
from aotpack.pipeline import Source
from aotpack.runtime import load
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.quantize.layers import quantize
from tools.case_packages import built, graded
from tools.codegen_corpus import BF16, Function
from tools.decoder_models import Decoder, DecoderSizes

CHECKS = {
    "memcheck": ("--report-api-errors", "no"),  # of functions that a driver has not
    "racecheck": (
        "--racecheck-report",
        "hazard",
        "--print-level",
        "warn",
        "--print-limit",
        "99999",
    ),
    "synccheck": (),
    "initcheck": (),
}
"""Names of checks with their options. A race that writes equal data is below a warning."""

_OF_HOST = re.compile(r"Host Frame|Saved host|Current Value|COMPUTE-SANITIZER")
_COORDINATES = re.compile(r" +(in |by )?(block|thread|Thread) \(.*?\)|(?<== ) +")
FOUND = 9  # the exit status of compute-sanitizer where a check found something


class Gated(nn.Module):
    """Two products of one factor, and one of their product, behind a norm."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class First(nn.Module):
    """The outputs of a recurrent layer, without its last states."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layer(x)[0]
        return outputs


Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


def linear(rows: int, inner: int, columns: int) -> Callable[[], Made]:
    return lambda: (
        nn.Sequential(nn.Linear(inner, columns), nn.GELU()).to(BF16),
        (torch.randn(rows, inner, dtype=BF16),),
    )


def gated(rows: int, width: int, inner: int) -> Callable[[], Made]:
    return lambda: (Gated(width, inner).to(BF16), (torch.randn(rows, width, dtype=BF16),))


def attention(
    batch: int, heads: int, shared: int, queries: int, keys: int, depth: int, *, causal: bool
) -> Callable[[], Made]:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    shapes = ((heads, queries), (shared, keys), (shared, keys))
    return lambda: (
        Function(attend),
        tuple(torch.randn(batch, *one, depth, dtype=BF16) for one in shapes),
    )


def layer(module: Callable[[], nn.Module], *shape: int) -> Callable[[], Made]:
    return lambda: (module().to(BF16), (torch.randn(shape, dtype=BF16),))


def function(of: Callable[..., torch.Tensor], *shape: int) -> Callable[[], Made]:
    return lambda: (Function(of), (torch.randn(shape),))


def step() -> Made:
    """A token of a decoder, whose attention shares keys in clusters."""
    decoder = Decoder(DecoderSizes(512, 8, 2, 64, 520, 1, 1000), 1)
    return decoder.eval().to(BF16), (torch.tensor([[7]]), torch.tensor([997]))


def codes(*widths: int) -> Callable[[], Made]:
    """Products of one row and codes of 8 bits."""

    def made() -> Made:
        args = (torch.randn(1, widths[0], dtype=BF16),)
        model = nn.Sequential(*(nn.Linear(*pair) for pair in pairwise(widths))).to(BF16)
        quantize({"": (model, (args, {}))}, read_quantization("int8"), "a case", HostCopies())
        return model, args

    return made


CASES: dict[str, Callable[[], Made]] = {
    "product": linear(333, 520, 264),
    "product of groups": linear(4096, 1024, 2048),
    "product of many rows": linear(2048, 768, 3072),
    "split sum": linear(64, 8192, 264),
    "one row": gated(1, 2048, 2048),
    "one longer row": gated(1, 4096, 1032),
    "few rows": gated(5, 1032, 520),
    "few rows of float32": lambda: (nn.Linear(4104, 1032), (torch.randn(16, 4104),)),
    "codes through shared memory": codes(2048, 8192),
    "codes of many tiles": codes(2048, 25_632),
    "codes of a long row": codes(8192, 2048),
    "codes of the next launch": codes(2048, 8192, 2048),
    "decode step": step,
    "decode": attention(2, 32, 8, 1, 1531, 64, causal=False),
    "decode of many keys": attention(1, 16, 16, 1, 9001, 128, causal=False),
    "prefill": attention(1, 8, 2, 517, 517, 64, causal=True),
    "prefill of long heads": attention(1, 4, 4, 300, 421, 128, causal=False),
    "many queries, few keys": attention(32, 12, 12, 197, 197, 64, causal=False),
    "lstm": layer(lambda: First(nn.LSTM(40, 200)), 7, 9, 40),
    "gru": layer(lambda: First(nn.GRU(24, 128, bidirectional=True)), 5, 33, 24),
    "convolution": layer(lambda: nn.Conv2d(24, 40, 3, padding=1), 2, 24, 17, 19),
    "pointwise convolution": layer(lambda: nn.Conv2d(64, 136, 1), 2, 64, 17, 19),
    "depthwise convolution": layer(
        lambda: nn.Conv2d(48, 48, 7, padding=3, groups=48), 2, 48, 19, 21
    ),
    "transposed convolution": layer(lambda: nn.ConvTranspose2d(16, 24, 4, 2, 1), 1, 16, 9, 11),
    "long rows": function(lambda x: x.softmax(-1), 40, 24_577),
    "few long rows": function(lambda x: F.layer_norm(x, x.shape[-1:]), 3, 131_075),
    "scan": function(lambda x: x.cumsum(-1), 3, 70_001),
    "sort": function(lambda x: x.sort(-1).values, 5, 3001),
    "columns": function(lambda x: x.sum(0) + x.amax(0), 4099, 33),
    "transposed": function(lambda x: x.t().contiguous() * 2, 1027, 515),
}


@dataclass(frozen=True, slots=True)
class Job:
    """A case as a package."""

    name: str
    target: str
    folder: Path

    @property
    def package(self) -> Path:
        return self.folder / self.name.replace(" ", "_")

    @property
    def answers(self) -> Path:
        return self.package.with_suffix(".pt")

    def made(self) -> Made:
        torch.manual_seed(0)
        module, args = CASES[self.name]()
        return module.eval(), args

    def source(self) -> Source:
        module, args = self.made()
        return Source(module, args, None, None, "case")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", default=[*CASES], metavar="CASE")
    parser.add_argument("--packages", type=Path, default=Path(gettempdir(), "aotpack-sanitize"))
    parser.add_argument("--build-only", action="store_true", help="build all anew, run none")
    parser.add_argument("--target", default="sm_90", help="of the packages")
    parser.add_argument("--checks", default=",".join(CHECKS))
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--run", action="store_true", help="run the cases in this process")
    given = parser.parse_args()
    jobs = [Job(name, given.target, given.packages) for name in given.cases]
    if given.run:
        return sum(not _is_right(job) for job in jobs)
    jobs = built(jobs, given.jobs, anew=given.build_only)
    if given.build_only:
        return 0
    for job in jobs:
        save_answers(job)
    checks = given.checks.split(",")
    return sum(_finds(check, [*sys.argv[1:], "--run"]) for check in checks)


def save_answers(job: Job) -> None:
    """Eager's on the GPU, without a check, and those of float64."""
    module, args = job.made()
    eager = module.cuda()(*(one.cuda() for one in args)).cpu()
    wider = (one.double() if one.is_floating_point() else one for one in args)
    wide = module.cpu().double()(*wider)
    torch.save((eager, wide), job.answers)


def _is_right(job: Job) -> bool:
    """Run a case a few times, at last as a graph; its results obey the law."""
    module, args = job.made()
    weights = {name: one.cuda() for name, one in module.state_dict().items()}
    given = tuple(one.cuda() for one in args)
    eager, wide = torch.load(job.answers)
    with load(job.package, weights=weights or None) as model:
        found = [model(*given).cpu() for _ in range(3)]
    complaints = [graded(one, eager, wide)[1] for one in found]
    print(f"{job.name}: {next((one for one in complaints if one), 'right')}", flush=True)
    return not any(complaints)


def _reports(text: str) -> Counter[str]:
    """What is reported, how often: without threads, blocks, values, and where the host was."""
    paragraphs = (part.split("\n") for part in text.split("\n========= \n"))
    kept = ([line for line in lines if not _OF_HOST.search(line)] for lines in paragraphs)
    return Counter(_COORDINATES.sub("", " ".join(lines).replace("=========", "")) for lines in kept)


def _finds(check: str, arguments: list[str]) -> bool:
    """True if a check of compute-sanitizer reports something, or a result is wrong."""
    command = ("compute-sanitizer", "--tool", check, *CHECKS[check], "--error-exitcode", str(FOUND))
    program = (sys.executable, "-m", "tools.sanitize_gpu", *arguments)
    done = subprocess.run([*command, *program], capture_output=True, text=True, check=False)
    print(f"== {check}: {'clean' if done.returncode == 0 else f'status {done.returncode}'}")
    for report, count in _reports(done.stdout).most_common() if done.returncode else ():
        print(f"{count} x {report}")
    print(done.stderr[-2000:] if done.returncode else "", flush=True)
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
