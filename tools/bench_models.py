"""Whole models on a GPU, wall time a call: eager, torch.compile (three modes) and aotpack.

    python -m tools.bench_models [CASE ...] [--modes eager,aotpack,...] [-j 8] [--csv FILE]
    python -m tools.bench_models --build-only --packages DIR --target sm_90      no GPU is needed

A case is a process. Several are prepared at once (``-j``; max-autotune alone on a GPU), in turn
on the GPUs of the machine, then measured one after another: every figure is the median of
synchronised calls, the modes in turn over several rounds, so that a drift of the machine touches
all alike. "launches" is aotpack without graphs. Weights and inputs are random, in bfloat16; torch
gets convolutional networks in channels-last. MiB are those a mode needs at most, its weights and
results included. Packages in DIR are used as they are; they have no weights, which are bound at
load.
"""

from __future__ import annotations

import argparse
import copy
import fcntl
import gc
import json
import multiprocessing
import os
import queue
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import IO, Any

import torch

from aotpack.emit import write_package
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.runtime import load
from aotpack.target import native_target, parse_targets
from tools.model_cases import CASES, CNN_CASES, OTHER_CASES, Case, made

MODES = ("eager", "compile", "reduce-overhead", "max-autotune", "launches", "aotpack")
OURS = ("launches", "aotpack")
FAMILIES = {"cnn": CNN_CASES, "other": OTHER_CASES, "all": CASES}
ROUNDS = 5
CALLS = 20
Call = Callable[..., Any]
Found = dict[str, Any]  # of a case, as JSON: mode -> figures, or "error" -> words


# --- the process of a case


def work(name: str, options: argparse.Namespace) -> None:
    """Prepare all modes and report; measure when told to, and report again."""
    answers = os.fdopen(os.dup(1), "w")  # what libraries print goes with the errors
    os.dup2(2, 1)
    torch.backends.cudnn.benchmark = True
    bench: Bench | None = None
    ready: Found = {}
    try:
        bench = Bench(name, options)
        ready = bench.seconds
    except Exception as error:
        ready = {"error": f"{type(error).__name__}: {error}"[:600]}
    print(json.dumps(ready), file=answers, flush=True)
    if bench is None or sys.stdin.readline().strip() != "go":
        return
    try:
        found = bench.measured()
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"[:600]}
    print(json.dumps(found), file=answers, flush=True)


class Bench:
    """A case with its modes, ready to be called."""

    def __init__(self, name: str, options: argparse.Namespace) -> None:
        self.host, args = made(name, torch.bfloat16)
        self.plain = tuple(arg.cuda() for arg in args)
        self.module, self.args = copy.deepcopy(self.host).cuda(), self.plain
        if name in CNN_CASES:
            self.module = self.module.to(memory_format=torch.channels_last)
            self.args = tuple(map(_channels_last, self.plain))
        self.calls: dict[str, Call] = {}
        self.memory: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        package = packaged(name, (self.host, args), options)
        for mode in options.modes.split(","):
            start = time.perf_counter()
            with _alone_if(mode == "max-autotune"):
                before = _reserved()
                call = self._call_of(mode, package)
                for _ in range(3):
                    call(*self.args_of(mode))
                self.memory[mode] = self._needed(mode, call, before)
            self.calls[mode] = call
            self.seconds[mode] = round(time.perf_counter() - start, 1)

    def args_of(self, mode: str) -> tuple[torch.Tensor, ...]:
        return self.plain if mode in OURS else self.args

    def _call_of(self, mode: str, package: Path) -> Call:
        if mode == "eager":
            return self.module
        if mode in OURS:
            weights = self.host.state_dict()
            return load(package, 0, weights=weights, graphs=mode == "aotpack", check=False)
        return torch.compile(self.module, mode=None if mode == "compile" else mode)

    def _needed(self, mode: str, call: Call, before: int) -> int:
        """Bytes: weights, what the mode keeps, and the most that a call adds."""
        kept = _reserved() - before
        start = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call(*self.args_of(mode))
        torch.cuda.synchronize()
        peak = torch.cuda.max_memory_allocated() - start
        tensors = (*self.module.parameters(), *self.module.buffers())
        own = call.memory if mode in OURS else sum(tensor.nbytes for tensor in tensors)
        return int(own + kept + peak)

    def measured(self) -> Found:
        """The figures of each mode."""
        rounds: dict[str, list[tuple[float, float]]] = {mode: [] for mode in self.calls}
        for number in range(ROUNDS + 1):
            for mode, call in self.calls.items():
                found = milliseconds(call, self.args_of(mode))
                rounds[mode] += [found] * (number > 0)  # the first warms up
        exact = self._exact()
        own = _largest_error(self.module(*self.args), exact)
        figures = {}
        for mode, call in self.calls.items():
            args = self.args_of(mode)
            figures[mode] = {
                "ms": statistics.median(one[0] for one in rounds[mode]),
                "back to back ms": statistics.median(one[1] for one in rounds[mode]),
                "host us": host_microseconds(call, args),
                "error": _largest_error(call(*args), exact) / own,
                "MiB": self.memory[mode] / 2**20,
            }
        return figures

    def _exact(self) -> torch.Tensor:
        wide = copy.deepcopy(self.host).cuda().double()
        args = (arg.double() if arg.is_floating_point() else arg for arg in self.plain)
        with torch.backends.cudnn.flags(enabled=True, benchmark=False):
            return wide(*args)  # type: ignore[no-any-return]


def packaged(name: str, case: Case, options: argparse.Namespace) -> Path:
    """The folder of a case's package without weights, built unless it is there."""
    folder = options.packages / name
    if folder.exists() and not options.build_only:
        return Path(folder)
    target = options.target or str(native_target())
    built = BuildOptions(parse_targets(target), golden=0, jobs=options.compilers)
    product = Build(Source(*case), built).precompiled
    options.packages.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=options.packages) as unfinished:
        write_package(product, Path(unfinished) / name, "none")
        shutil.rmtree(Path(unfinished) / name / "_runtime")  # the checkout's is used
        (Path(unfinished) / name).rename(folder)
    return Path(folder)


def build_all(names: Sequence[str], options: argparse.Namespace) -> None:
    """Build packages anew, several at a time."""
    start = time.perf_counter()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for name, words in zip(names, pool.map(partial(_built, options), names), strict=True):
            print(f"{name:22} {words}", flush=True)
    print(f"{len(names)} cases in {time.perf_counter() - start:.0f} s")


def _built(options: argparse.Namespace, name: str) -> str:
    """Build a case's package; says how long it took, or why there is none."""
    start = time.perf_counter()
    shutil.rmtree(options.packages / name, ignore_errors=True)
    try:
        with torch.no_grad():
            packaged(name, made(name, torch.bfloat16), options)
    except Exception as error:  # the others are built
        return f"{type(error).__name__}: {error}"[:400]
    return f"built in {time.perf_counter() - start:.1f} s"


@contextmanager
def _alone_if(wanted: bool) -> Iterator[None]:
    """Measurements of max-autotune do not disturb one another."""
    if not wanted:
        yield
        return
    gpu = os.environ["CUDA_VISIBLE_DEVICES"]
    with open(Path(gettempdir(), f"bench_models.{gpu}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


def _reserved() -> int:
    """Bytes that torch keeps, without those that it could give back."""
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    return torch.cuda.memory_reserved()


def _largest_error(found: Any, exact: torch.Tensor) -> float:
    return float((torch.as_tensor(found).double() - exact).abs().max())


def milliseconds(call: Call, args: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    """(latency of a synchronised call, time a call when they follow each other)."""
    latencies = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call(*args)
        torch.cuda.synchronize()
        latencies.append(time.perf_counter() - start)
    start = time.perf_counter()
    for _ in range(CALLS):
        call(*args)
    torch.cuda.synchronize()
    return statistics.median(latencies) * 1e3, (time.perf_counter() - start) / CALLS * 1e3


def host_microseconds(call: Call, args: tuple[torch.Tensor, ...]) -> float:
    """The time until a call returns, while the GPU is idle at its start."""
    times = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call(*args)
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return statistics.median(times) * 1e6


# --- the process of the caller


class Worker:
    """The process of a case, and the lines it answers."""

    def __init__(self, name: str, gpu: int, options: argparse.Namespace) -> None:
        self.name = name
        words = [name, "--worker", "--modes", options.modes, "--packages", str(options.packages)]
        words += ["--compilers", str(options.compilers)]
        words += ["--target", options.target] if options.target else []
        command = [sys.executable, "-m", "tools.bench_models", *words]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": str(gpu)}
        self.process = subprocess.Popen(command, text=True, env=environment, **pipes)
        self.answers: queue.Queue[Found] = queue.Queue()
        assert self.process.stdout is not None
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, lines: IO[str]) -> None:
        for line in lines:
            self.answers.put(json.loads(line))
        self.answers.put({"error": f"the process ended with code {self.process.wait()}"})

    def answer(self, seconds: float) -> Found:
        """Its next answer."""
        try:
            return self.answers.get(timeout=min(max(seconds, 0.01), threading.TIMEOUT_MAX))
        except queue.Empty:
            return {"error": "not ready in time"}

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def run(names: Sequence[str], options: argparse.Namespace) -> dict[str, Found]:
    """All cases, ``options.jobs`` at a time: prepared together, measured one by one."""
    start, results = time.perf_counter(), dict[str, Found]()
    for first in range(0, len(names), options.jobs):
        some = enumerate(names[first : first + options.jobs])
        workers = [Worker(name, n % torch.cuda.device_count(), options) for n, name in some]
        ready = {}
        for worker in workers:
            left = options.limit - (time.perf_counter() - start)
            ready[worker] = worker.answer(left)
            if "error" in ready[worker]:
                worker.end()
            words = json.dumps(ready[worker])
            print(f"{worker.name} ready, seconds of each mode: {words}", flush=True)
        for worker, said in ready.items():
            if "error" not in said:
                worker.tell("go")
                said = worker.answer(600)
                worker.end()
            results[worker.name] = said
            print(_lines(worker.name, said), flush=True)
            if options.csv:
                write_csv(options.csv, results)
    return results


def _lines(name: str, found: Found) -> str:
    """A line for each mode."""
    if "error" in found:
        return f"{name:22} {found['error']}"
    return "\n".join(
        f"{name:22} {mode:16} {of['ms']:8.3f} ms  back to back {of['back to back ms']:8.3f} ms"
        f"  host {of['host us']:6.0f} us  {of['MiB']:8.1f} MiB  error {of['error']:.2f}x eager"
        for mode, of in found.items()
    )


def best_peer(found: Found, figure: str = "ms") -> tuple[str, float]:
    """The mode of torch with the least of a figure."""
    peers = {mode: of[figure] for mode, of in found.items() if mode not in OURS}
    return min(peers.items(), key=lambda pair: pair[1])


def report(results: dict[str, Found]) -> None:
    """Each case beside the best mode of torch, and the mean."""
    ratios = []
    for name, found in results.items():
        if "error" in found or "aotpack" not in found or not set(found) - set(OURS):
            continue
        mode, peer = best_peer(found)
        ours = found["aotpack"]
        ratios.append(peer / ours["ms"])
        _, least = best_peer(found, "MiB")
        print(
            f"{name:22} aotpack {ours['ms']:8.3f} ms, {mode} {peer:8.3f} ms: {ratios[-1]:5.2f}x"
            f"  memory {ours['MiB']:8.1f} MiB, the least of torch {least:8.1f} MiB"
        )
    if ratios:
        mean = statistics.geometric_mean(ratios)
        print(f"{len(ratios)} cases: geomean {mean:.2f}, worst {min(ratios):.2f}")


def write_csv(path: Path, results: dict[str, Found]) -> None:
    """In the format of docs/measurements."""
    lines = [
        "# title: whole models, bf16, random weights: wall time of a synchronised call, memory",
        f"# date: {time.strftime('%Y-%m-%d')}",
        f"# machine: {torch.cuda.get_device_name()}",
        f"# versions: torch {torch.__version__}, cudnn.benchmark on",
        "# command: python -m tools.bench_models",
        "# note: torch gets convolutional networks in channels-last",
        "case,variant,value,high,unit,note",
    ]
    for name, found in results.items():
        for mode, of in found.items() if "error" not in found else ():
            note = f"error {of['error']:.2f} of eager's"
            lines.append(f"{name},{mode},{of['ms']:.4f},,ms,{note}")
            lines.append(f"{name},{mode},{of['MiB']:.1f},,MiB,")
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    words = f"cnn, other, all (the default), or some of {', '.join(CASES)}"
    parser.add_argument("cases", nargs="*", default=["all"], help=words)
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("-j", "--jobs", type=int, default=4, help="cases prepared at once")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds to prepare in")
    parser.add_argument("--packages", type=Path, default=Path(gettempdir(), "models"))
    parser.add_argument("--build-only", action="store_true", help="build all anew, measure none")
    parser.add_argument("--target", help="of the packages (default: this machine's GPU)")
    parser.add_argument("--compilers", type=int, default=4, help="processes of a build")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.cases[0], options)
        return
    names = [name for word in options.cases for name in FAMILIES.get(word, {word: None})]
    if options.build_only:
        build_all(names, options)
        return
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    report(run(names, options))


if __name__ == "__main__":
    with torch.no_grad():
        main()
