"""Detection models of torchvision with random weights: packaged for the processor, and eager.

    python tools/check_detection.py
    python tools/check_detection.py ssdlite320_mobilenet_v3_large

Each model is built at three least scores: that of all boxes, of some, and of none. A line says how
long the build took, and how many detections are not those of the model in float64, beside eager's:
rounding decides which of two nearly equal boxes suppresses the other. The law allows 1.5 times
eager's and one an image. It needs torchvision, and so the torch that torchvision was built for.
"""

import argparse
import copy
import sys
import time
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
import torchvision
from torch import nn

import aotpack

_Detections: TypeAlias = dict[str, torch.Tensor]
CLOSE = {"boxes": 1e-2, "scores": 1e-3, "labels": 0.0}

_SMALL = {"min_size": 64, "max_size": 96}
MODELS: Mapping[str, Mapping[str, Any]] = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": _SMALL,
    "retinanet_resnet50_fpn": {**_SMALL, "topk_candidates": 200},
    "ssdlite320_mobilenet_v3_large": {"topk_candidates": 100},
    "ssd300_vgg16": {"topk_candidates": 100},
}
_LEAST_SCORE = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": "box_score_thresh",
}
_HEADS = ("head", "rpn", "roi_heads")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=[*MODELS])
    parser.add_argument("--least", type=float, nargs="*", default=[0.0, 0.4, 1.0])
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    failed = 0
    for name in options.models:
        for least in options.least:
            failed += not _agrees(name, least, options.images, options.target)
    return failed


def _agrees(name: str, least: float, images: int, target: str) -> bool:
    model = _model(name, least)
    wide = copy.deepcopy(model).double()
    began = time.perf_counter()
    packaged = aotpack.compile(model, ([_image(0)],), target=target)
    built = time.perf_counter() - began
    boxes, spent = 0, 0.0
    others = [0, 0]
    for seed in range(1, images + 1):
        image = _image(seed)
        with torch.no_grad():
            (eager,) = model([image])
            (wanted,) = wide([image.double()])
        began = time.perf_counter()
        (found,) = packaged([image])
        spent += time.perf_counter() - began
        boxes += len(wanted["scores"])
        for place, one in enumerate((found, eager)):
            others[place] += _others(one, wanted) + _others(wanted, one)
    agrees = others[0] <= 1.5 * others[1] + images
    print(
        f"{name} from {least}: built in {built:.0f} s, {images} images, {boxes} boxes, not those "
        f"of float64 {others[0]}, eager's {others[1]}, {1000 * spent / images:.0f} ms a call"
        f"{'' if agrees else '  DIFFERS'}",
        flush=True,
    )
    return agrees


def _others(some: _Detections, all_of: _Detections) -> int:
    """How many detections are not among others: rounding may change which box is better."""
    same = torch.ones(len(some["scores"]), len(all_of["scores"]), dtype=torch.bool)
    for key, close in CLOSE.items():
        error = (some[key].double().unsqueeze(1) - all_of[key].double()).abs()
        same &= (error.amax(-1) if error.dim() == 3 else error) <= close
    return int((~same.any(1)).sum())


def _model(name: str, least: float) -> nn.Module:
    """Random weights, by which scores and boxes spread."""
    torch.manual_seed(0)
    thresh = {_LEAST_SCORE.get(name, "score_thresh"): least}
    make = getattr(torchvision.models.detection, name)
    options = {**MODELS.get(name, {}), **thresh, "num_classes": 5}
    model: nn.Module = make(weights=None, weights_backbone=None, **options).eval()
    heads = [getattr(model, head) for head in _HEADS if hasattr(model, head)]
    layers = [layer for head in heads for layer in head.modules() if hasattr(layer, "weight")]
    hooks = [layer.register_forward_hook(_spread) for layer in layers]
    with torch.no_grad():
        model([_image(0)])
    for hook in hooks:
        hook.remove()
    return model


def _spread(layer: nn.Module, given: Any, result: torch.Tensor) -> torch.Tensor:
    """Scale a layer's weights so that what it gives has a deviation of 1 and a mean of 0."""
    if result.numel() < 2:
        return result
    deviation, mean = result.std(), result.mean()
    assert isinstance(layer.weight, torch.Tensor)
    layer.weight.div_(deviation)
    if isinstance(layer.bias, torch.Tensor):
        layer.bias.sub_(mean).div_(deviation)
        return (result - mean) / deviation
    return result / deviation


def _image(seed: int) -> torch.Tensor:
    return torch.rand(3, 64, 80, generator=torch.Generator().manual_seed(seed))


if __name__ == "__main__":
    sys.exit(main())
