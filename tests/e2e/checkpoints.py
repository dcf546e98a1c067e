"""Quantised checkpoints of others, written from the formats' documentation."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

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
    scales = {"strategy": "group", "group_size": GROUP}
    group: dict[str, Any] = {"weights": {"num_bits": bits, "type": kind, **scales, **more}}
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
    config = compressed(f"{kind}-quantized", 8, kind, strategy="channel", group_size=None)
    return tensors, config, codes.float() * scales


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


def padded(folder: Path, bits: int, columns: int, groups: int) -> torch.Tensor:
    """Write one layer whose rows need not fill words; return what its weight stands for."""
    rows, top, count = 37, 1 << bits, 32 // bits
    codes, zeros = torch.randint(top, (rows, columns)), torch.randint(top, (rows, groups))
    scales = torch.rand(rows, groups) / top
    tensors = {
        "0.weight_packed": words(nn.functional.pad(codes, (0, -columns % count)), bits, 1),
        "0.weight_zero_point": words(nn.functional.pad(zeros, (0, 0, 0, -rows % count)), bits, 0),
        "0.weight_scale": scales,
        "0.weight_shape": torch.tensor([rows, columns]),
    }
    save_file(tensors, folder / "m.safetensors")
    how = compressed("pack-quantized", bits, group_size=columns // groups)
    (folder / "config.json").write_text(json.dumps({"quantization_config": how}))
    of_groups = [one.repeat_interleave(columns // groups, 1) for one in (zeros, scales)]
    return (codes - of_groups[0]) * of_groups[1]
