"""Products with weights made of codes: widened, merged and scaled as plain ones, and only then."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Matmul, Pointwise
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value, walk
from aotpack.schedule.fusion.code_scales import scale_codes_after_products
from aotpack.schedule.program.merge_products import has_weight, merge_products
from aotpack.schedule.program.prologue import widen_in_products
from aotpack.schedule.program.realize import realize
from tests.e2e.models import Function
from tests.schedule.programs import F32, Writer, apply, assert_same, load, scheduled

ROWS, WIDTH, DEPTH = 3, 64, 16
Right = Callable[[Buffer, Buffer, Axis, Axis], Value]
"""The right factor: of codes, scales, n and k."""


def code(codes: Buffer, *index: Int) -> Apply:
    return Apply("cast", (load(codes, *index),), F32)


def scaled(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", code(q, Int.of(n), Int.of(k)), load(s, n, 0))


def grouped(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", code(q, Int.of(n), Int.of(k)), load(s, n, Int.of(k) // 8))


def of_bytes(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    """Halves of a row in the codes of another place."""
    place = Int.of(k) % 8
    half = IndexValue(Int.of(k) // 8, F32)
    return apply("mul", apply("add", code(q, Int.of(n), place), half), load(s, n, 0))


def shifted(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", apply("add", code(q, Int.of(n), Int.of(k)), 3), load(s, n, 0))


def by_row_number(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", code(q, Int.of(n), Int.of(k)), IndexValue(Int.of(n), F32))


def in_some_rows(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    inside = Apply("lt", (IndexValue(Int.of(n), F32), Const(9.0, F32)), DType.BOOL)
    return Guarded(inside, code(q, Int.of(n), Int.of(k)), Const(0.0, F32), F32)


def in_some_columns(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    inside = Apply("lt", (IndexValue(Int.of(k), F32), Const(9.0, F32)), DType.BOOL)
    return Guarded(inside, code(q, Int.of(n), Int.of(k)), Const(0.0, F32), F32)


def of_sums(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", code(q, Int.of(n), Int.of(k)), apply("add", load(s, n, 0), 1))


def of_scales_alone(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return load(s, n, 0)


def in_steps(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", code(q, Int.of(n), Int.of(k)), load(s, n, Int.of(k) * 2))


def from_the_end(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return code(q, -Int.of(n) + (WIDTH - 1), Int.of(k))


def by_columns(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return code(q, Int.of(k), Int.of(n))


def looked_up(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    place = Int.of(Indirect(load(q, n, 0), Int.of(DEPTH)))
    return apply("mul", code(q, Int.of(n), Int.of(k)), load(s, n, place + Int.of(k)))


def from_a_place(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    place = Int.of(Indirect(load(q, 0, 0), Int.of(DEPTH)))
    return apply("mul", code(q, Int.of(n), Int.of(k)), load(s, n, place + Int.of(k)))


def on_diagonals(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", code(q, Int.of(n), Int.of(k)), load(s, n, Int.of(k) + Int.of(n)))


def products(
    *rights: Right, scales: int = DEPTH, rows_of_scales: int = WIDTH, are_inputs: bool = False
) -> Program:
    """Linear layers of one input, without biases."""
    w = Writer()
    x, outputs = w.input("x", ROWS, DEPTH), list[Buffer]()
    declare = w.input if are_inputs else w.weight
    for number, right in enumerate(rights):
        codes = declare(f"q{number}", WIDTH, DEPTH, dtype=DType.INT8)
        steps = w.weight(f"s{number}", rows_of_scales, scales)
        product = w.matmul(f"p{number}", ROWS, WIDTH, DEPTH, x, codes)
        made = w.operations[-1]
        assert isinstance(made, Matmul)
        w.operations[-1] = replace(made, rhs=right(codes, steps, made.n, made.k))
        outputs.append(
            w.pointwise(f"y{number}", [ROWS, WIDTH], lambda i, j, p=product: load(p, i, j))
        )
    return w.program(*outputs)


@pytest.mark.parametrize("right", [scaled, grouped, of_bytes, shifted])
def test_products_with_one_formula_merge(right: Right) -> None:
    program = products(right, right, scales=4)
    merged = merge_products(program)
    assert [one.parts for one in merged.packed] == [("q0", "q1"), ("s0", "s1")]
    assert_same(program, merged)


@pytest.mark.parametrize(
    "program",
    [
        products(scaled, shifted),
        products(scaled, grouped),
        products(by_row_number, by_row_number),
        products(in_some_rows, in_some_rows),
        products(of_scales_alone, of_scales_alone),
        products(in_steps, in_steps, scales=2 * DEPTH),
        products(from_the_end, from_the_end),
        products(in_some_columns, in_some_columns),
        products(looked_up, looked_up, scales=2 * DEPTH),
        products(from_a_place, from_a_place, scales=2 * DEPTH),
        products(on_diagonals, on_diagonals, scales=DEPTH + WIDTH),
        products(scaled, scaled, are_inputs=True),
        products(scaled, scaled, rows_of_scales=2 * WIDTH),
        products(scaled, scaled, scales=3, rows_of_scales=WIDTH + 1),
    ],
)
def test_other_products_stay_apart(program: Program) -> None:
    assert merge_products(program) is program


def test_weights_that_others_have_in_their_order_stay_apart() -> None:
    program = products(scaled, scaled)
    assert merge_products(program, packed=(("q0", "q1"),)) is not program
    assert merge_products(program, packed=(("q1", "q0"),)) is program
    assert merge_products(program, state=frozenset({"s1"})) is program


def test_derived_weights_are_not_merged_nor_fixed_in_their_order() -> None:
    program = products(scaled, scaled)
    made = Program((), program.buffers, (), (), (), ("s1",))
    derived = replace(program, weight_program=made)
    assert merge_products(derived) is derived
    first, second = (one for one in program.operations if isinstance(one, Matmul))
    assert has_weight(first, derived) and not has_weight(second, derived)
    assert has_weight(second, program)


@pytest.mark.parametrize("right", [by_columns, from_the_end, in_some_rows, in_steps])
def test_a_factor_is_no_weight_where_rows_are_not_its_own(right: Right) -> None:
    (product,) = (
        one for one in products(right, scales=2 * DEPTH).operations if isinstance(one, Matmul)
    )
    assert not has_weight(product, products(right, scales=2 * DEPTH))


def right_factor(program: Program) -> tuple[Matmul, set[str]]:
    """The product, and the operators of its right factor."""
    (product,) = (one for one in program.operations if isinstance(one, Matmul))
    return product, {one.op for one in walk((product.rhs,)) if isinstance(one, Apply)}


def test_scales_of_rows_move_and_those_of_groups_are_not_rounded() -> None:
    program = products(scaled)
    product, operators = right_factor(scale_codes_after_products(program))
    assert operators == {"cast"} and not product.wide
    assert_same(program, scale_codes_after_products(program))
    product, operators = right_factor(scale_codes_after_products(products(grouped)))
    assert operators == {"cast", "mul"} and product.wide


@pytest.mark.parametrize("right", [shifted, by_row_number, of_sums, of_scales_alone])
def test_other_scales_stay(right: Right) -> None:
    program = products(right)
    assert scale_codes_after_products(program) is program


def test_scales_stay_in_front_of_results_that_are_cut_out_and_for_partitions() -> None:
    program = products(scaled)
    buffers = program.buffers | {"p0": replace(program.buffers["p0"], unfusable=True)}
    cut = replace(program, buffers=buffers)
    assert scale_codes_after_products(cut) is cut
    assert scale_codes_after_products(program, partition=()) is program
    inputs = products(scaled, are_inputs=True)
    assert scale_codes_after_products(inputs) is inputs
    product, *_ = program.operations
    assert isinstance(product, Matmul)
    buffers = program.buffers | {"p0": Buffer("p0", F32, tuple(map(Int.of, (2, ROWS, WIDTH))))}
    batched = replace(product, batch=(Axis("b", Int.of(2)),))
    several = replace(program, buffers=buffers, operations=(batched,), outputs=("p0",))
    assert scale_codes_after_products(several) is several


class Gated(torch.nn.Module):
    """A gated unit behind a norm; one of its weights may be an input."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(128, 64, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
        up = self.up(x) if other is None else x @ other.T
        return torch.nn.functional.silu(self.gate(x)) * up


def test_weights_that_are_inputs_share_no_kernel() -> None:
    x, other = torch.zeros(1, 128), torch.zeros(64, 128)
    assert len(scheduled(Gated(), x).schedule.kernels) == 1
    assert len(scheduled(Gated(), x, other).schedule.kernels) == 3


def scaled_by_a_sum(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return (x @ other.T) * x.square().sum(-1, keepdim=True)


@pytest.mark.parametrize(("is_weight", "kernels"), [(True, 1), (False, 2)])
def test_sums_of_rows_share_the_kernel_of_a_weight(is_weight: bool, kernels: int) -> None:
    x, other = torch.zeros(1, 128), torch.zeros(64, 128)
    held = Function(lambda x: scaled_by_a_sum(x, other), 1)
    model, args = (held, (x,)) if is_weight else (Function(scaled_by_a_sum, 2), (x, other))
    assert len(scheduled(model, *args).schedule.kernels) == kernels


def widened(
    rows: int = ROWS, *, unfusable: bool = False, backwards: bool = False, returned: bool = False
) -> Program:
    """A weight that is made of codes by one operation and read by two products."""
    w = Writer()
    x, q = w.input("x", rows, DEPTH), w.weight("q", WIDTH, DEPTH, dtype=DType.INT8)
    weight = w.pointwise("t", [WIDTH, DEPTH], lambda n, k: apply("mul", code(q, n, k), 0.5))
    maker = w.operations[-1]
    assert isinstance(maker, Pointwise)
    if backwards:
        first, second = maker.axes
        w.operations[-1] = replace(maker, index=(-Int.of(first) + (WIDTH - 1), Int.of(second)))
    w.buffers["t"] = replace(weight, unfusable=unfusable)
    made = [w.matmul(f"p{n}", rows, WIDTH, DEPTH, x, weight) for n in range(2)]
    return w.program(*made, *([weight] if returned else []))


def test_each_product_of_a_weight_reads_its_codes() -> None:
    program = widened()
    made = widen_in_products(program)
    assert all(isinstance(one, Matmul) for one in made.operations)
    assert {name for one in made.operations for name in one.origin.nodes} == {"p0", "p1", "t"}
    assert_same(program, made)


@pytest.mark.parametrize(
    "program",
    [widened(300), widened(unfusable=True), widened(backwards=True), widened(returned=True)],
)
def test_other_weights_are_stored_first(program: Program) -> None:
    assert widen_in_products(program) is program


def test_sums_of_a_weight_do_not_decode_it_for_each_result() -> None:
    w = Writer()
    q = w.weight("q", 9, dtype=DType.INT8)
    t = w.pointwise(
        "t",
        [9],
        lambda i: Apply("shift_right", (load(q, i), Const(4, DType.INT8)), DType.INT8),
        dtype=DType.INT8,
    )
    x = w.input("x", 5, 9)
    y = w.reduction("y", [5], [9], lambda i, k: apply("mul", load(x, i, k), code(t, k)))
    assert "t" in {one.target for one in realize(w.program(y)).operations if hasattr(one, "target")}


def chained(length: int, *, decodes: bool) -> Program:
    """A weight that takes so many operators of a code, with one of codes of 4 bits or without."""

    def value(q: Buffer, n: Axis, k: Axis) -> Value:
        whole: Value = load(q, n, k)
        if decodes:
            whole = Apply("shift_right", (whole, Const(4, DType.INT8)), DType.INT8)
        made: Value = Apply("cast", (whole,), F32)
        for number in range(length - 1 - decodes):
            made = apply("mul" if number % 2 else "add", made, 0.5)
        return made

    w = Writer()
    x, q = w.input("x", ROWS, DEPTH), w.weight("q", WIDTH, DEPTH, dtype=DType.INT8)
    weight = w.pointwise("t", [WIDTH, DEPTH], lambda n, k: value(q, n, k))
    return w.program(w.matmul("p", ROWS, WIDTH, DEPTH, x, weight))


@pytest.mark.parametrize(
    ("length", "decodes", "moves"),
    [(8, False, True), (9, False, False), (12, True, True), (13, True, False)],
)
def test_few_operators_move_and_some_more_of_codes(length: int, decodes: bool, moves: bool) -> None:
    program = chained(length, decodes=decodes)
    made = widen_in_products(program)
    assert (made is not program) == moves
    if moves:
        assert_same(program, made)


def of_the_whole(q: Buffer, s: Buffer, n: Axis, k: Axis) -> Value:
    return apply("mul", code(q, Int.of(n), Int.of(k)), load(s))


def test_a_scale_of_a_whole_weight_keeps_products_apart() -> None:
    w = Writer()
    x, outputs = w.input("x", ROWS, DEPTH), list[Buffer]()
    for number in range(2):
        codes = w.weight(f"q{number}", WIDTH, DEPTH, dtype=DType.INT8)
        product = w.matmul(f"p{number}", ROWS, WIDTH, DEPTH, x, codes)
        made = w.operations[-1]
        assert isinstance(made, Matmul)
        right = of_the_whole(codes, w.weight(f"s{number}"), made.n, made.k)
        w.operations[-1] = replace(made, rhs=right)
        outputs.append(
            w.pointwise(f"y{number}", [ROWS, WIDTH], lambda i, j, p=product: load(p, i, j))
        )
    program = w.program(*outputs)
    assert merge_products(program) is program
