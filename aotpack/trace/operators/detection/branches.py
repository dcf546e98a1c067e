"""torchvision's Python that branches on how many boxes there are, without branches.

An exported program cannot branch on a count that data decide. The functions here give the same
boxes for all counts, none too. They stand in for torchvision's while a model is exported, if the
model has imported it; aotpack does not.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

import torch

from aotpack.trace.operators.detection import regions, suppression

_Function: TypeAlias = Callable[..., Any]
_MOST_MOVED = 1000  # boxes, in batched_nms of torchvision on processors


@contextmanager
def without_count_branches() -> Iterator[None]:
    """Inside the block, torchvision's functions are replaced wherever a module has them."""
    with ExitStack() as replaced:
        for (module, path), function in _REPLACEMENTS.items():
            owner, _, name = path.rpartition(".")
            home = getattr(sys.modules.get(module), owner, None) if owner else None
            home = home or sys.modules.get(module)
            original = getattr(home, name, None)
            if original is None:
                continue
            holders = [home] if owner else _holders(name, original)
            for holder in holders:
                replaced.callback(setattr, holder, name, original)
                setattr(holder, name, function)
        yield


def _holders(name: str, original: _Function) -> list[Any]:
    """The modules that have a function, by its name: their own, and those that import it."""
    return [
        module
        for module in [*sys.modules.values()]
        if getattr(module, "__dict__", {}).get(name) is original
    ]


def _batched_nms(
    boxes: torch.Tensor, scores: torch.Tensor, idxs: torch.Tensor, iou_threshold: float
) -> torch.Tensor:
    return suppression.batched_nms(boxes, scores, idxs, iou_threshold, _MOST_MOVED)


def _topk_min(input: torch.Tensor, orig_kval: int, axis: int) -> Any:
    return torch.sym_min(orig_kval, input.size(axis))  # type: ignore[no-untyped-call]


def _decode(coder: Any, rel_codes: torch.Tensor, boxes: Sequence[torch.Tensor]) -> torch.Tensor:
    """Codes of counted boxes are rows, one for each box."""
    places = torch.cat([*boxes])
    total = places.shape[0]
    has_number = isinstance(total, int) and total > 0
    rows = rel_codes.reshape(total, -1) if has_number else rel_codes.flatten(1)
    found: torch.Tensor = coder.decode_single(rows, places)
    boxes_of_rows: torch.Tensor = found.unflatten(1, (-1, 4))  # type: ignore[no-untyped-call]
    return boxes_of_rows


def _pooled_by_level(
    features: Sequence[torch.Tensor],
    boxes: Sequence[torch.Tensor],
    output_size: Sequence[int],
    sampling_ratio: int,
    scales: Sequence[float],
    level_of: Callable[[Sequence[torch.Tensor]], torch.Tensor],
) -> torch.Tensor:
    """Each box in the features of its level."""
    images = torch.cat([torch.full_like(own[:, :1], k) for k, own in enumerate(boxes)])
    rois = torch.cat([images, torch.cat([*boxes])], 1)
    height, width = output_size
    options = (height, width, sampling_ratio, False)
    if len(features) == 1:
        return regions.roi_align(features[0], rois, scales[0], *options)
    levels = level_of(boxes)
    result = features[0].new_zeros((rois.shape[0], features[0].shape[1], *output_size))
    for level, (own, scale) in enumerate(zip(features, scales, strict=True)):
        at = torch.where(levels == level)[0]
        pooled = regions.roi_align(own, rois[at], scale, *options)
        result = result.index_put((at,), pooled.to(result.dtype))
    return result


_REPLACEMENTS: Mapping[tuple[str, str], _Function] = {
    ("torchvision.ops.boxes", "batched_nms"): _batched_nms,
    ("torchvision.ops.poolers", "_multiscale_roi_align"): _pooled_by_level,
    ("torchvision.models.detection._utils", "_topk_min"): _topk_min,
    ("torchvision.models.detection._utils", "BoxCoder.decode"): _decode,
}
