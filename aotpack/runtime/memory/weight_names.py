"""The names under which weights are given."""

import re
from collections.abc import Container, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from ..safetensors import TensorFile
from ..tensors import Weight

_SHOWN = 5  # of many names
_EXTRA = re.compile(r"(^|\.)_extra_state$")


def plain_names(given: Any, known: Container[str]) -> Any:
    """Weights without what wrappers put into the names of their ``state_dict``.

    DataParallel puts ``module.`` before a name, ``torch.compile`` ``_orig_mod.`` into it. What a
    model knows stays as it is.
    """
    if not isinstance(given, Mapping):
        return given
    names = {name: _plain(name, known) for name in given}
    if len({*names.values()}) < len(names) or all(name == one for name, one in names.items()):
        return given
    renamed = {names[name]: value for name, value in given.items()}
    if isinstance(given, TensorFile):
        return TensorFile(given.path, given.identity, renamed)
    return renamed


def fault_of_shared(chosen: Sequence[Weight]) -> str | None:
    """Why weights cannot be bound without others, which in the model lie in their memory."""
    given = {weight.name for weight in chosen}
    for weight in chosen:
        if left := [name for name in weight.shares if name not in given]:
            return (
                f"{weight.name} shares memory with {', '.join(left)} in the model, and a package "
                f"has each in its own; give {'it' if len(left) == 1 else 'them'} too"
            )
    return None


def _plain(name: Any, known: Container[str]) -> Any:
    if not isinstance(name, str) or name in known:
        return name
    inner = name.replace("_orig_mod.", "")
    found = (one for one in (inner, inner.removeprefix("module.")) if one in known)
    return next(found, name)


def fault_of_names(given: Any, known: Sequence[str]) -> str | None:
    """Why tensors by name, or a file's, cannot be weights of a model that has the ``known``.

    What ``get_extra_state`` of a module puts into state_dicts is no weight, and no fault.
    """
    if not isinstance(given, Mapping):
        found, by_name = type(given).__name__, "tensors by name"
        if hasattr(given, "state_dict"):
            by_name += ", which its state_dict() returns"
        return f"they are {found}; accepted: a safetensors file, {by_name}"
    unnamed = [name for name in given if not isinstance(name, str)]
    if unnamed:
        return f"a key is {unnamed[0]!r}; accepted: names of weights as text"
    names = {*known}
    unknown = [name for name in given if name not in names and not _EXTRA.search(name)]
    if not unknown:
        return None
    if (codes := f"{unknown[0]}_codes") in known:
        return (
            f"the layer of {unknown[0]!r} is quantised: in its place bind {codes!r} and what "
            "belongs to it, as a build of the new weights with the same --quantize has them"
        )
    others = f", nor are {len(unknown) - 1} more" if len(unknown) > 1 else ""
    left = [name for name in known if name not in given]
    return (
        f"{unknown[0]!r} is no weight of the model{others}; {_meant(unknown, left, known)}; give "
        "the model's own names and leave the others out"
    )


def _meant(unknown: Sequence[str], left: Sequence[str], known: Sequence[str]) -> str:
    """The names of the model that may be meant by others; those that are ``left`` come first."""
    if front := _front(unknown, known):
        return f"in the model they have no {front!r} in front"
    if front := _front(left, unknown):
        return f"in the model they have {front!r} in front"
    near = {one: get_close_matches(one, left) or get_close_matches(one, known) for one in unknown}
    found = {one: names for one, names in near.items() if names}
    if not found:
        return f"accepted: {some(known)}"
    if len(unknown) == 1:
        return f"near it: {some(near[unknown[0]])}"
    pairs = [f"{names[0]!r} to {one!r}" for one, names in found.items()]
    return f"near them: {', '.join(pairs[:_SHOWN])}{', ...' * (len(pairs) > _SHOWN)}"


def _front(names: Sequence[str], bare: Sequence[str]) -> str:
    """What all ``names`` have in front of some of the ``bare`` ones; "" if not the same."""
    ends = [one for one in bare if names and names[0].endswith(f".{one}")]
    fronts = [names[0].removesuffix(one) for one in ends]
    among = {*bare}
    return next(
        (f for f in fronts if all(n.startswith(f) and n[len(f) :] in among for n in names)), ""
    )


def some(names: Sequence[str]) -> str:
    """The first of many names."""
    shown = ", ".join(map(repr, names[:_SHOWN]))
    return shown + (", ..." if len(names) > _SHOWN else "")
