"""PyTorch's operator database as models: many samples of one operator in one module, and a verdict.

The samples are those PyTorch's own tests call an operator with. Each has a call of its own in the
module, so that tracing, compiling and loading are paid once for many; when the module as a whole
cannot be built, each sample is tried alone.
"""

from __future__ import annotations

import random
import re
import sys
import types
import unittest
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

import aotpack
from aotpack import pipeline
from aotpack.errors import AotpackError
from aotpack.target import Target
from tests.e2e.oracle import accuracy_complaint

DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int64": torch.int64,
    "bool": torch.bool,
}
LARGEST_GROUP = 16
REASON_LENGTH = 300
_OWN_LINE = re.compile(r"\s+\(op_samples\.py:.*")


@dataclass(frozen=True, slots=True)
class Task:
    """One operator, by its name in the database and its variant, with one element type."""

    op: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.op} {self.dtype}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a sample: "passed", "refused", "wrong", "crash", "hang" or "invalid".

    A sample that eager itself refuses, or that has no tensor among its results, is invalid.
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

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def call(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The operator on other tensors of the same types and shapes."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        input_, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return self.op(input_, *args, **kwargs)


class Calls(nn.Module):
    """Calls the operator on each sample, with tensors from the list at the same place.

    One more list has a tensor that nobody reads: results are torch's even of calls without tensors.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.samples = list(samples)

    def forward(self, given: list[list[torch.Tensor]]) -> list[Any]:
        return [sample.call(given[place]) for place, sample in enumerate(self.samples)]


def _example(samples: Sequence[Sample]) -> tuple[list[list[torch.Tensor]]]:
    return ([*(sample.tensors for sample in samples), [torch.zeros(1)]],)


# --- the database ------------------------------------------------------------------------------


@cache
def database() -> dict[str, Any]:
    """The operators by name; a variant is named behind a dot."""
    try:
        import expecttest  # noqa: F401
    except ImportError:  # torch's test code asks for a class of it that no sample needs
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


def load_everything(target: str) -> None:
    """Import what building a package needs, so that forked processes have it."""
    database()
    source = pipeline.Source(nn.ReLU(), (torch.ones(2, 3),))
    with _quiet():
        pipeline.to_rendered(source, (Target.parse(target),), pipeline.Between())


# --- eager -------------------------------------------------------------------------------------


def prepare(task: Task, number: int, raw: Any) -> Sample | Verdict:
    """The sample with what eager says, or why it cannot be one."""
    op = database()[task.op].op
    leaves, spec = pytree.tree_flatten((raw.input, raw.args, raw.kwargs))
    if any(isinstance(leaf, torch.Tensor) and not _is_plain(leaf) for leaf in leaves):
        return Verdict(number, "invalid", "a tensor that is not dense")
    bare = Sample(number, op, tuple(leaves), spec, (), ())
    try:
        eager = pytree.tree_leaves(bare.call([x.clone() for x in bare.tensors]))
    except Exception as error:
        return Verdict(number, "invalid", f"eager: {_first_line(error)}")
    if not any(isinstance(leaf, torch.Tensor) for leaf in eager):
        return Verdict(number, "invalid", "no tensor among the results")
    return Sample(number, op, bare.leaves, spec, tuple(eager), _reference(bare, eager))


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_nested and type(tensor) is torch.Tensor


def _reference(sample: Sample, eager: list[Any]) -> tuple[Any, ...]:
    """The results in float64 where the operator has that, else eager's."""
    wide = tuple(_widened(leaf) for leaf in sample.leaves)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        bare = Sample(sample.number, sample.op, wide, sample.spec, (), ())
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


def _widened(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
        return leaf.double()
    if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
        return torch.float64
    return leaf


# --- verdicts ----------------------------------------------------------------------------------


def examine(
    task: Task, numbers: Sequence[int], target: str, tell: Callable[[Sequence[int]], None]
) -> Iterator[Verdict]:
    """A verdict for each numbered sample; ``tell`` hears what is about to be tried."""
    raw = sample_inputs(task)
    samples = []
    for number in numbers:
        tell([number])
        made = prepare(task, number, raw[number])
        if isinstance(made, Verdict):
            yield made
        else:
            samples.append(made)
    for start in range(0, len(samples), LARGEST_GROUP):
        yield from _examine_group(samples[start : start + LARGEST_GROUP], target, tell)


def _examine_group(
    samples: list[Sample], target: str, tell: Callable[[Sequence[int]], None]
) -> Iterator[Verdict]:
    """All in one module; when that fails, those that can be rendered, and then each alone."""
    together = _verdicts(samples, target, tell)
    if together is None:
        fit = []
        for sample in samples:
            refusal = _refusal(sample, target, tell)
            if refusal is None:
                fit.append(sample)
            else:
                yield refusal
        together = _verdicts(fit, target, tell) if len(fit) < len(samples) else None
        if together is None:
            for sample in fit:
                yield from _verdicts([sample], target, tell) or ()
            return
    yield from together


def _refusal(sample: Sample, target: str, tell: Callable[[Sequence[int]], None]) -> Verdict | None:
    """Why the sample alone cannot be rendered, if so."""
    tell([sample.number])
    source = pipeline.Source(Calls([sample]), _example([sample]))
    try:
        with _quiet():
            pipeline.to_rendered(source, (Target.parse(target),), pipeline.Between())
    except Exception as error:
        return _failure(sample, error)
    return None


def _verdicts(
    samples: list[Sample], target: str, tell: Callable[[Sequence[int]], None]
) -> list[Verdict] | None:
    """What compiling and calling all samples together says; None if several together fail."""
    if not samples:
        return []
    tell([sample.number for sample in samples])
    example = _example(samples)
    try:
        with _quiet():
            model = aotpack.compile(Calls(samples), example, target=target)
            found = model(*pytree.tree_map(_plain, example))
    except Exception as error:
        return [_failure(samples[0], error)] if len(samples) == 1 else None
    return [_judged(sample, result) for sample, result in zip(samples, found, strict=True)]


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as a package takes it."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _failure(sample: Sample, error: Exception) -> Verdict:
    if isinstance(error, AotpackError):
        return Verdict(sample.number, "refused", _reason(error))
    return Verdict(sample.number, "crash", f"{type(error).__name__}: {_first_line(error)}")


def _judged(sample: Sample, result: Any) -> Verdict:
    ours = pytree.tree_leaves(result)
    if len(ours) != len(sample.eager):
        return Verdict(sample.number, "wrong", f"{len(ours)} results, not {len(sample.eager)}")
    for mine, eager, reference in zip(ours, sample.eager, sample.reference, strict=True):
        complaint = _complaint(mine, eager, reference)
        if complaint:
            return Verdict(sample.number, "wrong", complaint)
    return Verdict(sample.number, "passed")


def _complaint(mine: Any, eager: Any, reference: Any) -> str | None:
    """How a result breaks the accuracy law."""
    if not isinstance(eager, torch.Tensor):
        return None if mine == eager else f"{mine!r}, not {eager!r}"
    if not isinstance(mine, torch.Tensor) or mine.dtype is not eager.dtype:
        return f"a {getattr(mine, 'dtype', type(mine).__name__)}, not {eager.dtype}"
    if mine.shape == eager.shape and torch.equal(mine, eager):
        return None
    return accuracy_complaint(mine, eager, reference)


def _reason(error: AotpackError) -> str:
    """The first line of the message, or where that announces a list, the list's first entry."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[1] if len(lines) > 1 and lines[0].endswith(":") else lines[0]
    return _OWN_LINE.sub("", first)[:REASON_LENGTH]


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:REASON_LENGTH]


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
