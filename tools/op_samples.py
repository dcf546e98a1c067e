"""PyTorch's operator database: the samples of its tests, and eager's answers."""

from __future__ import annotations

import math
import random
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mpmath
import numpy as np
import torch
from torch.utils import _pytree as pytree

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int64": torch.int64,
    "bool": torch.bool,
}
REASON_LENGTH = 300
EXACT: dict[str, Callable[[float], Any]] = {
    "special.bessel_j0": lambda x: mpmath.besselj(0, x),
    "special.bessel_j1": lambda x: mpmath.besselj(1, x),
    "special.bessel_y0": lambda x: _of_positive(mpmath.bessely, 0, x),
    "special.bessel_y1": lambda x: _of_positive(mpmath.bessely, 1, x),
}
"""Functions of which torch's float64 form is off by more than float32's last place."""

FREE = frozenset({"argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk"})
"""Operators whose positions are, as torch documents them, those of any of equal elements."""


@dataclass(frozen=True, slots=True)
class Task:
    """One operator, by its name in the database and its variant, with one element type."""

    op: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.op} {self.dtype}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a sample: "passed", "refused", "wrong", "crash", "hang" or "invalid".

    A sample that eager refuses, or without a tensor among its results, is invalid.
    """

    sample: int
    outcome: str
    words: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """A call by its tensors, in order, and everything else."""

    number: int
    op: Callable[..., Any]
    leaves: tuple[Any, ...]
    spec: Any
    eager: tuple[Any, ...]
    reference: tuple[Any, ...]
    exact: Callable[[float], Any] | None = (
        None  # for functions that torch computes wrong in float64
    )
    is_free: bool = False  # a position may name any of equal elements

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def call(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The operator on other tensors of the same types and shapes."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        input_, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(input_, *args, **kwargs)


# --- the database ------------------------------------------------------------------------------


@cache
def database() -> dict[str, Any]:
    """The operators by name; a variant is named behind a dot."""
    try:
        import expecttest  # noqa: F401
    except ImportError:  # torch's test code imports a class that no sample needs
        stub = types.ModuleType("expecttest")
        stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
        sys.modules["expecttest"] = stub
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {".".join(filter(None, (op.name, op.variant_test_name))): op for op in op_db}


def tasks() -> list[Task]:
    """Every operator with every one of our types that it supports."""
    return [
        Task(name, dtype)
        for name, op in database().items()
        for dtype, torch_dtype in DTYPES.items()
        if torch_dtype in op.supported_dtypes("cpu")
    ]


def sample_inputs(task: Task) -> list[Any]:
    """The samples of the database, the same ones each time."""
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    made = database()[task.op].sample_inputs("cpu", DTYPES[task.dtype], requires_grad=False)
    return list(made)


def chosen_numbers(count: int, limit: int) -> list[int]:
    """All sample numbers, or ``limit`` of them spread evenly."""
    if not limit or count <= limit:
        return list(range(count))
    return sorted({number * count // limit for number in range(limit)})


# --- eager -------------------------------------------------------------------------------------


def prepare(task: Task, number: int, raw: Any) -> Sample | Verdict:
    """The sample with eager's answer, or the reason why it is invalid."""
    op = database()[task.op].op
    leaves, spec = pytree.tree_flatten((raw.input, raw.args, raw.kwargs))
    if any(isinstance(leaf, torch.Tensor) and not _is_plain(leaf) for leaf in leaves):
        return Verdict(number, "invalid", "a tensor that is not dense")
    exact, is_free = EXACT.get(task.op), task.op in FREE
    bare = Sample(number, op, tuple(leaves), spec, (), (), exact, is_free)
    try:
        eager = pytree.tree_leaves(bare.call([x.clone() for x in bare.tensors]))
    except Exception as error:
        return Verdict(number, "invalid", f"eager: {first_line(error)}")
    if not any(isinstance(leaf, torch.Tensor) for leaf in eager):
        return Verdict(number, "invalid", "no tensor among the results")
    return replace(bare, eager=tuple(eager), reference=reference_of(bare, eager))


def _of_positive(function: Callable[[int, float], Any], order: int, x: float) -> Any:
    """Infinite at 0 and NaN below, as the functions of the second kind are."""
    return function(order, x) if x > 0 else -math.inf if x == 0 else math.nan


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested and type(tensor) is torch.Tensor


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor in the form that packages take."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def reference_of(sample: Sample, eager: list[Any]) -> tuple[Any, ...]:
    """The results in float64 where the operator has that, else eager's."""
    if sample.exact is not None:
        (x,) = sample.tensors
        numbers = [float(sample.exact(number)) for number in x.double().flatten().tolist()]
        return (torch.tensor(numbers, dtype=torch.float64).reshape(x.shape),)
    wide = [_widened(leaf) for leaf in sample.leaves]
    if any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in eager):
        wide[0] = _widened(wide[0], integers=True)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        bare = replace(sample, leaves=tuple(wide))
        results = pytree.tree_leaves(bare.call([x.clone() for x in bare.tensors]))
    except Exception:
        return tuple(eager)
    finally:
        torch.set_default_dtype(before)
    alike = len(results) == len(eager) and all(
        getattr(a, "shape", None) == getattr(b, "shape", None)
        for a, b in zip(results, eager, strict=True)
    )
    return tuple(results if alike else eager)


def _widened(leaf: Any, *, integers: bool = False) -> Any:
    """A float tensor or type as float64; with ``integers``, those too, as torch uses float32."""
    if isinstance(leaf, torch.Tensor):
        is_integer = integers and leaf.dtype in (torch.int64, torch.int32)
        return leaf.double() if leaf.is_floating_point() or is_integer else leaf
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
        return torch.float64
    return leaf


def first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:REASON_LENGTH]
