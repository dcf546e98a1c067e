"""8-bit floats: every code, and the rounding of numbers that decide it, in each language."""

import ctypes
import importlib.util
import platform
from pathlib import Path

import numpy as np
import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.ops import float8
from aotpack.ir.ops.fold import fold
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Const, Load
from aotpack.precompile.interpreter.device import HostKernel, interpretable, launch, pointer_type
from aotpack.render.c.texts import c_text
from aotpack.runtime.dtypes import DTYPES, widen
from tests.ir import c_forms

FORMATS = tuple(float8.FORMATS)
ARCH = "x86-64-v3" if platform.machine() == "x86_64" else "armv8-a"
CODES = np.arange(256, dtype=np.uint8)


def numbers() -> Array:
    """All halves and bfloat16s, the middles between codes, what is next to each, random bits."""
    halves = np.arange(65536, dtype=np.uint16)
    grid = np.concatenate([float8.values(form) for form in float8.FORMATS.values()])
    grid = np.sort(grid[np.isfinite(grid)].astype(np.float64))
    edges = np.concatenate([(grid[1:] + grid[:-1]) / 2, [464, 480, 61440, 65536, 248, 256]])
    edges = np.concatenate([edges, -edges]).astype(np.float32)
    beside = [np.nextafter(edges, np.float32(end)) for end in (-np.inf, np.inf)]
    bfloat16s = (halves.astype(np.uint32) << 16).view(np.float32)
    drawn = np.random.default_rng(0).integers(0, 2**32, 1 << 17, np.uint32).view(np.float32)
    found = [halves.view(np.float16).astype(np.float32), bfloat16s, edges, *beside, drawn]
    return np.concatenate(found)[: 1 << 18]  # a tile's length is a power of two


NUMBERS = numbers()


def same_numbers(found: Array, wanted: Array) -> bool:
    """True for equal numbers with equal signs, those of zeros too, and NaN in the same places."""
    known = ~np.isnan(wanted)
    signs = np.array_equal(np.signbit(found[known]), np.signbit(wanted[known]))
    return signs and np.array_equal(found, wanted, equal_nan=True)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_reference_is_torchs(dtype: DType) -> None:
    torchs, form = getattr(torch, str(dtype)), float8.FORMATS[dtype]
    wanted = torch.from_numpy(CODES).view(torchs).float().numpy()
    assert same_numbers(float8.decode(CODES, form), wanted)
    assert same_numbers(widen(CODES, DTYPES[str(dtype)]), wanted)
    codes = torch.from_numpy(NUMBERS).to(torchs).view(torch.uint8).numpy()
    wrong = np.flatnonzero(float8.encode(NUMBERS, form) != codes)
    assert [(NUMBERS[k], codes[k]) for k in wrong[:4]] == []


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    texts = []
    for dtype in FORMATS:
        encode = c_text(f"{dtype}_code", ["x[i]"], DType.FLOAT32, DType.UINT8)
        decode = c_text(f"of_{dtype}_code", ["x[i]"], DType.UINT8, DType.FLOAT32)
        for name, kind, result, text in (
            ("encode", "float", "uint8_t", encode),
            ("decode", "uint8_t", "float", decode),
        ):
            head = f"AOT_EXPORT void {name}_{dtype}(const {kind} *x, {result} *y, int64_t count)"
            texts.append(f"{head} {{ for (int64_t i = 0; i < count; i++) y[i] = {text}; }}")
    return c_forms.library(tmp_path_factory.mktemp("float8"), tuple(texts), ARCH)


def in_c(library: ctypes.CDLL, name: str, given: Array, result: Array) -> Array:
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (given, result)]
    getattr(library, name)(*pointers, ctypes.c_int64(len(given)))
    return result


@pytest.mark.row("C:D6", "C:D7")
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_c_text_is_the_reference(dtype: DType, library: ctypes.CDLL) -> None:
    form = float8.FORMATS[dtype]
    found = in_c(library, f"decode_{dtype}", CODES, np.empty(256, np.float32))
    assert same_numbers(found, float8.decode(CODES, form))
    found = in_c(library, f"encode_{dtype}", NUMBERS, np.empty(len(NUMBERS), np.uint8))
    np.testing.assert_array_equal(found, float8.encode(NUMBERS, form))


def kernel_text(op: str, operand: DType, result: DType, count: int) -> str:
    """One program over ``count`` elements."""
    text = OPS[op].triton(["x"], operand, result)
    lines = [f"i = tl.arange(0, {count})", "x = tl.load(x_ptr + i)", f"tl.store(y_ptr + i, {text})"]
    head = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x_ptr, y_ptr):\n"
    return head + "".join(f"    {line}\n" for line in lines)


def in_triton(op: str, given: Array, result: Array) -> Array:
    """A form of the op table by Triton's interpreter."""
    operand, kind = DType(given.dtype.name), DType(result.dtype.name)
    function = interpretable("k", kernel_text(op, operand, kind, len(given)))
    host = HostKernel("k", function, (pointer_type(str(operand)), pointer_type(str(kind))))
    launch(host, (1, 1, 1), [given.ctypes.data, result.ctypes.data])
    return result


@pytest.mark.row("C:D6", "C:D7")
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_triton_text_is_the_reference(dtype: DType) -> None:
    form = float8.FORMATS[dtype]
    found = in_triton(f"of_{dtype}_code", CODES, np.empty(256, np.float32))
    assert same_numbers(found, float8.decode(CODES, form))
    found = in_triton(f"{dtype}_code", NUMBERS, np.empty(len(NUMBERS), np.uint8))
    np.testing.assert_array_equal(found, float8.encode(NUMBERS, form))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_triton_text_is_the_reference_on_gpu(dtype: DType, tmp_path: Path) -> None:
    form = float8.FORMATS[dtype]
    found = on_gpu(f"of_{dtype}_code", CODES, np.empty(256, np.float32), tmp_path)
    assert same_numbers(found, float8.decode(CODES, form))
    part = 1 << 14  # a tile's elements are bounded
    for start in range(0, len(NUMBERS), part):
        given = NUMBERS[start : start + part]
        found = on_gpu(f"{dtype}_code", given, np.empty(part, np.uint8), tmp_path)
        np.testing.assert_array_equal(found, float8.encode(given, form))


def on_gpu(op: str, given: Array, result: Array, folder: Path) -> Array:
    """The same by a GPU."""
    operand, kind = DType(given.dtype.name), DType(result.dtype.name)
    path = folder / f"{op}.py"
    path.write_text(kernel_text(op, operand, kind, len(given)))
    spec = importlib.util.spec_from_file_location(op, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, y = torch.from_numpy(given).cuda(), torch.from_numpy(result).cuda()
    module.k[(1,)](x, y)
    return y.cpu().numpy()


def test_only_the_code_of_the_same_format_is_undone() -> None:
    code = Load("codes", (Int.of(0),), DType.UINT8)
    names = [str(dtype) for dtype in FORMATS[:2]]
    number = {name: Apply(f"of_{name}_code", (code,), DType.FLOAT32) for name in names}
    half = Const(0.5, DType.FLOAT32)
    chosen = Apply("where", (Const(True, DType.BOOL), number[names[0]], half), DType.FLOAT32)
    assert fold(Apply(f"{names[0]}_code", (number[names[0]],), DType.UINT8)) is code
    assert fold(Apply(f"{names[0]}_code", (chosen,), DType.UINT8)) is code
    other = Apply(f"{names[0]}_code", (number[names[1]],), DType.UINT8)
    assert fold(other) is other
