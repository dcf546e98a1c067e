"""The table of lowering functions by operator, and the binding of a node's arguments."""

import inspect
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, TypeVar, get_args

from aotpack.ir.symbolic.integers import Int
from aotpack.stages import Arg, refs_in

Handler = TypeVar("Handler", bound=Callable[..., None])

LOWERINGS: dict[str, Callable[..., None]] = {}
_TORCHS = ("aten", "prims", "prim", "higher_order", "aotpack")
_DRAWING = frozenset(
    "bernoulli exponential multinomial native_dropout normal normal_functional rand randint randn "
    "randperm uniform".split()
)
WITHOUT_MEANING = frozenset({"memory_format", "non_blocking", "pin_memory", "device", "layout"})


_NUMBERS = {int, float, bool, Int, NoneType, ...}
"""What the types of parameters that take no tensor consist of."""


class CannotLower(Exception):
    """One operator call has no lowering; the text is the reason. ``lower`` collects them."""


def lowering(*operators: str) -> Callable[[Handler], Handler]:
    """Register a function as the lowering of operators, named as in torch: "aten.add.Tensor"."""

    def register(handler: Handler) -> Handler:
        for operator in operators:
            if operator in LOWERINGS:
                raise ValueError(f"two lowerings are registered for {operator}")
            LOWERINGS[operator] = handler
        return handler

    return register


def handler_of(operator: str) -> Callable[..., None]:
    """The lowering of an operator; CannotLower names the overloads that have one."""
    if operator in LOWERINGS:
        return LOWERINGS[operator]
    stem = operator.rpartition(".")[0] + "."
    siblings = sorted(name for name in LOWERINGS if name.startswith(stem))
    if siblings:
        raise CannotLower(f"this overload has no lowering; {', '.join(siblings)} has")
    raise CannotLower(f"this operator has no lowering{register_hint(operator)}")


def refusal_of(operator: str) -> str | None:
    """Why no call of an operator has a lowering; None where some have."""
    try:
        handler_of(operator)
    except CannotLower as refusal:
        return str(refusal)
    return None


def register_hint(operator: str) -> str:
    """What to do: draw outside of control flow, register a lowering; "" for others of torch.

    Outside of control flow, random operators have been replaced before.
    """
    namespace, name, overload = (*operator.split("."), "", "")[:3]
    if namespace in _TORCHS and name.removesuffix("_like") in _DRAWING:
        return (
            "; random numbers are not built inside cond, map, scan and while_loop: draw them "
            "outside and pass them in"
        )
    if namespace in _TORCHS:
        return ""
    full = f"{namespace}::{name}" + (f".{overload}" if overload != "default" else "")
    return (
        f"; say what it computes with aotpack.register_lowering({full!r}), or write it with Triton "
        "kernels (torch.library.triton_op): CUDA C++ and other code of its own is not packaged"
    )


def bind(
    function: Callable[..., object],
    args: tuple[Arg, ...],
    kwargs: Mapping[str, Arg],
    *,
    leading: int,
) -> inspect.BoundArguments:
    """Bind a call's arguments to a function's parameters after the first ``leading`` ones."""
    positional = [_plain(arg) for arg in args]
    named = {key: _plain(arg) for key, arg in kwargs.items() if key not in WITHOUT_MEANING}
    signature = inspect.signature(function)
    rest = signature.replace(parameters=list(signature.parameters.values())[leading:])
    try:
        bound = rest.bind(*positional, **named)
    except TypeError as error:
        raise CannotLower(f"its arguments are not accepted: {error}") from None
    for parameter, value in bound.arguments.items():
        if any(refs_in(value)) and _is_number(rest.parameters[parameter].annotation):
            raise CannotLower(
                f"its argument {parameter!r} is data, a number that a loop carries or that is read "
                "from a tensor"
            )
    return bound


def _is_number(kind: Any) -> bool:
    """True for a type of numbers, tuples of them and unions of such."""
    parts = get_args(kind)
    return all(map(_is_number, parts)) if parts else kind in _NUMBERS


def _plain(arg: Arg) -> Arg:
    """Constant sizes become Python ints, so that handlers see an Int only where it is symbolic."""
    if isinstance(arg, tuple):
        return tuple(map(_plain, arg))
    if isinstance(arg, Int) and arg.constant is not None:
        return arg.constant
    return arg
