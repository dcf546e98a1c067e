"""Elementwise operators."""

import pytest
import torch

from aotpack.errors import UnsupportedError
from tests.lower.oracle import Case, case, floats, ints, positives

SPECIAL = torch.tensor(
    [-30.0, -4, -1.5, -0.5, -0.0, 0, 0.3, 0.5, 2, 25, float("inf"), -float("inf"), float("nan")]
)
DIVISORS = torch.tensor([1, -2, 3, 2])
BOOLS = (torch.tensor([True, False, True]), torch.tensor([True, True, False]))
TENTHS = torch.tensor([0.1, 0.2])

UNARY = (
    "exp exp2 expm1 sin cos tan sinh cosh tanh asinh atan erf erfc sigmoid neg abs sign relu "
    "square floor ceil trunc round sgn gelu log_sigmoid relu6"
).split()
POSITIVE = "log log2 log10 log1p sqrt rsqrt reciprocal".split()
INTEGER = "neg abs sign relu square floor ceil trunc round".split()
WITH_SPECIAL = (
    "silu mish softplus hardtanh hardsigmoid hardswish leaky_relu elu celu selu softshrink "
    "hardshrink frac sinc deg2rad rad2deg isnan isinf isfinite isposinf isneginf signbit "
    "logical_not nan_to_num"
).split()
COMPARISONS = "eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor".split()
BOOLEAN = (
    "mul.Tensor maximum.default minimum.default logical_and.default logical_or.default".split()
    + COMPARISONS
)
BINARY = [
    *BOOLEAN,
    *"remainder.Tensor fmod.Tensor logical_xor.default floor_divide.default".split(),
]
EXPONENTS = (2, 3, 0.5, -1, -2, -0.5, 0, 1, 2.5, 4)
FLOAT_TYPES = (torch.float32, torch.bfloat16, torch.float64, torch.float16)

TABLES = [
    *(case(f"{op}.default", floats(3, 5).to(dtype)) for op in UNARY for dtype in FLOAT_TYPES),
    *(case(f"{op}.default", positives(7)) for op in POSITIVE),
    *(case(f"{op}.default", torch.arange(1, 6)) for op in POSITIVE),
    *(case(f"{op}.default", positives(5) - 0.2) for op in ("asin", "acos", "atanh")),
    case("acosh.default", positives(5) + 1),
    *(case(f"{op}.default", ints(4, 3)) for op in INTEGER),
    *(case(f"{op}.default", SPECIAL) for op in WITH_SPECIAL),
    *(case(f"{op}.default", floats(5).bfloat16()) for op in WITH_SPECIAL),
    *(case(op, floats(3, 1, 5), floats(4, 1)) for op in (*BINARY, "atan2.default")),
    *(case(op, floats(3, 4).bfloat16(), floats(4).bfloat16()) for op in (*BINARY, "atan2.default")),
    *(case(op, ints(3, 4), DIVISORS) for op in BINARY),
    *(case(op, ints(3, 4).int(), DIVISORS) for op in BINARY),
    *(case(op, *BOOLS) for op in BOOLEAN),
    *(
        case(op.replace("Tensor", "Scalar"), tensor, number)
        for op in COMPARISONS
        for tensor, number in (
            (floats(4), 0.1),
            (TENTHS.bfloat16(), 0.1),
            (TENTHS.half(), 0.1),
            (ints(4), 1.5),
            (ints(4), 2),
        )
    ),
    *(case("pow.Tensor_Scalar", positives(5), exponent) for exponent in EXPONENTS),
]

BOOLS = torch.tensor([[True, False, True, False], [True, True, False, False]])
CASES = [
    *TABLES,
    case("acosh.default", positives(5) + 1),
    case("gelu.default", floats(9), approximate="tanh"),
    case("nan_to_num.default", torch.tensor([float("inf"), float("nan"), 1.0]).bfloat16()),
    case("log_sigmoid.default", floats(5)),
    case("relu6.default", floats(5) * 5),
    case("add.Tensor", floats(3), floats(3), alpha=2),
    case("add.Tensor", ints(3), 2),
    case("add.Tensor", floats(2, 0, 3), floats(3)),
    case("add.Tensor", torch.tensor([True, False]), torch.tensor([True, True])),
    *(case("add.Tensor", *BOOLS, alpha=alpha) for alpha in (3, -1, 0, True, False)),
    case("add.Scalar", BOOLS[0], True, 2),
    case("add.Tensor", floats(3).bfloat16(), floats(3)),
    case("add.Tensor", floats(3).bfloat16(), torch.tensor(2.0)),
    case("add.Tensor", ints(3), 2.5),
    case("add.Scalar", floats(3), 2),
    case("sub.Tensor", floats(3), floats(2, 1)),
    case("rsub.Scalar", floats(3), 2, 2),
    case("rsub.Tensor", floats(3), floats(3)),
    case("add.Tensor", torch.tensor([100, 120], dtype=torch.int8), 100),
    case("div.Tensor", floats(3), floats(3)),
    case("div.Tensor", ints(3), torch.tensor([2, 3, 4])),
    case("div.Tensor_mode", ints(3, 3), torch.tensor([2, -3, 4]), rounding_mode="floor"),
    case("div.Tensor_mode", ints(3, 3), torch.tensor([2, -3, 4]), rounding_mode="trunc"),
    case("div.Tensor_mode", floats(3, 3), floats(3), rounding_mode="trunc"),
    case("div.Tensor_mode", floats(3, 3), floats(3), rounding_mode="floor"),
    case("div.Scalar", floats(3), 3),
    case("pow.Tensor_Scalar", ints(5), 5),
    case("pow.Tensor_Tensor", positives(3), floats(3)),
    case("pow.Scalar", 2.0, floats(3)),
    case("pow.Tensor_Scalar", floats(5), 2),
    case("where.self", floats(3, 4) > 0, floats(3, 4), floats(4)),
    case("where.ScalarOther", floats(3) > 0, floats(3), 1.0),
    case("masked_fill.Scalar", floats(3, 4), floats(4) > 0, -float("inf")),
    case("masked_fill.Scalar", ints(3, 4), floats(4) > 0, 7),
    case("masked_fill.Tensor", floats(3), floats(3) > 0, torch.tensor(2.0)),
    case("where.self", floats(3) > 0, floats(3).half(), torch.tensor(1.5)),
    case("clamp.default", floats(5), -0.5, 0.5),
    case("clamp.default", floats(5), None, 0.5),
    case("clamp.Tensor", floats(2, 3), floats(3), None),
    case("clamp_min.default", floats(3), 0.0),
    case("clamp.default", ints(4), -1, 2),
    case("clamp_max.default", floats(4), 0.1),
    case("clamp.default", ints(4), 0.5),
    case("tril.default", floats(4, 5)),
    case("triu.default", floats(2, 4, 5), 1),
    case("tril.default", floats(4, 5) > 0, -1),
    case("bitwise_and.Tensor", ints(4), ints(4)),
    case("bitwise_or.Scalar", ints(4), 3),
    case("bitwise_xor.Tensor", ints(4), ints(4)),
    case("bitwise_not.default", ints(4)),
    case("bitwise_not.default", floats(3) > 0),
    case("__and__.Tensor", floats(3) > 0, floats(3) > 0),
    case("__or__.Tensor", ints(3), ints(3)),
    case("bitwise_left_shift.Tensor", ints(3), torch.tensor([1, 2, 3])),
    case("__rshift__.Scalar", ints(3), 1),
    case("to.dtype", floats(5) * 3, torch.int32),
    case("to.dtype", floats(5), torch.bfloat16),
    case("to.dtype", floats(5), torch.bool),
    case("_to_copy.default", ints(4), dtype=torch.float16),
    case("clone.default", floats(3)),
    case("dropout.default", floats(3), 0.5, False),
    case("copy.default", floats(2, 3), floats(3).double()),
    case("type_as.default", ints(3), floats(2)),
    case("to.dtype", torch.tensor([True, False]), torch.float32),
    case("lerp.Scalar", floats(3), floats(3), 0.3),
    case("lerp.Tensor", floats(3), floats(3), positives(3)),
    case("addcmul.default", floats(3), floats(3), floats(3), value=2),
    case("addcdiv.default", floats(3), floats(3), positives(3), value=0.5),
    case("xlogy.Tensor", torch.tensor([0.0, 1, 2]), torch.tensor([0.0, 2, float("nan")])),
    case("hypot.default", floats(3), floats(3)),
    case("logaddexp.default", floats(3), floats(3)),
    case("logaddexp2.default", floats(3), floats(3)),
    case("copysign.Tensor", floats(3), floats(3)),
    case("heaviside.default", torch.tensor([-1.0, 0, 2]), floats(3)),
    case("pow.Tensor_Tensor", ints(40), torch.arange(-20, 20) // 2),
    case(
        "pow.Tensor_Tensor", torch.tensor([3, -3, 2, -1, 0]), torch.tensor([100, 63, 64, 10**9, 0])
    ),
    case("pow.Scalar", 3, torch.arange(9)),
    case("pow.Tensor_Tensor", ints(7).to(torch.uint8), torch.arange(7).to(torch.uint8)),
    case("gcd.default", ints(9)[:, None] * 6, ints(8) * 4),
    case(
        "gcd.default",
        torch.tensor([7540113804746346429, -12]),
        torch.tensor([4660046610375530309, 0]),
    ),
    case("lcm.default", ints(9)[:, None] * 6, ints(8) * 4),
    case("lcm.default", ints(9).int(), ints(9).int()),
    case("sign.default", floats(4) > 0),
    case("round.decimals", floats(5) * 10, decimals=1),
    case("logit.default", torch.rand(4), 0.001),
    case("logit.default", torch.tensor([0.1, 0.5, 0.65, 0.75, 0.9, float("nan")]), 0.7),
    case("prelu.default", floats(2, 3, 4), floats(3)),
    case("prelu.default", floats(2, 3), floats(1)),
    case("glu.default", floats(3, 6)),
    case("glu.default", floats(4, 6), 0),
    case("threshold.default", floats(5), 0.1, 2.0),
    case("xlogy.Scalar_Self", 2.0, positives(3)),
]


@pytest.mark.row("S:B1")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (case("dropout.default", floats(3), 0.5, True), "dropout is on"),
        (case("linalg_eigvalsh.default", floats(3, 3)), "this operator has no lowering"),
        (case("rrelu.default", floats(3), 0.1, 0.3, True), "training mode"),
    ],
    ids=str,
)
def test_what_cannot_be_lowered_is_refused(refused: Case, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        refused.check()
