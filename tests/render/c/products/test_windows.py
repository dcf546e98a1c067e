"""Windows of convolutions that C kernels read where they lie."""

import pytest
import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import rendered


def text_of(model: nn.Module, *shape: int, dtype: torch.dtype = torch.float32) -> str:
    """The kernels of the products."""
    kernels = rendered(model.to(dtype), torch.zeros(1, *shape, dtype=dtype), targets=(CPU,)).kernels
    return "\n".join(one.text for one in kernels if "kernel_matmul.c.jinja" in one.text)


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Conv2d(3, 64, 7, padding=3, stride=2), (3, 60, 60)),
        (nn.Sequential(nn.Conv2d(3, 64, 1), nn.Conv2d(64, 64, 3, padding=1)), (3, 28, 28)),
        (nn.Conv2d(3, 32, 4, stride=4), (3, 32, 32)),
        (nn.Conv1d(2, 24, 9, padding=4), (2, 64)),
        (nn.Conv3d(3, 24, 3, padding=1), (3, 5, 30, 30)),
    ],
    ids=["first-layer", "channels-innermost", "no-edges", "1-d", "3-d"],
)
def test_windows_inside_the_image_are_read_in_place(
    model: nn.Module, shape: tuple[int, ...]
) -> None:
    assert "depth, window, " in text_of(model, *shape)


@pytest.mark.parametrize(
    ("model", "shape", "dtype"),
    [
        (nn.Conv2d(3, 64, 7, padding=3, stride=2), (3, 20, 20), torch.float32),
        (nn.Sequential(nn.Conv2d(3, 256, 1), nn.Conv2d(256, 32, 3)), (3, 28, 28), torch.float32),
        (nn.Conv2d(3, 64, 7, padding=3, stride=2), (3, 60, 60), torch.bfloat16),
        (nn.Linear(64, 64), (40, 64), torch.float32),
    ],
    ids=["narrow", "deep", "pairs", "rows"],
)
def test_other_rows_are_copied_or_need_no_places(
    model: nn.Module, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    text = text_of(model, *shape, dtype=dtype)
    assert text and "_places(" not in text


def test_edges_are_known_from_the_first_and_last_run_and_row() -> None:
    text = text_of(nn.Conv2d(3, 64, 7, padding=3, stride=2), 3, 60, 60)
    assert "k_row < 21; k_row += aot_max(21 - 1, 1)" in text
    assert "if (s_begin + count > 30) return NULL;" in text
