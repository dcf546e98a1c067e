"""Builds architectures from a module on a device and from its host copy: the wheels' bytes.

    python -m tools.device_builds [NAME ...] [--device cuda] [--target sm_90] [-j 16] [--dynamic]

Prints a line for each architecture; exits with 1 if one differs or cannot be built.
"""

from __future__ import annotations

import argparse
import copy
import multiprocessing
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn
from torch.export import Dim

import aotpack
from tests.architectures.table import ARCHITECTURES, HIGHEST, Architecture

EXAMPLE = {"b": 3, "s": 11}
_SAME = "same"


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="architectures (default: all)")
    parser.add_argument("--device", default="cuda", help="where the module is (default cuda)")
    parser.add_argument("--target", default="sm_90", help="of the wheels (default sm_90)")
    parser.add_argument("-j", "--jobs", type=int, default=8, help="processes (default 8)")
    parser.add_argument("--dynamic", action="store_true", help="with a dynamic batch")
    options = parser.parse_args(words)
    names = options.names or list(ARCHITECTURES)
    check = partial(_checked, options.device, options.target, options.dynamic)
    begun, failures = time.perf_counter(), 0
    for name, outcome in zip(names, _each(check, names, options.jobs), strict=True):
        failures += outcome != _SAME
        print(f"{name:20} {outcome}", flush=True)
    seconds = time.perf_counter() - begun
    print(f"{len(names) - failures} of {len(names)} give the same bytes; {seconds:.0f} s")
    return 1 if failures else 0


def _each(check: Callable[[str], str], names: Sequence[str], jobs: int) -> Iterator[str]:
    """The outcomes in order, from several processes if there are as many jobs."""
    if jobs == 1:
        yield from map(check, names)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(names)), mp_context=spawn) as pool:
        yield from pool.map(check, names)


def _checked(device: str, target: str, dynamic: bool, name: str) -> str:
    """ "same", the members that differ, or the error."""
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    architecture = ARCHITECTURES[name]
    host = architecture.make()
    given = architecture.inputs(EXAMPLE)
    there = tuple(tensor.to(device) for tensor in given)
    build = partial(_built, architecture, target, dynamic)
    try:
        with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
            wheels = (
                build(copy.deepcopy(host).to(device), there, Path(first)),
                build(host, given, Path(second)),
            )
            return _compared(*wheels)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _built(
    architecture: Architecture,
    target: str,
    dynamic: bool,
    module: nn.Module,
    given: tuple[torch.Tensor, ...],
    folder: Path,
) -> Path:
    batch = Dim("b", min=1, max=HIGHEST["b"])
    shapes: Any = tuple(
        {axis: batch for axis, size in each.items() if size == "b"} for each in architecture.dynamic
    )
    return aotpack.build(
        module,
        given,
        dynamic_shapes={"args": shapes} if dynamic else None,
        name=architecture.name,
        targets=target,
        out=folder,
        jobs=1,
    )


def _compared(first: Path, second: Path) -> str:
    if first.read_bytes() == second.read_bytes():
        return _SAME
    with zipfile.ZipFile(first) as one, zipfile.ZipFile(second) as two:
        names = sorted({*one.namelist(), *two.namelist()})
        known = ({*one.namelist()}, {*two.namelist()})
        return "differ: " + ", ".join(
            name
            for name in names
            if not all(name in members for members in known) or one.read(name) != two.read(name)
        )


if __name__ == "__main__":
    sys.exit(main())
