"""Flattens a call's args and kwargs into the list of tensors that the traced model takes."""

from collections.abc import Mapping, Sequence
from typing import Any

from .errors import ArgumentError, did_you_mean
from .manifest import Signature
from .structures.trees import flatten, in_words, is_same, order_in_words

_FIXED = ("constant", "none")  # kinds of arguments that have one value


class Binder:
    """Flattens calls of one signature, by position and by name as in a call of the model."""

    def __init__(self, signature: Signature) -> None:
        self._model = signature.name
        self._signature = signature
        self._positional = signature.positional
        self._defaults = signature.defaults
        args, kwargs = signature.args, signature.kwargs
        self._names = (*self._positional[: len(args.children)], *kwargs.keys)
        self._count = len(self._names)
        children = (*args.children, *kwargs.children)
        self._has_tensors_alone = all(child.kind == "leaf" for child in children)
        self._is_plain = self._has_tensors_alone and self._names == self._positional[: self._count]
        self._parts = [*zip(self._names, children, strict=True)]
        self._in_order = kwargs.in_order

    def leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """The tensors in the order of the signature's inputs."""
        if self._is_plain and not kwargs and len(args) == self._count:
            return args
        given = self._given(args, kwargs)
        if self._has_tensors_alone:
            return [given[name] for name in self._names]
        leaves: list[Any] = []
        try:
            for name, child in self._parts:
                flatten(child, given[name], name, leaves)
        except ArgumentError as error:
            raise ArgumentError(f"calling {self._model}: argument {error}") from None
        return leaves

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
        """The arguments by name, each exactly once; what has its default counts as left out."""
        given = {**dict(zip(self._positional, args, strict=False)), **kwargs}
        is_once = len(given) == len(args) + len(kwargs)
        if is_once and len(given) > self._count:
            given = self._without_defaults(given)
        fits = is_once and len(given) == self._count
        if not (fits and all(map(given.__contains__, self._names))):
            raise self._refused(args, kwargs)
        if self._in_order:
            self._check_order(kwargs)
        return given

    def _check_order(self, kwargs: Mapping[str, Any]) -> None:
        found = [name for name in kwargs if name in self._in_order]
        wanted = [name for name in self._in_order if name in kwargs]
        if found != wanted:
            raise ArgumentError(
                f"calling {self._model}: what is given by name {order_in_words(found, wanted)}"
            )

    def _without_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments but for those that the example left out, which have their defaults."""
        defaults = self._defaults
        for name, value in given.items():
            if name in defaults and not is_same(defaults[name], value):
                raise ArgumentError(
                    f"calling {self._model}: argument {name!r} is {in_words(value, defaults[name])}"
                    f"; the example left it out, so its default {in_words(defaults[name], value)} "
                    "became part of the program. Leave it out, or build another package."
                )
        return {name: value for name, value in given.items() if name not in defaults}

    def _refused(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ArgumentError:
        """Why the arguments do not fit, and which do."""
        wrong = []
        if len(args) > len(self._positional):
            plural = "" if len(args) == 1 else "s"
            wrong.append(f"got {len(args)} positional argument{plural} for {len(self._positional)}")
        placed = self._positional[: len(args)]
        wanted = dict.fromkeys((*filter(self._names.__contains__, self._positional), *self._names))
        missing = [name for name in wanted if name not in placed and name not in kwargs]
        if missing:
            plural, be = ("", "is") if len(missing) == 1 else ("s", "are")
            names = ", ".join(map(repr, missing))
            hint = self._seed_hint(missing) + self._constants_hint(missing)
            wrong.append(f"argument{plural} {names} {be} missing{hint}")
        for name in kwargs:
            if name in placed:
                wrong.append(f"argument {name!r} is given twice, by position and by name")
            elif name not in self._names and name not in self._defaults:
                hint = did_you_mean(name, (*self._names, *self._defaults)).removeprefix("; ")
                what = hint or "what the example left out keeps its default"
                wrong.append(f"argument {name!r} is no input of the package ({what})")
        return ArgumentError(
            f"calling {self._model}: {', '.join(wrong)}; accepted: {self._accepted()}."
        )

    def _seed_hint(self, missing: Sequence[str]) -> str:
        """What the seed is that a model which draws random numbers takes by name."""
        if "seed" not in missing or "seed" in self._positional:
            return ""
        tensors = {one.name: one for one in self._signature.inputs}
        seed = tensors.get("seed")
        if seed is None or seed.shape or seed.dtype.name != "int64":
            return ""
        placed = [one for one in self._names if one in self._positional]
        return (
            " (a whole number, from which the model draws its random numbers: "
            f"model({', '.join((*placed, 'seed=0'))}); another seed draws others)"
        )

    def _constants_hint(self, missing: Sequence[str]) -> str:
        """The only values of arguments that became part of the program.

        A call gives them too: the model's own defaults may be others.
        """
        values = {name: child.value for name, child in self._parts if child.kind in _FIXED}
        given = ", ".join(f"{name}={values[name]!r}" for name in missing if name in values)
        return f" (pass {given}, as the example did)" if given else ""

    def _accepted(self) -> str:
        alone = [name for name in self._names if name not in self._positional]
        by_keyword = f"by keyword alone: {', '.join(alone)}" if alone else ""
        texts = {name: f"{name}={value!r}" for name, value in self._defaults.items()}
        count = max(
            (n for n, name in enumerate(self._positional, 1) if name not in texts), default=0
        )
        placed = [texts.pop(name, name) for name in self._positional[:count]]
        places = ", ".join(placed) or f"no {'positional ' if alone else ''}argument"
        known = dict.fromkeys((*self._positional, *texts))
        defaults = ", ".join(texts[name] for name in known if name in texts)
        left_out = f"with its default alone: {defaults}" if defaults else ""
        return "; ".join(filter(None, (places, by_keyword, left_out)))
