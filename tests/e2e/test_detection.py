"""Detection models by torchvision's operators: any number of boxes, none too."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from aotpack.errors import UnsupportedError
from aotpack.pipeline import compile

from . import detection_operators
from .models import Function
from .oracle import agree, compile_all
from .test_suppression import image

OPS = detection_operators.torchvision_operators()
Calls = list[tuple[torch.Tensor, ...]]


def best(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    keep = OPS.nms(boxes, scores, 0.3)
    return keep, boxes[keep], scores[keep]


def chosen(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    """Suppression of a selection, of which the first three are taken."""
    found = scores > 0.4
    boxes, scores = boxes[found], scores[found]
    keep = OPS.nms(boxes, scores, 0.5)[:3]
    return boxes[keep], scores[keep]


def regions(*options: Any) -> Callable[[torch.Tensor, torch.Tensor], Any]:
    def function(x: torch.Tensor, rois: torch.Tensor) -> Any:
        return OPS.roi_align(x, rois[rois[:, 1] > 0], *options)

    return function


def rois(seed: int, reach: float) -> torch.Tensor:
    """Boxes of two images, some of them outside or turned over."""
    boxes = image(seed)[0][:6] * reach - 2
    boxes[0] = boxes[0].roll(2)
    return torch.cat([torch.arange(6)[:, None] % 2, boxes], 1)


SUPPRESSED: Calls = [
    image(0),
    image(1),
    (image(2)[0], torch.zeros(24)),
    (image(3)[0] * 0, image(3)[1]),
]
FEATURES = torch.randn(2, 3, 8, 9, generator=torch.Generator().manual_seed(0))
CASES: list[tuple[Callable[..., Any], Calls]] = [
    (best, SUPPRESSED),
    (chosen, SUPPRESSED),
    *(
        (regions(scale, 2, 3, ratio, aligned), [(FEATURES, rois(k, 2)) for k in range(2)])
        for scale, ratio, aligned in ((0.5, 2, False), (0.7, -1, True))
    ),
]


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(("function", "calls"), CASES)
def test_targets_agree(function: Callable[..., Any], calls: Calls) -> None:
    compiled = compile_all(Function(function, 2), calls[0])
    for call in calls:
        agree(compiled, call)


class TwoStages(nn.Module):
    """Proposals of a feature map, the best of them pooled, and the boxes of each class."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 3, 4, 1)
        self.proposals = nn.Conv2d(8, 5, 1)
        self.classes, self.moves = nn.Linear(32, 3), nn.Linear(32, 12)

    def propose(self, features: torch.Tensor) -> torch.Tensor:
        found = self.proposals(features)[0].flatten(1)
        high, wide = features.shape[2:]
        at = torch.cartesian_prod(torch.arange(high), torch.arange(wide)).flip(1) * 4
        boxes = torch.cat([at - 4, at + 8], 1) + found[1:].T
        keep = OPS.nms(boxes, found[0], 0.6)[:12]
        return boxes[keep].clamp(0, 32)

    def forward(self, x: torch.Tensor, least: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        features = self.features(x).relu()
        proposals = self.propose(features)
        whose = torch.zeros_like(proposals[:, :1])
        pooled = OPS.roi_align(features, torch.cat([whose, proposals], 1), 0.25, 2, 2, 2, False)
        rows = pooled.flatten(1)
        boxes = (proposals[:, None] + self.moves(rows).unflatten(1, (3, 4))).flatten(0, 1)
        scores = self.classes(rows).softmax(1)
        labels = torch.arange(3).expand_as(scores).reshape(-1)
        found = torch.where(scores.flatten() > least)[0]
        boxes, scores, labels = boxes[found], scores.flatten()[found], labels[found]
        largest = F.pad(boxes.flatten(), (0, 1)).amax()
        keep = OPS.nms(boxes + labels[:, None] * (largest + 1), scores, 0.5)[:20]
        return [{"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}]


@pytest.mark.row("S:A13")
def test_a_model_of_two_stages_agrees() -> None:
    torch.manual_seed(0)
    model = TwoStages().eval()
    packaged = compile(model, (torch.rand(1, 3, 32, 32), torch.tensor(0.33)), target="cpu")
    for least in (0.0, 0.33, 1.0):
        for _ in range(3):
            given = torch.rand(1, 3, 32, 32), torch.tensor(least)
            (found,), (wanted,) = packaged(*given), model(*given)
            assert (len(wanted["scores"]) > 0) is (least < 1)
            torch.testing.assert_close(found, wanted)


class OneStage(nn.Module):
    """In each level the best boxes above a score, and of all levels those that do not overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 8, 3, 2, 1)
        self.found = nn.Conv2d(8, 7, 3, padding=1)

    def of_level(self, features: torch.Tensor, least: torch.Tensor, step: int) -> Any:
        high, wide = features.shape[1:]
        found = self.found(features).flatten(1).T
        scores = found[:, 4:].sigmoid().flatten()
        chosen = torch.where(scores > least)[0]
        scores, order = scores[chosen].topk(torch.sym_min(30, chosen.shape[0]))
        places = chosen[order] // 3
        at = torch.cartesian_prod(torch.arange(high), torch.arange(wide)).flip(1) * step
        boxes = torch.cat([at - step, at + 2 * step], 1)[places] + step * found[places, :4]
        return boxes.clamp(0, 40), scores, chosen[order] % 3

    def forward(self, images: list[torch.Tensor], least: torch.Tensor) -> list[Any]:
        batch = images[0].new_zeros(len(images), 3, 40, 40)
        for own, part in zip(batch, images, strict=True):
            own[:, : part.shape[1], : part.shape[2]].copy_(part)
        first = self.first(batch).relu()
        second = self.second(first).relu()
        return [self.of_image(first[k], second[k], least) for k in range(len(images))]

    def of_image(self, first: torch.Tensor, second: torch.Tensor, least: torch.Tensor) -> Any:
        levels = self.of_level(first, least, 4), self.of_level(second, least, 8)
        boxes, scores, labels = (torch.cat(parts) for parts in zip(*levels, strict=True))
        keep = OPS.nms(boxes + 41 * labels[:, None], scores, 0.5)[:25]
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


@pytest.mark.row("S:A13")
def test_a_model_of_one_stage_agrees_on_images_of_different_sizes() -> None:
    torch.manual_seed(0)
    model = OneStage().eval()

    def images() -> list[torch.Tensor]:
        return [torch.rand(3, 32, 40), torch.rand(3, 40, 28)]

    packaged = compile(model, (images(), torch.tensor(0.5)), target="cpu")
    for least, fewest, most in (0.0, 25, 25), (0.54, 10, 24), (0.56, 0, 9), (1.0, 0, 0):
        given = images(), torch.tensor(least)
        found, wanted = packaged(*given), model(*given)
        assert all(fewest <= len(one["scores"]) <= most for one in wanted)
        torch.testing.assert_close(found, wanted)


def test_refuses_other_operators_by_their_names() -> None:
    def deformed(x: torch.Tensor, boxes: torch.Tensor) -> Any:
        return OPS.unknown_to_aotpack(x, boxes)

    with pytest.raises(UnsupportedError, match="torchvision.unknown_to_aotpack"):
        compile(Function(deformed, 2), image(0), target="cpu")
