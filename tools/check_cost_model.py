"""The cost model compared with measurements: each launch's estimate, first and quickest form.

    python tools/check_cost_model.py [PATTERN ...] [--models FILE,...] [--rows N] [--columns N]
                                     [--candidates N] [-o tuning.json]

Patterns are those of ``tools/bench_kernels.py`` in bfloat16; ``--models`` are cases of
``tools/model_cases.py``, in bfloat16 too, or model files. Packages are built in parallel, in
separate processes, and then timed one after the other on the GPU: every form of every launch, and
the whole with the first forms and with the quickest, alternately.
"""

import argparse
import math
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from aotpack.devices import GPUS
from aotpack.emit import write_package
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.runtime import load
from aotpack.runtime.golden.data import read_golden
from aotpack.runtime.loading import read_manifest
from aotpack.runtime.tuning.tune import tune
from aotpack.runtime.tuning_file import Times, merged, read_tuning, tuning_text
from aotpack.stages import Decisions
from aotpack.target import Target, native_target
from aotpack.trace import load_model
from aotpack.tune import estimate
from tools.bench_kernels import PATTERNS, USUAL, microseconds
from tools.model_cases import CASES, made

ROUNDS = 3


def source(name: str, rows: int, columns: int) -> Source:
    """A pattern's module and inputs, a case's, or a model file's."""
    if name in PATTERNS:
        torch.manual_seed(0)
        pattern = PATTERNS[name]
        return Source(pattern, pattern.inputs(rows, columns, torch.bfloat16, "cpu"), name=name)
    if name in CASES:
        return Source(*made(name, torch.bfloat16), name=name)
    loaded = load_model(name)
    return Source(loaded.module, loaded.args, loaded.kwargs, loaded.dynamic_shapes, Path(name).stem)


def build(name: str, rows: int, columns: int, candidates: int, target: Target, out: Path) -> float:
    """Write a package with candidates; gives the seconds it took."""
    start = time.perf_counter()
    decisions = Decisions(candidates)
    made = Build(
        source(name, rows, columns), BuildOptions((target,), jobs=4, decisions=decisions)
    ).precompiled
    write_package(made, out)
    return time.perf_counter() - start


def check(name: str, folder: Path, target: Target, file: Path) -> list[tuple[float, float, float]]:
    """Print the launches of a package; (estimate, first, quickest) of each."""
    start = time.perf_counter()
    found = tune(folder, 0)
    took = time.perf_counter() - start
    old = read_tuning(file) if file.exists() else {}
    file.write_text(tuning_text(merged(old, found)))
    (choices,) = found.values()
    print(f"== {name}: {len(choices)} choices timed in {took:.1f} s")
    rows = [_row(folder, key, one, target) for key, some in choices.items() for one in some]
    pairs = [(whole(folder, None), whole(folder, file)) for _ in range(ROUNDS)]
    before, after = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"   the whole: {before:.1f} us, tuned {after:.1f} us, {before / after:.3f}x", flush=True)
    return rows


def _row(folder: Path, key: str, times: Times, target: Target) -> tuple[float, float, float]:
    """One launch: its estimate, and the times of its first and its quickest form."""
    kernel = read_manifest(folder).kernels[key.split(" x ")[0]]
    sizes = times.sizes
    work = kernel.moved.evaluate(sizes), kernel.flops.evaluate(sizes)
    should = estimate(*work, GPUS[target.arch])
    first = times.microseconds[key.split(" x ")[0]]
    best = min(times.microseconds, key=lambda name: times.microseconds[name])
    quickest = times.microseconds[best]
    shown = ", ".join(f"{name} {size}" for name, size in sizes.items())
    print(
        f"   {key[:72]:72} {shown:18} estimate {should:8.2f}  first {first:8.2f}"
        f"  best {quickest:8.2f} us {first / quickest:5.2f}x  {best}"
    )
    return should, first, quickest


def whole(folder: Path, tuning: Path | None) -> float:
    """Microseconds of the GPU for a call on the golden inputs."""
    golden = read_golden(folder / "golden.safetensors", read_manifest(folder).golden.drawn)
    with load(folder, 0, tuning=tuning) as model:
        args = []
        for spec in model.signature.inputs:
            raw = torch.from_numpy(golden[f"inputs/{spec.name}"].data.copy()).cuda()
            args.append(raw.view(torch.bfloat16) if str(spec.dtype) == "bfloat16" else raw)
        return microseconds(model, [tuple(args)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("patterns", nargs="*", default=[], choices=[*PATTERNS, []])
    parser.add_argument("--models", default="")
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--candidates", type=int, default=6)
    parser.add_argument("-o", "--out", type=Path, default=Path("tuning.json"))
    options = parser.parse_args()
    models = [name for name in options.models.split(",") if name]
    names = [*(options.patterns or ([] if models else USUAL)), *models]
    target = native_target()
    rows: list[tuple[float, float, float]] = []
    with (
        tempfile.TemporaryDirectory() as place,
        ProcessPoolExecutor(8, mp_context=get_context("spawn")) as pool,
    ):
        sizes = (options.rows, options.columns, options.candidates, target)
        folders = {name: Path(place, Path(name).stem) for name in names}
        builds = {name: pool.submit(build, name, *sizes, folders[name]) for name in names}
        for name, built in builds.items():
            print(f"{name}: built in {built.result():.1f} s", flush=True)
        for name in names:
            rows += check(name, folders[name], target, options.out)
    ratios = [first / should for should, first, _ in rows]
    gains = [first / best for _, first, best in rows]
    near = sum(gain < 1 / 0.97 for gain in gains)
    mean = statistics.geometric_mean
    spread = math.exp(statistics.pstdev([math.log(ratio) for ratio in ratios]))
    print(
        f"{len(rows)} launches: first form against the estimate {mean(ratios):.2f}x (spread"
        f" {spread:.2f}x); the first form is the quickest or near it for {near}; tuning gains"
        f" {mean(gains):.3f}x"
    )


if __name__ == "__main__":
    main()
