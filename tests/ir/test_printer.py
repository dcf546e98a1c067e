"""Programs print as a person would write them (tests/golden/ir), and distinct values differ."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.ir.kernels.kernel import Kernel, Lifetime, Member, Schedule
from aotpack.ir.kernels.tiles import PointwiseTile, Variant
from aotpack.ir.operations import Attention, Matmul, Reduction, Scan, Scatter
from aotpack.ir.origin import Origin
from aotpack.ir.program import Program, operation_text, program_text
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.ir.values import Guarded, Value, value_text
from tests.ir.programs import (
    BF16,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    ROW,
    J,
    K,
    S,
    apply,
    buffer,
    index,
    load,
    number,
    over,
    program,
)

X, Y, N = load("x", ROW, J), load("y", J), load("n", ROW, dtype=I64)
SUM = apply("add", X, Y)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (number(0.5), "0.5"),
        (number(1, I32), "1:int32"),
        (number(1, I64), "1"),
        (number(True, BOOL), "True"),
        (index(Int.of(ROW) + 1), "int64(i + 1)"),
        (apply("mul", SUM, Y), "(x[i, j] + y[j]) * y[j]"),
        (apply("add", SUM, Y), "x[i, j] + y[j] + y[j]"),
        (apply("sub", Y, SUM), "y[j] - (x[i, j] + y[j])"),
        (apply("neg", SUM), "-(x[i, j] + y[j])"),
        (apply("exp", SUM), "exp(x[i, j] + y[j])"),
        (apply("cast", X, dtype=F64), "x[i, j].to(float64)"),
        (apply("cast", number(-0.0), dtype=I64), "(-0.0).to(int64)"),
        (apply("neg", apply("cast", number(0.0), dtype=I64)), "-0.0.to(int64)"),
        (apply("neg", number(-1.0)), "-(-1.0)"),
        (apply("mul", number(-1.0), X), "-1.0 * x[i, j]"),
        (apply("lt", X, Y, dtype=BOOL), "x[i, j] < y[j]"),
        (Guarded(load("m", dtype=BOOL), X, Y, F32), "x[i, j] if m[()] else y[j]"),
        (apply("where", load("m", dtype=BOOL), X, Y), "where(m[()], x[i, j], y[j])"),
    ],
)
def test_value_text(value: Value, text: str) -> None:
    assert value_text(value) == str(value) == text


LEAVES = st.sampled_from(
    [
        *(X, Y, *(number(x) for x in (0.0, -0.0, 1.0, -1.0)), number(1.0, F64), number(1, I64)),
        *(number(1, I32), index(1), index(1, I32), index(ROW), index(Int.of(ROW) + 1)),
    ]
)


def grow(smaller: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    names = ["add", "sub", "mul", "div", "minimum", "lt", "logical_and", "eq", "bitwise_or"]
    binary = st.builds(apply, st.sampled_from(names), smaller, smaller)
    unary = st.builds(apply, st.sampled_from(["neg", "exp", "bitwise_not", "logical_not"]), smaller)
    casts = st.builds(
        lambda x, dtype: apply("cast", x, dtype=dtype), smaller, st.sampled_from([F32, I64])
    )
    where = st.builds(lambda *args: apply("where", *args), smaller, smaller, smaller)
    guards = st.builds(lambda *args: Guarded(*args, F32), smaller, smaller, smaller)
    return binary | unary | casts | where | guards


VALUES = st.recursive(LEAVES, grow, max_leaves=5)
PRINTED: dict[str, tuple[object, ...]] = {}


def shape(value: Value) -> tuple[object, ...]:
    """What a value is, apart from the result types its parts imply."""
    match value.__class__.__name__:
        case "Apply":
            kind = value.dtype if value.op == "cast" else value.op  # type: ignore[union-attr]
            return (kind, *map(shape, value.args))  # type: ignore[union-attr]
        case "Guarded":
            parts = (value.condition, value.value, value.otherwise)  # type: ignore[union-attr]
            return ("guarded", *map(shape, parts))
    return (value,)


@given(VALUES)
def test_distinct_values_have_distinct_texts(value: Value) -> None:
    assert PRINTED.setdefault(str(value), shape(value)) == shape(value)


def layer_norm() -> Program:
    origin = Origin(("norm",), ("layer_norm",), ("model.py:7: x = self.norm(x)",))
    centred = apply("sub", X, load("mean", ROW))
    scale = apply("rsqrt", apply("div", load("m2", ROW), number(8.0)))
    gelu = apply("mul", centred, apply("mul", scale, apply("tanh", centred)))
    return program(
        [
            buffer("x", BF16, S, 8),
            buffer("mean", F32, S),
            buffer("m2", F32, S),
            buffer("norm", BF16, S, 8),
        ],
        [
            Reduction(("mean", "m2"), (ROW,), (J,), "welford", (X,), origin),
            over("norm", (ROW, J), gelu, origin),
        ],
        inputs="x",
    )


def test_loops(golden: Callable[[str, str], None]) -> None:
    golden(str(layer_norm()), "ir")


def test_templates(golden: Callable[[str, str], None]) -> None:
    m, n = Axis("m", Int.of(S)), Axis("n", Int.of(4))
    matmul = Matmul("y", (), m, n, J, apply("relu", load("x", m, J)), load("w", n, J), BF16)
    scan = Scan(("z",), (m, n), m, "sum", (load("y", m, n),))
    total = Reduction(("t",), (), (m, n), "sum", (load("z", m, n),))
    q, kv = load("x", ROW, J), load("x", K, J)
    attention = Attention("a", ROW, ROW, ROW, K, J, J, q, kv, kv, 0.125, True, None, N, F32)
    place = (Int.of(Indirect(N, Int.of(S))), Int.of(J))
    replaced = Scatter("b", "y", (ROW, J), place, X, "set")
    added = Scatter("c", "b", (ROW, J), place, SUM, "sum")
    operations = (matmul, scan, total, attention, replaced, added)
    golden("\n\n".join(map(operation_text, operations)) + "\n", "ir")


def test_schedules(golden: Callable[[str, str], None]) -> None:
    whole = layer_norm()
    row = Axis("x", Int.of(S))
    r = Axis("r", Int.of(8))
    binding = ((ROW, Int.of(row)), (J, Int.of(r)))
    members = (
        Member(whole.operations[0], binding, outer=False),
        Member(whole.operations[1], binding, outer=False),
    )
    variants = (Variant(PointwiseTile(4, 1), 80, 999, Int.of(S), None),)
    kernel = Kernel("norm", (row, r), members, ("norm",), ("x",), variants)
    strides = {"x": (Int.of(8), Int.of(1)), "norm": (Int.of(8), Int.of(1))}
    golden(str(Schedule(whole, (kernel,), strides, (Lifetime("mean", "mean", 0, 0),))), "ir")


def test_notes_stand_under_their_operation() -> None:
    lines = program_text(layer_norm(), {0: "look here"}).splitlines()
    assert lines[lines.index("^^^ look here") - 1].startswith("    mean[i], m2[i] = welford(")
