"""A step of one row moves the codes of its weights once, and little else: bytes are counted."""

import pytest
import torch
from torch import nn

import aotpack
from aotpack.ir.ops.quantization import read_quantization
from aotpack.options import BuildOptions, Source
from aotpack.pipeline import build_of
from aotpack.stages import Scheduled
from aotpack.target import parse_targets
from tools.bench_traffic import moved_bytes

from . import checkpoints

ROWS, COLUMNS = 1024, 2048
BITS = {"int8": 8, "int4": 4, "fp8": 8, "int8:group=64": 8, "int4:group=32": 4, "fp8:group=128": 8}


def scheduled(module: nn.Module, quantize: str | None = None) -> Scheduled:
    """For one row in bfloat16."""
    x = torch.randn(1, COLUMNS, dtype=torch.bfloat16)
    how = BuildOptions(targets=parse_targets("sm_90"), quantize=read_quantization(quantize))
    return build_of(Source(module.eval(), (x,)), how).scheduled


def check(made: Scheduled, bits: int) -> None:
    """At most 1.05 of what is stored, which is the codes and, at most, a scale for each 32."""
    stored = sum(weight.data.nbytes for weight in made.weights)
    codes = max(weight.data.nbytes for weight in made.weights)
    assert codes * 8 == ROWS * COLUMNS * bits and stored < 1.14 * codes
    assert moved_bytes(made.on(90), 90) <= 1.05 * stored


@pytest.mark.parametrize("quantize", BITS)
def test_codes_of_a_build(quantize):
    torch.manual_seed(0)
    layer = nn.Linear(COLUMNS, ROWS, dtype=torch.bfloat16)
    check(scheduled(layer, quantize), BITS[quantize])


@pytest.mark.parametrize("name", checkpoints.FORMATS)
def test_codes_of_checkpoints(name, tmp_path, monkeypatch):
    torch.manual_seed(0)
    sizes = {"ROWS": ROWS, "COLUMNS": COLUMNS, "GROUP": 128, "GROUPS": COLUMNS // 128}
    for key, size in sizes.items():
        monkeypatch.setattr(checkpoints, key, size)
    tensors, config, _ = checkpoints.FORMATS[name]()
    folder = checkpoints.written(tmp_path, tensors, config)
    net = checkpoints.net(device="meta", dtype=torch.bfloat16)
    layer = aotpack.load_checkpoint(net, folder)[1]
    is_wide = "8 bits" in name or name in ("int", "float")
    check(scheduled(layer), 8 if is_wide else 4)


def test_a_wide_weight_is_counted():
    """What the counts would be, were codes widened in memory."""
    layer = nn.Linear(COLUMNS, ROWS, dtype=torch.bfloat16)
    made = scheduled(layer)
    assert moved_bytes(made.on(90), 90) > 1.9 * ROWS * COLUMNS
    with pytest.raises(AssertionError):
        check(made, 8)
