"""Windows along the channels of a row-major tensor read one copy of it; others read it as it is."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program, loads
from aotpack.ir.verify.program import verify
from aotpack.lower import lower
from aotpack.render import reserved_names
from aotpack.schedule.program.copy_windows import copy_windows
from aotpack.schedule.program.realize import realize
from aotpack.trace import trace
from tests.schedule.programs import assert_same, scheduled

CONVS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


class Convolved(nn.Module):
    """Some convolutions of one tensor, their kernels given."""

    def __init__(self, *kernels: tuple[int, ...], groups: int = 1, chained: bool = False) -> None:
        super().__init__()
        self.kernels = nn.ParameterList(torch.randn(kernel) * 0.1 for kernel in kernels)
        self.groups, self.chained = groups, chained

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        for kernel in self.kernels:
            source = found[-1] if self.chained and found else x
            found.append(CONVS[kernel.dim() - 2](source, kernel, padding=1, groups=self.groups))
        return found


def realized(module: nn.Module, *shape: int) -> Program:
    """The program before the pass."""
    traced = trace(
        module.eval(),
        (torch.randn(shape),),
        name="test",
        version="1",
        reserved=reserved_names(),
    )
    return realize(lower(traced).program)


@pytest.mark.parametrize(
    ("module", "shape", "copied"),
    [
        (Convolved((4, 16, 3)), (2, 16, 9), ["x"]),
        (Convolved((4, 16, 3, 3)), (2, 16, 5, 4), ["x"]),
        (Convolved((4, 16, 3, 3)), (16, 5, 4), ["x"]),
        (Convolved((4, 16, 2, 2, 2)), (1, 16, 3, 2, 3), ["x"]),
        (Convolved((4, 16, 3, 3), groups=2), (2, 32, 5, 4), ["x"]),
        (Convolved((4, 16, 3, 3), (2, 16, 1, 2), (4, 16, 1, 1)), (2, 16, 5, 4), ["x"]),
        (Convolved((16, 16, 3, 3), (2, 16, 3, 3), chained=True), (1, 16, 5, 4), ["x", "conv2d"]),
    ],
    ids=["1d", "2d", "unbatched", "3d", "groups", "shared", "result"],
)
def test_windows_read_one_copy(
    module: nn.Module, shape: tuple[int, ...], copied: list[str]
) -> None:
    program = realized(module, *shape)
    changed = copy_windows(program)
    verify(changed)
    assert [name for name in changed.buffers if name not in program.buffers] == [
        f"{name}_copy" for name in copied
    ]
    assert_same(program, changed)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (Convolved((4, 16, 1, 1)), (2, 16, 5, 4)),
        (Convolved((4, 3, 3, 3)), (2, 3, 5, 4)),
        (Convolved((16, 1, 3, 3), groups=16), (2, 16, 5, 4)),
        (Convolved((4, 16, 3)), (16, 9)),
    ],
    ids=["one_position", "few_channels", "depthwise", "matrix"],
)
def test_other_convolutions_read_the_tensor(module: nn.Module, shape: tuple[int, ...]) -> None:
    program = realized(module, *shape)
    assert copy_windows(program) is program


def test_copies_have_channels_innermost() -> None:
    schedule = scheduled(Convolved((4, 16, 3, 3)), torch.randn(2, 16, 5, 4)).on(80)
    assert [int(stride) for stride in schedule.strides["x"]] == [320, 20, 4, 1]
    assert [int(stride) for stride in schedule.strides["x_copy"]] == [320, 1, 64, 16]
    (product,) = (
        member.operation
        for kernel in schedule.kernels
        for member in kernel.members
        if isinstance(member.operation, Matmul)
    )
    assert "x_copy" in {load.buffer for load in loads(product)}


@pytest.mark.parametrize(
    ("out", "stride", "is_copied"), [(256, 2, True), (256, 1, False), (64, 2, False)]
)
def test_rows_in_steps_are_copied_for_many_columns(out: int, stride: int, is_copied: bool) -> None:
    program = realized(nn.Conv2d(32, out, 1, stride), 2, 32, 6, 6)
    assert (copy_windows(program) is not program) is is_copied
