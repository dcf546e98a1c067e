"""At which point an operation reads an element: its axes, written in those of a kernel."""

from aotpack.ir.kernels.access import delinearize, linearize, points
from aotpack.ir.operations import Pointwise
from aotpack.ir.symbolic.facts import known_equal
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.ir.values import Load


def solve_read(
    operation: Pointwise,
    load: Load,
    written: tuple[Int, ...],
    shape: tuple[Int, ...],
    axes: tuple[Axis, ...],
) -> dict[Axis, Int] | None:
    """Solve ``load.index == written`` for the operation's axes, each dimension a mixed radix.

    A dimension must be read whole; otherwise points are visited twice or never. Axes that the load
    does not use take the kernel axes that the written index does not use, in order. None for a
    written index that was loaded (a sort): the point of an element is unknown.
    """
    if any(isinstance(leaf, Indirect) for position in written for leaf in position.leaves()):
        return None
    binding: dict[Axis, Int] = {}
    for part, position, size in zip(load.index, written, shape, strict=True):
        radix = mixed_radix(part)
        if radix is None or any(axis in binding for axis in radix):
            return None
        if not known_equal(points(radix), size):
            return None
        binding |= delinearize(radix, position)
    rest = tuple(a for a in operation.axes if a not in binding)
    used = {leaf for position in written for leaf in position.leaves()}
    free = tuple(axis for axis in axes if axis not in used)
    if not known_equal(points(rest), points(free)):
        return None
    binding |= delinearize(rest, linear_of_kernel(free))
    return {axis: binding[axis] for axis in operation.axes}


def linear_of_kernel(axes: tuple[Axis, ...]) -> Int:
    """The row-major position of a point of a kernel's axes."""
    return linearize(axes, {axis: Int.of(axis) for axis in axes})


def is_read_whole(load: Load, shape: tuple[Int, ...]) -> bool:
    """True for a load of each element once, but for axes that it does not use."""
    radices = [mixed_radix(part) for part in load.index]
    axes = [axis for radix in radices for axis in radix or ()]
    return len(axes) == len(set(axes)) and all(
        radix is not None and known_equal(points(radix), size)
        for radix, size in zip(radices, shape, strict=True)
    )


def mixed_radix(part: Int) -> tuple[Axis, ...] | None:
    """The axes of ``(i*J + j)*K + k``, outermost first; None for any other expression."""
    found: list[Axis] = []
    rest, below = part, Int.of(1)
    while rest.terms:
        inner = _axis_with_step(rest, below)
        if inner is None or inner in found:
            return None
        found.append(inner)
        rest = rest - below * Int.of(inner)
        below = below * inner.extent
    return tuple(reversed(found))


def _axis_with_step(expression: Int, step: Int) -> Axis | None:
    """The axis that occurs in a sum exactly as ``step * axis``."""
    for atom in expression.atoms():
        if isinstance(atom, Axis):
            left = expression - step * Int.of(atom)
            if len(left.terms) < len(expression.terms) and atom not in left.atoms():
                return atom
    return None
