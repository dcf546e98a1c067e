"""The oracles: eager with a float64 bound, the evaluator, Triton's interpreter, C kernels, a GPU.

A model is traced once. Its lowered and its scheduled program are evaluated, its rendered kernels
run through the same runtime as a wheel's, and each answer must obey the accuracy law. With
``AOTPACK_GPU_ORACLE=1``, each model that is compiled here is also compiled for this machine's GPU,
and must answer there as everywhere; with ``AOTPACK_GPU_ORACLE=alone``, nothing else is asked.
"""

import copy
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils import _pytree as pytree

from aotpack import devices
from aotpack.emit import write_package
from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Var
from aotpack.ir.verify.program import verify
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile.interpreter.device import InterpreterDevice
from aotpack.runtime import Model, load
from aotpack.stages import Lowered, Precompiled, Scheduled, Signature, Weight
from aotpack.target import CPU, INTERPRETER, Target, native_target

from .law import INEXACT, LAW, Answers, Tolerance, accuracy_complaint, worst_complaints

Arrays = Mapping[str, np.ndarray]
TARGETS = (INTERPRETER, CPU)
ON_A_GPU = os.environ.get("AOTPACK_GPU_ORACLE", "") in ("1", "alone")
ALONE = os.environ.get("AOTPACK_GPU_ORACLE") == "alone"
GPU = "gpu"
EVALUATOR_SLACK = 8  # the evaluator is about meaning: it sums in an order of its own


class WrongAnswer(AssertionError):
    """An oracle disagrees with eager beyond the accuracy law."""


class NearMiss(WrongAnswer):
    """By an error alone."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Compiled:
    """A model in all its forms; its package lies in a folder as long as this lives."""

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
    gpu: devices.Gpu = devices.H200,
    golden: float = 0,
    repeat_layers: bool = False,
    strict: bool = False,
) -> Compiled:
    """What ``pipeline.compile`` does for each target, with the products kept.

    The answers are compared here; golden data are for tests of the packages' own check.
    """
    module = module.eval()
    source = Source(module, args, kwargs, dynamic_shapes)
    targets = () if ALONE else targets
    built = dict.fromkeys((*targets, native_target()) if ON_A_GPU else targets)
    how = BuildOptions(
        tuple(built), gpu=gpu, golden=golden, repeat_layers=repeat_layers, strict=strict
    )
    made = Build(source, how)
    precompiled = made.precompiled
    for schedule in made.scheduled.schedules:
        verify(schedule.program)
    folder = Path(tempfile.mkdtemp())
    write_package(precompiled, folder, runtime=False)
    models = {str(target): load(folder, _device(target, folder)) for target in targets}
    if ON_A_GPU:
        models[GPU] = load(folder, 0)
    compiled = Compiled(module, made.lowered, made.scheduled, precompiled, models)
    weakref.finalize(compiled, shutil.rmtree, folder, ignore_errors=True)
    return compiled


def _device(target: Target, package: Path) -> InterpreterDevice | str:
    """Texts for GPUs are interpreted."""
    if target == INTERPRETER:
        return InterpreterDevice()
    return InterpreterDevice(package, target) if target.backend == "cuda" else str(target)


def agree(
    compiled: Compiled,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    tolerance: Tolerance = LAW,
    programs: bool = True,
) -> None:
    """Assert that all oracles give eager's answer for one call; perhaps the models alone."""
    call = (args, dict(kwargs or {}))
    eager, exact = _references(compiled.module, call)
    for what, run, held in _oracles(compiled, tolerance, programs):
        try:
            _check_all(what, run(call), eager, exact, held)
        except NearMiss:
            if compiled.lowered.signature.updates or _worst(compiled.module, run, call, held):
                raise  # what a call changes makes the next one another


Call = tuple[tuple[Any, ...], dict[str, Any]]
Run = Callable[[Call], list[torch.Tensor]]


def _references(module: nn.Module, call: Call) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Eager's answers, and those in float64."""
    (args, named), double = _cloned(call), _double(module)
    with torch.no_grad():
        eager = tensors(module(*args, **named))
        args, named = _doubled(call)
        return eager, tensors(double(*args, **named))


def _oracles(
    compiled: Compiled, tolerance: Tolerance, programs: bool
) -> Iterator[tuple[str, Run, Tolerance]]:
    """What is asked, how, and what holds of it."""
    if programs and not ALONE:
        loose = replace(tolerance, factor=max(tolerance.factor, EVALUATOR_SLACK))
        lowered = compiled.lowered
        yield "the lowered program", partial(_evaluated, lowered, lowered.program), loose
        for schedule in compiled.scheduled.schedules:
            evaluated = partial(_evaluated, compiled.scheduled, schedule.program)
            yield "the scheduled program", evaluated, loose
    for name, model in compiled.models.items():
        run = _called_on_a_gpu if name == GPU else _called
        yield f"the target {name}", partial(run, model), tolerance


def _called(model: Model, call: Call) -> list[torch.Tensor]:
    args, named = call
    return tensors(model(*args, **named))


def _called_on_a_gpu(model: Model, call: Call) -> list[torch.Tensor]:
    return [x.cpu() for x in _called(model, on_gpu(call))]


def on_gpu(value: Any) -> Any:
    """Nested arguments with their tensors on the GPU."""
    return pytree.tree_map(lambda x: x.cuda() if isinstance(x, torch.Tensor) else x, value)


def _worst(module: nn.Module, run: Run, call: Call, tolerance: Tolerance) -> str | None:
    """How an oracle breaks the law on calls near this one."""
    leaves, spec = pytree.tree_flatten(call)
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def answers(drawn: Sequence[torch.Tensor]) -> Answers:
        near = list(leaves)
        for n, tensor in zip(places, drawn, strict=True):
            near[n] = tensor
        moved = pytree.tree_unflatten(near, spec)
        return (run(moved), *_references(module, moved))

    found = worst_complaints([leaves[n] for n in places], answers, tolerance=tolerance)
    return next(filter(None, found), None)


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
            kind = NearMiss if complaint.startswith(INEXACT) else WrongAnswer
            raise kind(f"{what}, output {number} {theirs.dtype}: {complaint}")


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


def _evaluated(stage: Lowered | Scheduled, program: Program, call: Call) -> list[torch.Tensor]:
    given = tensors(call)
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
