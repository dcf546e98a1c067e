"""Sizes that data decide: which symbols of torch.export they are, and their ranges.

torch gives such a size a symbol of its own, bound by the call that yields it: the number of rows of
``nonzero``, or the number that ``n.item()`` reads. A number that is no size of a tensor and no
integer argument stays a tensor on the device, and no call waits for it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.facts import bounds as bounds_of
from aotpack.ir.symbolic.integers import (
    LARGEST_SIZE,
    Int,
    Var,
    ceil_div,
    maximum,
    minimum,
    product,
)
from aotpack.trace.operators.assertions import reads_number
from aotpack.trace.operators.control_flow.control import COND, CONTROL, part_of, part_results
from aotpack.trace.operators.counted.pinned import Pinned, pinned
from aotpack.trace.sizes import Sizes, symbols_in, unused_name

_AT_DATA = frozenset({"aten.select.int"})  # their integers may be tensors on the device


_CHOOSING = frozenset(
    {"aten.nonzero.default", "aten._unique2.default", "aten.unique_consecutive.default"}
)  # of the elements of their first argument
_SLICE = "aten.slice.Tensor"  # its length follows from its ends


@dataclass(frozen=True, slots=True)
class Binding:
    """The size that a call yields: a dimension of its result, or (None) the number it reads."""

    size: Var
    output: int
    dimension: int | None


_Bindings: TypeAlias = Mapping[fx.Node, tuple[Binding, ...]]


@dataclass(frozen=True, slots=True)
class Counted:
    """The calls that yield sizes, the call behind each symbol, and those without a symbol."""

    bindings: _Bindings
    sources: Mapping[str, fx.Node]
    pinned: tuple[fx.Node, ...]

    def behind(self, node: fx.Node) -> Iterator[fx.Node]:
        """The calls that yield the sizes in a node's value."""
        for symbol in _symbols_of(node):
            if symbol in self.sources:
                yield self.sources[symbol]


def find_counted(program: ExportedProgram, sizes: Sizes, taken: set[str]) -> tuple[Sizes, Counted]:
    """Name the sizes that data decide ``u0``, ``u1``, ...; no name is one of ``taken``."""
    bindings: dict[fx.Node, tuple[Binding, ...]] = {}
    sources: dict[str, fx.Node] = {}
    variables = dict(sizes.variables)
    found = replace(sizes, variables=variables)
    used = _used_as_sizes(program.graph)
    outside: set[str] = set()
    held: list[fx.Node] = []
    for node in program.graph.nodes:
        if node.target is COND:
            _define_agreed(node, found)
        for symbol, path in (node.meta.get("unbacked_bindings") or {}).items():
            if node.target not in CONTROL:
                outside.add(str(symbol))
            place = _place(node, path)
            if place is None or (place[1] is None and str(symbol) not in used):
                continue
            if str(node.target) == _SLICE:
                source, dim, start, end, step = _slice(node)
                length = length_of_slice(source, dim, start, end, step, found)
                found.defined[str(symbol)] = length
                continue
            name = _unused(bindings, taken, found)
            size = _ranged(name, program.range_constraints.get(symbol), _most(node, found))
            variables[str(symbol)], sources[str(symbol)] = size, node
            bindings[node] = (*bindings.get(node, ()), Binding(size, *place))
        one = pinned(node, (*bindings, *sources.values())) if node not in bindings else None
        if one is not None:
            size = _pinned_size(one, found, taken, bindings)
            bindings[node] = (Binding(size, 0, one.dimension),)
            held.append(node)
    found = replace(found, counted=frozenset(sources), outside=frozenset(outside))
    return found, Counted(bindings, sources, tuple(held))


def _unused(bindings: _Bindings, taken: set[str], sizes: Sizes) -> str:
    """A name for the next size."""
    own = [one.size.name for each in bindings.values() for one in each]
    known = {*own, *(variable.name for variable in sizes.variables.values())}
    return unused_name(f"u{len(own)}", taken | known)


def _pinned_size(one: Pinned, sizes: Sizes, taken: set[str], bindings: _Bindings) -> Var:
    """The size of a count that has to be what torch.export puts in its place."""
    low, high = bounds_of(sizes.convert(one.value))
    return Var(_unused(bindings, taken, sizes), int(low), int(high))


def _define_agreed(node: fx.Node, sizes: Sizes) -> None:
    """Define the sizes of a cond's results by those of its branches, where both sides agree."""
    parts = [part_of(part) for part in node.args[1:3] if isinstance(part, fx.Node)]
    for inner in (one for part in parts for one in part.graph.nodes if one.target is COND):
        _define_agreed(inner, sizes)
    for symbol, path in (node.meta.get("unbacked_bindings") or {}).items():
        place = _size_at(path)
        values = [part_results(part)[place[0]].meta["val"] for part in parts if place]
        ends = [value.shape[place[1]] for value in values if place]
        if ends and all(isinstance(one, int) or sizes.knows(one) for one in ends):
            first, second = map(sizes.convert, ends)
            if first == second:
                sizes.defined[str(symbol)] = first


def _slice(node: fx.Node) -> tuple[Any, ...]:
    """What is sliced, along which dimension, from where to where, and in which steps."""
    return (*node.args, *(0, 0, None, None, 1)[len(node.args) :])


def length_of_slice(
    source: fx.Node, dim: int, start: Any, end: Any, step: Any, sizes: Sizes
) -> Int:
    """The length of a slice; ends may count from the end of the dimension, and lie outside."""
    size = sizes.convert(source.meta["val"].shape[dim])

    def number(given: Any) -> Int:
        return sizes.convert(given.meta["val"] if isinstance(given, fx.Node) else given)

    def clamped(place: Any, default: Int) -> Int:
        if place is None:
            return default
        at = number(place)
        return maximum(0, minimum(size, at + sizes.is_less(at, Int.of(0)) * size))

    first, last = clamped(start, Int.of(0)), clamped(end, size)
    return ceil_div(maximum(0, last - first), number(step))


def _place(node: fx.Node, path: Any) -> tuple[int, int | None] | None:
    """(result, dimension) of a binding; None for one that is no size of a call's result."""
    if node.target in CONTROL or node.op != "call_function":
        return None
    if not path:
        return (0, None) if reads_number(node) else None
    return _size_at(path)


def _size_at(path: Any) -> tuple[int, int] | None:
    """(result, dimension) of a size of a call's result."""
    keys = [getattr(key, "idx", getattr(key, "name", None)) for key in path]
    output = keys.pop(0) if len(keys) == 3 else 0
    if len(keys) != 2 or keys[0] != "size":
        return None
    dimension = keys[1]
    if not isinstance(output, int) or not isinstance(dimension, int):
        return None
    return output, dimension


def _most(node: fx.Node, sizes: Sizes) -> int:
    """The elements that a call chooses from, at the largest sizes; ``LARGEST_SIZE`` if unknown."""
    if str(node.target) not in _CHOOSING:
        return LARGEST_SIZE
    source = node.args[0]
    assert isinstance(source, fx.Node)
    numel = product(map(sizes.convert, source.meta["val"].shape))
    return int(min(bounds_of(numel)[1], LARGEST_SIZE))


def _ranged(name: str, bounds: Any, most: int) -> Var:
    """The variable; a range without ends is that of sizes, up to ``most``."""
    low = int(bounds.lower) if bounds is not None and bounds.lower.is_Integer else -LARGEST_SIZE
    high = int(bounds.upper) if bounds is not None and bounds.upper.is_Integer else LARGEST_SIZE
    low, high = max(low, -LARGEST_SIZE), min(high, most)
    if low > high:
        raise UnsupportedError(f"the size {name} is asserted to be from {low} to {high}")
    return Var(name, low, high)


def _used_as_sizes(graph: fx.Graph) -> set[str]:
    """The symbols in shapes of tensors, and in integer arguments of calls that yield tensors."""
    found: set[str] = set()
    for node in graph.nodes:
        if node.op != "call_function" or node.target in CONTROL:
            continue
        value = node.meta.get("val")
        tensors = [one for one in pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]
        for tensor in tensors:
            found.update(*map(symbols_in, tensor.shape))
        if tensors and str(node.target) not in _AT_DATA:
            found.update(*map(_symbols_of, _integer_arguments(node)))
    return found


def _integer_arguments(node: fx.Node) -> Iterator[fx.Node]:
    """The numbers that a call takes where its schema has integers."""
    schema = getattr(node.target, "_schema", None)
    for declared, given in zip(schema.arguments if schema else (), node.args, strict=False):
        if "int" in str(declared.type):
            yield from (one for one in pytree.tree_leaves(given) if isinstance(one, fx.Node))


def _symbols_of(node: fx.Node) -> set[str]:
    """The symbols in a node's number, or in the shapes of its tensors."""
    found: set[str] = set()
    for value in pytree.tree_leaves(node.meta.get("val")):
        if isinstance(value, torch.Tensor):
            found.update(*map(symbols_in, value.shape))
        else:
            found |= symbols_in(value)
    return found
