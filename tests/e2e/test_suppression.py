"""Detection: boxes of enough score are selected, and those that overlap a better one dropped."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop

from aotpack.errors import TraceError
from aotpack.pipeline import compile

Suppression = Callable[[torch.Tensor], torch.Tensor]


def overlaps(boxes: torch.Tensor) -> torch.Tensor:
    """Whether each pair of boxes shares more than half of their union."""
    low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(-1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return shared / (areas[:, None] + areas - shared) > 0.5


def until_nothing_changes(boxes: torch.Tensor) -> torch.Tensor:
    """A box stays if no better one that stays overlaps it."""
    better = overlaps(boxes).triu(1)

    def body(keep: torch.Tensor, goes_on: torch.Tensor) -> tuple[torch.Tensor, ...]:
        new = ~(better & keep[:, None]).any(0)
        return new, (new != keep).any()

    first = torch.ones(boxes.shape[0], dtype=torch.bool), torch.tensor(True)
    return while_loop(lambda keep, goes_on: goes_on.clone(), body, first)[0]


def one_after_the_other(boxes: torch.Tensor) -> torch.Tensor:
    table, count = overlaps(boxes), boxes.shape[0]
    places = torch.arange(count)

    def body(i: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        row = table.index_select(0, i.reshape(1))[0]
        return i + 1, keep & ~(row & keep.index_select(0, i.reshape(1)) & (places > i))

    first = torch.tensor(0), torch.ones(count, dtype=torch.bool)
    return while_loop(lambda i, keep: i < count, body, first)[1]


def by_item(boxes: torch.Tensor) -> torch.Tensor:
    """An index read from a tensor inside of a loop."""
    table, count = overlaps(boxes), boxes.shape[0]
    first = torch.tensor(0), torch.ones(count, dtype=torch.bool)

    def step(i: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return i + 1, keep & ~table[i]

    return while_loop(lambda i, keep: i < count, step, first)[1]


class Detector(nn.Module):
    def __init__(self, suppress: Suppression, least: float) -> None:
        super().__init__()
        self.suppress, self.least = suppress, least

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if self.least:
            found = scores > self.least
            boxes, scores = boxes[found], scores[found]
        order = scores.argsort(descending=True)
        kept = order[self.suppress(boxes[order])]
        return boxes[kept], scores[kept]


def image(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes that crowd, with scores that differ."""
    generator = torch.Generator().manual_seed(seed)
    corners = torch.rand(24, 2, generator=generator) * 4
    sizes = 2 + torch.rand(24, 2, generator=generator)
    return torch.cat([corners, corners + sizes], 1), torch.rand(24, generator=generator)


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(
    ("suppress", "least"), [(until_nothing_changes, 0.3), (one_after_the_other, 0)]
)
def test_agrees_with_eager(suppress: Suppression, least: float) -> None:
    model = Detector(suppress, least).eval()
    packaged = compile(model, image(0), target="cpu")
    for seed in (1, 2):
        found, wanted = packaged(*image(seed)), model(*image(seed))
        assert 0 < len(wanted[1]) < 24
        assert all(map(torch.equal, found, wanted))


def test_refuses_an_index_that_a_loop_reads_from_a_tensor() -> None:
    with pytest.raises(TraceError, match="data-dependent"):
        compile(Detector(by_item, 0).eval(), image(0), target="cpu")
