"""Windows as columns and back, pooled values put back."""

from typing import Any

import pytest
import torch

from tests.lower.oracle import Case, case, floats

POOLED = torch.ops.aten.max_pool2d_with_indices(floats(2, 3, 4, 6), [2, 2])
DEEP = torch.ops.aten.max_pool3d_with_indices(floats(2, 4, 6, 4), [2, 2, 2])
GEOMETRIES = [  # plane, kernel, dilation, padding, stride
    ([4, 5], [2, 2], [1, 1], [0, 0], [1, 1]),
    ([6, 5], [2, 3], [2, 1], [1, 1], [2, 1]),
    ([5, 5], [3, 3], [1, 1], [1, 1], [2, 2]),
]


def windows(plane: list[int], *geometry: list[int]) -> int:
    count = 1
    for n, k, d, p, s in zip(plane, *geometry, strict=True):
        count *= (n + 2 * p - (k - 1) * d - 1) // s + 1
    return count


def columns(plane: list[int], *geometry: Any) -> torch.Tensor:
    kernel = geometry[0]
    return floats(2, 3 * kernel[0] * kernel[1], windows(plane, *geometry))


@pytest.mark.parametrize(
    "case",
    [
        *[case("col2im.default", columns(*g), *g) for g in GEOMETRIES],
        *[case("col2im.default", columns(*g)[0].round().bfloat16(), *g) for g in GEOMETRIES],
        *[case("im2col.default", floats(2, 3, *plane), *rest) for plane, *rest in GEOMETRIES],
        *[case("im2col.default", floats(3, *plane), *rest) for plane, *rest in GEOMETRIES],
        case("max_unpool2d.default", *POOLED, [4, 6]),
        case("max_unpool2d.default", POOLED[0][0].half(), POOLED[1][0], [5, 7]),
        case("max_unpool3d.default", *DEEP, [4, 6, 4], [2, 2, 2], [0, 0, 0]),
    ],
    ids=str,
)
def test_yields_what_eager_yields(case: Case) -> None:
    case.check()
