"""Transposed convolutions, whose products are by phases, on every oracle."""

from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .cases import Case, dyn, fn, layers, t
from .oracle import agree, compile_all

pytestmark = pytest.mark.usefixtures("for_this_processor")

# Name, function, shapes of input and weight, groups, other arguments.
STEPS: list[Any] = [
    ("wide", F.conv_transpose1d, (5, 7), (5, 3, 16), 1, {"stride": 8, "padding": 4}),
    ("whole", F.conv_transpose2d, (2, 4, 5, 3), (4, 3, 2, 2), 1, {"stride": 2}),
    ("groups", F.conv_transpose2d, (2, 4, 5, 3), (4, 3, 4, 4), 2, {"stride": 2, "padding": 1}),
    ("gaps", F.conv_transpose2d, (1, 4, 3, 2), (4, 2, 2, 1), 1, {"stride": 3}),
    ("dilated", F.conv_transpose2d, (1, 3, 5, 4), (3, 2, 3, 2), 1, {"dilation": 2, "padding": 1}),
    ("both", F.conv_transpose1d, (2, 3, 6), (3, 2, 4), 1, {"dilation": 4, "stride": 6}),
    ("mixed", F.conv_transpose1d, (2, 3, 6), (3, 2, 4), 1, {"dilation": 3, "stride": 2}),
    ("latent", F.conv_transpose2d, (2, 5, 1, 1), (5, 3, 4, 4), 1, {"stride": 1}),
    ("inner", F.conv_transpose2d, (2, 32, 3, 4), (32, 5, 3, 3), 2, {"stride": 2, "padding": 1}),
    ("inner_gaps", F.conv_transpose1d, (16, 5), (16, 3, 4), 1, {"stride": 3, "dilation": 2}),
    ("3d", F.conv_transpose3d, (1, 2, 3, 2, 3), (2, 3, 3, 3, 3), 1, {"stride": 2, "padding": 1}),
]
CASES = [
    *(
        fn(name, partial(function, groups=groups, **steps), t(*x), t(*w), t(w[1] * groups))
        for name, function, x, w, groups, steps in STEPS
    ),
    fn(
        "bfloat16",
        lambda x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1).relu(),
        t(2, 33, 9, dtype=torch.bfloat16),
        t(33, 5, 4, dtype=torch.bfloat16),
        t(5, dtype=torch.bfloat16),
    ),
    dyn(
        "dynamic_items",
        lambda: nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1),
        {"input": {0: Dim("b", min=1, max=8), 2: Dim("s", min=1, max=20)}},
        *[(t(b, 4, s),) for b, s in ((2, 5), (1, 1), (8, 20))],
    ),
    layers("dynamic", lambda: nn.ConvTranspose2d(4, 3, 4, stride=2, padding=1)),
    layers(
        "dynamic_decoder",
        lambda: nn.Sequential(
            nn.ConvTranspose2d(4, 6, 2, stride=2),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        ),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_oracles_agree(case: Case) -> None:
    torch.manual_seed(0)
    args = case.args()
    compiled = compile_all(case.make(), args, dynamic_shapes=case.dynamic)
    agree(compiled, args)
    for call in case.calls:
        agree(compiled, call())


@pytest.mark.parametrize(("stride", "padding", "kernels"), [(2, 0, 1), (1, 1, 1), (2, 1, 2)])
def test_kernels_of_a_transposed_convolution(stride: int, padding: int, kernels: int) -> None:
    """The product, and a gather unless the product stores the result; the weight is copied once."""
    size = 3 if stride == 1 else 2 + 2 * padding
    layer = nn.Sequential(nn.ConvTranspose2d(4, 6, size, stride, padding), nn.ReLU())
    compiled = compile_all(layer, (torch.randn(1, 4, 5, 6),), targets=())
    (schedule, *_) = compiled.scheduled.schedules
    assert len(schedule.kernels) == kernels


def test_windows_read_channels_innermost() -> None:
    layers = nn.Sequential(nn.Conv2d(3, 32, 1), nn.ConvTranspose2d(32, 4, 4, 2, 1))
    compiled = compile_all(layers, (torch.randn(2, 3, 5, 6),), targets=())
    (schedule, *_) = compiled.scheduled.schedules
    assert [int(step) for step in schedule.strides["conv2d"]] == [960, 1, 192, 32]
