"""Tiles for windows: rows of a few elements, which they may share with neighbouring rows."""

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import (
    VECTOR_BYTES,
    Strides,
    accesses,
    has_digits,
    local_slope,
)
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.operations import Reduction
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import typical
from aotpack.ir.symbolic.integers import product

LONGEST = 64  # elements of a row: lines of a kernel
LONGEST_APART = 16  # of windows that share no elements
KINDS = ("sum", "prod", "max", "min", "any", "all")  # whose states are single elements
WARPS = 4


def unrolled_rows(
    kernel: Kernel, program: Program, strides: Strides, gpu: Gpu
) -> ReductionTile | None:
    """A tile for windows across lanes; None for other rows, or if lanes would read far apart."""
    x, r = kernel.axes
    length = r.extent.constant
    if length is None or not 1 < length <= LONGEST:
        return None
    plain = (m.outer or isinstance(m.operation, Reduction) for m in kernel.members)
    if not all(plain) or any(one.kind not in KINDS for one in kernel.reductions):
        return None
    read = [access for access in accesses(kernel) if not access.is_store]
    along = [access for access in read if r in access.offset(strides).leaves()]
    if any(local_slope(access.offset(strides), x) != 1 for access in along):
        return None
    sizes = (typical(product(program.buffers[access.buffer].shape)) for access in along)
    is_shared = any(size < typical(x.extent * r.extent) for size in sizes)
    is_window = any(has_digits((access.offset(strides),), r) for access in along)
    if not is_shared and not (is_window and length <= LONGEST_APART):
        return None
    width = max(program.buffers[access.buffer].dtype.itemsize for access in along)
    rows = WARP * WARPS * max(1, VECTOR_BYTES // width)
    while rows > WARP * WARPS and typical(x.extent) < 2 * gpu.multiprocessors * rows:
        rows //= 2
    return ReductionTile(rows, length, persistent=True, num_warps=WARPS, unrolled=True)
