"""torchvision's functions are replaced while exporting, by ones that have no branch on counts."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from aotpack.errors import TraceError
from aotpack.trace.capture import export
from aotpack.trace.diagnostics.asked.branches import Branches
from aotpack.trace.operators.detection.branches import without_count_branches
from aotpack.trace.operators.detection.regions import roi_align
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
    export(Selected(user), crowd(9), {}, None, name="m", strict=False, branches=Branches())
    with without_count_branches():
        assert user.batched_nms is home.batched_nms is not branching
    assert user.batched_nms is home.batched_nms is branching


def by_level(
    features: list[torch.Tensor], boxes: list[torch.Tensor], size: tuple[int, int], *options: Any
) -> torch.Tensor:
    """As torchvision's function: it asks for the number of boxes."""
    result = features[0].new_zeros((len(boxes[0]), 2, *size))
    _, scales, level_of = options
    for level, (own, scale) in enumerate(zip(features, scales, strict=True)):
        at = torch.where(level_of(boxes) == level)[0]
        rois = torch.cat([torch.zeros(len(at), 1), boxes[0][at]], 1)
        result[at] = roi_align(own, rois, scale, *size, 2, False)
    return result


def is_wide(boxes: list[torch.Tensor]) -> torch.Tensor:
    return (boxes[0][:, 2] - boxes[0][:, 0] > 3).long()


def decoded(coder: Any, codes: torch.Tensor, boxes: list[torch.Tensor]) -> torch.Tensor:
    total = sum(one.size(0) for one in boxes)
    if total > 0:
        codes = codes.reshape(total, -1)
    found: torch.Tensor = coder.decode_single(codes, torch.cat(boxes))
    return found.reshape(total, -1, 4) if total > 0 else found


class Heads(nn.Module):
    """The best boxes above a score, pooled by level, and decoded for two classes."""

    def __init__(self, poolers: Any, coding: Any) -> None:
        super().__init__()
        self.poolers, self.coding = poolers, coding

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor, x: torch.Tensor) -> Any:
        found = scores > 0.5
        best, at = scores[found].topk(self.coding._topk_min(scores[found], 4, 0))
        boxes = boxes[found][at]
        options = (2, 2), 2, (0.5, 0.25), is_wide
        pooled = self.poolers._multiscale_roi_align([x, x[..., ::2, ::2]], [boxes], *options)
        codes = torch.cat([boxes, pooled.flatten(1)[:, :4]], 1)
        return best, self.coding.BoxCoder().decode(codes, [boxes])


class BoxCoder:
    decode = decoded

    @staticmethod
    def decode_single(codes: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
        return codes + boxes.repeat(1, 2)


def test_counted_boxes_are_pooled_and_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    poolers, coding = ModuleType("poolers"), ModuleType("coding")
    poolers._multiscale_roi_align = by_level  # type: ignore[attr-defined]
    coding.BoxCoder = BoxCoder  # type: ignore[attr-defined]
    coding._topk_min = lambda x, k, axis: min(k, x.size(axis))  # type: ignore[attr-defined]
    model, x = Heads(poolers, coding), torch.rand(1, 2, 6, 6)
    with pytest.raises(TraceError, match="data-dependent"):
        export(model, (*crowd(9), x), {}, None, name="m", strict=False, branches=Branches())
    monkeypatch.setitem(sys.modules, "torchvision.ops.poolers", poolers)
    monkeypatch.setitem(sys.modules, "torchvision.models.detection._utils", coding)
    exported = export(
        model, (*crowd(9), x), {}, None, name="m", strict=False, branches=Branches()
    ).module()
    assert BoxCoder.decode is decoded
    for scores in crowd(9)[1], torch.ones(9), torch.zeros(9):
        found, wanted = (run(crowd(9)[0], scores, x) for run in (exported, model))
        assert torch.equal(found[0], wanted[0])
        torch.testing.assert_close(found[1].flatten(), wanted[1].flatten())


def test_leaves_functions_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    user = loaded(monkeypatch, "users_detector")
    with pytest.raises(TraceError, match="data-dependent"):
        export(Selected(user), crowd(9), {}, None, name="m", strict=False, branches=Branches())


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
