"""How often a model is exported: again where the program is right for some sizes alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError

SIZES = {0: Dim("n", min=1, max=9), 1: Dim("k", min=1, max=9)}


class Counting(nn.Module):
    """A model that counts the runs of its forward."""

    def __init__(self, function: Callable[[torch.Tensor], Any], runs: list[int]) -> None:
        super().__init__()
        self.function, self.shared = function, (runs.append,)

    def forward(self, x: torch.Tensor) -> Any:
        self.shared[0](1)
        return self.function(x)


REFUSED: dict[str, tuple[Callable[[torch.Tensor], Any], str, int]] = {
    "no tensor": (lambda x: None, "returns no tensor", 1),
    "a size that may be 1": (lambda x: x.squeeze(0), "only where that is 1", 1),
    "another shape in place": (lambda x: x.unsqueeze_(0) * 2, "another shape in place", 1),
    "one of few elements": (lambda x: x.flatten()[3], "aten.select.int fails", 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_of_the_model_comes_after_one_export(name: str) -> None:
    function, words, count = REFUSED[name]
    runs: list[int] = []
    with pytest.raises(AotpackError, match=words):
        aotpack.compile(
            Counting(function, runs),
            (torch.randn(4, 6),),
            dynamic_shapes={"x": SIZES},
            target="interpreter",
        )
    assert len(runs) == count


def test_a_program_for_some_sizes_is_exported_again() -> None:
    model = Counting(lambda x: x.flatten()[:3], [])
    package = aotpack.compile(
        model, (torch.randn(4, 6),), dynamic_shapes={"x": SIZES}, target="interpreter"
    )
    for shape in (1, 1), (1, 2), (9, 1), (4, 6):
        x = torch.randn(shape)
        assert torch.equal(package(x), model(x))


def test_a_program_that_draws_is_exported_again() -> None:
    model = Counting(lambda x: x.flatten()[:3] * 0 + torch.rand(2)[0], [])
    package = aotpack.compile(
        model, (torch.randn(4, 6),), dynamic_shapes={"x": SIZES}, target="interpreter"
    )
    for shape, count in ((1, 1), 1), ((1, 2), 2), ((4, 6), 3):
        found = package(torch.randn(shape), seed=torch.tensor(3))
        assert found.shape == (count,) and bool((found == found[0]).all())
