"""Examples whose sizes make another size 1, which torch.export fixes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from aotpack.trace.agreement.other_inputs.enlarged import enlarged
from aotpack.trace.diagnostics.guards import LeafSpec

from ..e2e.models import Function

N, M = Dim("n", min=1, max=64), Dim("m", min=1, max=64)
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "third columns": (lambda x: x[:, 1::3].flatten() * 2, (3, 4)),
    "all but the first": (lambda x: x[:, 1:].flatten(), (3, 2)),
    "a half": (lambda x: x[:, x.shape[1] // 2 :].flatten(1), (3, 2, 4)),
    "behind another": (lambda x: x[:, x.shape[0] :].flatten(1), (4, 5)),
    "drawn": (lambda x: x[:, 1:].flatten() + torch.rand(1) * 0, (3, 2)),
}


@pytest.mark.parametrize(("function", "shape"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_sizes_that_are_1_in_the_example_stay_dynamic(function, shape):
    model, shapes = Function(function, 1), ({0: N, 1: M},)
    package = aotpack.compile(model, (torch.randn(shape),), dynamic_shapes=shapes, target="cpu")
    seed = {"seed": 1} if package.signature.inputs[-1].name == "seed" else {}
    for n, m in (3, 2), (1, 1), (1, 2), (2, 4), (5, 9), (7, 64):
        x = torch.randn(n, m, *shape[2:])
        assert torch.equal(package(x, **seed), model(x))


def test_a_model_of_some_sizes_alone_is_refused_by_the_example():
    model = Function(lambda x: x[:, 1:].view(3, -1) if x.shape[1] % 2 else x * 2, 1)
    with pytest.raises(TraceError, match="right only for some of the sizes"):
        aotpack.compile(model, (torch.randn(3, 5),), dynamic_shapes=({0: N, 1: M},), target="cpu")


class Seeded(nn.Module):
    """Has a keyword of its own by the name of the packages' seed, and draws nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout()

    def forward(self, x: Tensor, *, seed: Tensor) -> Tensor:
        return self.dropout(x[:, 1:].flatten() * 2) + seed


def test_a_seed_of_the_model_stays_its_own():
    model, seed = Seeded().eval(), torch.tensor([1.5])
    shapes = {"x": {0: N, 1: M}, "seed": None}
    given = {"target": "cpu", "dynamic_shapes": shapes}
    package = aotpack.compile(model, (torch.randn(3, 2),), {"seed": seed}, **given)
    x = torch.randn(5, 4)
    assert torch.equal(package(x, seed=seed * 2), model(x, seed=seed * 2))


@pytest.mark.parametrize("most", [5, 6, 8, 9, 64])
def test_ranges_that_leave_little_room(most):
    model = Function(lambda x: x[:, 1::3].flatten() * 2, 1)
    shapes = ({0: N, 1: Dim("narrow", min=1, max=most)},)
    package = aotpack.compile(model, (torch.randn(3, 4),), dynamic_shapes=shapes, target="cpu")
    for m in (1, 2, 4, most):
        x = torch.randn(5, m)
        assert torch.equal(package(x), model(x))


def test_sizes_differ_and_their_order_stays():
    example: Any = (
        ([torch.rand(3, 3), torch.rand(7)], {"a": torch.rand(2, 2)}),
        {"z": torch.rand(6)},
    )
    dims = {0: N}, {0: 2 * N + 1}, [M, None], {0: Dim("short", max=9)}
    (x, y), named = enlarged(example, [LeafSpec("", one) for one in dims])  # type: ignore[misc]
    assert [one.shape for one in (*x, y["a"], named["z"])] == [(5, 3), (11,), (3, 2), (7,)]
    assert torch.equal(x[0][:3], example[0][0][0])


def test_a_range_without_a_prime_has_no_other_example():
    example = (torch.rand(8), torch.rand(4)), {}
    specs = [LeafSpec("", {0: Dim("narrow", min=8, max=10)}), LeafSpec("", {0: M})]
    assert enlarged(example, specs) is None
    assert enlarged(example, [LeafSpec("", None)] * 2) is None
    assert enlarged(example, []) is None
