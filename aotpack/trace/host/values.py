"""Weights and example inputs that cannot be read are refused, all at once and by name."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.trace.changes import named_tensors
from aotpack.trace.diagnostics.derived import with_names
from aotpack.trace.host.copies import PLAIN, HostCopies
from aotpack.trace.operators.random.seeds import Example
from aotpack.trace.operators.state import held
from aotpack.trace.source import source_of

_SHOWN = 5


def check_values(name: str, module: nn.Module, example: Example) -> None:
    """Refuse tensors whose memory is not there, or is not that of a dense tensor."""
    _check_offloaded(name, module)
    tensors = [*named_tensors(module).items(), *_inputs(example)]
    tensors += [(place, one) for place, one in _attributes(module) if one.is_nested]
    faults = [f"{place} {fault}" for place, one in tensors if (fault := _fault(one))]
    if faults:
        raise TraceError(f"tracing {name}: {shown(faults)}")


def shown(lines: Sequence[str]) -> str:
    """The first lines, and how many more there are."""
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "\n  ".join([*lines[:_SHOWN], *more])


def _inputs(example: Example) -> Iterator[tuple[str, torch.Tensor]]:
    for path, leaf in pytree.tree_leaves_with_path(example):
        if isinstance(leaf, torch.Tensor):
            yield f"the example input {pytree.keystr(path[1:])}", leaf


def _fault(tensor: torch.Tensor) -> str | None:
    if isinstance(tensor, FakeTensor):
        return (
            "is a FakeTensor, which has no values; load the model outside of FakeTensorMode, or "
            "make it on the device meta and build with weights 'none'"
        )
    if type(tensor).__name__ == "DTensor":
        return "is a DTensor, of which each process has a part; give tensor.full_tensor()"
    if fault := fault_of_layout(tensor):
        return fault
    if type(tensor) in PLAIN and _is_freed(tensor):
        return (
            "has no memory: its storage was freed, as FSDP does between calls; gather the weights "
            "first (FSDP.summon_full_params(model), or model.unshard())"
        )
    return None


def faults_of_attributes(module: nn.Module) -> str:
    """Attributes that are no dense tensors, of which the model may read none; "" or the lines."""
    known = {id(one) for one in named_tensors(module).values()}
    plain = [pair for pair in _attributes(module) if id(pair[1]) not in known]
    lines = [f"\n  {place} {fault}" for place, one in plain if (fault := fault_of_layout(one))]
    return "".join(lines[:_SHOWN])


def _attributes(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that attributes hold, each with its place in words."""
    for place, value in held(module):
        if isinstance(value, torch.Tensor):
            yield f"the attribute {place}", value


def fault_of_layout(tensor: torch.Tensor) -> str | None:
    """What memory that is not that of a dense tensor is."""
    if tensor.is_nested:
        return (
            "is a nested tensor; dense tensors are accepted, such as the padded one of "
            "torch.nested.to_padded_tensor(tensor, 0.0), if the model takes padding"
        )
    if tensor.is_quantized:
        return f"has the type {tensor.dtype}; give tensor.dequantize()"
    if tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}; dense tensors are accepted (tensor.to_dense())"
    return None


def _is_freed(tensor: torch.Tensor) -> bool:
    if tensor.numel() == 0:
        return False
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return tensor.untyped_storage().nbytes() < needed


def _check_offloaded(name: str, module: nn.Module) -> None:
    """Refuse weights that hooks of accelerate fetch when a layer is called."""
    hooked = [
        place or "the model"
        for place, part in module.named_modules()
        if hasattr(part, "_hf_hook") and any(one.is_meta for one in part.parameters(recurse=False))
    ]
    if hooked:
        raise TraceError(
            f"tracing {name}: the weights of {', '.join(hooked[:3])} are offloaded: hooks fetch "
            "them when a layer is called, and a package has none. Bring them back: "
            "accelerate.hooks.remove_hook_from_submodules(model), or load without device_map."
        )


def without_values(
    name: str,
    program: ExportedProgram,
    leaves: Sequence[Any],
    copies: HostCopies,
    *,
    needs_weights: bool,
) -> str:
    """Which weights and inputs have no values, "" if none; constants without values are refused."""
    constants = copies.without_values(program.constants)
    if constants:
        raise TraceError(
            f"tracing {name}: {shown(constants)} on meta: a package contains these constants, "
            "which no state_dict has, so they need values. Make them outside of the device meta."
        )
    weights = copies.without_values(program.state_dict)
    if weights and needs_weights:
        raise TraceError(
            f"tracing {name}: on meta, with sizes and without values, are\n  {shown(weights)}\n"
            "Load the weights first, or build without them (--weights none) and bind them at load."
        )
    inputs = {f"input {number}": leaf for number, leaf in enumerate(leaves)}
    absent = [*weights, *copies.without_values(inputs)]
    return f"{shown(absent[:1])} and others on meta have no values" if absent else ""


def check_results(name: str, program: ExportedProgram) -> None:
    """Refuse a result that forward makes on meta, where nothing else is."""
    (output,) = program.graph.find_nodes(op="output")
    for node in output.all_input_nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.is_meta:
            source = source_of(node)
            place = f"\n  at {source}" if source else ""
            shape = ", ".join(with_names(program, size) for size in value.shape)
            raise TraceError(
                f"tracing {name}: forward returns a tensor of [{shape}] on meta, which "
                "has a size and no values; return its size, or make it without device='meta'"
                f"{place}"
            )
