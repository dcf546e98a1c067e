"""Communication between processes is refused when the model is built, wherever it hides."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import _functional_collectives as functional

import aotpack
from aotpack.errors import UnsupportedError

X = torch.linspace(-2, 2, 4)


@pytest.fixture(scope="module", autouse=True)
def _group() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Model(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def summed(x: Tensor) -> Tensor:
    made: Tensor = functional.all_reduce(x * 2, "sum", dist.group.WORLD)
    return made + 1


def gathered(x: Tensor) -> Tensor:
    made: Tensor = functional.all_gather_tensor(x, 0, dist.group.WORLD)
    return made


def in_place(x: Tensor) -> Tensor:
    made = x * 2
    dist.all_reduce(made)
    return made


def unused(x: Tensor) -> Tensor:
    dist.all_reduce(x * 2)
    return x + 1


def barrier(x: Tensor) -> Tensor:
    dist.barrier()
    return x + 1


def in_a_branch(x: Tensor) -> Any:
    return torch.cond(x.sum() > 0, summed, torch.neg, (x,))


@torch.library.custom_op("aot_collectives::mine", mutates_args=())
def mine(x: Tensor) -> Tensor:
    return x * 2 + 1


@mine.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("aot_collectives::other", mutates_args=())
def other(x: Tensor) -> Tensor:
    return x + 1


@other.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def on_one(x: Tensor) -> Tensor:
    return other(x)


def registered(x: Tensor) -> Tensor:
    return mine(x)


@pytest.mark.parametrize("fallback", ["error", "torch"])
@pytest.mark.parametrize(
    ("function", "operator"),
    [
        (summed, "_c10d_functional.all_reduce.default"),
        (summed, "_c10d_functional.wait_tensor.default"),
        (gathered, "_c10d_functional.all_gather_into_tensor.default"),
        (in_place, "_c10d_functional.all_reduce.default"),
        (unused, "_c10d_functional.all_reduce.default"),
        (barrier, "c10d.barrier.default"),
        (in_a_branch, "_c10d_functional.all_reduce.default"),
    ],
)
def test_communication_is_refused(
    function: Callable[[Tensor], Tensor], operator: str, fallback: str
) -> None:
    words = rf"between processes(.|\n)*  {operator}  \(test_collectives.py:(.|\n)*fallback"
    with pytest.raises(UnsupportedError, match=words):
        aotpack.compile(Model(function), (X,), target="cpu", fallback=fallback)


def test_an_exported_program_is_refused() -> None:
    program = torch.export.export(Model(summed), (X,))
    with pytest.raises(UnsupportedError, match="_c10d_functional.all_reduce.default"):
        aotpack.compile(program, (X,), target="cpu", fallback="torch")


def test_a_registered_lowering_is_looked_into() -> None:
    aotpack.register_lowering("aot_collectives::mine")(summed)
    with pytest.raises(UnsupportedError, match="_c10d_functional.all_reduce.default"):
        aotpack.compile(Model(registered), (X,), target="cpu", fallback="torch")


def test_an_operator_of_the_users_is_taken() -> None:
    with pytest.warns(UserWarning, match="aot_collectives.other"):
        model = aotpack.compile(Model(on_one), (X,), target="cpu", fallback="torch")
    torch.testing.assert_close(model(X), X + 1)
