"""How far a schedule is made: each check holds from one of these phases on."""

from enum import IntEnum


class Phase(IntEnum):
    """What has been decided; all that was decided before still holds."""

    PROGRAM = 0  # no kernels yet
    FUSED = 1  # each operation is in a kernel
    ORDERED = 2  # kernels are in launch order
    LAID_OUT = 3  # buffers have strides
    TILED = 4  # kernels have variants
    UPDATED = 5  # new values lie where they overwrite old ones
    LAUNCHED = 6  # launches are final, with what their programs exchange
    COMPLETE = 7  # intermediates have lifetimes
