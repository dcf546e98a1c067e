"""Many samples of one operator in one module, compiled and called, and a verdict on each.

Each sample is one call in the module, so that tracing, compiling and loading are paid once for
many; if the module cannot be built as a whole, each sample is tried alone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import aotpack
from aotpack import pipeline
from aotpack.errors import AotpackError, CompileError
from aotpack.target import CPU, INTERPRETER, Target
from tests.e2e.law import INEXACT
from tests.e2e.oracle import on_gpu
from tools.op_law import judged, redrawn
from tools.op_samples import (
    REASON_LENGTH,
    Sample,
    Task,
    Verdict,
    database,
    dense,
    first_line,
    prepare,
    sample_inputs,
)

LARGEST_GROUP = 16
_OWN_LINE = re.compile(r"\s+\(op_(samples|verdicts)\.py:.*")


class Calls(nn.Module):
    """Calls the operator on each sample, with tensors from the list at the same place.

    One more list has an unused tensor: results are then torch's even of calls without tensors.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        super().__init__()
        self.samples = list(samples)

    def forward(self, given: list[list[torch.Tensor]]) -> list[Any]:
        return [sample.call(given[place]) for place, sample in enumerate(self.samples)]


def _example(samples: Sequence[Sample]) -> tuple[list[list[torch.Tensor]]]:
    return ([*(sample.tensors for sample in samples), [torch.zeros(1)]],)


def load_everything() -> None:
    """Import the modules of a build, so that forked processes have them."""
    database()
    source = pipeline.Source(nn.ReLU(), (torch.ones(2, 3),))
    with _quiet():
        _ = pipeline.Build(source, pipeline.BuildOptions((CPU, INTERPRETER))).rendered


def _compiled(module: nn.Module, example: Any, target: str) -> Callable[..., Any]:
    """The model on a target; a GPU's arguments and results are copied there and back."""
    model = aotpack.compile(module, example, target=target)
    if target != "native":
        return model

    def carried(*args: Any) -> Any:
        found = model(*on_gpu(args))
        return pytree.tree_map(lambda x: x.cpu() if isinstance(x, torch.Tensor) else x, found)

    return carried


def examine(
    task: Task, numbers: Sequence[int], target: str, tell: Callable[[Sequence[int]], None]
) -> Iterator[Verdict]:
    """A verdict for each numbered sample; ``tell`` is called before each attempt."""
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
    """All in one module; when that fails, the samples that can be rendered, and then each alone."""
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
    """The reason why the sample alone cannot be rendered; else None."""
    tell([sample.number])
    source = pipeline.Source(Calls([sample]), _example([sample]))
    try:
        with _quiet():
            _ = pipeline.Build(source, pipeline.BuildOptions((Target.parse(target),))).rendered
    except Exception as error:
        return _failure(sample, error)
    return None


def _verdicts(
    samples: list[Sample], target: str, tell: Callable[[Sequence[int]], None]
) -> list[Verdict] | None:
    """The verdicts from compiling and calling all samples together; None if several fail."""
    if not samples:
        return []
    tell([sample.number for sample in samples])
    example = _example(samples)
    try:
        with _quiet():
            model = _compiled(Calls(samples), example, target)
            found = model(*pytree.tree_map(dense, example))
    except Exception as error:
        return [_failure(samples[0], error)] if len(samples) == 1 else None
    verdicts = []
    for place, (sample, result) in enumerate(zip(samples, found, strict=True)):
        verdict = judged(sample, result)
        if verdict.words.startswith(INEXACT):
            verdict = redrawn(model, example[0], place, sample, verdict)
        verdicts.append(verdict)
    return verdicts


def _failure(sample: Sample, error: Exception) -> Verdict:
    if isinstance(error, AotpackError) and not isinstance(error, CompileError):
        return Verdict(sample.number, "refused", _reason(error))
    return Verdict(sample.number, "crash", f"{type(error).__name__}: {first_line(error)}")


def _reason(error: AotpackError) -> str:
    """The first line of the message, or of the list that it announces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    first = lines[1] if len(lines) > 1 and lines[0].endswith(":") else lines[0]
    return _OWN_LINE.sub("", first)[:REASON_LENGTH]


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
