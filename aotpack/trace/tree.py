"""torch pytree specs -> ``stages.Tree``; leaves are given in order, one Tree each."""

import dataclasses
import keyword
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from typing import Any

import torch
from torch.export.graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    CustomObjArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError, UnsupportedError
from aotpack.trace.diagnostics.complaint import CACHE_ADVICE
from aotpack.trees import ORDERED, Tree

LEAF = Tree("leaf")
_SEQUENCES = {tuple: "tuple", torch.Size: "tuple", list: "list"}
_TAG = "_t"  # of what transformers writes for a value of a cache
_READ, _SILENT = ("obj", "tensor", "sym"), ("type", "device", "dtype", "layout")
_MAPPINGS = (dict, OrderedDict, defaultdict)


def tree_of(spec: pytree.TreeSpec, leaves: Iterator[Tree], what: str) -> Tree:
    """The structure of ``spec`` with ``leaves`` in place; ``what`` names it in errors."""
    if spec.is_leaf():
        return next(leaves)
    children = tuple(tree_of(child, leaves, what) for child in children_of(spec))
    if spec.type in _SEQUENCES:
        return Tree(_SEQUENCES[spec.type], children)
    if spec.type.__module__ == "torch.return_types":  # such as the result of torch.sort
        name = f"torch.return_types.{spec.type.__name__}"
        return Tree("named", children, spec.type.__match_args__, name=name)
    if isinstance(spec.context, dict) and spec.context.get(_TAG) == "obj":
        return _object(spec, iter(children), what)
    keys = _keys(spec)
    if len(keys) != len(children):
        raise TraceError(
            f"the {what} contains a {spec.type.__name__}{_other_key(spec)}; tuples, lists, dicts "
            "with text keys, named tuples and registered dataclasses are accepted"
        )
    if spec.type in _MAPPINGS:
        return Tree("dict", children, keys, name=ORDERED if spec.type is OrderedDict else "")
    if hasattr(spec.context, "_fields"):
        return Tree("named", children, keys, name=_name_of(spec.context))
    own = [one.name for one in dataclasses.fields(spec.type)] if is_dataclass(spec.type) else []
    kind = "record" if own and not issubclass(spec.type, dict) else "object"
    fields = tuple(dict.fromkeys((*own, *keys)))
    return Tree(kind, children, keys, name=_name_of(spec.type), fields=fields)


def registered_fields(value: Any) -> dict[str, Any] | None:
    """What an object of a registered class holds, by field, None too; None for another object."""
    node = pytree.SUPPORTED_NODES.get(type(value))
    if node is None:
        return None
    if node.flatten_with_keys_fn is None:
        return {str(place): one for place, one in enumerate(node.flatten_fn(value)[0])}
    keyed, _ = node.flatten_with_keys_fn(value)
    found = {pytree.keystr((key,)).strip("[].'"): one for key, one in keyed}
    if not is_dataclass(value):
        return found
    return {one.name: found.get(one.name) for one in dataclasses.fields(value)}


def _object(spec: pytree.TreeSpec, leaves: Iterator[Tree], what: str) -> Tree:
    """A cache of transformers as records: its registration describes the attributes of objects."""
    name = spec.type.__name__
    if "DynamicCache" in (kind.__name__ for kind in spec.type.__mro__):
        raise TraceError(f"the {what} contains a {name}, which grows; {CACHE_ADVICE}")
    others = sorted({*_tags(spec.context)} - {*_READ, *_SILENT})
    if others:
        raise TraceError(
            f"the {what} contains a {name} with values of other kinds ({', '.join(others)}) than "
            "tensors, numbers, text and None in lists, dicts with text keys and objects; pass its "
            "tensors instead"
        )
    found = _described(spec.context, leaves)
    assert found is not None
    return found


def _tags(value: Any) -> Iterator[str]:
    """The kinds of values that are no plain data."""
    if isinstance(value, list):
        for part in value:
            yield from _tags(part)
    elif isinstance(value, dict):
        if _TAG in value:
            yield value[_TAG]
        for part in value.values():
            yield from _tags(part)


def _described(value: Any, leaves: Iterator[Tree]) -> Tree | None:
    """What transformers writes for a value; None for types and devices, which say nothing."""
    if value is None:
        return Tree("none")
    if isinstance(value, (bool, int, float, str)):
        return Tree("constant", value=value)
    if isinstance(value, list):
        return Tree("list", tuple(one for part in value if (one := _described(part, leaves))))
    tag = value.get(_TAG)
    if tag in ("tensor", "sym"):
        return next(leaves)
    if tag in _SILENT:
        return None
    parts = {key: _described(part, leaves) for key, part in (value["s"] if tag else value).items()}
    kept = {key: part for key, part in parts.items() if part is not None}
    children, keys = tuple(kept.values()), tuple(kept)
    if tag is None:
        return Tree("dict", children, keys)
    name = value["p"].rpartition(":")[2].rpartition(".")[2]
    return Tree("record", children, keys, name=name, fields=keys)


def check_counters(given: Tree, returned: Tree, name: str) -> None:
    """Refuse numbers of the host that change from an argument to the result of the same name."""
    results = dict(zip(returned.keys, returned.children, strict=False))
    for key, tree in zip(given.keys, given.children, strict=False):
        for path in _counters(tree, results.get(key, tree), key):
            raise TraceError(
                f"tracing {name}: {path[0]} is {path[1]} before the call and {path[2]} after it; "
                "a package has the first for ever. Use a cache that counts in tensors: layers of "
                "sliding windows count in Python, so replace them by StaticLayer(max_cache_len)"
            )


def _counters(before: Tree, after: Tree, path: str) -> Iterator[tuple[str, Any, Any]]:
    """(path, before, after) of each number that changes while the structure stays."""
    if before.keys != after.keys or len(before.children) != len(after.children):
        return
    steps = [f".{key}" for key in before.keys] or [f"[{n}]" for n in range(len(before.children))]
    for step, one, other in zip(steps, before.children, after.children, strict=True):
        yield from _counters(one, other, path + step)
    if before.kind == after.kind == "constant" and before.value != after.value:
        yield path, before.value, after.value


def leaf_paths(spec: pytree.TreeSpec, path: str = "") -> Iterator[str]:
    """The place of each leaf, as ``[0]['key']``; "" for a structure that is one."""
    if spec.is_leaf():
        yield path
        return
    children = children_of(spec)
    keys = _keys(spec)
    names: Sequence[str | int] = keys if len(keys) == len(children) else range(len(children))
    for name, child in zip(names, children, strict=True):
        yield from leaf_paths(child, f"{path}[{name!r}]")


def _name_of(kind: type) -> str:
    name = kind.__name__
    return name if name.isidentifier() and not keyword.iskeyword(name) else "Result"


def children_of(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    """The child specs; torch renamed the attribute to a method."""
    children: Any = spec.children() if hasattr(spec, "children") else spec.children_specs
    return list(children)


def leaf_of(argument: ArgumentSpec, what: str, name: str = "") -> Tree:
    """A tensor is a leaf, None is "none", a Python number or text is part of the structure.

    ``name`` is how errors call the argument, if not by its own name.
    """
    if isinstance(argument, TensorArgument):
        return LEAF
    if isinstance(argument, CustomObjArgument):
        raise UnsupportedError(
            f"the {what} {name or argument.name} is an object of the class "
            f"{argument.class_fqn}; tensors, numbers, texts and None are accepted. Give what the "
            "model needs of it, such as its value."
        )
    if not isinstance(argument, ConstantArgument):
        raise UnsupportedError(
            f"the {what} has a number that depends on a size ({name or argument.name}); tensors "
            "and fixed Python values are accepted. Keep the number out of the model, or make it a "
            "tensor."
        )
    value = argument.value
    return Tree("none") if value is None else Tree("constant", value=value)


def _keys(spec: pytree.TreeSpec) -> tuple[str, ...]:
    """Keys of a dict, fields of a named tuple, or keys of a registered class that have a value.

    Other structures have no keys.
    """
    keys = _context(spec)
    return tuple(keys) if all(isinstance(key, str) for key in keys) else ()


def _context(spec: pytree.TreeSpec) -> tuple[Any, ...]:
    """What a structure calls its parts."""
    context: Any = getattr(spec.context, "_fields", spec.context)
    if spec.type is defaultdict:
        context = context[1]
    if not isinstance(context, (list, tuple)):
        return ()
    is_registered = bool(context) and spec.type not in _MAPPINGS
    if is_registered and all(isinstance(keys, (list, tuple)) for keys in context):
        context = context[0]  # torch.export.register_dataclass; the others have no value
    return tuple(context)


def _other_key(spec: pytree.TreeSpec) -> str:
    """The key that is no text, in words."""
    other = next((key for key in _context(spec) if not isinstance(key, str)), None)
    if other is None:
        return " without plain text keys"
    return f" with the key {other!r} ({type(other).__name__}): call it {str(other)!r}"
