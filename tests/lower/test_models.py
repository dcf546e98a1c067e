"""Models with dynamic sizes, traced, lowered and compared with eager at several sizes."""

from collections.abc import Callable

import pytest
import torch
import transformers
from torch import nn
from torch.export import Dim

from aotpack.errors import UnsupportedError
from aotpack.ir.operations import Attention, Matmul
from aotpack.ir.program import Program
from aotpack.lower import lower
from aotpack.trace import trace
from tests.lower.oracle import check_traced, floats, ids

BATCH, LENGTH = Dim("b", min=1, max=64), Dim("s", min=1, max=128)


class Function(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


class LastHidden(nn.Module):
    """A transformers model that returns one tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.model(input_ids=ids, attention_mask=mask).last_hidden_state


FUNCTIONS = {
    "flatten": lambda x: x.flatten(0, 1) + 1,
    "heads": lambda x: x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2).reshape(x.shape[0], -1),
    "merge": lambda x: x.reshape(x.shape[0] * x.shape[1] * 2, 4),
    "cat": lambda x: torch.cat([x, x * 2, x[:, :1]], 1),
    "stack": lambda x: torch.stack([x, x.exp()], 2),
    "causal": lambda x: torch.tril(x @ x.transpose(1, 2)),
    "mean": lambda x: x.mean(1) + x.var(1),
    "softmax": lambda x: x.softmax(1),
    "last": lambda x: x[:, -1],
    "tail": lambda x: x[:, -3:],
    "arange": lambda x: x + torch.arange(x.shape[1])[:, None],
    "cumsum": lambda x: x.cumsum(1),
    "pick": lambda x: x[torch.arange(x.shape[0]), x.argmax(1)[:, 0]],
    "roll": lambda x: x.roll(1, 1).flip(0),
    "pad": lambda x: nn.functional.pad(x, (0, 0, 2, 1)),
    "shift": lambda x: nn.functional.pad(x, (0, 0, 1, -1)) - x,
    "attention": lambda x: nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "repeat": lambda x: x.repeat(2, 1, 3).unflatten(0, (2, -1)),
    "length": lambda x: x * x.shape[1] / 3,
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_dynamic_sizes(function: Callable[..., torch.Tensor]) -> None:
    module = Function(function)
    shapes = ({0: BATCH, 1: Dim("s", min=4, max=128)},)
    traced = trace(module, (floats(3, 5, 8),), {}, dynamic_shapes=shapes, name="m", version="1")
    check_traced(traced, module, (floats(3, 5, 8),), (floats(1, 4, 8),), (floats(2, 7, 8),))


def test_mlp() -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(), nn.Linear(16, 4)).eval()
    traced = trace(module, (floats(5, 8),), {}, dynamic_shapes=({0: BATCH},), name="m", version="1")
    check_traced(traced, module, (floats(5, 8),), (floats(1, 8),))


def test_convolutional_network() -> None:
    module = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
    ).eval()  # fmt: skip
    traced = trace(
        module, (floats(3, 3, 9, 8),), {}, dynamic_shapes=({0: BATCH},), name="m", version="1"
    )
    check_traced(traced, module, (floats(3, 3, 9, 8),), (floats(1, 3, 9, 8),))


@pytest.mark.parametrize("masked", [False, True])
def test_bert(masked: bool) -> None:
    config = transformers.BertConfig(
        num_hidden_layers=1,
        hidden_size=16,
        num_attention_heads=2,
        intermediate_size=32,
        vocab_size=50,
    )
    config._attn_implementation = "sdpa"
    module = LastHidden(transformers.BertModel(config, add_pooling_layer=False)).eval()
    program = _check_language_model(module, masked=masked)
    kinds = [type(operation) for operation in program.operations]
    assert kinds.count(Matmul) == 6
    assert kinds.count(Attention) == 1


def test_gpt2() -> None:
    config = transformers.GPT2Config(
        use_cache=False,
        n_layer=1,
        n_embd=16,
        n_head=2,
        vocab_size=50,
        bos_token_id=0,
        eos_token_id=0,
    )
    config._attn_implementation = "sdpa"
    module = LastHidden(transformers.GPT2Model(config)).eval()
    program = _check_language_model(module, masked=False)
    kinds = [type(operation) for operation in program.operations]
    assert kinds.count(Matmul) == 4
    assert kinds.count(Attention) == 1


def _check_language_model(module: nn.Module, *, masked: bool) -> Program:
    def inputs(batch: int, length: int) -> tuple[torch.Tensor, ...]:
        words = ids(50, batch, length)
        if not masked:
            return (words,)
        mask = torch.ones_like(words)
        mask[0, length // 2 + 1 :] = 0
        return (words, mask)

    dims = {0: BATCH, 1: LENGTH}
    shapes = {"ids": dims, "mask": dims} if masked else {"ids": dims}
    traced = trace(module, inputs(3, 7), {}, dynamic_shapes=shapes, name="m", version="1")
    return check_traced(traced, module, inputs(3, 7), inputs(2, 5))


@pytest.mark.row("S:H12")
def test_unsupported_operators_are_refused_with_their_line() -> None:
    hermite = torch.special.hermite_polynomial_h
    module = Function(lambda x: torch.linalg.svdvals(x) + hermite(x, x))
    traced = trace(module, (floats(3, 3),), {}, name="m", version="1")
    with pytest.raises(
        UnsupportedError, match=r"(?s)linalg_svdvals.*test_models.py:\d+.*hermite"
    ) as caught:
        lower(traced)
    assert "2 of 3 operator calls" in str(caught.value)
