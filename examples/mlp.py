"""The quick start: a small classifier with a dynamic batch.

aotpack examples/mlp.py -o dist --target native
"""

import torch
from torch import nn
from torch.export import Dim


class MLP(nn.Module):
    """Two hidden layers with gelu, class probabilities out."""

    def __init__(self, features: int = 64, hidden: int = 256, classes: int = 10) -> None:
        super().__init__()
        self.inner = nn.Linear(features, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.outer = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.inner(x))
        return torch.softmax(self.outer(self.norm(hidden)), dim=-1)


torch.manual_seed(0)
name = "mlp"
model = MLP()
example_inputs = (torch.randn(4, 64),)
dynamic_shapes = {"x": {0: Dim("batch", min=1, max=1024)}}
