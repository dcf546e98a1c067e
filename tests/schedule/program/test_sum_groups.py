"""Groups of few channels are sums on GPUs; other products stay products."""

import pytest
import torch
from torch import nn

import aotpack
from aotpack.ir.operations import Matmul, Reduction
from aotpack.ir.program import Program
from aotpack.ir.verify.program import verify
from aotpack.lower import lower
from aotpack.render import reserved_names
from aotpack.schedule.program.realize import realize
from aotpack.schedule.program.sum_groups import sum_groups
from aotpack.trace import trace
from tests.schedule.programs import assert_same


class Batched(nn.Module):
    """A batch of small products."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 8, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.bmm(x, self.weight)


def realized(module: nn.Module, *shape: int) -> Program:
    """The program before the pass."""
    example = (torch.randn(shape),)
    traced = trace(module.eval(), example, name="test", version="1", reserved=reserved_names())
    return realize(lower(traced).program)


def products(program: Program) -> int:
    return sum(isinstance(one, Matmul) for one in program.operations)


FEW = {
    "2d": (nn.Conv2d(8, 8, 3, 1, 1, groups=2), (2, 8, 5, 4)),
    "more results": (nn.Conv2d(4, 16, 3, 2, groups=2), (1, 4, 7, 6)),
    "1d": (nn.Conv1d(16, 6, 7, padding=3, dilation=2, groups=2), (2, 16, 9)),
    "3d, unbatched": (nn.Conv3d(4, 4, 2, groups=2, bias=False), (4, 3, 4, 3)),
    "transposed": (nn.ConvTranspose2d(8, 8, 3, groups=4), (1, 8, 4, 5)),
}
OTHERS = {
    "one group": (nn.Conv2d(8, 8, 3), (1, 8, 5, 4)),
    "columns": (nn.Conv2d(4, 18, 3, groups=2), (1, 4, 5, 4)),
    "terms": (nn.Conv2d(16, 8, (2, 5), groups=2), (1, 16, 5, 6)),
    "matrices": (Batched(), (3, 50, 8)),
}


@pytest.mark.parametrize("case", FEW)
def test_groups_of_few_channels_are_sums(case: str) -> None:
    program = realized(FEW[case][0], *FEW[case][1])
    changed = sum_groups(program)
    verify(changed)
    assert products(program) and not products(changed)
    assert any(isinstance(one, Reduction) for one in changed.operations)
    assert sum_groups(changed) is changed
    assert_same(program, changed)


@pytest.mark.parametrize("dim", [0, 2])
def test_groups_of_images_of_any_size_are_right(dim: int) -> None:
    model, x = nn.Conv2d(6, 6, 3, padding=1, groups=3), torch.randn(2, 6, 9, 8)
    sizes = ({dim: torch.export.Dim("size", min=2, max=32)},)
    found = aotpack.compile(model, (x,), dynamic_shapes=sizes, target="interpreter")
    for number in (3, 10):
        other = x[:, :, :1].repeat_interleave(number, 2) if dim else x[:1].repeat(number, 1, 1, 1)
        torch.testing.assert_close(torch.as_tensor(found(other)), model(other))


@pytest.mark.parametrize("case", OTHERS)
def test_other_products_stay(case: str) -> None:
    program = realized(OTHERS[case][0], *OTHERS[case][1])
    assert sum_groups(program) is program and products(program) == 1
