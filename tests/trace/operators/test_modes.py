"""What a build changes of torch while it exports, and leaves as it was."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError
from aotpack.trace import trace
from aotpack.trace.operators.modes import patched


def test_a_function_of_torch_is_put_back_and_one_that_is_missing_left() -> None:
    owner = SimpleNamespace(there=abs)
    with pytest.raises(KeyError), patched(owner, "there", lambda before: lambda x: -before(x)):
        assert owner.there(-2) == -2
        raise KeyError
    assert owner.there is abs
    with patched(owner, "missing", partial), patched(None, "there", partial):
        assert vars(owner) == {"there": abs}


def test_a_build_leaves_what_the_user_compiled() -> None:
    compiled = []

    def count(module: torch.fx.GraphModule, args: object) -> Callable[..., object]:
        compiled.append(module)
        return module.forward

    function = torch.compile(lambda x: x + 1, backend=count)
    function(torch.ones(3))
    branches = type("Branches", (torch.nn.Module,), {"forward": _by_sign})()
    trace(branches, (torch.ones(3),), name="m", version="1")
    function(torch.ones(3))
    assert len(compiled) == 1


def _by_sign(self: object, x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))  # type: ignore[no-any-return]


class Tried(torch.nn.Module):
    """Calls that raise and are caught: their lines have no effect, as in eager."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        for attempt in (self.in_place, self.row, self.buffer, self.product, self.parts):
            try:
                attempt(y)
            except (RuntimeError, IndexError):
                y = y * 2 + 1
        return y + self.seen

    def in_place(self, y: torch.Tensor) -> None:
        y.add_(torch.ones(7))

    def row(self, y: torch.Tensor) -> None:
        y[0] = torch.ones(9)

    def buffer(self, y: torch.Tensor) -> None:
        self.seen.add_(1)
        self.seen.copy_(torch.ones(9))

    def product(self, y: torch.Tensor) -> torch.Tensor:
        return y @ torch.ones(8, 9)

    def parts(self, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([y, y[0]])


@pytest.mark.parametrize("shapes", [None, ({0: Dim("n", min=2, max=64)},)])
def test_calls_that_raise_in_a_try_are_no_part_of_the_program(shapes: Any) -> None:
    package = aotpack.compile(
        Tried(), (torch.randn(4, 3),), dynamic_shapes=shapes, target="interpreter"
    )
    model = Tried()
    for count in (2, 7, 9, 64) if shapes else (4, 4):
        x = torch.randn(count, 3)
        torch.testing.assert_close(package(x), model(x))


def test_a_call_that_raises_for_some_sizes_alone_is_refused() -> None:
    def forward(self: object, x: torch.Tensor) -> torch.Tensor:
        try:
            return x + torch.ones(7)
        except RuntimeError:
            return x * 2

    shapes = ({0: Dim("n", min=2, max=64)},)
    with pytest.raises(TraceError, match=r"n (!=|is not) 7|n is 7"):
        aotpack.compile(
            type("Some", (torch.nn.Module,), {"forward": forward})(),
            (torch.randn(4),),
            dynamic_shapes=shapes,
            target="interpreter",
        )
