"""Equal texts over equal types are one source, and a kernel says what it stores through."""

import re

import pytest
import torch
from torch import nn

from aotpack.ir.dtypes import DType
from aotpack.render.sources import check_written
from aotpack.render.triton.stores import STORES
from aotpack.stages import KernelArg

from .models import Attended, Collected, Concatenated, Projection, rendered


@pytest.mark.row("S:I1", "S:I2", "C:H16")
def test_equal_layers_share_a_kernel_and_unequal_ones_do_not() -> None:
    """The first layer of three is another text: its left factor is called after the input."""
    x = torch.zeros(2, 16)

    def kernels(*widths: int) -> tuple[int, int]:
        layers = [Projection(k, n) for k, n in zip((16, *widths), widths, strict=False)]
        product = rendered(nn.Sequential(*layers), x)
        return product.wrapper.count("Launch("), len(product.kernels)

    assert kernels(16, 16, 16) == (3, 2)
    assert kernels(16, 16, 24) == (3, 3)


class Turned(nn.Module):
    def forward(self, x_1: torch.Tensor, x_2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x_1.t().contiguous(), x_2.t().contiguous()


@pytest.mark.row("C:H16")
def test_equal_text_over_other_types_is_another_kernel() -> None:
    floats, integers = torch.zeros(512, 1024), torch.zeros(512, 1024, dtype=torch.int64)
    assert len(rendered(Turned(), floats, floats).kernels) == 1
    assert len(rendered(Turned(), floats, integers).kernels) == 2


@pytest.mark.row("S:T9")
@pytest.mark.parametrize(
    ("model", "args"),
    [
        (Projection(16, 16), [torch.zeros(2, 16)]),
        (Attended(), [torch.zeros(1, 2, 100, 64)] * 3),
        (Concatenated(), [torch.zeros(4, 3), torch.zeros(4, 5)]),
        (
            Collected(),
            [torch.zeros(100, 32), torch.zeros(5, dtype=torch.int64), torch.zeros(5, 32)],
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_kernels_store_through_parameters_that_say_so(
    model: nn.Module, args: list[torch.Tensor]
) -> None:
    for kernel in rendered(model, *args).kernels:
        stores = re.findall(r"(?:tl\.store|scatter_sum)\((\w+_ptr)", kernel.text)
        assert {arg.name for arg in kernel.args if arg.is_written} == set(stores) != set()


def test_a_store_through_any_other_parameter_is_found() -> None:
    read = KernelArg("x_ptr", DType.FLOAT32, is_pointer=True, is_written=False)
    check_written("f", "tl.store(out_ptr + x, tl.load(x_ptr + x))", (read,), STORES)
    check_written(
        "f", "def scatter_sum_sorted(x_ptr):\n    scatter_sum_1a2b(x_ptr)", (read,), STORES
    )
    for line in ("tl.store(x_ptr + x, 0)", "tl.atomic_add(x_ptr, 1)", "scatter_sum(x_ptr, x, 1)"):
        with pytest.raises(ValueError, match="the kernel f stores through x_ptr, which is not"):
            check_written("f", line, (read,), STORES)
