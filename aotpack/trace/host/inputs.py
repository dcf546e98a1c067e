"""Example inputs that are no tensors where tensors are wanted, in words that name them."""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError, UsageError, a_type
from aotpack.trace.operators.random.seeds import Example

_OF_TYPES = (AttributeError, TypeError)
_DROPPING = "TorchExportableModuleForDecoderOnlyLM"
_ARRAYS = (numpy.ndarray, numpy.generic)


def given_example(label: str, args: Any, kwargs: Any) -> Example:
    """The example inputs, if they are a tuple and a dict."""
    if isinstance(args, torch.Tensor):
        raise UsageError(f"tracing {label}: the example inputs are a tensor; give a tuple: (x,)")
    if isinstance(args, Mapping):
        raise UsageError(
            f"tracing {label}: the example inputs are {a_type(args)}; give a tuple, () here, and "
            "the inputs by name after it, as kwargs"
        )
    if not isinstance(args, (tuple, list)):
        remedy = ("torch.from_numpy(x)" if isinstance(args, numpy.ndarray) else "x") + ",)"
        raise UsageError(
            f"tracing {label}: the example inputs are {_kind(args)}; give a tuple: ({remedy}"
        )
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise UsageError(
            f"tracing {label}: the example inputs by name, kwargs, are {_kind(kwargs)}; give a "
            "dict: {'x': x}"
        )
    if unnamed := [key for key in kwargs or () if not isinstance(key, str)]:
        raise UsageError(
            f"tracing {label}: kwargs has the key {unnamed[0]!r}, {a_type(unnamed[0])}; give "
            "example inputs by the names of forward's parameters: {'x': x}"
        )
    return tuple(args), dict(kwargs or {})


def check_arrays(label: str, module: nn.Module | ExportedProgram, example: Example) -> None:
    """Refuse arrays of other libraries, of which torch makes tensors."""
    names = _names(module, example)
    for path, leaf in pytree.tree_leaves_with_path(example):
        if remedy := _as_tensor(leaf):
            _, key, *inner = path
            place = _shown(key, names, pytree.keystr(tuple(inner)))
            raise TraceError(f"tracing {label}: {place} is {_kind(leaf)}; give {remedy}")


def wrong_inputs(module: nn.Module, example: Example, error: BaseException) -> str:
    """The example inputs that are no tensors and whose type an error is about, or ""."""
    found = error if isinstance(error, _OF_TYPES) else None
    names, (args, kwargs) = _names(module, example), example
    rows = [
        f"\n  {_shown(key, names, '')} is {_kind(value)}{_remedy(module, value)}"
        for key, value in [*enumerate(args), *kwargs.items()]
        if found and _is_about(found, value)
    ]
    return "".join(rows)


def dropped_inputs(module: nn.Module, complaint: str) -> str:
    """What to give for a module of transformers whose forward fails as it is, or ""."""
    for one in module.modules() if "'NoneType' object is not" in complaint else ():
        kind = type(one)
        if kind.__name__ == _DROPPING and kind.__module__.partition(".")[0] == "transformers":
            return (
                f"\n  The forward of {_DROPPING} does not pass cache_position on, so it fails "
                "without a build too. Give its program, module.export(input_ids=..., "
                "cache_position=...), or the module in it, module.model"
            )
    return ""


def with_arguments(text: str, module: nn.Module, example: Example) -> str:
    """A text with the arguments that strict mode calls ``flat_args[1]``, by forward's names."""
    names = _names(module, example)
    paths = [path for path, _ in pytree.tree_leaves_with_path(example)]

    def named(found: re.Match[str]) -> str:
        quote, number = found[1], int(found[2])
        if number >= len(paths):
            return found[0]
        _, *path = paths[number]
        first, *_ = _keys(path, names)
        name = f"{first}{pytree.keystr(tuple(path[1:]))}"
        return found[0] if isinstance(first, int) else repr(name) if quote else name

    return re.sub(r"('?)\bflat_args\[(\d+)\]\1", named, text)


def of_one_size(
    text: str, module: nn.Module, example: Example, shapes: Mapping[str, Any] | None
) -> str:
    """What to declare if a fixed input has the size that a dynamic one is told to have always."""
    names, told = _names(module, example), ""
    for size, number in re.findall(r"Leave (\S+) out of [^.]* where it is always (\d+)", text):
        found = ""
        for (_, *path), leaf in pytree.tree_leaves_with_path(example):
            keys = _keys(path, names)
            shown = f"{keys[0]}{pytree.keystr(tuple(path[1:]))}"
            for axis in _fixed_axes(leaf, _spec_of(shapes, keys)):
                if leaf.shape[axis] == int(number):
                    found += f" {shown}.shape[{axis}] is {number} and has no Dim."
        told += found and f"{found} If it is the same size, give it the Dim {size} too."
    return told


def _keys(path: Iterable[Any], names: list[str]) -> list[Any]:
    """What leads to an input: its parameter, its number where that has no name; inner keys."""
    first, *inner = (getattr(one, "idx", getattr(one, "key", None)) for one in path)
    if isinstance(first, int) and first < len(names):
        return [names[first], *inner]
    return [first, *inner]


def _spec_of(shapes: Any, keys: list[Any]) -> Any:
    """The dynamic shapes of a tensor, by the keys that lead to it; None without any."""
    for key in keys:
        try:
            shapes = shapes[key]
        except (KeyError, IndexError, TypeError):
            return None
    return shapes


def _fixed_axes(leaf: Any, spec: Any) -> list[int]:
    """The dimensions of a tensor that have no Dim."""
    if not isinstance(leaf, torch.Tensor):
        return []
    specs = [_spec_of(spec, [axis]) for axis in range(leaf.dim())]
    return [axis for axis, one in enumerate(specs) if one in (None, Dim.STATIC, leaf.shape[axis])]


def _is_about(error: BaseException, value: Any) -> bool:
    is_tensor = isinstance(value, torch.Tensor)
    return not is_tensor and re.search(rf"\b{type(value).__name__}\b", str(error)) is not None


def _remedy(module: nn.Module, value: Any) -> str:
    """What to give in place of a value that is no tensor."""
    named = [key for key in value if isinstance(key, str)] if isinstance(value, Mapping) else []
    if named and {*named} <= {*inspect.signature(module.forward).parameters}:
        return f"; give its inputs by name, as kwargs: {', '.join(named)}"
    if isinstance(value, (int, float, list)):
        return "; where a tensor is wanted, give torch.tensor(...) of it"
    return "; a tensor may be wanted there"


def _names(module: nn.Module | ExportedProgram, example: Example) -> list[str]:
    """The parameters of forward that the positional inputs are for, as far as it has names."""
    if isinstance(module, ExportedProgram):
        return []
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except ValueError:  # it has no signature
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in parameters if one.kind in kinds][: len(example[0])]


def _shown(key: Any, names: list[str], inner: str) -> str:
    """An input of an example by its number and its parameter, or by its name."""
    place = getattr(key, "idx", getattr(key, "key", key))
    if not isinstance(place, int):
        return f"the example input {place!r}{inner}"
    named = f" (for {names[place]!r})" if place < len(names) else ""
    return f"the example input {place}{inner}{named}"


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, numpy.ndarray):
        return "a numpy array"
    return f"a number of numpy ({value.dtype})" if isinstance(value, _ARRAYS) else a_type(value)


def _as_tensor(leaf: Any) -> str:
    """How torch makes a tensor of it; "" for what needs none."""
    if isinstance(leaf, torch.Tensor):
        return ""
    if isinstance(leaf, _ARRAYS):
        return "torch.from_numpy(...)" if leaf.ndim else "torch.tensor(...)"
    return "torch.from_dlpack(...)" if hasattr(leaf, "__dlpack__") else ""
