"""A watched call of a real model names the model's own line."""

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan

import aotpack


class Logarithm(nn.Module):
    """A NaN that the next softmax spreads."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.sum(1, keepdim=True)
        y = torch.log(rows - 1)
        return (y.softmax(0) + x.cumsum(0)).sum(0)


@pytest.mark.row("C:K5")
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_the_line_that_makes_a_nan_is_named(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTPACK_DEBUG", "nan")
    x = torch.full((4, 8), 2.0)
    model = aotpack.compile(Logarithm(), (x,), target=target)
    torch.testing.assert_close(model(x), Logarithm()(x))
    with pytest.raises(
        aotpack.AotpackError, match=r"test_debugging.py:16: y = torch.log\(rows - 1\)"
    ):
        model(-x)


class Stacked(nn.Module):
    """Each turn of the loop writes a row of what it stacks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, rows = scan(lambda state, row: (state + row, state * 2), x[0] * 0, x)
        return rows.cumsum(0)


@pytest.mark.row("C:K5")
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_what_later_turns_write_is_no_nan(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTPACK_DEBUG", "nan")
    x = torch.randn(5, 4)
    model = aotpack.compile(Stacked(), (x,), target=target)
    for _ in range(2):
        torch.testing.assert_close(model(x), Stacked()(x))
        model.poison()
