"""A legal program passes; for each invariant, a program that breaks it is refused by name."""

from dataclasses import replace

import pytest

from aotpack.errors import AotpackError
from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scan, Scatter
from aotpack.ir.program import Operation, PackedWeight, Program
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Load, Value
from aotpack.ir.verify.program import CHECKS, InvalidProgram, check_packed, verify
from tests.ir.programs import (
    BF16,
    BOOL,
    F32,
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

X = load("x", ROW, J)
BUFFERS = [
    buffer("x", F32, S, 8),
    buffer("h", BF16, S, 8),
    buffer("n", I64, S),
    buffer("y", F32, S, 8),
    buffer("out", F32, S, 8),
]
FIRST = over("y", (ROW, J), apply("exp", X))


def ending(operation: Operation) -> Program:
    """A legal program but for its last operation, which writes ``out``."""
    return program(BUFFERS, [FIRST, operation], inputs="x h n")


def storing(value: Value) -> Program:
    return ending(over("out", (ROW, J), value))


M, N = Axis("m", Int.of(S)), Axis("n", Int.of(8))
GOOD = Matmul("out", (), M, N, J, load("y", M, J), load("h", N, J), BF16)


FOUND = Indirect(load("n", ROW, dtype=I64), Int.of(S))
INTO_Y = Scatter("out", "y", (ROW, J), (Int.of(FOUND), Int.of(J)), X, "set")


def into_16_bits(kind: str) -> Program:
    legal = ending(replace(INTO_Y, base="h", kind=kind))
    return replace(legal, buffers={**legal.buffers, "out": buffer("out", BF16, S, 8)})


@pytest.mark.row("S:A4", "S:B1", "S:B3", "S:B19")
@pytest.mark.parametrize(
    "legal",
    [
        storing(load("y", ROW, J)),
        storing(apply("where", number(True, BOOL), X, load("h", ROW, J))),
        storing(Guarded(number(False, BOOL), load("x", Int.of(S), J), X, F32)),
        storing(load("x", Indirect(load("n", ROW, dtype=I64), Int.of(S)), J)),
        storing(apply("cast", index(Int.of(ROW) + Int.of(S)), dtype=F32)),
        ending(GOOD),
        ending(Scan(("out",), (ROW, J), J, "sum", (X,))),
        ending(Pointwise("out", (ROW, J), X, (Int.of(ROW), 7 - Int.of(J)))),
        ending(INTO_Y),
        into_16_bits("set"),
        ending(replace(INTO_Y, kind="sum", index=(Int.of(ROW) + S, Int.of(J) - 8))),
    ],
)
def test_legal_programs_pass(legal: Program) -> None:
    verify(legal)


LONG = Axis("i", Int.of(S) + 1)
UNKNOWN = Apply("swish", (X,), F32)
SIXTEEN = Load("h", (Int.of(ROW), Int.of(J)), BF16)
SHORT = Axis("j", Int.of(7))


@pytest.mark.row("S:A2", "S:A4", "S:inv1", "S:inv2", "C:D6", "C:D10", "C:inv17", "C:inv6")
@pytest.mark.parametrize(
    ("illegal", "complaint"),
    [
        (storing(load("z", ROW, J)), "buffer z is not declared"),
        (replace(storing(X), outputs=("z",)), "buffer z is not declared"),
        (replace(storing(X), inputs=("x", "h", "n", "x")), "listed twice"),
        (ending(over("y", (ROW, J), X)), "y already has its value"),
        (ending(over("x", (ROW, J), X)), "x already has its value"),
        (replace(storing(X), operations=(FIRST,)), "nothing writes out"),
        (storing(load("out", ROW, J)), "out is read before it is written"),
        (ending(over("out", (ROW, LONG), X)), "the name i stands for two things"),
        (ending(over("out", (ROW, Axis("s", Int.of(8))), X)), "the name s stands for two"),
        (storing(load("x", ROW, K)), "k uses the axis k < 4"),
        (storing(load("x", LONG, J)), r"uses the axis i < s \+ 1"),
        (storing(load("x", Var("b", 1, 4), J)), "b in b is no size of the program"),
        (ending(replace(GOOD, lhs=load("y", N, J))), "uses the axis n < 8"),
        (ending(Scan(("out",), (ROW, J), K, "sum", (X,))), "k is no axis of the scan"),
        (storing(load("x", ROW)), r"x\[i\] has 1 indices, the buffer 2 dimensions"),
        (ending(Reduction(("out",), (ROW,), (J,), "sum", (X,))), "out.i. has 1 indices"),
        (storing(load("x", Int.of(ROW) - S, J)), r"index i - s is outside \[0, s\) of x"),
        (storing(load("x", ROW, Int.of(J) + 8)), r"index j \+ 8 is outside \[0, 8\)"),
        (ending(replace(GOOD, n=SHORT, rhs=load("h", SHORT, K), lhs=X, k=K)), "uses the axis"),
        (
            ending(Scan(("out",), (ROW, SHORT), SHORT, "sum", (load("x", ROW, SHORT),))),
            "not span out",
        ),
        (storing(SIXTEEN), r"h\[i, j\] has the type bfloat16"),
        (storing(Load("x", X.index, DType.FLOAT64)), "is loaded as float64"),
        (storing(Const(1, F32)), "the constant 1 is not a float32"),
        (storing(IndexValue(Int.of(ROW), F32)), "is an integer of type float32"),
        (storing(Guarded(X, X, X, F32)), r"the condition x\[i, j\] is float32"),
        (storing(Guarded(number(True, BOOL), X, index(0), F32)), "between float32 and int64"),
        (storing(load("x", Indirect(load("y", ROW, J), Int.of(S)), J)), "index of type float32"),
        (storing(UNKNOWN), "there is no operator swish"),
        (storing(Apply("add", (X,), F32)), "has 1 operands, add takes 2"),
        (storing(apply("where", X, X, X)), r"the condition x\[i, j\] is float32"),
        (storing(Apply("add", (X, index(ROW)), F32)), "mixes float32 and int64"),
        (storing(apply("bitwise_and", X, X)), "bitwise_and is not defined on float32"),
        (storing(apply("lt", X, X)), "is bool, not float32"),
        (ending(Scan(("out",), (ROW, J), J, "median", (X,))), "there is no reduction median"),
        (ending(Scan(("out",), (ROW, J), J, "sum", (X, X))), "sum takes 1 values and gives 1"),
        (ending(Scan(("out",), (ROW, J), J, "any", (X,))), "any is not defined on float32"),
        (
            ending(Reduction(("out",), (ROW, J), (N,), "placed_max", (X, X))),
            "placed_max takes int32 or int64 positions, not float32",
        ),
        (storing(index(ROW, I32)), "int32 is stored into out: float32"),
        (ending(replace(INTO_Y, base="z")), "buffer z is not declared"),
        (ending(replace(INTO_Y, base="out")), "out is read before it is written"),
        (ending(replace(INTO_Y, base="h")), "out: float32.* is no version of h: bfloat16"),
        (ending(replace(INTO_Y, base="n")), "is no version of n: int64"),
        (ending(replace(INTO_Y, index=(Int.of(ROW),))), "out.i. has 1 indices"),
        (ending(replace(INTO_Y, index=(Int.of(K), Int.of(J)))), "k uses the axis k < 4"),
        (ending(replace(INTO_Y, kind="argmax")), "argmax does not scatter into float32"),
        (ending(replace(INTO_Y, kind="any")), "any does not scatter into float32"),
        (into_16_bits("sum"), "sum does not scatter into bfloat16"),
        (ending(replace(INTO_Y, value=index(ROW))), "int64 is stored into out: float32"),
    ],
)
def test_broken_invariant_is_named_under_its_operation(illegal: Program, complaint: str) -> None:
    with pytest.raises(InvalidProgram, match=complaint) as caught:
        verify(illegal)
    assert "size s in [1, 128]" in str(caught.value)


def test_complaint_stands_under_the_operation() -> None:
    with pytest.raises(InvalidProgram) as caught:
        verify(storing(UNKNOWN))
    lines = str(caught.value).splitlines()
    mark = lines.index("^^^ there is no operator swish")
    assert lines[mark - 1] == "    out[i, j] = swish(x[i, j])"


def test_buffer_under_another_name_is_refused() -> None:
    legal = storing(X)
    renamed = replace(legal, buffers={**legal.buffers, "x": buffer("xx", F32, S, 8)})
    with pytest.raises(InvalidProgram, match="xx.*is declared as x"):
        verify(renamed)


def packing(*parts: str, rows: int = 12) -> Program:
    """A program over a weight of ``rows`` rows, packed of a: [4, 8], b: [8, 8] or c: [4, 7]."""
    sizes = {"a": (4, 8), "b": (8, 8), "c": (4, 7), "ab": (rows, 8)}
    weights = {name: buffer(name, F32, *shape) for name, shape in sizes.items()}
    legal = storing(load("ab", 0, J))
    return replace(
        legal,
        buffers={**legal.buffers, **weights},
        weights=tuple(weights),
        packed=(PackedWeight("ab", parts),),
    )


def test_packed_weight_is_its_parts() -> None:
    verify(packing("a", "b"))
    for wrong in (packing("a", "b", rows=13), packing("b", "c")):
        with pytest.raises(InvalidProgram, match=r"ab: float32\[1., 8\] is not [ab]: float32"):
            verify(wrong)
    with pytest.raises(InvalidProgram, match=r"\['x'\] are no stored weights"):
        verify(packing("a", "x"))
    derives = replace(packing("a", "b"), weight_program=replace(storing(X), outputs=("b",)))
    with pytest.raises(InvalidProgram, match=r"\['b'\] are no stored weights"):
        check_packed(derives)


def test_attention_slots_use_their_own_axes() -> None:
    b, h, q, j = (Axis(name, Int.of(1)) for name in "bhqj")
    key, query = load("y", j, K), load("y", q, K)
    slots = (query, key, load("y", j, M))
    wrong = Attention("out", b, h, q, j, K, M, *slots, 1.0, False, load("y", j, K), None, F32)
    with pytest.raises(InvalidProgram, match=r"k uses the axis k < 4"):
        verify(ending(wrong))


def test_a_broken_invariant_is_no_user_error() -> None:
    assert not issubclass(InvalidProgram, AotpackError)
    assert all(check.__name__.startswith("check_") for check in CHECKS)
