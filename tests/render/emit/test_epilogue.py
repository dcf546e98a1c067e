"""What templates share: numbers of batch axes, and members behind a result tile."""

import pytest
import torch
from torch import nn

from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.render.emit.epilogue import batch_names, batch_numbers
from tests.render.models import kernel_text, rendered

AXES = tuple(Axis(name, Int.of(size)) for name, size in (("b", 2), ("h", 3), ("k", 5)))


@pytest.mark.parametrize("number", [0, 1, 14, 29])
def test_batch_numbers_are_the_digits_of_the_flat_one(number: int) -> None:
    found = {name: eval(text, {"n": number}) for name, text in batch_numbers(AXES, "n")}
    assert list(found) == list(batch_names(AXES).values()) == ["g0", "g1", "g2"]
    assert (found["g0"] * 3 + found["g1"]) * 5 + found["g2"] == number
    assert found["g0"] < 2 and found["g1"] < 3 and found["g2"] < 5


def test_without_batches_there_are_no_numbers() -> None:
    assert batch_numbers((), "n") == ()


class Two(nn.Module):
    """Two results of a product; the product itself is none."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = x @ y.t()
        return z.relu(), z + 1


class Plain(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y.t()


def test_members_are_stored_and_what_nobody_asks_for_is_not() -> None:
    args = torch.zeros(64, 64), torch.zeros(64, 64)
    stores = [
        [line.split("(")[1].split(" ")[0] for line in text.splitlines() if "tl.store(" in line]
        for text in (kernel_text(rendered(model, *args)) for model in (Two(), Plain()))
    ]
    assert stores == [["out_ptr", "out2_ptr"], ["out_ptr"]]
