"""The file of all C kernels, and the template that each kernel is printed from."""

import re

import pytest
import torch
from torch import nn

from aotpack.render.c.kernels import host_file
from aotpack.target import CPU
from tests.render.models import H100, Projection, Softmax, kernel_text, rendered
from tests.render.test_wrapper import plan_of


def test_a_file_holds_every_kernel_and_its_entry_once() -> None:
    model = nn.Sequential(Projection(16, 64), Softmax(), Projection(64, 64))
    product = rendered(model, torch.zeros(40, 16), targets=(CPU, *H100))
    ours = [kernel.name for kernel in product.kernels if kernel.language == "c"]
    assert len([name for name in ours if not name.startswith("panels_")]) == 3
    file = host_file("model 1", product.kernels)
    assert re.findall(r"^AOT_EXPORT int (\w+_[0-9a-f]{8})\(", file, re.MULTILINE) == ours
    assert "KERNEL_" not in file and "tl.program_id" not in file


def test_without_kernels_for_processors_there_is_no_file() -> None:
    product = rendered(Softmax(), torch.zeros(4, 8))
    assert host_file("model 1", product.kernels) == ""


@pytest.mark.parametrize(
    ("rows", "function"), [(2, "_columns("), (40, "_tile(")], ids=["few-rows", "many-rows"]
)
def test_the_number_of_rows_chooses_how_a_product_is_computed(rows: int, function: str) -> None:
    text = kernel_text(rendered(Projection(64, 64), torch.zeros(rows, 64), targets=(CPU,)))
    both = {"_columns(", "_tile("}
    assert function in text and not any(one in text for one in both - {function})


def test_processors_count_points() -> None:
    (launch,) = plan_of(rendered(nn.Tanh(), torch.zeros(1000, 3), targets=(CPU,)))(0).launches
    assert launch.grid == (3000, 1, 1)
