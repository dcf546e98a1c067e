"""The cost model compared with measurements: each launch's estimate, first and quickest form.

    python tools/check_cost_model.py [PATTERN ...] [--models FILE,...] [--rows N] [--columns N]
                                     [--candidates N] [-o tuning.json]
    python tools/check_cost_model.py --packages DIR --build-only --target sm_90    no GPU is needed

Patterns are those of ``tools/bench_kernels.py`` in bfloat16; ``--models`` are cases of
``tools/model_cases.py``, in bfloat16 too, or model files. Packages have no weights. Those that are
not in DIR are built in parallel, in separate processes. Then they are timed one after the other on
the GPU, with the weights bound: every form of every launch, and the whole with the first forms and
with the quickest, alternately.
"""

import argparse
import math
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir

import torch
from torch import nn

from aotpack.devices import GPUS
from aotpack.pipeline import BuildOptions, Source
from aotpack.runtime import load
from aotpack.runtime.golden.data import read_golden
from aotpack.runtime.loading import read_manifest
from aotpack.runtime.tuning.tune import tune
from aotpack.runtime.tuning_file import Times, merged, read_tuning, tuning_text
from aotpack.stages import Decisions
from aotpack.target import Target, native_target, parse_targets
from aotpack.trace import load_model
from aotpack.tune import estimate
from tools.bench_kernels import PATTERNS, USUAL, microseconds
from tools.case_packages import write_bare
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


def weights_of(made: Source) -> dict[str, torch.Tensor]:
    return made.module.state_dict() if isinstance(made.module, nn.Module) else {}


def build(name: str, options: argparse.Namespace, target: Target) -> float:
    """Write a package with candidates, without weights; gives the seconds it took."""
    start = time.perf_counter()
    how = BuildOptions((target,), golden=0, jobs=4, decisions=Decisions(options.candidates))
    write_bare(source(name, options.rows, options.columns), how, package(name, options))
    return time.perf_counter() - start


def package(name: str, options: argparse.Namespace) -> Path:
    return Path(options.packages, Path(name).stem)


def check(
    name: str, options: argparse.Namespace, target: Target
) -> list[tuple[float, float, float]]:
    """Print the launches of a package; (estimate, first, quickest) of each."""
    folder, file = package(name, options), options.out
    weights = weights_of(source(name, options.rows, options.columns))
    start = time.perf_counter()
    found = tune(folder, 0, weights=weights)
    took = time.perf_counter() - start
    old = read_tuning(file) if file.exists() else {}
    file.write_text(tuning_text(merged(old, found)))
    (choices,) = found.values()
    print(f"== {name}: {len(choices)} choices timed in {took:.1f} s")
    rows = [_row(folder, key, one, target) for key, some in choices.items() for one in some]
    pairs = [(whole(folder, weights, None), whole(folder, weights, file)) for _ in range(ROUNDS)]
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


def whole(folder: Path, weights: dict[str, torch.Tensor], tuning: Path | None) -> float:
    """Microseconds of the GPU for a call on the golden inputs."""
    golden = read_golden(folder / "golden.safetensors", read_manifest(folder).golden.drawn)
    with load(folder, 0, weights=weights, tuning=tuning) as model:
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
    parser.add_argument("--packages", type=Path, default=Path(gettempdir(), "cost_model"))
    parser.add_argument("--build-only", action="store_true", help="build all anew, measure none")
    parser.add_argument("--target", help="of the packages (default: this machine's GPU)")
    parser.add_argument("-j", "--jobs", type=int, default=8, help="packages built at once")
    options = parser.parse_args()
    models = [name for name in options.models.split(",") if name]
    names = [*(options.patterns or ([] if models else USUAL)), *models]
    target = parse_targets(options.target)[0] if options.target else native_target()
    build_all(names, options, target)
    if not options.build_only:
        told([row for name in names for row in check(name, options, target)])


def build_all(names: list[str], options: argparse.Namespace, target: Target) -> None:
    """The packages that are not there, or all of them anew."""
    missing = [name for name in names if options.build_only or not package(name, options).exists()]
    options.packages.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        builds = {name: pool.submit(build, name, options, target) for name in missing}
        for name, built in builds.items():
            print(f"{name}: built in {built.result():.1f} s", flush=True)


def told(rows: list[tuple[float, float, float]]) -> None:
    """Print how the estimates and the choices are, over all launches."""
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
