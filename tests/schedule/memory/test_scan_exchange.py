"""Which rows programs share, by architecture and size, and what such a kernel needs."""

from dataclasses import replace

import pytest

from aotpack.devices import H200
from aotpack.ir.kernels.kernel import Kernel, Schedule, gpu_variants
from aotpack.ir.kernels.tiles import ReductionTile, Variant
from aotpack.ir.operations import Scan
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from aotpack.schedule.tiles.long_rows import CLUSTER_SIZE
from aotpack.schedule.tiles.row_pipeline import few_rows, most_shared
from tests.schedule.programs import Size, Writer, apply, load, schedule_of

LONG = 65_536
CLUSTERS = dict(H200.clusters)


def shares(count: Size, length: Size, arch: int = 90) -> Schedule:
    """Each element's share of its row's sum."""
    w = Writer(tuple(size for size in (count, length) if isinstance(size, Var)))
    x = w.input("x", count, length)
    sums = w.reduction("s", [count], [length], lambda i, r: load(x, i, r))

    def value(i: object, j: object) -> object:
        return apply("div", load(x, i, j), load(sums, i))  # type: ignore[arg-type]

    return schedule_of(w.program(w.pointwise("y", [count, length], value)), arch)  # type: ignore[arg-type]


def scaled(count: Size, length: Size) -> Schedule:
    """The same, by a weight for each column: what all rows have in common."""
    w = Writer(tuple(size for size in (count, length) if isinstance(size, Var)))
    x, weight = w.input("x", count, length), w.input("w", length)
    sums = w.reduction("s", [count], [length], lambda i, r: load(x, i, r))

    def value(i: object, j: object) -> object:
        share = apply("div", load(x, i, j), load(sums, i))  # type: ignore[arg-type]
        return apply("mul", share, load(weight, j))  # type: ignore[arg-type]

    return schedule_of(w.program(w.pointwise("y", [count, length], value)))  # type: ignore[arg-type]


def cluster_sizes(kernel: Kernel, arch: int) -> list[int]:
    fitting = [v for v in gpu_variants(kernel) if v.takes(arch)]
    return [v.tile.cluster_size for v in fitting if isinstance(v.tile, ReductionTile)]


@pytest.mark.row("C:B18")
@pytest.mark.parametrize("count", [1, 8])
def test_few_long_rows_are_shared_where_programs_can_wait(count: int) -> None:
    for arch in (90, 120):
        (kernel,) = shares(count, LONG, arch).kernels
        assert cluster_sizes(kernel, arch) == [CLUSTER_SIZE]
        assert kernel.exchange == ()
    assert len(shares(count, LONG, 80).kernels) > 1


def test_rows_too_long_for_the_cache_are_shared_however_many() -> None:
    assert cluster_sizes(shares(1000, 2 * LONG, 100).kernels[0], 100) == [CLUSTER_SIZE]
    assert cluster_sizes(shares(1000, LONG, 100).kernels[0], 100) == [1]


def test_a_dynamic_number_of_rows_decides_when_called() -> None:
    (kernel,) = shares(Var("b", 1, 4096), 16_448).kernels
    limits = [v.at_most for v in gpu_variants(kernel) if v.arch_low >= 90]
    assert limits == [most_shared(H200), None, few_rows(H200), None]
    assert cluster_sizes(kernel, 90) == cluster_sizes(kernel, 120) == [CLUSTER_SIZE, 1]


def turns(kernel: Kernel, arch: int) -> list[int]:
    fitting = [v for v in gpu_variants(kernel) if v.takes(arch)]
    return [v.tile.resident for v in fitting if isinstance(v.tile, ReductionTile)]


@pytest.mark.parametrize(
    ("length", "together", "programs"),
    [(16_448, 4, 2), (LONG // 2, 4, 2), (LONG // 2 + 32, 8, 2), (LONG, 8, 2), (2 * LONG, 8, 1)],
)
def test_programs_go_from_row_to_row_where_it_was_measured(
    length: int, together: int, programs: int
) -> None:
    (kernel,) = scaled(1000, length).kernels
    assert turns(kernel, 90) == [programs * CLUSTERS[together]]
    assert cluster_sizes(kernel, 90) == [together]
    assert set(turns(kernel, 80)) == set(turns(kernel, 120)) == {0}


@pytest.mark.parametrize("length", [LONG // 2 + 1, LONG // 2 + 16, 8 * LONG, Var("n", 1, LONG)])
def test_rows_without_equal_parts_that_fit_are_not_taken_in_turn(length: Size) -> None:
    assert set(turns(scaled(1000, length).kernels[0], 90)) == {0}


def exponentials(count: Size, length: Size) -> Schedule:
    """Each element's exponential, less its row's sum."""
    w = Writer()
    x = w.input("x", count, length)
    sums = w.reduction("s", [count], [length], lambda i, r: apply("exp", load(x, i, r)))

    def value(i: object, j: object) -> object:
        return apply("sub", apply("exp", load(x, i, j)), load(sums, i))  # type: ignore[arg-type]

    return schedule_of(w.program(w.pointwise("y", [count, length], value)))  # type: ignore[arg-type]


def test_shorter_rows_are_taken_in_turn_where_l2_is_not_enough() -> None:
    assert turns(shares(1000, 32_832).kernels[0], 90) == [4 * CLUSTERS[8]]
    assert turns(shares(1000, 32_000).kernels[0], 90) == [0]
    assert turns(exponentials(1000, 32_000).kernels[0], 90) == [4 * CLUSTERS[4]]
    assert turns(exponentials(1000, 16_448).kernels[0], 90) == [0]
    assert turns(scaled(1000, 16_448).kernels[0], 90) == [2 * CLUSTERS[4]]


def test_a_dynamic_number_of_rows_may_be_taken_in_turn() -> None:
    (kernel,) = scaled(Var("b", 1, 4096), 24_640).kernels
    assert turns(kernel, 90) == [0, 2 * CLUSTERS[4]]
    assert cluster_sizes(kernel, 90) == [CLUSTER_SIZE, 4]


@pytest.mark.row("C:inv23")
@pytest.mark.parametrize(
    "change",
    [
        {"ring": 7},  # less than a part
        {"num_warps": 16},  # more threads than vectors
        {"cluster_size": 3},
        {"cluster_size": 1},  # a part is the row
        {"group": 2},
        {"kept": 2},  # of one
        {"resident": 0},
        {"persistent": True},
        {"x": 2},
    ],
)
def test_rows_in_turn_fit_their_ring(change: dict[str, int]) -> None:
    schedule = scaled(1000, LONG)
    verify_schedule(schedule)
    (kernel,) = schedule.kernels

    def changed(variant: Variant) -> Variant:
        tile = variant.tile
        if not isinstance(tile, ReductionTile) or not tile.ring:
            return variant
        return replace(variant, tile=replace(tile, **change), others=())

    wrong = replace(kernel, variants=tuple(map(changed, kernel.variants)))
    with pytest.raises(InvalidSchedule, match="cannot be taken in turn|cannot share its rows"):
        verify_schedule(replace(schedule, kernels=(wrong,)))


@pytest.mark.parametrize("length", [LONG // 2 - 1, LONG // 2 - 4, Var("n", 1, LONG)])
def test_rows_without_equal_parts_stay_whole(length: Size) -> None:
    (kernel,) = shares(8, length).kernels
    assert set(cluster_sizes(kernel, 90)) == {1} and kernel.exchange == ()


@pytest.mark.row("C:inv23")
def test_parts_must_be_equal() -> None:
    schedule = shares(8, LONG)
    verify_schedule(schedule)
    (kernel,) = schedule.kernels

    def in_threes(variant: Variant) -> Variant:
        tile = variant.tile
        if not isinstance(tile, ReductionTile) or tile.cluster_size == 1:
            return variant
        return replace(variant, tile=replace(tile, cluster_size=3), others=())

    wrong = replace(kernel, variants=tuple(map(in_threes, kernel.variants)))
    with pytest.raises(InvalidSchedule, match="programs cannot share its rows"):
        verify_schedule(replace(schedule, kernels=(wrong,)))


@pytest.mark.row("C:G20")
@pytest.mark.parametrize("count", [4, Var("b", 1, 4096)])
def test_long_scans_of_few_rows_are_chains(count: Size) -> None:
    w = Writer((count,) if isinstance(count, Var) else ())
    x = w.input("x", count, LONG)
    s, i, j = w.buffer("s", [count, LONG]), Axis("i", x.shape[0]), Axis("j", x.shape[1])
    w.operations.append(Scan((s.name,), (i, j), j, "sum", (load(x, i, j),)))
    schedule = schedule_of(w.program(s))
    (kernel,) = schedule.kernels
    look_back = [
        v.tile.look_back for v in gpu_variants(kernel) if isinstance(v.tile, ReductionTile)
    ]
    assert look_back == ([True, False] if isinstance(count, Var) else [True])
    blocks = LONG // (H200.longest_row // 2)
    shapes = [buffer.shape for buffer in (*kernel.exchange, *kernel.counters[1:])]
    assert shapes == [(Int.of(count), Int.of(blocks + 1))] * 2
    verify_schedule(schedule)
    for broken in (replace(kernel, counters=kernel.counters[1:]), replace(kernel, exchange=())):
        with pytest.raises(InvalidSchedule, match="cannot wait for each other"):
            verify_schedule(replace(schedule, kernels=(broken,)))
