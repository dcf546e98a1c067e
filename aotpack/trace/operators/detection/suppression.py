"""Non-maximum suppression as torchvision's operator computes it, as a loop.

A box stays if no better one that stays overlaps it: repeated until nothing changes, which takes as
many turns as the longest chain of boxes that decide on each other. Overlaps are computed in each
turn, so no table of all pairs is stored.
"""

import math
from typing import TypeAlias

import torch
import torch.nn.functional as F

from aotpack.trace.operators.control_flow.control import WHILE_LOOP

_Loop: TypeAlias = tuple[torch.Tensor, torch.Tensor]


def nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Positions of the boxes that stay, the best first; of equal scores, the first is better."""
    order = scores.argsort(stable=True, descending=True)
    return order[_staying(dets[order], None, iou_threshold)]


def batched_nms(
    boxes: torch.Tensor,
    scores: torch.Tensor,
    classes: torch.Tensor,
    iou_threshold: float,
    most_moved: int,
) -> torch.Tensor:
    """Suppression within each class.

    Up to ``most_moved`` boxes, each class is moved to a place of its own, as torchvision does,
    whose sums round; of more, boxes of different classes do not meet.
    """
    order = scores.argsort(stable=True, descending=True)
    boxes, classes = boxes[order], classes[order]
    is_moved = torch.full((), boxes.shape[0], device=boxes.device) <= most_moved
    largest = F.pad(boxes.flatten(), (0, 1), value=-math.inf).amax()  # of no boxes too
    moves = torch.where(is_moved, classes.to(boxes) * (largest + 1), 0)
    groups = torch.where(is_moved, 0, classes)
    return order[_staying(boxes + moves[:, None], groups, iou_threshold)]


def _staying(
    boxes: torch.Tensor, groups: torch.Tensor | None, iou_threshold: float
) -> torch.Tensor:
    """Which boxes stay, of boxes in order; those of different groups do not meet."""
    threshold = _rounded_down(iou_threshold, boxes.dtype)
    places = torch.arange(boxes.shape[0], device=boxes.device)

    def goes_on(stays: torch.Tensor, changed: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return changed.clone()

    def turn(stays: torch.Tensor, changed: torch.Tensor, *around: torch.Tensor) -> _Loop:
        boxes, places, *groups = around
        drops = stays[:, None] & (places[:, None] < places) & (_overlap(boxes) > threshold)
        for group in groups:
            drops = drops & (group[:, None] == group)
        new = ~drops.any(0)
        return new, (new != stays).any()

    first = torch.ones_like(places, dtype=torch.bool), torch.ones((), dtype=torch.bool)
    around = (boxes, places) if groups is None else (boxes, places, groups)
    stays: torch.Tensor = WHILE_LOOP(goes_on, turn, first, around)[0]
    return stays


def _overlap(boxes: torch.Tensor) -> torch.Tensor:
    """The shared area of each pair of boxes, as a part of their union."""
    left, top, right, bottom = boxes.unbind(1)
    width = _shared(left, right)
    shared = width * _shared(top, bottom)
    areas = (right - left) * (bottom - top)
    return shared / (areas[:, None] + areas - shared)


def _shared(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    """The length that each pair of intervals shares."""
    ends = torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)
    return ends.clamp(min=0)


def _rounded_down(value: float, dtype: torch.dtype) -> float:
    """The largest number of a type up to ``value``: any number of the type exceeds both or none."""
    wide = torch.tensor(value, dtype=torch.float64)
    near = wide.to(dtype)
    if near.double() > wide:
        near = torch.nextafter(near, torch.full_like(near, -math.inf))
    return near.item()
