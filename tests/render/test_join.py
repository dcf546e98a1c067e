"""Several methods as one: kernels, weights and operators that are equal stand once."""

import torch
from torch import nn

from aotpack.pipeline import BuildOptions, MethodsBuild, Source
from aotpack.target import Target
from aotpack.trace import Method

X = torch.randn(2, 4, 64)
OPTIONS = BuildOptions((Target("cuda", 90),))


class Attended(nn.Module):
    """Three products of one input: their weights follow each other."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(64, 64, bias=False) for _ in range(3))
        self.register_buffer("scale", torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) * self.k(x) + self.v(x)

    def last_two(self, x: torch.Tensor) -> torch.Tensor:
        return self.k(x) + self.v(x)

    def outer_two(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) + self.v(x)

    def rescale(self, x: torch.Tensor) -> torch.Tensor:
        self.scale.add_(x[0, 0])
        return x * 2

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(self.scale * self.scale + 1)


def build(**methods):
    made = {name: Method(function, (X,)) for name, function in methods.items()}
    return MethodsBuild(Source(made, name="m"), OPTIONS)


def test_equal_kernels_stand_once():
    model = Attended()
    joined = build(a=model, b=model).rendered
    assert set(joined.methods) == {"a", "b"}
    assert [kernel.name for kernel in joined.kernels] == [
        kernel.name for kernel in joined.methods["a"].kernels
    ]
    assert len(joined.weights) == 3


def test_other_kernels_are_added():
    model = Attended()
    joined = build(a=model, b=model.scaled).rendered
    names = [{kernel.name for kernel in one.kernels} for one in joined.methods.values()]
    assert not names[0] & names[1]
    assert {kernel.name for kernel in joined.kernels} == names[0] | names[1]


def test_packs_inside_packs_are_kept_and_others_are_given_up():
    model = Attended()
    joined = build(two=model.last_two, all=model, outer=model.outer_two).rendered
    order = [(weight.name, weight.follows) for weight in joined.weights]
    assert order == [("q.weight", False), ("k.weight", True), ("v.weight", True)]
    assert not any(weight.follows for weight in joined.methods["outer"].weights)
    alone = build(outer=model.outer_two).rendered
    assert [weight.follows for weight in alone.weights] == [False, True]


def test_state_of_another_method_is_no_weight():
    """Computed once, ``scaled`` would not see what ``rescale`` has changed."""
    model = Attended()
    alone = build(scaled=model.scaled).scheduled.methods["scaled"].schedule.program
    assert alone.derived
    beside = build(scaled=model.scaled, rescale=model.rescale).scheduled.methods["scaled"]
    assert not beside.schedule.program.derived
    assert not any(weight.is_staged for weight in beside.weights)
