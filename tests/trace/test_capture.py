"""Export: torch's complaints come back short, with the user's line."""

import threading

import pytest
import torch
from torch import nn

from aotpack.errors import TraceError

X = torch.randn(2, 4)


class Locked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def forward(self, x):
        return x


def test_encoder_layer_keeps_its_operators(trace_function):
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).requires_grad_(False)
    graph = trace_function(lambda self, x: self.a(x[None]), X, modules={"a": layer}).graph
    assert "aten.scaled_dot_product_attention.default" in {node.op for node in graph.nodes}
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda self, x: x @ x, r"RuntimeError: .*\n  at test_capture.py:\d+: .*x @ x"),
        (
            lambda self, x: x if x.sum() > 0 else -x,
            r"data-dependent(.|\n)*at test_capture.py",
        ),
    ],
)
def test_refuses(trace_function, forward, message, capfd):
    with pytest.raises(TraceError, match=message) as caught:
        trace_function(forward, X)
    assert "TORCH_LOGS" not in str(caught.value) and len(str(caught.value).splitlines()) < 12
    assert capfd.readouterr().err == ""


def test_refuses_what_cannot_be_copied(trace_function):
    with pytest.raises(
        TraceError, match="copying Model before tracing: cannot pickle '_thread.lock'"
    ):
        trace_function(lambda self, x: self.a(x), X, modules={"a": Locked()})
