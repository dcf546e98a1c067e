"""From a call's args and kwargs to the flat list of tensors, as the model was traced."""

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ArgumentError
from .manifest import Signature
from .trees import flatten


class Binder:
    """Flattens calls of one signature. A positional tensor may also be given by its name."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        children = signature.args.children
        self._count = len(children)
        self._is_plain = not signature.kwargs.children and all(
            child.kind == "leaf" for child in children
        )
        self._names: list[str] = []
        leaf = 0
        for position, child in enumerate(children):
            named = child.kind == "leaf"
            self._names.append(signature.inputs[leaf].name if named else f"args[{position}]")
            leaf += child.leaves

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The tensors in the order of the signature's inputs."""
        if self._is_plain and not kwargs and len(args) == self._count:
            return args
        args, kwargs = self._by_position(args, kwargs)
        leaves: list[Any] = []
        name = self._signature.name
        for label, child, value in zip(
            self._names, self._signature.args.children, args, strict=True
        ):
            flatten(child, value, f"calling {name}: argument {label}", leaves)
        tree = self._signature.kwargs
        for key, child in zip(tree.keys, tree.children, strict=True):
            flatten(child, kwargs[key], f"calling {name}: argument {key}", leaves)
        return leaves

    def _by_position(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rest = dict(kwargs)
        if len(args) > self._count:
            raise self._refused(f"got {len(args)} positional arguments")
        filled = list(args)
        for name in self._names[len(args) :]:
            if name not in rest:
                raise self._refused(f"argument {name!r} is missing")
            filled.append(rest.pop(name))
        keys = self._signature.kwargs.keys
        missing = [key for key in keys if key not in rest]
        if missing:
            raise self._refused(f"argument {missing[0]!r} is missing")
        extra = [key for key in rest if key not in keys]
        if extra:
            raise self._refused(f"argument {extra[0]!r} is unknown or given twice")
        return tuple(filled), rest

    def _refused(self, reason: str) -> ArgumentError:
        accepted = ", ".join([*self._names, *self._signature.kwargs.keys]) or "no argument"
        return ArgumentError(f"calling {self._signature.name}: {reason}; accepted: {accepted}.")
