"""Cheaper forms on every number of their 16-bit types: the accuracy law (C:E, DESIGN 6)."""

import math

import numpy as np
import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from aotpack.render.triton.operators import triton_text


class _Language:
    """The part of ``triton.language`` that the texts use, on arrays."""

    abs, exp2, where = np.abs, np.exp2, np.where


def every_number(dtype: torch.dtype) -> torch.Tensor:
    numbers = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(dtype)
    return numbers[torch.isfinite(numbers)]


def computed(op: str, x: Array, ends_in: DType) -> Array:
    text = triton_text(op, ("x",), DType.FLOAT32, DType.FLOAT32, ends_in)
    with np.errstate(all="ignore"):
        return np.asarray(eval(text, {"tl": _Language, "x": x.astype(np.float32)}))


@pytest.mark.parametrize("ends_in", [DType.BFLOAT16, DType.FLOAT16], ids=str)
@pytest.mark.parametrize("op", ["gelu", "gelu_tanh"])
def test_gelu_obeys_the_accuracy_law_everywhere(op: str, ends_in: DType) -> None:
    x = every_number(getattr(torch, str(ends_in)))
    exact = torch.from_numpy(OPS[op].compute([x.double().numpy()], np.dtype(np.float64)))
    ours = torch.from_numpy(computed(op, x.float().numpy(), ends_in)).to(x.dtype)
    eager = torch.nn.functional.gelu(x, approximate="tanh" if op == "gelu_tanh" else "none")
    info = torch.finfo(x.dtype)
    unit = exact.abs().clamp(min=info.tiny).log2().floor().exp2() * info.eps
    allowed = 1.5 * (eager.double() - exact).abs() + unit
    wrong = (ours.double() - exact).abs() > allowed
    assert x[wrong].tolist() == []


@pytest.mark.parametrize("ends_in", [DType.BFLOAT16, DType.FLOAT16], ids=str)
@pytest.mark.parametrize("op", ["gelu", "gelu_tanh"])
def test_gelu_of_what_is_not_finite(op: str, ends_in: DType) -> None:
    found = computed(op, np.array([math.inf, -math.inf, math.nan, 3e38, -3e38]), ends_in)
    assert found[0] == math.inf
    assert math.isnan(found[1])  # -inf * 0, as in eager
    assert math.isnan(found[2])
    assert found[3] == np.float32(3e38)
    assert found[4] == 0
