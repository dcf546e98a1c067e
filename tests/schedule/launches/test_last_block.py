"""Which kernels the last programs of the one before can complete, and which need a launch."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from aotpack.ir.kernels.kernel import Schedule, gpu_variants, launches
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.program import Buffer, Program, Update
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from aotpack.schedule import schedule
from aotpack.schedule.launches.last_block import LONGEST
from tests.schedule.programs import Size, Writer, apply, load, lowered, schedule_of

LONG = 2**18


def sums(count: Size = 4, length: int = 2**20) -> Writer:
    """Sums of rows, in two kernels."""
    w = Writer((count,) if isinstance(count, Var) else ())
    x = w.input("x", count, length)
    w.reduction("y", [count], [length], lambda i, r: load(x, i, r))
    return w


def test_a_partition_of_the_user_decides_alone() -> None:
    w = sums()
    alone = lambda kernels, program: tuple((kernel,) for kernel in kernels)  # noqa: E731
    kernels = schedule(lowered(w.program(w.buffers["y"])), partition=alone).schedule.kernels
    assert len(launches(kernels)) == 2 and not any(kernel.runs_in_last_block for kernel in kernels)


def two_sums(read: Callable[[Buffer, Int, Int], object], rows: int, inner: int) -> Schedule:
    """Sums of sums: the second reduction reads what the first made at ``read``."""
    w = Writer()
    x = w.input("x", 512, 8192)
    first = w.reduction("first", [512], [8192], lambda i, r: load(x, i, r))
    value = lambda i, r: read(first, i, r)  # noqa: E731
    return schedule_of(w.program(w.reduction("y", [rows], [inner], value)))  # type: ignore[arg-type]


@pytest.mark.row("C:G19")
@pytest.mark.parametrize("count", [1, 4, Var("b", 1, 64)])
def test_the_second_half_needs_no_launch(count: Size) -> None:
    w = sums(count)
    schedule = schedule_of(w.program(w.buffers["y"]))
    first, second = schedule.kernels
    assert len(launches(schedule.kernels)) == 1 and second.runs_in_last_block
    (counter,) = second.counters
    assert counter.shape == (Int.of(count),)
    walk, close = (gpu_variants(kernel)[0].tile for kernel in (first, second))
    assert isinstance(walk, ReductionTile) and isinstance(close, ReductionTile)
    assert (walk.x, walk.num_warps) == (close.x, close.num_warps)


@pytest.mark.row("C:G19")
@pytest.mark.parametrize(
    ("read", "rows", "inner", "runs_in_last_block"),
    [
        (lambda t, i, r: load(t, r * 4 + i), 4, 128, True),
        (lambda t, i, r: load(t, i * 128 + r), 4, 128, False),  # neighbours make a row
        (lambda t, i, r: load(t, (r * 4 + i + 1) % 512), 4, 128, False),  # of other groups
        (lambda t, i, r: load(t, i + r), 1, 512, True),
    ],
)
def test_a_group_makes_what_its_last_program_reads(
    read: Callable[..., object], rows: int, inner: int, runs_in_last_block: bool
) -> None:
    schedule = two_sums(read, rows, inner)
    assert [kernel.runs_in_last_block for kernel in schedule.kernels] == [False, runs_in_last_block]
    if runs_in_last_block:
        return
    first, second = schedule.kernels
    forged = sums(4)
    legal = schedule_of(forged.program(forged.buffers["y"])).kernels[1]
    wrong = replace(second, shares_launch=True, runs_in_last_block=True, counters=legal.counters)
    with pytest.raises(InvalidSchedule):
        verify_schedule(replace(schedule, kernels=(first, wrong)))


def changed_in_place() -> Program:
    """The sums of rows go where all programs of the first kernel read."""
    w = Writer()
    x, state = w.input("x", 4, LONG), w.input("state", 4)
    value = lambda i, r: apply("mul", load(x, i, r), load(state, i))  # noqa: E731
    y = w.reduction("y", [4], [LONG], value)
    return replace(w.program(y), outputs=(), updates=(Update("state", "y"),))


def too_long() -> Program:
    w = Writer()
    x = w.input("x", 2 * LONGEST, 8192)
    first = w.reduction("first", [2 * LONGEST], [8192], lambda i, r: load(x, i, r))
    return w.program(w.reduction("y", [], [2 * LONGEST], lambda r: load(first, r)))


def alone() -> Program:
    w = sums()
    w.buffers["y"] = replace(w.buffers["y"], unfusable=True)
    return w.program(w.buffers["y"])


@pytest.mark.row("C:G19")
@pytest.mark.parametrize("program", [changed_in_place, too_long, alone])
def test_left_to_a_launch(program: Callable[[], Program]) -> None:
    assert not any(kernel.runs_in_last_block for kernel in schedule_of(program()).kernels)


@pytest.mark.row("C:G19")
def test_groups_and_counters_must_match() -> None:
    w = sums()
    schedule = schedule_of(w.program(w.buffers["y"]))
    verify_schedule(schedule)
    first, second = schedule.kernels
    (counter,) = second.counters
    fewer = replace(counter, shape=(Int.of(3),))
    for wrong in (replace(second, counters=()), replace(second, counters=(fewer,))):
        with pytest.raises(InvalidSchedule, match="cannot run in last blocks"):
            verify_schedule(replace(schedule, kernels=(first, wrong)))


def variance(rows: Size) -> ReductionTile:
    """The tile of the second half: parts, and the elements that are in none."""
    w = Writer((rows,) if isinstance(rows, Var) else ())
    x = w.input("x", rows, 1024)
    made = w.reductions(("m", "s"), [], [rows, 1024], lambda i, j: load(x, i, j), kind="welford")
    _, second = schedule_of(w.program(*made)).kernels
    assert second.runs_in_last_block
    tile = gpu_variants(second)[0].tile
    assert isinstance(tile, ReductionTile)
    return tile


def test_a_row_that_is_rarely_long_is_read_in_blocks() -> None:
    tile = variance(Var("b", 1, 2**17))
    assert not tile.persistent and tile.r == 1024


def test_a_row_of_known_length_stays_in_registers() -> None:
    assert variance(2**16).persistent
