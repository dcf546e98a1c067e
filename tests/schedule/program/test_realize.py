"""What is stored and what is inlined; the meaning stays."""

from collections.abc import Callable
from functools import partial

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.program import Buffer, Program, targets
from aotpack.ir.symbolic.integers import Indirect, Int
from aotpack.ir.values import Const, Value
from aotpack.schedule.program.realize import MAX_OPERATORS, realize
from tests.schedule.programs import F32, I64, Writer, apply, assert_same, load


def stored(program: Program) -> list[str]:
    return [name for operation in realize(program).operations for name in targets(operation)]


def chain(w: Writer, op: str, readers: int) -> list[Buffer]:
    """``t = op(x)`` and ``readers`` outputs ``t + number``."""
    x = w.input("x", 4)
    t = w.pointwise("t", [4], lambda i: apply(op, load(x, i)))
    return [
        w.pointwise(f"y{n}", [4], lambda i, n=n: apply("add", load(t, i), n))
        for n in range(readers)
    ]


@pytest.mark.row("S:E9")
def test_single_reader_takes_it_in() -> None:
    w = Writer()
    program = w.program(*chain(w, "exp", 1))
    assert stored(program) == ["y0"]
    assert_same(realize(program), program)


@pytest.mark.row("S:E9")
def test_cheap_is_recomputed_by_several_readers() -> None:
    w = Writer()
    assert stored(w.program(*chain(w, "neg", 3))) == ["y0", "y1", "y2"]


@pytest.mark.row("S:E6", "S:E9", "S:K2")
def test_expensive_is_stored_for_several_readers() -> None:
    w = Writer()
    program = w.program(*chain(w, "exp", 2))
    assert stored(program) == ["t", "y0", "y1"]
    assert_same(realize(program), program)


@pytest.mark.row("S:E9")
def test_expensive_is_stored_for_a_reader_that_broadcasts() -> None:
    w = Writer()
    x = w.input("x", 4)
    t = w.pointwise("t", [4], lambda i: apply("exp", load(x, i)))
    y = w.pointwise("y", [3, 4], lambda i, j: apply("add", load(t, j), 1))
    assert stored(w.program(y)) == ["t", "y"]


@pytest.mark.row("S:A1", "S:A10", "S:C1")
def test_view_of_a_view_is_one_index() -> None:
    w = Writer()
    x = w.input("x", 3, 4)
    a = w.pointwise("a", [4, 3], lambda i, j: load(x, j, i), op="transpose")
    b = w.pointwise("b", [12], lambda i: load(a, i // 3, i % 3), op="view")
    y = w.pointwise("y", [12], lambda i: apply("add", load(b, i), load(b, i)))
    program = w.program(y)
    assert stored(program) == ["y"]
    assert_same(realize(program), program)


@pytest.mark.row("S:E10", "S:K12")
def test_output_is_never_inlined() -> None:
    w = Writer()
    x = w.input("x", 4)
    t = w.pointwise("t", [4], lambda i: load(x, i))
    y = w.pointwise("y", [4], lambda i: load(t, i))
    assert stored(w.program(t, y)) == ["t", "y"]


@pytest.mark.row("S:D11", "S:E10", "S:K16")
def test_operand_arithmetic_is_stored_but_views_are_not() -> None:
    w = Writer()
    x, weight = w.input("x", 8, 4), w.weight("w", 6, 4)
    view = w.pointwise("view", [8, 4], lambda i, j: load(x, i, j), op="view")
    act = w.pointwise("act", [8, 4], lambda i, j: apply("exp", load(view, i, j)))
    y = w.matmul("y", 8, 6, 4, act, weight)
    cheap = w.pointwise("cheap", [8, 4], lambda i, j: apply("neg", load(view, i, j)))
    z = w.matmul("z", 8, 300, 4, cheap, w.weight("wide", 300, 4))  # tiles load a factor often
    assert stored(w.program(y, z)) == ["act", "y", "cheap", "z"]


def meeting_products(*, same_rows: bool) -> Program:
    """``relu(x @ u + b + (z @ v + c))``, maybe with x seen anew for z."""
    w = Writer()
    x, z, bias = w.input("x", 8, 4), w.input("z", 8, 4), w.weight("b", 6)
    rows = w.pointwise("rows", [8, 4], lambda i, j: load(x, i, j), op="view") if same_rows else z
    sums = []
    for name, left in (("p", x), ("q", rows)):
        made = w.matmul(name, 8, 6, 4, left, w.weight(f"{name}_weight", 6, 4))
        summed = partial(lambda made, i, j: apply("add", load(made, i, j), load(bias, j)), made)
        sums.append(w.pointwise(f"{name}_sum", [8, 6], summed))
    both = w.pointwise(
        "both", [8, 6], lambda i, j: apply("add", load(sums[0], i, j), load(sums[1], i, j))
    )
    return w.program(w.pointwise("y", [8, 6], lambda i, j: apply("relu", load(both, i, j))))


def test_an_epilogue_ends_where_it_meets_a_later_product() -> None:
    program = meeting_products(same_rows=False)
    assert stored(program) == ["p", "p_sum", "q", "y"]
    assert_same(realize(program), program)


def test_epilogues_of_products_that_may_become_one_end_together() -> None:
    assert stored(meeting_products(same_rows=True)) == ["p", "q", "y"]


@pytest.mark.row("S:E7")
def test_gather_is_stored_for_several_readers() -> None:
    def gathered(i: Int, j: Int) -> Value:
        return load(table, Int.of(Indirect(load(ids, i), Int.of(9))), j)

    w = Writer()
    ids, table = w.input("ids", 5, dtype=I64), w.weight("table", 9, 4)
    e = w.pointwise("e", [5, 4], gathered, op="embedding")
    y = w.pointwise("y", [5, 4], lambda i, j: apply("add", load(e, i, j), 1))
    z = w.pointwise("z", [5, 4], lambda i, j: apply("add", load(e, i, j), 2))
    program = w.program(y, z)
    assert stored(program) == ["e", "y", "z"]
    assert_same(realize(program), program)


@pytest.mark.parametrize(("is_weight", "steps"), [(True, ["y"]), (False, ["t", "y"])])
def test_lookups_decode_the_rows_of_a_weight(is_weight, steps) -> None:
    def looked_up(i: Int, j: Int) -> Value:
        return load(t, Int.of(Indirect(load(ids, i), Int.of(9))), j)

    w = Writer()
    declare = w.weight if is_weight else w.input
    ids, codes = w.input("ids", 5, dtype=I64), declare("codes", 9, 4, dtype=DType.INT8)
    shifted = [9, 4], lambda i, j: apply("shift_right", load(codes, i, j), Const(4, DType.INT8))
    t = w.pointwise("t", *shifted, dtype=DType.INT8)
    program = w.program(w.pointwise("y", [5, 4], looked_up, dtype=DType.INT8))
    assert stored(program) == steps
    assert_same(realize(program), program)


def test_sum_of_zeros_is_a_constant_but_of_ones_a_reduction() -> None:
    def sum_of(number: float) -> Program:
        w = Writer()
        s = w.reduction("s", [3], [4], lambda i, r: Const(number, DType.FLOAT32))
        return w.program(s)

    (operation,) = realize(sum_of(0.0)).operations
    assert type(operation).__name__ == "Pointwise"
    (operation,) = realize(sum_of(1.0)).operations
    assert type(operation).__name__ == "Reduction"


@pytest.mark.row("S:A3")
def test_origins_of_what_was_inlined_are_kept() -> None:
    w = Writer()
    program = w.program(*chain(w, "exp", 1))
    (operation,) = realize(program).operations
    assert operation.origin.nodes == ("t", "y0")
    assert program.buffers["t"].dtype is F32 and "t" not in realize(program).buffers


def test_what_is_inlined_into_one_reader_has_a_limit() -> None:
    """Each part is small enough to be inlined; together they are not."""
    w = Writer()
    x = w.input("x", 16, 4)
    parts = []
    for n in range(16):
        value = w.pointwise(f"t{n}", [4], _long_value(x, n))
        parts.append(value)

    def total(i: object) -> Value:
        found: Value = Const(0.0, F32)
        for part in parts:
            found = apply("minimum", found, load(part, i))
        return found

    program = w.program(w.pointwise("y", [4], total))
    kept = stored(program)
    assert kept == [f"t{n}" for n in range(MAX_OPERATORS // 100, 16)] + ["y"]
    assert_same(realize(program), program)


def _long_value(x: Buffer, n: int) -> Callable[[object], Value]:
    def value(i: object) -> Value:
        found: Value = load(x, n, i)
        for step in range(100):
            found = apply("add" if step % 2 else "maximum", found, step / 4)
        return found

    return value
