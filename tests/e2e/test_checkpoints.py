"""Quantised checkpoints of others: their codes are read, and give what float weights would give.

Files are written here from the formats' documentation.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import aotpack
from aotpack.cli import main
from aotpack.errors import UsageError
from aotpack.options import BuildOptions, Source
from aotpack.pipeline import build_of
from aotpack.target import parse_targets

ROWS, COLUMNS, GROUP = 16, 32, 8
GROUPS = COLUMNS // GROUP
AWQ = (0, 2, 4, 6, 1, 3, 5, 7)


def words(codes: torch.Tensor, bits: int, dim: int) -> torch.Tensor:
    """Codes along ``dim`` in words of 32 bits, the first in the lowest bits."""
    count = 32 // bits
    parts = codes.movedim(dim, -1).long().unflatten(-1, (-1, count))
    made = sum(parts[..., n] << bits * n for n in range(count))
    return made.to(torch.int32).movedim(-1, dim).contiguous()


def awq_words(codes: torch.Tensor) -> torch.Tensor:
    """The bits from 4 n on have the column AWQ[n]."""
    return words(codes.unflatten(1, (-1, 8))[:, :, list(AWQ)].flatten(1), 4, 1)


def grouped(values: torch.Tensor) -> torch.Tensor:
    """(rows, groups) -> (rows, columns)."""
    return values.repeat_interleave(COLUMNS // values.shape[1], 1)


def drawn(bits: int, *, centred: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, zero points and scales, with a row for each output."""
    top = 1 << bits
    zeros = torch.full((ROWS, GROUPS), top // 2) if centred else torch.randint(top, (ROWS, GROUPS))
    return torch.randint(top, (ROWS, COLUMNS)), zeros, torch.rand(ROWS, GROUPS) / top


def gptq(bits: int, offset: int, *, centred: bool = False) -> Any:
    codes, zeros, scales = drawn(bits, centred=centred)
    stored = zeros - offset & (1 << bits) - 1
    tensors = {
        "qweight": words(codes.T, bits, 0),
        "qzeros": words(stored.T, bits, 1),
        "scales": scales.T.contiguous(),
        "g_idx": (torch.arange(COLUMNS) // GROUP).to(torch.int32),
    }
    config = {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": False}
    config["checkpoint_format"] = "gptq" if offset else "gptq_v2"
    return tensors, config, (codes - grouped(zeros)) * grouped(scales)


def awq() -> Any:
    codes, zeros, scales = drawn(4, centred=False)
    tensors = {
        "qweight": awq_words(codes.T),
        "qzeros": awq_words(zeros.T),
        "scales": scales.T.contiguous(),
    }
    config = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm"}
    return tensors, config, (codes - grouped(zeros)) * grouped(scales)


def compressed(written: str, bits: int, kind: str = "int", **more: Any) -> dict[str, Any]:
    group = {"weights": {"num_bits": bits, "type": kind, "strategy": "group", **more}}
    group["input_activations"] = more.get("activations")
    return {
        "quant_method": "compressed-tensors",
        "format": written,
        "config_groups": {"group_0": group},
    }


def packed(bits: int, *, centred: bool) -> Any:
    codes, zeros, scales = drawn(bits, centred=centred)
    tensors = {
        "weight_packed": words(codes, bits, 1),
        "weight_scale": scales,
        "weight_shape": torch.tensor([ROWS, COLUMNS]),
    }
    if not centred:
        tensors["weight_zero_point"] = words(zeros, bits, 0)
    config = compressed("pack-quantized", bits)
    return tensors, config, (codes - grouped(zeros)) * grouped(scales)


def plain(kind: str) -> Any:
    codes = torch.randint(-127, 128, (ROWS, COLUMNS)).to(torch.int8)
    if kind == "float":
        codes = codes.float().to(torch.float8_e4m3fn)
    scales = torch.rand(ROWS, 1)
    tensors = {"weight": codes, "weight_scale": scales}
    return tensors, compressed(f"{kind}-quantized", 8, kind), codes.float() * scales


def net(**options: Any) -> nn.Sequential:
    """A quantised layer between two that are not."""
    first, layer = nn.Embedding(8, COLUMNS, **options), nn.Linear(COLUMNS, ROWS, **options)
    last = nn.Linear(ROWS, 4, **options)
    return nn.Sequential(first, layer, last).eval()


def written(folder: Path, tensors: dict[str, torch.Tensor], config: Any) -> Path:
    """A checkpoint of ``net``, whose float parts are drawn."""
    others = {"0.weight": torch.randn(8, COLUMNS), "1.bias": torch.randn(ROWS)}
    others |= {"2.weight": torch.randn(4, ROWS), "2.bias": torch.randn(4)}
    save_file(
        others | {f"1.{name}": one for name, one in tensors.items()}, folder / "m.safetensors"
    )
    (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    return folder


def reference(folder: Path, weight: torch.Tensor) -> nn.Module:

    made, read = net(), load_file(folder / "m.safetensors")
    kept = {name: one for name, one in read.items() if name in made.state_dict()}
    made.load_state_dict(kept | {"1.weight": weight})
    return made


FORMATS = {
    "gptq": lambda: gptq(4, 1),
    "gptq of equal zero points": lambda: gptq(4, 1, centred=True),
    "gptq_v2": lambda: gptq(4, 0),
    "gptq of 8 bits": lambda: gptq(8, 1),
    "awq": awq,
    "packed": lambda: packed(4, centred=True),
    "packed with zero points": lambda: packed(4, centred=False),
    "packed of 8 bits": lambda: packed(8, centred=False),
    "int": lambda: plain("int"),
    "float": lambda: plain("float"),
}
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
    ],
)
def test_rows_of_odd_sizes_have_zero_points(bits, columns, groups, target, tmp_path):
    """Groups of any length, across the two halves of a row's bytes too."""
    torch.manual_seed(0)
    rows, top = 37, 1 << bits
    codes, zeros = torch.randint(top, (rows, columns)), torch.randint(top, (rows, groups))
    scales = torch.rand(rows, groups) / top
    tensors = {
        "0.weight_packed": words(nn.functional.pad(codes, (0, -columns % 8)), bits, 1),
        "0.weight_zero_point": words(nn.functional.pad(zeros, (0, 0, 0, -rows % 8)), bits, 0),
        "0.weight_scale": scales,
        "0.weight_shape": torch.tensor([rows, columns]),
    }
    save_file(tensors, tmp_path / "m.safetensors")
    config = {"quantization_config": compressed("pack-quantized", bits)}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = nn.Sequential(nn.Linear(columns, rows, bias=False, device="meta"))
    model, x = aotpack.load_checkpoint(model, tmp_path), torch.randn(3, columns)
    of_groups = [one.repeat_interleave(columns // groups, 1) for one in (zeros, scales)]
    wanted = x @ ((codes - of_groups[0]) * of_groups[1]).T
    packaged = aotpack.compile(model, (x,), target=target)
    torch.testing.assert_close(packaged(x), wanted, rtol=1e-4, atol=1e-4)


def test_no_weight_is_stored_wide(tmp_path):
    tensors, config, _ = gptq(4, 1)
    model = aotpack.load_checkpoint(net(), written(tmp_path, tensors, config))
    made = build_of(Source(model, (IDS,)), BuildOptions(targets=parse_targets("sm_90")))
    assert made.scheduled.on(90).program.weight_program is None


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
        (compressed("pack-quantized", 4, actorder="group"), "actorder group.*'weight' or none"),
        (compressed("pack-quantized", 4), "the tensors weight_packed"),
        (compressed("int-quantized", 8, activations={"num_bits": 8}), "its activations are quant"),
        (compressed("float-quantized", 8, "float", strategy="block"), "scales are for a block"),
        (compressed("marlin-24", 4), "marlin-24 with 4 bits of int"),
        (None, "no quantization_config is in its config.json"),
    ],
)
def test_other_checkpoints_are_refused_with_what_to_do(config, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        aotpack.load_checkpoint(net(), written(tmp_path, gptq(4, 1)[0], config))


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
    with pytest.raises(UsageError, match="1 has 16 rows of 32 codes and scales"):
        aotpack.load_checkpoint(nn.Sequential(net()[0], nn.Linear(8, 4), net()[2]), tmp_path)
    (tmp_path / "m.safetensors").write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="it is no safetensors file"):
        aotpack.load_checkpoint(net(), tmp_path)
