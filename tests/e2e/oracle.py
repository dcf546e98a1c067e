"""The oracles: eager with a float64 bound, the evaluator, Triton's interpreter, C kernels.

A model is traced once. Its lowered and its scheduled program are evaluated, its rendered kernels
run through the same runtime as a wheel's, and each answer must obey the accuracy law.
"""

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from aotpack import pipeline
from aotpack.emit import write_package
from aotpack.ir.dtypes import DType
from aotpack.ir.evaluate import evaluate
from aotpack.ir.integers import Var
from aotpack.ir.nodes import Program
from aotpack.ir.verify import verify
from aotpack.pipeline import Between, Source
from aotpack.precompile.interpreter import InterpreterDevice
from aotpack.runtime import Model, load
from aotpack.stages import Lowered, Precompiled, Scheduled, Signature, Weight
from aotpack.target import CPU, INTERPRETER, Target

Arrays = Mapping[str, np.ndarray]
TARGETS = (INTERPRETER, CPU)
FLOAT64_FACTOR = 16  # there is no wider reference: float64 answers may differ in a few last places
EVALUATOR_SLACK = 8  # the evaluator is about meaning: it sums in an order of its own


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The accuracy law is ``Tolerance()``. ``floor`` is the least scale: sums may cancel.

    ``unit`` is the least relative error of a number: what ends wide may have been narrow before.
    """

    factor: float = 1
    floor: float = 0
    unit: float = 0


class WrongAnswer(AssertionError):
    """An oracle disagrees with eager beyond the accuracy law."""


@dataclass(slots=True)
class Keep(Between):
    """Keeps each stage's product."""

    products: dict[str, Any] = field(default_factory=dict)

    def __call__(self, stage: str, make: Callable[[], Any]) -> Any:
        product = self.products[stage] = Between.__call__(self, stage, make)
        return product


@dataclass(frozen=True, slots=True)
class Compiled:
    """A model in all its forms."""

    module: nn.Module
    lowered: Lowered
    scheduled: Scheduled
    precompiled: Precompiled
    models: Mapping[str, Model]  # by target


def compile_all(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    targets: tuple[Target, ...] = TARGETS,
) -> Compiled:
    """What ``pipeline.compile`` does for each target, with the products kept."""
    keep = Keep()
    module = module.eval()
    source = Source(module, args, kwargs, dynamic_shapes)
    precompiled = pipeline.to_precompiled(source, targets, keep)
    verify(keep.products["scheduled"].schedule.program)
    with tempfile.TemporaryDirectory() as folder:
        write_package(precompiled, Path(folder))
        models = {str(target): load(folder, _device(target, Path(folder))) for target in targets}
    stages = keep.products
    return Compiled(module, stages["lowered"], stages["scheduled"], precompiled, models)


def _device(target: Target, package: Path) -> InterpreterDevice | str:
    """Texts for GPUs are interpreted."""
    if target == INTERPRETER:
        return InterpreterDevice()
    return InterpreterDevice(package) if target.backend == "cuda" else str(target)


def agree(
    compiled: Compiled,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    tolerance: Tolerance = Tolerance(),
) -> None:
    """Assert that all oracles give eager's answer for one call."""
    named = dict(kwargs or {})
    with torch.no_grad():
        eager = tensors(compiled.module(*_cloned(args), **_cloned(named)))
        exact = tensors(_double(compiled.module)(*_doubled(args), **_doubled(named)))
    given = tensors((args, named))
    loose = replace(tolerance, factor=max(tolerance.factor, EVALUATOR_SLACK))
    for what, stage in (("lowered", compiled.lowered), ("scheduled", compiled.scheduled)):
        _check_all(f"the {what} program", _evaluated(stage, given), eager, exact, loose)
    for name, model in compiled.models.items():
        _check_all(f"the target {name}", tensors(model(*args, **named)), eager, exact, tolerance)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of nested arguments or results, in order."""
    if isinstance(value, Mapping):
        return [tensor for part in value.values() for tensor in tensors(part)]
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in tensors(part)]
    return [value] if isinstance(value, torch.Tensor) else []


def _check_all(
    what: str,
    found: Sequence[torch.Tensor],
    eager: Sequence[torch.Tensor],
    exact: Sequence[torch.Tensor],
    tolerance: Tolerance,
) -> None:
    assert len(found) == len(eager), f"{what} has {len(found)} outputs, eager {len(eager)}"
    for number, (ours, theirs, reference) in enumerate(zip(found, eager, exact, strict=True)):
        complaint = accuracy_complaint(ours, theirs, reference, tolerance)
        if complaint:
            raise WrongAnswer(f"{what}, output {number} {theirs.dtype}: {complaint}")


def accuracy_complaint(
    ours: torch.Tensor,
    eager: torch.Tensor,
    reference: torch.Tensor,
    tolerance: Tolerance = Tolerance(),
) -> str | None:
    """max|y - ref64| <= 1.5 max|eager - ref64| + eps max|ref64|, in words when broken."""
    if ours.shape != eager.shape:
        return f"the shape is {tuple(ours.shape)}, eager's is {tuple(eager.shape)}"
    if not eager.dtype.is_floating_point:
        wrong = int((ours.to(eager.dtype) != eager).sum())
        return f"{wrong} of {eager.numel()} elements differ" if wrong else None
    y, e, r = (x.detach().double() for x in (ours, eager, reference))
    rounded = reference.to(eager.dtype).double()
    special = ~torch.isfinite(rounded)
    same = torch.isnan(y) == torch.isnan(e)
    same &= torch.isnan(y) | (y == e) | (y == rounded)
    if not bool(same[special].all()):
        wrong = special & ~same
        return f"NaN or infinity: {y[wrong][:4].tolist()}, eager {e[wrong][:4].tolist()}"
    kept = ~special & torch.isfinite(e)  # where eager alone overflows it is no measure
    y, e, r = y[kept], e[kept], r[kept]
    if not y.numel():
        return None
    places = FLOAT64_FACTOR if eager.dtype is torch.float64 else 1
    scale = max(float(r.abs().max()), tolerance.floor)
    eagers = float((e - r).abs().max())
    law = 1.5 * eagers + max(places * torch.finfo(eager.dtype).eps, tolerance.unit) * scale
    error = float((y - r).abs().max())
    if error <= tolerance.factor * law:
        return None
    return (
        f"off by {error:.3g}, allowed {tolerance.factor * law:.3g} (eager is off by {eagers:.3g})"
    )


def _double(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).double()


def _cloned(value: Any) -> Any:
    return pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, value)


def _doubled(value: Any) -> Any:
    def widen(x: Any) -> Any:
        is_float = isinstance(x, torch.Tensor) and x.is_floating_point()
        return x.double() if is_float else x

    return pytree.tree_map(widen, value)


# --- the evaluator -----------------------------------------------------------------------------


def _evaluated(stage: Lowered | Scheduled, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    program = stage.program if isinstance(stage, Lowered) else stage.schedule.program
    names = [spec.name for spec in stage.signature.inputs]
    inputs = {name: _array(x) for name, x in zip(names, given, strict=True)}
    words = {one.word: np.zeros((), np.int32) for one in stage.signature.assertions}
    weights = weight_arrays(stage.weights, program)
    kept = {name: array for name, array in inputs.items() if name in program.buffers}
    found = evaluate(program, {**kept, **words}, weights, sizes_of(stage.signature, given))
    assert not any(found[word] for word in words), "an assertion failed"
    return [torch.from_numpy(np.array(found[name])) for name in program.outputs]


def weight_arrays(weights: Sequence[Weight], program: Program) -> dict[str, np.ndarray]:
    """The weights a program names."""
    return {w.name: _weight_array(w) for w in weights if w.name in program.buffers}


def sizes_of(signature: Signature, given: Sequence[torch.Tensor]) -> dict[str, int]:
    """The model's sizes, from the inputs that have them as a dimension."""
    sizes: dict[str, int] = {}
    for spec, tensor in zip(signature.inputs, given, strict=True):
        for size, number in zip(spec.shape, tensor.shape, strict=True):
            if isinstance(size.atom, Var):
                sizes[size.atom.name] = number
    return sizes


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()


def _weight_array(weight: Weight) -> np.ndarray:
    if weight.dtype is DType.BFLOAT16:
        bits = np.frombuffer(weight.data, np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(weight.shape)
    return np.frombuffer(weight.data, weight.dtype.facts.numpy).reshape(weight.shape)
