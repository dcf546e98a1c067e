"""Mutations of buffers, parameters and inputs in forward, with their new values."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from aotpack.errors import UnsupportedError
from aotpack.stages import TensorSpec
from aotpack.trace.weights import Weights

_WEIGHTS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
CHANGES = (*_WEIGHTS, OutputKind.USER_INPUT_MUTATION)


def updates_of(
    model: str, program: ExportedProgram, weights: Weights, inputs: Mapping[str, TensorSpec]
) -> dict[str, fx.Node]:
    """The node with the new value, by the name of the input or weight it replaces."""
    (output,) = (node for node in program.graph.nodes if node.op == "output")
    updates: dict[str, fx.Node] = {}
    for node, spec in zip(output.args[0], program.graph_signature.output_specs, strict=True):
        if spec.kind not in CHANGES:
            continue
        name = weights.name_of(spec.target) if spec.kind in _WEIGHTS else inputs[spec.target].name
        if name in updates:
            raise UnsupportedError(
                f"tracing {model}: {name} and {spec.target} are one tensor, and forward changes "
                "both; change it under one name"
            )
        updates[name] = node
    return updates


def aliased(node: fx.Node) -> Iterator[tuple[Any, Any]]:
    """The arguments of a call whose memory it writes to or returns, with their values."""
    assert isinstance(node.target, OpOverload)
    arguments = node.target._schema.arguments
    values = {a.name: v for a, v in zip(arguments, node.args, strict=False)} | node.kwargs
    for argument in arguments:
        if argument.alias_info is not None and argument.name in values:
            yield argument, values[argument.name]


def named_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Every parameter and buffer of a module under each of its names."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    return {**parameters, **dict(module.named_buffers(remove_duplicate=False))}


@contextmanager
def kept(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Restore the tensors after the block, which may change them."""
    before = [(tensor, tensor.detach().clone()) for tensor in tensors]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, values in before:
                tensor.copy_(values)
