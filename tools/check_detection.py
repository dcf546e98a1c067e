"""Detection models of torchvision with random weights: packaged for the processor, and eager.

    python tools/check_detection.py
    python tools/check_detection.py ssdlite320_mobilenet_v3_large --sizes 64x80 72x64

Each model is built once, for an image of each size; the least score of a detection is an argument.
A line for each least score, and for one of few boxes, says how many boxes the images have, which
differ in contrast and so in their boxes, and how many detections are not those of the model in
float64, beside eager's: rounding decides which of two nearly equal boxes suppresses the other. The
law allows 1.5 times eager's and one an image. Times are of the processor, all threads and compilers
together. It needs torchvision, and so the torch that torchvision was built for.
"""

import argparse
import copy
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
import torchvision
from torch import nn

import aotpack

_Detections: TypeAlias = dict[str, torch.Tensor]
_Images: TypeAlias = list[torch.Tensor]
_Sizes: TypeAlias = Sequence[tuple[int, int]]
CLOSE = {"boxes": 1e-2, "scores": 1e-3, "labels": 0.0}
CONTRASTS = (1.0, 1.0, 0.1, 2.0)

_SMALL = {"min_size": 64, "max_size": 96}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": _SMALL,
    "retinanet_resnet50_fpn": {**_SMALL, "topk_candidates": 200},
    "ssdlite320_mobilenet_v3_large": {"topk_candidates": 100},
    "ssd300_vgg16": {"topk_candidates": 100},
    "fcos_resnet50_fpn": {**_SMALL, "topk_candidates": 200},
}
_HEADS = ("head", "rpn", "roi_heads")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=[*MODELS])
    parser.add_argument("--least", type=float, nargs="*", default=[0.0, 0.4, 1.0])
    parser.add_argument("--few", type=int, default=5)
    parser.add_argument("--sizes", type=_size, nargs="*", default=[(64, 80)])
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    failed = 0
    for name in options.models:
        model = _model(name, options.sizes)
        began = _spent()
        example = _images(0, options.sizes), torch.tensor(0.4)
        packaged = aotpack.compile(model, example, target=options.target)
        print(f"{name}: built in {_spent() - began:.0f} s", flush=True)
        for least in [*options.least, _least_of(model, options.sizes, options.few)]:
            given = [_images(seed, options.sizes) for seed in range(1, options.calls + 1)]
            failed += not _agrees(model, packaged, given, torch.tensor(least))
    return failed


def _least_of(model: nn.Module, sizes: _Sizes, few: int) -> float:
    """The score that no more than a few detections of an image of the example exceed."""
    with torch.no_grad():
        found: list[_Detections] = model(_images(0, sizes), torch.tensor(0.0))
    return max(one["scores"].sort(descending=True).values[few].item() for one in found)


def _size(text: str) -> tuple[int, int]:
    high, wide = text.split("x")
    return int(high), int(wide)


def _agrees(model: nn.Module, packaged: Any, given: Sequence[_Images], least: torch.Tensor) -> bool:
    wide = copy.deepcopy(model).double()
    counts: list[int] = []
    others, spent = [0, 0], 0.0
    for images in given:
        with torch.no_grad():
            eager = model(images, least)
            wanted = wide([image.double() for image in images], least)
        began = _spent()
        found = packaged(images, least)
        spent += _spent() - began
        counts += [len(one["scores"]) for one in wanted]
        for place, some in enumerate((found, eager)):
            for one, exact in zip(some, wanted, strict=True):
                others[place] += _others(one, exact) + _others(exact, one)
    agrees = others[0] <= 1.5 * others[1] + len(counts)
    print(
        f"  from {least:.3f}: {len(counts)} images, {sum(counts)} boxes ({min(counts)} to "
        f"{max(counts)} an image), not those of float64 {others[0]}, eager's {others[1]}, "
        f"{1000 * spent / len(given):.0f} ms a call{'' if agrees else '  DIFFERS'}",
        flush=True,
    )
    return agrees


def _spent() -> float:
    """Seconds of the processor, of this process and those that it waited for."""
    return sum(os.times()[:4])


def _others(some: _Detections, all_of: _Detections) -> int:
    """How many detections are not among others: rounding may change which box is better."""
    same = torch.ones(len(some["scores"]), len(all_of["scores"]), dtype=torch.bool)
    for key, close in CLOSE.items():
        error = (some[key].double().unsqueeze(1) - all_of[key].double()).abs()
        same &= (error.amax(-1) if error.dim() == 3 else error) <= close
    return int((~same.any(1)).sum())


class _Scored(nn.Module):
    """A model with its least score as an argument."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: _Images, least: torch.Tensor) -> list[_Detections]:
        scoring: Any = getattr(self.model, "roi_heads", self.model)
        usual, scoring.score_thresh = scoring.score_thresh, least
        try:
            detections: list[_Detections] = self.model(images)
        finally:
            scoring.score_thresh = usual
        return detections


def _model(name: str, sizes: _Sizes) -> nn.Module:
    """Random weights, by which scores and boxes spread."""
    torch.manual_seed(0)
    make = getattr(torchvision.models.detection, name)
    options = {**MODELS.get(name, {}), "num_classes": 5}
    model: Any = make(weights=None, weights_backbone=None, **options).eval()
    parts = [getattr(model, part) for part in _HEADS if hasattr(model, part)]
    parts += [model.backbone.fpn] if hasattr(model.backbone, "fpn") else []
    for part in parts:
        for layer in part.modules():
            if hasattr(layer, "weight"):
                _spread(layer)
    with torch.no_grad():
        model(_images(0, sizes))
    return _Scored(model).eval()


def _spread(layer: Any) -> None:
    """Scale a layer at its first call so that its result has a deviation of 1 and a mean of 0."""

    def scale(layer: Any, given: Any, result: torch.Tensor) -> torch.Tensor:
        hook.remove()
        if result.numel() < 2:
            return result
        deviation, mean = result.std(), result.mean()
        layer.weight.div_(deviation)
        if layer.bias is None:
            return result / deviation
        layer.bias.sub_(mean).div_(deviation)
        return (result - mean) / deviation

    hook = layer.register_forward_hook(scale)


def _images(seed: int, sizes: _Sizes) -> _Images:
    """An image of each size, of one contrast."""
    generator = torch.Generator().manual_seed(seed)
    contrast = CONTRASTS[seed % len(CONTRASTS)]
    return [contrast * torch.rand(3, *size, generator=generator) for size in sizes]


if __name__ == "__main__":
    sys.exit(main())
