"""``linear_cross_entropy`` in chunks: eager's loss, and logits of a block of classes in memory."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aotpack
from aotpack.errors import UnsupportedError
from aotpack.trace.operators.losses.linear_cross_entropy import OWN

ROWS, CLASSES = 48, 20_000
HIDDEN, TARGET = torch.randn(ROWS, 16), torch.randint(0, CLASSES, (ROWS,))
TARGET[3] = -100


class Loss(nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how
        self.matrix = nn.Parameter(torch.randn(CLASSES, 16))
        self.bias = nn.Parameter(torch.randn(CLASSES))
        self.register_buffer("weight", torch.rand(CLASSES))

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        options = nn.LinearCrossEntropyOptions(batch_chunk_size=16)
        return functional.linear_cross_entropy(
            x,
            self.matrix,
            target,
            linear_bias=self.bias,
            weight=self.weight,
            options=options,
            **self.how,
        )


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_it_is_eager_s_and_no_logits_are_whole(reduction: str) -> None:
    loss = Loss(reduction=reduction).requires_grad_(False)
    model = aotpack.compile(loss, (HIDDEN, TARGET), target="cpu")
    for target in (TARGET, TARGET.flip(0)):
        found, wanted = model(HIDDEN, target), loss(HIDDEN, target)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert model.manifest.peak_bytes < 0.5 * ROWS * CLASSES * 4


def test_gradients_are_refused() -> None:
    loss = Loss()
    plain = (16, "input", torch.float32, False)
    with pytest.raises(UnsupportedError, match="without gradients; pass options=None, or call"):
        OWN["torch_nn._linear_cross_entropy_batch_chunked.default"](
            HIDDEN, loss.matrix, TARGET, None, None, "mean", -100, 0.0, *plain, True, False, False
        )
