"""Lifted constants that forward changes become buffers, and so state of the package.

A cache that is reached by two ways, through a buffer and through a plain object, is two inputs of
an exported program: the buffer, and a constant of the same memory. They become one.
"""

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import fx, nn
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputSpec,
    TensorArgument,
)

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.names import free_name
from aotpack.trace.changes import aliased
from aotpack.trace.diagnostics.complaint import CACHE_ADVICE
from aotpack.trace.diagnostics.lines import at_line
from aotpack.trace.source import users_source_of
from aotpack.trace.weights import Memory, memory_of_names

_GIVES_MEMORY = {
    torch.ops.aten.set_.default: "set_",
    torch.ops.aten.set_.source_Tensor: "set_",
    torch.ops.aten.resize_.default: "resize_",
}
_STATISTICS = (torch.ops.aten.batch_norm.default, torch.ops.aten.instance_norm.default)
"""Operators that write running statistics, which their schemas do not tell."""
_OWNING = (InputKind.PARAMETER, InputKind.BUFFER)
_DEEPEST = 6  # attributes and items between a module and its cache


def with_state(program: ExportedProgram, module: nn.Module | None, name: str) -> ExportedProgram:
    """The program with buffers for constants that it changes; the same object without any.

    They are called as ``module`` reaches them, which gets them as buffers too. What no state_dict
    has and is a view of a weight is read from it: the weight may be bound again.
    """
    program = _with_views(program)
    memory = memory_of_names(program)
    constants = _changed_constants(program, memory)
    if not constants:
        return program
    buffers = {
        memory[spec.target]: spec
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.BUFFER and spec.target is not None
    }
    _check_views(name, [memory[target] for target in constants], buffers)
    names = _names(program, module, constants)
    merged: dict[str, InputSpec] = {}
    for target, spec in constants.items():
        if memory[target] in buffers:
            merged[spec.arg.name] = buffers[memory[target]]
            continue
        own = names[target]
        made = replace(spec, kind=InputKind.BUFFER, target=own, persistent=False)
        buffers[memory[target]] = made
        tensor = program.constants[target]
        if module is not None and isinstance(tensor, torch.Tensor):
            module.__dict__.pop(own, None)  # a plain attribute of that name is this tensor
            module.register_buffer(own, tensor, persistent=False)
    return _rebuilt(program, buffers, merged, names)


def _with_views(program: ExportedProgram) -> ExportedProgram:
    """The program with ``as_strided`` of a weight for what is unchanged and lies in its memory.

    That is constants, and buffers that are not persistent.
    """
    memory = memory_of_names(program)
    specs = [one for one in program.graph_signature.input_specs if one.target in memory]
    owners = {
        memory[one.target][0]: one
        for one in specs
        if one.kind in _OWNING and _is_plain(program.state_dict.get(one.target))
    }
    found = [
        (one, owners[memory[one.target][0]])
        for one in specs
        if one.target not in program.state_dict and memory[one.target][0] in owners
    ]
    changed = _changed(program) if found else set()
    views = {
        one.arg.name: (program.constants[one.target], owner)
        for one, owner in found
        if memory[one.target] != memory[owner.target]
        and changed.isdisjoint((owner.target, one.target))
        and program.constants[one.target].dtype is program.state_dict[owner.target].dtype
    }
    if not views:
        return program
    program = _rebuilt(program, {}, {}, {})
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    last = [*nodes.values()][-1]
    for name, (view, owner) in views.items():
        base, strided = nodes[owner.arg.name], torch.ops.aten.as_strided.default
        place = (list(view.shape), list(view.stride()), view.storage_offset())
        with program.graph.inserting_after(last):
            node = program.graph.call_function(strided, (base, *place))
        node.meta["val"] = strided(base.meta["val"], *place)
        nodes[name].replace_all_uses_with(node)
    program.graph_module.recompile()
    return program


def _is_plain(tensor: object) -> bool:
    """True for a weight that is its whole storage, row by row."""
    return (
        isinstance(tensor, torch.Tensor)
        and tensor.is_contiguous()
        and tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize
    )


def _changed_constants(
    program: ExportedProgram, memory: Mapping[str, Memory]
) -> dict[str, InputSpec]:
    """The constants that a program writes to, or whose memory it writes to by another way."""
    changed = _changed(program)
    starts = {memory[target][0] for target in changed if len(memory[target]) > 1}
    specs = program.graph_signature.input_specs
    constants = {
        spec.target: spec
        for spec in specs
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.target is not None
    }
    return {
        target: spec
        for target, spec in constants.items()
        if target in changed or memory[target][0] in starts
    }


def _names(
    program: ExportedProgram, module: nn.Module | None, constants: Iterable[str]
) -> dict[str, str]:
    """The names of constants as buffers, by the way to them in the module."""
    reached = () if module is None else held(module)
    paths = {id(one): path for path, one in reached if isinstance(one, torch.Tensor)}
    taken = {*program.constants, *program.state_dict, *dir(module)}
    found: dict[str, str] = {}
    for target in constants:
        path = paths.get(id(program.constants[target]), target)
        free = taken - ({target, path} if path.isidentifier() else {target})
        found[target] = free_name(re.sub(r"\W+", "_", path).strip("_"), free)
        taken.add(found[target])
    return found


def check_caches(name: str, module: nn.Module) -> None:
    """Refuse a cache of transformers that grows: its tensors are others after each call."""
    for path, value in held(module):
        if "DynamicCache" in (kind.__name__ for kind in type(value).__mro__):
            raise TraceError(
                f"tracing {name}: the model has a DynamicCache, {path}, which grows from call to "
                f"call; {CACHE_ADVICE}"
            )


@contextmanager
def distinct_names(program: ExportedProgram) -> Iterator[Mapping[str, torch.Tensor]]:
    """Inside the block, the names of a tensor that is changed have tensors of their own.

    torch.export computes with one of the names, and functionalisation cannot change a tensor that
    it gets twice. Yields what those names stand for, for the program that is made of this one.
    """
    held, changed = program.state_dict, _changed(program)
    shared = {id(held[name]) for name in changed if name in held}
    others = {n: one for n, one in held.items() if id(one) in shared and n not in changed}
    held.update((name, torch.empty_like(one)) for name, one in others.items())
    try:
        yield others
    finally:
        held.update(others)


def check_memory(program: ExportedProgram, name: str, lines: Mapping[str, str]) -> None:
    """Refuse ``set_`` and other sizes of an input, a parameter or a buffer; ``lines`` do it."""
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    for node in program.graph.nodes:
        how = _GIVES_MEMORY.get(node.target)
        if how is None or node.args[0].op != "placeholder":
            continue
        tensor, own = node.args[0].meta["val"], node.args[0].name
        if how == "set_" or tuple(node.args[1]) != tuple(tensor.shape):
            path = weights.get(own, own)
            raise TraceError(
                f"tracing {name}: forward gives {path} other memory ({how}), where a package keeps "
                f"its own; write values in place: {path}.copy_(...){at_line(lines, how)}"
            )


def check_shapes_kept(program: ExportedProgram, name: str) -> None:
    """Refuse other shapes of an input, a parameter or a buffer in place."""
    signature = program.graph_signature
    weights = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    for own, last in _views_in_place(program.graph).items():
        if _layout(own) != _layout(last):
            place = users_source_of(last)
            raise TraceError(
                f"tracing {name}: {_operator(last)} gives {weights.get(own.name, own.name)} "
                "another shape in place, where a package keeps the shapes of its inputs and "
                "weights; write a view, as y = x.t() in place of x.t_()"
                + (f"\n  at {place}" if place else "")
            )


def _operator(node: fx.Node) -> str:
    """``t_`` of ``aten.t_.default``."""
    return str(node.target).split(".")[1]


def _views_in_place(graph: fx.Graph) -> dict[fx.Node, fx.Node]:
    """The last view in place of each placeholder that has one."""
    owners = {node: node for node in graph.find_nodes(op="placeholder")}
    found: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        changes = isinstance(node.target, OpOverload) and node.target._schema.is_mutable
        first = node.args[0] if changes and node.args else None
        if isinstance(first, fx.Node) and first in owners:
            owners[node] = owners[first]
            if torch.Tag.inplace_view in node.target.tags:
                found[owners[node]] = node
    return found


def _layout(node: fx.Node) -> list[str]:
    """How a tensor lies in its memory; sizes as text, of which nothing is asked."""
    tensor = node.meta["val"]
    return [*map(str, (tensor.shape, tensor.stride(), tensor.storage_offset()))]


def _changed(program: ExportedProgram) -> set[str]:
    """The names of the parameters, buffers and constants that operators write to."""
    targets = {
        spec.arg.name: spec.target
        for spec in program.graph_signature.input_specs
        if spec.target is not None and isinstance(spec.arg, TensorArgument)
    }
    bases: dict[fx.Node, str] = {}
    found: set[str] = set()
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in targets:
            bases[node] = targets[node.name]
        elif node.target in _STATISTICS and node.args[5]:
            found.update(bases[value] for value in node.args[3:5] if value in bases)
        elif isinstance(node.target, OpOverload):
            for argument, value in aliased(node):
                if isinstance(value, fx.Node) and value in bases:
                    bases[node] = bases[value]
                    if argument.alias_info.is_write:
                        found.add(bases[value])
    return found


def _check_views(name: str, constants: list[Memory], buffers: Mapping[Memory, InputSpec]) -> None:
    """Refuse state of which two ways lead to different views."""
    views: dict[Any, Memory] = {key[0]: key for key in buffers if len(key) > 1}
    for key in constants:
        if len(key) > 1 and views.setdefault(key[0], key) != key:
            raise UnsupportedError(
                f"tracing {name}: forward changes a tensor of which it has two views; keep one of "
                "them, and take the other from it in forward"
            )


def _rebuilt(
    program: ExportedProgram,
    buffers: Mapping[Memory, InputSpec],
    merged: Mapping[str, InputSpec],
    named: Mapping[str, str],
) -> ExportedProgram:
    """The program with ``named`` constants as buffers and ``merged`` placeholders as others."""
    module = copy.deepcopy(program.graph_module)
    old = program.graph_signature
    nodes = module.graph.find_nodes(op="placeholder")
    by_name = {}
    for node, spec in zip(nodes, old.input_specs, strict=True):
        node.name = spec.arg.name  # a copied graph renames those called as builtins: ``input``
        by_name[node.name] = node
    for name, spec in merged.items():
        by_name[name].replace_all_uses_with(by_name[spec.arg.name])
        module.graph.erase_node(by_name[name])
    made = {spec.arg.name: spec for spec in buffers.values()}
    inputs = [made.get(one.arg.name, one) for one in old.input_specs if one.arg.name not in merged]
    outputs = [_output(one, merged) for one in old.output_specs]
    constants = {named.get(name, name): one for name, one in program.constants.items()}
    module.recompile()
    return ExportedProgram(
        module,
        module.graph,
        ExportGraphSignature(inputs, outputs),
        program.state_dict,
        program.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        constants,
        verifiers=program.verifiers,
    )


def _output(spec: OutputSpec, merged: Mapping[str, InputSpec]) -> OutputSpec:
    if isinstance(spec.arg, TensorArgument) and spec.arg.name in merged:
        return replace(spec, arg=TensorArgument(name=merged[spec.arg.name].arg.name))
    return spec


def held(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """What a module's attributes hold, and how it reaches them: ``cache.layers[0].keys``.

    So do those of modules that are no part of it, such as the one whose method it is.
    """
    seen: set[int] = set()

    def walk(value: Any, path: str, depth: int) -> Iterator[tuple[str, Any]]:
        if id(value) in seen or depth > _DEEPEST:
            return
        if isinstance(value, nn.Module):
            yield from of_all(value, path, depth)
            return
        seen.add(id(value))
        yield path, value
        if not isinstance(value, torch.Tensor):
            for step, part in _parts_of(value):
                yield from walk(part, path + step, depth + 1)

    def of_all(root: nn.Module, path: str, depth: int) -> Iterator[tuple[str, Any]]:
        owners = [one for one in root.named_modules() if id(one[1]) not in seen]
        seen.update(id(owner) for _, owner in owners)
        for name, owner in owners:
            for key, value in vars(owner).items():
                if not key.startswith("_"):
                    is_target = owner is module and isinstance(value, nn.Module)
                    place = path if is_target else f"{path}.{name}.{key}".replace("..", ".")
                    yield from walk(value, place.strip("."), depth)

    yield from of_all(module, "", 0)


def _parts_of(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{key}]", part) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [(f"[{number}]", part) for number, part in enumerate(value)]
    own = vars(value) if hasattr(value, "__dict__") and not isinstance(value, type) else {}
    return [(f".{key}", part) for key, part in own.items()]
