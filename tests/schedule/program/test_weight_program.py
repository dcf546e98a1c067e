"""What depends on weights alone and is no larger than they are is computed once."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from aotpack.ir.buffers import PackedWeight
from aotpack.ir.dtypes import DType
from aotpack.ir.program import Buffer, Program, Update, targets
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.values import IndexValue, Value
from aotpack.ir.verify.control import check_state
from aotpack.ir.verify.invalid import InvalidProgram
from aotpack.ir.verify.program import verify
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.ir.verify.tiles import InvalidSchedule
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.schedule.program.weight_program import derive_weights
from aotpack.target import CPU, parse_targets
from tests.schedule.programs import BF16, F32, I64, Writer, apply, assert_same, load, schedule_of

Written = Callable[[Writer, Buffer, Buffer], Buffer]


def program_of(make: Written, *, size: int | Var = 4) -> Program:
    """``y[i] = x[i] * made[0]`` for what ``make`` computes of two weights of four numbers."""
    w = Writer(sizes=(size,) if isinstance(size, Var) else ())
    x, a, b = w.input("x", size), w.weight("a", 4), w.weight("b", 4)
    made = make(w, a, b)
    first = (0,) * len(made.shape)
    return w.program(
        w.pointwise("y", [size], lambda i: apply("mul", load(x, i), load(made, *first)))
    )


def one(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    return w.pointwise("t", [4], lambda i: apply("add", load(a, i), load(b, i)))


def chain(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    wide = w.pointwise("wide", [4, 4], lambda i, j: apply("mul", load(a, i), load(b, j)))
    return w.reduction("t", [4], [4], lambda i, r: load(wide, i, r))


def with_a_table(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    table = w.pointwise("table", [4], lambda i: apply("exp", 2.0))
    return w.pointwise("t", [4], lambda i: apply("mul", load(a, i), load(table, i)))


def narrowed(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    return w.pointwise("t", [4], lambda i: apply("exp", load(a, i)), dtype=BF16)


MOVES = {"one": one, "chain": chain, "with a table": with_a_table, "narrowed": narrowed}


@pytest.mark.parametrize("make", MOVES.values(), ids=MOVES)
def test_a_result_that_is_no_larger_moves(make: Written) -> None:
    program = program_of(make)
    moved = derive_weights(program)
    verify(moved)
    assert moved.derived == ("t",) and moved.weights == ("a", "b", "t")
    assert [targets(o) for o in moved.operations] == [("y",)]
    assert_same(program, moved)
    assert derive_weights(moved) is moved


def larger(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    return w.pointwise("t", [3, 4], lambda i, j: apply("add", load(a, j), 1.0))


def view(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    return w.pointwise("t", [4], lambda i: load(a, 3 - i), op="view")


def of_a_weight_and_the_input(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    x = w.buffers["x"]
    return w.pointwise("t", [4], lambda i: apply("add", load(a, i), load(x, 0)))


def of_nothing(w: Writer, a: Buffer, b: Buffer) -> Buffer:
    return w.pointwise("t", [4], lambda i: apply("exp", 2.0))


STAYS = {
    "larger": larger,
    "view": view,
    "with the input": of_a_weight_and_the_input,
    "of nothing": of_nothing,
}


@pytest.mark.parametrize("make", STAYS.values(), ids=STAYS)
def test_anything_else_stays(make: Written) -> None:
    program = program_of(make)
    assert derive_weights(program) is program


def test_what_depends_on_a_size_stays() -> None:
    size = Var("n", 1, 8)

    def position(w: Writer, a: Buffer, b: Buffer) -> Buffer:
        def value(i: Int) -> Value:
            return apply("add", load(a, i), apply("to_float", IndexValue(Int.of(size), I64)))

        return w.pointwise("t", [4], value)

    program = program_of(position, size=size)
    assert derive_weights(program) is program
    assert derive_weights(program_of(one, size=size)).derived == ("t",)


def test_an_output_stays_and_what_it_reads_moves() -> None:
    w = Writer()
    x, a, b = w.input("x", 4), w.weight("a", 4), w.weight("b", 4)
    total = w.pointwise("total", [4], lambda i: apply("add", load(a, i), load(b, i)))
    out = w.pointwise("out", [4], lambda i: apply("exp", load(total, i)))
    y = w.pointwise("y", [4], lambda i: apply("mul", load(x, i), load(out, i)))
    program = w.program(out, y)
    moved = derive_weights(program)
    verify(moved)
    assert moved.derived == ("total",) and moved.outputs == ("out", "y")
    assert_same(program, moved)


def test_weights_that_forward_changes_are_no_sources() -> None:
    w = Writer()
    x, a, b = w.input("x", 4), w.weight("a", 4), w.weight("b", 4)
    total = w.pointwise("total", [4], lambda i: apply("add", load(a, i), load(b, i)))
    new = w.pointwise("new", [4], lambda i: apply("add", load(a, i), load(x, i)))
    y = w.pointwise("y", [4], lambda i: apply("mul", load(x, i), load(total, i)))
    program = w.program(y)
    assert derive_weights(program).derived == ("total",)
    stateful = replace(program, updates=(Update("a", new.name),))
    assert derive_weights(stateful) is stateful


def of_blocks(
    op: str = "exp2", *, block: int = 16, dtype: DType = F32, is_read: bool = False
) -> Program:
    """A product with codes in blocks, each of which has a scale of its exponent."""
    w = Writer()
    x, codes = w.input("x", 8, 4 * block), w.weight("codes", 6, 4 * block, dtype=BF16)
    exponents = w.weight("exponents", 6, 4, dtype=BF16)
    wide = w.pointwise("wide", [6, 4], lambda n, b: apply(op, load(exponents, n, b)))
    scales = w.pointwise("scales", [6, 4], lambda n, b: load(wide, n, b), dtype=dtype)
    inner = w.pointwise("inner", [6, 4, 1], lambda n, b, _: load(scales, n, b), op="view")
    made = w.pointwise(
        "made",
        [6, 4, block],
        lambda n, b, i: apply("mul", load(codes, n, b * block + i), load(inner, n, b, 0)),
    )
    y = w.reduction(
        "y",
        [8, 6],
        [4, block],
        lambda i, n, b, r: apply("mul", load(x, i, b * block + r), load(made, n, b, r)),
    )
    other = w.pointwise("z", [6, 4], lambda n, b: apply("mul", load(wide, n, b), load(x, 0, 0)))
    return w.program(*((y, other) if is_read else (y,)))


@pytest.mark.parametrize(("dtype", "moved"), [(F32, "wide"), (BF16, "scales")])
def test_a_dear_factor_of_a_weight_that_stays_moves(dtype: DType, moved: str) -> None:
    """It is larger than its exponents in float32; what is rounded moves after that."""
    program = of_blocks(dtype=dtype)
    made = derive_weights(program)
    verify(made)
    assert made.derived == (moved,) and "made" in made.buffers
    assert_same(program, made)


@pytest.mark.parametrize(
    "how",
    [{"op": "abs"}, {"block": 8}, {"is_read": True}, {"op": "of_float8_e4m3fn_code"}],
    ids=["cheap", "of short blocks", "read elsewhere", "decoding"],
)
def test_other_factors_are_computed_where_they_are_read(how: dict[str, Any]) -> None:
    program = of_blocks(**how)
    assert derive_weights(program) is program


def copied_weight(*, unfusable: bool) -> Program:
    """A product over positions and channels of a weight, which is copied for it."""
    w = Writer()
    x, weight = w.input("x", 8, 12), w.weight("w", 6, 4, 3)
    copy = w.pointwise("copy", [6, 4, 3], lambda i, j, k: load(weight, i, j, k), op="conv")
    w.buffers["copy"] = replace(copy, unfusable=unfusable)
    y = w.reduction(
        "y",
        [8, 6],
        [12],
        lambda i, n, r: apply("mul", load(x, i, r), load(copy, n, r % 4, r // 4)),
    )
    return w.program(y)


def test_a_copy_moves_and_lies_as_its_reader_wants() -> None:
    made = schedule_of(copied_weight(unfusable=True))
    assert made.program.derived == ("copy",)
    assert made.strides["copy"] == tuple(map(Int.of, (12, 1, 4)))
    assert made.weights is not None and made.weights.strides["copy"] == made.strides["copy"]
    assert "once, from weights alone:" in str(made)
    plain = schedule_of(copied_weight(unfusable=False))
    assert plain.program.derived == () and plain.weights is None


def test_a_schedule_that_lays_derived_weights_out_otherwise_is_illegal() -> None:
    made = schedule_of(copied_weight(unfusable=True))
    verify_schedule(made)
    dense = {**made.strides, "copy": tuple(map(Int.of, (12, 3, 1)))}
    with pytest.raises(InvalidSchedule, match="derived weights are not laid out as they are read"):
        verify_schedule(replace(made, strides=dense))
    with pytest.raises(InvalidSchedule, match="the schedule of weights is of another program"):
        verify_schedule(replace(made, weights=None))
    assert made.weights is not None
    wrong = replace(made.weights, given={})
    with pytest.raises(InvalidSchedule, match="copy.* is not contiguous"):
        verify_schedule(replace(made, weights=wrong))


def test_an_illegal_weight_program_is_found() -> None:
    moved = derive_weights(program_of(one))
    made = moved.weight_program
    assert made is not None
    wrong = {
        "has inputs": replace(made, inputs=("a",), weights=("b",)),
        "no outputs": replace(made, outputs=()),
        "may not be": replace(made, outputs=("a",)),
        "of the weight program is": replace(
            made, buffers={**made.buffers, "a": Buffer("a", F32, (Int.of(5),))}
        ),
    }
    for message, weight_program in wrong.items():
        with pytest.raises(InvalidProgram, match=message):
            verify(replace(moved, weight_program=weight_program))
    with pytest.raises(InvalidProgram, match="may not be"):
        changed = replace(moved, weights=("a", "b"), inputs=("x", "t"))
        verify(replace(changed, weight_program=made))


def test_a_weight_program_of_state_is_found() -> None:
    moved = derive_weights(program_of(one))
    check_state(moved, {"c"})
    with pytest.raises(InvalidProgram, match="reads \\['a'\\], which other methods change"):
        check_state(moved, {"a"})
    made = moved.weight_program
    assert made is not None
    whole = replace(made, weights=("ab", *made.weights[2:]))
    packed = replace(moved, weight_program=whole, packed=(PackedWeight("ab", ("a", "b")),))
    with pytest.raises(InvalidProgram, match="reads \\['b'\\], which other methods change"):
        check_state(packed, {"b"})


def test_the_evaluator_runs_it_first() -> None:
    program, moved = program_of(one), derive_weights(program_of(one))
    assert_same(program, moved)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        other = derive_weights(program_of(with_a_table)).weight_program
        assert_same(program, replace(moved, weight_program=other))


def test_equal_copies_are_one_kernel_and_a_launch_each() -> None:
    module = nn.Sequential(nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))
    image = torch.ones(1, 16, 12, 12)
    made = Build(Source(module.eval(), (image,)), BuildOptions((CPU,), golden=0))
    (weights,) = (one.weights for one in made.scheduled.schedules)
    assert weights is not None and len(weights.kernels) == 2
    names = {name for name in ("0.weight", "2.weight") if f"'{name}'" in made.rendered.wrapper}
    assert names == {"0.weight", "2.weight"}
    launched = re.findall(r'Launch\("(\w+)"', made.rendered.wrapper.partition("def derive")[2])
    assert len(launched) == 2 and len({*launched}) == 1
    assert [one.name for one in made.lowered.weights] == [
        "0.weight",
        "0.bias",
        "2.weight",
        "2.bias",
    ]
    assert [one.name for one in made.scheduled.weights if one.is_staged] == ["0.weight", "2.weight"]


class TwoArchitectures(nn.Module):
    """A convolution, and rows that some architectures keep and others split."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.w = nn.Conv2d(16, 8, 3), nn.Parameter(torch.ones(60_000))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.conv(x), (y * self.w.exp()).softmax(-1)


def test_each_schedule_has_its_own_and_memory_holds_the_largest() -> None:
    args = torch.ones(1, 16, 6, 6), torch.ones(4, 60_000)
    targets = parse_targets("sm_80,sm_90,cpu")
    made = Build(Source(TwoArchitectures().eval(), args), BuildOptions(targets, golden=0))
    schedules = made.scheduled.schedules
    assert len(schedules) == 2 and all(one.weights for one in schedules)
    derive = made.rendered.wrapper.partition("def derive")[2]
    assert derive.count("return Plan(") == 2 and "if arch in (90,):" in derive
    sizes = {one.name: one.bytes for one in made.rendered.derived}
    assert sizes == {"conv2d_weight": 4 * 8 * 16 * 9, "exp": 4 * 60_000}
