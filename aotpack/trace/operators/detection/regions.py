"""Regions of images, as torchvision's operators sample them."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F


def roi_align(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> torch.Tensor:
    """The mean of the samples in each bin of a region; a sample lies between four pixels.

    ``rois`` are rows of (image, left, top, right, bottom). Without a ``sampling_ratio`` a bin has
    about as many samples as pixels, which data decide.
    """
    rows, columns = _sides(input, rois, spatial_scale, (pooled_height, pooled_width), aligned)
    high, wide = rows.sampled(sampling_ratio), columns.sampled(sampling_ratio)
    image = rois[:, 0].long()[:, None, None, None, None, None]
    channel = torch.arange(input.shape[1], device=input.device)[:, None, None, None, None]
    found = torch.zeros((), dtype=input.dtype, device=input.device)
    for y, of_y in zip(high.pixels, high.weights, strict=True):
        for x, of_x in zip(wide.pixels, wide.weights, strict=True):
            weight = of_y[:, None, :, None, :, None] * of_x[:, None, None, :, None, :]
            at = image, channel, y[:, None, :, None, :, None], x[:, None, None, :, None, :]
            found = found + weight * input[at]
    count = torch.as_tensor(high.count * wide.count).clamp(min=1).to(input.dtype)
    return found.sum((-2, -1)) / count.reshape(-1, 1, 1, 1)


@dataclass(frozen=True, slots=True)
class _Samples:
    """Along a side, for each region, bin and sample: the pixels around it and their weights.

    ``count`` is the number of a bin's samples: one for all regions, or of each.
    """

    pixels: tuple[torch.Tensor, torch.Tensor]
    weights: tuple[torch.Tensor, torch.Tensor]
    count: Any


@dataclass(frozen=True, slots=True)
class _Side:
    """Where regions start, their lengths, the bins of each, and the pixels of an image."""

    start: torch.Tensor
    length: torch.Tensor
    bins: int
    pixels: int

    def sampled(self, ratio: int) -> _Samples:
        """``ratio`` samples in each bin, or as many as it has pixels."""
        count: Any = ratio if ratio > 0 else (self.length / self.bins).ceil()
        steps = self._steps(count)
        bins = torch.arange(self.bins, device=steps.device)[:, None]
        bin_length = (self.length / self.bins)[:, None, None]
        inside = (steps + 0.5) * bin_length / (count if ratio > 0 else count[:, None, None])
        place = self.start[:, None, None] + bins * bin_length + inside
        is_used = (place >= -1) & (place <= self.pixels)
        if ratio <= 0:
            is_used = is_used & (steps < count[:, None, None])
        place = place.clamp(min=0)
        low = place.long().clamp(max=self.pixels - 1)
        of_high = (place - low).masked_fill(low >= self.pixels - 1, 0)
        high = (low + 1).clamp(max=self.pixels - 1)
        weights = (1 - of_high).where(is_used, 0), of_high.where(is_used, 0)
        return _Samples((low, high), weights, count)

    def _steps(self, count: Any) -> torch.Tensor:
        """The numbers of the samples that some region has."""
        if isinstance(count, int):
            return torch.arange(count, device=self.start.device)
        most: Any = F.pad(count, (0, 1)).amax().long().item()  # 0 of no regions
        torch._check(most >= 0)  # type: ignore[no-untyped-call]
        return torch.arange(most, device=self.start.device)


def _sides(
    input: torch.Tensor,
    rois: torch.Tensor,
    spatial_scale: float,
    bins: tuple[int, int],
    aligned: bool,
) -> tuple[_Side, _Side]:
    """Rows and columns. Regions that are not ``aligned`` are at least a pixel long."""
    ends = rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)
    starts, lengths = ends[:, :2], ends[:, 2:] - ends[:, :2]
    lengths = lengths if aligned else lengths.clamp(min=1)
    return (
        _Side(starts[:, 1], lengths[:, 1], bins[0], input.shape[2]),
        _Side(starts[:, 0], lengths[:, 0], bins[1], input.shape[3]),
    )
