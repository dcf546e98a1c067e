"""A build compares the graph that it packages with the exported program, and refuses another."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from aotpack.errors import TraceError
from aotpack.trace import trace

X = torch.rand(64, generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
HEAD = "another function than the model: on the example inputs "


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def traced(function: Callable[..., Any], *args: Tensor, golden: float = 0) -> None:
    """With all operators decomposed."""
    whole: frozenset[str] = frozenset()
    trace(Model(function), args, name="m", version="1", whole=whole, golden=golden)


def overlapping(x: Tensor) -> Tensor:
    """Eager doubles some elements twice; without a change in place, they are doubled once."""
    t = x.clone()
    t.as_strided((3, 2), (1, 1)).mul_(2)
    return t.exp()


def zero_for_eager(x: Tensor) -> Tensor:
    """Eager takes 1 twice where windows overlap; without a change in place, once."""
    t = x[:4] * 0 + torch.tensor([1.0, 2, 2, 1])
    t.as_strided((3, 2), (1, 1)).sub_(1)
    return t


def one_overlapping_in_many(x: Tensor) -> tuple[Tensor, Tensor]:
    t = x.exp()
    t.as_strided((2, 2), (1, 1)).mul_(2)
    return x.sin(), t


def overlapping_after_16_bits(x: Tensor) -> Tensor:
    """Roundings to bfloat16 move all numbers, and explain none that is another one."""
    return overlapping(x.bfloat16().float())


POWERS = torch.tensor([0.0, 1e-30, 1.0]), torch.tensor([200, 200, 3])  # 2**200 is no float32

REFUSED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...], str, str]] = {
    "values": (overlapping, (X,), r"output0 differs by .*", r"aten.mul_.Tensor, which differs by"),
    "16 bits on the way": (
        overlapping_after_16_bits,
        (X,),
        r"output0 differs by .*",
        r"aten.mul_.Tensor, which differs by",
    ),
    "zeros": (zero_for_eager, (X,), r"output0 differs by 1 .*", r"aten.sub_.Tensor"),
    "one value": (one_overlapping_in_many, (X,), r"output1 differs by .*", r"aten.mul_.Tensor"),
    "overflow": (torch.ldexp, POWERS, r"output0 has infinities .*", r"aten.ldexp.Tensor, which"),
    "type": (
        lambda x, y: F.huber_loss(x, y),
        (X.half(), X),
        r"output0 is float32\[\], not float16\[\]",
        r"aten.huber_loss.default, which makes the result",
    ),
}


@pytest.mark.parametrize("size", [0, 1e6])
@pytest.mark.parametrize("kind", REFUSED)
def test_another_graph_is_refused_with_its_operator(kind: str, size: float) -> None:
    function, args, results, operator = REFUSED[kind]
    words = rf"{HEAD}{results}\.\nThe first operator whose value departs: {operator}(.|\n)*  at "
    with pytest.raises(TraceError, match=words):
        traced(function, *args, golden=size)


class Power(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x > 0.5) ** True


def test_a_recorded_type_that_is_not_computed_is_refused() -> None:
    words = r"another type for aten.pow.Tensor_Scalar than it computes: int64\[64\] .* bool\[64\]"
    with pytest.raises(TraceError, match=words):
        trace(torch.export.export(Power(), (X,)), (X,), name="m", version="1")


def chaos(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each turn doubles what rounding changes."""
    z = F.layer_norm(x, (64,)) * 0.1 + 0.5
    for _ in range(60):
        z = 3.9 * z * (1 - z)
    return z, (z * 10).long()


ACCEPTED = {
    "same": (lambda x: x * 2, X),
    "choices": (lambda x: torch.stack([x.softmax(0), x.exp() / x.exp().sum()]).argmax(0), X),
    "chaos": (chaos, X),
    "chaos of 16 bits": (chaos, X.half()),
    "chaos after 16 bits": (lambda x: chaos(x.bfloat16().float()), X),
    "chaos of 16 bits in float32": (lambda x: chaos(x.bfloat16())[0].float(), X),
    "overflow": (lambda x: F.huber_loss(x * 6e4, -x * 6e4), X.half()),
    "overflow by roundings": (lambda x: (chaos(x)[0] * 177).exp(), X),
    "windows that do not overlap": (lambda x: x.clone().as_strided((3, 2), (4, 1)).mul_(2), X),
    "nothing": (lambda x: x[:0].softmax(0), X),
}


@pytest.mark.parametrize("kind", ACCEPTED)
def test_another_order_of_rounding_is_accepted(kind: str) -> None:
    function, x = ACCEPTED[kind]
    traced(function, x)


class Columns(nn.Module):
    """Columns are counted from the end; torch asserts more of how many there are than holds."""

    def __init__(self, *, moves: bool) -> None:
        super().__init__()
        self.moves = moves
        self.register_buffer(
            "rows", torch.randn(20, 20, generator=torch.Generator().manual_seed(0))
        )

    def forward(self, x: Tensor) -> Tensor:
        made = x.new_ones(2 * x.shape[0], 3)
        made[:, : x.shape[0] - x.shape[1]] *= 2
        if self.moves:
            kept = self.rows[:, -x.shape[1] :]
            kept[1:] = kept[:-1]
        return made


@pytest.mark.parametrize("moves", [False, True])
def test_assertions_of_torch_hide_no_departure(*, moves: bool) -> None:
    shapes = ({0: Dim("a", min=2, max=5) + 1, 1: Dim("b", min=4, max=6)},)
    message = HEAD + r"rows differs by .*\n.*departs: aten.copy_.default, .*\n  at .*kept\[1:\] ="
    with pytest.raises(TraceError, match=message) if moves else nullcontext():
        trace(
            Columns(moves=moves),
            (torch.randn(3, 4),),
            dynamic_shapes=shapes,
            name="m",
            version="1",
        )


@torch.library.custom_op("aotpack_test::soft_assert", mutates_args=())
def soft_assert(x: Tensor) -> Tensor:
    return x.clamp(0.5)


@soft_assert.register_fake
def _soft_assert_shape(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def test_an_operator_that_is_named_like_an_assertion_is_run() -> None:
    traced(lambda x: soft_assert(x) * 2, X, golden=1e6)
