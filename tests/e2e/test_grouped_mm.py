"""Experts' products in whole models: groups of any length, and ends that are wrong."""

import pytest
import torch
import transformers
import transformers.integrations.moe  # registers its operator
from torch import nn
from torch.export import Dim

from aotpack.pipeline import compile

from .law import accuracy_complaint
from .oracle import agree, compile_all

pytestmark = pytest.mark.usefixtures("for_this_processor")


class Experts(nn.Module):
    """Two layers of four experts on rows that are sorted by expert."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.up = nn.Parameter(torch.randn(4, 20, 33, generator=generator) / 5)
        self.down = nn.Parameter(torch.randn(4, 33, 20, generator=generator) / 5)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        product = torch.ops.transformers.grouped_mm_fallback
        return product(torch.relu(product(x, self.up, ends)), self.down, ends) + x


def test_groups_of_any_length() -> None:
    rows = Dim("rows", min=1, max=400)
    compiled = compile_all(
        Experts(), (torch.randn(40, 20), torch.tensor([10, 20, 30, 40])), None, ({0: rows}, None)
    )
    for count, ends in (
        (1, (0, 0, 1, 1)),
        (17, (17, 17, 17, 17)),
        (40, (0, 16, 32, 40)),
        (300, (1, 2, 150, 280)),
    ):
        agree(compiled, (torch.randn(count, 20), torch.tensor(ends)))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("ends", [(-5, 3, 2, 40), (2**40, -(2**40), 9, 10**6), (9, 8, 7, 6)])
def test_ends_out_of_order_read_nothing_outside(target: str, ends: tuple[int, ...]) -> None:
    """Their answer has no meaning; finite weights and rows give finite numbers."""
    example = torch.randn(10, 20), torch.tensor([2, 4, 6, 10])
    with compile(Experts(), example, target=target) as model:
        assert model(example[0], torch.tensor(ends)).isfinite().all()
        found = model(*example)
        assert torch.allclose(found, Experts()(*example), atol=1e-4)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_mixture_of_experts_as_transformers_runs_it(dtype: torch.dtype, target: str) -> None:
    """Sorted by expert, counted, multiplied in groups, and put back."""
    sizes = {"hidden_size": 32, "intermediate_size": 40, "num_local_experts": 8}
    config = transformers.MixtralConfig(**sizes, num_experts_per_tok=2)
    torch.manual_seed(0)
    config._experts_implementation = "grouped_mm"  # what whole models choose
    block = transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock(config)
    for parameter in block.parameters():
        nn.init.normal_(parameter, std=0.2)
    x = torch.randn(2, 30, 32).to(dtype)
    block = block.to(dtype).eval()
    with torch.no_grad(), compile(block, (x,), target=target) as model:
        ours, eager = model(x), block(x)
        config._experts_implementation = "batched_mm"  # the other takes no float64
        complaint = accuracy_complaint(ours, eager, block.double()(x.double()))
    assert complaint is None, complaint
