"""Python values outside of modules that their code can change: in comes what is called, out names.

Global variables, class attributes, variables of closures, defaults, attributes of functions and
caches of ``functools``, as far as functions of the model's own files reach them by name. Files of
installed libraries count where they have a class of the model.
"""

import functools
import sys
import sysconfig
import threading
from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
from torch import nn

_MOST = 50_000
_LIBRARIES = frozenset({*sys.stdlib_module_names, "torch", "numpy", "triton", "aotpack"}) - {
    "__main__"
}
_INSTALLED = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
_CONTAINERS = (dict, OrderedDict, defaultdict, list, deque, set)
_ARRAYS = (np.ndarray, bytearray, array)
_PLAIN = (int, float, complex, str, bool, bytes, tuple, type(None), torch.Tensor, *_ARRAYS)
_HOLDERS = (SimpleNamespace, Counter, WeakKeyDictionary, WeakValueDictionary, threading.local)
_FUNCTIONS = (FunctionType, MethodType, staticmethod, classmethod, property, functools.partial)
_CACHES: Any = type(functools.lru_cache(len))

Owner: TypeAlias = dict[str, Any] | CellType | type


@dataclass(frozen=True, slots=True)
class Name:
    """A name that stands for a value: of a namespace, a class or a closure."""

    owner: Owner
    key: str
    path: str
    kind: str

    def get(self, default: Any) -> Any:
        match self.owner:
            case CellType():
                try:
                    return self.owner.cell_contents
                except ValueError:
                    return default
            case type():
                return vars(self.owner).get(self.key, default)
        return self.owner.get(self.key, default)

    def put(self, value: Any, absent: Any) -> None:
        """Make it stand for a value, or for none again."""
        match self.owner:
            case CellType() if value is absent:
                del self.owner.cell_contents
            case CellType():
                self.owner.cell_contents = value
            case type() if value is absent:
                delattr(self.owner, self.key)
            case type():
                setattr(self.owner, self.key, value)
            case _ if value is absent:
                del self.owner[self.key]
            case _:
                self.owner[self.key] = value


def surroundings(modules: Sequence[nn.Module]) -> list[Name]:
    """The names that functions of the modules and of their classes reach."""
    walk = _Walk({type(module).__module__ for one in modules for module in one.modules()})
    for one in modules:
        for module in one.modules():
            walk.visit(type(module))
            for value in vars(module).values():
                for part in value.values() if isinstance(value, dict) else (value,):
                    walk.visit(part)
    walk.finish()
    return list(walk.names.values())


@contextmanager
def without_caches(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Inside the block, functions with a cache compute anew, of sizes that no cache takes too."""
    absent = object()
    cached = [(name, name.get(absent)) for name in surroundings(modules)]
    cached = [(name, value) for name, value in cached if cache_in(value) is not None]
    for name, value in cached:
        name.put(_uncached(value), absent)
    try:
        yield
    finally:
        for name, value in cached:
            name.put(value, absent)


def cache_in(value: Any) -> Any:
    """A function with a cache of functools, given as it is or as a static method; None if none."""
    inner = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    return inner if isinstance(inner, _CACHES) else None


def _uncached(value: Any) -> Any:
    plain = cache_in(value).__wrapped__
    return type(value)(plain) if isinstance(value, (staticmethod, classmethod)) else plain


class _Walk:
    """From values to the names that their functions and classes reach."""

    def __init__(self, own: set[str]) -> None:
        self.names: dict[tuple[int, str], Name] = {}
        self._own = own
        self._seen: set[int] = set()
        self._waiting: list[Any] = []
        self._is_walked: dict[str, bool] = {}

    def visit(self, value: Any) -> None:
        """Walk a value's function, class or object later."""
        is_new = id(value) not in self._seen and len(self._seen) < _MOST
        is_walked = isinstance(value, (*_FUNCTIONS, _CACHES, type)) or self._is_object(value)
        if is_new and is_walked:
            self._seen.add(id(value))
            self._waiting.append(value)

    def finish(self) -> None:
        while self._waiting:
            match self._waiting.pop():
                case FunctionType() as function:
                    self._function(function)
                case type() as kind:
                    self._class(kind)
                case MethodType() | staticmethod() | classmethod() as bound:
                    self.visit(bound.__func__)
                case property() as one:
                    self.visit(one.fget)
                    self.visit(one.fset)
                case functools.partial() as one:
                    self.visit(one.func)
                    for given in one.args, one.keywords:
                        self._add({"": given}, "", "a partial function", "argument")
                case other:
                    self.visit(getattr(other, "__wrapped__", type(other)))

    def _function(self, function: FunctionType) -> None:
        if not self._walks(function.__module__):
            return
        used = set(_names_in(function.__code__))
        for key in sorted(used & function.__globals__.keys()):
            value = function.__globals__[key]
            self._name(function.__globals__, key, key, "global variable")
            if isinstance(value, type) and self._walks(value.__module__):
                self._attributes(value, used)
            if isinstance(value, ModuleType) and self._walks(value.__name__):
                for inner in sorted(used & vars(value).keys()):
                    self._name(vars(value), inner, f"{key}.{inner}", "global variable")
        for key, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._name(cell, key, key, "variable")
        own = {"__defaults__": function.__defaults__, "__kwdefaults__": function.__kwdefaults__}
        for key, value in (own | vars(function)).items():
            self.visit(value)
            if value:
                self._add({key: value}, key, f"{function.__name__}.{key}", "default")
        self._add({"": vars(function)}, "", function.__name__, "function")

    def _class(self, kind: type) -> None:
        """The attributes of a class, and those that its functions name, which it may get."""
        for base in kind.__mro__:
            if self._walks(base.__module__):
                values = list(vars(base).items())
                codes = [one.__code__ for _, one in values if isinstance(one, FunctionType)]
                self._attributes(base, {name for code in codes for name in _names_in(code)})
                for key, value in values:
                    self.visit(value)
                    self._attributes(base, {key})
                    self._attributes(kind, {key})

    def _attributes(self, kind: type, keys: set[str]) -> None:
        for key in sorted(keys):
            if not key.startswith("__"):
                self._name(kind, key, f"{kind.__name__}.{key}", "class attribute")

    def _name(self, owner: Owner, key: str, path: str, kind: str) -> None:
        value = Name(owner, key, path, kind).get(None)
        self.visit(value)
        is_plain = isinstance(value, _PLAIN) or type(value) in _CONTAINERS
        if is_plain or cache_in(value) is not None or self._is_object(value):
            self._add(owner, key, path, kind)

    def _add(self, owner: Owner, key: str, path: str, kind: str) -> None:
        self.names.setdefault((id(owner), key), Name(owner, key, path, kind))

    def _is_object(self, value: Any) -> bool:
        """True for an object of a class that is walked, or one that only holds others."""
        if isinstance(value, _HOLDERS):
            return True
        return not isinstance(value, (type, ModuleType)) and self._walks(type(value).__module__)

    def _walks(self, module: str | None) -> bool:
        """True for the user's files, and for those that have a class of the model."""
        if module is None:
            return False
        if module not in self._is_walked:
            self._is_walked[module] = self._is_own(module)
        return self._is_walked[module]

    def _is_own(self, module: str) -> bool:
        if module.partition(".")[0] in _LIBRARIES:
            return False
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        return module in self._own or not file.startswith(_INSTALLED)


def _names_in(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes in a function and the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
