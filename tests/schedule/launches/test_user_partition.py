"""A partition of the user says which kernels share a launch; one that cannot be is refused."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
import torch

import aotpack
from aotpack.errors import UsageError
from aotpack.ir.kernels.kernel import Kernel, Schedule, launches
from aotpack.ir.program import Program, Update
from aotpack.ir.symbolic.integers import Var
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.schedule import Partition, schedule
from aotpack.schedule.launches.horizontal import group_small_kernels
from aotpack.schedule.launches.user_partition import MOST_BUFFERS
from tests.e2e.models import Function
from tests.schedule.programs import Writer, apply, load, lowered

Kernels = tuple[Kernel, ...]
B = Var("b", 1, 64)
X = torch.linspace(-2, 2, 24).reshape(4, 6)


def apart(kernels: Kernels, program: Program) -> list[Kernels]:
    """Every kernel launches alone."""
    return [(kernel,) for kernel in kernels]


def pairs(kernels: Kernels, program: Program) -> Iterable[Kernels]:
    """Two neighbours at most in each group of the default rule."""
    for group in group_small_kernels(kernels, program):
        yield from (group[n : n + 2] for n in range(0, len(group), 2))


def maps(count: int, points: int | Var = 100) -> Program:
    """Independent exponentials."""
    w = Writer((B,))
    inputs = [w.input(f"x{n}", points) for n in range(count)]
    return w.program(
        *[
            w.pointwise(f"y{n}", [points], lambda i, x=x: apply("exp", load(x, i)))
            for n, x in enumerate(inputs)
        ]
    )


def scheduled(program: Program, partition: Partition) -> Schedule:
    made = schedule(lowered(program), partition=partition).schedule
    verify_schedule(made)
    return made


@pytest.mark.row("C:J5")
@pytest.mark.parametrize(
    ("partition", "sizes"),
    [
        (apart, [1, 1, 1, 1, 1]),
        (pairs, [2, 2, 1]),
        (group_small_kernels, [5]),
        (lambda kernels, program: [kernels[::-1], ()], [5]),
    ],
)
def test_a_partition_is_followed(partition: Partition, sizes: list[int]) -> None:
    made = scheduled(maps(5), partition)
    assert [len(group) for group in launches(made.kernels)] == sizes


@pytest.mark.row("C:J5")
def test_larger_kernels_than_ours_may_share() -> None:
    large = maps(2, points=1_000_000)
    assert len(launches(scheduled(large, group_small_kernels).kernels)) == 2
    assert len(launches(scheduled(large, lambda kernels, program: [kernels]).kernels)) == 1


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Sums that wait for nothing, and what waits for them."""
    rows, columns = x.exp().sum(1), x.neg().amax(0)
    return rows, columns, x.t().cumsum(1), rows[:, None] * columns


@pytest.mark.row("C:J5")
@pytest.mark.parametrize("partition", [apart, pairs])
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_answers_are_the_same(partition: Partition, target: str) -> None:
    model = aotpack.compile(Function(several, 1), (X,), target=target, partition=partition)
    torch.testing.assert_close(model(X), several(X))


# --- what is refused ----------------------------------------------------------------------------


def chain() -> Program:
    """y, along rows, reads s, which is along columns."""
    w = Writer()
    x = w.input("x", 8, 100)
    s = w.reduction("s", [100], [8], lambda j, i: load(x, i, j))
    y = w.reduction("y", [8], [100], lambda i, j: apply("mul", load(x, i, j), load(s, j)))
    return w.program(y)


def updated() -> Program:
    """``x`` becomes x + 1, after its sum was taken."""
    w = Writer()
    x = w.input("x", 8, 100)
    s = w.reduction("s", [100], [8], lambda j, i: load(x, i, j))
    w.pointwise("new", [8, 100], lambda i, j: apply("add", load(x, i, j), 1.0))
    return replace(w.program(s), updates=(Update("x", "new"),))


def reversed_order(kernels: Kernels, program: Program) -> list[Kernels]:
    return [(kernel,) for kernel in reversed(kernels)]


def one_group(kernels: Kernels, program: Program) -> list[Kernels]:
    return [kernels]


def without_the_last(kernels: Kernels, program: Program) -> list[Kernels]:
    return [kernels[:-1]]


def the_first(kernels: Kernels, program: Program) -> list[Kernels]:
    return [kernels[:1]]


def twice(kernels: Kernels, program: Program) -> list[Kernels]:
    return [kernels, kernels[:1]]


def renamed(kernels: Kernels, program: Program) -> list[Kernels]:
    return [(replace(kernels[0], name="mine"), *kernels[1:])]


def raises(kernels: Kernels, program: Program) -> list[Kernels]:
    raise ValueError("no idea")


def nothing(kernels: Kernels, program: Program) -> None:
    return None


def names(kernels: Kernels, program: Program) -> list[list[str]]:
    return [[kernel.name for kernel in kernels]]


@pytest.mark.row("C:J5")
@pytest.mark.parametrize(
    ("program", "partition", "words"),
    [
        (chain(), reversed_order, r"\(stores y\) reads \w+, which no group before its own stores"),
        (chain(), one_group, "reads [a-z_0-9]+, which no group before its own stores"),
        (updated(), reversed_order, r"\(stores new\) overwrites x before others have read it"),
        (updated(), one_group, r"\(stores new\) overwrites x before others have read it"),
        (maps(3), without_the_last, r"no group has \w+ \(stores y2\); each kernel is in one"),
        (maps(3), the_first, r"no group has \w+ \(stores y1\), \w+ \(stores y2\); each"),
        (maps(3), twice, r"\(stores y0\) is there twice; each kernel is in one group"),
        (maps(3), renamed, "mine in a group is none of the kernels it was given"),
        (maps(3), names, "a str in a group is none of the kernels it was given"),
        (maps(3), raises, "ValueError: no idea; accepted is a function from"),
        (maps(3), nothing, "TypeError: .*accepted is a function from"),
        (maps(3), 3, "'int' object is not callable; accepted is a function from"),
        (maps(2, points=0), one_group, "shares no launch; accepted are loop kernels"),
        (maps(MOST_BUFFERS // 2 + 1), one_group, f"touches 252 tensors; at most {MOST_BUFFERS}"),
    ],
)
def test_what_a_partition_must_not_do(program: Program, partition: Partition, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        schedule(lowered(program), partition=partition)
    assert str(caught.value).startswith(f"partition {getattr(partition, '__name__', 'int')}: ")
