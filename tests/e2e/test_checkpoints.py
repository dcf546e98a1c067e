"""Quantised checkpoints of others: their codes are read, and give what float weights would give.

Which are refused, ``test_checkpoints_refused`` has.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import aotpack
from aotpack.options import BuildOptions, Source
from aotpack.pipeline import build_of
from aotpack.target import parse_targets

from .checkpoints import COLUMNS, FORMATS, ROWS, compressed, gptq, net, padded, written


def reference(folder: Path, weight: torch.Tensor) -> nn.Module:
    made, read = net(), load_file(folder / "m.safetensors")
    kept = {name: one for name, one in read.items() if name in made.state_dict()}
    made.load_state_dict(kept | {"1.weight": weight})
    return made


IDS = torch.arange(5)


@pytest.mark.parametrize("name", FORMATS)
def test_products_are_those_of_dequantised_weights(name, tmp_path):
    torch.manual_seed(0)
    tensors, config, weight = FORMATS[name]()
    model = aotpack.load_checkpoint(net(device="meta"), written(tmp_path, tensors, config))
    wanted = reference(tmp_path, weight.float())(IDS)
    torch.testing.assert_close(model(IDS), wanted, rtol=1e-5, atol=1e-4)
    stored = model[1].weight_codes
    bits = 4 if stored.shape[1] * 2 == COLUMNS else 8
    assert stored.nbytes * 8 == ROWS * COLUMNS * bits
    assert hasattr(model[1], "weight_zeros") == (
        name not in ("packed", "int", "float") and "equal" not in name
    )


@pytest.mark.parametrize(("name", "target"), [("gptq", "cpu"), ("awq", "interpreter")])
def test_packages_hold_the_codes(name, target, tmp_path):
    torch.manual_seed(0)
    tensors, config, weight = FORMATS[name]()
    model = aotpack.load_checkpoint(net(), written(tmp_path, tensors, config) / "m.safetensors")
    packaged = aotpack.compile(model, (IDS,), target=target)
    wanted = reference(tmp_path, weight.float())(IDS)
    torch.testing.assert_close(packaged(IDS), wanted, rtol=1e-4, atol=1e-4)
    names = {one.name for one in packaged.manifest.weights}
    assert {"1.weight_codes", "1.weight_scales", "1.weight_zeros"} <= names
    assert "1.weight" not in names


@pytest.mark.parametrize(
    ("bits", "columns", "groups", "target"),
    [
        (4, 208, 13, "interpreter"),
        (4, 134, 1, "interpreter"),
        (8, 203, 7, "interpreter"),
        (4, 174, 3, "cpu"),
        (4, 30, 6, "interpreter"),  # five columns in each
    ],
)
def test_rows_of_odd_sizes_have_zero_points(bits, columns, groups, target, tmp_path):
    """Groups of any length, across the two halves of a row's bytes too."""
    torch.manual_seed(0)
    weight = padded(tmp_path, bits, columns, groups)
    model = nn.Sequential(nn.Linear(columns, len(weight), bias=False, device="meta"))
    model, x = aotpack.load_checkpoint(model, tmp_path), torch.randn(3, columns)
    wanted = x @ weight.T
    packaged = aotpack.compile(model, (x,), target=target)
    torch.testing.assert_close(packaged(x), wanted, rtol=1e-4, atol=1e-4)


def test_no_weight_is_stored_wide(tmp_path):
    tensors, config, _ = gptq(4, 1)
    model = aotpack.load_checkpoint(net(), written(tmp_path, tensors, config))
    made = build_of(Source(model, (IDS,)), BuildOptions(targets=parse_targets("sm_90")))
    assert made.scheduled.on(90).program.weight_program is None


@pytest.mark.parametrize(
    ("strategy", "shape"),
    [
        ("tensor", (1,)),
        ("tensor", ()),
        ("tensor", (1, 1)),
        ("channel", (ROWS,)),
        ("channel", (ROWS, 1)),
        (None, (ROWS,)),
    ],
)
@pytest.mark.parametrize("written_as", ["int", "packed"])
def test_scales_of_rows_have_one_or_two_sizes(strategy, shape, written_as, tmp_path):
    torch.manual_seed(0)
    tensors, config, _ = FORMATS[written_as]()
    own = config["config_groups"]["group_0"]["weights"]
    own |= {"strategy": strategy, "group_size": None}
    scales = tensors["weight_scale"][:, :1]
    scales = scales if ROWS in shape else scales[:1]
    tensors["weight_scale"] = scales.reshape(shape).contiguous()
    model = aotpack.load_checkpoint(net(), written(tmp_path, tensors, config))
    codes = model[1].weight / model[1].weight_scales
    torch.testing.assert_close(model[1].weight, codes.round() * scales)
    assert model[1].weight_scales.shape == (ROWS, 1)


@pytest.mark.parametrize("order", [torch.arange(COLUMNS) // 8, torch.full((COLUMNS,), -1)])
def test_columns_in_their_order_are_accepted(order, tmp_path):
    torch.manual_seed(0)
    tensors, config, weight = FORMATS["packed"]()
    tensors["weight_g_idx"] = order.to(torch.int32)
    model = aotpack.load_checkpoint(net(), written(tmp_path, tensors, config))
    torch.testing.assert_close(model[1].weight, weight.float())


def test_groups_may_be_longer_than_rows(tmp_path):
    torch.manual_seed(0)
    tensors, config, _ = gptq(4, 1)
    tensors |= {name: tensors[name][:1].contiguous() for name in ("scales", "qzeros")}
    tensors["g_idx"] = torch.zeros(COLUMNS, dtype=torch.int32)
    for size in (-1, 128, COLUMNS):
        folder = written(tmp_path, tensors, config | {"group_size": size, "desc_act": True})
        assert aotpack.load_checkpoint(net(), folder)[1].weight_scales.shape == (ROWS, 1)


def test_groups_of_a_checkpoint_may_have_sizes_of_their_own(tmp_path):
    torch.manual_seed(0)
    tensors, config, weight = FORMATS["packed"]()
    other = compressed("pack-quantized", 4, group_size=2 * COLUMNS)["config_groups"]["group_0"]
    config["config_groups"] = {"group_1": other} | config["config_groups"]
    model = aotpack.load_checkpoint(net(), written(tmp_path, tensors, config))
    torch.testing.assert_close(model[1].weight, weight.float())


def test_a_layer_without_a_bias_may_have_zeros_for_one(tmp_path):
    torch.manual_seed(0)
    tensors, config, weight = gptq(4, 1)
    model = net()
    model[1] = nn.Linear(COLUMNS, ROWS, bias=False)
    written(tmp_path, tensors | {"bias": torch.zeros(ROWS)}, config)
    torch.testing.assert_close(aotpack.load_checkpoint(model, tmp_path)[1].weight, weight.float())
    assert model[1].bias is None


def test_a_model_that_is_one_layer(tmp_path):
    torch.manual_seed(0)
    tensors, config, weight = gptq(4, 1)
    save_file(tensors, tmp_path / "m.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    model = aotpack.load_checkpoint(nn.Linear(COLUMNS, ROWS, bias=False), tmp_path)
    torch.testing.assert_close(model.weight, weight.float())
