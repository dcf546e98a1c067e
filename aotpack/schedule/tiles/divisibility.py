"""Variants for divisible sizes, where accesses of 16 bytes need multiples of a vector.

    for x, r: y[x*d + r] = f(a[x*d + r])     rows begin at multiples of 8 only where d is one

Each GPU variant is doubled: one that is compiled for ``d % 8 == 0``, then the same without. A
divisibility that is known anyway needs no variant.
"""

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from aotpack.ir.kernels.access import VECTOR_BYTES, Strides, accesses, local_slope
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import Variant
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int, Monomial, Remainder, Var
from aotpack.schedule.layout import typical_bytes

SMALL_SHARE = 8  # of the largest tensor's bytes: a smaller tensor is not worth a variant


def with_divisibility(
    variants: tuple[Variant, ...], kernel: Kernel, program: Program, strides: Strides
) -> tuple[Variant, ...]:
    """The variants, each behind its twin for divisible sizes."""
    if kernel.scatter is not None:
        return variants
    divisibility = tuple(divisible_sizes(kernel, program, strides).items())
    if not divisibility:
        return variants
    return tuple(
        twin
        for variant in variants
        for twin in (replace(variant, divisibility=divisibility), variant)
    )


def divisible_sizes(kernel: Kernel, program: Program, strides: Strides) -> dict[Var, int]:
    """The sizes that vector accesses to large tensors need divisible, with their factors."""
    touched = list(accesses(kernel))
    sizes = {access.buffer: typical_bytes(program.buffers[access.buffer]) for access in touched}
    least = max(sizes.values(), default=0) / SMALL_SHARE
    found: dict[Var, int] = {}
    for access in touched:
        elements = VECTOR_BYTES // program.buffers[access.buffer].dtype.itemsize
        if sizes[access.buffer] >= least and elements > 1:
            needed = widening_sizes(access.offset(strides), elements, found)
            found |= {var: max(elements, found.get(var, 1)) for var in needed or ()}
    return found


def widening_sizes(offset: Int, elements: int, given: Mapping[Var, int] = {}) -> list[Var] | None:
    """The sizes that must be multiples of ``elements``; None if that is not enough."""
    axis = next((a for a in _axes(offset) if local_slope(offset, a) == 1), None)
    if axis is None:
        return None
    parts: list[Int] = [axis.extent]
    for monomial, coefficient in offset.terms:
        if coefficient == 1 and len(monomial) == 1 and _is_digit(monomial, axis):
            parts += [atom.den for atom in monomial if isinstance(atom, Remainder)]
        else:
            parts.append(Int(((monomial, coefficient),)))
    needed = dict.fromkeys(var for var, factor in given.items() if factor >= elements)
    for part in parts:
        for monomial, coefficient in part.terms:
            sizes = [atom for atom in monomial if isinstance(atom, Var) and not atom.is_turn]
            known = coefficient * prod(size.multiple for size in sizes)
            if known % elements == 0 or any(size in needed for size in sizes):
                continue
            if not sizes:
                return None
            needed[sizes[-1]] = None
    return [var for var in needed if not known_multiple(Int.of(var), elements)]


def _axes(offset: Int) -> list[Axis]:
    return [leaf for leaf in offset.leaves() if isinstance(leaf, Axis)]


def _is_digit(monomial: Monomial, axis: Axis) -> bool:
    """True for the axis itself, and for its last digit."""
    (atom,) = monomial
    return atom is axis or (isinstance(atom, Remainder) and atom.num.atom is axis)
