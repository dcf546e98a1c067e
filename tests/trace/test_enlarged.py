"""Examples whose sizes make another size 1, which torch.export fixes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
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


def test_every_size_is_another_prime():
    example: Any = (
        ([torch.rand(3, 3), torch.rand(7)], {"a": torch.rand(2, 2)}),
        {"z": torch.rand(6)},
    )
    dims = {0: N}, {0: 2 * N + 1}, [M, None], {0: Dim("short", max=9)}
    (x, y), named = enlarged(example, [LeafSpec("", one) for one in dims])  # type: ignore[misc]
    assert [one.shape for one in (*x, y["a"], named["z"])] == [(11, 3), (23,), (7, 2), (6,)]
    assert torch.equal(x[0][:3], example[0][0][0])


def test_sizes_at_their_ends_have_no_other_example():
    example = (torch.rand(4),), {}
    assert enlarged(example, [LeafSpec("", {0: Dim("full", min=1, max=4)})]) is None
    assert enlarged(example, []) is None
