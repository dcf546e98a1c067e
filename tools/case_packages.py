"""What benchmarks of single cases share: their packages, the loop over them, grades, and figures.

``bench_attention``, ``bench_conv`` and ``bench_matmul`` build a package of each case and time it
beside its peers in one run.
"""

import argparse
import csv
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import gettempdir
from typing import Protocol, TypeVar

import torch

from aotpack.emit import write_package
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.target import parse_targets
from tests.e2e.law import accuracy_complaint, errors


class Job(Protocol):
    """A package to build, and the folder that it is built into."""

    @property
    def target(self) -> str: ...

    @property
    def package(self) -> Path: ...

    def source(self) -> Source:
        """What is packaged, with its example inputs."""
        ...


class Row(Protocol):
    """The figures of a case."""

    def line(self) -> str:
        """In words, for the terminal."""
        ...


AnyJob = TypeVar("AnyJob", bound=Job)
AnyRow = TypeVar("AnyRow", bound=Row)


def add_package_options(parser: argparse.ArgumentParser, folder: str) -> None:
    """The options of all these benchmarks; ``folder`` has the packages, where none is given."""
    parser.add_argument("--packages", type=Path, default=Path(gettempdir(), folder))
    parser.add_argument("--build-only", action="store_true", help="build all anew, measure none")
    parser.add_argument("--target", help="of the packages (default: this machine's GPU)")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count(), help="building processes")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds to measure in")
    parser.add_argument("--csv", type=Path)


def built(jobs: Sequence[AnyJob], processes: int, *, anew: bool) -> list[AnyJob]:
    """The jobs that have a package; builds those without one, or all, in processes."""
    missing = [job for job in jobs if anew or not job.package.exists()]
    failed = _failed(missing, processes) if missing else set()
    return [job for job in jobs if job.package not in failed]


def _failed(jobs: Sequence[Job], processes: int) -> set[Path]:
    """Build packages, and say why some are not built."""
    context = multiprocessing.get_context("spawn")
    failed: set[Path] = set()
    start = time.perf_counter()
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for job, words in zip(jobs, pool.map(_build, jobs), strict=True):
            if words:
                failed.add(job.package)
                print(f"{job.package.name}: not built: {words}", flush=True)
    seconds = time.perf_counter() - start
    print(f"built {len(jobs) - len(failed)} of {len(jobs)} packages in {seconds:.0f} s", flush=True)
    return failed


def _build(job: Job) -> str:
    torch.set_num_threads(1)
    options = BuildOptions(parse_targets(job.target), golden=0, jobs=1)
    try:
        with torch.no_grad():
            write_bare(job.source(), options, job.package)
    except Exception as error:  # a benchmark goes on without it, and says why
        return f"{type(error).__name__}: {error}"[:400]
    return ""


def write_bare(source: Source, options: BuildOptions, package: Path) -> None:
    """Write a package without weights and without the runtime, which is the checkout's.

    The folder is there when it is complete.
    """
    unfinished = package.with_name(f"{package.name}.unfinished")
    for folder in (unfinished, package):
        shutil.rmtree(folder, ignore_errors=True)
    made = Build(source, options).precompiled
    unfinished.mkdir(parents=True)
    write_package(made, unfinished, "none")
    shutil.rmtree(unfinished / "_runtime")
    unfinished.rename(package)


def measured(
    jobs: Sequence[AnyJob], limit: float, measure: Callable[[AnyJob], AnyRow]
) -> Iterator[AnyRow]:
    """The rows of the jobs that are measured within ``limit`` seconds; each is printed."""
    start = time.perf_counter()
    for number, job in enumerate(jobs):
        if time.perf_counter() - start > limit:
            print(f"{len(jobs) - number} cases are left out: the time is over")
            return
        try:
            row = measure(job)
        except Exception as error:  # what fails is named, and the rest is measured
            print(f"{job.package.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        finally:
            torch.cuda.empty_cache()
        print(row.line(), flush=True)
        yield row


def graded(
    mine: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor
) -> tuple[float, str | None]:
    """The largest error in units of eager's, and how the law of accuracy is broken."""
    found = errors(mine, eager, exact)
    complaint = accuracy_complaint(mine, eager, exact)
    return found.ours / found.eagers if found.eagers else float(found.ours > 0), complaint


def write_figures(
    path: Path, header: Mapping[str, str], rows: Iterable[tuple[str, str, str, str, str, str]]
) -> None:
    """A file in the format of docs/measurements; ``header`` has title, versions, command, note."""
    made = {"date": time.strftime("%Y-%m-%d"), "machine": torch.cuda.get_device_name()}
    lines = {"title": header["title"]} | made | dict(header)
    with path.open("w", newline="") as file:
        file.writelines(f"# {key}: {words}\n" for key, words in lines.items())
        table = csv.writer(file, lineterminator="\n")
        table.writerow(("case", "variant", "value", "high", "unit", "note"))
        table.writerows(rows)
