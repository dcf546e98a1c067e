"""torchvision's operators by their schemas, in plain Python: torchvision is not installed here."""

import math
from typing import Any

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "unknown_to_aotpack(Tensor boxes, Tensor scores) -> Tensor",
)
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for schema in _SCHEMAS:
    LIBRARY.define(schema)


@torch.library.impl(LIBRARY, "nms", "CPU")
def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Each box in the order of scores, unless one that stays overlaps it."""
    kept: list[int] = []
    for place in scores.argsort(descending=True, stable=True).tolist():
        if not any(_overlap(dets[better], dets[place]) > iou_threshold for better in kept):
            kept.append(place)
    return torch.tensor(kept, dtype=torch.int64)


def _overlap(one: torch.Tensor, other: torch.Tensor) -> float:
    sides = torch.minimum(one[2:], other[2:]) - torch.maximum(one[:2], other[:2])
    shared = sides.clamp(min=0).prod()
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return (shared / (areas[0] + areas[1] - shared)).item()


@torch.library.register_fake("torchvision::nms", lib=LIBRARY)
def _(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)


@torch.library.impl(LIBRARY, "roi_align", "CPU")
def roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """The mean of samples, one after the other."""
    result = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    for number, (image, *ends) in enumerate(rois):
        x, y, right, bottom = (end * spatial_scale - 0.5 * aligned for end in ends)
        sides = [
            (length if aligned else max(length, 1)) / bins
            for length, bins in ((bottom - y, pooled_height), (right - x, pooled_width))
        ]
        steps = [sampling_ratio if sampling_ratio > 0 else math.ceil(side) for side in sides]
        for row, column in torch.cartesian_prod(*map(torch.arange, result.shape[2:])).tolist():
            for i, j in ((i, j) for i in range(steps[0]) for j in range(steps[1])):
                at = y + row * sides[0] + (i + 0.5) * sides[0] / steps[0]
                across = x + column * sides[1] + (j + 0.5) * sides[1] / steps[1]
                result[number, :, row, column] += _between(input[int(image)], at, across)
            result[number, :, row, column] /= max(steps[0] * steps[1], 1)
    return result


def _between(image: torch.Tensor, y: Any, x: Any) -> torch.Tensor:
    """Interpolated from the four pixels around; 0 outside."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return image.new_zeros(image.shape[0])
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    low, left = math.floor(y), math.floor(x)
    high, right = min(low + 1, height - 1), min(left + 1, width - 1)
    down, across = y - low, x - left
    above = image[:, low, left] * (1 - across) + image[:, low, right] * across
    below = image[:, high, left] * (1 - across) + image[:, high, right] * across
    return above * (1 - down) + below * down


@torch.library.register_fake("torchvision::roi_align", lib=LIBRARY)
def _(input: torch.Tensor, rois: torch.Tensor, spatial_scale: float, *given: int) -> torch.Tensor:
    return input.new_empty(rois.shape[0], input.shape[1], *given[:2])


@torch.library.impl(LIBRARY, "unknown_to_aotpack", "CompositeExplicitAutograd")
def unknown(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    return boxes + scores[:, None]


def torchvision_operators() -> Any:
    """The namespace in torch.ops."""
    return torch.ops.torchvision
