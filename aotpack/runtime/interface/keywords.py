"""Arguments that a function does not take become an error that names those it takes."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from ..errors import AotpackError, did_you_mean

Params = ParamSpec("Params")
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Values:
    """What a parameter takes beside its default: types, in words, and the least number."""

    types: tuple[type, ...]
    accepted: str
    least: int | None = None

    def fault(self, value: object) -> str | None:
        """Why a value is refused; True and False are no numbers."""
        is_number = not isinstance(value, bool) or bool in self.types
        if not isinstance(value, self.types) or not is_number:
            return f" is of type {type(value).__name__}; accepted: {self.accepted}"
        if isinstance(value, int) and self.least is not None and value < self.least:
            return f"={value}; accepted: {self.least} or more"
        return None


PATH = (str, PathLike)
SWITCH = Values((bool,), "True or False")
COUNT = Values((int,), "a number, 1 or more", 1)
_THREADS = ("threads", "num_threads", "n_threads", "nthreads")
_OF_THREADS = "the variable AOTPACK_THREADS of the environment sets the threads of a call"
_ANY: Mapping[str, Values] = MappingProxyType({})


def naming_keywords(
    kind: type[AotpackError], doing: str = "", values: Mapping[str, Values] = _ANY
) -> Callable[[Callable[Params, Made]], Callable[Params, Made]]:
    """Makes a function raise ``kind`` where arguments do not fit its parameters, or ``values``.

    ``doing`` begins the sentence about a value.
    """

    def naming(function: Callable[Params, Made]) -> Callable[Params, Made]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Params.args, **keywords: Params.kwargs) -> Made:
            reason = _misfit(signature, args, keywords)
            if reason:
                raise kind(f"{function.__name__}() {reason}")
            for name, value in signature.bind(*args, **keywords).arguments.items():
                is_free = name not in values or value is signature.parameters[name].default
                if not is_free and (fault := values[name].fault(value)):
                    raise kind(f"{doing}: {name}{fault}")
            return function(*args, **keywords)

        return checked

    return naming


def _misfit(
    signature: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
) -> str | None:
    """Why a call does not fit the signature, and what is accepted."""
    accepted = list(signature.parameters)
    for name in keywords:
        if name not in accepted:
            if name in _THREADS and "concurrency" in accepted:
                return f"takes no keyword {name!r}; {_OF_THREADS}"
            hint = did_you_mean(name, accepted) or f"; accepted: {', '.join(accepted)}"
            return f"takes no keyword {name!r}{hint}"
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        return f"cannot be called so: {error}; accepted: {', '.join(accepted)}"
    return None
