"""Parts and neighbours of floats."""

import pytest
import torch

from tests.lower.oracle import Case, call, case, floats, ints

INF, NAN = float("inf"), float("nan")
TINY = torch.finfo(torch.float32).tiny
POINTS = torch.tensor(
    [0.0, -0.0, 1, -1, 2, 0.75, 3e38, TINY, TINY / 8, -1e-45, INF, -INF, NAN, 65504]
)
TYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
PAIRS = [(POINTS.to(dtype), POINTS.to(dtype).roll(shift)) for dtype in TYPES for shift in (0, 1, 5)]


@pytest.mark.row("C:E4")
@pytest.mark.parametrize(("x", "y"), PAIRS, ids=str)
def test_next_number_is_exact(x: torch.Tensor, y: torch.Tensor) -> None:
    (ours,), (eager,) = call("aten.nextafter.default", x, y)
    assert torch.equal(ours.to(x.dtype).nan_to_num(7), eager.nan_to_num(7))


@pytest.mark.row("C:E18")
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_mantissa_and_exponent_are_exact(dtype: torch.dtype) -> None:
    x = POINTS.to(dtype)
    ours, eager = call("aten.frexp.Tensor", x)
    finite = torch.isfinite(x)
    assert torch.equal(ours[0].to(dtype).nan_to_num(7), eager[0].nan_to_num(7))
    assert torch.equal(ours[1][finite], eager[1][finite])


CASES = [
    case("fmax.default", POINTS, POINTS.roll(3)),
    case("fmin.default", POINTS, POINTS.roll(2)),
    case("fmax.default", ints(4), ints(4)),
    case("fmin.default", floats(3) > 0, floats(3) > 0),
    case("angle.default", POINTS),
    case("angle.default", ints(5)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()
