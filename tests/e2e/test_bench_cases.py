"""The cases of benchmarks are what their names say."""

import pytest
import torch

from tools.cnn_models import CNNS, IMAGE, UNetBlock, as_trained, unet_inputs
from tools.conv_cases import GROUPS, Case, cases_of

# Millions of parameters, as the papers and published checkpoints have them.
SIZES = {
    "resnet50": 25.557,
    "convnext_t": 28.589,
    "efficientnet_b0": 5.289,
    "mobilenet_v3_large": 5.483,
    "densenet121": 7.979,
    "vgg16": 138.358,
}


@pytest.mark.parametrize("name", CNNS)
def test_a_network_has_its_size(name: str) -> None:
    with torch.device("meta"), torch.no_grad():
        module = as_trained(CNNS[name]())
        assert module(torch.empty(2, *IMAGE)).shape == (2, 1000)
    millions = sum(parameter.numel() for parameter in module.parameters()) / 1e6
    assert round(millions, 3) == SIZES[name]


def test_a_unet_gives_an_image_of_its_input() -> None:
    with torch.device("meta"), torch.no_grad():
        assert UNetBlock()(*unet_inputs(2)).shape == (2, 4, 64, 64)


def test_convolutions_have_names_of_their_own_and_run() -> None:
    cases = [case for group in GROUPS for case in cases_of(group, None)]
    assert len({case.name for case in cases}) == len(set(cases)) > 400
    assert len(cases_of("table", None)) == 18
    assert len(cases_of("other", None)) == 30
    with torch.device("meta"), torch.no_grad():
        for case in cases_of("other", None):
            result = case.module()(case.input("meta", torch.bfloat16).float())
            assert result.shape[:2] == (case.batch, case.out)


def test_a_layer_of_a_network_is_the_layer() -> None:
    first = Case.of(1, 3, 64, 224, 7, 2)
    assert first in cases_of("resnet50", (1,)) and first in cases_of("table", (1,))
    assert all(case.is_depthwise for case in cases_of("depthwise", None))
