"""Arguments that come back as results, such as caches of transformers, as state of a package.

Tensors of such a structure are matched by their paths: what a method gives under a path is what
the next call of any method takes there. Values that are no tensors are those of the example.
"""

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from aotpack.errors import UsageError, a_type
from aotpack.trace.layers.state_results import Returned, State, keys_of, returned, tensors_of
from aotpack.trace.methods import Method


def with_state(methods: Mapping[str, Method], *names: str) -> dict[str, Method]:
    """The methods without the keyword arguments and results called ``names``, which are state.

    State begins as the example of the first method that takes it, else with zeros.
    """
    _check_call(methods, names)
    modules = {label: _module(one.function) for label, one in methods.items()}
    held: State = {}
    for label, one in methods.items():
        _check_given(label, one, names)
        for key, tensor in tensors_of(one.kwargs or {}, names).items():
            _check_same(label, key, held.setdefault(key, tensor.detach().clone()), tensor)
    found = {label: returned(label, modules[label], one, names) for label, one in methods.items()}
    for label, result in found.items():
        for key, tensor in result.tensors.items():
            start = torch.zeros_like(tensor) if key not in held else held[key]
            _check_same(label, key, held.setdefault(key, start), tensor)
    _check_paths(methods, names, found)
    for label, module in modules.items():
        _check_names(label, module, held)
    return {
        label: _method(modules[label], one, names, held, found[label])
        for label, one in methods.items()
    }


def _check_call(methods: Any, names: tuple[Any, ...]) -> None:
    """Refuse what is no dict of methods, and what is no name."""
    if not isinstance(methods, Mapping) or not all(isinstance(n, Method) for n in methods.values()):
        inside = [*methods.values()] if isinstance(methods, Mapping) else [methods]
        wrong = next(one for one in inside if not isinstance(one, Method))
        raise UsageError(
            f"making arguments state: {a_type(wrong)} is given; a dict of aotpack.Method by name "
            "is accepted, as with_state({'decode': Method(...)}, 'cache')"
        )
    strange = [name for name in names if not isinstance(name, str)]
    if strange or not names:
        fault = f"{strange[0]!r} is no name" if strange else "none is named"
        raise UsageError(f"making arguments state: {fault}; with_state(methods, 'cache')")


def _check_paths(
    methods: Mapping[str, Method], names: tuple[str, ...], found: Mapping[str, Returned]
) -> None:
    """Refuse state that is given back under other paths than it is taken under."""
    taken = {key for one in methods.values() for key in tensors_of(one.kwargs or {}, names)}
    given = {key for one in found.values() for key in one.tensors}
    if taken - given and given - taken:
        lost, new = (", ".join(sorted(keys)[:4]) for keys in (taken - given, given - taken))
        raise UsageError(
            f"making arguments state: no method gives back {lost}, and none takes {new}: a result "
            "has the structure of the argument of its name"
        )


def _module(function: Any) -> nn.Module:
    """A module that may get buffers."""
    if isinstance(function, ExportedProgram):
        return function.module()
    if not isinstance(function, nn.Module):
        kind = type(function).__name__
        raise UsageError(
            f"making arguments state: a method is a {kind}; a torch.nn.Module and a "
            "torch.export.ExportedProgram are accepted"
        )
    own = copy.copy(function)
    own.__dict__["_buffers"] = dict(function._buffers)
    return own


def _check_given(label: str, method: Method, names: tuple[str, ...]) -> None:
    lacking = [name for name in names if name not in (method.kwargs or {})]
    if lacking:
        given = ", ".join(method.kwargs or {}) or "none"
        raise UsageError(
            f"making arguments state: {lacking[0]!r} is no keyword argument of the example of "
            f"{label!r}; it has {given}"
        )


def _check_same(label: str, key: str, held: torch.Tensor, found: torch.Tensor) -> None:
    if (held.shape, held.dtype) != (found.shape, found.dtype):
        raise UsageError(
            f"making arguments state: {key} is {_shown(held)}, and {_shown(found)} in {label!r}; "
            "state has one shape and type: a StaticCache has, a DynamicCache grows"
        )


def _shown(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{[*tensor.shape]}"


def _check_names(label: str, module: nn.Module, held: State) -> None:
    """State lies in buffers of its names."""
    for key in held:
        if not key.isidentifier() or hasattr(module, key) or hasattr(Stateful, key):
            fault = "the model has that itself" if key.isidentifier() else "that is no name"
            raise UsageError(
                f"making arguments state: a tensor of {label!r} would be called {key!r}, but "
                f"{fault}; rename the argument, or its keys"
            )


@dataclass(frozen=True, slots=True)
class _Argument:
    """How an argument is made of state: a tensor's name, or a value, for each leaf."""

    leaves: tuple[Any, ...]
    is_state: tuple[bool, ...]
    spec: Any

    def made(self, held: Mapping[str, Any]) -> Any:
        pairs = zip(self.leaves, self.is_state, strict=True)
        return pytree.tree_unflatten([held[n] if own else n for n, own in pairs], self.spec)


class Stateful(nn.Module):
    """A module whose state is an argument and a result of the one inside, by names of both."""

    def __init__(
        self,
        inner: nn.Module,
        made_of: Mapping[str, _Argument],
        held: State,
        found: Returned,
    ) -> None:
        super().__init__()
        parts = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
        self.__dict__.update({part: inner.__dict__[part] for part in parts})
        self.__dict__["inner"] = inner  # not as a part: names are those in it
        self._made_of, self._returned = dict(made_of), found
        for key, tensor in held.items():
            self.register_buffer(key, tensor, persistent=False)

    def called(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The results that are no state, which is changed once all of them are read."""
        state = {name: one.made(self._buffers) for name, one in self._made_of.items()}
        result = self.__dict__["inner"](*args, **kwargs, **state)
        rest = {key: one for key, one in result.items() if key not in self._made_of}
        rest = self._returned.results_apart(rest)
        for key, tensor in self._returned.state_apart(tensors_of(result, self._made_of)).items():
            self.get_buffer(key).copy_(tensor)
        return type(result)(**rest) if type(result) is not dict else rest

    def train(self, mode: bool = True) -> "Stateful":
        """The module inside keeps its mode: programs have theirs for ever."""
        self.training = mode
        return self


def _method(
    module: nn.Module, method: Method, names: tuple[str, ...], held: State, found: Returned
) -> Method:
    made_of = {name: _argument(name, (method.kwargs or {})[name]) for name in names}
    kwargs = {name: one for name, one in (method.kwargs or {}).items() if name not in names}
    shapes, program = method.dynamic_shapes, method.function
    if shapes is None and isinstance(program, ExportedProgram):
        shapes = _dynamic_shapes(program, module, names)
    if isinstance(shapes, Mapping):
        shapes = {name: one for name, one in shapes.items() if name not in names}

    def forward(self: Stateful, *args: Any, **given: Any) -> Any:
        return self.called(args, given)

    forward.__signature__ = _signature(module, kwargs, names)  # type: ignore[attr-defined]
    kind = type(Stateful.__name__, (Stateful,), {"forward": forward})
    return replace(
        method, function=kind(module, made_of, held, found), kwargs=kwargs, dynamic_shapes=shapes
    )


def _dynamic_shapes(program: ExportedProgram, module: nn.Module, names: tuple[str, ...]) -> Any:
    """The dynamic sizes of a program, but for those of its state, which are fixed."""
    user = {spec.arg.name for spec in program.graph_signature.input_specs if _is_input(spec)}
    nodes = [one for one in program.graph.find_nodes(op="placeholder") if one.name in user]
    args, kwargs = pytree.tree_unflatten(
        [node.meta["val"] for node in nodes], program.call_spec.in_spec
    )
    fixed = {
        symbol
        for name in names
        for tensor in pytree.tree_leaves(kwargs[name])
        for expression in _expressions(tensor).values()
        for symbol in expression.free_symbols
    }
    dims = {symbol: one for symbol, one in _dims(program).items() if symbol not in fixed}

    def sizes(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return None
        return {
            n: _size(expression, dims)
            for n, expression in _expressions(tensor).items()
            if not expression.free_symbols & fixed
        }

    given = dict(zip(inspect.signature(module.forward).parameters, args, strict=False)) | kwargs
    kept = {name: pytree.tree_map(sizes, one) for name, one in given.items() if name not in names}
    return kept if dims else None


def _is_input(spec: Any) -> bool:
    return spec.kind is InputKind.USER_INPUT


def _expressions(value: Any) -> dict[int, sympy.Expr]:
    """The sizes of a tensor that are not fixed, by dimension."""
    sizes: Any = value.shape if isinstance(value, torch.Tensor) else ()
    return {n: one.node.expr for n, one in enumerate(sizes) if isinstance(one, torch.SymInt)}


def _dims(program: ExportedProgram) -> dict[sympy.Symbol, Any]:
    """A size for each symbol of a program, with its range."""
    found = {}
    for symbol, bounds in program.range_constraints.items():
        if isinstance(symbol, sympy.Symbol):
            most = int(bounds.upper) if bounds.upper.is_Integer else None
            found[symbol] = Dim(str(symbol), min=int(bounds.lower), max=most)
    return found


def _size(expression: sympy.Expr, dims: Mapping[sympy.Symbol, Any]) -> Any:
    """The size that an expression stands for: ``2 * n + 1``."""
    symbols = [*expression.free_symbols]
    parts = expression.as_poly(*symbols) if len(symbols) == 1 else None
    if parts is None or parts.degree() != 1 or symbols[0] not in dims:
        raise UsageError(
            f"making arguments state: the program has an input of the size {expression}; sizes n "
            "and a * n + b are accepted"
        )
    factor, rest = (int(parts.coeff_monomial(symbols[0] ** n)) for n in (1, 0))
    size = dims[symbols[0]]
    size = size if factor == 1 else factor * size
    return size + rest if rest else size


def _argument(name: str, value: Any) -> _Argument:
    leaves, spec = pytree.tree_flatten(value)
    is_state = tuple(isinstance(leaf, torch.Tensor) for leaf in leaves)
    each = zip(keys_of(name, spec), leaves, is_state, strict=True)
    return _Argument(tuple(key if own else leaf for key, leaf, own in each), is_state, spec)


def _signature(module: nn.Module, kwargs: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The parameters that are no state."""
    kinds = inspect.Parameter
    own = [*inspect.signature(module.forward).parameters.values()]
    if any(one.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD) for one in own):
        own = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in kwargs]
    kept = [one for one in own if one.name not in names and one.name != "self"]
    return inspect.Signature([kinds("self", kinds.POSITIONAL_ONLY), *kept])
