"""A model on a GPU in each mode: eager, torch.compile (three modes) and aotpack, timed in turn."""

from __future__ import annotations

import argparse
import copy
import fcntl
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import torch
from transformers import PreTrainedModel

from aotpack.pipeline import BuildOptions, Source
from aotpack.runtime import load
from aotpack.target import native_target, parse_targets
from tools.case_packages import write_bare
from tools.model_cases import CNN_CASES, Case, made

MODES = ("eager", "compile", "reduce-overhead", "max-autotune", "launches", "aotpack")
OURS = ("launches", "aotpack")
ROUNDS = 5
CALLS = 20
Call = Callable[..., Any]
Found = dict[str, Any]  # of a case, as JSON: mode -> figures, or "error" -> words


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
            with _alone_if(mode == "max-autotune" and not options.prepare_only):
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
        for part in wide.modules():
            if isinstance(part, PreTrainedModel):
                part.set_experts_implementation("eager")  # torch._grouped_mm has no float64
        args = (arg.double() if arg.is_floating_point() else arg for arg in self.plain)
        with torch.backends.cudnn.flags(enabled=True, benchmark=False):
            return wide(*args)  # type: ignore[no-any-return]


def packaged(name: str, case: Case, options: argparse.Namespace) -> Path:
    """The folder of a case's package without weights, built unless it is there."""
    folder = options.packages / name
    if folder.exists() and not options.build_only:
        return Path(folder)
    target = options.target or str(native_target())
    how = BuildOptions(parse_targets(target), golden=0, jobs=options.compilers)
    write_bare(Source(*case), how, folder)
    return Path(folder)


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
