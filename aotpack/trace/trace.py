"""The entry of the stage: module and example inputs in, ``Traced`` out.

The user's module is never changed: a copy that shares its weights is put into eval mode, exported
and run. Sizes are at least 1; a size without an upper bound ends at ``LARGEST_SIZE``.
"""

from collections.abc import Container, Mapping
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.export import ExportedProgram

from aotpack.errors import TraceError, UsageError
from aotpack.ir.dtypes import DType
from aotpack.ir.golden import SIZE
from aotpack.stages import Traced
from aotpack.trace.agreement.lowerings import check_lowerings
from aotpack.trace.capture import cast_floats, decompose, evaluation_copy, export
from aotpack.trace.dynamic import LeafSpec, leaf_specs, specs_by_argument
from aotpack.trace.eager import in_program_order
from aotpack.trace.golden.ways import Ways
from aotpack.trace.graph import build_graph
from aotpack.trace.host.copies import HostCopies
from aotpack.trace.host.values import check_values, without_values
from aotpack.trace.operators.collectives import check_collectives
from aotpack.trace.operators.random import Example, check_drawn, draws, seeded, with_example_seed
from aotpack.trace.parameters import with_positional_names
from aotpack.trace.triton.triton_kernels import TritonPort, launches_kernels

Exported: TypeAlias = tuple[ExportedProgram, nn.Module, Example, tuple[LeafSpec, ...]]


def trace(
    module: nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str,
    version: str,
    dtype: DType | None = None,
    strict: bool = False,
    check_indices: bool = False,
    whole: frozenset[str] | None = None,
    triton: TritonPort | None = None,
    reserved: Container[str] = (),
    golden: float = SIZE,
    needs_weights: bool = True,
) -> Traced:
    """Export the module for inference and record golden data on the example inputs.

    ``dynamic_shapes`` has torch.export's form; ``dtype`` casts weights and floating inputs first.
    ``check_indices`` asserts that indices read from data are in range. Operators not in ``whole``
    are decomposed where torch can (None: no operator is). ``triton`` runs models that launch Triton
    kernels. ``reserved`` are names that no size may have. ``golden`` are the bytes of golden data:
    infinity for whole data, 0 for none. Without ``needs_weights``, they may be on meta.
    """
    copies = HostCopies()
    given = _example(name, args, kwargs)
    made = _exported(module, given, dynamic_shapes, dtype, name, strict, copies)
    exported, run, example, leaves = made
    check_collectives(exported, name)
    in_order = in_program_order(exported, *example)
    absent = without_values(name, exported, in_order, copies, needs_weights=needs_weights)
    runs = not absent and not launches_kernels(exported)
    check_lowerings(exported, in_order if runs else None, name)
    program = decompose(exported, name=name, whole=whole, triton=triton)
    check_drawn(program, name)
    graph = build_graph(program, leaves, name, version, check_indices, reserved)
    graph = with_positional_names(graph, module, program)
    ways = Ways(exported, program, run if runs else None, isinstance(module, nn.Module), triton)
    return Traced(graph, ways.golden(example, graph, golden, absent))


def _example(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None) -> Example:
    if isinstance(args, torch.Tensor):
        raise UsageError(f"tracing {name}: the example inputs are a tensor; give a tuple: (x,)")
    return tuple(args), dict(kwargs or {})


def _exported(
    module: nn.Module | ExportedProgram,
    example: Example,
    dynamic_shapes: Any,
    dtype: DType | None,
    name: str,
    strict: bool,
    copies: HostCopies,
) -> Exported:
    """The program and its inputs on the host; a model that draws random numbers takes a seed."""
    if isinstance(module, ExportedProgram):
        _refuse_changes(name, dynamic_shapes, dtype, strict)
        program = copies.program(module)
        return program, program.module(), copies.example(example), ()
    _check_module(name, module)
    check_values(name, module, example)
    run, example = evaluation_copy(module, dtype, copies), copies.example(example)
    if dtype is not None:
        example = cast_floats(example, dtype)
    shapes = specs_by_argument(run, *example, dynamic_shapes)
    program = export(run, *example, shapes, name=name, strict=strict)
    if draws(program):
        run, example = seeded(run, name), with_example_seed(example)
        shapes = specs_by_argument(run, *example, shapes)
        program = export(run, *example, shapes, name=name, strict=strict)
    return program, run, example, leaf_specs(run, program.call_spec.in_spec, *example, shapes)


def _refuse_changes(name: str, dynamic_shapes: Any, dtype: DType | None, strict: bool) -> None:
    given = {"dynamic shapes": dynamic_shapes, "dtype": dtype, "strict mode": strict}
    for option in [option for option, value in given.items() if value]:
        raise UsageError(
            f"tracing {name}: {option} given for a program that is already exported; its sizes, "
            "types and operators are fixed in it. Give the nn.Module, or export again with what "
            "you want."
        )


def _check_module(name: str, module: object) -> None:
    if not isinstance(module, nn.Module):
        raise TraceError(
            f"tracing {name}: the model is a {type(module).__name__}; a torch.nn.Module or a "
            "torch.export.ExportedProgram is accepted"
        )
