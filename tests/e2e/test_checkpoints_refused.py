"""Checkpoints that are not read as they are meant: each is refused with what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import aotpack
from aotpack.cli import main
from aotpack.errors import UsageError

from .checkpoints import COLUMNS, FORMATS, GROUP, ROWS, awq, compressed, gptq, net, padded, written


def test_columns_in_the_order_of_activations_are_refused(tmp_path):
    tensors, config, _ = gptq(4, 1)
    tensors["g_idx"] = tensors["g_idx"].flip(0).contiguous()
    with pytest.raises(
        UsageError, match="1: its columns are in the order of act.*without desc_act"
    ):
        aotpack.load_checkpoint(net(), written(tmp_path, tensors, config | {"desc_act": True}))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "gptq", "bits": 3}, "gptq with 3 bits; gptq .4 or 8 bits.*--quantize"),
        ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version gemv; gptq"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "tables.*model.dequantize"),
        ({"quant_method": "hqq", "bits": 4}, "hqq with 4 bits"),
        ({"quant_method": "hqq"}, "hqq with no number of bits"),
        (compressed("pack-quantized", 4, actorder="group"), "actorder group.*'weight' or none"),
        (compressed("pack-quantized", 4), "the tensors weight_packed"),
        (compressed("int-quantized", 8, activations={"num_bits": 8}), "its activations are quant"),
        (compressed("float-quantized", 8, "float", strategy="Block"), "scales are for a block"),
        (compressed("marlin-24", 4), "marlin-24 with 4 bits of int"),
        (None, "no quantization_config is in its config.json"),
    ],
)
def test_other_checkpoints_are_refused_with_what_to_do(config, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        aotpack.load_checkpoint(net(), written(tmp_path, gptq(4, 1)[0], config))


def test_rows_of_an_odd_number_of_codes_of_four_bits_are_refused(tmp_path):
    model = nn.Sequential(nn.Linear(45, 37, bias=False, device="meta"))
    padded(tmp_path, 4, 45, 9)
    with pytest.raises(UsageError, match="0: 45 columns do not fill bytes of two codes"):
        aotpack.load_checkpoint(model, tmp_path)
    padded(tmp_path, 8, 45, 9)
    assert aotpack.load_checkpoint(model, tmp_path)[0].weight_codes.shape == (37, 45)


def test_other_files_are_refused(tmp_path, capsys):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert main(["build", str(tmp_path / "m.gguf"), "-o", str(tmp_path), "--target", "cpu"]) == 2
    assert "a GGUF file has blocks of its own codes" in capsys.readouterr().err
    with pytest.raises(UsageError, match="m.gguf: a GGUF file has blocks.*gguf_file=.*--quantize"):
        aotpack.load_checkpoint(net(), tmp_path / "m.gguf")
    with pytest.raises(UsageError, match="there is no safetensors file"):
        aotpack.load_checkpoint(net(), tmp_path)
    tensors, config, _ = awq()
    written(tmp_path, tensors, config)
    with pytest.raises(UsageError, match="it has 2.bias, 2.weight, which the model has not"):
        aotpack.load_checkpoint(net()[:2], tmp_path)
    with pytest.raises(UsageError, match=r"1: scales is float32\[4, 16\]; .* of shape \[1, 4\]"):
        aotpack.load_checkpoint(nn.Sequential(net()[0], nn.Linear(8, 4), net()[2]), tmp_path)
    (tmp_path / "m.safetensors").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="it is no safetensors file"):
        aotpack.load_checkpoint(net(), tmp_path)


def said(config: dict[str, Any], **weights: Any) -> dict[str, Any]:
    """What the only group says of weights, changed."""
    config["config_groups"]["group_0"]["weights"] |= weights
    return config


Change = Callable[[dict[str, torch.Tensor]], Any]


def without(name: str) -> Change:
    return lambda tensors: tensors.pop(name)


def put(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    """A tensor of the layer, changed."""
    return lambda tensors: tensors.update({name: change(tensors[name]).contiguous()})


def new(name: str, tensor: torch.Tensor) -> Change:
    return lambda tensors: tensors.update({name: tensor})


FLIPPED = (torch.arange(COLUMNS) // GROUP).flip(0).contiguous()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("gptq", put("qweight", torch.Tensor.float), r"qweight is float32\[4, 16\]; int32 of sha"),
        ("gptq", put("qweight", lambda x: x[1:]), r"qweight is int32\[3, 16\]; int32 of shape \[4"),
        (
            "gptq",
            put("scales", lambda x: x[0]),
            r"scales is float32\[16\]; .* \[4, 16\] is",
        ),
        ("gptq", put("scales", lambda x: x[:2]), r"scales is float32\[2, 16\]; .* \[4, 16\]"),
        ("gptq", put("scales", torch.Tensor.int), r"scales is int32\[4, 16\]; float16 or bfloat16"),
        ("gptq", put("qzeros", lambda x: x[:2]), r"qzeros is int32\[2, 2\]; int32 of shape \[4, 2"),
        ("gptq", put("g_idx", lambda x: x[1:]), r"g_idx is int32\[31\]; .* \[32\] is accepted"),
        ("gptq", put("g_idx", torch.Tensor.float), r"g_idx is float32\[32\]; int8 or "),
        ("awq", put("qweight", lambda x: x.T), r"qweight is int32\[2, 32\]; int32 of shape \[32"),
        ("awq", put("scales", lambda x: x[:2]), r"scales is float32\[2, 16\]; .* \[4, 16\]"),
        ("awq", put("qzeros", lambda x: x[:2]), r"qzeros is int32\[2, 2\]; int32 of shape \[4, 2"),
        ("packed", new("weight_g_idx", FLIPPED), "its columns are in the order of activations"),
        ("packed", new("weight_g_idx", FLIPPED[1:].clone()), r"weight_g_idx is int64\[31\]"),
        ("packed", put("weight_packed", torch.Tensor.float), r"weight_packed is float32\[16, 4\]"),
        ("packed", put("weight_scale", torch.Tensor.int), r"weight_scale is int32\[16, 4\]; float"),
        ("packed", put("weight_scale", lambda x: x[:, :2]), r"weight_scale is float32\[16, 2\]"),
        ("packed", put("weight_scale", lambda x: x[0, :1]), r"weight_scale is float32\[1\]; "),
        ("packed", new("weight_shape", torch.tensor([1, 2, 3])), r"weight_shape is int64\[3\]; "),
        (
            "packed",
            new("weight_shape", torch.tensor([32, 16])),
            r"weight_shape is \[32, 16\]; \[",
        ),
        ("packed", new("weight_shape", torch.ones(2)), r"weight_shape is float32\[2\]; int8 or "),
        ("packed", new("weight_zero_point", torch.ones(16, 4)), "weight_zero_point is float32"),
        ("int", put("weight", torch.Tensor.short), r"weight is int16\[16, 32\]; int8 of shape"),
        (
            "int",
            put("weight_scale", lambda x: x[:4]),
            r"weight_scale is float32\[4, 1\]; ",
        ),
        (
            "int",
            new("weight_zero_point", torch.ones(3)),
            r"weight_zero_point is float32\[3\]; ",
        ),
        ("int", new("input_scale", torch.ones(1)), "has 1.input_scale, which the model has"),
        (
            "float",
            put("weight", lambda x: x.float().char()),
            r"weight is int8\[.*; float8_e4m3fn",
        ),
    ],
)
def test_tensors_of_other_shapes_and_types_are_refused(name, change, message, tmp_path):
    tensors, config, _ = FORMATS[name]()
    change(tensors)
    model = net()
    before = {key: one.clone() for key, one in model.state_dict().items()}
    with pytest.raises(UsageError, match=message):
        aotpack.load_checkpoint(model, written(tmp_path, tensors, config))
    assert before.keys() == model.state_dict().keys()
    assert all(torch.equal(one, before[key]) for key, one in model.state_dict().items())


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("gptq", {"group_size": 16}, r"scales is float32\[4, 16\]; .* shape \[2, 16\] is accepted"),
        ("gptq", {"group_size": 24}, "its 32 inputs are no multiple of the group_size 24; groups"),
        ("gptq", {"group_size": None}, "group_size is missing in its configuration; how many"),
        ("gptq", {"group_size": 0}, "group_size is 0 in its configuration; .* or -1 for a whole"),
        ("gptq", {"group_size": "8"}, "group_size is '8' in its configuration; a whole number"),
        ("gptq", {"bits": "4"}, "bits is '4' in its configuration; a whole number, as 4, is acc"),
        ("gptq", {"bits": 4.0}, "bits is 4.0 in its configuration; a whole number"),
        ("gptq", {"desc_act": 1}, "desc_act is 1 in its configuration; true or false is"),
        ("gptq", {"checkpoint_format": "marlin"}, "gptq with 4 bits, version marlin; gptq"),
        ("gptq", {"quant_method": ["gptq"]}, r"quant_method is \['gptq'\] in its conf.*text is"),
        ("awq", {"group_size": 16}, r"scales is float32\[4, 16\]; .* shape \[2, 16\] is accepted"),
        ("awq", {"q_group_size": 24}, "its 32 inputs are no multiple of the group_size 24"),
        ("packed", {"config_groups": {"g": 3}}, "config_groups.g is 3 in its conf.*an object is"),
        (
            "packed",
            {"config_groups": {"W4A16": ["Linear"]}},
            r"config_groups.W4A16 is \['Linear'\]",
        ),
        ("packed", {"config_groups": []}, r"config_groups is \[\] in its conf.*an object is"),
        ("packed", {"config_groups": {}}, "its weights are none with no bits; gptq"),
        ("packed", {"transform_config": {"config_groups": {"u": {}}}}, "its weights are rotated"),
        ("packed", {"kv_cache_scheme": {"num_bits": 8}}, "its keys and values are quantised too"),
        (
            "packed",
            {"sparsity_config": {"format": "sparse-24-bitmask"}},
            "as sparse-24-bitmask; den",
        ),
        ("packed", {"format": "marlin-24"}, "marlin-24 with 4 bits of int"),
    ],
)
def test_what_a_configuration_says_wrongly_is_refused(name, config, message, tmp_path):
    tensors, own, _ = FORMATS[name]()
    with pytest.raises(UsageError, match=message):
        aotpack.load_checkpoint(net(), written(tmp_path, tensors, own | config))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"actorder": "GROUP"}, "columns are in the order of activations"),
        ({"actorder": "dynamic"}, "columns are in the order of activations"),
        ({"actorder": True}, "columns are in the order of activations"),
        ({"actorder": "sideways"}, "group_0.weights.actorder is 'sideways'; 'weight', 'static'"),
        ({"group_size": 16}, r"weight_scale is float32\[16, 4\]; .* of shape \[16, 2\]"),
        ({"group_size": 24}, "its 32 inputs are no multiple of the group_size 24"),
        ({"group_size": None}, "config_groups.group_0.weights.group_size is missing"),
        ({"strategy": "channel"}, r"weight_scale is .*; .* of shape \[16, 1\] or \[16\] or "),
        ({"strategy": 3}, "weights.strategy is 3 in its configuration; text"),
        ({"num_bits": [4]}, r"weights.num_bits is \[4\] in its configuration; a whole number"),
        ({"symmetric": False}, "1: it has no weight_zero_point, and its configuration says"),
    ],
)
def test_what_it_says_of_weights_wrongly_is_refused(weights, message, tmp_path):
    tensors, config, _ = FORMATS["packed"]()
    with pytest.raises(UsageError, match=message):
        aotpack.load_checkpoint(net(), written(tmp_path, tensors, said(config, **weights)))
    for order in ("weight", "STATIC", None, False):
        folder = written(tmp_path, tensors, said(FORMATS["packed"]()[1], actorder=order))
        assert aotpack.load_checkpoint(net(), folder)[1].weight.shape == (ROWS, COLUMNS)


@pytest.mark.parametrize("where", ["input_activations", "output_activations"])
def test_quantised_activations_are_refused(where, tmp_path):
    tensors, config, _ = FORMATS["packed"]()
    config["config_groups"]["group_0"][where] = {"num_bits": 8, "dynamic": True}
    with pytest.raises(UsageError, match=rf"activations are quantised too.*group_0.{where}\)"):
        aotpack.load_checkpoint(net(), written(tmp_path, tensors, config))


def test_an_order_that_no_tensor_tells_is_refused(tmp_path):
    tensors, config, _ = gptq(4, 1)
    del tensors["g_idx"]
    with pytest.raises(UsageError, match="no g_idx says which"):
        aotpack.load_checkpoint(net(), written(tmp_path, tensors, config | {"desc_act": True}))
    aotpack.load_checkpoint(net(), written(tmp_path, tensors, config))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "config.json: it is no JSON"),
        (b"\xff", "config.json: it is no JSON"),
        (b"[" * 100_000, "config.json: it is no JSON"),
        (b"[]", "config.json: it is a list; an object is accepted"),
        (b"null", "config.json: it is null; an object is accepted"),
        (b"{}", "no quantization_config is in its config.json"),
        (b'{"quantization_config": []}', r"quantization_config is \[\] in its configuration"),
    ],
)
def test_other_texts_are_refused(text, message, tmp_path):
    written(tmp_path, gptq(4, 1)[0], {})
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(UsageError, match=message):
        aotpack.load_checkpoint(net(), tmp_path)


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("2.weight", torch.ones(4, 1), r"2.weight has floats of shape \[4, 1\]; .* \[4, 16\]"),
        ("2.bias", torch.ones(()), r"2.bias has floats of shape \[\]; the model has .* \[4\]"),
        (
            "2.bias",
            torch.ones(4).int(),
            r"2.bias has whole numbers of shape \[4\]; the model has",
        ),
        ("2.bias", torch.ones(4).to(torch.float8_e4m3fn), "2.bias has 8-bit floats of shape"),
        ("1.bias", torch.ones(1), r"1.bias has floats of shape \[1\]; the model has floats of sh"),
        (
            "3.count",
            torch.ones(1).long(),
            r"3.count has whole numbers of shape \[1\]; .* \[\]",
        ),
        (
            "3.count",
            torch.tensor(1.0),
            "3.count has floats of shape .*; the model has whole",
        ),
    ],
)
def test_other_weights_have_the_models_shapes_and_kinds(name, tensor, message, tmp_path):
    tensors, config, _ = gptq(4, 1)
    file = written(tmp_path, tensors, config) / "m.safetensors"
    model = net().append(nn.Module())
    model[3].register_buffer("count", torch.tensor(0))
    rest = load_file(file) | {"3.count": torch.tensor(7)}
    save_file(rest | {name: tensor}, file)
    with pytest.raises(UsageError, match=message):
        aotpack.load_checkpoint(model, tmp_path)
    assert "1.weight" in model.state_dict()  # and nothing is changed
    narrow = {"2.bias": torch.ones(4, dtype=torch.float16), "3.count": torch.tensor(7).short()}
    save_file(rest | narrow, file)
    aotpack.load_checkpoint(model, tmp_path)
    assert model[2].bias.dtype == torch.float32
    assert model[3].count == 7


def test_a_bias_that_a_layer_lacks_is_refused(tmp_path):
    tensors, config, _ = gptq(4, 1)
    model = net()
    model[1] = nn.Linear(COLUMNS, ROWS, bias=False)
    with pytest.raises(UsageError, match="it has 1.bias, which the model has not"):
        aotpack.load_checkpoint(model, written(tmp_path, tensors, config))


def test_other_arguments_are_refused(tmp_path):
    folder = written(tmp_path, *gptq(4, 1)[:2])
    with pytest.raises(UsageError, match="path is an int; the path of a folder, or of a safetens"):
        aotpack.load_checkpoint(net(), 5)
    with pytest.raises(UsageError, match="the model is a dict; an nn.Module is accepted"):
        aotpack.load_checkpoint({}, folder)
    aotpack.load_checkpoint(net(), str(folder))


def test_a_tensor_in_two_files_is_refused(tmp_path):
    tensors, config, _ = gptq(4, 1)
    written(tmp_path, tensors, config)
    save_file({"2.bias": torch.ones(4)}, tmp_path / "n.safetensors")
    with pytest.raises(UsageError, match="n.safetensors: 2.bias is in a file before it too"):
        aotpack.load_checkpoint(net(), tmp_path)
