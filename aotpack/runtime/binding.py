"""Flattens a call's args and kwargs into the list of tensors that the traced model takes."""

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
        calling = f"calling {signature.name}: argument "
        self._args = [
            (calling + name, child) for name, child in zip(self._names, children, strict=True)
        ]
        tree = signature.kwargs
        self._kwargs = [
            (key, calling + key, child) for key, child in zip(tree.keys, tree.children, strict=True)
        ]

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The tensors in the order of the signature's inputs."""
        if self._is_plain and not kwargs and len(args) == self._count:
            return args
        args, kwargs = self._by_position(args, kwargs)
        leaves: list[Any] = []
        for (path, child), value in zip(self._args, args, strict=True):
            flatten(child, value, path, leaves)
        for key, path, child in self._kwargs:
            flatten(child, kwargs[key], path, leaves)
        return leaves

    def _by_position(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        rest = dict(kwargs)
        if len(args) > self._count:
            plural = "" if len(args) == 1 else "s"
            raise self._refused(f"got {len(args)} positional argument{plural}")
        asked = self._names[len(args) :]
        keys = self._signature.kwargs.keys
        missing = [name for name in (*asked, *keys) if name not in rest]
        extra = [name for name in rest if name not in asked and name not in keys]
        if missing or extra:
            wrong = [f"argument {name!r} is missing" for name in missing[:1]]
            wrong += [f"argument {name!r} is unknown or given twice" for name in extra[:1]]
            raise self._refused(", ".join(wrong))
        return (*args, *[rest.pop(name) for name in asked]), rest

    def _refused(self, reason: str) -> ArgumentError:
        keys = ", ".join(self._signature.kwargs.keys)
        by_keyword = f"by keyword alone: {keys}" if keys else ""
        accepted = ", ".join(self._names) or f"no {'positional ' if keys else ''}argument"
        accepted = "; ".join(filter(None, (accepted, by_keyword)))
        return ArgumentError(f"calling {self._signature.name}: {reason}; accepted: {accepted}.")
