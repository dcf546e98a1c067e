"""Copies of tensors on the host.

A storage is copied once, so tied weights and views of one memory stay what they are. Tensors on
meta, which have sizes alone, become zeros that take no memory.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export.passes import move_to_device_pass
from torch.utils import _pytree as pytree

from aotpack.trace.operators.random.seeds import Example

HOST = torch.device("cpu")
PLAIN = (torch.Tensor, nn.Parameter, nn.Buffer)


@dataclass(frozen=True, slots=True)
class HostCopies:
    """Tensors on the host, by storage; ``absent`` are the addresses of those without values.

    A source is kept with its copy, as the address of one that is gone may be another's.
    """

    storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = field(
        default_factory=dict
    )
    absent: set[int] = field(default_factory=set)

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor itself if it is on the host, else a copy in its strides."""
        if type(tensor) not in PLAIN or tensor.layout is not torch.strided:
            moved: torch.Tensor = tensor if tensor.device == HOST else tensor.detach().cpu()
            return moved
        if is_ready(tensor):
            return tensor
        plain = tensor.detach().resolve_neg().resolve_conj()
        made = plain
        if plain.device != HOST:
            storage = self._storage(plain)
            made = torch.empty(0, dtype=plain.dtype)
            made.set_(storage, plain.storage_offset(), plain.shape, plain.stride())
        is_parameter = isinstance(tensor, nn.Parameter)
        return nn.Parameter(made, tensor.requires_grad) if is_parameter else made

    def example(self, example: Example) -> Example:
        """The example inputs on the host."""
        copies: Example = pytree.tree_map_only(torch.Tensor, self.of, example)
        return copies

    def program(self, program: ExportedProgram) -> ExportedProgram:
        """A program with its weights and constants on the host; itself if it is there."""
        tensors = [*program.state_dict.values(), *program.constants.values()]
        tensors += pytree.tree_leaves(program.example_inputs)
        held = [one for one in tensors if isinstance(one, torch.Tensor)]
        if all(map(is_ready, held)) and all(map(_stays, _nodes(program))):
            return program
        memo: dict[int, Any] = {id(one): self.of(one) for one in held}
        moved = copy.deepcopy(program, memo)
        placeholders = moved.graph.find_nodes(op="placeholder")
        for node, spec in zip(placeholders, moved.graph_signature.input_specs, strict=True):
            node.name = spec.arg.name  # a copied graph renames those called as builtins: ``input``
        return move_to_device_pass(moved, "cpu")

    def without_values(self, tensors: Mapping[str, Any]) -> list[str]:
        """The names of those tensors that have sizes alone."""
        return [
            name
            for name, tensor in tensors.items()
            if isinstance(tensor, torch.Tensor)
            and type(tensor) in PLAIN
            and tensor.untyped_storage().data_ptr() in self.absent
        ]

    def _storage(self, tensor: torch.Tensor) -> torch.UntypedStorage:
        source = tensor.untyped_storage()
        if source._cdata not in self.storages:
            if tensor.is_meta:
                zeros = np.zeros(max(source.nbytes(), 1), np.uint8)  # untouched, it is no memory
                made = torch.from_numpy(zeros).untyped_storage()
                self.absent.add(made.data_ptr())
            else:
                made = source.cpu()  # type: ignore[no-untyped-call]
            self.storages[source._cdata] = source, made
        return self.storages[source._cdata][1]


def is_ready(tensor: torch.Tensor) -> bool:
    """True for a tensor on the host whose memory has its values as they are."""
    return tensor.device == HOST and not tensor.is_neg() and not tensor.is_conj()


def _nodes(program: ExportedProgram) -> list[fx.Node]:
    parts = [part for part in program.graph_module.modules() if isinstance(part, fx.GraphModule)]
    return [node for part in parts for node in part.graph.nodes]


def _stays(node: fx.Node) -> bool:
    """True for a node whose value and arguments are on the host."""
    values = [*pytree.tree_leaves(node.meta.get("val")), *node.args, *node.kwargs.values()]
    tensors = [one.device for one in values if isinstance(one, torch.Tensor)]
    return all(one == HOST for one in (*tensors, *values) if isinstance(one, torch.device))
