"""torchvision's functions are replaced while exporting, by ones that have no branch on counts."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from aotpack.errors import TraceError
from aotpack.trace.capture import export
from aotpack.trace.operators.detection.branches import without_count_branches
from aotpack.trace.operators.detection.suppression import batched_nms, nms

HOME = "torchvision.ops.boxes"


def branching(
    boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float
) -> torch.Tensor:
    """As torchvision's function of this name begins."""
    if boxes.numel() == 0:
        return torch.empty((0,), dtype=torch.int64)
    return nms(boxes, scores, iou_threshold)


class Selected(nn.Module):
    def __init__(self, user: Any) -> None:
        super().__init__()
        self.user = user

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        found = scores > 0.5
        boxes, scores = boxes[found], scores[found]
        kept: torch.Tensor = self.user.batched_nms(boxes, scores, (scores * 3).long(), 0.5)
        return kept


def crowd(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    corners = torch.rand(count, 2, generator=generator) * 4
    sides = 2 + torch.rand(count, 2, generator=generator)
    return torch.cat([corners, corners + sides], 1), torch.rand(count, generator=generator)


def loaded(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """A loaded module that has the function; its name is its home, or another."""
    module = ModuleType(name)
    module.batched_nms = branching  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    return module


def test_replaces_a_loaded_function_wherever_it_is_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home, user = (loaded(monkeypatch, name) for name in (HOME, "users_detector"))
    export(Selected(user), crowd(9), {}, None, name="m", strict=False)
    with without_count_branches():
        assert user.batched_nms is home.batched_nms is not branching
    assert user.batched_nms is home.batched_nms is branching


def test_leaves_functions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    user = loaded(monkeypatch, "users_detector")
    with pytest.raises(TraceError, match="data-dependent"):
        export(Selected(user), crowd(9), {}, None, name="m", strict=False)


def of_each_class(boxes: torch.Tensor, scores: torch.Tensor, classes: torch.Tensor) -> list[int]:
    """The boxes that stay in the suppression of their class, the best first."""
    kept = []
    for one in classes.unique():
        own = torch.where(classes == one)[0]
        kept += own[nms(boxes[own], scores[own], 0.5)].tolist()
    return sorted(kept, key=lambda place: -scores[place].item())


@pytest.mark.parametrize("most_moved", [0, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_classes_do_not_meet(count: int, most_moved: int) -> None:
    boxes, scores = crowd(count)
    classes = torch.arange(count) % 3
    found = batched_nms(boxes, scores, classes, 0.5, most_moved).tolist()
    assert found == of_each_class(boxes, scores, classes)
    assert count < 60 or len(found) < count


def test_a_threshold_is_no_overlap_beyond_it() -> None:
    """The overlap 0.7 in float32 is below the double 0.7, and 0.3 is above."""
    boxes, scores = (
        torch.tensor([[0.0, 0, 10, 1], [0, 0, 7, 1], [0, 2, 10, 3], [0, 2, 3, 3]]),
        torch.ones(4),
    )
    assert nms(boxes, scores, 0.7).tolist() == [0, 1, 2, 3]
    assert nms(boxes[2:], scores[2:], 0.3).tolist() == [0]
