"""The Triton texts of 8-bit floats: every code, and the rounding of numbers that decide it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.ops import float8
from aotpack.ir.ops.reference import Array
from aotpack.precompile.interpreter.device import HostKernel, interpretable, launch, pointer_type
from aotpack.render.triton.operators import triton_text
from tests.ir.float8_samples import CODES, NUMBERS, same_numbers

FORMATS = tuple(float8.FORMATS)


def kernel_text(op: str, operand: DType, result: DType, count: int) -> str:
    """One program over ``count`` elements."""
    text = triton_text(op, ["x"], operand, result)
    lines = [f"i = tl.arange(0, {count})", "x = tl.load(x_ptr + i)", f"tl.store(y_ptr + i, {text})"]
    head = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef k(x_ptr, y_ptr):\n"
    return head + "".join(f"    {line}\n" for line in lines)


def in_triton(op: str, given: Array, result: Array) -> Array:
    """A form of an operator by Triton's interpreter."""
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


def test_comparison_notices_the_sign_of_zero() -> None:
    assert same_numbers(np.array([0.0, np.nan]), np.array([0.0, np.nan]))
    assert not same_numbers(np.array([-0.0]), np.array([0.0]))
