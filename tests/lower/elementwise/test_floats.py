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


EXPONENTS = [0, 1, -1, 24, -24, 127, 128, 150, -126, -127, -150, 200, -300, 1100, -1100, 2**31 - 1]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("exponents", [torch.int32, torch.int64, torch.int8, torch.uint8], ids=str)
def test_a_power_of_two_scales_exactly(dtype: torch.dtype, exponents: torch.dtype) -> None:
    x = torch.cat([POINTS, torch.tensor([1.5 * TINY, 3.1e-30])]).to(dtype)
    y = torch.tensor(EXPONENTS).clamp(*_ends(exponents)).to(exponents)[:, None]
    (ours,), (eager,) = call("aten.ldexp.Tensor", x, y)
    assert torch.equal(ours.to(dtype).nan_to_num(7), eager.nan_to_num(7))


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    return torch.iinfo(dtype).min, torch.iinfo(dtype).max


CASES = [
    case("fmax.default", POINTS, POINTS.roll(3)),
    case("fmin.default", POINTS, POINTS.roll(2)),
    case("fmax.default", ints(4), ints(4)),
    case("fmin.default", floats(3) > 0, floats(3) > 0),
    case("ldexp.Tensor", POINTS, POINTS.roll(4) / 3),
    case("ldexp.Tensor", POINTS.half(), POINTS.roll(4).half()),
    case("ldexp.Tensor", ints(5), torch.tensor([3, 0, 200, -200, 1])),
    case("ldexp.Tensor", ints(5), ints(5) > 0),
    case("angle.default", POINTS),
    case("angle.default", ints(5)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()
