"""When a kernel can run in the last blocks of the kernel before it.

    p[s, i] = sum over j of x[i, s*J + j], by S*I programs        ->        a launch less:
    y[i] = sum over s of p[s, i]                   the last of S programs to arrive makes y[i]

Programs are numbered by blocks of rows. Programs of the first kernel with equal numbers modulo the
blocks of the second are a group: it makes all that one program of the second reads, and nothing
that another reads.
"""

from aotpack.ir.kernels.access import accesses, flatten_index
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import known_equal, known_multiple
from aotpack.ir.symbolic.integers import Int


def is_made_in_groups(first: Kernel, second: Kernel, program: Program, block: int) -> bool:
    """True when program g of ``second`` reads what programs g, g + G, g + 2*G... of ``first`` make.

    Both have blocks of ``block`` rows; ``second`` has G of them.
    """
    rows, made = second.axes[0].extent, set(first.stored)
    if not _is_multiple(first.axes[0].extent, rows) or not known_multiple(rows, block):
        return False

    def rest(axis_of: Kernel, buffer: str, index: tuple[Int, ...]) -> Int:
        return flatten_index(index, program.buffers[buffer].shape) - Int.of(axis_of.axes[0])

    stores = [(a.buffer, a.index) for a in accesses(first) if a.is_store]
    loads = [(a.buffer, a.index) for a in accesses(second) if a.buffer in made]
    return (
        bool(loads)
        and all(known_equal(rest(first, *one), 0) for one in stores if one[0] in dict(loads))
        and all(_is_multiple(rest(second, *one), rows) for one in loads)
    )


def arrival_count(first: Kernel, second: Kernel) -> Int:
    """The programs of ``first`` that must arrive before one program of ``second`` can run."""
    return first.axes[0].extent // second.axes[0].extent


def _is_multiple(value: Int, factor: Int) -> bool:
    if factor.constant is not None:
        return factor.constant > 0 and known_multiple(value, factor.constant)
    return known_equal(value // factor * factor, value)
