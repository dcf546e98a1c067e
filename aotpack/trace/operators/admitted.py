"""Tests calls of operators on sizes that are admitted and that torch.export did not trace.

It takes each dynamic size for 2 or more: ``n * m >= 3`` holds then, so it keeps no guard of it, and
the three first elements of ``x.flatten()`` are three for a tensor of one element too. Each call
runs on meta or small tensors with numbers in place of the symbols: ends of ranges, and ones.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx.node import map_arg

from aotpack.errors import TraceError, UnsupportedError
from aotpack.ir.symbolic.integers import Var
from aotpack.trace.diagnostics.assumed import ASSUMED, TooManySets, cases_at_ones, computed_sizes
from aotpack.trace.diagnostics.multiples import SomeSizesError
from aotpack.trace.sizes import Sizes, symbols_in
from aotpack.trace.source import source_of

Values = Mapping[str, int]  # of sizes, by name
_MOST_ELEMENTS = 2**40
_NEAR = 4  # small sizes of each range
_MOST_COMBINED = 4096
_MOST_CASES = 64
_MOST_TOGETHER = 4  # sizes of which all sets are 1
_FAR = 2**16  # in place of larger ends, with which torch's shapes overflow
_LARGE = 1024  # sizes that are large together
_MOST_ON_CPU = 2**24
_ON_CPU = frozenset(  # on meta, torch does not check what these write, or read
    f"aten.{name}"
    for name in (
        *("slice_scatter.default", "select_scatter.default", "diagonal_scatter.default"),
        *("index_put.default", "_unsafe_index_put.default", "index_put_.default"),
        *(
            "copy.default",
            "scatter.src",
            "scatter.value",
            "scatter_add.default",
            "masked_scatter.default",
        ),
        *("index_add.default", "index_copy.default", "index_fill.int_Scalar"),
    )
)
_RESHAPES = frozenset({"aten.reshape.default", "aten.view.default", "aten._unsafe_view.default"})
_ADVICE = (
    "torch.export takes each dynamic size for 2 or more, and for one like the example's. Give the "
    "dimension a narrower range, from 2 on where 1 is too few, or change the line"
)


def ones(sizes: Iterable[Var], example: Values) -> Iterator[dict[str, int]]:
    """The example's sizes with some as 1 that may be: all sets of few, else single ones and all."""
    names = [size.name for size in sizes if size.low == 1 and size.name in example]
    counts = range(1, len(names) + 1) if len(names) <= _MOST_TOGETHER else (1, len(names))
    for some in itertools.chain(*(itertools.combinations(names, count) for count in counts)):
        yield {**example, **dict.fromkeys(some, 1)}


def with_ones(sizes: Sequence[Var], example: Values) -> Iterator[dict[str, int]]:
    """Small sizes of which one is 1 at least, beside each other's and the example's."""
    tried = [
        sorted({n for n in (*range(s.low, s.low + _NEAR), example[s.name]) if n <= s.high})
        for s in sizes
    ]
    for numbers in itertools.islice(itertools.product(*tried), _MOST_COMBINED):
        if 1 in numbers:
            yield {size.name: number for size, number in zip(sizes, numbers, strict=True)}


def at_ones(
    name: str,
    program: ExportedProgram,
    symbols: Mapping[str, str],
    sizes: Sequence[Var],
    example: Values,
) -> Iterator[dict[str, int]]:
    """Sizes at which such are 1 that are computed, for each set of them.

    ``symbols`` are torch's, by the name of a size.
    """
    asked = program.graph_module.meta.get(ASSUMED)
    if asked is None:
        return
    if not {size.name for size in sizes} <= {*symbols}:
        raise _too_many(name)
    names = {symbols[size.name]: size.name for size in sizes}
    ranges = {symbols[size.name]: (size.low, size.high) for size in sizes}
    given = {symbols[size.name]: example[size.name] for size in sizes}
    try:
        found = cases_at_ones(asked, computed_sizes(program), ranges, given)
    except TooManySets:
        raise _too_many(name) from None
    for case in found:
        yield {names[symbol]: number for symbol, number in case.items()}


def _too_many(name: str) -> TraceError:
    return TraceError(
        f"tracing {name}: more sizes follow from dynamic ones, and may be 1 together, than can be "
        "tried; give the dimensions narrower ranges"
    )


def _cases(sizes: Sequence[Var], example: Values) -> Iterator[Values]:
    """The example's sizes with one at an end of its range, or beside the example's; small sizes."""
    for size in sizes:
        near = (size.low, example[size.name] + 1, min(size.high, _FAR), size.high)
        for value in dict.fromkeys(near):
            if size.low <= value <= size.high and value != example[size.name]:
                yield {**example, size.name: value}
    yield {size.name: size.low for size in sizes}
    yield {size.name: min(size.high, _LARGE) for size in sizes}
    yield from ones(sizes, example)
    yield from itertools.islice(with_ones(sizes, example), _MOST_CASES)


def check_calls(name: str, program: ExportedProgram, sizes: Sizes) -> None:
    """Refuse a program in which a call fails, or has another shape, for admitted sizes."""
    example = _example(program, sizes)
    given = [size for symbol, size in sizes.variables.items() if symbol not in sizes.counted]
    symbols = {size.name: symbol for symbol, size in sizes.variables.items()}
    tried = (*_cases(given, example), *at_ones(name, program, symbols, given, example))
    cases = list({tuple(case.items()): case for case in tried}.values())
    for node in _calls(program, sizes) if cases else ():
        if not isinstance(_tried(node, sizes, example), str):
            for values in cases:
                found = _tried(node, sizes, values)
                if found:
                    raise _refusal(name, node, values, found)


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
            if _may_differ(node):
                key = _described(node)
                symbols = set[str]().union(*map(_symbols, (node, *node.all_input_nodes)))
                known = symbols & {*sizes.variables} and symbols.isdisjoint(sizes.counted)
                if known and symbols <= {*sizes.variables, *sizes.defined} and key not in seen:
                    seen.add(key)
                    yield node


def _may_differ(node: fx.Node) -> bool:
    """False for what keeps the one shape of its tensors, such as most calls by elements."""
    if not isinstance(node.target, OpOverload) or node.target.namespace != "aten":
        return False
    if str(node.target) in _ON_CPU or _has_open_size(node):
        return True
    tensors = [x for one in (node, *node.all_input_nodes) for x in _tensors(one.meta.get("val"))]
    return len({str([*x.shape]) for x in tensors}) > 1


def _has_open_size(node: fx.Node) -> bool:
    """True for a view with -1 in its shape, which is no number beside a size of 0."""
    return str(node.target) in _RESHAPES and -1 in (node.args[1:] or [()])[0]  # type: ignore[operator]


def _symbols(node: fx.Node) -> set[str]:
    """Those of a number, or of the shapes of tensors."""
    value = node.meta.get("val")
    sizes = [size for x in _tensors(value) for size in x.shape]
    return set[str]().union(*map(symbols_in, [value] if isinstance(value, torch.SymInt) else sizes))


def _described(node: fx.Node) -> tuple[Any, ...]:
    def value(arg: fx.Node) -> str:
        found = arg.meta.get("val")
        if isinstance(found, torch.Tensor) and found.layout is torch.strided:
            return f"{found.dtype}{[*map(str, found.shape)]}{[*map(str, found.stride())]}"
        return str(found)

    return str(node.target), repr(map_arg((node.args, node.kwargs), value))


def _tried(node: fx.Node, sizes: Sizes, values: Values) -> str | None:
    """How a call departs from the shape that the program gives it."""
    device = _device(node, sizes, values)
    try:
        wanted = [_shape(x, sizes, values) for x in _tensors(node.meta["val"])]
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: _given(n, sizes, values, device))
    except (UnsupportedError, RuntimeError, KeyError):  # sizes that this stage cannot express
        return None
    if "device" in kwargs:
        kwargs = {**kwargs, "device": device}
    try:
        result = node.target(*args, **kwargs)  # type: ignore[operator]
    except NotImplementedError:
        return None
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        if "overflow" in str(error):  # of torch's own count of elements
            return None
        return f"fails: {str(error).splitlines()[0]}" if str(error) else "fails"
    found = [tuple(x.shape) for x in _tensors(result)]
    if found == wanted:
        return None
    return f"gives {_listed(found)}, and the exported program has {_listed(wanted)}"


def _device(node: fx.Node, sizes: Sizes, values: Values) -> str:
    """Where a call is tried: on meta, or on a few elements if that does not check it."""
    if str(node.target) not in _ON_CPU:
        return "meta"
    tensors = [x for one in (node, *node.all_input_nodes) for x in _tensors(one.meta.get("val"))]
    try:
        most = max(math.prod(_shape(x, sizes, values)) for x in tensors)
    except (UnsupportedError, KeyError):
        return "meta"
    return "cpu" if most <= _MOST_ON_CPU else "meta"


def _given(node: fx.Node, sizes: Sizes, values: Values, device: str) -> Any:
    """What a node gives, for these sizes: tensors are on a device, and zero."""
    value = node.meta["val"]
    if isinstance(value, torch.SymInt):
        return sizes.convert(value).evaluate(values)
    if isinstance(value, (torch.SymBool, torch.SymFloat)):
        raise UnsupportedError("a condition")
    if not isinstance(value, torch.Tensor):
        return value
    strides = [sizes.convert(stride).evaluate(values) for stride in value.stride()]
    shape = _shape(value, sizes, values)
    return torch.empty_strided(shape, strides, dtype=value.dtype, device=device).zero_()


def _shape(value: torch.Tensor, sizes: Sizes, values: Values) -> tuple[int, ...]:
    shape = tuple(int(sizes.convert(size).evaluate(values)) for size in value.shape)
    if math.prod(shape) > _MOST_ELEMENTS or min(shape, default=0) < 0:
        raise UnsupportedError("a tensor of many elements")
    return shape


def _tensors(value: Any) -> list[torch.Tensor]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


def _listed(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str([*shape]) for shape in shapes)


def _refusal(name: str, node: fx.Node, values: Values, found: str) -> SomeSizesError:
    case = ", ".join(f"{size}={value}" for size, value in values.items())
    source = source_of(node)
    place = f"\n  at {source}" if source else ""
    return SomeSizesError(
        f"exporting {name}: {node.target} {found}, where {case}. {_ADVICE}.{place}"
    )
