"""Arguments that a function does not take become an error that names those it takes."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ..errors import AotpackError, did_you_mean

Params = ParamSpec("Params")
Made = TypeVar("Made")


def naming_keywords(
    kind: type[AotpackError],
) -> Callable[[Callable[Params, Made]], Callable[Params, Made]]:
    """Makes a function raise ``kind`` where arguments do not fit its parameters."""

    def naming(function: Callable[Params, Made]) -> Callable[Params, Made]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def checked(*args: Params.args, **keywords: Params.kwargs) -> Made:
            reason = _misfit(signature, args, keywords)
            if reason:
                raise kind(f"{function.__name__}() {reason}")
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
            hint = did_you_mean(name, accepted) or f"; accepted: {', '.join(accepted)}"
            return f"takes no keyword {name!r}{hint}"
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        return f"cannot be called so: {error}; accepted: {', '.join(accepted)}"
    return None
