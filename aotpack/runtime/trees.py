"""Pytrees of arguments and results: flattens and rebuilds them as the manifest describes.

Leaves are numbered in order of appearance, which is the order of the signature's tensors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Annotated, Any

from .errors import ArgumentError
from .files.kinds import read_constant
from .files.schema import Mismatch, OneOf, Parsed

_KINDS = ("leaf", "none", "tuple", "list", "dict", "object", "constant")
_PARENTS = {"tuple", "list", "dict", "object"}
_KEYED = {"dict", "object"}


@dataclass(frozen=True, slots=True)
class Tree:
    """A node of the structure; ``keys`` are for "dict" and "object", ``value`` for "constant"."""

    kind: Annotated[str, OneOf(_KINDS)]
    children: tuple["Tree", ...] = ()
    keys: tuple[str, ...] = ()
    value: Annotated[bool | int | float | str | None, Parsed(read_constant)] = None

    def __post_init__(self) -> None:
        if self.children and self.kind not in _PARENTS:
            raise Mismatch("a list", f"nothing below a {self.kind}").within("children")
        keys = len(self.children) if self.kind in _KEYED else 0
        if len(self.keys) != keys or len({*self.keys}) != keys:
            raise Mismatch(f"a list of {len(self.keys)}", f"{keys} different keys").within("keys")

    @property
    def leaves(self) -> int:
        """The number of tensors below."""
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)


class Record(dict[str, Any]):
    """A named record: entries are attributes too, and an integer picks by position."""

    def __getattr__(self, name: str) -> Any:
        try:
            return dict.__getitem__(self, name)
        except KeyError:
            raise AttributeError(f"this record has {', '.join(self)}, not {name!r}") from None

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, slice)):
            return tuple(self.values())[key]
        return dict.__getitem__(self, key)


def flatten(tree: Tree, value: Any, path: str, leaves: list[Any]) -> None:
    """Append the tensors of ``value`` to ``leaves``; ``path`` names the value in errors."""
    kind = tree.kind
    if kind == "leaf":
        leaves.append(value)
    elif kind in ("tuple", "list"):
        _flatten_sequence(tree, value, path, leaves)
    elif kind in ("dict", "object"):
        _flatten_mapping(tree, value, path, leaves)
    elif kind == "none":
        if value is not None:
            raise ArgumentError(f"{path} is {_kind_of(value)}; the model was traced with None here")
    elif type(value) is not type(tree.value) or value != tree.value:
        raise ArgumentError(
            f"{path} is {value!r}; the model was traced with {tree.value!r}, which became part of "
            "the program. Pass that value, or build another package."
        )


def _flatten_sequence(tree: Tree, value: Any, path: str, leaves: list[Any]) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != len(tree.children):
        found = f"{_kind_of(value)}"
        if isinstance(value, (tuple, list)):
            found += f" of {len(value)}"
        raise ArgumentError(f"{path} is {found}; accepted: {tree.kind} of {len(tree.children)}")
    for index, (child, item) in enumerate(zip(tree.children, value, strict=True)):
        flatten(child, item, f"{path}[{index}]", leaves)


def _flatten_mapping(tree: Tree, value: Any, path: str, leaves: list[Any]) -> None:
    if isinstance(value, Mapping):
        items = {key: value[key] for key in value if tree.kind == "dict" or value[key] is not None}
    elif tree.kind == "object":
        items = {key: getattr(value, key) for key in tree.keys if hasattr(value, key)}
    else:
        raise ArgumentError(f"{path} is {_kind_of(value)}; accepted: dict with {_list(tree.keys)}")
    missing = [key for key in tree.keys if key not in items]
    extra = [str(key) for key in items if key not in tree.keys]
    if missing or extra:
        wrong = f"lacks {_list(missing)}" if missing else f"has {_list(extra)} too many"
        raise ArgumentError(f"{path} {wrong}; accepted: exactly {_list(tree.keys)}")
    for key, child in zip(tree.keys, tree.children, strict=True):
        flatten(child, items[key], f"{path}[{key!r}]", leaves)


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The value with structure ``tree`` over ``leaves``."""
    return _build(tree, iter(leaves))


def unflattener(tree: Tree) -> Callable[[Sequence[Any]], Any]:
    """``unflatten`` specialised to one structure; flat sequences take a fast path."""
    if tree.kind == "leaf":
        return itemgetter(0)
    if tree.kind in ("tuple", "list") and all(child.kind == "leaf" for child in tree.children):
        return tuple if tree.kind == "tuple" else list
    return partial(unflatten, tree)


def _build(tree: Tree, leaves: Iterator[Any]) -> Any:
    kind = tree.kind
    if kind == "leaf":
        return next(leaves)
    if kind in ("none", "constant"):
        return tree.value
    children = [_build(child, leaves) for child in tree.children]
    if kind == "tuple":
        return tuple(children)
    if kind == "list":
        return children
    entries = zip(tree.keys, children, strict=True)
    return dict(entries) if kind == "dict" else Record(entries)


def _kind_of(value: Any) -> str:
    return type(value).__name__


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"
