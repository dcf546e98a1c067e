"""Fuzzes the parsers of a package: python -m tools.fuzz_parsers --seconds 240 -j 16

Real manifests and safetensors files are changed, in their structure and by bytes, and read again.
What is raised must be an AotpackError; anything else is RAW and fails. Three targets share the
workers:

- manifest: ``read_manifest`` and what the commands print of it;
- safetensors: ``read_safetensors``, and every value of it;
- load: a package for processors with another manifest is loaded and called. Names and shapes of
  inputs stay: whoever forges them, hashes included, forges code.

With atheris (``pip install atheris``) new paths through the parsers guide the changes; without it,
new lines do. A worker that dies is a failure too; the input that ended it lies in the folder that
is printed.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.fuzz_targets import Target

TARGETS = ("manifest", "safetensors", "load")
PARSERS = ("manifest", "sizes", "trees", "safetensors", "files")
LONGEST = 1 << 16


def main(argv: Sequence[str] | None = None) -> int:
    """Run the workers; 1 if one found something or died."""
    options = _options(argv)
    if options.worker:
        return _work(options)
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=_fast_folder()) as place:
        package = Path(place, "package")
        build(package)
        workers = [_start(options, number, Path(place)) for number in range(options.jobs)]
        codes = [_report(number, *worker) for number, worker in enumerate(workers)]
    print(f"{sum(map(bool, codes))} of {len(codes)} workers failed")
    return int(any(codes))


def build(folder: Path) -> None:
    """A package with a dynamic size, weights, a result with structure, for processors."""
    import torch  # workers have no need of it

    from aotpack.emit import write_package
    from aotpack.pipeline import Build, BuildOptions, Source
    from aotpack.target import CPU

    torch.manual_seed(0)
    rows = torch.export.Dim("b", min=1, max=64)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.LayerNorm(4), torch.nn.GELU())
    source = Source(layers.eval(), (torch.randn(3, 8),), None, ({0: rows},), name="fuzzed")
    write_package(Build(source, BuildOptions((CPU,))).precompiled, folder)


def _start(
    options: argparse.Namespace, number: int, place: Path
) -> tuple["subprocess.Popen[str]", Path]:
    folder = place / str(number)
    shutil.copytree(place / "package", folder / "fuzzed")
    words = ["--worker", TARGETS[number % len(TARGETS)], "--folder", str(folder)]
    words += ["--seconds", str(options.seconds), "--runs", str(options.runs)]
    words += ["--seed", str(options.seed + number), "--engine", options.engine]
    command = [sys.executable, "-m", "tools.fuzz_parsers", *words]
    log = (folder / "log").open("w")
    return subprocess.Popen(command, stdout=log, stderr=log, text=True), folder


def _report(number: int, process: "subprocess.Popen[str]", folder: Path) -> int:
    code, log = process.wait(), (folder / "log").read_text(errors="replace")
    found = re.findall(r"(?:number_of_executed_units:|runs) +(\d+)", log)
    covered = re.findall(r"(?:cov:|lines) +(\d+)", log)
    print(
        f"worker {number}, {TARGETS[number % len(TARGETS)]}: {(found or ['?'])[-1]} runs, "
        f"{(covered or ['?'])[-1]} places covered, {'FAILED' if code else 'ok'}",
        flush=True,
    )
    if code:
        kept = Path(tempfile.mkdtemp(prefix="fuzz-kept-"))
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        print("".join(log.splitlines(keepends=True)[-40:]), f"\nkept in {kept}", flush=True)
    return code


def _work(options: argparse.Namespace) -> int:
    """One worker: one target until its time or its runs are over."""
    package = options.folder / "fuzzed"
    os.environ["AOTPACK_THREADS"] = "1"
    if options.engine == "atheris":
        return _by_paths(options, package)
    from tools.fuzz_targets import target_of  # after its engine: atheris rewrites what it imports

    by_lines(target_of(options.worker, package), options)
    return 0


def by_lines(target: "Target", options: argparse.Namespace) -> None:
    """Change what brought new lines, and print how many there were. The input lies in a file."""
    rng, end = random.Random(options.seed), time.monotonic() + options.seconds
    corpus, lines, runs = [*target.seeds], set[tuple[str, int]](), 0
    while runs < options.runs and time.monotonic() < end:
        data, before = target.change(rng.choice(corpus), rng), len(lines)
        (options.folder / "input").write_bytes(data)
        with _lines_into(lines):
            target.run(data)
        if len(lines) > before and len(data) < LONGEST:
            corpus.append(data)
        runs += 1
    print(f"runs {runs}, lines {len(lines)}")


@contextmanager
def _lines_into(lines: set[tuple[str, int]]) -> Iterator[None]:
    """Collect the lines of the parsers that run inside the block."""

    def note(frame: FrameType, event: str, value: Any) -> Any:
        if event == "call":
            path = Path(frame.f_code.co_filename)
            is_parser = path.stem in PARSERS or path.parent.name in PARSERS
            return note if is_parser and "runtime" in path.parts else None
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return note

    sys.settrace(note)
    try:
        yield
    finally:
        sys.settrace(None)


def _by_paths(options: argparse.Namespace, package: Path) -> int:
    """libFuzzer's loop; it ends the process."""
    import atheris  # not a requirement

    with atheris.instrument_imports(include=["aotpack.runtime"]):
        from tools.fuzz_targets import target_of
    target = target_of(options.worker, package)
    corpus = options.folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed{number}").write_bytes(seed)

    def change(data: bytes, longest: int, seed: int) -> bytes:
        return target.change(data, random.Random(seed))[:longest]

    words = [f"-max_total_time={options.seconds}", f"-runs={options.runs}", "-print_final_stats=1"]
    words += [f"-seed={options.seed + 1}", f"-max_len={LONGEST}", "-rss_limit_mb=0", "-timeout=60"]
    words += [f"-artifact_prefix={options.folder}/", str(corpus)]
    atheris.Setup([sys.argv[0], *words], target.run, custom_mutator=change)
    atheris.Fuzz()
    return 0


def _fast_folder() -> str | None:
    """Memory in the place of a disk, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="of each worker (default 60)")
    parser.add_argument("--runs", type=int, default=1 << 30, help="of each worker (default: many)")
    parser.add_argument("-j", "--jobs", type=int, default=len(TARGETS), help="workers")
    parser.add_argument("--seed", type=int, default=0)
    engine = "atheris" if find_spec("atheris") else "lines"
    parser.add_argument("--engine", choices=("atheris", "lines"), default=engine)
    parser.add_argument("--worker", choices=TARGETS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
