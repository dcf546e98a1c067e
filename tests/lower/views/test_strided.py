"""Views and writes by strides in memory."""

import pytest

from aotpack.errors import UnsupportedError
from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int
from aotpack.lower import lower
from aotpack.stages import Ref, TensorSpec
from tests.lower.oracle import Case, case, floats, node, traced

F32 = DType.FLOAT32
X = floats(4, 6)


@pytest.mark.row("S:C8", "S:D15")
@pytest.mark.parametrize(
    "case",
    [
        case("as_strided.default", X, [3, 3], [2, 1], 1),
        case("as_strided.default", X, [24], [1], 0),
        case("as_strided.default", X, [2, 3, 2], [0, 1, 6]),
        case("as_strided.default", X, [], [], 23),
        case("as_strided_copy.default", X[0], [2, 2], [1, 1]),
        case("as_strided_scatter.default", X, floats(2, 2), [2, 2], [6, 1], 1),
        case("as_strided_scatter.default", X, floats(2, 3), [2, 3], [1, 4], 2),
        case("as_strided_scatter.default", X, floats(4), [4], [7]),
        case("as_strided_scatter.default", X, floats(1, 2, 1), [1, 2, 1], [0, 6, 6], 5),
        case("diagonal_scatter.default", X, floats(4)),
        case("diagonal_scatter.default", X, floats(4), 1),
        case("diagonal_scatter.default", X, floats(3), -1),
        case("diagonal_scatter.default", floats(2, 3, 4), floats(3, 2), 0, 2, 0),
    ],
    ids=str,
)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()


@pytest.mark.parametrize(
    ("stride", "reason"),
    [
        ((5, 3, 2), "let elements overlap"),
        ((1, 2, 2), "let elements overlap"),
        ((6, 1, 0), "the stride 0 is no positive constant"),
    ],
)
def test_refuses_elements_that_may_meet(stride: tuple[int, ...], reason: str) -> None:
    part = (Int.of(2),) * 3
    inputs = TensorSpec("x", F32, (Int.of(24),)), TensorSpec("part", F32, part)
    args = (Ref("x"), Ref("part"), (2, 2, 2), stride)
    written = node("written", "aten.as_strided_scatter.default", args, inputs[0])
    with pytest.raises(UnsupportedError, match=reason):
        lower(traced([written], inputs, (Ref("written"),)))
