"""The user's dynamic dimensions: text or torch.export's forms, checked and merged."""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, ShapesCollection
from torch.utils import _pytree as pytree

from aotpack.errors import TraceError, UsageError, did_you_mean
from aotpack.trace.diagnostics.guards import LeafSpec
from aotpack.trace.layers.named_arguments import inputs_within, parameters_given
from aotpack.trace.tree import children_of, registered_fields

_SPEC = re.compile(
    r"(?P<argument>\w+):(?P<axis>-?\d+)=(?P<dim>[^\[\]]+)(?:\[(?P<low>\d*):(?P<high>\d*)\])?"
)
_BLANKS = re.compile(r"\s*([:=\[\]])\s*")  # around signs; those inside of a name stay
_DIMS_ONLY = (
    "only dimensions of tensors can be dynamic; a number that varies is a tensor, torch.tensor(3)"
)


def parse_dynamic(specs: Sequence[str]) -> dict[str, dict[int, Dim]]:
    """``["x:0=batch[1:64]", "y:0=batch"]`` -> torch.export's form; one Dim for each name."""
    dims: dict[str, Dim] = {}
    shapes: dict[str, dict[int, Dim]] = {}
    for spec in specs:
        match = _SPEC.fullmatch(_BLANKS.sub(r"\1", spec.strip()))
        if match is None:
            raise UsageError(
                f"--dynamic {spec}: not understood; ARGUMENT:AXIS=NAME[LOW:HIGH] is accepted, "
                "such as x:0=batch[1:64] or x:1=seq"
            )
        if not match["dim"].isidentifier():
            raise UsageError(
                f"--dynamic {spec}: {match['dim']!r} is no name of a size; letters, digits and _ "
                f"are accepted, such as {_as_name(match['dim'])}"
            )
        axes = shapes.setdefault(match["argument"], {})
        if int(match["axis"]) in axes:
            raise UsageError(f"--dynamic {spec}: this axis was given before; name each axis once")
        axes[int(match["axis"])] = _dim(spec, match, dims)
    return shapes


def merge_dynamic(
    module: nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
    extra: Mapping[str, Mapping[int, Dim]],
) -> dict[str, Any] | None:
    """The model file's ``dynamic_shapes`` with the command line's on top, axis by axis.

    The sizes of a saved program are final: ``trace`` refuses dynamic shapes for it.
    """
    if isinstance(module, ExportedProgram):
        return dict(extra) or None
    shapes = specs_by_argument(module, args, kwargs, dynamic_shapes)
    if not extra:
        return shapes
    within = inputs_within(module, parameters_given(module, args, kwargs))
    named = dict(shapes or dict.fromkeys(_by_name(within)))
    for argument, axes in extra.items():
        _check_argument(argument, named)
        named[argument] = {**_by_axis(named[argument]), **axes}
    return specs_by_argument(module, args, kwargs, named)


def replaced_sizes(
    before: Mapping[str, Any] | None, extra: Mapping[str, Mapping[int, Dim]]
) -> tuple[str, ...]:
    """In words, the sizes in the model file that the command line declares otherwise.

    ``before`` are the file's as ``merge_dynamic`` returns them without ``extra``.
    """
    pairs = [
        (f"{argument}:{axis}", _text(_by_axis((before or {}).get(argument)).get(axis)), _text(dim))
        for argument, axes in extra.items()
        for axis, dim in axes.items()
    ]
    return tuple(
        f"note: --dynamic {place}={new} replaces {old}, which the model file declares"
        for place, old, new in pairs
        if old not in ("", new)
    )


def declared_names(dynamic_shapes: Any) -> frozenset[str]:
    """The names of the sizes in dynamic shapes of any form."""
    if isinstance(dynamic_shapes, Dim):
        return frozenset([dynamic_shapes.__name__])
    parts = dynamic_shapes.values() if isinstance(dynamic_shapes, Mapping) else dynamic_shapes
    inner = parts if isinstance(parts, Iterable) and not isinstance(parts, str) else ()
    return frozenset[str]().union(*map(declared_names, inner))


def _as_name(text: str) -> str:
    """An identifier that is near a text."""
    found = re.sub(r"\W+", "_", text).strip("_")
    return found if found.isidentifier() else f"n_{found}".rstrip("_")


def _by_axis(spec: Any) -> dict[int, Any]:
    """The spec of a tensor, which may be a sequence."""
    return dict(spec) if isinstance(spec, dict) else dict(enumerate(spec or ()))


def _text(dim: Any) -> str:
    """A declared size as on the command line; "" for an axis without one."""
    if not isinstance(dim, Dim):
        return ""
    high = dim.max if isinstance(dim.max, int) else ""
    return f"{dim.__name__}[{max(1, dim.min)}:{high}]"


def specs_by_argument(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> dict[str, Any] | None:
    """``dynamic_shapes`` with an entry for each argument of forward, checked against the inputs.

    torch.export's form is accepted for ``*args`` and ``**kwargs``, and a name for each input.
    """
    given = parameters_given(module, args, kwargs)
    if not dynamic_shapes:
        return None
    within = inputs_within(module, given)
    inputs = _by_name(within)
    named = _by_argument(within, dynamic_shapes)
    for parameter in [one for one in named if one in within and one not in inputs]:
        spec = _checked(parameter, given[parameter], named.pop(parameter))
        if spec is not None:
            named |= (
                spec if isinstance(spec, dict) else dict(zip(within[parameter], spec, strict=True))
            )
    for argument in named:
        _check_argument(argument, inputs)
    return {
        argument: _checked(argument, one, named.get(argument)) for argument, one in inputs.items()
    }


def leaf_specs(
    module: nn.Module,
    in_spec: pytree.TreeSpec,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    shapes: Mapping[str, Any] | None,
) -> tuple[LeafSpec, ...]:
    """The dynamic spec of each leaf of the inputs, in the order of the exported program."""
    if shapes is None:
        return ()
    signature = inspect.signature(module.forward)
    found: list[LeafSpec] = []
    for name, value in signature.bind_partial(*args).arguments.items():
        found += _flatten(f"['{name}']", value, shapes.get(name))
    for key in children_of(in_spec)[1].context:
        found += _flatten(f"['{key}']", kwargs[key], shapes.get(key))
    return tuple(found)


def _dim(spec: str, match: re.Match[str], dims: dict[str, Dim]) -> Dim:
    name, known = match["dim"], dims.get(match["dim"])
    low = int(match["low"]) if match["low"] else None
    high = int(match["high"]) if match["high"] else None
    if high is not None and high <= max(low or 0, 1):
        raise UsageError(
            f"--dynamic {spec}: the range is empty or one value; LOW < HIGH is accepted"
        )
    if known is None:
        known = dims[name] = Dim(name, min=1 if low is None else low, max=high)
    elif match["low"] is not None and (known.min, known.max) != (
        low or 1,
        high or known.max,
    ):
        raise UsageError(
            f"--dynamic {spec}: {name} was given the range [{known.min}:{known.max}] before; "
            "give one name one range, or leave the range out the second time"
        )
    return known


def _by_name(within: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The inputs of all parameters."""
    return {name: value for inner in within.values() for name, value in inner.items()}


def _by_argument(within: Mapping[str, Mapping[str, Any]], shapes: Any) -> dict[str, Any]:
    """The dynamic shapes by parameter, as torch.export takes a sequence, or by input."""
    if isinstance(shapes, Mapping):
        return dict(shapes)
    inputs = _by_name(within)
    if isinstance(shapes, (tuple, list)):
        by_parameter = zip(within, shapes, strict=False)
        is_flat = any(_is_by_axis(one) for name, one in by_parameter if name not in inputs)
        for names in (inputs, within) if is_flat else (within, inputs):
            if len(shapes) == len(names):
                return dict(zip(names, shapes, strict=True))
    if isinstance(shapes, ShapesCollection):
        raise TraceError(
            "the dynamic shapes are a ShapesCollection; accepted is what it stands for: pass "
            "collection.dynamic_shapes(model, args, kwargs)"
        )
    raise TraceError(
        f"the dynamic shapes are {shapes!r}; a dict by argument name, or a sequence of "
        f"{len(within)} entries is accepted: the arguments are {', '.join(within)}"
    )


def _is_by_axis(spec: Any) -> bool:
    """True for dynamic sizes of a tensor by axis; arguments have names."""
    return isinstance(spec, dict) and any(isinstance(key, int) for key in spec)


def _check_argument(argument: str, bound: Mapping[str, Any]) -> None:
    if argument not in bound:
        raise TraceError(
            f"dynamic shapes name the argument {argument!r}, which forward is not called with"
            f"{did_you_mean(argument, bound)}; the arguments are {', '.join(bound)}"
        )


def _checked(where: str, value: Any, spec: Any) -> Any:
    """The spec as torch.export takes it; refused where that raises an IndexError or much text."""
    if spec is None:
        return _fixed(value)
    if isinstance(value, torch.Tensor):
        _check_axes(where, value, spec)
        return spec
    if isinstance(value, (bool, int, float, str, type(None))):
        raise TraceError(f"dynamic shapes: {where} is {value!r}; {_DIMS_ONLY}")
    if isinstance(value, (list, tuple)):
        if not isinstance(spec, (list, tuple)) or len(spec) != len(value):
            accepted = f"an entry for each of its {len(value)} items, or None,"
            raise _no_form(where, spec, accepted)
        pairs = enumerate(zip(value, spec, strict=True))
        items = [_checked(f"{where}[{index}]", item, inner) for index, (item, inner) in pairs]
        return _alike(value, items)
    if isinstance(value, dict):
        if not isinstance(spec, dict) or {*spec} != {*value}:
            keys = ", ".join(map(repr, value)) or "none"
            raise _no_form(where, spec, f"a dict with its keys, {keys}, or None for a key,")
        return {key: _checked(f"{where}[{key!r}]", value[key], one) for key, one in spec.items()}
    return _by_field(where, value, spec)


def _fixed(value: Any) -> Any:
    """The spec of fixed sizes: None in the form of the value."""
    if isinstance(value, torch.Tensor):
        return None
    if isinstance(value, (list, tuple)):
        return _alike(value, [_fixed(one) for one in value])
    if isinstance(value, dict):
        return {key: _fixed(one) for key, one in value.items()}
    found = registered_fields(value)
    return None if found is None else [_fixed(one) for one in found.values() if one is not None]


def _alike(value: Sequence[Any], items: list[Any]) -> Any:
    """Items in a sequence of the kind of another."""
    if hasattr(value, "_fields"):
        return type(value)(*items)
    return items if isinstance(value, list) else tuple(items)


def _by_field(where: str, value: Any, spec: Any) -> Any:
    """The specs of an object of a registered class: a list by field, without those that are None.

    Accepted are such a list, also with an entry for each field that is None, a dict by field, and
    an object of the class.
    """
    found = registered_fields(value)
    if found is None:
        raise TraceError(
            f"dynamic shapes: {where} is of {type(value)}, which torch does not take apart; "
            "register a dataclass with torch.export.register_dataclass before the build"
        )
    if isinstance(spec, type(value)):
        spec = {name: getattr(spec, name) for name in found}
    present = {name: one for name, one in found.items() if one is not None}
    if isinstance(spec, (list, tuple)) and len(spec) in (len(found), len(present)):
        spec = dict(zip(found if len(spec) == len(found) else present, spec, strict=True))
    if not isinstance(spec, dict) or not {*spec} <= {*found}:
        example = f"{{{next(iter(found))!r}: {{0: Dim('n')}}}}" if found else "None"
        raise _no_form(where, spec, f"a dict by field ({', '.join(found)}), such as {example},")
    checked = {
        name: _checked(f"{where}.{name}", one, spec.get(name)) for name, one in found.items()
    }
    return [checked[name] for name in present]


def _check_axes(where: str, value: torch.Tensor, spec: Any) -> None:
    if not isinstance(spec, (dict, list, tuple)):
        raise _no_form(where, spec, "{0: Dim('batch', min=1, max=64)}, by axis,")
    shape = f"rank {value.dim()} (shape {list(value.shape)})"
    if isinstance(spec, (list, tuple)) and len(spec) != value.dim():
        raise TraceError(
            f"dynamic shapes for {where}: it has {shape}, and they have {len(spec)} entries; an "
            "entry for each axis is accepted (None for a fixed size), or a dict by axis"
        )
    axes = spec if isinstance(spec, dict) else dict(enumerate(spec))
    bad = [axis for axis in axes if type(axis) is not int or not 0 <= axis < value.dim()]
    if bad:
        accepted = f"axes 0 to {value.dim() - 1} are" if value.dim() else "none is"
        ends = [n for n in bad if type(n) is int and -value.dim() <= n < 0]
        near = f": for {ends[0]} write {ends[0] + value.dim()}" if ends else ""
        raise TraceError(
            f"dynamic shapes for {where}: it has no axis {', '.join(map(repr, bad))}, but "
            f"{shape}; {accepted} accepted{near}"
        )
    for axis, dim in axes.items():
        _check_size(f"axis {axis} of {where}", value.shape[axis], dim)


def _no_form(where: str, spec: Any, accepted: str) -> TraceError:
    return TraceError(f"dynamic shapes for {where}: found {spec!r}; {accepted} is accepted")


def _check_size(where: str, size: int, dim: Any) -> None:
    if isinstance(dim, Dim):
        _check_example(where, size, dim)
    elif isinstance(dim, int) and (dim != size or isinstance(dim, bool)):
        raise TraceError(
            f"dynamic shapes: {where} is {dim!r}, a fixed size, but the example input has {size}; "
            f"Dim('name', min=1, max={max(dim, size, 2)}) is accepted for a size that differs from "
            "call to call"
        )
    elif dim is not None and not isinstance(dim, (int, type(Dim.AUTO))):
        name = dim if isinstance(dim, str) and dim.isidentifier() else "name"
        raise TraceError(
            f"dynamic shapes: {where} is {dim!r}; Dim({name!r}, min=1, max=64) is accepted"
        )


def _check_example(where: str, size: int, dim: Dim) -> None:
    low = max(1, dim.min)
    if not low <= size <= dim.max:
        raise TraceError(
            f"dynamic shapes: {where} is {dim.__name__} in [{low}, {dim.max}], but the example "
            f"input has {size}; give an example inside the range"
        )
    if size < 2:
        raise TraceError(
            f"dynamic shapes: {where} ({dim.__name__}) is {size} in the example input, which "
            "torch.export would fix; give an example with at least 2"
        )


def _flatten(path: str, value: Any, dims: Any) -> list[LeafSpec]:
    """One spec for each leaf of ``value``; a leaf without a spec is static."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        inner = dims if isinstance(dims, (list, tuple)) else [None] * len(value)
        items = list(zip([f".{name}" for name in value._fields], value, inner, strict=True))
    elif isinstance(value, (list, tuple)):
        inner = dims if isinstance(dims, (list, tuple)) else [None] * len(value)
        items = [(f"[{i}]", item, d) for i, (item, d) in enumerate(zip(value, inner, strict=True))]
    elif isinstance(value, dict):
        known = dims if isinstance(dims, dict) else {}
        items = [(f"[{key!r}]", item, known.get(key)) for key, item in value.items()]
    elif (found := registered_fields(value)) is not None:
        present = [(f".{name}", one) for name, one in found.items() if one is not None]
        inner = dims if isinstance(dims, (list, tuple)) else [None] * len(present)
        items = [(step, item, d) for (step, item), d in zip(present, inner, strict=True)]
    else:
        return [LeafSpec(path, dims)]
    return [leaf for step, item, d in items for leaf in _flatten(path + step, item, d)]
