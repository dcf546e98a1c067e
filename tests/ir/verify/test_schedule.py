"""A legal schedule passes; for each invariant, a schedule that breaks it is refused by name."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from aotpack.ir.kernels.kernel import Kernel, Lifetime, Member, Schedule
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import targets
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.verify.schedule import CHECKS, InvalidSchedule, verify_schedule
from tests.schedule.programs import Writer, apply, load, schedule_of

B = Var("b", 1, 64)


def rows() -> Schedule:
    """y = x @ w1; t = y / sum(y), in place; a kept product of both. Four launches."""
    w = Writer((B,))
    x, w1, w2 = w.input("x", B, 8), w.weight("w1", 8, 8), w.weight("w2", 8, 8)
    y = w.matmul("y", B, 8, 8, x, w1)
    sums = w.reduction("sums", [B], [8], lambda i, r: load(y, i, r))
    t = w.pointwise("t", [B, 8], lambda i, j: apply("div", load(y, i, j), load(sums, i)))
    z = w.matmul("z", B, 8, 8, t, w2)
    last = w.pointwise("last", [B, 8], lambda i, j: apply("exp", load(z, i, j)))
    return schedule_of(w.program(z, last))


def test_accepts() -> None:
    schedule = rows()
    assert [life.storage for life in schedule.lifetimes] == ["y", "y"]
    verify_schedule(schedule)


def test_every_invariant_is_checked_in_its_own_function() -> None:
    assert all(check.__name__.startswith("check_") and check.__doc__ for check in CHECKS)
    assert len(set(CHECKS)) == len(CHECKS)


def with_kernel(schedule: Schedule, name: str, change: Callable[[Kernel], Kernel]) -> Schedule:
    """The schedule with the kernel that makes ``name`` changed."""
    kernels = tuple(
        change(k) if any(name in targets(m.operation) for m in k.members) else k
        for k in schedule.kernels
    )
    return replace(schedule, kernels=kernels)


def with_member(schedule: Schedule, name: str, change: Callable[[Member], Member]) -> Schedule:
    """The schedule with the member that makes ``name`` changed."""

    def changed(kernel: Kernel) -> Kernel:
        members = (change(m) if name in targets(m.operation) else m for m in kernel.members)
        return replace(kernel, members=tuple(members))

    return with_kernel(schedule, name, changed)


def rebound(change: Callable[[Axis, Int], Int | Axis]) -> Schedule:
    """``t`` with another binding of its axes ``i0`` and ``i1`` (to the kernel's ``x``, ``r``)."""

    def moved(member: Member) -> Member:
        binding = tuple((axis, Int.of(change(axis, value))) for axis, value in member.binding)
        return replace(member, binding=binding)

    return with_member(rows(), "t", moved)


def joined(name: str) -> Schedule:
    """The kernel that makes ``name`` in the launch of the one before it."""
    return with_kernel(rows(), name, lambda kernel: replace(kernel, shares_launch=True))


def unlike_tiles() -> Schedule:
    """A product that reads nothing of the kernel before it, in that one's launch."""
    w = Writer()
    x, w1 = w.input("x", 8, 8), w.weight("w1", 8, 8)
    product = w.matmul("y", 8, 8, 8, x, w1)
    map = w.pointwise("z", [8, 8], lambda i, j: apply("exp", load(x, 7 - i, j)))
    schedule = schedule_of(w.program(product, map))
    first, second = schedule.kernels
    return replace(schedule, kernels=(first, replace(second, shares_launch=True)))


def out_of_order() -> Schedule:
    schedule = rows()
    return replace(schedule, kernels=schedule.kernels[::-1])


def undeclared_read() -> Schedule:
    return with_kernel(rows(), "t", lambda k: replace(k, reads=()))


def twice_stored() -> Schedule:
    schedule = rows()
    return replace(schedule, kernels=(*schedule.kernels, schedule.kernels[-1]))


def output_not_stored() -> Schedule:
    return with_kernel(rows(), "last", lambda k: replace(k, stored=("z",)))


def stored_elsewhere() -> Schedule:
    schedule = with_kernel(rows(), "last", lambda k: replace(k, stored=("z",)))
    return with_kernel(schedule, "t", lambda k: replace(k, stored=(*k.stored, "last")))


def forgotten_operation() -> Schedule:
    return with_kernel(rows(), "t", lambda k: replace(k, members=(*k.members, k.members[0])))


def half_bound() -> Schedule:
    return with_member(rows(), "t", lambda m: replace(m, binding=m.binding[:1]))


def foreign_axis() -> Schedule:
    return rebound(lambda axis, value: Axis("q", axis.extent) if axis.name == "i1" else value)


def row_over_columns() -> Schedule:
    return with_member(rows(), "t", lambda m: replace(m, outer=True))


def leaves_its_axis() -> Schedule:
    return rebound(lambda axis, value: value + 1 if axis.name == "i1" else value)


def point_twice() -> Schedule:
    return rebound(lambda axis, value: value // 2 if axis.name == "i1" else value)


def other_register() -> Schedule:
    return rebound(lambda axis, value: Int.of(B) - 1 - value if axis.name == "i0" else value)


def read_before_made() -> Schedule:
    return with_kernel(rows(), "t", lambda k: replace(k, members=k.members[::-1]))


def rows_apart(step: int) -> Schedule:
    schedule = rows()
    return replace(schedule, strides={**schedule.strides, "t": (Int.of(step), Int.of(1))})


def turned_output() -> Schedule:
    schedule = rows()
    return replace(schedule, strides={**schedule.strides, "z": (Int.of(1), Int.of(B))})


def changed_life(name: str, **fields: int | str) -> Schedule:
    schedule = rows()
    lives = (
        replace(life, **fields) if life.buffer == name else life for life in schedule.lifetimes
    )
    return replace(schedule, lifetimes=tuple(lives))


def doubled_life() -> Schedule:
    schedule = rows()
    return replace(schedule, lifetimes=(*schedule.lifetimes, schedule.lifetimes[0]))


def alive_at_once() -> Schedule:
    return changed_life("y", last=2)


def overwrites_others() -> Schedule:
    schedule = rows()
    return replace(schedule, strides={**schedule.strides, "t": (Int.of(1), Int.of(B))})


def too_small_storage() -> Schedule:
    schedule = rows()
    lives = (*schedule.lifetimes, Lifetime("sums", "x", 3, 3))
    return replace(schedule, lifetimes=lives)


def no_variant() -> Schedule:
    return with_kernel(rows(), "t", lambda k: replace(k, variants=()))


def limited_variant() -> Schedule:
    def limited(kernel: Kernel) -> Kernel:
        variants = tuple(replace(v, at_most=9) for v in kernel.variants)
        return replace(kernel, variants=variants)

    return with_kernel(rows(), "t", limited)


@pytest.mark.row(
    "S:G7",
    "S:M11",
    "S:inv2",
    "S:inv3",
    "S:inv4",
    "S:inv5",
    "S:inv22",
    "S:inv32",
    "S:inv37",
    "S:inv38",
    "C:inv3",
    "C:inv6",
)
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (out_of_order, "is read before it is stored"),
        (lambda: joined("t"), "y is read before it is stored"),
        (unlike_tiles, r"the tiles .*MatmulTile.* do not share a launch"),
        (undeclared_read, "y is not among its reads"),
        (twice_stored, "is stored by 2 kernels"),
        (output_not_stored, "last is stored by 0 kernels"),
        (stored_elsewhere, "last is stored, and made by 0 of its members"),
        (forgotten_operation, r"the kernels make .*, the program makes"),
        (half_bound, r"t has the axes \[i0, i1\], bound are \[i0\]"),
        (foreign_axis, "t: i1 = q uses q"),
        (row_over_columns, "t: i1 = r uses r"),
        (leaves_its_axis, r"t: i1 = r \+ 1 leaves \[0, 8\)"),
        (point_twice, "t meets a point twice"),
        (other_register, r"t reads .*, which another program may have made"),
        (read_before_made, "t reads sums before it is made"),
        (lambda: rows_apart(40), r"t: float32\[b, 8\] has the strides \[40, 1\]"),
        (lambda: rows_apart(7), r"t: float32\[b, 8\] has the strides \[7, 1\]"),
        (turned_output, r"z: float32\[b, 8\] is not contiguous"),
        (doubled_life, "a buffer has two lifetimes"),
        (lambda: changed_life("t", first=2), "t is stored at launch 1, where it does not begin"),
        (lambda: changed_life("y", last=0), "y is read at launch 1, where it does not live"),
        (alive_at_once, "y and t live in y at once"),
        (overwrites_others, "t overwrites other elements of y"),
        (too_small_storage, "sums does not fit x"),
        (no_variant, "for architecture 0 there are 0 variants"),
        (limited_variant, "there are 1 variants, 0 of them without limit"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_refuses(make: Callable[[], Schedule], message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        verify_schedule(make())


@pytest.mark.row("S:M12", "C:inv3")
def test_refuses_fewer_points_than_the_kernel_has() -> None:
    def shorter(member: Member) -> Member:
        operation = member.operation
        assert isinstance(operation, Pointwise)
        axes = (operation.axes[0], Axis("i1", Int.of(4)))
        halved = replace(operation, axes=axes, index=tuple(map(Int.of, axes)))
        values = (value for _, value in member.binding)
        return replace(member, operation=halved, binding=tuple(zip(axes, values, strict=True)))

    with pytest.raises(InvalidSchedule, match=r"t has \[3, 4\] points, the kernel \[3, 8\]"):
        verify_schedule(with_member(rows(), "t", shorter))
