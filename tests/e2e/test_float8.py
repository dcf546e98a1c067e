"""8-bit floats, bit for bit as eager has them: casts from and to all types, views, storage."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from aotpack.errors import AotpackError
from aotpack.pipeline import compile

pytestmark = pytest.mark.usefixtures("for_this_processor")

TARGETS = ("cpu", "interpreter", pytest.param("native", marks=pytest.mark.gpu))
CODES = torch.arange(256, dtype=torch.uint8)
NUMBERS = torch.tensor(
    [
        0.0,
        -0.0,
        1e-9,
        0.0023,
        0.0176,
        0.3,
        1.0625,
        1.1875,
        -3.4,
        7.7,
        88.0,
        200.0,
        -447.0,
        torch.nan,
    ]
)


class Casts(nn.Module):
    """From and to other types, bits seen as another type, and copies."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.register_buffer("weight", CODES.flip(0).view(dtype))

    def forward(self, x: torch.Tensor, half: torch.Tensor, codes: torch.Tensor) -> Any:
        own = codes.view(self.dtype)
        from_others = (
            (x * 0.5).to(self.dtype),
            x.double().to(self.dtype),
            half.to(self.dtype),
            codes.long().to(self.dtype),
            (codes > 7).to(self.dtype),
        )
        to_others = (own.float(), own.double(), own.bfloat16(), own.half(), own != 0, own.isnan())
        copies = (
            torch.cat([own, self.weight]),
            own[::3].clone(),
            torch.where(codes > 9, own, self.weight),
            self.weight.view(torch.int8).view(16, 16).t().contiguous(),
            torch.full((3,), 3.3, dtype=self.dtype),
        )
        return from_others, to_others, copies


def where(target: str) -> str:
    """The device on which a package for a target runs."""
    return "cuda" if target == "native" else "cpu"


def bits(results: Any) -> list[torch.Tensor]:
    """Each tensor as integers; of a wider float every NaN is the same."""
    found: list[torch.Tensor] = []
    for result in [tensor for group in results for tensor in group]:
        integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[result.itemsize]
        if result.dtype.is_floating_point and result.itemsize > 1:
            result = torch.where(result.isnan(), torch.nan, result).to(result.dtype)
        found.append(result.view(integer))
    return found


@pytest.mark.row("C:D6", "C:D7", "C:E19")
@pytest.mark.parametrize("dtype", (torch.float8_e4m3fn, torch.float8_e5m2), ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_casts_and_copies_are_those_of_eager(target: str, dtype: torch.dtype) -> None:
    module, args = Casts(dtype), (NUMBERS, NUMBERS.half(), CODES)
    model, eager = compile(module, args, target=target), module(*args)
    found = pytree.tree_map(torch.Tensor.cpu, model(*(arg.to(where(target)) for arg in args)))
    for number, (ours, theirs) in enumerate(zip(bits(found), bits(eager), strict=True)):
        assert torch.equal(ours, theirs), (number, int((ours != theirs).sum()))
    assert [x.dtype for x in found[0]] == [dtype] * 5


class Cache(nn.Module):
    """Keys and values of 8 bits: rows are written as they come, and all are read."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(6, 4).to(torch.float8_e4m3fn))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.rows[at] = (x * 3).to(torch.float8_e4m3fn)
        return self.rows.float().sum(1) + 1


@pytest.mark.parametrize("target", TARGETS)
def test_state_is_kept_in_8_bits(target: str) -> None:
    module, x, at = Cache(), torch.randn(2, 4), torch.tensor([1, 4])
    model, place = compile(module, (x, at), target=target), where(target)
    for step in range(3):
        args = (x + step, at + step % 2)
        found = model(*(arg.to(place) for arg in args))
        assert torch.allclose(found.cpu(), module(*args))
    state = model.state["rows"].stored()
    assert torch.equal(torch.from_numpy(state), module.rows.view(torch.uint8))


class Scaled(nn.Module):
    """``torch._scaled_mm`` to several types, and a product without scales."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, scale: torch.Tensor, bias: Any) -> Any:
        return (
            torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.float32),
            torch._scaled_mm(a, b.t(), scale, scale, bias=bias, out_dtype=torch.bfloat16),
            torch._scaled_mm(a, b.t(), scale, scale, out_dtype=torch.float8_e4m3fn),
            a @ a.t(),
        )


class ScaledRows(nn.Module):
    """A scale for each row of the one factor, and for each column of the other."""

    def forward(self, a: torch.Tensor, b: torch.Tensor, rows: torch.Tensor) -> Any:
        columns = rows[:16].t().contiguous()
        return (torch._scaled_mm(a, b.t(), rows, columns, out_dtype=torch.bfloat16),)


def check_products(module: nn.Module, args: tuple[torch.Tensor, ...], target: str) -> None:
    found = compile(module, args, target=target)(*(arg.to(where(target)) for arg in args))
    for ours, theirs in zip(found, module(*args), strict=True):
        assert ours.dtype is theirs.dtype
        wide, scale = theirs.float(), float(theirs.float().abs().max())
        assert (ours.float().cpu() - wide).abs().max() <= torch.finfo(ours.dtype).eps * scale


def factors() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(32, 64).to(torch.float8_e4m3fn), torch.randn(16, 64).to(torch.float8_e5m2)


@pytest.mark.parametrize("target", TARGETS)
def test_scaled_product(target: str) -> None:
    check_products(Scaled(), (*factors(), torch.tensor(0.5), torch.randn(16).bfloat16()), target)


@pytest.mark.parametrize("target", TARGETS[:2])  # torch 2.11 has it on GPUs alone
def test_scaled_rows(target: str) -> None:
    check_products(ScaledRows(), (*factors(), torch.rand(32, 1)), target)


class Refused(nn.Module):
    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: torch.Tensor) -> Any:
        own = x.to(torch.float8_e4m3fn)
        if self.what == "type":
            return own.to(torch.float8_e8m0fnu).float()
        one = torch.ones(())
        return torch._scaled_mm(own, own.t(), one, one, scale_result=one, out_dtype=own.dtype)


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("type", "float8_e8m0fnu; accepted are"),
        ("scaled", "scale_result is not accepted"),
    ],
)
def test_other_computation_is_refused(what: str, reason: str) -> None:
    with pytest.raises(AotpackError, match=reason):
        compile(Refused(what), (torch.ones(16, 16),), target="cpu")
