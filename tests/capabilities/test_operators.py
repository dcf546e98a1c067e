"""The rows of the operator table: eager's answer on edge values, and a text in both languages."""

import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.ops.optable import OPS
from aotpack.ir.values import Guarded
from aotpack.render.c.operators import C_TEXTS
from aotpack.render.triton.dialect import TRITON
from aotpack.render.triton.operators import TRITON_TEXTS, triton_text
from tests.ir.programs import F32, apply, buffer, load, number, over, program
from tests.ir.programs import J as EIGHT
from tests.lower.oracle import Case, case, ints

INF, NAN = float("inf"), float("nan")
X = torch.tensor([-INF, -7.5, -2.5, -1.5, -0.5, -0.0, 0.0, 0.3, 0.5, 1.0, 2.5, 30.0, INF, NAN])
Y = X.roll(5)
UNIT = torch.tensor([-1.0, -0.5, -0.0, 0.25, 1.0])
N = torch.tensor([-9, -7, -2, -1, 0, 1, 2, 3, 7, 2**31 - 1])
D = torch.tensor([4, -4, 3, -3, 7, -7, 2, -2, 5, 3])
BOOL = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
WIDE = X.double()

TABLE = {
    "C:E1": "abs exp cos sin log",
    "C:E3": "exp2 expm1 sqrt rsqrt log2 log10 log1p tanh erf erfc fmod floor ceil trunc",
    "C:E4": "tan sinh cosh asin acos atan asinh acosh atanh atan2",
    "C:E5": "sigmoid",
    "C:E6": "pow square",
    "C:E8": "minimum maximum",
    "C:E10": "logical_and logical_or logical_xor logical_not",
    "C:E11": "bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right",
    "C:E12": "isnan isinf",
    "C:E28": "add sub mul neg eq ne lt le gt ge div remainder reciprocal square",
}


@pytest.mark.row("C:E1", "C:E3", "C:E4", "C:E5", "C:E6", "C:E8", "C:E10", "C:E11", "C:E12", "C:E28")
@pytest.mark.parametrize("row", TABLE)
def test_every_operator_of_a_row_has_both_texts(row: str) -> None:
    for name in TABLE[row].split():
        assert name in OPS and name in C_TEXTS and name in TRITON_TEXTS, name


def unary(mark: pytest.MarkDecorator, names: str, *inputs: torch.Tensor) -> list[object]:
    """A case of each operator on each input."""
    return [
        pytest.param(case(f"{name}.default", x), marks=mark)
        for name in names.split()
        for x in inputs
    ]


CASES = [
    *unary(pytest.mark.row("C:E1"), "abs exp cos sin log", X, X.bfloat16()),
    *unary(pytest.mark.row("C:E2"), "abs exp sqrt cos sin log", WIDE),
    *unary(
        pytest.mark.row("C:E3"),
        "exp2 expm1 sqrt rsqrt log2 log10 log1p tanh erf erfc floor ceil trunc",
        X,
    ),
    *unary(pytest.mark.row("C:E4"), "tan sinh cosh atan asinh", X),
    *unary(pytest.mark.row("C:E4"), "asin acos atanh", UNIT),
    *unary(pytest.mark.row("C:E11"), "bitwise_not", N, BOOL[0]),
    *unary(pytest.mark.row("C:E12"), "isnan isinf", X, WIDE, X.half()),
    pytest.param(case("fmod.Tensor", X, Y), marks=pytest.mark.row("C:E3")),
    pytest.param(case("atan2.default", X, Y), marks=pytest.mark.row("C:E4")),
    pytest.param(case("copysign.Tensor", X, Y), marks=pytest.mark.row("C:E4")),
    pytest.param(case("sigmoid.default", X), marks=pytest.mark.row("C:E5")),
    pytest.param(case("sigmoid.default", WIDE), marks=pytest.mark.row("C:E5")),
    pytest.param(case("pow.Tensor_Scalar", N[:9], 3), marks=pytest.mark.row("C:E6", "C:def7")),
    pytest.param(case("pow.Tensor_Scalar", N[:9].int(), 7), marks=pytest.mark.row("C:def7")),
    pytest.param(case("pow.Tensor_Tensor", X, Y), marks=pytest.mark.row("C:E6")),
    pytest.param(case("relu.default", X), marks=pytest.mark.row("C:E7")),
    pytest.param(case("relu.default", N.to(torch.int8)), marks=pytest.mark.row("C:E7")),
    pytest.param(case("relu.default", X.bfloat16()), marks=pytest.mark.row("C:E7")),
    pytest.param(case("minimum.default", X, Y), marks=pytest.mark.row("C:E8")),
    pytest.param(case("maximum.default", X, Y), marks=pytest.mark.row("C:E8")),
    pytest.param(case("maximum.default", N, D), marks=pytest.mark.row("C:E8")),
    pytest.param(case("where.self", X > 0, X, Y), marks=pytest.mark.row("C:E9")),
    pytest.param(case("where.self", X > 0, X, torch.tensor(3)), marks=pytest.mark.row("C:E9")),
    pytest.param(case("logical_and.default", X, Y), marks=pytest.mark.row("C:E10")),
    pytest.param(case("logical_or.default", *BOOL), marks=pytest.mark.row("C:E10")),
    pytest.param(case("logical_xor.default", N, D), marks=pytest.mark.row("C:E10")),
    pytest.param(case("logical_not.default", X), marks=pytest.mark.row("C:E10")),
    pytest.param(case("bitwise_and.Tensor", N, D), marks=pytest.mark.row("C:E11")),
    pytest.param(case("bitwise_or.Tensor", N.int(), D.int()), marks=pytest.mark.row("C:E11")),
    pytest.param(case("bitwise_xor.Tensor", *BOOL), marks=pytest.mark.row("C:E11")),
    pytest.param(case("bitwise_left_shift.Tensor", N, D.abs()), marks=pytest.mark.row("C:E11")),
    pytest.param(case("bitwise_right_shift.Tensor", N, D.abs()), marks=pytest.mark.row("C:E11")),
    pytest.param(case("signbit.default", X), marks=pytest.mark.row("C:E13", "C:def7")),
    pytest.param(case("signbit.default", WIDE), marks=pytest.mark.row("C:E13", "C:def7")),
    pytest.param(case("round.default", X), marks=pytest.mark.row("C:E14")),
    pytest.param(case("round.default", WIDE), marks=pytest.mark.row("C:E14")),
    pytest.param(case("floor_divide.default", N, D), marks=pytest.mark.row("C:E15")),
    pytest.param(case("remainder.Tensor", N, D), marks=pytest.mark.row("C:E15", "C:E28")),
    pytest.param(case("floor_divide.default", X, Y), marks=pytest.mark.row("C:E15")),
    pytest.param(
        case("div.Tensor_mode", N, D, rounding_mode="trunc"), marks=pytest.mark.row("C:E16")
    ),
    pytest.param(case("fmod.Tensor", N, D), marks=pytest.mark.row("C:E16")),
    pytest.param(case("sign.default", X[:-1]), marks=pytest.mark.row("C:E17")),
    pytest.param(case("sign.default", N), marks=pytest.mark.row("C:E17")),
    pytest.param(
        case("to.dtype", torch.tensor([-1.0, 255, 256, 300.7, 3.9]), torch.uint8),
        marks=pytest.mark.row("C:E19"),
    ),
    pytest.param(case("to.dtype", N, torch.int8), marks=pytest.mark.row("C:E19")),
    pytest.param(case("to.dtype", X, torch.bool), marks=pytest.mark.row("C:E19")),
    pytest.param(case("to.dtype", BOOL[0], torch.bfloat16), marks=pytest.mark.row("C:E19")),
    pytest.param(case("to.dtype", N, torch.float16), marks=pytest.mark.row("C:E19")),
    pytest.param(case("full.default", [2], 2**40), marks=pytest.mark.row("C:E21", "C:inv16")),
    pytest.param(
        case("full.default", [2], 0.1, dtype=torch.float64),
        marks=pytest.mark.row("C:E21", "C:inv16"),
    ),
    pytest.param(case("full.default", [2], -INF), marks=pytest.mark.row("C:E21", "C:inv16")),
    pytest.param(case("arange.default", 5), marks=pytest.mark.row("C:E22")),
    pytest.param(case("arange.start_step", 0.0, 1.0, 0.3), marks=pytest.mark.row("C:E22")),
    pytest.param(
        case("constant_pad_nd.default", UNIT, [2, 3], 0.5), marks=pytest.mark.row("C:E23")
    ),
    pytest.param(
        case("pad.default", ints(2, 3), [1, 1], "constant", 7), marks=pytest.mark.row("C:E23")
    ),
    pytest.param(case("div.Tensor", X, Y), marks=pytest.mark.row("C:E28")),
    pytest.param(case("div.Tensor", N, D), marks=pytest.mark.row("C:E28", "C:def12")),
    pytest.param(case("reciprocal.default", X), marks=pytest.mark.row("C:E28")),
    pytest.param(case("lt.Tensor", X, Y), marks=pytest.mark.row("C:E28")),
    pytest.param(case("ne.Tensor", X, X), marks=pytest.mark.row("C:E28")),
    pytest.param(case("remainder.Tensor", X, Y), marks=pytest.mark.row("C:E28")),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_eagers_answer_on_edge_values(case: Case) -> None:
    case.check()


@pytest.mark.row("C:def6", "C:E23")
def test_a_negative_zero_beside_a_condition_stays_negative() -> None:
    value = Guarded(load("flag", EIGHT, dtype=DType.BOOL), load("x", EIGHT), number(-0.0), F32)
    buffers = [buffer("flag", DType.BOOL, 8), buffer("x", F32, 8), buffer("out", F32, 8)]
    whole = program(buffers, [over("out", (EIGHT,), value)], inputs="flag x")
    given = {"flag": torch.zeros(8, dtype=torch.bool).numpy(), "x": torch.ones(8).numpy()}
    found = torch.from_numpy(evaluate(whole, given, {}, {"s": 1})["out"])
    assert torch.signbit(found).all()
    assert TRITON.literal(number(-0.0)) == "-0.0"


@pytest.mark.row("C:def12", "C:E15")
@pytest.mark.parametrize("op", ["floordiv", "truncdiv", "remainder", "fmod"])
def test_division_by_zero_decides_nothing_else(op: str) -> None:
    """Elsewhere in the kernel the divisor may be zero: its text never divides by zero."""
    text = triton_text(op, ("x", "y"), DType.INT32, DType.INT32)
    assert "// y" not in text and "% y" not in text and "(y | (y == 0))" in text
    assert (
        apply(op, load("n", EIGHT, dtype=DType.INT32), number(3, DType.INT32)).dtype is DType.INT32
    )
