"""8-bit floats: every code, and the rounding of numbers that decide it."""

import numpy as np
import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.ops import float8
from aotpack.ir.ops.fold import fold
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Const, Load
from aotpack.runtime.dtypes import DTYPES, widen
from tests.ir.float8_samples import CODES, NUMBERS, same_numbers

FORMATS = tuple(float8.FORMATS)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_reference_is_torchs(dtype: DType) -> None:
    torchs, form = getattr(torch, str(dtype)), float8.FORMATS[dtype]
    wanted = torch.from_numpy(CODES).view(torchs).float().numpy()
    assert same_numbers(float8.decode(CODES, form), wanted)
    assert same_numbers(widen(CODES, DTYPES[str(dtype)]), wanted)
    codes = torch.from_numpy(NUMBERS).to(torchs).view(torch.uint8).numpy()
    wrong = np.flatnonzero(float8.encode(NUMBERS, form) != codes)
    assert [(NUMBERS[k], codes[k]) for k in wrong[:4]] == []


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
