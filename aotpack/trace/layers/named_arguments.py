"""What forward takes by ``*args`` and ``**kwargs``, each argument under a name of its own.

torch.export takes dynamic sizes of a parameter ``*args`` as a tuple, and fails at those of
``**kwargs``.
"""

import functools
import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from aotpack.errors import TraceError, did_you_mean

_Kind = inspect.Parameter
_ANY = (_Kind.VAR_POSITIONAL, _Kind.VAR_KEYWORD)


def parameters_given(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The inputs by forward's parameters: what ``*args`` takes is a tuple."""
    signature = inspect.signature(module.forward)
    try:
        return signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        unknown = next((key for key in kwargs if key not in signature.parameters), "")
        near = did_you_mean(unknown, signature.parameters)
        raise TraceError(
            f"calling {type(module).__name__}.forward{signature} with {len(args)} positional "
            f"inputs and the keywords [{', '.join(kwargs)}]: {error}{near or '.'} "
            "Give example inputs that fit."
        ) from error


def inputs_within(module: nn.Module, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By parameter, the inputs that it is given, by name.

    Those of ``*args`` are ``args_0`` and so on, those of ``**kwargs`` have their keywords.
    """
    parameters = inspect.signature(module.forward).parameters
    kinds = {name: parameters[name].kind for name in given}
    taken = {name for name, kind in kinds.items() if kind not in _ANY}
    taken.update(*(given[name] for name, kind in kinds.items() if kind is _Kind.VAR_KEYWORD))
    found = {}
    for name, value in given.items():
        if kinds[name] is _Kind.VAR_KEYWORD:
            found[name] = value
        elif kinds[name] is _Kind.VAR_POSITIONAL:
            free = [_free(f"{name}_{number}", taken) for number in range(len(value))]
            found[name] = dict(zip(free, value, strict=True))
        else:
            found[name] = {name: value}
    return found


def name_arguments(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Give the module, a copy of the user's, a forward with a parameter for each input."""
    forward = module.forward
    if all(one.kind not in _ANY for one in inspect.signature(forward).parameters.values()):
        return
    within = inputs_within(module, parameters_given(module, args, kwargs))
    each = [name for inner in within.values() for name in inner]
    if odd := [name for name in each if not name.isidentifier()]:
        raise TraceError(
            f"dynamic shapes beside the argument {odd[0]!r}, which is no name that Python accepts; "
            "rename it, or leave the dynamic shapes out"
        )

    @functools.wraps(forward)
    def named(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    kinds = [_Kind.KEYWORD_ONLY if name in kwargs else _Kind.POSITIONAL_OR_KEYWORD for name in each]
    own = [_Kind(name, kind) for name, kind in zip(each, kinds, strict=True)]
    own.sort(key=lambda one: one.kind)
    named.__signature__ = inspect.Signature(own)  # type: ignore[attr-defined]
    module.forward = named


def _free(name: str, taken: set[str]) -> str:
    """The name, with underscores if an argument has it."""
    while name in taken:
        name += "_"
    return name
