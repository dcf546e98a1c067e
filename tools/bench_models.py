"""Whole models on a GPU, wall time a call: eager, torch.compile (three modes) and aotpack.

    python -m tools.bench_models [CASE ...] [--modes eager,aotpack,...] [-j 8] [--csv FILE]
    python -m tools.bench_models --build-only --packages DIR --target sm_90      no GPU is needed
    python -m tools.bench_models --prepare-only [CASE ...]      fills torch's caches on disk

A case is a process. Several are prepared at once (``-j``; max-autotune alone on a GPU), in turn
on the GPUs of the machine, then measured one after another: every figure is the median of
synchronised calls, the modes in turn over several rounds, so that a drift of the machine touches
all alike. "launches" is aotpack without graphs. Weights and inputs are random, in bfloat16; torch
gets convolutional networks in channels-last. MiB are those a mode needs at most, its weights and
results included. Packages in DIR are used as they are; they have no weights, which are bound at
load. max-autotune of a convolutional network compiles for minutes on one core: ``--prepare-only``
lets all cases do so at once, and the run after it finds what they chose.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import IO, Any

import torch

from tools.model_cases import CASES, CNN_CASES, OTHER_CASES, made
from tools.model_modes import MODES, OURS, Bench, Found, packaged

FAMILIES = {"cnn": CNN_CASES, "other": OTHER_CASES, "all": CASES}


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


# --- the process of the caller


class Worker:
    """The process of a case, and the lines it answers."""

    def __init__(self, name: str, gpu: str, options: argparse.Namespace) -> None:
        self.name = name
        words = [name, "--worker", "--modes", options.modes, "--packages", str(options.packages)]
        words += ["--compilers", str(options.compilers)]
        words += ["--target", options.target] if options.target else []
        words += ["--prepare-only"] if options.prepare_only else []
        command = [sys.executable, "-m", "tools.bench_models", *words]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": gpu}
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


def visible_gpus() -> list[str]:
    """The GPUs of this process, as ``CUDA_VISIBLE_DEVICES`` names them."""
    count = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
    return named.split(",")[:count]


def run(names: Sequence[str], options: argparse.Namespace) -> dict[str, Found]:
    """All cases, ``options.jobs`` at a time: prepared together, measured one by one."""
    start, results, gpus = time.perf_counter(), dict[str, Found](), visible_gpus()
    for first in range(0, len(names), options.jobs):
        some = enumerate(names[first : first + options.jobs])
        workers = [Worker(name, gpus[n % len(gpus)], options) for n, name in some]
        ready = {}
        for worker in workers:
            left = options.limit - (time.perf_counter() - start)
            ready[worker] = worker.answer(left)
            if "error" in ready[worker] or options.prepare_only:
                worker.end()
            words = json.dumps(ready[worker])
            print(f"{worker.name} ready, seconds of each mode: {words}", flush=True)
        for worker, said in ready.items() if not options.prepare_only else ():
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
    parser.add_argument("--prepare-only", action="store_true", help="compile all, measure none")
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
