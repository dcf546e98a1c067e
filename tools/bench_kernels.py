"""Memory-bound kernels compared with a copy of the same bytes and torch.compile, in one run.

    python tools/bench_kernels.py [--columns 4096,768,...] [--rows N] [--dtype bfloat16]
                                  [--patterns ...] [--alone] [--many]

Inputs are random, of 128 MB a tensor unless ``--rows`` is given, and alternate between several
sets, so that nothing is in L2 when it is read and every run writes back the results of the one
before. A figure is the median GPU time of a call in a replayed graph of calls; a percentage is
(bytes that must move / time) against the copy's. ``--many`` times 100 independent small operators
instead, as a call. ``--alone`` leaves torch.compile out. Needs a GPU.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import gelu, layer_norm, log_softmax, rms_norm, silu, softmax

import aotpack

TENSOR_BYTES = 128 * 2**20
ALL_SETS_BYTES = 512 * 2**20  # many times L2
ROUNDS = 12
Tensors = tuple[torch.Tensor, ...]
Call = Callable[..., object]


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

    def inputs(self, rows: int, columns: int, dtype: torch.dtype, device: str) -> Tensors:
        """``reads`` matrices, then ``vectors`` of one row."""
        shapes = [(rows, columns)] * self.reads + [(columns,)] * self.vectors
        return tuple(torch.randn(shape, dtype=dtype, device=device) for shape in shapes)


class TransposeAdd(Pattern):
    """The second matrix is read across its rows."""

    def inputs(self, rows: int, columns: int, dtype: torch.dtype, device: str) -> Tensors:
        shapes = ((rows, columns), (columns, rows))
        return tuple(torch.randn(shape, dtype=dtype, device=device) for shape in shapes)


class Many(nn.Module):
    """100 independent operators."""

    def forward(self, *xs: torch.Tensor) -> Tensors:
        forms: list[Callable[[torch.Tensor], torch.Tensor]] = [
            lambda x: gelu(x) + 1,
            lambda x: softmax(x, -1),
            lambda x: x * x.sigmoid(),
            lambda x: layer_norm(x, (x.shape[-1],)),
        ]
        return tuple(forms[number % 4](x) for number, x in enumerate(xs))


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
    "row_sum": Pattern(lambda x: x.sum(1), 1, 0, 0),
    "argmax": Pattern(lambda x: x.argmax(1), 1, 0, 0),
}
USUAL = tuple(PATTERNS)[:8]


def in_turns(
    calls: dict[str, Call], sets: list[Tensors], *, graph: bool = True
) -> dict[str, list[float]]:
    """GPU microseconds of a call over all sets, in each round; rounds alternate in order.

    A ``graph`` of each call takes the host's time out. All results have the same memory: a kernel
    was seen to take a tenth longer with its result elsewhere.
    """
    stream, pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()
    runs: dict[str, Call] = {}
    with torch.cuda.stream(stream):
        for name, call in calls.items():
            for args in sets * 2:
                call(*args)
            stream.synchronize()
            runs[name] = _recorded(call, sets, stream, pool) if graph else _repeated(call, sets)
        times: dict[str, list[float]] = {name: [] for name in calls}
        for turn in range(ROUNDS):
            for name in list(calls)[:: 1 if turn % 2 else -1]:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record(stream)
                runs[name]()
                end.record(stream)
                end.synchronize()
                times[name].append(start.elapsed_time(end) / len(sets) * 1e3)
    return times


def _repeated(call: Call, sets: list[Tensors]) -> Call:
    """A call with each of the sets."""

    def run() -> None:
        for args in sets:
            call(*args)

    return run


def _recorded(
    call: Call, sets: list[Tensors], stream: torch.cuda.Stream, pool: tuple[int, int]
) -> Call:
    """The replay of a graph of a call with each of the sets; its results lie in the pool."""
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured, pool=pool, stream=stream, capture_error_mode="relaxed"):
        _repeated(call, sets)()
    return captured.replay  # type: ignore[no-any-return]


def microseconds(call: Call, sets: list[Tensors], *, graph: bool = True) -> float:
    """The median GPU time of a call, all sets in turn."""
    return statistics.median(in_turns({"": call}, sets, graph=graph)[""])


def bench(name: str, rows: int, columns: int, dtype: torch.dtype, *, alone: bool) -> float:
    """Print a line; the speed against torch.compile, or 1 without it."""
    pattern = PATTERNS[name]
    count = max(2, ALL_SETS_BYTES // (rows * columns * dtype.itemsize * pattern.reads))
    sets = [pattern.inputs(rows, columns, dtype, "cuda") for _ in range(count)]
    args = sets[0]
    ours = aotpack.compile(pattern, tuple(tensor.cpu() for tensor in args), target="native")
    targets = [torch.empty_like(args[0]) for _ in sets]
    copies = [(given[0], target) for given, target in zip(sets, targets, strict=True)]
    copied = microseconds(lambda x, target: target.copy_(x), copies, graph=False)
    exact = pattern(*[a.double() for a in args])
    wrong = (ours(*args).double() - exact).abs().max().item()
    eager = (pattern(*args).double() - exact).abs().max().item()
    needed = (pattern.reads + pattern.writes) / 2
    time_of_ours = microseconds(ours, sets)
    share = copied * needed / time_of_ours
    line = f"{name:18} [{rows},{columns}] {str(dtype)[6:]:9} ours {time_of_ours:7.1f} us"
    line += f" {share:6.1%} of copy  error {wrong:.2g}, eager's {eager:.2g}"
    beside, gain = ("", 1.0) if alone else against_compile(pattern, ours, sets)
    print(line + beside, flush=True)
    return gain


def against_compile(pattern: nn.Module, ours: Call, sets: list[Tensors]) -> tuple[str, float]:
    """torch.compile's time and its ratio to ours, as text with the range of all rounds."""
    torch._dynamo.reset()
    theirs = torch.compile(copy.deepcopy(pattern))
    times = in_turns({"ours": ours, "theirs": theirs}, sets)
    gains = [b / a for a, b in zip(times["ours"], times["theirs"], strict=True)]
    gain = statistics.median(gains)
    took = statistics.median(times["theirs"])
    spread = f"{gain:5.2f}x ({min(gains):.2f} to {max(gains):.2f})"
    return f"  compile {took:7.1f} us {spread}", gain


def bench_many(*, alone: bool) -> None:
    """Median time of a call with its results, and of the GPU."""
    xs = tuple(torch.randn(16, 256 + 8 * number) for number in range(100))
    args = tuple(x.cuda() for x in xs)
    calls = {
        "aotpack": aotpack.compile(Many(), xs, target="native"),
        "compile": torch.compile(Many()),
        "eager": Many(),
    }
    if alone:
        del calls["compile"]
    for name, call in calls.items():
        for _ in range(3):
            call(*args)
        times = []
        for _ in range(50):
            torch.cuda.synchronize()
            start = time.perf_counter()
            call(*args)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        wall = statistics.median(times) * 1e6
        gpu = microseconds(call, [args])
        print(f"100 small operators: {name:8} {wall:8.1f} us a call, {gpu:7.1f} us of the GPU")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patterns", default=",".join(USUAL))
    parser.add_argument("--columns", default="4096")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--many", action="store_true")
    given = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    if given.many:
        bench_many(alone=given.alone)
        return
    gains = []
    for dtype in (getattr(torch, name) for name in given.dtype.split(",")):
        for columns in map(int, given.columns.split(",")):
            rows = given.rows or TENSOR_BYTES // (columns * dtype.itemsize)
            for name in given.patterns.split(","):
                gains.append(bench(name, rows, columns, dtype, alone=given.alone))
    if not given.alone:
        print(f"geomean against torch.compile: {statistics.geometric_mean(gains):.2f}x")


if __name__ == "__main__":
    with torch.no_grad():
        main()
