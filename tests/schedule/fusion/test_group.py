"""Binding an operation's axes to a kernel's, and the rules that refuse."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.ir.kernels.access import delinearize, linearize
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Axis, Int, Var, product
from aotpack.ir.values import Apply, Const, Guarded, IndexValue
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from aotpack.schedule.fusion.group import Group, join, start
from aotpack.schedule.fusion.refusal import Refusal
from tests.schedule.programs import BOOL, F32, I64, Writer, apply, load, schedule_of

B = Var("b", 1, 16)


@pytest.mark.row("C:A2", "C:A3", "C:A4", "C:A9", "C:inv2")
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_digits_are_the_inverse_of_linear(sizes: list[int], data: st.DataObject) -> None:
    axes = tuple(Axis(f"i{k}", Int.of(size)) for k, size in enumerate(sizes))
    position = data.draw(st.integers(0, math.prod(sizes) - 1))
    point = dict(delinearize(axes, Int.of(position)))
    assert all(0 <= int(value) < int(axis.extent) for axis, value in point.items())
    assert int(linearize(axes, point)) == position


@pytest.mark.row("C:A4", "C:A6", "C:A10", "C:inv2")
def test_linear_of_digits_is_the_position_itself() -> None:
    axes = (Axis("i", Int.of(B)), Axis("j", Int.of(6)), Axis("k", Int.of(4)))
    x = Int.of(Axis("x", product(axis.extent for axis in axes)))
    assert linearize(axes, delinearize(axes, x)) is x


@pytest.mark.row("S:A14")
def test_no_point_has_zeros_for_digits() -> None:
    axes = (Axis("i", Int.of(3)), Axis("j", Int.of(0)))
    found = delinearize(axes, Int.of(Axis("x", Int.of(0))))
    assert all(int(digit) == 0 for digit in found.values())


def joined(program: Program) -> Group | Refusal:
    """The last operation offered to the kernel of all before it."""
    first, *rest = program.operations
    group = start(first)
    for operation in rest:
        found = join(group, operation, program)
        if isinstance(found, Refusal):
            assert operation is rest[-1]
            return found
        group = found
    return group


@pytest.mark.row("S:M9", "S:Q3", "C:B5")
def test_pointwise_joins_a_row_it_reads() -> None:
    w = Writer((B,))
    x = w.input("x", B, 8)
    total = w.reduction("total", [B], [8], lambda i, r: load(x, i, r))
    y = w.pointwise("y", [B, 8], lambda i, j: apply("div", load(x, i, j), load(total, i)))
    group = joined(w.program(y))
    assert isinstance(group, Group) and len(group.members) == 2 and not group.members[1].outer


@pytest.mark.row("S:M9", "C:B5", "C:B12")
def test_once_a_row_joins_as_outer() -> None:
    w = Writer((B,))
    x = w.input("x", B, 8)
    total = w.reduction("total", [B], [8], lambda i, r: load(x, i, r))
    y = w.pointwise("y", [B], lambda i: apply("sqrt", load(total, i)))
    group = joined(w.program(y))
    assert isinstance(group, Group) and group.members[1].outer


@pytest.mark.row("S:M12", "C:B4")
def test_flat_kernel_takes_the_axes_of_a_reduction() -> None:
    w = Writer((B,))
    x = w.input("x", B, 8)
    t = w.pointwise("t", [B, 8], lambda i, j: apply("exp", load(x, i, j)))
    total = w.reduction("total", [B], [8], lambda i, r: load(t, i, r))
    group = joined(w.program(t, total))
    assert isinstance(group, Group) and [axis.name for axis in group.axes] == ["x", "r"]


@pytest.mark.row("S:M6", "S:M12", "C:B4")
def test_middle_reduction_renumbers_the_flat_kernel() -> None:
    w = Writer((B,))
    x = w.input("x", 3, 8, 5)
    t = w.pointwise("t", [3, 8, 5], lambda i, j, k: apply("exp", load(x, i, j, k)))
    total = w.reduction("total", [3, 5], [8], lambda i, k, r: load(t, i, r, k))
    group = joined(w.program(t, total))
    assert isinstance(group, Group)
    x_axis, r_axis = group.axes
    assert (int(x_axis.extent), int(r_axis.extent)) == (15, 8)


def refused_shift(w: Writer) -> None:
    x = w.input("x", 8)
    t = w.pointwise("t", [8], lambda i: apply("exp", load(x, i)))
    w.pointwise("y", [8], lambda i: load(t, Int.of(7) - i))


def refused_other_rows(w: Writer) -> None:
    x = w.input("x", 6, 8)
    a = w.reduction("a", [6], [8], lambda i, r: load(x, i, r))
    w.reduction("b", [8], [6], lambda j, r: apply("add", load(x, r, j), load(a, r)))


def refused_row_reads_spread(w: Writer) -> None:
    x = w.input("x", 6, 8)
    a = w.reduction("a", [6], [8], lambda i, r: load(x, i, r))
    t = w.pointwise("t", [6, 8], lambda i, j: apply("div", load(x, i, j), load(a, i)))
    w.pointwise("y", [6], lambda i: load(t, i, 0))


def refused_nothing_shared(w: Writer) -> None:
    x, z = w.input("x", 8), w.input("z", 8)
    w.pointwise("t", [8], lambda i: apply("exp", load(x, i)))
    w.pointwise("y", [8], lambda i: apply("exp", load(z, i)))


def refused_template(w: Writer) -> None:
    x, weight = w.input("x", 8, 8), w.weight("w", 8, 8)
    t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(x, i, j)))
    w.matmul("y", 8, 8, 8, t, weight)


@pytest.mark.row("S:M1", "S:M11", "S:M12", "S:inv21")
@pytest.mark.parametrize(
    "write",
    [
        refused_shift,
        refused_other_rows,
        refused_row_reads_spread,
        refused_nothing_shared,
        refused_template,
    ],
    ids=lambda f: f.__name__,
)
def test_refuses(write: object) -> None:
    w = Writer((B,))
    write(w)  # type: ignore[operator]
    assert isinstance(joined(w.program()), Refusal)


@pytest.mark.row("S:M12", "S:inv22", "C:inv3")
@pytest.mark.parametrize(
    "index",
    [
        lambda i, r: (i // 2, r),
        lambda i, r: (i, r % 2),
        lambda i, r: (7 - i, r),
        lambda i, r: (Int.of(0), r),
    ],
)
def test_renumbering_must_meet_each_point_once(index: Callable[..., tuple[Int, Int]]) -> None:
    w = Writer()
    t = w.pointwise("t", [8, 4], lambda i, j: apply("exp", load(w.input("x", 8, 4), i, j)))
    total = w.reduction("total", [8], [4], lambda i, r: load(t, *index(i, r)))
    assert isinstance(joined(w.program(t, total)), Refusal)


@pytest.mark.row("S:M12", "S:Q3")
def test_binding_must_meet_each_point_once() -> None:
    w = Writer()
    t = w.pointwise("t", [8, 4], lambda i, j: apply("exp", load(w.input("x", 8, 4), i, j)))

    def padded(i: Int, j: Int) -> Guarded:
        """The upper half of t, with as much beside it."""
        inside = Apply("lt", (IndexValue(j, I64), Const(4, I64)), BOOL)
        return Guarded(inside, load(t, i, j), Const(0.0, F32), F32)

    y = w.pointwise("y", [4, 8], padded)
    assert isinstance(joined(w.program(t, y)), Refusal)


def product_and_epilogue(rows: int, row: int | None) -> Program:
    """A product of some rows; what follows reads all of it, or always the row ``row`` of it."""
    w = Writer(())
    x, weight, other = w.input("x", rows, 8), w.weight("w", 6, 8), w.input("other", rows, 6)
    y = w.matmul("y", rows, 6, 8, x, weight)
    z = w.pointwise(
        "z",
        [rows, 6],
        lambda i, j: apply("add", load(y, i if row is None else row, j), load(other, i, j)),
    )
    return w.program(z)


@pytest.mark.parametrize("row", [None, 0])
def test_a_product_of_one_row_takes_its_epilogue_however_the_row_is_named(row: int | None) -> None:
    program = product_and_epilogue(1, row)
    group = joined(program)
    assert isinstance(group, Group) and len(group.members) == 2
    schedule = schedule_of(program)
    verify_schedule(schedule)
    assert len(schedule.kernels) == 1


def test_a_row_among_several_is_in_another_program_s_registers() -> None:
    assert isinstance(joined(product_and_epilogue(2, None)), Group)
    program = product_and_epilogue(2, 0)
    assert isinstance(joined(program), Refusal)
    verify_schedule(schedule_of(program))
    schedule = schedule_of(product_and_epilogue(2, None))
    (kernel,) = schedule.kernels
    product, epilogue = kernel.members
    epilogue = replace(epilogue, operation=program.operations[-1])
    wrong = replace(kernel, members=(product, epilogue))
    with pytest.raises(InvalidSchedule, match=r"z reads y\[0, .*, which another program may have"):
        verify_schedule(replace(schedule, program=program, kernels=(wrong,)))


def test_a_reduction_of_the_only_row_is_not_an_epilogue() -> None:
    w = Writer(())
    y = w.matmul("y", 1, 6, 8, w.input("x", 1, 8), w.weight("w", 6, 8))
    total = w.reduction("total", [1], [6], lambda i, r: load(y, i, r))
    assert isinstance(joined(w.program(total)), Refusal)
