"""Arguments that come back as results, such as caches of transformers, as state of a package.

Tensors of such a structure are matched by their paths: what a method gives under a path is what
the next call of any method takes there. Values that are no tensors are those of the example.
"""

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from aotpack.errors import UsageError
from aotpack.trace.methods import Method
from aotpack.trace.tree import LEAF, tree_of
from aotpack.trees import Tree

State: TypeAlias = dict[str, torch.Tensor]
"""Tensors of state by name."""


def with_state(methods: Mapping[str, Method], *names: str) -> dict[str, Method]:
    """The methods without the keyword arguments and results called ``names``, which are state.

    State begins as the example of the first method that takes it, else with zeros.
    """
    if not names:
        raise UsageError("making arguments state: none is named; with_state(methods, 'cache')")
    modules = {label: _module(one.function) for label, one in methods.items()}
    held: State = {}
    for label, one in methods.items():
        _check_given(label, one, names)
        for name in names:
            given = (one.kwargs or {}).get(name)
            for key, tensor in _tensors(name, given).items():
                _check_same(label, key, held.setdefault(key, tensor.detach().clone()), tensor)
    for label, one in methods.items():
        for key, tensor in _results(label, modules[label], one, names).items():
            start = torch.zeros_like(tensor) if key not in held else held[key]
            _check_same(label, key, held.setdefault(key, start), tensor)
    return {label: _method(modules[label], one, names, held) for label, one in methods.items()}


def _module(function: Any) -> nn.Module:
    """A module that may get buffers."""
    if isinstance(function, ExportedProgram):
        return function.module()
    if not isinstance(function, nn.Module):
        kind = type(function).__name__
        raise UsageError(
            f"making arguments state: a method is a {kind}; a torch.nn.Module and a "
            "torch.export.ExportedProgram are accepted"
        )
    own = copy.copy(function)
    own.__dict__["_buffers"] = dict(function._buffers)
    return own


def _check_given(label: str, method: Method, names: tuple[str, ...]) -> None:
    lacking = [name for name in names if name not in (method.kwargs or {})]
    if lacking:
        given = ", ".join(method.kwargs or {}) or "none"
        raise UsageError(
            f"making arguments state: {lacking[0]!r} is no keyword argument of the example of "
            f"{label!r}; it has {given}"
        )


def _check_same(label: str, key: str, held: torch.Tensor, found: torch.Tensor) -> None:
    if (held.shape, held.dtype) != (found.shape, found.dtype):
        raise UsageError(
            f"making arguments state: {key} is {_shown(held)}, and {_shown(found)} in {label!r}; "
            "state has one shape and type: a StaticCache has, a DynamicCache grows"
        )


def _shown(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{[*tensor.shape]}"


def _tensors(name: str, value: Any) -> State:
    """The tensors of a structure, by the argument's name and their paths."""
    leaves, spec = pytree.tree_flatten(value)
    keys = zip(_keys(name, spec), leaves, strict=True)
    return {key: leaf for key, leaf in keys if isinstance(leaf, torch.Tensor)}


def _keys(name: str, spec: pytree.TreeSpec) -> list[str]:
    """A name for each leaf: ``cache_layers_0_keys``."""
    return [*_paths(tree_of(spec, repeat(LEAF), "example"), name)]


def _paths(tree: Tree, path: str) -> Iterator[str]:
    if tree.kind == "leaf":
        yield path
    for step, child in zip(tree.keys or range(len(tree.children)), tree.children, strict=True):
        yield from _paths(child, f"{path}_{step}")


def _results(label: str, module: nn.Module, method: Method, names: tuple[str, ...]) -> State:
    """What a call on the example gives of the state."""
    with torch.no_grad():
        args, kwargs = copy.deepcopy((method.args, dict(method.kwargs or {})))
        result = module(*args, **kwargs)
    if not isinstance(result, Mapping) or not all(name in result for name in names):
        found = ", ".join(map(str, result)) if isinstance(result, Mapping) else "no names"
        raise UsageError(
            f"making arguments state: the result of {label!r} has {found}; it is a dict, or an "
            f"output of transformers, with {', '.join(names)}"
        )
    return {key: one for name in names for key, one in _tensors(name, result[name]).items()}


@dataclass(frozen=True, slots=True)
class _Argument:
    """How an argument is made of state: a tensor's name, or a value, for each leaf."""

    leaves: tuple[Any, ...]
    is_state: tuple[bool, ...]
    spec: Any

    def made(self, held: Mapping[str, Any]) -> Any:
        pairs = zip(self.leaves, self.is_state, strict=True)
        return pytree.tree_unflatten([held[n] if own else n for n, own in pairs], self.spec)


class Stateful(nn.Module):
    """A module whose state is an argument and a result of the one inside, by names of both."""

    def __init__(self, inner: nn.Module, made_of: Mapping[str, _Argument], held: State) -> None:
        super().__init__()
        parts = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
        self.__dict__.update({part: inner.__dict__[part] for part in parts})
        self.__dict__["inner"] = inner  # not as a part: names are those in it
        self._made_of = dict(made_of)
        for key, tensor in held.items():
            self.register_buffer(key, tensor, persistent=False)

    def called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The results that are no state, which is changed."""
        state = {name: one.made(self._buffers) for name, one in self._made_of.items()}
        result = self.__dict__["inner"](*args, **kwargs, **state)
        for name in self._made_of:
            for key, tensor in _tensors(name, result[name]).items():
                self.get_buffer(key).copy_(tensor)
        rest = {key: one for key, one in result.items() if key not in self._made_of}
        return type(result)(**rest) if type(result) is not dict else rest

    def train(self, mode: bool = True) -> "Stateful":
        """The module inside keeps its mode: programs have theirs for ever."""
        self.training = mode
        return self


def _method(module: nn.Module, method: Method, names: tuple[str, ...], held: State) -> Method:
    made_of = {name: _argument(name, (method.kwargs or {})[name]) for name in names}
    kwargs = {name: one for name, one in (method.kwargs or {}).items() if name not in names}
    shapes, program = method.dynamic_shapes, method.function
    if shapes is None and isinstance(program, ExportedProgram):
        shapes = _dynamic_shapes(program, names)
    if isinstance(shapes, Mapping):
        shapes = {name: one for name, one in shapes.items() if name not in names}

    def forward(self: Stateful, *args: Any, **given: Any) -> Any:
        return self.called(args, given)

    forward.__signature__ = _signature(module, kwargs, names)  # type: ignore[attr-defined]
    kind = type(Stateful.__name__, (Stateful,), {"forward": forward})
    return replace(
        method, function=kind(module, made_of, held), kwargs=kwargs, dynamic_shapes=shapes
    )


def _dynamic_shapes(program: ExportedProgram, names: tuple[str, ...]) -> Any:
    """The dynamic sizes of a program, but for those of its state, which are fixed."""
    user = {spec.arg.name for spec in program.graph_signature.input_specs if _is_input(spec)}
    nodes = [one for one in program.graph.find_nodes(op="placeholder") if one.name in user]
    args, kwargs = pytree.tree_unflatten(
        [node.meta["val"] for node in nodes], program.call_spec.in_spec
    )
    fixed = {str(one) for name in names for tensor in _leaves(kwargs[name]) for one in tensor.shape}
    dims = {name: one for name, one in _ranges(program).items() if name not in fixed}

    def sizes(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return None
        found = {n: str(one) for n, one in enumerate(tensor.shape) if not isinstance(one, int)}
        return {n: dims[size] for n, size in found.items() if size in dims}

    kept = {name: pytree.tree_map(sizes, one) for name, one in kwargs.items() if name not in names}
    return kept if dims and not args else None


def _is_input(spec: Any) -> bool:
    return spec.kind is InputKind.USER_INPUT


def _leaves(value: Any) -> list[torch.Tensor]:
    return [one for one in pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]


def _ranges(program: ExportedProgram) -> dict[str, Any]:
    """A size for each symbol of a program, with its range."""
    found = {}
    for symbol, bounds in program.range_constraints.items():
        most = int(bounds.upper) if bounds.upper.is_Integer else None
        found[str(symbol)] = Dim(str(symbol), min=int(bounds.lower), max=most)
    return found


def _argument(name: str, value: Any) -> _Argument:
    leaves, spec = pytree.tree_flatten(value)
    is_state = tuple(isinstance(leaf, torch.Tensor) for leaf in leaves)
    each = zip(_keys(name, spec), leaves, is_state, strict=True)
    return _Argument(tuple(key if own else leaf for key, leaf, own in each), is_state, spec)


def _signature(module: nn.Module, kwargs: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The parameters that are no state."""
    kinds = inspect.Parameter
    own = [*inspect.signature(module.forward).parameters.values()]
    if any(one.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) for one in own):
        own = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in kwargs]
    kept = [one for one in own if one.name not in names and one.name != "self"]
    return inspect.Signature([kinds("self", kinds.POSITIONAL_ONLY), *kept])
