"""The whole scheduler on models: launches a person would count, and nothing changed in meaning."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.operations import Attention, Matmul, Pointwise
from aotpack.ir.verify.program import verify

from .launches.test_order import assert_topological
from .memory.test_lifetimes import assert_lifetimes_hold
from .programs import assert_same, names, replayed, scheduled


class Attend(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, width = x.shape
        split = [p(x).view(b, s, 2, -1).transpose(1, 2) for p in (self.query, self.key, self.value)]
        y = F.scaled_dot_product_attention(*split).transpose(1, 2).reshape(b, s, width)
        return x + self.out(y)


class Layer(nn.Module):
    """A BERT layer."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.attend, self.norm1, self.norm2 = (
            Attend(width),
            nn.LayerNorm(width),
            nn.LayerNorm(width),
        )
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(self.attend(x))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Linear(nn.Module):
    """linear + bias + gelu + residual."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(self.fc(x))


class Plain(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: torch.Tensor) -> Any:
        match self.name:
            case "softmax":
                return x.softmax(-1)
            case "softmax_first":
                return x.softmax(0)
            case "layer_norm":
                return F.layer_norm(x * 2, x.shape[-1:])
            case "rms_norm_residual":
                total = x + x.exp()
                return F.rms_norm(total, x.shape[-1:]), total
            case "column_sum":
                return x.sum(0)
            case "log_softmax":
                return x.log_softmax(-1)
            case "transpose_add":
                return x.transpose(0, 1) + 1
            case "pointwise_chain":
                return (x.exp() + 1).tanh() * x
            case "moments":
                return torch.var_mean(x, -1)
            case _:
                return x.flatten().cumsum(0)


LAYER = [
    "linear",
    "attention",
    "linear_add",
    "layer_norm",
    "linear_gelu",
    "linear_add",
    "layer_norm",
]


@pytest.mark.row("S:M9", "C:I1")
@pytest.mark.parametrize(
    ("module", "launches"),
    [
        (Plain("softmax"), ["softmax"]),
        (Plain("softmax_first"), ["softmax"]),
        (Plain("layer_norm"), ["layer_norm_mul"]),
        (Plain("rms_norm_residual"), ["exp_add_rms_norm"]),
        (Plain("column_sum"), ["sum"]),
        (Plain("log_softmax"), ["log_softmax"]),
        (Plain("transpose_add"), ["add"]),
        (Plain("pointwise_chain"), ["exp_add_tanh_mul"]),
        (Plain("moments"), ["var_mean"]),
        (Plain("cumsum"), ["cumsum"]),
        (Linear(), ["linear_gelu_add"]),
    ],
    ids=lambda x: getattr(x, "name", type(x).__name__) if isinstance(x, nn.Module) else "",
)
def test_one_kernel(module: nn.Module, launches: list[str]) -> None:
    torch.manual_seed(0)
    found = scheduled(module, torch.randn(6, 8)).schedule
    assert names(found) == launches
    _check(found)


@pytest.mark.row("S:M9", "S:G1")
def test_bert_layer_is_seven_launches() -> None:
    found = scheduled(Layer(), torch.randn(2, 5, 64)).schedule
    assert names(found) == LAYER
    _check(found)


def test_widths_with_gaps_cost_a_launch_for_each_projection() -> None:
    """The twin: parts of 60 floats cannot follow each other, so q, k and v are not merged."""
    found = scheduled(Layer(60), torch.randn(2, 5, 60)).schedule
    assert len(names(found)) == len(LAYER) + 2


@pytest.mark.row("S:H3", "S:D12")
def test_no_kernel_only_moves_data() -> None:
    found = scheduled(Layer(), torch.randn(2, 5, 64)).schedule
    assert not [kernel.name for kernel in found.kernels if _only_moves(kernel)]


def _only_moves(kernel: Kernel) -> bool:
    return kernel.name == "copy"


def _check(found: Any) -> None:
    """The invariants of any schedule, and that replaying it kernel by kernel computes the same."""
    program = found.program
    verify(program)
    assert_topological(found.kernels, program)
    assert_lifetimes_hold(found)
    for kernel in found.kernels:
        first = kernel.members[0].operation
        rest = [member.operation for member in kernel.members[1:]]
        if isinstance(first, (Matmul, Attention)):
            assert all(isinstance(operation, Pointwise) for operation in rest)
    sizes = {size.name: size.high for size in program.sizes}
    assert_same(program, replayed(found), sizes)
