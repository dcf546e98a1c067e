"""Rows that programs take in turn, through a ring of blocks in shared memory.

What is chosen for long rows is chosen for short ones on a GPU with little to spare.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

from aotpack.devices import H200, Gpu
from aotpack.emit import write_package
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.runtime import load
from aotpack.target import Target, native_target

from .law import Tolerance, accuracy_complaint
from .oracle import Compiled, agree, compile_all, tensors
from .test_cluster_reduction import lowered
from .test_long_rows import BF16, Rows, numbers

H100 = (Target("cuda", 90),)
F16, F32 = torch.float16, torch.float32
ROWS = 7
MANY = 203
FEW_BYTES = 36 * 1024  # of shared memory, for one program with its weights in registers


class Tensors(Rows):
    """A function of several tensors."""

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def weighted(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> Any:
    """Mean and variance, and what is the same for all rows."""
    return F.layer_norm(x, (x.shape[1],), w, b)


def residual(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> Any:
    """Two streams, and a result of the first walk."""
    total = x + y
    return F.rms_norm(total, (x.shape[1],), w, 1e-6), total


def shares(x: torch.Tensor) -> Any:
    """Nothing in common."""
    return x.softmax(1)


def walks(x: torch.Tensor, w: torch.Tensor) -> Any:
    """Three walks, of which the last copies, and results of rows."""
    shares = x.softmax(1)
    top = shares.amax(1, keepdim=True)
    return shares / top * w, (shares / top).sum(1), top


def wholes(x: torch.Tensor) -> Any:
    """Integers."""
    return x - x.amax(1, keepdim=True), (x % 7).sum(1)


@dataclass(frozen=True)
class Case:
    """Columns of the rows, and what the tile must be for them."""

    function: Callable[..., Any]
    columns: int
    dtype: torch.dtype
    cluster_size: int
    ring: int
    vectors: int = 0  # tensors of a row's length that all rows have in common
    streams: int = 1
    kept: int = 0
    shared: int = H200.shared

    @property
    def gpu(self) -> Gpu:
        """One with a multiprocessor that holds no row in registers, and little of one in L2."""
        clusters = ((self.cluster_size, 1),)
        small = replace(H200, multiprocessors=1, registers=1024, l2=0, shared=self.shared)
        return replace(small, clusters=clusters)


CASES = [
    Case(weighted, 7184, BF16, 2, 4, vectors=2),  # 1.75 blocks
    Case(weighted, 8192, F16, 2, 4, vectors=2),  # whole blocks
    Case(weighted, 3592, F32, 2, 4, vectors=2, kept=2, shared=FEW_BYTES),
    Case(residual, 6160, F32, 4, 4, vectors=1, streams=2),
    Case(walks, 7184, BF16, 2, 4, vectors=1),
    Case(shares, 7184, F32, 4, 2),
    Case(shares, 14_400, BF16, 4, 2),
    Case(wholes, 3592, torch.int32, 2, 2),
]


def compiled(case: Case, args: tuple[Any, ...], dynamic_shapes: Any = None) -> Compiled:
    module = Tensors(case.function)
    return compile_all(module, args, None, dynamic_shapes, targets=H100, gpu=case.gpu)


def inputs(case: Case, rows: int) -> tuple[torch.Tensor, ...]:
    shape = rows, case.columns
    if case.dtype is torch.int32:
        return (torch.randint(-1000, 1000, shape, dtype=case.dtype),)
    x = numbers(rows, case.columns, case.dtype)
    others = [shape] * (case.streams - 1) + [(case.columns,)] * case.vectors
    return (x, *(torch.randn(size).to(case.dtype) for size in others))


@pytest.mark.row("C:B16", "C:B18", "C:G18")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.function.__name__}-{case.columns}")
def test_row_pipelines_agree(case: Case) -> None:
    args = inputs(case, ROWS)
    if case.function is walks:
        lowered(args[0])
    made = compiled(case, args)
    (kernel,) = made.scheduled.schedule.kernels
    (found,) = (v.tile for v in kernel.variants if v.takes(90))
    assert isinstance(found, ReductionTile) and 0 < found.resident < ROWS
    assert (found.cluster_size, found.ring, found.kept) == (case.cluster_size, case.ring, case.kept)
    assert sum(binary.spills for binary in made.precompiled.binaries) == 0
    agree(made, args)


@pytest.mark.parametrize("name", ["rows", "next_row", "clusters"])
def test_any_number_of_rows_may_have_a_pipeline(name: str) -> None:
    """Whatever the user calls it."""
    case = CASES[0]
    shapes = ({0: Dim(name, min=1, max=4096)}, None, None)
    made = compiled(case, inputs(case, ROWS), (shapes,))
    for rows in (1, 2, 5) if name == "rows" else (2,):
        agree(made, inputs(case, rows))


def wider(x: torch.Tensor) -> Any:
    """Results that another layout would suit."""
    return x.float() - x.float().amax(1, keepdim=True)


def test_rows_with_wider_results_have_no_pipeline() -> None:
    case = Case(wider, 7184, BF16, 1, 0)
    args = inputs(case, ROWS)
    made = compiled(case, args)
    tiles = [v.tile for k in made.scheduled.schedule.kernels for v in k.variants]
    assert not any(isinstance(tile, ReductionTile) and tile.ring for tile in tiles)
    agree(made, args)


def updated(x: torch.Tensor) -> Any:
    """Rows that are written where they are read, while the next ones are on their way."""
    x.copy_(x.softmax(1))
    return x.sum(1)


def test_rows_that_are_overwritten_agree() -> None:
    case = Case(updated, 7184, F32, 4, 2)
    args = inputs(case, ROWS)
    agree(compiled(case, args), args)


@pytest.mark.gpu
@pytest.mark.row("C:B16", "C:inv23")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.function.__name__}-{case.columns}")
def test_row_pipelines_on_a_gpu(case: Case, tmp_path: Path) -> None:
    args = inputs(case, MANY)
    module = Tensors(case.function)
    options = BuildOptions((native_target(),), gpu=case.gpu)
    write_package(Build(Source(module, args), options).precompiled, tmp_path)
    model = load(tmp_path, 0)
    given = [x.cuda() for x in args]
    exact = module(*(x.double() if x.is_floating_point() else x for x in given))
    for _ in range(3):  # launches, a recording, a graph
        for row in zip(*map(tensors, (model(*given), module(*given), exact)), strict=True):
            ours, eager, reference = (x.cpu() for x in row)
            assert accuracy_complaint(ours, eager, reference, Tolerance()) is None
