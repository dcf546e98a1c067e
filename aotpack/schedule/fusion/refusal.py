"""Why an operation is not in a kernel whose buffers it reads: one reason each.

The rules that refuse say so themselves; ``aotpack show MODEL --stage scheduled --why`` prints it.
"""

from enum import Enum


class Refusal(Enum):
    """The reasons, in the order in which they are found: a later one came closer to fusion."""

    ALONE = "the program asks for a kernel of its own"
    EMPTY = "what both read has no elements"
    FULL = "the kernel has as many operations as it may"
    CYCLE = "it needs something else that needs the kernel first"
    MEMORY = "each could leave its memory to the other, which is much more than they share"
    BEGINS = "products, attention, scatters, foreign kernels and control flow begin kernels"
    CLOSED = "what a scatter, a foreign kernel or control flow makes is complete after it only"
    TILE = "a tile of a product holds no whole row"
    POINTS = "it has another number of points or rows than the kernel"
    ORDER = "its rows do not take each element of the kernel's once"
    NOTHING = "no program of the kernel has what it reads"
    ELSEWHERE = "what it reads lies in the registers of another program"
    CHOICE = "it is in a kernel with which it shares more bytes"
