"""Pytrees of arguments and results: flattens and rebuilds them as the manifest describes.

Leaves are numbered in order of appearance, which is the order of the signature's tensors.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated, Any

from ..errors import ArgumentError
from ..files.kinds import Constant
from ..files.schema import Mismatch, OneOf, shown
from .containers import NAMED, OBJECT, RECORD, container, is_plain

_CLASSES = (NAMED, RECORD, OBJECT)
_KINDS = ("leaf", "none", "tuple", "list", "dict", *_CLASSES, "constant")
_KEYED = {"dict", *_CLASSES}
_PARENTS = {"tuple", "list", *_KEYED}
_PLAIN = (type(None), bool, int, float, str)
_DICTS: dict[str, type[dict[str, Any]]] = {"": dict, "OrderedDict": OrderedDict}
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Tree:
    """A node of the structure; ``value`` is for "constant".

    ``keys`` name the children of a "dict" and of classes: "named" (a tuple), "record" (a
    dataclass), "object" (a dict whose keys are attributes too). These have a ``name``, and so has
    a "dict" that is an OrderedDict. ``fields`` are the attributes of a "record" or "object"; those
    that are no keys are None. Results follow the order of the keys ``in_order`` of a "dict".
    """

    kind: Annotated[str, OneOf(_KINDS)]
    children: "tuple[Tree, ...]" = ()  # whole in quotes: Python 3.10 resolves no part
    keys: tuple[str, ...] = ()
    value: Constant = None
    name: str = ""
    fields: tuple[str, ...] = ()
    in_order: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.children and self.kind not in _PARENTS:
            raise Mismatch("a list", f"nothing below a {self.kind}").within("children")
        keys = len(self.children) if self.kind in _KEYED else 0
        if len(self.keys) != keys or len({*self.keys}) != keys:
            raise Mismatch(f"a list of {len(self.keys)}", f"{keys} different keys").within("keys")
        if self.kind in _CLASSES:
            self._check_class()
        elif self.name not in (_DICTS if self.kind == "dict" else ("",)):
            raise Mismatch(shown(self.name), f"no name of a {self.kind}").within("name")
        if self.in_order and (self.kind != "dict" or not {*self.in_order} <= {*self.keys}):
            raise Mismatch(shown([*self.in_order]), "keys of a dict").within("in_order")

    def _check_class(self) -> None:
        if not all(map(is_plain, self.name.split("."))):
            raise Mismatch(shown(self.name), "the name of a class").within("name")
        if self.kind != NAMED and (
            not {*self.keys} <= {*self.fields} or len({*self.fields}) != len(self.fields)
        ):
            raise Mismatch(shown([*self.fields]), "different names, all keys among them").within(
                "fields"
            )
        for field in self.attributes if self.kind != OBJECT else ():
            if not is_plain(field):
                raise Mismatch(shown(field), "the name of an attribute").within("fields")

    @property
    def leaves(self) -> int:
        """The number of tensors below."""
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The fields of the class, in order."""
        return self.keys if self.kind == NAMED else self.fields


def flatten(tree: Tree, value: Any, path: str, leaves: list[Any]) -> None:
    """Append the tensors of ``value`` to ``leaves``; ``path`` names the value in errors."""
    kind = tree.kind
    if kind == "leaf":
        leaves.append(value)
    elif kind in ("tuple", "list"):
        _flatten_sequence(tree, value, path, leaves)
    elif kind == "dict":
        _flatten_dict(tree, value, path, leaves)
    elif kind in _CLASSES:
        _flatten_fields(tree, value, path, leaves)
    elif kind == "none":
        if value is not None:
            raise ArgumentError(
                f"{path!r} is {in_words(value)}; the model was traced with None here"
            )
    elif value is not tree.value and not is_same(tree.value, value):
        raise ArgumentError(
            f"{path!r} is {in_words(value, tree.value)}; the model was traced with "
            f"{in_words(tree.value, value)}, which became part of the program. Pass that value, or "
            "build another package."
        )


def is_same(constant: object, value: object) -> bool:
    """True for a value of the constant's type that reads as it; NaN is NaN, and 0.0 is not -0.0."""
    return type(value) is type(constant) and repr(value) == repr(constant)


def in_words(value: object, other: object = None) -> str:
    """A value in an error: what a constant may be as it reads, else its type.

    Beside ``other``, an equal value of another type: 2 (int), 2.0 (float).
    """
    if not isinstance(value, _PLAIN):
        return type(value).__name__
    is_alike = isinstance(other, _PLAIN) and value == other and type(value) is not type(other)
    return f"{value!r} ({type(value).__name__})" if is_alike else repr(value)


def _flatten_sequence(tree: Tree, value: Any, path: str, leaves: list[Any]) -> None:
    if not isinstance(value, (tuple, list)) or len(value) != len(tree.children):
        found = f"{_kind_of(value)}"
        if isinstance(value, (tuple, list)):
            found += f" of {len(value)}"
        raise ArgumentError(f"{path!r} is {found}; accepted: {tree.kind} of {len(tree.children)}")
    for index, (child, item) in enumerate(zip(tree.children, value, strict=True)):
        flatten(child, item, f"{path}[{index}]", leaves)


def _flatten_dict(tree: Tree, value: Any, path: str, leaves: list[Any]) -> None:
    if not isinstance(value, Mapping):
        raise ArgumentError(
            f"{path!r} is {_kind_of(value)}; accepted: dict with {_list(tree.keys)}"
        )
    missing = [key for key in tree.keys if key not in value]
    extra = [str(key) for key in value if key not in tree.keys]
    _check_keys(tree, path, missing, extra)
    if tree.in_order and (*value,) != tree.in_order:
        raise ArgumentError(f"{path!r} {order_in_words((*value,), tree.in_order)}")
    for key, child in zip(tree.keys, tree.children, strict=True):
        flatten(child, value[key], f"{path}[{key!r}]", leaves)


def order_in_words(found: Sequence[str], wanted: Sequence[str]) -> str:
    """Keys in another order than the example's, which results follow."""
    return (
        f"has its keys in the order {', '.join(map(repr, found))}, which results follow; give them "
        f"as the example did: {', '.join(map(repr, wanted))}"
    )


def _flatten_fields(tree: Tree, value: Any, path: str, leaves: list[Any]) -> None:
    """Anything with the fields as attributes or keys is accepted; others of it may be None."""
    if isinstance(value, Mapping):
        given = {key: value[key] for key in value}
    else:
        given = {key: getattr(value, key, _ABSENT) for key in tree.attributes}
        given = {key: part for key, part in given.items() if part is not _ABSENT}
        if not given:
            accepted = f"{tree.name} with {_list(tree.keys)}, or a dict of these"
            raise ArgumentError(f"{path!r} is {_kind_of(value)}; accepted: {accepted}")
    pairs = [*zip(tree.keys, tree.children, strict=True)]
    missing = [k for k, child in pairs if child.kind != "none" and k not in given]
    extra = [str(k) for k, part in given.items() if k not in tree.keys and part is not None]
    _check_keys(tree, path, missing, extra)
    for key, child in pairs:
        flatten(child, given.get(key), f"{path}.{key}", leaves)


def _check_keys(tree: Tree, path: str, missing: Sequence[str], extra: Sequence[str]) -> None:
    if missing or extra:
        wrong = f"lacks {_list(missing)}" if missing else f"has {_list(extra)} too many"
        raise ArgumentError(f"{path!r} {wrong}; accepted: exactly {_list(tree.keys)}")


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """The value with structure ``tree`` over ``leaves``."""
    return _builder(tree)(iter(leaves))


def unflattener(tree: Tree) -> Callable[[Sequence[Any]], Any]:
    """``unflatten`` specialised to one structure; flat ones take a fast path."""
    if tree.kind == "leaf":
        return itemgetter(0)
    if tree.children and all(child.kind == "leaf" for child in tree.children):
        return _maker(tree)
    build = _builder(tree)
    return lambda leaves: build(iter(leaves))


def _builder(tree: Tree) -> Callable[[Iterator[Any]], Any]:
    if tree.kind == "leaf":
        return next
    if tree.kind in ("none", "constant"):
        return lambda leaves: tree.value
    make, parts = _maker(tree), [_builder(child) for child in tree.children]
    return lambda leaves: make([part(leaves) for part in parts])


def _maker(tree: Tree) -> Callable[[Sequence[Any]], Any]:
    """Makes a node of the values of its children."""
    keys = tree.keys
    if tree.kind in ("tuple", "list"):
        return tuple if tree.kind == "tuple" else list
    if tree.kind == "dict":
        mapping = _DICTS[tree.name]
        return lambda values: mapping(zip(keys, values, strict=True))
    made = container(tree.kind, tree.name, tree.attributes)
    if tree.kind == NAMED:
        return made._make  # type: ignore[no-any-return]
    if tree.kind == RECORD:
        absent = dict.fromkeys(tree.fields)
        return lambda values: made(**absent | dict(zip(keys, values, strict=True)))
    return lambda values: made(zip(keys, values, strict=True))


def _kind_of(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"
