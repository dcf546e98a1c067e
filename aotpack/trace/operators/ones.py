"""Tests operators on sizes of 1: torch.export assumes that no dynamic size is less than 2.

A condition such as ``n * m >= 3`` holds for all sizes from 2 on, so torch.export keeps no guard
of it, and the three first elements of ``x.flatten()`` are three for a tensor of one element too.
Each call runs on the meta device once more, with sizes of 1 in place of the symbols.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.node import map_arg

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.symbolic.integers import Var
from aotpack.trace.sizes import Sizes, symbols_in
from aotpack.trace.source import source_of

Values = Mapping[str, int]  # of sizes, by name
_MOST_ELEMENTS = 2**40
_ADVICE = (
    "torch.export takes each dynamic size for 2 or more. Give the dimension a range from 2 on, "
    "or change the line"
)


def ones(sizes: Iterable[Var], example: Values) -> Iterator[dict[str, int]]:
    """The example's sizes with each that may be 1 as 1, then with all of them."""
    names = [size.name for size in sizes if size.low == 1 and size.name in example]
    for some in [[name] for name in names] + [names] * (len(names) > 1):
        yield {**example, **dict.fromkeys(some, 1)}


def shown_ones(values: Values, example: Values) -> str:
    """The sizes that are 1 in place of the example's."""
    return ", ".join(f"{name}=1" for name, value in values.items() if value != example[name])


def check_ones(name: str, program: ExportedProgram, sizes: Sizes) -> None:
    """Refuse a program in which a call fails, or has another shape, where a size is 1."""
    example = _example(program, sizes)
    cases = list(ones(sizes.variables.values(), example))
    for node in _calls(program, sizes) if cases else ():
        if not isinstance(_tried(node, sizes, example), str):
            for values in cases:
                found = _tried(node, sizes, values)
                if found:
                    raise _refusal(name, node, shown_ones(values, example), found)


def _example(program: ExportedProgram, sizes: Sizes) -> dict[str, int]:
    """The sizes that torch traced with; those of saved programs may be unknown."""
    found = {}
    for node in program.graph.find_nodes(op="placeholder"):
        for size in getattr(node.meta.get("val"), "shape", ()):
            variable = sizes.variables.get(str(size))
            hint = getattr(getattr(size, "node", None), "hint", None)
            if variable is not None and isinstance(hint, int):
                found[variable.name] = hint
    for variable in sizes.variables.values():
        found.setdefault(variable.name, min(variable.low + 2, variable.high))
    return found


def _calls(program: ExportedProgram, sizes: Sizes) -> Iterator[fx.Node]:
    """The first of equal calls of operators on tensors whose sizes are dynamic, and known."""
    seen = set()
    for part in program.graph_module.modules():
        for node in part.graph.nodes if isinstance(part, fx.GraphModule) else ():
            if isinstance(node.target, OpOverload) and node.target.namespace == "aten":
                key = _described(node)
                symbols = set[str]().union(*map(_symbols, (node, *node.all_input_nodes)))
                known = symbols & {*sizes.variables} and symbols.isdisjoint(sizes.counted)
                if known and symbols <= {*sizes.variables, *sizes.defined} and key not in seen:
                    seen.add(key)
                    yield node


def _symbols(node: fx.Node) -> set[str]:
    values = _tensors(node.meta.get("val"))
    return set[str]().union(*(symbols_in(size) for x in values for size in (*x.shape,)))


def _described(node: fx.Node) -> tuple[Any, ...]:
    def value(arg: fx.Node) -> str:
        found = arg.meta.get("val")
        if isinstance(found, torch.Tensor):
            return f"{found.dtype}{[*map(str, found.shape)]}{[*map(str, found.stride())]}"
        return str(found)

    return str(node.target), repr(map_arg((node.args, node.kwargs), value))


def _tried(node: fx.Node, sizes: Sizes, values: Values) -> str | None:
    """How a call on the meta device departs from the shape that the program gives it."""
    try:
        wanted = [_shape(x, sizes, values) for x in _tensors(node.meta["val"])]
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: _meta(n, sizes, values))
    except (UnsupportedError, RuntimeError, KeyError):  # sizes that this stage cannot express
        return None
    if "device" in kwargs:
        kwargs = {**kwargs, "device": "meta"}
    try:
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    except NotImplementedError:
        return None
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        return f"fails: {str(error).splitlines()[0]}" if str(error) else "fails"
    found = [tuple(x.shape) for x in _tensors(result)]
    if found == wanted:
        return None
    return f"gives {_listed(found)}, and the exported program has {_listed(wanted)}"


def _meta(node: fx.Node, sizes: Sizes, values: Values) -> Any:
    """What a node gives, for these sizes: tensors on meta."""
    value = node.meta["val"]
    if isinstance(value, torch.SymInt):
        return sizes.convert(value).evaluate(values)
    if isinstance(value, (torch.SymBool, torch.SymFloat)):
        raise UnsupportedError("a condition")
    if not isinstance(value, torch.Tensor):
        return value
    strides = [sizes.convert(stride).evaluate(values) for stride in value.stride()]
    shape = _shape(value, sizes, values)
    return torch.empty_strided(shape, strides, dtype=value.dtype, device="meta")


def _shape(value: torch.Tensor, sizes: Sizes, values: Values) -> tuple[int, ...]:
    shape = tuple(int(sizes.convert(size).evaluate(values)) for size in value.shape)
    elements = 1
    for size in shape:
        elements *= size
    if elements > _MOST_ELEMENTS or min(shape, default=0) < 0:
        raise UnsupportedError("a tensor of many elements")
    return shape


def _tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str([*shape]) for shape in shapes)


def _refusal(name: str, node: fx.Node, case: str, found: str) -> TraceError:
    source = source_of(node)
    place = f"\n  at {source}" if source else ""
    return TraceError(f"exporting {name}: {node.target} {found}, where {case}. {_ADVICE}.{place}")
