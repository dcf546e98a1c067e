"""Trial fusion: the kernels that a program would have, to compare plans."""

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.program import Program
from aotpack.schedule.fusion.fuse import fuse


def trial_kernels(program: Program) -> tuple[Kernel, ...]:
    """The kernels that fusion makes of a program, or of some operations; no draft keeps them."""
    return fuse(program)
