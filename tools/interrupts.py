"""Interrupts calls of loaded models at random moments, and asks whether the models still work.

    python tools/interrupts.py --count 100000 --device cpu|interpreter|cuda [--seed 0]

A timer raises an exception inside of a call, as a server's deadline or Ctrl-C does: COUNT times in
all, in a model without state and in one with state, at changing sizes. After every few, the model
must give the right answer, have lost no arena, and answer a second thread; now and then it is
closed, also with an interrupt in the middle, and loaded again. A watchdog ends a program that
hangs. The last line counts what was wrong; the status is 1 if anything was.
"""

import argparse
import faulthandler
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from aotpack import pipeline
from aotpack.emit import write_package
from aotpack.pipeline import Source
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime import AotpackError, Model, load
from aotpack.target import CPU, INTERPRETER, parse_targets

WIDTH, SIZES = 8, (1, 3, 6)
CHECK_EVERY, CLOSE_EVERY = 20, 400  # interrupts
HANGS_AFTER = 60  # seconds


class Interrupted(BaseException):
    """Raised by the timer's handler."""


class Plain(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) * 2 + x


class Stateful(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return x + self.total


@dataclass
class Report:
    """What was done and what was wrong."""

    interrupts: int = 0
    checks: int = 0
    closes: int = 0
    damaged: int = 0

    def note(self, is_right: bool, what: str) -> None:
        """Count a check; tell what is wrong."""
        self.checks += 1
        if not is_right:
            self.damaged += 1
            print(f"after {self.interrupts} interrupts: {what}", flush=True)


class Victim:
    """A model that is loaded, interrupted and checked."""

    def __init__(self, module: nn.Module, device: str, folder: Path, seed: int) -> None:
        self.name = type(module).__name__
        self._module, self._device = module, device
        self._folder = build(module, device, folder / self.name)
        self._random = random.Random(seed)
        place = "cuda" if device == "cuda" else "cpu"
        self._inputs = [torch.randn(size, WIDTH, device=place) for size in SIZES]
        self.model = self._load()
        self._seconds = self._time_of_a_call()

    def interrupt(self) -> None:
        """Call until the timer's exception comes; Python drops those that come in a finalizer."""
        x = self._random.choice(self._inputs)
        model = self.model
        try:
            TIMER.start(self._random.uniform(1e-6, 2 * self._seconds))
            while TIMER.is_running:
                model(x)
        except Interrupted:
            return
        except AotpackError:  # numpy turns what it meets while it reads numbers into a TypeError
            if TIMER.is_running:
                raise

    def check(self, report: Report) -> None:
        """The answer is eager's, no arena is lost, and another thread is served."""
        for x in self._inputs:
            report.note(self._is_right(x), f"{self.name} gives a wrong answer")
        found = []
        thread = threading.Thread(target=lambda: found.append(self._is_right(self._inputs[0])))
        thread.start()
        thread.join()
        report.note(found == [True], f"{self.name} fails in another thread")
        pool = self.model._pool
        owners = [arena.owned.owner() for arena in pool._all()]
        is_whole = len(owners) <= pool._limit and not any(owners) and not pool._line
        report.note(is_whole, f"{self.name} lost an arena")

    def close(self, report: Report) -> None:
        """Close the model, at times with an interrupt, and load it again."""
        views = list(self.model.state.values())
        try:
            TIMER.start(self._random.uniform(1e-6, 4 * self._seconds))
            self.model.close()
            TIMER.stop()
        except Interrupted:
            report.interrupts += 1
        start = time.perf_counter()
        self.model.close()
        report.note(time.perf_counter() - start < 1, f"{self.name} takes long to close")
        for view in views:
            report.note(bool((view.numpy() == view.numpy()).all()), "a view lost its memory")
        report.closes += 1
        self.model = self._load()

    def _is_right(self, x: torch.Tensor) -> bool:
        if self.model.state:
            self.model.bind_weights({"total": torch.zeros(WIDTH)}, strict=False)
            self._module.total.zero_()
        with torch.no_grad():
            wanted = self._module(x.cpu())
        return torch.allclose(self.model(x).cpu(), wanted, rtol=1e-4, atol=1e-5)

    def _load(self) -> Model:
        devices: dict[str, Callable[[], Any]] = {
            "cuda": lambda: 0,
            "cpu": lambda: "cpu",
            "interpreter": InterpreterDevice,
        }
        return load(self._folder, devices[self._device]())

    def _time_of_a_call(self) -> float:
        times = []
        for _ in range(20):
            start = time.perf_counter()
            self.model(self._inputs[0])
            times.append(time.perf_counter() - start)
        return sorted(times)[10]


def build(module: nn.Module, device: str, folder: Path) -> Path:
    """A package of the module with a dynamic size."""
    targets = {"cpu": (CPU,), "interpreter": (INTERPRETER,)}.get(device) or parse_targets("native")
    shapes = {"x": {0: Dim("rows", min=1, max=8)}}
    source = Source(module, (torch.randn(2, WIDTH),), None, shapes, name=type(module).__name__)
    write_package(pipeline.Build(source, pipeline.BuildOptions(targets)).precompiled, folder)
    return folder


class Timer:
    """Raises in the main thread, once."""

    is_running = False

    def start(self, seconds: float) -> None:
        self.is_running = True
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.is_running = False

    def ring(self, number: int, frame: FrameType | None) -> None:
        self.is_running = False
        raise Interrupted


TIMER = Timer()


def storm(device: str, count: int, seed: int, folder: Path) -> Report:
    """Interrupt both models ``count`` times in all."""
    report = Report()
    victims = [Victim(module, device, folder, seed) for module in (Plain(), Stateful())]
    before, hook = signal.signal(signal.SIGALRM, TIMER.ring), sys.unraisablehook
    sys.unraisablehook = lambda found: (
        None if isinstance(found.exc_value, Interrupted) else hook(found)
    )
    try:
        while report.interrupts < count:
            victim = victims[report.interrupts // CHECK_EVERY % len(victims)]
            faulthandler.dump_traceback_later(HANGS_AFTER, exit=True)
            for _ in range(min(CHECK_EVERY, count - report.interrupts)):
                victim.interrupt()
                report.interrupts += 1
            victim.check(report)
            if report.interrupts // CHECK_EVERY % (CLOSE_EVERY // CHECK_EVERY) < len(victims):
                victim.close(report)
    finally:
        TIMER.stop()
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
        faulthandler.cancel_dump_traceback_later()
    for victim in victims:
        victim.model.close()
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--device", choices=("cpu", "interpreter", "cuda"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = storm(given.device, given.count, given.seed, Path(folder))
    print(
        f"{given.device}: {report.interrupts} interrupts, {report.checks} checks, "
        f"{report.closes} closes in {time.perf_counter() - start:.0f} s: {report.damaged} damaged"
    )
    return 1 if report.damaged else 0


if __name__ == "__main__":
    sys.exit(main())
