"""Which loops are one launch, with which tiles; and what is illegal about them."""

from dataclasses import replace

import pytest
import torch

from aotpack.devices import GPUS, H200, HOPPER, portable_cluster
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import MAX_ARCH, TurnsTile
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from aotpack.schedule.fusion.groups import MAX_KERNEL_OPERATORS
from aotpack.schedule.launches.hold_loops import hold_loops
from tests.schedule.loops import loop_in, scheduled, with_links

AT_ONCE = dict(H200.clusters)[portable_cluster()]


def tiles(loop: Kernel) -> list[TurnsTile]:
    found = [variant.tile for variant in loop.variants]
    assert all(isinstance(tile, TurnsTile) for tile in found)
    return found  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("units", "part", "depth"), [(20, 16, 32), (128, 16, 128), (130, 32, 256), (256, 32, 256)]
)
def test_a_cluster_has_all_units(units: int, part: int, depth: int) -> None:
    loop = loop_in(scheduled(units))
    (tile,) = tiles(loop)
    assert (tile.units, tile.depth, tile.cluster_size) == (part, depth, 8)
    (variant,), (sent,) = loop.variants, loop.exchange
    assert (variant.arch_low, variant.arch_high) == (HOPPER, MAX_ARCH)
    assert [str(size) for size in sent.shape] == ["2", "3", str(units)]


def test_factors_beyond_the_shared_memory_of_some_gpus_are_held_on_others() -> None:
    (variant,) = loop_in(scheduled(300, gates=2, dtype=torch.bfloat16)).variants
    assert variant.arch_low == HOPPER and variant.arch_high < max(GPUS)
    assert loop_in(scheduled(600, gates=2, dtype=torch.bfloat16)).variants == ()


def test_more_rows_have_larger_clusters_up_to_all_that_run_at_once() -> None:
    assert [one.rows for one in tiles(loop_in(scheduled(20, AT_ONCE * 4)))] == [4]
    loop = loop_in(scheduled(20, AT_ONCE * 4 + 1))
    assert [one.rows for one in tiles(loop)] == [4, 8]
    assert [one.at_most for one in loop.variants] == [AT_ONCE * 4, None]
    assert loop_in(scheduled(20, AT_ONCE * 16 + 1)).variants[-1].at_most == AT_ONCE * 16


def test_the_matrix_unit_takes_more_rows() -> None:
    loop = loop_in(scheduled(20, AT_ONCE * 16 + 1, dtype=torch.bfloat16))
    assert [one.rows for one in tiles(loop)] == [16, 32]


@pytest.mark.parametrize(("gates", "together"), [(1, 1), (2, 2), (3, 1), (4, 4), (5, 1)])
def test_products_are_one_if_few(gates: int, together: int) -> None:
    (tile,) = tiles(loop_in(scheduled(20, gates=gates)))
    assert tile.together == together


def test_many_products_of_single_elements_stay_launches() -> None:
    assert loop_in(scheduled(256)).variants and not loop_in(scheduled(260)).variants
    assert not loop_in(scheduled(256, gates=4)).variants
    assert loop_in(scheduled(256, gates=4, dtype=torch.bfloat16)).variants


@pytest.mark.parametrize(("operators", "is_held"), [(10, True), (MAX_KERNEL_OPERATORS, False)])
def test_turns_that_take_a_compiler_long_stay_launches(operators: int, is_held: bool) -> None:
    made = scheduled(20)
    plain = replace(loop_in(made), variants=(), exchange=())
    (held,) = hold_loops(made.program, (with_links(plain, ["link"], operators),), H200)
    assert bool(held.variants) is is_held


def test_few_rows_and_units_have_four_warps() -> None:
    short = loop_in(scheduled(256, AT_ONCE * 32, dtype=torch.bfloat16))
    assert [(one.rows, one.num_warps) for one in tiles(short)] == [(16, 4), (32, 8)]
    assert [one.num_warps for one in tiles(loop_in(scheduled(260, dtype=torch.bfloat16)))] == [8]


@pytest.mark.parametrize("changed", [{"cluster_size": 1}, {"depth": 16}, {"units": 1}])
def test_programs_without_all_units_are_illegal(changed: dict[str, int]) -> None:
    made = scheduled(20)
    verify_schedule(made)
    (kernel,) = made.kernels
    (variant,) = kernel.variants
    assert isinstance(variant.tile, TurnsTile)
    wrong = replace(variant, tile=replace(variant.tile, **changed))
    with pytest.raises(InvalidSchedule, match="its turns are not one launch"):
        verify_schedule(replace(made, kernels=(replace(kernel, variants=(wrong,)),)))


def test_states_without_memory_for_two_turns_are_illegal() -> None:
    made = scheduled(20)
    (kernel,) = made.kernels
    with pytest.raises(InvalidSchedule, match="its turns are not one launch"):
        verify_schedule(replace(made, kernels=(replace(kernel, exchange=()),)))
