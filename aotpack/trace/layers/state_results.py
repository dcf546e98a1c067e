"""What a call gives back of arguments that are state, and which of its results share memory.

A package writes its state at the end of a call. So what lies in memory of state, or of two tensors
of state, is copied before:

    {"last": st["h"], "st": {"h": st["h"] + x}}   ->   last = st["h"].clone()
                                                       st["h"].copy_(st["h"] + x)
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.utils import _pytree as pytree

from aotpack.errors import UsageError
from aotpack.trace.agreement.attributes import Attributes, storage_of
from aotpack.trace.agreement.writes import Writes
from aotpack.trace.methods import Method
from aotpack.trace.tree import LEAF, tree_of
from aotpack.trees import Tree

State: TypeAlias = dict[str, torch.Tensor]
"""Tensors of state by name."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The state that a call on the example gives, and what is copied first or not at all."""

    tensors: State
    kept: frozenset[str]  # state that is its own new one: written to in place, if at all
    copied: frozenset[str]  # state whose new one lies in the memory of state, or of another's
    results: frozenset[int]  # leaves of the other results that lie in the memory of state

    def state_apart(self, found: State) -> State:
        """What state is to be, where it is not so already."""
        return {
            key: tensor.clone() if key in self.copied else tensor
            for key, tensor in found.items()
            if key not in self.kept
        }

    def results_apart(self, rest: dict[str, Any]) -> dict[str, Any]:
        """The results, in memory of their own."""
        leaves, spec = pytree.tree_flatten(rest)
        own = [leaf.clone() if n in self.results else leaf for n, leaf in enumerate(leaves)]
        made: dict[str, Any] = pytree.tree_unflatten(own, spec)
        return made


def tensors_of(given: Mapping[str, Any], names: Iterable[str]) -> State:
    """The tensors of arguments or results, by their names and paths."""
    return _only_tensors(_leaves(given, names))


def keys_of(name: str, spec: pytree.TreeSpec) -> list[str]:
    """A name for each leaf: ``cache_layers_0_keys``."""
    return [*_paths(tree_of(spec, repeat(LEAF), "example"), name)]


def returned(label: str, module: nn.Module, method: Method, names: tuple[str, ...]) -> Returned:
    """What a call on the example gives of the state; the module is afterwards as before."""
    args, kwargs = pytree.tree_map(_apart, (method.args, dict(method.kwargs or {})))
    given = _leaves(kwargs, names)
    state = _only_tensors(given)
    layouts = {key: _layout(one) for key, one in state.items()}
    try:
        result = _called(module, args, kwargs)
    except Exception as error:
        raise UsageError(
            f"making arguments state: {label!r} fails on its example: {type(error).__name__}: "
            f"{error}"
        ) from error
    if not isinstance(result, Mapping) or not all(name in result for name in names):
        found = ", ".join(map(str, result)) if isinstance(result, Mapping) else "no names"
        raise UsageError(
            f"making arguments state: the result of {label!r} has {found}; it is a dict, or an "
            f"output of transformers, with {', '.join(names)}"
        )
    leaves = _leaves(result, names)
    _check_numbers(label, given, leaves)
    new = _only_tensors(leaves)
    kept = {key for key, one in new.items() if layouts.get(key) == _layout(one)}
    places = {storage_of(one) for one in state.values() if one.numel()}
    copied, seen = set(), set(places)
    for key, tensor in new.items():
        if key not in kept and storage_of(tensor) in seen:
            copied.add(key)
        seen.add(storage_of(tensor))
    rest = pytree.tree_leaves({key: one for key, one in result.items() if key not in names})
    shared = {n for n, one in enumerate(rest) if _is_in(one, places)}
    return Returned(new, frozenset(kept), frozenset(copied), frozenset(shared))


def _called(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result; what the call changes of the module is put back."""
    before = Attributes({"": module})
    writes = Writes(before.storages())
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), writes:
            return module(*args, **kwargs)
    finally:
        with torch.no_grad():
            writes.restore()
        before.restore()


def _apart(leaf: Any) -> Any:
    """A copy in memory of its own: in a package each tensor of state has that."""
    return leaf.clone() if isinstance(leaf, torch.Tensor) else copy.deepcopy(leaf)


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    place = (storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride())
    return (*place, tensor.is_conj(), tensor.is_neg())


def _is_in(value: Any, places: set[int]) -> bool:
    return isinstance(value, torch.Tensor) and storage_of(value) in places


def _check_numbers(label: str, given: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """What is no tensor comes back as it was given."""
    for key in [key for key in given if key in found]:
        before, after = given[key], found[key]
        tensors = isinstance(before, torch.Tensor), isinstance(after, torch.Tensor)
        if all(tensors):
            continue
        if any(tensors) or (isinstance(before, _PLAIN) and before != after):
            raise UsageError(
                f"making arguments state: {key} is {_shown(before)}, and comes back as "
                f"{_shown(after)} from {label!r}. A build fixes what is no tensor: make it one, "
                f"torch.tensor({before if not any(tensors) else 0})"
            )


_PLAIN = (bool, int, float, complex, str, type(None))


def _shown(value: Any) -> str:
    return "a tensor" if isinstance(value, torch.Tensor) else repr(value)


def _leaves(given: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The leaves of arguments or results, by their names and paths."""
    found: dict[str, Any] = {}
    for name in names:
        leaves, spec = pytree.tree_flatten(given.get(name))
        for key, leaf in zip(keys_of(name, spec), leaves, strict=True):
            if key in found:
                raise UsageError(
                    f"making arguments state: two places would both be called {key!r}; rename the "
                    "keys that lead there"
                )
            found[key] = leaf
    return found


def _only_tensors(leaves: Mapping[str, Any]) -> State:
    return {key: leaf for key, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}


def _paths(tree: Tree, path: str) -> Iterator[str]:
    if tree.kind == "leaf":
        yield path
    for step, child in zip(tree.keys or range(len(tree.children)), tree.children, strict=True):
        yield from _paths(child, f"{path}_{step}")
