"""Functions that hold parts of a model: the package has the model's mode, state and weights."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import aotpack
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.methods import evaluation_copies

X = torch.randn(5, 4)


class Net(nn.Module):
    """A norm in training mode; ``make`` gives it what its forward calls."""

    def __init__(self, make: Callable[["Net"], Any]) -> None:
        super().__init__()
        self.fc, self.bn = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.register_buffer("count", torch.zeros(()))
        self.feats: dict[str, Tensor] = {}
        self.function = make(self)

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def lambda_of_self(net: Net) -> Any:
    return lambda x: net.bn(net.fc(x))


def lambda_of_parts(net: Net) -> Any:
    bn, fc = net.bn, net.fc
    return lambda x: bn(fc(x))


def list_of_parts(net: Net) -> Any:
    parts = [net.fc, net.bn]
    return lambda x: functools.reduce(lambda y, part: part(y), parts, x)


def default(net: Net) -> Any:
    return lambda x, net=net: net.bn(net.fc(x))


def keyword(net: Net) -> Any:
    def function(x: Tensor, *, part: nn.Module = net.bn) -> Tensor:
        return part(net.fc(x))

    return function


def nested(net: Net) -> Any:
    inner = lambda x: net.bn(x)  # noqa: E731
    return lambda x: inner(net.fc(x))


def partial(net: Net) -> Any:
    return functools.partial(lambda part, x: part.bn(part.fc(x)), net)


def recursive(net: Net) -> Any:
    def function(x: Tensor, depth: int = 1) -> Tensor:
        return function(net.fc(x), depth - 1) if depth else net.bn(x)

    return function


def patched_forward(net: Net) -> Any:
    forward = net.bn.forward
    net.bn.forward = lambda x: forward(x) * 2
    return lambda x: net.bn(net.fc(x))


def hook(net: Net) -> Any:
    net.fc.register_forward_hook(lambda module, args, out: net.bn(out))
    return net.fc.__call__


def mode(net: Net) -> Any:
    return lambda x: x if net.training else net.fc(x)


MADE = [
    *(lambda_of_self, lambda_of_parts, list_of_parts, default, keyword, nested, partial),
    *(recursive, patched_forward, hook, mode),
]


@pytest.mark.parametrize("make", MADE, ids=lambda one: one.__name__)
def test_functions_of_a_model_in_training_mode_are_in_evaluation_mode(make: Any) -> None:
    net = Net(make)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    model = aotpack.compile(net, (X,), target="interpreter")
    assert net.training
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    torch.testing.assert_close(model(X), net.eval()(X))


def test_state_behind_a_function_starts_as_it_is_and_stays_the_users() -> None:
    net = Net(lambda net: lambda x: x * 0 + net.count.add_(1)).eval()
    model = aotpack.compile(net, (X,), target="interpreter")
    assert net.count == 0
    assert [float(model(X)[0, 0]) for _ in range(3)] == [1, 2, 3]


def test_a_hook_keeps_features_in_a_dict_of_the_model() -> None:
    def make(net: Net) -> Any:
        feats = net.feats

        def keep(module: nn.Module, args: Any, out: Tensor) -> None:
            feats["fc"] = out

        net.fc.register_forward_hook(keep)
        return lambda x: (net.fc(x).relu(), net.feats["fc"])

    net = Net(make).eval()
    model = aotpack.compile(net, (X,), target="interpreter")
    assert not net.feats
    for found, wanted in zip(model(X), net(X), strict=True):
        torch.testing.assert_close(found, wanted)


def test_layers_behind_a_function_are_cast() -> None:
    def make(net: Net) -> Any:
        forward = net.fc.forward
        net.fc.forward = lambda x: forward(x) * 2
        return lambda x: net.fc(x)

    net, x = Net(make).eval(), torch.randn(5, 4)
    model = aotpack.compile(net, (x,), target="interpreter", dtype="bfloat16")
    assert model(x.bfloat16()).dtype is torch.bfloat16


def test_functions_without_parts_stay_as_they_are() -> None:
    factor = 2

    def double(x: Tensor) -> Tensor:
        return x * factor

    net = Net(lambda net: double)
    (made,) = evaluation_copies({"": net}, None, HostCopies()).values()
    assert made.function is double
    held = Net(lambda_of_self)
    (made,) = evaluation_copies({"": held}, None, HostCopies()).values()
    assert made.function is not held.function
    assert made.function.__closure__[0].cell_contents is made
    assert held.function.__closure__[0].cell_contents is held


def test_functions_share_a_variable_in_the_copy_too() -> None:
    def make(net: Net) -> Any:
        scale = [net.count]

        def first(x: Tensor) -> Tensor:
            nonlocal scale
            scale = [net.count + 1]
            return x

        net.other = lambda x: x * scale[0]
        return lambda x: net.other(first(x))

    net = Net(make).eval()
    model = aotpack.compile(net, (X,), target="interpreter")
    torch.testing.assert_close(model(X), X)
