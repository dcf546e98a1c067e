"""What a model asks of its arguments: their memory, whether two are one tensor, their class."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.errors import TraceError
from tests.e2e.models import Function

TURNED = torch.rand(3, 5).t()


def asked(x: Tensor) -> Tensor:
    return x * 2 if x.is_contiguous() else x * 3


def strides(x: Tensor) -> Tensor:
    return x * x.stride(0)


def written(x: Tensor) -> Tensor:
    x.reshape(-1).add_(3)
    return x + 1


def faster(x: Tensor) -> Tensor:
    return x + x if x.is_contiguous() else x * 2


@pytest.mark.parametrize("forward", [asked, strides, written])
def test_results_that_follow_the_order_are_refused(forward: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(TraceError, match="on the example inputs in row-major memory,"):
        aotpack.compile(Function(forward, 1), (TURNED.clone(),), target="interpreter")
    model = aotpack.compile(Function(forward, 1), (torch.rand(5, 3),), target="interpreter")
    x = torch.rand(5, 3)
    assert torch.equal(model(x.clone()), forward(x.clone()))


def test_an_argument_that_is_changed_has_one_order() -> None:
    def forward(x: Tensor, y: Tensor) -> Tensor:
        x.t().reshape(-1).add_(1)
        return y * 2

    given = torch.randn(3, 4).t(), torch.randn(3, 4).t()
    model = aotpack.compile(
        Function(forward, 2), tuple(one.clone() for one in given), target="interpreter"
    )
    torch.testing.assert_close(model(*given), given[1] * 2)


def test_a_way_by_order_to_the_same_results() -> None:
    model = aotpack.compile(Function(faster, 1), (TURNED,), target="interpreter")
    for x in (TURNED, TURNED.contiguous()):
        assert torch.equal(model(x), x * 2)


class Attention(nn.Module):
    """Asks whether its arguments are one tensor, as attention of torch does."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        found: Tensor = self.attention(query, key, key)[0]
        return found


def test_arguments_that_are_one_tensor() -> None:
    x = torch.rand(1, 4, 8)
    with pytest.raises(TraceError, match="gives another function than the model: on the example"):
        aotpack.compile(
            Function(lambda x, y: x * 2 if x is y else x * 3, 2), (x, x), target="interpreter"
        )
    attention = Attention().eval()
    model = aotpack.compile(attention, (x, x), target="interpreter")
    torch.testing.assert_close(model(x, x), attention(x, x))


def test_arguments_that_the_model_changes_are_two_tensors() -> None:
    """A call refuses one tensor for both; a build takes copies of it."""
    function = Function(lambda x, y: x.add_(1) + y, 2)
    x = torch.rand(4)
    model = aotpack.compile(function, (x, x), target="interpreter")
    torch.testing.assert_close(model(x.clone(), x.clone()), 2 * x + 1)
    with pytest.raises(aotpack.errors.AotpackError, match="shares memory with"):
        model(x, x)


class Same(Tensor):
    """A tensor by another name."""


class Negated(Tensor):
    """Products have the opposite sign."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        return -found if func is Tensor.mul else found


def test_attributes_of_a_tensor_are_compared() -> None:
    x = torch.rand(4)
    x.scale = 5  # type: ignore[attr-defined]
    with pytest.raises(TraceError, match="gives another function than the model: on the example"):
        function = Function(lambda x: x * getattr(x, "scale", 1), 1)
        aotpack.compile(function, (x,), target="interpreter")
    model = aotpack.compile(Function(lambda x: x * 2, 1), (x,), target="interpreter")
    assert torch.equal(model(x), x * 2)


def test_functions_of_a_class_are_compared() -> None:
    function, x = Function(lambda x: x * 2 + 1, 1), torch.rand(4)
    with pytest.raises(TraceError, match="gives another function than the model: on the example"):
        aotpack.compile(function, (x.as_subclass(Negated),), target="interpreter")
    for given in (x.as_subclass(Same), nn.Parameter(x)):
        model = aotpack.compile(function, (given,), target="interpreter")
        torch.testing.assert_close(model(x), 2 * x + 1)
