"""Models and fused operators on processors: eager, torch.compile and aotpack's wheel compared.

    python tools/bench_cpu.py [bert_1x128 resnet18_1 layer_norm softmax gelu rows_1 ...]

Every mode of a case runs in a separate process, and one more builds aotpack's package: peak memory
is the most that the process used during the first calls, less its memory before and pages of mapped
files (weights that are read when they are first needed; the other modes have theirs from the
start). torch.compile needs a C++ compiler; its time before the first result is not counted. Modes
alternate over several rounds, so that a drift of the machine affects all alike; a figure is the
median of all calls. Inputs are random, in float32 unless a case's name says otherwise.
"""

import argparse
import ctypes
import gc
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MODES = ("eager", "compile", "aotpack")
ROUNDS = 3
SECONDS = 3.0  # a mode of a case, a round
Case = tuple[Any, tuple[Any, ...]]  # a module and its arguments


@dataclass(slots=True)
class Result:
    """Measurements of a mode of a case: ms of each call, and bytes of memory."""

    peak: int
    times: list[float] = field(default_factory=list)


def bert() -> Case:
    """BERT-base, one sequence of 128 tokens."""
    import torch
    import transformers

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
    import torch

    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    example = importlib.import_module("resnet18")
    return example.model, (torch.randn(1, 3, 224, 224),)


def chain(kind: str) -> Case:
    """Fused operators over [4096, 1024]."""
    import torch
    from torch import nn

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
    import torch
    from torch import nn

    dtype = getattr(torch, kind)
    pairs = [(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(8)]
    module = nn.Sequential(*(layer for pair in pairs for layer in pair))
    return module.to(dtype).eval(), (torch.randn(count, 1024).to(dtype),)


CASES: dict[str, Callable[[], Case]] = {
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
    parser.add_argument("cases", nargs="*", default=list(CASES))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--build", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.build:
        _build(args.cases[0], args.build)
        return
    if args.worker:
        _work(args.cases[0], args.worker, args.threads)
        return
    print(f"{args.threads} threads; median ms a call, fastest in parentheses; peak MiB of calls")
    for case in args.cases:
        found = measure(case, args.modes.split(","), args.threads)
        best = found["eager"].times if "eager" in found else []
        for mode, result in found.items():
            median = statistics.median(result.times)
            ratio = f"{statistics.median(best) / median:5.2f}x eager" if best else ""
            least = min(result.times)
            print(
                f"{case:12} {mode:8} {median:9.3f} ({least:9.3f})  {ratio}"
                f"  {result.peak / 2**20:8.1f} MiB",
                flush=True,
            )


def measure(case: str, modes: list[str], threads: int) -> dict[str, Result]:
    """Times in ms and peak bytes for each mode; workers start together and alternate."""
    workers = {mode: _start(case, mode, threads) for mode in modes}
    found: dict[str, Result] = {}
    for mode, worker in workers.items():
        ready = json.loads(_line(worker, mode))
        found[mode] = Result(ready["peak"])
    for _ in range(ROUNDS):
        for mode, worker in workers.items():
            _tell(worker, "go")
            found[mode].times += json.loads(_line(worker, mode))
    for worker in workers.values():
        _tell(worker, "stop")
        worker.wait()
    return found


def _start(case: str, mode: str, threads: int) -> "subprocess.Popen[str]":
    command = [sys.executable, __file__, case, "--worker", mode, "--threads", str(threads)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def _line(worker: "subprocess.Popen[str]", mode: str) -> str:
    assert worker.stdout is not None
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(f"the process that measures {mode} ended with code {worker.wait()}")
    return line


def _tell(worker: "subprocess.Popen[str]", word: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(word + "\n")
    worker.stdin.flush()


# --- the process of one mode


def _work(case: str, mode: str, threads: int) -> None:
    """Prepare, report the peak of memory, then time calls on request."""
    import torch

    torch.set_num_threads(threads)
    module, args = _case(case)
    with torch.no_grad():
        call = _callable(mode, case, module, args)
        peak = _peak_of(lambda: call(*args))
        for _ in range(3):
            call(*args)
        print(json.dumps({"peak": peak}), flush=True)
        while sys.stdin.readline().strip() == "go":
            print(json.dumps(_times(lambda: call(*args))), flush=True)


def _case(case: str) -> Case:
    """The same module and inputs in every process."""
    import torch

    torch.manual_seed(0)
    return CASES[case]()


def _build(case: str, folder: Path) -> None:
    """Build a case's package into a folder."""
    from aotpack.emit import write_package
    from aotpack.pipeline import Build, BuildOptions, Source
    from aotpack.target import CPU

    module, args = _case(case)
    write_package(Build(Source(module, args), BuildOptions((CPU,))).precompiled, folder)


def _callable(mode: str, case: str, module: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    import torch

    if mode == "eager":
        return module
    if mode == "compile":
        compiled = torch.compile(module)
        compiled(*args)
        return compiled
    from aotpack.runtime import load

    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, __file__, case, "--build", folder], check=True)
        return load(folder, "cpu")


def _peak_of(call: Callable[[], object]) -> int:
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


def _times(call: Callable[[], object]) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        call()
        times.append((time.perf_counter() - start) * 1e3)
    return times


if __name__ == "__main__":
    main()
