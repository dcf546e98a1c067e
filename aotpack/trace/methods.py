"""The entries of a package: what each is, and the copies of their modules that are traced.

One deep copy holds the modules of all entries, so whatever they share stays shared in it.
"""

import copy
import functools
import inspect
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, Self

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.nn.parameter import is_lazy

from aotpack.errors import TraceError, UsageError, a_type
from aotpack.ir.dtypes import DType
from aotpack.trace.capture import torch_dtype
from aotpack.trace.host.copies import PLAIN, HostCopies
from aotpack.trace.host.devices import Copying
from aotpack.trace.host.functions import copied_functions
from aotpack.trace.host.values import fault_of_layout
from aotpack.trace.operators.state import held
from aotpack.trace.source import is_user_file
from aotpack.trace.weights import memory_of, overlapping

TAKEN = frozenset(
    """
    bind_weights calls close device inputs kernels manifest memory methods outputs poison signature
    state synchronize target targets weight_places
    """.split()
)
"""Attributes of a loaded package, whose names no method can have."""

_FLOATS_OF_BITSANDBYTES = ("Embedding", "StableEmbedding")  # layers whose weights are plain
_DISTRIBUTED = (nn.DataParallel, nn.parallel.DistributedDataParallel)
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type, FunctionType, torch.dtype)
_ACCEPTED = "a torch.nn.Module, a method of one, or a torch.export.ExportedProgram is accepted"


@dataclass(frozen=True, slots=True)
class Method:
    """An entry of a package: a module, a method of one or an exported program, with its example.

    ``dynamic_shapes`` has torch.export's form.
    """

    function: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] | None = None
    dynamic_shapes: Any = None


class BoundMethod(nn.Module):
    """A module whose forward is a method of another; it has that module's parts by their names."""

    def __init__(self, target: nn.Module) -> None:
        super().__init__()
        parts = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
        self.__dict__.update({part: target.__dict__[part] for part in parts})
        self.__dict__["target"] = target  # not as a part: names are those in the target

    @classmethod
    def of(cls, method: MethodType) -> Self:
        """The module whose forward has the parameters of ``method``."""
        function = method.__func__
        shown = _called_forward(function)

        @functools.wraps(function)
        def forward(self: BoundMethod, *args: Any, **kwargs: Any) -> Any:
            return shown(self.target, *args, **kwargs)

        kind: type[Self] = type(cls.__name__, (cls,), {"forward": forward})
        target: Any = method.__self__
        return kind(target)

    @classmethod
    def around(cls, module: nn.Module) -> Self:
        """A module of its own whose calls are those of another, hooks and all."""

        @functools.wraps(module.forward)
        def forward(self: BoundMethod, *args: Any, **kwargs: Any) -> Any:
            return self.__dict__["target"](*args, **kwargs)

        own = inspect.signature(module.forward)
        parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
        own = own.replace(parameters=[*parameters, *own.parameters.values()])
        forward.__signature__ = own  # type: ignore[attr-defined]
        kind: type[Self] = type(cls.__name__, (cls,), {"forward": forward})
        return kind(module)

    def train(self, mode: bool = True) -> Self:
        """The target too, which is no part."""
        self.__dict__["target"].train(mode)
        return super().train(mode)


def root_of(module: nn.Module) -> nn.Module:
    """The module whose method it is, or itself."""
    root: nn.Module = module.__dict__["target"] if isinstance(module, BoundMethod) else module
    return root


def _called_forward(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function under the name whose lines torch.export records."""
    if not isinstance(function, FunctionType):
        return function
    renamed = FunctionType(
        function.__code__.replace(co_name="forward"),
        function.__globals__,
        "forward",
        function.__defaults__,
        function.__closure__,
    )
    renamed.__kwdefaults__ = function.__kwdefaults__
    renamed.__dict__.update(function.__dict__)
    return renamed


def _show_lines(module: nn.Module) -> None:
    """Give what serves as forward under another name that name: ``Model.forward = compute``."""
    for part in root_of(module).modules():
        forward = getattr(part, "forward", None)
        function = getattr(forward, "__func__", forward)
        if not isinstance(function, FunctionType) or function.__code__.co_name == "forward":
            continue
        if is_user_file(function.__code__.co_filename):
            shown = _called_forward(function)
            is_bound = isinstance(forward, MethodType)
            part.__dict__["forward"] = MethodType(shown, part) if is_bound else shown


def module_of(label: str, function: Any) -> nn.Module | ExportedProgram:
    """What is exported for an entry; TraceError for what cannot be.

    Of a compiled or distributed module, that is the module inside.
    """
    function = _unwrapped(function)
    if isinstance(function, torch.jit.ScriptModule):
        raise TraceError(
            f"tracing {label}: the model is a {type(function).__name__}, whose Python source "
            "torch.export cannot read; give the nn.Module that it was made from, with "
            "load_state_dict(scripted.state_dict()) for its weights"
        )
    owner = function.__self__ if isinstance(function, MethodType) else function
    if isinstance(owner, nn.Module):
        _check_made(label, owner)
        _check_codes(label, owner)
        _check_lazy(label, owner)
    if isinstance(function, (nn.Module, ExportedProgram)):
        return function
    if isinstance(function, MethodType) and isinstance(owner, nn.Module):
        return BoundMethod.of(function)
    remedy = ". Call it in the forward of a module" if isinstance(function, FunctionType) else ""
    raise TraceError(f"tracing {label}: the model is {a_type(function)}; {_ACCEPTED}{remedy}")


def _unwrapped(function: Any) -> Any:
    """What torch.compile, DataParallel and DistributedDataParallel wrap."""
    if isinstance(function, _DISTRIBUTED):
        return _unwrapped(function.module)
    if isinstance(function, nn.Module):
        is_compiled = type(function).__name__ == "OptimizedModule"
        return _unwrapped(function._modules["_orig_mod"]) if is_compiled else function
    return getattr(function, "_torchdynamo_orig_callable", function)


def _check_made(label: str, module: nn.Module) -> None:
    """Refuse a module that torch has not prepared."""
    if "_modules" not in vars(module):
        kind = type(module).__name__
        raise TraceError(
            f"tracing {label}: {kind} is no finished nn.Module; call super().__init__() first in "
            f"{kind}.__init__"
        )


def _check_codes(label: str, module: nn.Module) -> None:
    """Refuse layers of bitsandbytes, and those of torch.ao.quantization: weights are no tensors."""
    for name, one in module.named_modules():
        if (kind := _of_bitsandbytes(one)) is not None:
            raise TraceError(
                f"tracing {label}: {name or 'the model'} is a {type(one).__name__}{kind} of "
                "bitsandbytes, which looks codes up in tables that its own kernels know; load the "
                "model with transformers, call model.dequantize(), and build that with "
                "quantize='int8' or 'int4' (--quantize int8)"
            )
        if re.match(r"torch\.ao\.nn\.(intrinsic\.)?quantized\b", type(one).__module__):
            raise TraceError(
                f"tracing {label}: {name or 'the model'} is a {type(one).__name__} of "
                "torch.ao.quantization, whose weights are objects that torch.export cannot record; "
                "give the float model and quantize='int8' (--quantize int8), or quantise it with "
                "torchao's quantize_"
            )


def _of_bitsandbytes(module: nn.Module) -> str | None:
    """How a layer has codes of bitsandbytes: "", or by the class of a weight; None without any."""
    if (
        _is_of(type(module), "bitsandbytes")
        and type(module).__name__ not in _FLOATS_OF_BITSANDBYTES
    ):
        return ""
    tensors = [*module._parameters.items(), *module._buffers.items()]
    found = [
        f" whose {n} is a {type(t).__name__}" for n, t in tensors if _is_of(type(t), "bitsandbytes")
    ]
    return found[0] if found else None


def _is_of(kind: type, package: str) -> bool:
    """True for a class of a package, and for one that is derived from one."""
    return any(base.__module__.partition(".")[0] == package for base in kind.__mro__)


def _check_lazy(label: str, module: nn.Module) -> None:
    """Refuse layers whose sizes the first call of the model tells."""
    lazy = [n for n, one in (*module.named_parameters(), *module.named_buffers()) if is_lazy(one)]
    if lazy:
        raise TraceError(
            f"tracing {label}: {', '.join(lazy[:4])} of a lazy module get their sizes in its first "
            "call; call the model once on the example inputs before it is packaged"
        )


def inputs_beside(
    module: Any,
    args: tuple[Any, ...] | None,
    kwargs: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    doing: str,
) -> tuple[tuple[Any, ...], Mapping[str, Any] | None]:
    """The example inputs of a module; an exported program has its own. Methods have none beside."""
    if isinstance(module, Mapping):
        if module and all(isinstance(one, torch.Tensor) for one in module.values()):
            raise UsageError(
                f"{doing}: a dict of tensors, as state_dict() returns it, is no model; give the "
                "module that has them"
            )
        if (args, kwargs, dynamic_shapes) != (None,) * 3:
            raise UsageError(
                f"{doing}: example inputs are given beside methods; each has its own: "
                "aotpack.Method(module, example_inputs, dynamic_shapes=...)"
            )
        return (), None
    if isinstance(module, ExportedProgram) and (args, kwargs) == (None, None):
        args, kwargs = module.example_inputs or (None, None)
    if args is None:
        raise UsageError(
            f"{doing}: missing a required argument: 'args'; accepted: a module and its example "
            "inputs, () beside kwargs, or methods by name: "
            "{'decode': aotpack.Method(module, inputs)}"
        )
    return args, kwargs


def check_methods(package: str, methods: Mapping[str, Any]) -> None:
    """Refuse names that no attribute of a loaded package can have, and what is no method."""
    doing = f"packaging {package}"
    if not methods:
        raise UsageError(f"{doing}: there are no methods; give {{'name': aotpack.Method(...)}}")
    for name, method in methods.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise UsageError(f"{doing}: the method {name!r} is no name that Python accepts")
        if not name.isascii():
            raise UsageError(f"{doing}: the method {name!r} has letters beyond ASCII")
        if name in TAKEN or name.startswith("_"):
            raise UsageError(
                f"{doing}: no method can be called {name!r}: the loaded package has an attribute "
                f"of that name, or it begins with '_'; names in use are {', '.join(sorted(TAKEN))}"
            )
        if not isinstance(method, Method):
            raise UsageError(
                f"{doing}: the method {name!r} is {a_type(method)}; "
                "aotpack.Method(module, example_inputs) is accepted"
            )


def evaluation_copies(
    modules: Mapping[str, nn.Module], dtype: DType | None, copies: HostCopies
) -> dict[str, nn.Module]:
    """Copies on the host in eval mode; they share the weights there, or have cast ones."""
    roots = [id(root_of(module)) for module in modules.values()]
    distinct = {
        label: BoundMethod.around(module) if roots.count(id(module)) > 1 else module
        for label, module in modules.items()  # a trace may change forward
    }
    tensors = [t for one in distinct.values() for t in (*one.parameters(), *one.buffers())]
    casted = _cast_weights([copies.of(tensor) for tensor in tensors], dtype)
    memo: dict[int, Any] = {id(one): made for one, made in zip(tensors, casted, strict=True)}
    owned = {tensor.untyped_storage()._cdata for tensor in tensors if not tensor.is_meta}
    for value in (value for one in distinct.values() for _, value in held(one)):
        if not isinstance(value, torch.Tensor) or id(value) in memo:
            continue
        if fault_of_layout(value):
            memo[id(value)] = value  # it has no storage, and a model that reads it is refused
            continue
        if value.untyped_storage()._cdata in owned:
            memo[id(value)] = copies.of(value)  # of what a module owns: it stays so in the copy
        elif value.grad_fn is not None:  # what a module computed, such as weight_norm's weight
            memo[id(value)] = copies.of(value.detach().clone())
    parts = set[int]().union(*map(_parts_of, distinct.values()))
    try:
        with Copying(copies), copied_functions(parts):
            made = {label: copy.deepcopy(one, memo) for label, one in distinct.items()}
    except Exception as error:
        kinds = " and ".join(dict.fromkeys(type(one).__name__ for one in modules.values()))
        raise TraceError(
            f"copying {kinds} before tracing: {error}. The copy keeps your module "
            "as it is; make the module's own attributes copyable with copy.deepcopy."
        ) from error
    for one in made.values():
        _show_lines(one)
        type(one).eval(one)  # the user's own may return nothing, and hide behind an attribute
    return made


def _parts_of(module: nn.Module) -> set[int]:
    """The ids of what a module has that may change: modules, tensors, containers, objects."""
    values = (value for _, value in held(module) if not isinstance(value, _ATOMS))
    return {id(one) for one in (*module.modules(), *values)}


def _cast_weights(tensors: Sequence[torch.Tensor], dtype: DType | None) -> list[torch.Tensor]:
    """The tensors with floats of a type; views of one memory are views of one cast."""
    if dtype is None:
        return [*tensors]
    floats = {str(n): x for n, x in enumerate(tensors) if x.is_floating_point()}
    plain = {name: x for name, x in floats.items() if type(x) in PLAIN}
    shared = overlapping({name: memory_of(x, name) for name, x in plain.items()})
    whole: dict[tuple[int, torch.dtype], torch.Tensor] = {}
    made = {name: _cast(x, torch_dtype(dtype), whole, name in shared) for name, x in floats.items()}
    return [made.get(str(n), x) for n, x in enumerate(tensors)]


def _cast(
    tensor: torch.Tensor,
    dtype: torch.dtype,
    whole: dict[tuple[int, torch.dtype], torch.Tensor],
    is_shared: bool,
) -> torch.Tensor:
    """A tensor cast; one that shares memory as a view of its whole memory, which is cast once."""
    plain = tensor.detach()
    if is_shared:
        storage = plain.untyped_storage()
        key = storage._cdata, tensor.dtype
        if key not in whole:
            count = storage.nbytes() // tensor.itemsize
            whole[key] = plain.new_empty(0).set_(storage, 0, (count,), (1,)).to(dtype)
        casted = whole[key].as_strided(plain.shape, plain.stride(), plain.storage_offset())
    else:
        casted = plain.to(dtype)
    is_parameter = isinstance(tensor, nn.Parameter)
    return nn.Parameter(casted, requires_grad=False) if is_parameter else casted
