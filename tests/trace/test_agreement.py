"""A build compares the exported program with the model, and refuses another function."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from aotpack.errors import TraceError
from aotpack.stages import Traced
from aotpack.trace import trace

X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
HEAD = "torch.export gives another function than the model: on the example inputs "


class Two(nn.Module):
    """One function while it is exported, another one in eager."""

    def __init__(self, exported: Callable[..., Any], eager: Callable[..., Any]) -> None:
        super().__init__()
        self.exported, self.eager = exported, eager
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        y = (x * 2).relu()
        if torch.compiler.is_exporting():
            return self.exported(self, y)
        return self.eager(self, y)


def traced(exported: Callable[..., Any], eager: Callable[..., Any], **options: Any) -> Traced:
    return trace(Two(exported, eager), (X,), name="m", version="1", **options)


def adds(module: Two, y: Tensor) -> Tensor:
    module.count.add_(1)
    return y + 1


def adds_twice(module: Two, y: Tensor) -> Tensor:
    module.count.add_(2)
    return y + 1


DEPARTURES: dict[str, tuple[Callable[..., Any], Callable[..., Any], str, str]] = {
    "argument": (
        lambda m, y: (y.exp(), (y + 1).sin()),
        lambda m, y: (y.exp(), (y + 2).sin()),
        r"output1 differs by .*",
        r"aten.add.Tensor, which differs by 1 \(.*\)\n  at test_agreement.py:\d+: ",
    ),
    "operator": (
        lambda m, y: y.cos() + 1,
        lambda m, y: y.sin() + 1,
        r"output0 differs by .*",
        r"aten.cos.default, which stands where eager runs aten.sin.default\n  at test_agree",
    ),
    "left out": (
        lambda m, y: y.exp(),
        lambda m, y: y.abs().neg().exp(),
        r"output0 differs by .*",
        r"aten.exp.default, which eager runs after aten.abs.default\n  at test_agreement",
    ),
    "added": (
        lambda m, y: y.neg().exp(),
        lambda m, y: y.exp(),
        r"output0 differs by .*",
        r"aten.neg.default, which eager does not run\n  at test_agreement",
    ),
    "integers": (
        lambda m, y: y.argmax(0),
        lambda m, y: y.argmin(0),
        r"output0 differs in \d of 5 elements",
        r"aten.argmax.default, which stands where eager runs aten.argmin.default",
    ),
    "beside a choice": (
        lambda m, y: (torch.stack([y / 3, y.mul(1 / 3)]).argmax(0), y + 1),
        lambda m, y: (torch.stack([y * (1 / 3), y.div(3)]).argmax(0), y + 2),
        r"output1 differs by .*",
        r"aten.add.Tensor, which differs by 1",
    ),
    "infinities": (
        lambda m, y: y.masked_fill(y > 1, float("-inf")),
        lambda m, y: y.masked_fill(y > 1, float("inf")),
        r"output0 has infinities or NaN in other places",
        r"aten.masked_fill.Scalar, which has infinities",
    ),
    "state": (
        adds,
        adds_twice,
        r"count differs by 1 \(its values reach 2\)",
        r"aten.add_.Tensor, which differs by 1",
    ),
    "shape": (
        lambda m, y: y.sum(0),
        lambda m, y: y.sum(1),
        r"output0 is float32\[5\], not float32\[3\]",
        r"aten.sum.dim_IntList, which stands where eager runs aten.sum.dim_IntList",
    ),
    "count": (
        lambda m, y: (y, y + 1),
        lambda m, y: (y,),
        r"it returns 2 tensors, not 1",
        r"not found",
    ),
}


@pytest.mark.parametrize("kind", DEPARTURES)
def test_another_function_is_refused_with_its_operator(kind: str) -> None:
    exported, eager, results, operator = DEPARTURES[kind]
    words = rf"{HEAD}{results}\.\nThe first operator whose value departs: {operator}"
    with pytest.raises(TraceError, match=words):
        traced(exported, eager)


def test_python_that_changes_from_call_to_call_is_refused() -> None:
    factors = iter(range(1, 100))
    with pytest.raises(TraceError, match=r"differs by .*\n.*aten.mul.Tensor"):
        trace(_Calling(lambda x: x * next(factors)), (X,), name="m", version="1")


class _Calling(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


def first(y: Tensor) -> Tensor:
    return torch.stack([y / 3, y.mul(1 / 3)]).argmax(0)


def other(y: Tensor) -> Tensor:
    return torch.stack([y * (1 / 3), y.div(3)]).argmax(0)


ROUNDINGS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "same": (adds, adds),
    "another order of rounding": (lambda m, y: y * 1.1, lambda m, y: y + y * 0.1),
    "comparisons of it": (
        lambda m, y: y * 1.1 > (y + 0).mul(1.1),
        lambda m, y: y + y * 0.1 > (y + 0).mul(1.1),
    ),
    "choices by it": (
        lambda m, y: torch.stack([y / 3, y.mul(1 / 3)]).argmax(0),
        lambda m, y: torch.stack([y * (1 / 3), y.div(3)]).argmax(0),
    ),
    "what depends on two choices": (
        lambda m, y: (first(y) * 3.0, m.count.add_(first(y + 1).sum()) + 1),
        lambda m, y: (other(y) * 3.0, m.count.add_(other(y + 1).sum()) + 1),
    ),
    "complex": (
        lambda m, y: torch.view_as_real(torch.complex(y, y) * 1.1),
        lambda m, y: torch.view_as_real(torch.complex(y, y) * 1.1),
    ),
}


@pytest.mark.parametrize("kind", ROUNDINGS)
def test_another_order_of_rounding_is_accepted(kind: str) -> None:
    traced(*ROUNDINGS[kind])


def test_the_fused_encoder_layer_is_the_same_function() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1)
    x, padding = torch.randn(2, 4, 8), torch.tensor([[False] * 4, [False, False, True, True]])
    golden = trace(encoder, (x,), {"src_key_padding_mask": padding}, name="m", version="1").golden
    assert max(golden.eager_errors) < 1e-5


def test_random_numbers_are_compared_from_one_seed() -> None:
    trace(_Calling(lambda x: x + torch.rand_like(x)), (X,), name="m", version="1")
    with pytest.raises(TraceError, match=f"{HEAD}output0 differs by .*\n.*aten.add.Tensor"):
        trace(
            _Calling(lambda x: torch.rand_like(x) + torch.compiler.is_exporting()),
            (X,),
            name="m",
            version="1",
        )
