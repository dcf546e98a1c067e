"""Lowerings that users register for their own operators, written in torch's operators.

While a program is decomposed, a call of a registered operator runs its function instead, so the
result has only operators with lowerings. Functions may call each other's operators, and may change
the arguments that the operator changes. The registry is keyed by operator: the order of
registration has no effect.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._library.custom_ops import CustomOpDef
from torch._ops import OpOverload, OpOverloadPacket
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from aotpack.errors import UsageError, a_type
from aotpack.trace.operators.losses.linear_cross_entropy import OWN
from aotpack.trace.triton.triton_kernels import LAUNCH, check_launch, implementation

Function = TypeVar("Function", bound=Callable[..., Any])

_REGISTERED: dict[OpOverload, Callable[..., Any]] = {}


def register_lowering(op: Any) -> Callable[[Function], Function]:
    """Decorator: the function defines an operator in terms of operators that can be lowered.

    ``op`` is what torch.library.custom_op returned, an operator of torch.ops, or its name such as
    "mylib::gelu_add". The function takes the operator's parameters by its schema, whose defaults
    are filled in, and returns what the operator returns; it changes in place what the schema says
    is changed. It is traced once for each call, for all admitted sizes; builds compare it with the
    operator on the example inputs. UsageError for anything else.
    """
    overload = _overload(op)

    def register(function: Function) -> Function:
        _check_function(overload, function)
        if overload in _REGISTERED:
            known = getattr(_REGISTERED[overload], "__qualname__", "another function")
            raise UsageError(
                f"registering a lowering of {overload}: {known} is registered for it already; "
                "one lowering an operator is accepted"
            )
        _REGISTERED[overload] = function
        return function

    return register


def registered(target: Any) -> bool:
    """True for an operator that has a function."""
    return _function_of(target) is not None


def _function_of(target: Any) -> Callable[..., Any] | None:
    """The user's function, or ours of an operator that torch defines in Python when it is used."""
    return _REGISTERED.get(target) or OWN.get(str(target))


def run_registered(overload: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function with an operator's arguments and the schema's defaults.

    A function may return an argument or a view of one; operators return memory of their own, but
    where their schema says otherwise.
    """
    parameters = overload._schema.arguments
    positional = [a.name for a in parameters if not a.kwarg_only]
    given = {a.name: a.default_value for a in parameters if a.has_default_value()}
    given |= dict(zip(positional, args, strict=False)) | kwargs
    named = {a.name: given[a.name] for a in parameters if a.kwarg_only}
    function = _function_of(overload)
    assert function is not None
    answer = function(*(given[name] for name in positional), **named)
    if any(result.alias_info is not None for result in overload._schema.returns):
        return answer
    return pytree.tree_map_only(torch.Tensor, torch.clone, answer)


class RegisteredLowerings(TorchFunctionMode):
    """Inside the block, registered operators are replaced by their functions.

    Other operators that launch Triton kernels (torch.library.triton_op) become their launches.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        overload = _only_overload(func) if isinstance(func, OpOverloadPacket) else func
        if overload is not None and registered(overload):
            with self:
                return run_registered(overload, args, given)
        if LAUNCH in str(func):
            check_launch(given)
        launches = implementation(overload)
        if launches is None:
            return func(*args, **given)
        with self:
            return launches(*args, **given)


def _overloads(packet: OpOverloadPacket) -> list[OpOverload]:
    names: list[str] = packet.overloads()  # type: ignore[no-untyped-call]
    return [getattr(packet, name) for name in names]


def _only_overload(packet: OpOverloadPacket) -> OpOverload | None:
    found = _overloads(packet)
    return found[0] if len(found) == 1 else None


def _overload(op: Any) -> OpOverload:
    """The one operator that ``op`` names."""
    if isinstance(op, str):
        op = _named(op)
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    if isinstance(op, OpOverloadPacket):
        only = _only_overload(op)
        if only is None:
            found = ", ".join(map(str, _overloads(op)))
            raise UsageError(f"registering a lowering of {op}: it is one of {found}; name which")
        op = only
    if not isinstance(op, OpOverload):
        raise UsageError(
            f"registering a lowering: found {op!r}, {a_type(op)}; accepted are the result "
            "of torch.library.custom_op, an operator of torch.ops, or its name 'namespace::name'"
        )
    return op


def _named(name: str) -> Any:
    namespace, _, rest = name.partition("::")
    stem, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), stem)
        return getattr(packet, overload) if overload else packet
    except (AttributeError, RuntimeError):
        raise UsageError(
            f"registering a lowering of {name!r}: torch knows no such operator; define it first "
            "(torch.library.custom_op or torch.library.define), and name it 'namespace::name'"
        ) from None


def _check_function(overload: OpOverload, function: Any) -> None:
    """Check that the parameters are those of the schema, in order."""
    if not callable(function):
        raise UsageError(
            f"registering a lowering of {overload}: found {a_type(function)}; a function "
            "is accepted"
        )
    wanted = [(a.name, a.kwarg_only) for a in overload._schema.arguments]
    taken = inspect.signature(function).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = [(p.name, p.kind is keyword) for p in taken if p.kind not in variable]
    if found != wanted or len(found) != len(taken):
        shown = ", ".join(map(str, taken)) or "nothing"
        raise UsageError(
            f"registering a lowering of {overload}: the function takes {shown}; accepted are the "
            f"parameters of {overload._schema}"
        )
