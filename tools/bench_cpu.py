"""Models and fused operators on processors: torch, other engines and aotpack's wheel compared.

    python -m tools.bench_cpu [cnn bert_1x128 layer_norm rows_1 ...] [--threads 2] [--csv FILE]

Every mode of a case runs in a separate process, and one more builds aotpack's package: peak memory
is the most that the process used during the first calls, less its memory before and pages of mapped
files (weights that are read when they are first needed; the other modes have theirs from the
start). torch.compile needs a C++ compiler; its time before the first result is not counted. Modes
alternate over several rounds, so that a drift of the machine affects all alike; a figure is the
median of all calls. Inputs are random, in float32 unless a case's name says otherwise. Errors are
the largest against float64, in units of eager's. What is not installed is left out.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from tools.cnn_models import CNNS, IMAGE, as_trained
from tools.cpu_engines import MODES, Call, Case, build, prepared

ROUNDS = 3
SECONDS = 3.0  # a mode of a case, a round


@dataclass(slots=True)
class Result:
    """Measurements of a mode of a case: ms of each call, and bytes of memory."""

    peak: int
    error: float
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def least(self) -> float:
        return min(self.times)


def bert() -> Case:
    """BERT-base, one sequence of 128 tokens."""

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = transformers.BertConfig(attn_implementation="sdpa")
            self.bert = transformers.BertModel(config, add_pooling_layer=False)

        def forward(self, ids: torch.Tensor) -> Any:
            return self.bert(input_ids=ids).last_hidden_state

    return Encoder().eval(), (torch.randint(0, 30000, (1, 128)),)


def resnet18() -> Case:
    """ResNet-18, one image of 224 by 224."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    example = importlib.import_module("resnet18")
    return example.model, (torch.randn(1, 3, 224, 224),)


def chain(kind: str) -> Case:
    """Fused operators over [4096, 1024]."""

    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(1024)
            self.bias = nn.Parameter(torch.randn(1024))

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            if kind == "layer_norm":
                return self.norm(x + y) * self.bias
            if kind == "softmax":
                return torch.softmax(x * 0.125 + y, -1)
            return nn.functional.gelu(x + self.bias) * y

    return Chain().eval(), (torch.randn(4096, 1024), torch.randn(4096, 1024))


def rows(count: int, kind: str) -> Case:
    """A few rows through 16 linears, with more weights (256 MiB in float32) than caches hold."""
    dtype = getattr(torch, kind)
    pairs = [(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(8)]
    module = nn.Sequential(*(layer for pair in pairs for layer in pair))
    return module.to(dtype).eval(), (torch.randn(count, 1024).to(dtype),)


def cnn(name: str) -> Case:
    """A network on one image of 224 by 224."""
    return as_trained(CNNS[name]()), (torch.randn(1, *IMAGE),)


CNN_NAMES = ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "convnext_t")
CASES: dict[str, Callable[[], Case]] = {
    **{f"{name}_1": partial(cnn, name) for name in CNN_NAMES},
    "bert_1x128": bert,
    "resnet18_1": resnet18,
    "layer_norm": lambda: chain("layer_norm"),
    "softmax": lambda: chain("softmax"),
    "gelu": lambda: chain("gelu"),
    "rows_1": lambda: rows(1, "float32"),
    "rows_4": lambda: rows(4, "float32"),
    "rows_1_bf16": lambda: rows(1, "bfloat16"),
    "rows_4_bf16": lambda: rows(4, "bfloat16"),
}


def main() -> None:
    """Read arguments; measure all modes of all cases and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words = f"cnn, or some of {', '.join(CASES)}"
    parser.add_argument("cases", nargs="*", default=list(CASES), help=words)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.build:
        build(_case(args.cases[0]), args.build)
        return
    if args.worker:
        _work(args.cases[0], args.worker, args.threads)
        return
    print(f"{args.threads} threads; median ms a call, fastest in parentheses; peak MiB of calls")
    networks = [f"{name}_1" for name in CNN_NAMES]
    results: dict[str, dict[str, Result]] = {}
    for case in (name for word in args.cases for name in (networks if word == "cnn" else [word])):
        results[case] = measure(case, args.modes.split(","), args.threads)
        _show(case, results[case])
        if args.csv:
            write_csv(args.csv, results, args.threads)
    ratios = [ratio for found in results.values() if (ratio := _beside_best(found))]
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"{len(ratios)} cases: geomean {mean:.2f} of the best peer, worst {min(ratios):.2f}")


def _beside_best(found: dict[str, Result], figure: str = "median") -> float:
    """A figure of the best peer over ours; 0 if one is missing."""
    peers = [getattr(result, figure) for mode, result in found.items() if mode != "aotpack"]
    if not peers or "aotpack" not in found:
        return 0.0
    return float(min(peers) / getattr(found["aotpack"], figure))


def _show(case: str, found: dict[str, Result]) -> None:
    """A line for each mode, and the ratio of the best peer to ours."""
    for mode, result in found.items():
        beside = f"{found['eager'].median / result.median:5.2f}x eager" if "eager" in found else ""
        print(
            f"{case:20} {mode:13} {result.median:9.3f} ({result.least:9.3f})  {beside}"
            f"  {result.peak / 2**20:8.1f} MiB  error {result.error:.2f}x",
            flush=True,
        )
    if ratio := _beside_best(found):
        fastest = _beside_best(found, "least")
        print(
            f"{case:20} {ratio:.2f} of the best peer, the fastest calls {fastest:.2f}", flush=True
        )


def write_csv(path: Path, results: dict[str, dict[str, Result]], threads: int) -> None:
    """In the format of docs/measurements."""
    lines = [
        "# title: models and chains on processors beside other engines",
        f"# date: {time.strftime('%Y-%m-%d')}",
        f"# machine: {threads} threads of a processor",
        f"# versions: torch {torch.__version__}",
        "# command: python -m tools.bench_cpu",
        "case,variant,value,high,unit,note",
    ]
    for case, found in results.items():
        for mode, result in found.items():
            note = f"error {result.error:.2f} of eager's"
            lines.append(f"{case},{mode},{result.median:.3f},,ms,{note}")
    path.write_text("\n".join(lines) + "\n")


def measure(case: str, modes: list[str], threads: int) -> dict[str, Result]:
    """Times in ms and peak bytes for each mode; workers start together and alternate."""
    workers = {mode: _start(case, mode, threads) for mode in modes}
    found: dict[str, Result] = {}
    for mode, worker in list(workers.items()):
        ready = json.loads(_line(worker, mode))
        if "missing" in ready:
            print(f"{case:20} {mode:13} {ready['missing']}", flush=True)
            workers.pop(mode).wait()
        else:
            found[mode] = Result(**ready)
    for _ in range(ROUNDS):
        for mode, worker in workers.items():
            _tell(worker, "go")
            found[mode].times += json.loads(_line(worker, mode))
    for worker in workers.values():
        _tell(worker, "stop")
        worker.wait()
    return found


def _start(case: str, mode: str, threads: int) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tools.bench_cpu",
        case,
        "--worker",
        mode,
        "--threads",
        str(threads),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def _line(worker: subprocess.Popen[str], mode: str) -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"the process that measures {mode} ended with code {worker.wait()}")
    return line


def _tell(worker: subprocess.Popen[str], word: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(word + "\n")
    worker.stdin.flush()


# --- the process of one mode


def _work(case: str, mode: str, threads: int) -> None:
    """Prepare, report the peak of memory and the error, then time calls on request."""
    answers = os.fdopen(os.dup(1), "w")  # what engines print goes with the errors
    os.dup2(2, 1)
    torch.set_num_threads(threads)
    made = _case(case)
    with torch.no_grad():
        try:
            call = prepared(mode, case, made, threads)
        except Exception as error:  # an engine that is not here, or cannot take the model
            words = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            print(json.dumps({"missing": words}), file=answers, flush=True)
            return
        peak = _peak_of(call)
        for _ in range(3):
            call()
        ready = {"peak": peak, "error": _error(call(), *made)}
        print(json.dumps(ready), file=answers, flush=True)
        while sys.stdin.readline().strip() == "go":
            print(json.dumps(_times(call)), file=answers, flush=True)


def _error(found: Any, module: nn.Module, args: tuple[torch.Tensor, ...]) -> float:
    """The largest error in units of eager's."""
    wide = (x.double() if x.is_floating_point() else x for x in args)
    exact = copy.deepcopy(module).double()(*wide)
    eager = float((module(*args).double() - exact).abs().max())
    return float((torch.as_tensor(found).double() - exact).abs().max()) / eager


def _case(case: str) -> Case:
    """The same module and inputs in every process."""
    torch.manual_seed(0)
    return CASES[case]()


def _peak_of(call: Call) -> int:
    """The growth of the process in bytes, at most, during the first calls, with their results."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # memory that the build freed would hide that of calls
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    before, mapped = _status("VmRSS"), _status("RssFile")
    for _ in range(3):
        call()
    return _status("VmHWM") - before - (_status("RssFile") - mapped)


def _status(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith(field))
    return int(line.split()[1]) * 1024


def _times(call: Call) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times


if __name__ == "__main__":
    main()
