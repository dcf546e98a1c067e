"""Plans that are tried before they are decided: the kernels a program would have."""

from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.program import Program
from aotpack.schedule.fusion.fuse import fuse


def trial_kernels(program: Program) -> tuple[Kernel, ...]:
    """What fusion makes of a program, or of some operations of one; no draft takes it over."""
    return fuse(program)
