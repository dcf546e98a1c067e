"""torch pytree specs -> ``stages.Tree``; leaves are given in order, one Tree each."""

from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch.export.graph_signature import ArgumentSpec, ConstantArgument, TensorArgument
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError, UnsupportedError
from aotpack.stages import Tree

LEAF = Tree("leaf")
_SEQUENCES = {tuple: "tuple", torch.Size: "tuple", list: "list"}
_MAPPINGS = (dict, OrderedDict, defaultdict)


def tree_of(spec: pytree.TreeSpec, leaves: Iterator[Tree], what: str) -> Tree:
    """The structure of ``spec`` with ``leaves`` in place; ``what`` names it in errors."""
    if spec.is_leaf():
        return next(leaves)
    children = tuple(tree_of(child, leaves, what) for child in children_of(spec))
    if spec.type in _SEQUENCES:
        return Tree(_SEQUENCES[spec.type], children)
    if spec.type.__module__ == "torch.return_types":  # such as the result of torch.sort
        return Tree("tuple", children)
    keys = _keys(spec)
    if len(keys) < len(children):
        raise TraceError(
            f"the {what} contains a {spec.type.__name__} without plain text keys; tuples, lists, "
            "dicts with text keys, named tuples and registered dataclasses are accepted"
        )
    kind = "dict" if spec.type in _MAPPINGS else "object"
    return Tree(kind, children + (Tree("none"),) * (len(keys) - len(children)), keys)


def children_of(spec: pytree.TreeSpec) -> list[pytree.TreeSpec]:
    """The child specs; torch renamed the attribute to a method."""
    children: Any = spec.children() if hasattr(spec, "children") else spec.children_specs
    return list(children)


def leaf_of(argument: ArgumentSpec, what: str) -> Tree:
    """A tensor is a leaf, None is "none", a Python number or text is part of the structure."""
    if isinstance(argument, TensorArgument):
        return LEAF
    if not isinstance(argument, ConstantArgument):
        raise UnsupportedError(
            f"the {what} has a number that depends on a size ({argument.name}); tensors and fixed "
            "Python values are accepted. Keep the number out of the model, or make it a tensor."
        )
    value = argument.value
    return Tree("none") if value is None else Tree("constant", value=value)


def _keys(spec: pytree.TreeSpec) -> tuple[str, ...]:
    """Keys of a dict, fields of a named tuple, or the key lists of a registered record.

    Fields without a value come last; other structures have no keys.
    """
    context: Any = getattr(spec.context, "_fields", spec.context)
    if spec.type is defaultdict:
        context = context[1]
    if not isinstance(context, (list, tuple)):
        return ()
    if context and all(isinstance(keys, (list, tuple)) for keys in context):
        context = [key for keys in context for key in keys]  # torch.export.register_dataclass
    return tuple(context) if all(isinstance(key, str) for key in context) else ()
