"""Flattens a call's args and kwargs into the list of tensors that the traced model takes."""

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ArgumentError, did_you_mean
from .manifest import Signature
from .structures.trees import flatten


class Binder:
    """Flattens calls of one signature, by position and by name as in a call of the model."""

    def __init__(self, signature: Signature) -> None:
        self._model = signature.name
        self._positional = signature.positional
        self._count = len(self._positional)
        args, kwargs = signature.args, signature.kwargs
        self._names = (*self._positional[: len(args.children)], *kwargs.keys)
        children = (*args.children, *kwargs.children)
        self._has_tensors_alone = all(child.kind == "leaf" for child in children)
        self._is_plain = self._has_tensors_alone and self._names == self._positional
        self._parts = [
            (name, f"calling {signature.name}: argument {name}", child)
            for name, child in zip(self._names, children, strict=True)
        ]

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The tensors in the order of the signature's inputs."""
        if self._is_plain and not kwargs and len(args) == self._count:
            return args
        given = self._given(args, kwargs)
        if self._has_tensors_alone:
            return [given[name] for name in self._names]
        leaves: list[Any] = []
        for name, path, child in self._parts:
            flatten(child, given[name], path, leaves)
        return leaves

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """The arguments by name, each exactly once."""
        given = {**dict(zip(self._positional, args, strict=False)), **kwargs}
        fits = len(given) == len(args) + len(kwargs) == len(self._names)
        if not (fits and all(map(given.__contains__, self._names))):
            raise self._refused(args, kwargs)
        return given

    def _refused(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ArgumentError:
        """Why the arguments do not fit, and which do."""
        wrong = []
        if len(args) > self._count:
            plural = "" if len(args) == 1 else "s"
            wrong.append(f"got {len(args)} positional argument{plural} for {self._count}")
        placed = self._positional[: len(args)]
        wanted = dict.fromkeys((*self._positional, *self._names))
        missing = [name for name in wanted if name not in placed and name not in kwargs]
        if missing:
            plural, be = ("", "is") if len(missing) == 1 else ("s", "are")
            wrong.append(f"argument{plural} {', '.join(map(repr, missing))} {be} missing")
        for name in kwargs:
            if name in placed:
                wrong.append(f"argument {name!r} is given twice, by position and by name")
            elif name not in self._names:
                hint = did_you_mean(name, self._names).removeprefix("; ")
                what = hint or "what the example left out keeps its default"
                wrong.append(f"argument {name!r} is no input of the package ({what})")
        return ArgumentError(
            f"calling {self._model}: {', '.join(wrong)}; accepted: {self._accepted()}."
        )

    def _accepted(self) -> str:
        alone = [name for name in self._names if name not in self._positional]
        by_keyword = f"by keyword alone: {', '.join(alone)}" if alone else ""
        places = ", ".join(self._positional) or f"no {'positional ' if alone else ''}argument"
        return "; ".join(filter(None, (places, by_keyword)))
