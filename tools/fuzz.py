"""Random models against eager: python -m tools.fuzz --seeds 0:100, --casts 1000 or --convs 100

Each seed makes one model of torch operators, as Python text; it is compiled, and the evaluator and
each target must give eager's answer. Failing models are shrunk by dropping lines, and printed.
Refusals (TraceError, UnsupportedError) are counted by message. ``--casts`` checks graphs with
conversions instead (``tools/fuzz_casts.py``), ``--convs`` graphs of convolutions, held to the
accuracy law on both hosts, and again with other weights (``tools/fuzz_convs.py``), ``--counted``
graphs whose sizes data decide (``tools/fuzz_counted.py``), ``--strides`` graphs of tensors that do
not lie row-major, called in several ways (``tools/fuzz_strides.py``), ``--subgraphs`` graphs with
branches, loops and regions (``tools/fuzz_subgraphs.py``).
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.export import Dim

from aotpack.devices import H200, Gpu
from aotpack.errors import TraceError, UnsupportedError
from aotpack.target import CPU, INTERPRETER, Target, parse_targets
from tests.e2e.law import LAW, Tolerance
from tests.e2e.oracle import Compiled, agree, compile_all
from tools import fuzz_casts, fuzz_convs, fuzz_counted, fuzz_strides, fuzz_subgraphs
from tools.fuzz_make import make
from tools.fuzz_model import SIZES, Input, Model, Shell, inner_lines, without, without_inside
from tools.fuzz_schedules import SMALL, odd_schedules

SLACK = Tolerance(factor=16, floor=1.0)
NARROWS = re.compile(r"float\(|half\(|bfloat16|float16|float32")


def check(
    model: Model,
    targets: tuple[Target, ...] = (INTERPRETER,),
    gpu: Gpu = H200,
    tolerance: Tolerance | None = None,
    rebinds: bool = False,
) -> None:
    """Raise the fault: WrongAnswer, a crash, a refusal; ``rebinds`` checks other weights too."""
    given = [x for x in model.inputs if not x.is_weight]
    example = {name: size.example for name, size in SIZES.items()}
    wide = [x.double() if x.is_floating_point() else x for x in _args(given, example)]
    if not _eager_runs(Shell(model).double(), tuple(wide)):
        return  # types that differ in float64 alone: there is nothing to compare with
    args, shapes = _args(given, example), _dynamic_shapes(given)
    is_strict = "region(" in model.source  # only this mode keeps them
    compiled = compile_all(Shell(model), args, None, shapes, targets, gpu, strict=is_strict)
    slack = tolerance or _slack(model)
    is_strided = any(x.layout != "rows" for x in model.inputs)
    agree(compiled, fuzz_strides.rows(args), tolerance=slack)
    if is_strided:
        fuzz_strides.check(compiled, args, is_example=True)
    for number in range(len(SIZES["b"].others) if model.is_dynamic else 0):
        sizes = {name: size.others[number] for name, size in SIZES.items()}
        other = _args(given, sizes)
        if _eager_runs(compiled.module, other):
            agree(compiled, fuzz_strides.rows(other), tolerance=slack)
            if is_strided:
                fuzz_strides.check(compiled, other, is_example=False)
    if rebinds and compiled.module.state_dict():
        _rebind(compiled, model)
        agree(compiled, args, tolerance=slack, programs=False)


def _rebind(compiled: Compiled, model: Model) -> None:
    """Other weights, in the module and in the packages."""
    weights = [x for x in model.inputs if x.is_weight]
    drawn = {x.name: x.draw({}, 2000 + number) for number, x in enumerate(weights)}
    compiled.module.load_state_dict(drawn)
    for package in compiled.models.values():
        package.bind_weights(drawn)


def _slack(model: Model) -> Tolerance:
    """Numbers of 64 bits are compared in their own ulps where all numbers have 64 bits."""
    narrow = any(x.dtype is not torch.float64 for x in model.inputs)
    narrow |= bool(NARROWS.search(model.source))
    return replace(SLACK, unit=torch.finfo(torch.float32).eps if narrow else 0)


def _eager_runs(module: nn.Module, args: tuple[torch.Tensor, ...]) -> bool:
    try:
        module(*args)
    except (RuntimeError, IndexError):
        return False
    return True


def _args(given: Sequence[Input], sizes: dict[str, int]) -> tuple[torch.Tensor, ...]:
    return tuple(x.draw(sizes, number) for number, x in enumerate(given))


def _dynamic_shapes(given: Sequence[Input]) -> dict[str, Any] | None:
    dims = {name: Dim(name, min=size.low, max=size.high) for name, size in SIZES.items()}
    shapes = {
        x.name: {i: dims[d] for i, d in enumerate(x.dims) if isinstance(d, str)} or None
        for x in given
    }
    return shapes if any(shapes.values()) else None


def verdict(
    model: Model,
    targets: tuple[Target, ...] = (INTERPRETER,),
    gpu: Gpu = H200,
    tolerance: Tolerance | None = None,
    rebinds: bool = False,
) -> tuple[str, str]:
    """("ok" | "refused" | "wrong" | "crash", the words)."""
    try:
        check(model, targets, gpu, tolerance, rebinds)
    except (TraceError, UnsupportedError) as error:
        return "refused", str(error).replace("\n", " ")[:160]
    except AssertionError as error:
        return "wrong", str(error)
    except Exception as error:  # a fuzzer's work: every other exception is a finding
        last = traceback.extract_tb(error.__traceback__)[-1]
        return "crash", f"{type(error).__name__} at {last.filename}:{last.lineno}: {error}"
    return "ok", ""


def shrink(
    model: Model, kind: str, judge: Callable[[Model], tuple[str, str]] | None = None
) -> Model:
    """The model with as few lines as still fail in the same way, also in its functions."""
    judge = judge or verdict
    for line in reversed(model.lines):
        smaller = without(model, line.name)
        if smaller.lines and judge(smaller)[0] == kind:
            model = smaller
    for name in reversed([line.name for line in inner_lines(model)]):
        for smaller in without_inside(model, name):
            if judge(smaller)[0] == kind:
                model = smaller
                break
    return model


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is done with each seed."""

    make: Callable[[int], Model] = make
    targets: tuple[Target, ...] = (INTERPRETER,)
    odd: bool = False
    shrinking: bool = True
    tolerance: Tolerance | None = None
    rebinds: bool = False
    onednn: bool = True
    """Off for convolutions: those of oneDNN in 16 bits end some processes (torch 2.13, AVX-512)."""

    def examine(self, seed: int) -> tuple[str, str, Model]:
        """The verdict on a seed, and the smallest model found that gets the same."""
        with torch.backends.mkldnn.flags(enabled=self.onednn):
            return self._examined(seed)

    def _examined(self, seed: int) -> tuple[str, str, Model]:
        model = self.make(seed)
        if not model.lines:
            return "empty", "", model
        with odd_schedules(seed) if self.odd else nullcontext():
            kind, words = self._verdict(model)
            if kind in ("wrong", "crash") and self.shrinking:
                model = shrink(model, kind, self._verdict)
                words = self._verdict(model)[1] or f"once only: {words}"
        return kind, words, model

    def _verdict(self, model: Model) -> tuple[str, str]:
        gpu = SMALL if self.odd else H200
        return verdict(model, self.targets, gpu, self.tolerance, self.rebinds)


def _outcomes(
    campaign: Campaign, seeds: range, jobs: int
) -> Iterator[tuple[int, tuple[str, str, Model]]]:
    """Each seed's outcome, in order."""
    if jobs == 1:
        yield from ((seed, campaign.examine(seed)) for seed in seeds)
        return
    context = multiprocessing.get_context("spawn")
    start_one = partial(torch.set_num_threads, 1)
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=start_one) as pool:
        try:
            yield from zip(seeds, pool.map(campaign.examine, seeds), strict=True)
        finally:
            pool.shutdown(cancel_futures=True)


def _run(campaign: Campaign, seeds: range, jobs: int, seconds: float) -> int:
    """Examine seeds until the time is over; prints findings and counts, 1 if anything is wrong."""
    counts, refusals = Counter[str](), Counter[str]()
    start = time.perf_counter()
    for seed, (kind, words, small) in _outcomes(campaign, seeds, jobs):
        counts[kind] += 1
        if kind == "refused":
            refusals[words] += 1
        if kind in ("wrong", "crash"):
            print(f"seed {seed}: {kind}: {words[:600]}\n{small.inputs}\n{small.source}", flush=True)
        if counts.total() % 100 == 0:
            print(f"{counts.total()} models:", dict(counts), flush=True)
        if time.perf_counter() - start > seconds:
            break
    print(f"{counts.total()} models:", dict(counts), f"{time.perf_counter() - start:.0f} s")
    for words, count in refusals.most_common():
        print(count, words)
    return 1 if counts["wrong"] or counts["crash"] else 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:50", help="FIRST:END")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--targets", help="such as cpu,sm_90 (default interpreter; both hosts)")
    parser.add_argument("--odd", action="store_true", help="small blocks and many parts")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no more then")
    parser.add_argument("--casts", type=int, metavar="N", help="check N graphs with conversions")
    parser.add_argument("--convs", type=int, metavar="N", help="check N graphs of convolutions")
    parser.add_argument("--counted", type=int, metavar="N", help="N graphs with counted sizes")
    parser.add_argument("--strides", type=int, metavar="N", help="N graphs of strided tensors")
    parser.add_argument("--subgraphs", type=int, metavar="N", help="N graphs with branches, loops")
    parser.add_argument("--seed", type=int, default=0, help="of the first graph of those")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    options = parser.parse_args(arguments)
    if options.casts:
        names = tuple(options.targets.split(",")) if options.targets else fuzz_casts.TARGETS
        return fuzz_casts.run(options.casts, options.seed, options.jobs, names)
    first, end = map(int, options.seeds.split(":"))
    how = Campaign(odd=options.odd, shrinking=not options.no_shrink)
    if options.convs:
        first, end = options.seed, options.seed + options.convs
        how = replace(how, make=fuzz_convs.make, targets=(INTERPRETER, CPU), tolerance=LAW)
        how = replace(how, rebinds=True, onednn=False)
    for count, maker in (
        (options.counted, fuzz_counted.make),
        (options.strides, fuzz_strides.make),
        (options.subgraphs, fuzz_subgraphs.make),
    ):
        if count:
            first, end = options.seed, options.seed + count
            how = replace(how, make=maker)
    if options.targets:
        how = replace(how, targets=parse_targets(options.targets))
    return _run(how, range(first, end), options.jobs, options.seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
