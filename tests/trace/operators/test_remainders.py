"""Sizes padded to a multiple by ``-n % 8``: right for all sizes, beside eager."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError


class Model(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def in_rows(x: torch.Tensor, multiple: int) -> torch.Tensor:
    """The rows, padded to a multiple, in groups."""
    return F.pad(x, (0, 0, 0, -x.shape[0] % multiple)).view(-1, multiple, x.shape[1])


def in_windows(x: torch.Tensor, side: int) -> torch.Tensor:
    """The windows of an image that is padded to whole ones."""
    x = F.pad(x, (0, -x.shape[1] % side, 0, -x.shape[0] % side))
    height, width = x.shape
    x = x.view(height // side, side, width // side, side)
    return x.transpose(1, 2).reshape(-1, side, side)


def compiled(function: Any, example: torch.Tensor, shapes: Any, **how: Any) -> Any:
    given = {"dynamic_shapes": (shapes,), "target": "interpreter", **how}
    return aotpack.compile(Model(function), (example,), **given)


def pairs(low: int) -> list[tuple[int, int]]:
    """Each size beside itself, beside one of another remainder, and beside all from the end."""
    sizes = range(low, 21)
    return [
        (size, other) for size in sizes for other in (size, (size + 10) % 20 + low, 20 + low - size)
    ]


def check(function: Any, package: Any, shapes: Iterable[tuple[int, ...]]) -> None:
    for shape in shapes:
        x = torch.randn(shape)
        assert torch.equal(package(x), function(x)), shape


@pytest.mark.parametrize(("low", "example"), [(1, 11), (2, 5), (2, 8)])
@pytest.mark.parametrize("multiple", [2, 3, 4, 8])
def test_one_size_padded_to_a_multiple(low: int, multiple: int, example: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return in_rows(x, multiple)

    shapes = {0: Dim("m", min=low, max=512)}
    with compiled(function, torch.randn(example, 5), shapes) as package:
        check(function, package, [(size, 5) for size in range(low, 21)])


@pytest.mark.parametrize("low", [1, 2])
@pytest.mark.parametrize("multiple", [2, 3, 4, 8])
def test_two_sizes_padded_to_a_multiple(low: int, multiple: int) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return in_windows(x, multiple)

    shapes = {0: Dim("h", min=low, max=50), 1: Dim("w", min=low, max=50)}
    with compiled(function, torch.randn(11, 13), shapes) as package:
        check(function, package, pairs(low))


OTHER_SUMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a number less a size": lambda x: F.pad(x, (0, 0, 0, (8 - x.shape[0]) % 8)).view(-1, 8),
    "beside a number": lambda x: F.pad(x, (0, 0, 1, (-1 - x.shape[0]) % 8)).view(-1, 8),
    "a multiple of a size": lambda x: F.pad(x.repeat(3, 1), (0, 0, 0, -3 * x.shape[0] % 8)),
    "a product": lambda x: F.pad(x.flatten(), (0, -x.numel() % 8)).view(-1, 8),
    "numbers alone": lambda x: x.new_tensor([2.0]) * ((13 - x.shape[0] - 2 * x.shape[1]) % 5),
    "of either sign": lambda x: x[:1] * ((x.shape[0] - x.shape[1]) % 3),
    "by a negative number": lambda x: x[:1] * (-x.shape[0] % -3),
}


@pytest.mark.parametrize("name", OTHER_SUMS)
def test_remainders_of_other_sums(name: str) -> None:
    function = OTHER_SUMS[name]
    shapes = {0: Dim("m", min=2, max=50), 1: Dim("n", min=2, max=50)}
    with compiled(function, torch.randn(5, 7), shapes) as package:
        check(function, package, pairs(2))


def test_remainders_in_strict_mode() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return in_rows(x, 8)

    shapes = {0: Dim("m", min=2, max=512)}
    with compiled(function, torch.randn(11, 5), shapes, strict=True) as package:
        check(function, package, [(size, 5) for size in range(2, 21)])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.pad(x, (0, 0, 0, -x.shape[0] % 4)).view(-1, 8, 5),
        lambda x: F.pad(x, (0, 0, 0, (-1 - x.shape[0]) % 8)).view(-1, 8, 5),
    ],
)
def test_padding_to_another_multiple_is_refused(function: Any) -> None:
    with pytest.raises(TraceError, match=r"shape '\[-1, 8, 5\]' is invalid"):
        compiled(function, torch.randn(11, 5), {0: Dim("m", min=2, max=512)})


def test_a_condition_on_a_remainder_is_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if -x.shape[0] % 8 else x

    with pytest.raises(TraceError, match="right only for some of the sizes"):
        compiled(function, torch.randn(11, 5), {0: Dim("m", min=2, max=512)})


def test_remainders_are_torchs_own_afterwards() -> None:
    before = torch.SymInt.__mod__
    compiled(lambda x: in_rows(x, 2), torch.randn(5, 3), {0: Dim("m", min=2, max=9)})
    assert torch.SymInt.__mod__ is before


def in_tens(x: torch.Tensor) -> torch.Tensor:
    whole, rest = divmod(x.shape[0], 10)
    return x[: whole * 10].reshape(whole, 10, -1).sum(1).sum(0) * 2 + x[whole * 10 :].sum(0) * rest


def of_a_number(x: torch.Tensor) -> torch.Tensor:
    whole, rest = divmod(45, x.shape[0])
    return x * whole + rest - divmod(-x.shape[0], 8)[1]


@pytest.mark.parametrize("function", [in_tens, of_a_number])
def test_quotients_with_remainders(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    package = compiled(function, torch.ones(13, 2), {0: Dim("n", min=10, max=45)})
    for size in range(10, 46):
        x = torch.randint(-4, 4, (size, 2)).float()
        assert torch.equal(package(x), function(x)), size
    assert not hasattr(torch.SymInt, "__divmod__")


def test_quotients_by_floats_are_refused() -> None:
    with pytest.raises(TraceError, match=r"(?s)divmod.*at test_remainders.py:\d+"):
        compiled(lambda x: x * divmod(x.shape[0], 2.5)[0], torch.ones(13, 2), {0: Dim("n")})
