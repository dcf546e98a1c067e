"""What a build changes of torch while it exports, and leaves as it was."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

import pytest
import torch

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
