"""Which operations share a kernel, and that the kernels together compute the program."""

from collections.abc import Callable
from functools import reduce

import pytest

from aotpack.ir.program import Program, targets
from aotpack.ir.symbolic.integers import Var
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.fusion.groups import (
    MAX_BUFFERS,
    MAX_KERNEL_OPERATORS,
    MAX_MEMBERS,
    MOST_TRIED,
)
from aotpack.schedule.program.realize import realize
from tests.schedule.programs import Writer, apply, assert_same, load, replayed, schedule_of

B, S = Var("b", 1, 16), Var("s", 1, 32)
SIZES = [{"b": 1, "s": 1}, {"b": 3, "s": 5}, {"b": 16, "s": 31}]


def softmax(outer: bool = False) -> Program:
    """Along the last dimension, or the first."""
    w = Writer((B, S))
    x = w.input("x", B, S)
    kept, gone = (S, B) if outer else (B, S)

    def at(k: object, r: object) -> object:
        return load(x, r, k) if outer else load(x, k, r)

    top = w.reduction("top", [kept], [gone], at, kind="max")
    total = w.reduction(
        "total", [kept], [gone], lambda k, r: apply("exp", apply("sub", at(k, r), load(top, k)))
    )

    def value(i: object, j: object) -> object:
        k = j if outer else i
        return apply("div", apply("exp", apply("sub", load(x, i, j), load(top, k))), load(total, k))

    return w.program(w.pointwise("y", [B, S], value))


def row_and_column_sums() -> Program:
    w = Writer((B, S))
    x = w.input("x", B, S)
    rows = w.reduction("rows", [B], [S], lambda i, r: load(x, i, r))
    columns = w.reduction("columns", [S], [B], lambda j, r: load(x, r, j))
    return w.program(rows, columns)


def two_row_sums() -> Program:
    w = Writer((B, S))
    x = w.input("x", B, S)
    a = w.reduction("a", [B], [S], lambda i, r: load(x, i, r))
    b = w.reduction("b", [B], [S], lambda i, r: apply("exp", load(x, i, r)))
    return w.program(a, b)


def linear_and_epilogue() -> Program:
    w = Writer((B, S))
    x, weight, bias = w.input("x", B, 8), w.weight("w", 6, 8), w.weight("bias", 6)
    y = w.matmul("y", B, 6, 8, x, weight)
    z = w.pointwise("z", [B, 6], lambda i, j: apply("add", load(y, i, j), load(bias, j)))
    return w.program(w.pointwise("gelu", [B, 6], lambda i, j: apply("tanh", load(z, i, j))))


def transposed_epilogue() -> Program:
    w = Writer((B, S))
    x, weight = w.input("x", B, 8), w.weight("w", 6, 8)
    y = w.matmul("y", B, 6, 8, x, weight)
    return w.program(w.pointwise("t", [6, B], lambda j, i: apply("exp", load(y, i, j))))


def linear_then_row_sum() -> Program:
    w = Writer((B, S))
    x, weight = w.input("x", B, 8), w.weight("w", 6, 8)
    y = w.matmul("y", B, 6, 8, x, weight)
    return w.program(w.reduction("sum", [B], [6], lambda i, r: load(y, i, r)))


def stored_row_then_shift() -> Program:
    """A neighbour's value is in another program: no fusion."""
    w = Writer((B, S))
    x = w.input("x", 64)
    t = w.pointwise("t", [64], lambda i: apply("exp", load(x, i)))
    y = w.pointwise("y", [32], lambda i: apply("add", load(t, i * 2), load(t, i * 2 + 1)))
    return w.program(t, y)


def row_then_mirror() -> Program:
    """As many points, but half of each sum is in another program: no fusion."""
    w = Writer((B, S))
    x = w.input("x", 64)
    t = w.pointwise("t", [64], lambda i: apply("exp", load(x, i)))
    y = w.pointwise("y", [64], lambda i: apply("add", load(t, i), load(t, 63 - i)))
    return w.program(t, y)


def cycle() -> Program:
    """``y`` shares most with the kernel of ``t``, but needs what a matmul makes of ``t``."""
    w = Writer((B, S))
    x, weight = w.input("x", 8, 8), w.weight("w", 8, 8)
    t = w.pointwise("t", [8, 8], lambda i, j: apply("exp", load(x, i, j)))
    z = w.matmul("z", 8, 8, 8, t, weight)
    sums = w.reduction("sums", [8], [8], lambda i, r: load(z, i, r))
    y = w.pointwise(
        "y",
        [8, 8],
        lambda i, j: apply("add", apply("mul", load(t, i, j), load(x, i, j)), load(sums, i)),
    )
    return w.program(t, y)


@pytest.mark.row(
    "S:L5",
    "S:L21",
    "S:M6",
    "S:M9",
    "S:M13",
    "S:M14",
    "S:T15",
    "S:inv10",
    "C:B2",
    "C:B3",
    "C:B4",
    "C:B5",
    "C:I4",
    "S:Q4",
    "S:H29",
    "C:inv8",
)
@pytest.mark.parametrize(
    ("make", "kernels"),
    [
        (softmax, 1),
        (lambda: softmax(outer=True), 1),
        (row_and_column_sums, 2),
        (two_row_sums, 1),
        (linear_and_epilogue, 1),
        (transposed_epilogue, 1),
        (linear_then_row_sum, 2),
        (stored_row_then_shift, 2),
        (row_then_mirror, 2),
        (cycle, 3),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_kernels(make: Callable[[], Program], kernels: int) -> None:
    program = make()
    schedule = schedule_of(program)
    assert len(schedule.kernels) == kernels
    for sizes in SIZES:
        assert_same(program, replayed(schedule), sizes)


@pytest.mark.row("S:L5", "S:M17", "S:inv3")
def test_every_operation_is_in_one_kernel() -> None:
    program = realize(cycle())
    members = [member.operation for kernel in fuse(program) for member in kernel.members]
    assert sorted(map(str, members)) == sorted(map(str, program.operations))


@pytest.mark.row("S:K8", "S:K9", "S:O7")
def test_a_kernel_stores_what_others_read_and_nothing_else() -> None:
    (kernel,) = fuse(realize(softmax()))
    assert kernel.stored == ("y",)
    assert kernel.reads == ("x",)


def test_a_kernel_has_a_limit_of_operators() -> None:
    w = Writer()
    x = w.input("x", 8)

    def long(start: int) -> Callable[[object], object]:
        def value(i: object) -> object:
            found = load(x, i)
            for number in range(MAX_KERNEL_OPERATORS // 2):
                found = apply("add" if number % 2 else "mul", found, start + number)
            return found

        return value

    y = [w.pointwise(f"y{n}", [8], long(1000 * n)) for n in range(3)]
    assert [len(kernel.members) for kernel in fuse(w.program(*y))] == [2, 1]


def test_a_kernel_has_a_limit_of_buffers() -> None:
    w = Writer()
    x = w.input("x", 8)
    many = []
    for n in range(4):
        others = [w.input(f"x{n}_{k}", 8) for k in range(MAX_BUFFERS // 3)]

        def value(i: object, others: list[object] = others) -> object:
            return reduce(lambda a, b: apply("add", a, load(b, i)), others, load(x, i))

        many.append(w.pointwise(f"y{n}", [8], value))
    assert [len(kernel.members) for kernel in fuse(w.program(*many))] == [2, 2]


def test_a_buffer_that_all_read_is_offered_to_the_latest_kernels() -> None:
    """Kernels whose first operation reads all; ``y`` reads what is in the last one."""
    w = Writer()
    x = w.input("x", 8, 8)
    given = [w.input(f"w{n}", 8, 8) for n in range(MOST_TRIED + 5)]
    rows = [w.matmul(f"p{n}", 8, 8, 8, x, other) for n, other in enumerate(given)]
    y = w.pointwise("y", [8, 8], lambda i, j: apply("add", load(x, i, j), load(rows[-1], i, j)))
    kernels = fuse(w.program(*rows, y))
    assert len(kernels) == len(rows)
    assert [targets(m.operation) for m in kernels[-1].members] == [(rows[-1].name,), ("y",)]


@pytest.mark.row("S:M8", "S:inv24")
def test_a_kernel_has_a_limit() -> None:
    w = Writer()
    x = w.input("x", 8)
    many = [
        w.pointwise(f"y{n}", [8], lambda i, n=n: apply("add", load(x, i), n)) for n in range(70)
    ]
    first, second = fuse(w.program(*many))
    assert (len(first.members), len(second.members)) == (MAX_MEMBERS, 70 - MAX_MEMBERS)
