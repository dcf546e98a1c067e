"""The time of the compiler's stages by the size of the model: layers, and chains of operators.

    python tools/bench_scaling.py [--layers 125 250 500 1000] [--operators 1250 2500 5000 10000]
                                  [--compile OPERATORS ...]

Seconds of processor time on one core: ``trace`` is torch.export's for the most part, ``lower``,
``schedule`` and ``render`` are ours, for sm_90 and for processors. ``layers`` are products with a
softmax, each with a weight of its own (``layers``) or all with one (``shared``); ``wide`` ones read
one tensor and are added up; a ``chain`` has one elementwise operator behind the other. ``growth``
is the time of lower, schedule and render over that of the row before. The compile time of one
kernel by its operators is printed with ``--compile``.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import nn

from aotpack.knobs import read_knobs
from aotpack.lower import lower
from aotpack.precompile import precompile
from aotpack.render import render, reserved_names
from aotpack.schedule import schedule
from aotpack.target import parse_targets
from aotpack.trace import trace

Product = TypeVar("Product")
WIDTH = 16  # of every layer


class Layers(nn.Module):
    """Products with a softmax; one weight serves all of them if it is ``shared``."""

    def __init__(self, layers: int, *, shared: bool = False, wide: bool = False) -> None:
        super().__init__()
        made = [nn.Parameter(torch.randn(WIDTH, WIDTH)) for _ in range(1 if shared else layers)]
        self.weights = nn.ParameterList(made)
        self.layers, self.wide = layers, wide

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total, value = torch.zeros_like(x), x
        for number in range(self.layers):
            weight = self.weights[number % len(self.weights)]
            value = ((x if self.wide else value) @ weight).softmax(-1)
            total = total + value if self.wide else value
        return total


class Chain(nn.Module):
    """Elementwise operators, one behind the other."""

    def __init__(self, operators: int) -> None:
        super().__init__()
        self.operators = operators

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number in range(self.operators):
            x = x * 0.99 if number % 3 == 0 else x + 0.01 if number % 3 == 1 else x.abs()
        return x


MODELS: dict[str, Callable[[int], nn.Module]] = {
    "layers": Layers,
    "shared": lambda layers: Layers(layers, shared=True),
    "wide": lambda layers: Layers(layers, wide=True),
    "chain": Chain,
}


@dataclass(frozen=True, slots=True)
class Row:
    """Seconds of each stage, and the kernels that were made."""

    model: str
    size: int
    kernels: int
    trace: float
    lower: float
    schedule: float
    render: float

    @property
    def own(self) -> float:
        """The seconds of the stages that are not torch's."""
        return self.lower + self.schedule + self.render


def measure(model: str, size: int) -> Row:
    """Run the stages on one model."""
    seconds: dict[str, float] = {}

    def timed(stage: str, run: Callable[..., Product], *args: Any, **kwargs: Any) -> Product:
        start = time.process_time()
        made = run(*args, **kwargs)
        seconds[stage] = round(time.process_time() - start, 2)
        return made

    given, names = (torch.randn(8, WIDTH),), reserved_names()
    module = MODELS[model](size)
    traced = timed("trace", trace, module, given, name="m", version="1", reserved=names)
    lowered = timed("lower", lower, traced)
    scheduled = timed("schedule", schedule, lowered)
    timed("render", render, scheduled, parse_targets("sm_90,cpu"))
    return Row(model, size, len(scheduled.schedule.kernels), **seconds)


def measure_all(model: str, sizes: list[int]) -> None:
    """Print a row of the table for each size."""
    before = None
    for size in sizes:
        row = measure(model, size)
        growth = "" if before is None else f"{row.own / before:.1f}"
        stages = f"{row.trace:.1f} | {row.lower:.1f} | {row.schedule:.1f} | {row.render:.1f}"
        print(f"| {model} | {size} | {row.kernels} | {stages} | {growth} |", flush=True)
        before = row.own


def compile_seconds(operators: int, target: str) -> float:
    """Wall seconds that one kernel of these operators takes to compile, without the cache."""
    assert read_knobs().cache is None, "set AOTPACK_CACHE=off"
    given, targets = (torch.randn(64, 512),), parse_targets(target)
    traced = trace(Chain(operators), given, name="m", version="1", reserved=reserved_names())
    rendered = render(schedule(lower(traced)), targets)
    start = time.perf_counter()
    precompile(rendered, targets, jobs=1)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, nargs="*", default=[125, 250, 500, 1000])
    parser.add_argument("--operators", type=int, nargs="*", default=[1250, 2500, 5000, 10000])
    parser.add_argument("--compile", type=int, nargs="*", default=[], metavar="OPERATORS")
    options = parser.parse_args()
    measure("layers", 2)  # imports and first uses do not depend on the model
    print("| model | size | kernels | trace | lower | schedule | render | growth |")
    print("|---|---|---|---|---|---|---|---|")
    for name in MODELS:
        measure_all(name, options.operators if name == "chain" else options.layers)
    for operators in options.compile:
        seconds = (f"{name} {compile_seconds(operators, name):.1f} s" for name in ("sm_90", "cpu"))
        print(f"one kernel of {operators} operators: {', '.join(seconds)}", flush=True)


if __name__ == "__main__":
    main()
