"""Tiled products in C: panels, windows of convolutions, and pairs of bfloat16."""

import pytest
import torch
from torch import nn

from aotpack.target import CPU
from tests.render.models import functions_of, kernel_text, rendered

BF16 = torch.bfloat16


def text_of(model: nn.Module, *shape: int, dtype: torch.dtype = torch.float32) -> str:
    product = rendered(model.to(dtype), torch.zeros(shape, dtype=dtype), targets=(CPU,))
    return kernel_text(product)


class Convolved(nn.Module):
    """A convolution with a kernel that calls give."""

    def __init__(self, padding: int) -> None:
        super().__init__()
        self.padding = padding

    def forward(self, x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(x, kernel, padding=self.padding)


def convolution(padding: int) -> str:
    image, kernel = torch.zeros(1, 12, 20, 30), torch.zeros(32, 12, 3, 3)
    return kernel_text(rendered(Convolved(padding), image, kernel, targets=(CPU,)))


def test_windows_that_reach_over_an_edge_are_copied_within_bounds() -> None:
    pack = functions_of(convolution(1), "pack")
    assert "column_first" in pack and "aot_max(column_first," in pack
    assert "?" not in pack.split("x_ptr[", 1)[1].split(";", 1)[0]


def test_windows_inside_an_image_have_no_bounds() -> None:
    assert "aot_max(column_first," not in functions_of(convolution(0), "pack")


@pytest.mark.parametrize(("dtype", "pairs"), [(BF16, True), (torch.float32, False)])
def test_two_factors_of_bfloat16_are_multiplied_in_pairs(dtype: torch.dtype, pairs: bool) -> None:
    text = text_of(nn.Linear(96, 80), 64, 96, dtype=dtype)
    assert ("linear_tile_in_pairs(" in text and "aot_has_pairs()" in text) is pairs
    assert "linear_tile(" in text  # where a processor has none


class Transposed(nn.Module):
    """A product of two inputs, the second one transposed."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ y.T


def test_the_longer_factor_is_read_in_rows_and_the_other_one_packed() -> None:
    product = rendered(Transposed(), torch.zeros(64, 96), torch.zeros(800, 96), targets=(CPU,))
    text = kernel_text(product)
    assert "left = &y_ptr[96*s + k_first];" in functions_of(text, "tile")
    assert "x_ptr[" in functions_of(text, "pack")


def test_weights_lie_in_panels_and_no_call_packs_them() -> None:
    text = text_of(nn.Linear(96, 800), 64, 96)
    tile = functions_of(text, "tile")
    assert "left = &input_ptr[96*s + k_first];" in tile and "&weight_panels_ptr[" in tile
    assert "_pack" not in text


def inner_layer(channels: int) -> str:
    """The kernels of a convolution between two others, which leave its memory order open."""
    layers = nn.Conv2d(3, channels, 1), nn.Conv2d(channels, 64, 3, padding=1), nn.Conv2d(64, 4, 1)
    product = rendered(nn.Sequential(*layers), torch.zeros(1, 3, 20, 20), targets=(CPU,))
    return "\n".join(kernel.text for kernel in product.kernels)


@pytest.mark.parametrize(("channels", "runs"), [(32, True), (12, False)])
def test_windows_over_many_channels_are_copied_in_runs_of_channels(
    channels: int, runs: bool
) -> None:
    text = inner_layer(channels)
    assert (f"const int64_t k_row = k / {channels}, begin = k % {channels};" in text) is runs
    assert (f" - 672], {channels});" in text) is runs


@pytest.mark.parametrize(
    ("columns", "bounds"), [(40, "0, 40"), (256, "v_first, v_first + AOT_TILE_COLUMNS"), (300, "")]
)
def test_tiles_of_equal_widths_have_loops_of_known_length(columns: int, bounds: str) -> None:
    text = text_of(nn.Linear(96, columns), 64, 96)
    assert f"call, batch, {bounds or 'v_first, v_end'}, s_first, s_end, panels" in text


@pytest.mark.parametrize("stride", [1, 2])
def test_runs_between_two_inside_an_image_are_not_cut(stride: int) -> None:
    text = text_of(nn.Conv2d(3, 32, 3, stride, 1, bias=False), 1, 3, 20, 30)
    assert "bool is_inside = true;" in functions_of(text, "rows")


def test_runs_without_edges_are_not_checked() -> None:
    text = text_of(nn.Conv2d(3, 32, 3, bias=False), 1, 3, 20, 30)
    rows = functions_of(text, "rows")
    assert "is_inside" not in rows and "aot_min(" in rows and "low = begin, high = end" in rows
