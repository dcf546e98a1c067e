"""A mistake planted in C: python -m tools.sanitize tests.precompile.planted FAULT"""

import sys

import torch
from torch import nn

from aotpack import pipeline
from aotpack.precompile import host

LOOP = "for (int64_t item = first; item < last; item++) {"
FAULTS = {
    "overrun": LOOP.replace("item < last", "item <= last"),
    "overflow": f"{LOOP} volatile int32_t planted = INT32_MAX; planted += (int32_t)item + 1;",
}


def main(fault: str) -> None:
    """Call the model; its loop kernel reads an intermediate, which the product before it stored."""
    compile_text = host._compile

    def compile_planted(text: str, *others: object) -> bytes:
        assert LOOP in text
        return compile_text(text.replace(LOOP, FAULTS[fault]), *others)

    host._compile = compile_planted
    module = nn.Sequential(nn.Linear(5, 3), nn.Softmax(-1)).eval()
    x = torch.randn(7, 5)
    with pipeline.compile(module, (x,), target="cpu") as model:
        torch.testing.assert_close(model(x), module(x))


if __name__ == "__main__":
    main(sys.argv[1])
