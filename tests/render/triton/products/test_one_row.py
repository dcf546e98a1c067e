"""Products of one row in the matrix unit: which have that form, and what it is."""

import copy
import re
from dataclasses import replace
from functools import cache, lru_cache

import pytest
import torch
from torch import nn

from aotpack.devices import H200
from aotpack.ir.ops.quantization import read_quantization
from aotpack.precompile.request import Request
from aotpack.precompile.worker import compile_request
from aotpack.schedule.tiles import one_row
from aotpack.stages import KernelSource
from aotpack.target import Target
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.quantize.layers import quantize
from tests.render.models import rendered
from tests.render.triton.products.gluon_on_host import run

BF16, HOPPER = torch.bfloat16, Target("cuda", 90)


def coded(kind: str, depth: int, dtype: torch.dtype = BF16, width: int = 24) -> nn.Module:
    model = copy.deepcopy(_coded(kind, depth, dtype, width))
    torch.manual_seed(1)  # the numbers of a test do not depend on what is kept
    return model


@lru_cache(4)
def _coded(kind: str, depth: int, dtype: torch.dtype, width: int) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(depth, width)).to(dtype)
    calls = {"": (model, ((torch.zeros(1, depth, dtype=dtype),), {}))}
    quantize(calls, read_quantization(kind), "a test", HostCopies())
    return model


def kernel(
    kind: str,
    depth: int = 2048,
    rows: int = 1,
    dtype: torch.dtype = BF16,
    width: int = 24,
) -> KernelSource:
    return _kernel(kind, depth, rows, dtype, width, one_row.MULTIPROCESSORS)


@cache
def _kernel(
    kind: str, depth: int, rows: int, dtype: torch.dtype, width: int, _multiprocessors: int
) -> KernelSource:
    model = coded(kind, depth, dtype, width)
    found = rendered(model, torch.zeros(rows, depth, dtype=dtype)).kernels
    return next(one for one in found if one.is_for(90))


def answer(
    source: KernelSource, model: nn.Module, x: torch.Tensor, programs: int = 0
) -> torch.Tensor:
    """What the text computes, with a program for each tile or so many."""
    out = torch.zeros(1, model[0].out_features, dtype=x.dtype)  # type: ignore[index]
    tensors = {"input_ptr": x, "out_ptr": out}
    for name, one in model.state_dict().items():
        is_float8 = one.dtype is torch.float8_e4m3fn
        tensors[f"{name.rpartition('.')[2]}_ptr"] = one.view(torch.uint8) if is_float8 else one
    (columns,) = map(
        int, re.findall(r"n_start = tl.program_id\(0\) \* (\d+)", source.gluon_text)[:1]
    )
    args = [tensors[one.name] for one in source.args]
    run(source.gluon_text, source.name, programs or out.numel() // columns, args)
    return out


KINDS = [
    ("int8", 6144, BF16, 24),
    ("int8", 2048, torch.float16, 2048),
    ("int8", 2048, BF16, 8192),
    ("int8:group=64", 2048, BF16, 24),
    ("fp8", 4096, BF16, 24),
    ("fp8", 2048, BF16, 2048),
    ("int4", 8192, BF16, 24),
    ("int4", 2048, BF16, 4096),
    ("int4:group=64", 2048, BF16, 24),
    ("int4:group=64", 4096, BF16, 8192),
]


@pytest.mark.parametrize(("kind", "depth", "dtype", "width"), KINDS)
def test_its_text_computes_the_product(
    kind: str, depth: int, dtype: torch.dtype, width: int
) -> None:
    source, model = kernel(kind, depth, 1, dtype, width), coded(kind, depth, dtype, width)
    x = torch.randn(1, depth).to(dtype)
    found = answer(source, model, x)
    torch.testing.assert_close(found.float(), model.float()(x.float()), rtol=1e-2, atol=1e-2)


def test_codes_that_registers_do_not_hold_come_through_shared_memory() -> None:
    """Of 256 tiles of 64 KiB registers hold those of 396 programs, but no more of others."""
    assert kernel("int8", width=8192).gluon_text.count("async_load(") == 3
    assert "async_load(" not in kernel("int8", width=4096).gluon_text


@pytest.mark.parametrize("kind", ["int8", "fp8", "int4"])
def test_programs_without_a_tile_leave(kind: str) -> None:
    """Of 132 programs 128 have a tile of 8 columns."""
    source, model = kernel(kind, 8192, width=1024), coded(kind, 8192, width=1024)
    x = torch.randn(1, 8192).to(BF16)
    found = answer(source, model, x, H200.multiprocessors)
    torch.testing.assert_close(found.float(), model.float()(x.float()), rtol=1e-2, atol=1e-2)
    idle = "    if tl.program_id(0) * 8 >= 1024:\n"
    assert idle in source.text and idle in source.gluon_text
    assert " >= " not in kernel(kind, 8192, width=1056).gluon_text


@pytest.mark.parametrize("kind", ["int8", "fp8", "int4"])
def test_two_programs_of_a_long_row_do_not_meet(kind: str) -> None:
    binary = compile_request(Request.of(kernel(kind, 8192, width=2048), HOPPER))
    assert binary.spills == 0
    assert 2 * binary.shared > 164 * 1024


TURNS = [
    ("int8", 2048, BF16, 8192),
    ("fp8", 2048, BF16, 8192),
    ("int4", 4096, BF16, 8192),
    ("int8:group=128", 2048, BF16, 8192),
]


@pytest.fixture
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that runs 12 programs at once, for which 256 tiles are many."""
    monkeypatch.setattr(one_row, "MULTIPROCESSORS", 4)


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize(("kind", "depth", "dtype", "width"), TURNS)
@pytest.mark.parametrize("programs", [12, 11, 256])
def test_programs_that_go_through_tiles_compute_all(
    kind: str, depth: int, dtype: torch.dtype, width: int, programs: int
) -> None:
    source, model = kernel(kind, depth, 1, dtype, width), coded(kind, depth, dtype, width)
    assert "for tile in range(" in source.gluon_text and "for tile in range(" in source.text
    x = torch.randn(1, depth).to(dtype)
    found = answer(source, model, x, programs)
    torch.testing.assert_close(found.float(), model.float()(x.float()), rtol=1e-2, atol=1e-2)


@pytest.mark.usefixtures("few_programs")
@pytest.mark.parametrize(("kind", "depth", "dtype", "width"), TURNS)
def test_they_run_at_once(kind: str, depth: int, dtype: torch.dtype, width: int) -> None:
    request = Request.of(kernel(kind, depth, 1, dtype, width), HOPPER)
    binary = compile_request(request)
    request.check(binary)
    assert binary.spills == 0
    together = 2 if kind == "int4" else 3  # of 80 KiB each
    assert together * binary.registers * 128 <= H200.registers
    assert together * (binary.shared + 1024) <= H200.shared + 1024


@pytest.mark.parametrize("kind", ["int8", "fp8"])
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_a_row_of_any_size_is_multiplied(kind: str, scale: float) -> None:
    source, model = kernel(kind), coded(kind, 2048)
    x = (torch.randn(1, 2048) * scale).to(BF16)
    found = answer(source, model, x).float() / scale
    torch.testing.assert_close(found, model(x).float() / scale, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("kind", ["int8", "int8:group=64", "int4", "fp8"])
def test_parts_of_a_row_of_other_sizes_are_multiplied(kind: str) -> None:
    """Each warp has a unit of its own, also of nothing."""
    source, model = kernel(kind, 4096), coded(kind, 4096)
    x = torch.randn(1, 4096)
    x[:, 1024:2048] = 0
    x[:, 2048:3072] *= 1e-6
    x[:, 3072:] *= 1e6
    found = answer(source, model, x.to(BF16)).double()
    exact = model.double()(x.to(BF16).double()).detach()
    torch.testing.assert_close(found, exact, rtol=2**-8, atol=1e-4 * float(exact.abs().max()))


@pytest.mark.parametrize("kind", ["int8", "int4"])
def test_a_product_of_many_codes_requests_those_of_the_next(kind: str) -> None:
    """Each program its share, of memory that is there; the last one none."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2048, 8192), nn.Linear(8192, 2048)).to(BF16)
    x = torch.randn(1, 2048).to(BF16)
    quantize({"": (model, ((x,), {}))}, read_quantization(kind), "a test", HostCopies())
    first, last = (one for one in rendered(model, x).kernels if one.is_for(90))
    if kind == "int4":  # 8 MiB are many, and what comes first has them
        assert model.state_dict()["0.weight_codes"].numel() == 8 * 1024 * 1024
    assert "prefetch(weight_codes2_ptr + " in first.gluon_text
    assert "prefetch" not in last.gluon_text + first.text
    assert [one.name for one in first.args][-1] == "weight_codes2_ptr"
    held = model.state_dict()
    (name,) = (key for key in held if key.startswith("1.") and held[key].numel() > 2**22)
    hidden = torch.zeros(1, 8192, dtype=BF16)
    tensors = {"input_ptr": x, "out_ptr": hidden, "weight_codes2_ptr": held[name]}
    for key, value in held.items():
        if key.startswith("0."):
            tensors[f"{key[2:]}_ptr"] = value
    run(first.gluon_text, first.name, 4, [tensors[one.name] for one in first.args])


@pytest.mark.parametrize("kind", ["int8", "int4", "fp8"])
@pytest.mark.parametrize("special", [float("inf"), float("nan")])
def test_infinity_and_nan_are_not_lost(kind: str, special: float) -> None:
    source, model = kernel(kind), coded(kind, 2048)
    x = torch.randn(1, 2048).to(BF16)
    x[0, 77] = special
    assert not answer(source, model, x).isfinite().any()


@pytest.mark.parametrize(("kind", "depth", "dtype", "width"), KINDS)
def test_it_compiles_without_an_exchange_of_codes_between_threads(
    kind: str, depth: int, dtype: torch.dtype, width: int
) -> None:
    """The compiler refuses a conversion that is one."""
    request = Request.of(kernel(kind, depth, 1, dtype, width), HOPPER)
    binary, plain = compile_request(request), compile_request(replace(request, gluon_text=""))
    request.check(binary)
    assert binary.spills == 0 and len(binary.code) < len(plain.code)


@pytest.mark.parametrize(
    ("kind", "depth", "rows", "dtype"),
    [
        ("int8", 2048, 2, BF16),
        ("int8", 2048, 1, torch.float32),
        ("int8", 3072, 1, BF16),
        ("int8", 2**15, 1, BF16),
        ("int4:group=16", 2048, 1, BF16),
    ],
)
def test_others_are_not(kind: str, depth: int, rows: int, dtype: torch.dtype) -> None:
    """Several rows, wider numbers, rows that warps do not share evenly, long ones, short groups."""
    assert "rows_of_weights" not in kernel(kind, depth, rows, dtype).gluon_text


def test_other_gpus_have_other_forms() -> None:
    x, targets = torch.zeros(1, 2048, dtype=BF16), (Target("cuda", 80), HOPPER)
    found = rendered(coded("int8", 2048), x, targets=targets).kernels
    older, newer = (next(one for one in found if one.is_for(arch)) for arch in (80, 90))
    assert "rows_of_weights" not in older.gluon_text and not older.is_for(90)
    assert "rows_of_weights" in newer.gluon_text and not newer.is_for(100)
