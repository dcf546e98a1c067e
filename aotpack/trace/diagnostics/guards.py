"""Tests the size guards that torch.export recorded beside the ranges on admitted sizes.

The packaged model guards ranges and equalities alone. Automatic dims (Dim.AUTO, Dim.DYNAMIC) may
carry more, such as "a multiple of 4"; a condition that some admitted size breaks is refused here.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch.export import ExportedProgram

from aotpack.errors import TraceError
from aotpack.ir.symbolic.facts import known_lt, known_nonnegative
from aotpack.ir.symbolic.integers import Int, Var, operand
from aotpack.stages import GraphNode, Ref, TensorSpec
from aotpack.trace.diagnostics.conditions import CONDITIONS, ConditionLog
from aotpack.trace.diagnostics.intervals import is_broken, is_proved, rounds_floats
from aotpack.trace.diagnostics.multiples import Declared, SomeSizesError, compiled, holds, told

Shapes: TypeAlias = Mapping[str, Sequence[Int]]

_SIZE = re.compile(r"L((?:\[[^\]]+\]|\.(?!size\(\))\w+)+)\.size\(\)\[(\d+)\]")
_EQUAL = re.compile(rf"{_SIZE.pattern} == [^%/]+")
_NEAR = 12  # sizes tried from each end of a range and around each number in a condition
_TRIED = 4096


@dataclass(frozen=True, slots=True)
class LeafSpec:
    """One leaf of the inputs: its path in torch's guards (``['x'][0]``), and its dynamic spec."""

    path: str
    dims: Any


def guards_of(program: ExportedProgram) -> list[str]:
    """The conditions under which torch exported; some versions keep none."""
    return getattr(program, "_guards_code", None) or []


def check_guards(name: str, program: ExportedProgram, shapes: Shapes) -> None:
    """Refuse the program when a recorded condition does not hold for every admitted size."""
    if refusal := refusal_of_guards(name, program, shapes):
        raise refusal


def by_path(leaves: Sequence[LeafSpec], shapes: Iterable[Sequence[Int] | None]) -> Shapes:
    """The shapes of the inputs (None of those that are no tensors) by their paths in conditions."""
    pairs = enumerate(zip(leaves, shapes, strict=bool(leaves)))
    known = [(number, leaf, shape) for number, (leaf, shape) in pairs if shape is not None]
    in_strict_mode = {f"['flat_args'][{number}]": shape for number, _, shape in known}
    return {leaf.path: shape for _, leaf, shape in known} | in_strict_mode


def refusal_of_guards(name: str, program: ExportedProgram, shapes: Shapes) -> SomeSizesError | None:
    """The error that names recorded conditions which do not hold for all sizes of the ``shapes``.

    Shapes are those of the inputs by path, such as ``['x']`` or ``['xs'][0]``.
    """
    broken: dict[str, str] = {}
    for guard in guards_of(program):
        remark = _broken(guard, shapes)
        if remark is not None:
            broken[_readable(guard, shapes)] = remark
    if not broken:
        return None
    log = program.graph_module.meta.get(CONDITIONS, ConditionLog())
    return SomeSizesError(
        f"exporting {name}: the exported program holds only for sizes where\n  "
        + told(_declared(shapes), broken, log.operators, log.conditions)
    )


def are_declared(guards: Iterable[str]) -> bool:
    """True for guards that say alone how the size of an input follows from others."""
    return all(map(_EQUAL.fullmatch, guards))


def _declared(shapes: Shapes) -> list[Declared]:
    """The dynamic sizes of the inputs, each where it is first."""
    found: dict[Int, Declared] = {}
    for path, shape in shapes.items():
        argument = argument_of(path)
        for axis, size in enumerate(shape):
            leaf = next(iter(size.leaves()), None)
            if isinstance(leaf, Var):
                one = Declared(str(size), argument, axis, leaf.low, leaf.high)
                found.setdefault(size, one)
    return [*found.values()]


def argument_of(path: str) -> str:
    """The argument of a path in torch's guards: ``xs[0]`` of ``['xs'][0]``."""
    return re.sub(r"^\['(\w+)'\]", r"\1", path)


def check_shapes(name: str, nodes: Sequence[GraphNode], given: Sequence[TensorSpec]) -> None:
    """Refuse a program in which a tensor has another shape for some admitted size.

    torch.export assumes dynamic sizes of 2 and more, whatever the range is: the slice of 4n
    elements from the fifth on has 4n - 5, and a squeeze removes no dynamic dimension. ``given`` are
    the inputs.
    """
    slices = (spec for node in nodes for body in node.bodies for spec in body.slices)
    shapes = {Ref(spec.name): spec.shape for spec in (*given, *slices)}
    for node in nodes:
        shapes |= {Ref(node.name, k): spec.shape for k, spec in enumerate(node.results)}
    counted = {size for node in nodes for size in node.counts}  # what they give, calls check
    for node in nodes:
        if node.op.startswith("aten.squeeze."):
            _check_squeeze(name, node, shapes)
        for spec in node.results:
            for size in (size for size in spec.shape if not known_nonnegative(size)):
                if counted.intersection(size.leaves()):
                    continue
                numbers = [abs(coefficient) for _, coefficient in size.terms]
                for values in admitted([v for v in size.leaves() if isinstance(v, Var)], numbers):
                    if size.evaluate(values) < 0:
                        raise _too_small(name, node, size, values)


def _check_squeeze(name: str, node: GraphNode, shapes: Mapping[Ref, Sequence[Int]]) -> None:
    """Refuse a squeeze of a dynamic dimension, which eager removes if its size is 1."""
    source, *dims = node.args
    assert isinstance(source, Ref)
    shape = shapes.get(source, ())  # a weight's is fixed
    meant = dims[0] if dims and isinstance(dims[0], tuple) else dims or range(len(shape))
    for dim in meant:
        size = shape[dim] if shape and isinstance(dim, int) else Int.of(1)
        if size.constant is None and not known_lt(1, size):
            raise TraceError(
                f"exporting {name}: {node.op} removes a dimension of size {size} only where that "
                "is 1, and shapes of a package do not depend on such a case. Name the dimensions "
                f"to squeeze, or give the size a range from 2 on.{_place(node)}"
            )


def _place(node: GraphNode) -> str:
    return f"\n  at {node.source}" if node.source else ""


def _too_small(name: str, node: GraphNode, size: Int, values: Mapping[str, int]) -> SomeSizesError:
    found = ", ".join(f"{key}={value}" for key, value in values.items())
    return SomeSizesError(
        f"exporting {name}: torch.export gives the result of {node.op} the size {size}, which "
        f"is negative for {found}. Give the dimension a narrower range.{_place(node)}"
    )


def _broken(guard: str, shapes: Shapes) -> str | None:
    """Which sizes violate the guard, or that it is not proved; None if it holds for all."""
    sizes: dict[str, Int] = {}

    def name_size(match: re.Match[str]) -> str:
        path, axis = match[1], int(match[2])
        if path not in shapes:
            return match[0]
        key = f"size{len(sizes)}"
        sizes[key] = shapes[path][axis]
        return key

    text = _SIZE.sub(name_size, guard)
    if rounds_floats(text):
        if is_proved(text, sizes):
            return None
        found = _first(text, sizes, lambda values: is_broken(text, sizes, values))
        return found or "  (not proved for all sizes)"
    code = compiled(text, sizes)
    if code is None:
        return ""
    return _first(
        text,
        sizes,
        lambda values: not holds(code, {key: one.evaluate(values) for key, one in sizes.items()}),
    )


def _first(
    text: str, sizes: Mapping[str, Int], is_violation: Callable[[Mapping[str, int]], bool]
) -> str | None:
    """The first sizes near the ends and the numbers of a condition that violate it, in words."""
    variables = dict.fromkeys(v for size in sizes.values() for v in size.leaves())
    numbers = [int(number) for number in re.findall(r"\b\d+\b", text)]
    tried = admitted([v for v in variables if isinstance(v, Var)], numbers)
    values = next(filter(is_violation, tried), None)
    if values is None:
        return None
    return f"  (not for {', '.join(f'{key}={value}' for key, value in values.items())})"


def admitted(variables: Sequence[Var], numbers: Sequence[int]) -> Iterator[dict[str, int]]:
    """Sizes at both ends of each range and around the numbers that the condition mentions."""
    tried = []
    for variable in variables:
        near = {n + d for n in numbers if n < 2**31 for d in (-1, 0, 1)}
        near |= {variable.low + d for d in range(_NEAR)} | {variable.high - d for d in range(_NEAR)}
        tried.append(sorted(n for n in near if variable.low <= n <= variable.high))
    for values in itertools.islice(itertools.product(*tried), _TRIED):
        yield {variable.name: value for variable, value in zip(variables, values, strict=True)}


def _readable(guard: str, shapes: Shapes) -> str:
    def named(match: re.Match[str]) -> str:
        path, axis = match[1], int(match[2])
        return operand(shapes[path][axis]) if path in shapes else match[0]

    return _SIZE.sub(named, guard)
