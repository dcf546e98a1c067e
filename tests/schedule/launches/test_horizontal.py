"""Small independent kernels share a launch; what waits, is large or has other tiles does not."""

import pytest

from aotpack.ir.kernels.kernel import Schedule, launches
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Var
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.schedule.launches.horizontal import MOST_MEMBERS, NUM_WARPS
from tests.schedule.programs import Writer, apply, load, schedule_of

B, MANY, FAR = Var("b", 1, 64), Var("many", 1, 2**30), Var("far", 1, 2**24)


def chains(count: int, length: int = 2, points: int = 100) -> Program:
    """Row maxima of inputs, each scaled by the sum of the one before, ``length`` deep."""
    w = Writer((B,))
    outputs = []
    for number in range(count):
        x = w.input(f"x{number}", 8, points + number)
        for depth in range(length):
            sums = w.reduction(
                f"s{number}_{depth}", [], [8, points + number], lambda i, j, x=x: load(x, i, j)
            )
            x = w.pointwise(
                f"y{number}_{depth}",
                [8, points + number],
                lambda i, j, x=x, sums=sums: apply("div", load(x, i, j), load(sums)),
            )
        outputs.append(x)
    return w.program(*outputs)


def grouped(schedule: Schedule) -> list[int]:
    verify_schedule(schedule)
    return [len(together) for together in launches(schedule.kernels)]


@pytest.mark.row("S:K13", "S:L23", "C:J1", "C:J3", "C:B7", "S:L17", "S:T10")
def test_independent_chains_go_side_by_side() -> None:
    single = grouped(schedule_of(chains(1)))
    assert grouped(schedule_of(chains(5))) == [5 * kernels for kernels in single]


@pytest.mark.row("C:J12", "C:J16")
def test_members_have_as_many_warps() -> None:
    """Sums of short rows have one warp each alone."""
    w = Writer()
    inputs = [w.input(f"x{n}", 8, 64) for n in range(2)]
    sums = [
        w.reduction(f"s{n}", [8], [64], lambda i, r, x=x: load(x, i, r))
        for n, x in enumerate(inputs)
    ]
    schedule = schedule_of(w.program(*sums))
    assert grouped(schedule) == [2]
    own = [v for kernel in schedule.kernels for v in kernel.variants if v.arch_high > 0]
    assert {variant.tile.num_warps for variant in own} == {NUM_WARPS}
    assert {tile.num_warps for variant in own for tile in variant.others} == {1}


def test_a_kernel_alone_keeps_its_warps() -> None:
    w = Writer()
    x = w.input("x", 8, 64)
    schedule = schedule_of(w.program(w.reduction("s", [8], [64], lambda i, r: load(x, i, r))))
    assert [v.tile.num_warps for v in schedule.kernels[0].variants if v.arch_high > 0] == [1]


@pytest.mark.row("C:J4")
def test_a_launch_has_a_limit_of_members() -> None:
    groups = grouped(schedule_of(chains(MOST_MEMBERS + 3, length=1)))
    assert max(groups) == MOST_MEMBERS


def shares(count: int) -> Program:
    """Each element's share of its row's sum, between products: it may lie where the element was."""
    w = Writer()
    numbers = range(count)
    xs = [w.input(f"x{n}", 8, 8) for n in numbers]
    ys = [w.matmul(f"y{n}", 8, 8, 8, xs[n], w.weight(f"v{n}", 8, 8)) for n in numbers]
    parts = []
    for n, y in enumerate(ys):
        s = w.reduction(f"s{n}", [8], [8], lambda i, r, y=y: load(y, i, r))
        parts.append(
            w.pointwise(
                f"t{n}", [8, 8], lambda i, j, y=y, s=s: apply("div", load(y, i, j), load(s, i))
            )
        )
    weights = [w.weight(f"w{n}", 8, 8) for n in numbers]
    return w.program(*(w.matmul(f"z{n}", 8, 8, 8, parts[n], weights[n]) for n in numbers))


@pytest.mark.row("C:J14", "S:inv37")
def test_intermediates_of_one_launch_share_no_storage() -> None:
    alone, schedule = schedule_of(shares(1)), schedule_of(shares(2))
    assert any(life.storage != life.buffer for life in alone.lifetimes)
    assert 2 in grouped(schedule)
    steps = {
        name: step
        for step, together in enumerate(launches(schedule.kernels))
        for kernel in together
        for name in kernel.stored
    }
    assert all(life.first == steps[life.buffer] for life in schedule.lifetimes)
    assert all(life.storage == life.buffer for life in schedule.lifetimes)


def pairs(*shape: int | Var) -> Program:
    """Two independent maps."""
    w = Writer((B, MANY, FAR))
    inputs = [w.input(f"x{n}", *shape) for n in range(2)]
    return w.program(
        *[
            w.pointwise(f"y{n}", shape, lambda *i, x=x: apply("exp", load(x, *i)))
            for n, x in enumerate(inputs)
        ]
    )


@pytest.mark.row("S:K13", "C:J2", "C:J3", "C:J15", "C:L10")
@pytest.mark.parametrize(
    ("program", "groups"),
    [
        (pairs(1000), [2]),
        (pairs(1_000_000), [1, 1]),  # fills the machine
        (pairs(B, 10), [2]),  # how many programs is known at the call alone
        (pairs(MANY, 10), [1, 1]),  # perhaps too many
        (pairs(FAR, 10), [1, 1]),  # typically few
        (pairs(0, 5), [1, 1]),  # no program at all
    ],
    ids=["small", "large", "dynamic", "unlimited", "far", "empty"],
)
def test_what_shares_a_launch(program: Program, groups: list[int]) -> None:
    assert grouped(schedule_of(program)) == groups
