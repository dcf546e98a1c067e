"""What kernels look like: the golden texts, and that nothing but the model decides them."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.ir.dtypes import DType
from aotpack.render.sources import check_written
from aotpack.stages import KernelArg
from tests.schedule.test_schedule import Layer

from .models import (
    Attended,
    Collected,
    ColumnSum,
    ConcatBuffer,
    Embedded,
    Gelu,
    Normed,
    Projection,
    Softmax,
    Total,
    kernel_text,
    rendered,
)

BF16 = torch.bfloat16
ROOT = Path(__file__).parents[2]
Golden = Callable[[str], None]


@pytest.mark.row("C:H1", "C:H17")
def test_gelu(golden_kernel: Golden) -> None:
    golden_kernel(kernel_text(rendered(Gelu(), torch.zeros(5, 7), torch.zeros(7, dtype=BF16))))


@pytest.mark.row("C:G3", "C:H17")
def test_softmax(golden_kernel: Golden) -> None:
    golden_kernel(kernel_text(rendered(Softmax(), torch.zeros(64, 1000))))


@pytest.mark.row("C:A12", "C:G17")
def test_softmax_dynamic(golden_kernel: Golden) -> None:
    axes = {0: Dim("b", min=1, max=64), 1: Dim("s", min=1, max=512)}
    product = rendered(Softmax(), torch.zeros(4, 6), dynamic_shapes={"x": axes})
    promised, other = product.kernels  # for multiples of a vector, and for the rest
    assert [arg.multiple for arg in promised.args][-1] > other.args[-1].multiple
    golden_kernel(kernel_text(replace(product, kernels=(other,))))


@pytest.mark.row("C:G4", "C:H3")
def test_looped_sum(golden_kernel: Golden) -> None:
    golden_kernel(kernel_text(rendered(Total(), torch.zeros(3, 30_011))))


@pytest.mark.row("C:C7")
def test_column_sum(golden_kernel: Golden) -> None:
    golden_kernel(kernel_text(rendered(ColumnSum(), torch.zeros(61, 512))))


@pytest.mark.row("C:G10", "C:inv17")
def test_layer_norm(golden_kernel: Golden) -> None:
    x = torch.zeros(8, 768, dtype=BF16)
    golden_kernel(kernel_text(rendered(Normed(768).to(BF16), x, x)))


def test_embedding(golden_kernel: Golden) -> None:
    golden_kernel(kernel_text(rendered(Embedded(), torch.zeros(4, 8, dtype=torch.int64))))


def test_index_add(golden_kernel: Golden) -> None:
    n = torch.zeros(5, dtype=torch.int64)
    product = rendered(Collected(), torch.zeros(100, 32), n, torch.zeros(5, 32))
    golden_kernel(kernel_text(replace(product, kernels=product.kernels[-1:])))


@pytest.mark.row("S:H4", "S:H6")
def test_cat(golden_kernel: Golden) -> None:
    golden_kernel(kernel_text(rendered(ConcatBuffer(), torch.zeros(4, 3), torch.zeros(4, 5))))


@pytest.mark.row("S:G1", "S:G2", "C:I1", "C:I4", "C:inv29")
def test_linear_relu(golden_kernel: Golden) -> None:
    x = torch.zeros(128, 256, dtype=BF16)
    product = rendered(Projection(256, 512).to(BF16), x)
    golden_kernel(kernel_text(product))


@pytest.mark.row("S:G1")
def test_attention(golden_kernel: Golden) -> None:
    x = torch.zeros(1, 2, 100, 64, dtype=BF16)
    golden_kernel(kernel_text(rendered(Attended(), x, x, x)))


def digest_of_layers() -> str:
    """Of all that is rendered for a model with products, attention and norms."""
    torch.manual_seed(0)
    model = nn.Sequential(Layer(), Projection(64, 96))
    text = rendered(model, torch.zeros(2, 5, 64)).as_text()
    return sha256(text.encode()).hexdigest()


@pytest.mark.row("S:inv8", "S:L14", "C:inv24")
def test_no_hash_seed_changes_the_text() -> None:
    """Another process, which has done nothing else and has another seed, says the same."""
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONWARNINGS": "ignore"}
    program = "from tests.render.test_render import digest_of_layers as f; print(f(), end='')"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, env=environment, cwd=ROOT, stdout=subprocess.PIPE)
    assert done.stdout.decode() == digest_of_layers()


@pytest.mark.row("S:inv8", "C:inv24")
def test_two_renders_are_equal_and_another_model_differs() -> None:
    def text(width: int) -> str:
        torch.manual_seed(0)
        return rendered(nn.Sequential(Projection(8, width), Softmax()), torch.zeros(2, 8)).as_text()

    assert text(16) == text(16) != text(24)


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
        (ConcatBuffer(), [torch.zeros(4, 3), torch.zeros(4, 5)]),
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
    check_written("f", "tl.store(out_ptr + x, tl.load(x_ptr + x))", (read,))
    check_written("f", "def scatter_sum_sorted(x_ptr):\n    scatter_sum_1a2b(x_ptr)", (read,))
    for line in ("tl.store(x_ptr + x, 0)", "tl.atomic_add(x_ptr, 1)", "scatter_sum(x_ptr, x, 1)"):
        with pytest.raises(ValueError, match="the kernel f stores through x_ptr, which is not"):
            check_written("f", line, (read,))
