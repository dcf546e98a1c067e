"""Memory-bound kernels beside a copy of the same bytes and torch.compile, in one run.

    python tools/bench_kernels.py [--columns 4096,768,...] [--dtype bfloat16] [--patterns ...]

Rows are chosen so that a tensor has 128 MB, far beyond L2; inputs are random. A figure is the median
GPU time of a call by events; a percentage is (bytes that must move / time) against the copy's.
Needs a GPU.
"""

import argparse
import copy
import statistics
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, log_softmax, rms_norm, silu, softmax
from triton.testing import do_bench

import aotpack

TENSOR_BYTES = 128 * 2**20
Tensors = tuple[torch.Tensor, ...]


class Pattern(nn.Module):
    """A function of tensors as a module; ``reads``/``writes`` count tensors of rows x columns."""

    def __init__(
        self, function: Callable[..., torch.Tensor], reads: int, writes: int, vectors: int
    ) -> None:
        super().__init__()
        self.function = function
        self.reads, self.writes, self.vectors = reads, writes, vectors

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return self.function(*tensors)

    def inputs(self, rows: int, columns: int, dtype: torch.dtype) -> Tensors:
        """``reads`` matrices, then ``vectors`` of one row."""
        matrices = [torch.randn(rows, columns, dtype=dtype) for _ in range(self.reads)]
        return (*matrices, *[torch.randn(columns, dtype=dtype) for _ in range(self.vectors)])


class TransposeAdd(Pattern):
    """The second matrix is read across its rows."""

    def inputs(self, rows: int, columns: int, dtype: torch.dtype) -> Tensors:
        return torch.randn(rows, columns, dtype=dtype), torch.randn(columns, rows, dtype=dtype)


def rms_norm_residual(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return rms_norm(x + r, (x.shape[-1],), w, 1e-6)


PATTERNS: dict[str, Pattern] = {
    "layer_norm": Pattern(lambda x, w, b: layer_norm(x, (x.shape[-1],), w, b), 1, 1, 2),
    "softmax": Pattern(lambda x: softmax(x, -1), 1, 1, 0),
    "rms_norm_residual": Pattern(rms_norm_residual, 2, 1, 1),
    "bias_gelu": Pattern(lambda x, b: gelu(x + b), 1, 1, 1),
    "swiglu": Pattern(lambda x, y: silu(x) * y, 2, 1, 0),
    "column_sum": Pattern(lambda x: x.sum(0), 1, 0, 0),
    "transpose_add": TransposeAdd(lambda x, y: x + y.t(), 2, 1, 0),
    "log_softmax": Pattern(lambda x: log_softmax(x, -1), 1, 1, 0),
}


def microseconds(call: Callable[..., object], args: Tensors) -> float:
    times = [do_bench(lambda: call(*args), warmup=10, rep=40, return_mode="median") for _ in "123"]
    return statistics.median(times) * 1e3


def bench(name: str, columns: int, dtype: torch.dtype) -> tuple[float, float]:
    """(share of the copy's bandwidth, speed against torch.compile)."""
    pattern = PATTERNS[name]
    rows = TENSOR_BYTES // (columns * dtype.itemsize)
    host = pattern.inputs(rows, columns, dtype)
    ours = aotpack.compile(pattern, host, target="native")
    args = tuple(tensor.cuda() for tensor in host)
    torch._dynamo.reset()
    theirs = torch.compile(copy.deepcopy(pattern))
    target = torch.empty_like(args[0])
    times = [microseconds(call, args) for call in (ours, theirs, lambda *_: target.copy_(args[0]))]
    needed = (pattern.reads + pattern.writes) / 2
    share, gain = times[2] * needed / times[0], times[1] / times[0]
    wrong = (ours(*args).double() - pattern(*[a.double() for a in args])).abs().max().item()
    eager = (pattern(*args).double() - pattern(*[a.double() for a in args])).abs().max().item()
    print(
        f"{name:18} [{rows},{columns}] {str(dtype)[6:]:9}"
        f"  ours {times[0]:7.1f} us {share:6.1%} of copy"
        f"  compile {times[1]:7.1f} us  {gain:5.2f}x  error {wrong / max(eager, 1e-30):.2f}x eager",
        flush=True,
    )
    return share, gain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--columns", default="4096")
    parser.add_argument("--dtype", default="bfloat16")
    given = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    gains = [
        bench(name, int(columns), getattr(torch, given.dtype))[1]
        for columns in given.columns.split(",")
        for name in given.patterns.split(",")
    ]
    print(f"geomean against torch.compile: {statistics.geometric_mean(gains):.2f}x")


if __name__ == "__main__":
    with torch.no_grad():
        main()
