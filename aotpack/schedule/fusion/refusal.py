"""The reasons why an operation is not in a kernel whose buffers it reads.

The rules that refuse return them; ``aotpack show MODEL --stage scheduled --why`` prints them.
"""

from enum import Enum


class Refusal(Enum):
    """The reasons, in the order in which they are found: a later one came closer to fusion."""

    UNFUSABLE = "one of them must be alone in its kernel"
    EMPTY = "the buffers that both touch have no elements"
    FULL = "the kernel already has the maximum number of operations"
    CYCLE = "fused, the kernel would wait for another kernel that waits for it"
    MEMORY = "unfused they can share memory, which is worth more than the reads that fusion saves"
    STARTS = "a product, attention, scatter, foreign call, branch or loop starts a new kernel"
    CLOSED = "a scatter, foreign call, branch or loop must end before its result can be read"
    PARTIAL_ROW = "it reduces whole rows, and a program of the product has only a part of a row"
    POINTS = "its loops have other extents than the loops of the kernel"
    ORDER = "it does not read each element that the kernel makes exactly once, row by row"
    NOTHING_SHARED = "no program of the kernel loads or computes the elements that it reads"
    OTHER_PROGRAM = "it reads elements that another program of the kernel computes"
    BETTER = "it is in another kernel, with which it shares more bytes"
