"""Row sums of a sum: what one kernel or two do, in the base form and in four variants."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.tiles import HostTile, ReductionTile
from aotpack.ir.operations import Pointwise, Reduction
from aotpack.ir.program import targets
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.lower import lower
from aotpack.pipeline import compile
from aotpack.schedule import schedule
from aotpack.stages import Ref, TensorSpec
from tests.lower.oracle import node
from tests.lower.oracle import traced as graph_of
from tests.schedule.programs import scheduled


class Two(nn.Module):
    """A function of two tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
        return self.function(a, b)


def row_sums(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a + b).sum(1)


def both(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = a + b
    return total.sum(1), total


def changed_between(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m = 2 * a
    a.copy_(a + b)
    return m, a.sum(1)


def schedule_of(rows: int, columns: int, *, both: bool = False) -> Schedule:
    """What ``row_sums`` becomes, or ``both``; no data is made for it."""
    shape = (Int.of(rows), Int.of(columns))
    whole = [TensorSpec(name, DType.FLOAT32, shape) for name in ("a", "b", "add")]
    sums = TensorSpec("sum_1", DType.FLOAT32, shape[:1])
    calls = [
        node("add", "aten.add.Tensor", (Ref("a"), Ref("b")), whole[2]),
        node("sum_1", "aten.sum.dim_IntList", (Ref("add"), (1,)), sums),
    ]
    outputs = (Ref("sum_1"), Ref("add")) if both else (Ref("sum_1"),)
    made = schedule(lower(graph_of(calls, tuple(whole[:2]), outputs))).schedule
    verify_schedule(made)
    return made


def extents(kernel: Kernel) -> list[int]:
    return [int(axis.extent) for axis in kernel.axes]


def gpu_tile(kernel: Kernel) -> ReductionTile:
    (tile,) = [v.tile for v in kernel.variants if not isinstance(v.tile, HostTile)]
    assert isinstance(tile, ReductionTile)
    return tile


@pytest.mark.row("S:V0", "S:L1", "S:L2", "S:L26")
def test_one_kernel_reads_both_inputs_and_stores_the_sums() -> None:
    made = schedule_of(64, 128)
    (kernel,) = made.kernels
    (operation,) = [member.operation for member in kernel.members]
    assert isinstance(operation, Reduction) and operation.kind == "sum"
    assert operation.origin.nodes == ("add", "sum_1")
    assert extents(kernel) == [64, 128]
    assert kernel.reads == (*made.program.inputs,)
    assert kernel.stored == made.program.outputs == targets(operation)
    assert made.lifetimes == ()  # the sums are the caller's memory, the sum of inputs has none
    text = str(operation.args[0])
    assert text == "a[i0, r0] + b[i0, r0]"


@pytest.mark.row("S:V1", "S:B8")
def test_four_columns_are_a_row_in_registers_many_of_them_a_program() -> None:
    """No loop and no lanes lost: 128 rows of four share a program's block."""
    (kernel,) = schedule_of(64, 4).kernels
    tile = gpu_tile(kernel)
    assert extents(kernel) == [64, 4]
    assert tile.persistent and (tile.x, tile.r) == (128, 4)


@pytest.mark.row("S:V2", "S:B9", "S:B10", "S:B12")
def test_four_long_rows_are_summed_in_two_stages() -> None:
    made = schedule_of(4, 2**20)
    first, second = made.kernels
    assert extents(first) == [4 * 64, 2**14] and extents(second) == [4, 64]
    assert second.reads == first.stored and second.stored == made.program.outputs
    assert first.reads == made.program.inputs
    (part,) = first.stored
    assert [int(size) for size in made.program.buffers[part].shape] == [64, 4]
    (life,) = made.lifetimes
    assert (life.buffer, life.first, life.last) == (part, 0, 0) and second.runs_in_last_block


@pytest.mark.row("S:V3", "S:M9", "S:O7")
def test_a_sum_that_is_returned_is_stored_by_the_kernel_that_adds_it_up() -> None:
    made = schedule_of(64, 128, both=True)
    (kernel,) = made.kernels
    kinds = [type(member.operation) for member in kernel.members]
    assert kinds == [Pointwise, Reduction]
    assert set(kernel.stored) == set(made.program.outputs) and len(kernel.stored) == 2
    assert kernel.reads == made.program.inputs  # the sum is read from registers
    assert extents(kernel) == [64, 128]


@pytest.mark.row("S:V4", "S:D8", "S:L9", "S:L11", "S:L12", "S:M10", "S:T11", "S:T15")
def test_an_input_changed_between_two_readers_changes_in_its_place_in_one_kernel() -> None:
    example = torch.zeros(64, 128), torch.zeros(64, 128)
    made = scheduled(Two(changed_between), *example).schedule
    verify_schedule(made)
    (kernel,) = made.kernels
    m, new, total = (member.operation for member in kernel.members)
    (update,) = made.program.updates
    assert (update.name, (update.value,)) == (made.program.inputs[0], targets(new))
    assert isinstance(m, Pointwise) and isinstance(total, Reduction)
    assert str(m.value) == "a[i0, i1] * 2.0"  # the version before the change
    assert str(total.args[0]) == f"{update.value}[i0, r0]"  # the version after it
    assert made.lifetimes == ()  # no copy: the new version lies where the old one lay
    assert set(kernel.stored) == {*made.program.outputs, update.value}


VARIANTS = {
    "V0": (row_sums, (64, 128)),
    "V1": (row_sums, (64, 4)),
    "V2": (row_sums, (4, 2**18)),
    "V3": (both, (64, 128)),
    "V4": (changed_between, (64, 128)),
}


@pytest.mark.row("S:inv45")
@pytest.mark.parametrize("name", VARIANTS)
def test_the_package_of_each_variant_gives_eagers_answer(name: str) -> None:
    function, shape = VARIANTS[name]
    a, b = torch.randn(shape), torch.randn(shape)
    with compile(Two(function), (a, b), target="cpu") as model:
        mine, theirs = a.clone(), a.clone()
        found, wanted = model(mine, b), function(theirs, b)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
        torch.testing.assert_close(mine, theirs)
