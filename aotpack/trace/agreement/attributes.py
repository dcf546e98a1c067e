"""What a model's Python attributes hold: kept before a run, then compared and put back.

Attributes of all modules and of objects in them, and what stands in lists, dicts and sets. A
tensor is kept as the object that it is, with its memory: its values are not copied.
"""

import copy
import enum
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from aotpack.trace.agreement.surroundings import Name, cache_in, surroundings
from aotpack.trace.agreement.values import difference
from aotpack.trace.methods import BoundMethod, root_of

_DEEPEST = 6  # attributes and items between a module and what is compared
_LONGEST = 4096  # items of one container that are looked into
_MOST = 300_000  # values in all
_PARTS = {
    "_parameters": "parameter",
    "_buffers": "buffer",
    "_modules": "module",
    "_forward_hooks": "hook",
    "_forward_pre_hooks": "hook",
}
PARTS = ("buffer", "parameter", "module")
_OF_PARTS = frozenset({*_PARTS.values(), "attribute"})
_OF_MODULES = frozenset(vars(nn.Module())) - {"training"}
_PLAIN = (int, float, complex, str, bytes, type(None), torch.device, torch.dtype)
_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType)
_CLOSED = (type, ModuleType, enum.Enum, torch.Tensor, *_FUNCTIONS, *_PLAIN)
_ARRAYS = (np.ndarray, bytearray, array)  # of numbers
_CONTAINERS = (dict, list, deque, tuple, set)
ABSENT = object()


@dataclass(frozen=True, slots=True)
class Change:
    """A place that holds something else than before; ``ABSENT`` where nothing stood or stands.

    ``path`` leads there from the model, ``local`` from the module that has it. ``kind`` is buffer,
    parameter, module or attribute; memory, of a tensor that has another one; values, of a tensor
    that was written to.
    """

    path: str
    local: str
    kind: str
    before: Any
    after: Any

    @property
    def is_registered(self) -> bool:
        """True for a buffer that was none before."""
        return self.kind == "buffer" and self.before is ABSENT


@dataclass(frozen=True, slots=True)
class _Holder:
    """A module's attributes, an object's, or a container, and what was in it."""

    value: Any
    path: str
    local: str
    kind: str
    held: Any

    def step(self, key: Any) -> tuple[str, str]:
        """The path to an item, from the model and from the module that has it."""
        if isinstance(self.value, BoundMethod) and key == "target":
            return self.path, self.local
        step = f"[{key!r}]" if self._is_container() else f".{key}"
        local = (self.local + step).strip(".") if self.kind in _OF_PARTS else ""
        return (self.path + step).strip("."), local

    def changes(self) -> Iterator[Change]:
        """What differs now."""
        now, held = held_by(self.value), self.held
        if isinstance(self.value, _ARRAYS):
            if bytes(held) != bytes(now):
                yield Change(self.path, self.local, self.kind, held, now)
        elif self._is_container() and _has_other_items(held, now):
            is_deque = isinstance(self.value, deque)
            pair = (deque(held), deque(now)) if is_deque else (held, now)
            yield Change(self.path, self.local, self.kind, *pair)
        elif isinstance(now, dict):
            for key in dict.fromkeys((*held, *now)):
                if not (isinstance(self.value, nn.Module) and key in _OF_MODULES):
                    yield from self._change(key, held.get(key, ABSENT), now.get(key, ABSENT))
        elif isinstance(now, list):
            for place, (before, after) in enumerate(zip(held, now, strict=True)):
                yield from self._change(place, before, after)

    def _is_container(self) -> bool:
        """False for attributes, and for the parameters, buffers and submodules of a module."""
        return self.kind not in _PARTS.values() and isinstance(self.value, _CONTAINERS)

    def _change(self, key: Any, before: Any, after: Any) -> Iterator[Change]:
        if not _is_same(before, after):
            yield Change(*self.step(key), self.kind, before, after)

    def restore(self) -> None:
        """Put back what was in it."""
        value = self.value
        if isinstance(value, np.ndarray):
            value[...] = self.held
        elif isinstance(value, (bytearray, array)):
            value[:] = self.held
        elif isinstance(value, (list, deque)):
            value.clear()
            value.extend(self.held)
        elif isinstance(value, set):
            value.clear()
            value.update(self.held)
        elif not _is_dict(value) and not hasattr(value, "__dict__"):
            for key, one in self.held.items():
                object.__setattr__(value, key, one)
        else:
            own = value if _is_dict(value) else vars(value)
            kind = OrderedDict if isinstance(own, OrderedDict) else dict
            kind.clear(own)
            kind.update(own, self.held)


@dataclass(frozen=True, slots=True)
class _Memory:
    """A tensor, and another one of the memory that it had."""

    tensor: torch.Tensor
    alias: torch.Tensor
    path: str
    local: str
    version: int

    def is_kept(self) -> bool:
        return _layout(self.tensor) == _layout(self.alias)

    def is_written(self) -> bool:
        return self.is_kept() and version_of(self.tensor) != self.version

    def change(self, kind: str) -> Change:
        return Change(self.path, self.local, kind, self.alias, self.tensor)


@dataclass(frozen=True, slots=True)
class _Named:
    """A name outside of modules, and what stood there; of a cache, how often it was filled."""

    name: Name
    value: Any
    filled: int

    def changes(self) -> Iterator[Change]:
        now = self.name.get(ABSENT)
        if not _is_same(self.value, now):
            yield Change(self.name.path, "", self.name.kind, self.value, now)
        if _filled(self.value) != self.filled:
            yield Change(self.name.path, "", "cache", self.value, self.value)

    def restore(self) -> None:
        if not _is_same(self.value, self.name.get(ABSENT)):
            self.name.put(self.value, ABSENT)
        if _filled(self.value) != self.filled:
            cache_in(self.value).cache_clear()


class Attributes:
    """What modules hold at one moment; paths begin with their names."""

    def __init__(self, modules: Mapping[str, nn.Module]) -> None:
        self._names: list[_Named] = []
        self._holders: list[_Holder] = []
        self._memories: list[_Memory] = []
        self._seen: set[int] = set()
        for path, module in modules.items():
            self._visit(module, path, "", 0, "attribute")
        for name in surroundings([root_of(one) for one in modules.values()]):
            value = name.get(ABSENT)
            self._names.append(_Named(name, value, _filled(value)))
            self._visit(value, name.path, "", 0, name.kind)

    def changes(self) -> list[Change]:
        """What it holds now and did not hold then."""
        found = [change for holder in self._holders for change in holder.changes()]
        found += [one for name in self._names for one in name.changes()]
        found += [one.change("memory") for one in self._memories if not one.is_kept()]
        return found

    def writes(self) -> list[Change]:
        """The tensors that were written to since, in whatever it holds."""
        return [one.change("values") for one in self._memories if one.is_written()]

    def restore(self) -> None:
        """Put back what it held."""
        for one in self._memories:
            if not one.is_kept():
                one.tensor.data = one.alias
        for holder in self._holders:
            if any(True for _ in holder.changes()):
                holder.restore()
        for name in self._names:
            name.restore()

    @contextmanager
    def values_kept(self, module: nn.Module) -> Iterator[None]:
        """Put back what the block writes to tensors that are no parameters or buffers.

        torch.export runs operators on such tensors while it records them.
        """
        own = {id(one) for one in (*module.parameters(), *module.buffers())}
        others = [one for one in self._memories if id(one.tensor) not in own]
        before = [(one.alias, version_of(one.alias), one.alias.clone()) for one in others]
        try:
            yield
        finally:
            with torch.inference_mode():
                for tensor, version, values in before:
                    uncounted = tensor.is_inference() and not torch.equal(tensor, values)
                    if uncounted or version_of(tensor) != version:
                        tensor.copy_(values)

    def storages(self) -> set[int]:
        """The memories of its tensors, as ``storage_of`` tells them."""
        return {storage_of(one.alias) for one in self._memories}

    def _visit(self, value: Any, path: str, local: str, depth: int, kind: str) -> None:
        """Keep what a value holds, and what that holds."""
        if isinstance(value, torch.Tensor):
            self._visit_tensor(value, path, local)
        if isinstance(value, nn.Module):
            local, depth = "", 0
        if id(value) in self._seen or depth > _DEEPEST or len(self._seen) > _MOST:
            return
        held = held_by(value)
        if held is None:
            return
        self._seen.add(id(value))
        holder = _Holder(value, path, local, kind, held)
        self._holders.append(holder)
        inner = "attribute" if kind in _PARTS.values() else kind
        parts = [] if isinstance(value, _ARRAYS) else list(_items(held))[:_LONGEST]
        for key, part in parts:
            if not isinstance(value, nn.Module) or key not in _OF_MODULES:
                self._visit(part, *holder.step(key), depth + 1, inner)
            elif key in _PARTS:
                self._visit(part, path, local, depth, _PARTS[key])

    def _visit_tensor(self, tensor: torch.Tensor, path: str, local: str) -> None:
        is_plain = type(tensor) in (torch.Tensor, nn.Parameter, nn.Buffer)
        if is_plain and tensor.layout is torch.strided and id(tensor) not in self._seen:
            self._seen.add(id(tensor))
            made = _Memory(tensor, tensor.detach(), path, local, version_of(tensor))
            self._memories.append(made)


def held_by(value: Any) -> Any:
    """A copy of what a value holds: a dict, a list, a tuple or a set; None if nothing."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, _ARRAYS):
        return copy.copy(value)
    if isinstance(value, (list, deque)):
        return list(value)
    if isinstance(value, set):
        return set(value)
    if _is_dict(value):
        return dict(dict.items(value))  # some make what they are asked for
    is_of_torch = type(value).__module__.partition(".")[0] == "torch"
    if isinstance(value, _CLOSED) or (is_of_torch and not isinstance(value, nn.Module)):
        return None
    if hasattr(value, "__dict__"):
        return dict(vars(value))
    slots = [getattr(kind, "__slots__", ()) for kind in type(value).__mro__]
    names = [name for one in slots for name in ([one] if isinstance(one, str) else one)]
    return {name: getattr(value, name) for name in names if hasattr(value, name)} or None


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict) and not isinstance(value, nn.Module)


def tensors_in(value: Any, depth: int = _DEEPEST) -> Iterator[torch.Tensor]:
    """The tensors that a value is or holds."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and not isinstance(value, _ARRAYS):
        for _, part in list(_items(held_by(value) or ()))[:_LONGEST]:
            yield from tensors_in(part, depth - 1)


def is_alike(one: Any, other: Any, depth: int = _DEEPEST) -> bool:
    """True for values that are the same to who reads them, up to roundings."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one is other or difference(one, other) is None
    if isinstance(one, _ARRAYS):
        return bytes(one) == bytes(other)
    parts, others = held_by(one), held_by(other)
    if parts is None or isinstance(one, set) or not depth:
        return _is_same(one, other) or (isinstance(one, set) and one == other)
    if len(parts) != len(others) or (isinstance(parts, dict) and {*parts} != {*others}):
        return False
    theirs = dict(_items(others))
    return all(is_alike(part, theirs[key], depth - 1) for key, part in _items(parts))


def storage_of(tensor: torch.Tensor) -> int:
    """A number for the memory of a tensor that lives; -1 for one without."""
    is_plain = tensor.layout is torch.strided
    return tensor.untyped_storage()._cdata if is_plain else -1


def _filled(value: Any) -> int:
    """How often a cache of functools was filled; 0 for anything else."""
    cache = cache_in(value)
    return 0 if cache is None else int(cache.cache_info().misses)


def _items(held: Any) -> Iterator[tuple[Any, Any]]:
    return iter(held.items()) if isinstance(held, dict) else enumerate(held)


def version_of(tensor: torch.Tensor) -> int:
    """A number that each write to a tensor changes."""
    return 0 if tensor.is_inference() else tensor._version


def _layout(tensor: torch.Tensor) -> tuple[object, ...]:
    return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


def _has_other_items(held: Any, now: Any) -> bool:
    """True for another number of items, or other keys."""
    return len(held) != len(now) or (isinstance(now, (dict, set)) and {*held} != {*now})


def _is_same(before: Any, after: Any) -> bool:
    if before is after:
        return True
    if type(before) is not type(after):
        return False
    if isinstance(before, tuple):
        return len(before) == len(after) and all(map(_is_same, before, after))
    return isinstance(before, _PLAIN) and (before == after or repr(before) == repr(after))  # NaN
