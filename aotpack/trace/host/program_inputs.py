"""Example inputs of a program that is exported already: they must be as it takes them."""

import re
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, CustomObjArgument, InputKind
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError
from aotpack.trace.operators.random.seeds import Example
from aotpack.trace.tree import leaf_paths

_ADVICE = "Give inputs like those that the program was exported with"


def check_program_inputs(label: str, program: ExportedProgram, example: Example) -> None:
    """Refuse other arguments, structures, types and fixed sizes than the program has."""
    args, kwargs = example
    spec = program.call_spec.in_spec
    taken, named = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    if len(taken) != len(args) or {*named} != {*kwargs}:
        wanted, given = _arguments(len(taken), named), _arguments(len(args), kwargs)
        raise _refusal(label, f"the exported program takes {wanted}, and given are {given}")
    leaves, found = pytree.tree_flatten((args, {name: kwargs[name] for name in named}))
    if found != spec:
        shown = f"{_structure(spec)}, and given is {_structure(found)}"
        raise _refusal(label, f"the exported program takes {shown} (* is a tensor or number)")
    rows = zip(leaf_paths(spec), _recorded(program), leaves, strict=True)
    faults = [
        f"{_place(path)} is {_shown(leaf)}, and the program takes {_shown(wish)}"
        for path, wish, leaf in rows
        if not _fits(wish, leaf)
    ]
    if faults:
        raise _refusal(label, "; ".join(faults[:3]))


def _refusal(label: str, fault: str) -> TraceError:
    return TraceError(f"tracing {label}: {fault}. {_ADVICE}.")


def _recorded(program: ExportedProgram) -> list[Any]:
    """What the program recorded of each input."""
    nodes = program.graph.find_nodes(op="placeholder")
    values = {node.name: node.meta.get("val") for node in nodes}
    specs = program.graph_signature.input_specs
    inputs = [one.arg for one in specs if one.kind is InputKind.USER_INPUT]
    return [x.value if isinstance(x, ConstantArgument) else values.get(x.name, x) for x in inputs]


def _fits(wish: Any, leaf: Any) -> bool:
    if isinstance(wish, (torch.SymInt, torch.SymFloat)):
        return isinstance(leaf, (int, float))
    if isinstance(wish, CustomObjArgument):  # refused later, in words
        return True
    if not isinstance(wish, torch.Tensor):
        return type(wish) is type(leaf) and wish == leaf
    if not isinstance(leaf, torch.Tensor) or wish.dtype != leaf.dtype or wish.dim() != leaf.dim():
        return False
    sizes = zip(wish.shape, leaf.shape, strict=True)
    return all(isinstance(size, torch.SymInt) or size == number for size, number in sizes)


def _arguments(count: int, named: Any) -> str:
    words = f"{count or 'no'} argument{'s' * (count != 1)} by position"
    return f"{words} and {', '.join(named)} by name" if named else words


def _shown(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"


def _structure(spec: pytree.TreeSpec) -> str:
    args, kwargs = pytree.tree_unflatten(["*"] * spec.num_leaves, spec)
    return f"{args} and {kwargs}".replace("'*'", "*")


def _place(path: str) -> str:
    """``argument 0`` for ``[0][0]``, ``argument k['a']`` for ``[1]['k']['a']``."""
    steps = re.match(r"\[[01]\]\['?(\w+)'?\](.*)", path)
    return f"argument {steps[1]}{steps[2]}" if steps else path
