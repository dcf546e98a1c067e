"""Declared sizes must be free in the program: none is a number or follows from another, and each
has both ends of its declared range.

torch.export refuses that of a plain ``Dim``. It narrows and ties the root of a derived one, as
``a`` of ``2*a``, without a word.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.export import Dim, ExportedProgram

from aotpack.errors import UnsupportedError
from aotpack.ir.symbolic.integers import LARGEST_SIZE, Int, Var
from aotpack.trace.diagnostics.conditions import CONDITIONS, ConditionLog
from aotpack.trace.diagnostics.guards import LeafSpec, argument_of, by_path, refusal_of_guards
from aotpack.trace.diagnostics.multiples import Declared, SomeSizesError

_UNLIMITED = 2**62  # and more: torch's own ends of ranges


def declared_symbols(values: Sequence[Any], leaves: Sequence[LeafSpec]) -> dict[str, Dim]:
    """The ``Dim`` that each of torch's symbols is: a root, or a derived one with its own symbol.

    ``values`` are the inputs that torch traced, ``leaves`` their dynamic specs.
    """
    found: dict[str, Dim] = {}
    roots: dict[str, Dim] = {}
    for dim, size in _declared_sizes(values, leaves):
        expression = size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
        if isinstance(expression, sympy.Symbol):
            found.setdefault(str(expression), dim)
        elif root_of(dim) is not dim:
            for symbol in expression.free_symbols:
                roots.setdefault(str(symbol), root_of(dim))
    return roots | found  # a symbol that is a size itself is no root of others


def root_of(dim: Dim) -> Dim:
    """``a`` of ``2*a``."""
    root: Dim = getattr(dim, "root", dim)
    return root


def check_declared(
    name: str,
    program: ExportedProgram,
    values: Sequence[Any],
    leaves: Sequence[LeafSpec],
    shapes: Sequence[Sequence[Int] | None],
    sizes: Mapping[str, Var],
) -> None:
    """Refuse a program whose sizes (by torch's symbol) are not all that were declared.

    ``shapes`` are those of the inputs in the program; None of those that are no tensors.
    """
    known = {
        root_of(d).__name__: (d, sizes[s]) for s, d in declared_symbols(values, leaves).items()
    }
    for dim in dict.fromkeys(root_of(dim) for dim, _ in _declared_sizes(values, leaves)):
        fault = _fault(dim.__name__, *known.get(dim.__name__, (dim, None)))
        if fault:
            declared = [_declared_shape(*one) for one in zip(leaves, shapes, strict=True)]
            caused = refusal_of_guards(name, program, by_path(leaves, declared))
            raise caused or _refusal(name, fault, program)
        if dim.__name__ in known:
            _check_least(name, *known[dim.__name__], leaves)


def _declared_sizes(values: Sequence[Any], leaves: Sequence[LeafSpec]) -> Iterator[tuple[Dim, Any]]:
    """Each ``Dim`` that was declared, with the size that torch traced."""
    for value, leaf in zip(values, leaves, strict=bool(leaves)):
        for axis, dim in _by_axis(leaf.dims).items():
            if isinstance(dim, Dim):
                yield dim, value.shape[axis]


def _by_axis(spec: Any) -> dict[int, Any]:
    return spec if isinstance(spec, dict) else dict(enumerate(spec or ()))


def _fault(name: str, dim: Dim, size: Var | None) -> str:
    """What a size of the program lacks of its declaration; "" for nothing."""
    if size is None:
        return f"the size {name} is a number in the program, or follows from another size"
    low, high = _range(dim)
    if LARGEST_SIZE < dim.max < _UNLIMITED:
        raise UnsupportedError(
            f"the size {name} is declared up to {dim.max}; sizes up to {LARGEST_SIZE} are accepted"
        )
    if size.high < high or size.low > max(low, 2):
        found = f"{size.low} to {size.high}" if size.low < size.high else f"{size.low} alone"
        return f"the size {name} is declared from {low} to {high}, and is {found} in the program"
    return ""


def _check_least(name: str, dim: Dim, size: Var, leaves: Sequence[LeafSpec]) -> None:
    """Refuse a size from 1 on of which torch.export admits 2 and more, as no dimension is it."""
    if 1 <= dim.min < size.low:
        forms = {
            one.__name__: Declared(one.__name__, argument_of(leaf.path), axis)
            for leaf in leaves
            for axis, one in _by_axis(leaf.dims).items()
            if isinstance(one, Dim) and root_of(one).__name__ == root_of(dim).__name__
        }
        found = ", ".join(f"{form.name} is {form.place}" for form in forms.values())
        ends = f"min={size.low}" + (f", max={dim.max}" if dim.max < _UNLIMITED else "")
        raise UnsupportedError(
            f"exporting {name}: the size {dim.__name__} is declared from {dim.min} on, but no "
            f"dimension is {dim.__name__} itself: {found}. Of such a size torch.export admits "
            f"{size.low} and more. Declare {dim.__name__} = Dim({dim.__name__!r}, {ends}), or give "
            f"{dim.__name__} itself to a dimension"
        )


def _range(dim: Dim) -> tuple[int, int]:
    """The declared range in a package."""
    return max(1, int(dim.min)), int(min(dim.max, LARGEST_SIZE))


def _declared_shape(leaf: LeafSpec, shape: Sequence[Int] | None) -> tuple[Int, ...] | None:
    """The shape of an input as declared; None of one that is no tensor."""
    if shape is None:
        return None
    dims = _by_axis(leaf.dims)
    return tuple(
        _declared_size(dims[axis]) if isinstance(dims.get(axis), Dim) else size
        for axis, size in enumerate(shape)
    )


def _declared_size(dim: Dim) -> Int:
    root = root_of(dim)
    size = Int.of(Var(root.__name__, *_range(root)))
    return size if root is dim else dim.fn(size)  # type: ignore[attr-defined]


def _refusal(name: str, fault: str, program: ExportedProgram) -> SomeSizesError:
    log = program.graph_module.meta.get(CONDITIONS, ConditionLog())
    places = "".join(f"\n  at {line}" for line in log.conditions)
    return SomeSizesError(
        f"exporting {name}: {fault}. Accepted is a model that is right for all declared sizes: "
        "declare a narrower range, or sizes as they depend on each other (one Dim for equal ones, "
        f"2*n, n + 1), or change the model.{places}"
    )
