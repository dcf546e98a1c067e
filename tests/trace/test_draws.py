"""Numbers from the generators of Python and numpy: refused where results follow them."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import aotpack
from aotpack.errors import TraceError
from aotpack.trace import trace
from aotpack.trace.agreement.draws import Generators

Forward = Callable[[torch.Tensor], torch.Tensor]
X = torch.randn(3, 4)


class Model(nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.function = forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def flipped(x: torch.Tensor) -> torch.Tensor:
    return x.flip(-1) if random.random() < 0.5 else x * 1.0


def seldom(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if random.random() < 0.25 else x * 3


def shuffled(x: torch.Tensor) -> torch.Tensor:
    columns = [*range(4)]
    random.shuffle(columns)
    return x[:, columns]


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * float(np.random.uniform(1, 2))


def both(x: torch.Tensor) -> torch.Tensor:
    return x * random.choice([1, 2]) + int(np.random.randint(3))


@pytest.mark.parametrize(
    ("forward", "named"),
    [
        *((one, "random") for one in (flipped, seldom, shuffled)),
        (scaled, r"numpy\.random"),
        (both, r"random and numpy\.random"),
    ],
)
@pytest.mark.parametrize("size", [math.inf, 0], ids=["with golden data", "without"])
def test_results_that_follow_a_draw_are_refused(forward: Forward, named: str, size: float) -> None:
    found = rf"forward draws from {named}, and a package would keep .* build: in a call that draws"
    with pytest.raises(TraceError, match=rf"tracing model: {found} .*Draw with torch"):
        trace(Model(forward), (X,), name="model", version="1", golden=size)


def in_training(x: torch.Tensor) -> torch.Tensor:
    is_left_out = random.random() < 0.5
    return x * 0 if is_left_out and torch.is_grad_enabled() else x + np.random.rand() * 0


def of_torch(x: torch.Tensor) -> torch.Tensor:
    random.random()
    return torch.sin(x + torch.zeros_like(x))


@pytest.mark.parametrize("forward", [in_training, of_torch])
def test_draws_that_show_in_no_result_are_accepted(forward: Forward) -> None:
    packaged = aotpack.compile(Model(forward), (X,), target="cpu")
    with torch.no_grad():
        torch.testing.assert_close(packaged(X), forward(X))


def test_a_model_may_draw_with_torch_beside_them() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        random.random()
        return x + torch.rand(3, 4)

    drawn = aotpack.compile(Model(forward), (X,), target="cpu")(X, seed=torch.tensor(3)) - X
    assert drawn.min() >= -1e-6
    assert drawn.max() <= 1 + 1e-6


def test_generators_go_on_as_if_only_forward_had_drawn() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        random.random()
        return x + 1

    states = []
    for _ in range(2):
        random.seed(3)
        np.random.seed(3)
        aotpack.compile(Model(forward), (X,), target="cpu")
        states.append((random.random(), np.random.rand()))
    assert states[0] == states[1]


def test_what_has_drawn_is_told() -> None:
    generators = Generators()
    assert generators.drawn() == []
    np.random.rand()
    assert generators.drawn() == ["numpy.random"]
    random.random()
    assert generators.drawn() == ["random", "numpy.random"]
