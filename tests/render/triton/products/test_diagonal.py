"""Products of one row and codes in the matrix unit: which have that form, and what it is."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from aotpack.ir.ops.quantization import read_quantization
from aotpack.precompile.request import Request
from aotpack.precompile.worker import compile_request
from aotpack.stages import KernelSource
from aotpack.target import Target
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.quantize.layers import quantize
from tests.render.models import rendered
from tests.render.triton.products.gluon_on_host import run

BF16, HOPPER = torch.bfloat16, Target("cuda", 90)


def coded(kind: str, depth: int, dtype: torch.dtype = BF16) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(depth, 64)).to(dtype)
    calls = {"": (model, ((torch.zeros(1, depth, dtype=dtype),), {}))}
    quantize(calls, read_quantization(kind), "a test", HostCopies())
    return model


def kernel(kind: str, depth: int = 2048, rows: int = 1, dtype: torch.dtype = BF16) -> KernelSource:
    model = coded(kind, depth, dtype)
    found = rendered(model, torch.zeros(rows, depth, dtype=dtype)).kernels
    return next(one for one in found if one.is_for(90) and "kernel_few_rows" in one.text)


@pytest.mark.parametrize(
    ("kind", "depth", "steps"), [("int8", 1000, 2), ("fp8", 1000, 2), ("int4", 1408, 4)]
)
def test_codes_of_one_row_are_multiplied_in_the_matrix_unit(kind, depth, steps) -> None:
    """Without an exchange between threads: the compiler refuses a conversion that is one."""
    source = kernel(kind, depth)
    assert source.gluon_text.count("mma_v2(right") == steps
    assert ("nothing) * " in source.gluon_text) is (kind == "int4")
    request = Request.of(source, HOPPER)
    binary, plain = compile_request(request), compile_request(replace(request, gluon_text=""))
    request.check(binary)
    assert binary.spills == 0 and len(binary.code) < len(plain.code)


@pytest.mark.parametrize(
    ("kind", "depth"), [("int8", 3072), ("int8", 1000), ("int8:group=64", 1024), ("int4", 1408)]
)
def test_its_text_computes_the_product(kind, depth) -> None:
    source, model = kernel(kind, depth), coded(kind, depth)
    x, out = torch.randn(1, depth).to(BF16), torch.zeros(1, 64, dtype=BF16)
    tensors = {"input_ptr": x, "out_ptr": out}
    for name, one in model.state_dict().items():
        tensors[f"{name.rpartition('.')[2]}_ptr"] = one
    args = [tensors[one.name] for one in source.args]
    (columns,) = map(int, re.findall(r"n_start = tl.program_id\(0\) \* (\d+)", source.gluon_text))
    run(source.gluon_text, source.name, 64 // columns, args)
    codes = model.to(torch.float32)
    torch.testing.assert_close(out.float(), codes(x.float()), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("kind", "depth", "rows", "dtype"),
    [
        ("int8", 2048, 2, BF16),
        ("int8", 2048, 1, torch.float32),
        ("int8", 1000, 1, torch.float16),
        ("int8", 400, 1, BF16),
        ("int4:group=16", 2048, 1, BF16),
    ],
)
def test_others_are_not(kind, depth, rows, dtype) -> None:
    """Several rows, other types, short rows, and groups that end within the part of a row."""
    assert kernel(kind, depth, rows, dtype).gluon_text == ""


def test_older_gpus_take_the_plain_text() -> None:
    source = replace(kernel("int8", 1000), arches=((80, 90),))
    assert Request.of(source, Target("cuda", 80)).gluon_text == ""
    assert Request.of(source, HOPPER).gluon_text != ""
