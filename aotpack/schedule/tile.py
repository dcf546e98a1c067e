"""Choose block sizes: for each kernel the closed list of variants a launch can take.

Pointwise and reduction tiles follow from the access pattern and the sizes (C:B16, C:H11-H13);
matmul and attention tiles come from ``matmul_tiles.py`` and ``attention_tiles.py``.
"""

from dataclasses import replace

from aotpack.ir.access import Strides, accesses, local_slope
from aotpack.ir.facts import bounds, typical
from aotpack.ir.integers import Axis, Int
from aotpack.ir.nodes import Attention, Matmul, Program, Scan
from aotpack.ir.schedule import (
    HostTile,
    Kernel,
    PlaneTile,
    PointwiseTile,
    ReductionTile,
    Variant,
)
from aotpack.schedule.attention_tiles import attention_variants
from aotpack.schedule.layout import typical_bytes
from aotpack.schedule.matmul_tiles import matmul_variants
from aotpack.schedule.plane import line_width

ANY_ARCH = (1, 10_000)
HOST_ARCH = (0, 0)
MAX_PERSISTENT = 16384  # elements of a row held in registers
MANY_ROWS = 4096  # from here on two rows a program hide each other's latency
LONGEST_PAIR = 2048  # elements of a row, of which two fit the registers of a few warps
SMALL_GRID = 264 * 1024  # below, smaller blocks fill more multiprocessors


def choose_tiles(
    program: Program, kernels: tuple[Kernel, ...], strides: Strides
) -> tuple[Kernel, ...]:
    """The kernels with their variants."""
    return tuple(
        replace(
            kernel,
            variants=(
                _host_variant(kernel, program, strides),
                *(
                    replace(variant, arch_low=max(ANY_ARCH[0], variant.arch_low))
                    for variant in _variants(kernel, program, strides)
                ),
            ),
        )
        for kernel in kernels
    )


def _host_variant(kernel: Kernel, program: Program, strides: Strides) -> Variant:
    """Neighbours in memory go into one vector; a scan walks its row in order."""
    along = "r"
    if kernel.anchor is None and len(kernel.axes) == 2 and not _has_scan(kernel):
        along = "x" if _walks_along(kernel, program, strides) is kernel.axes[0] else "r"
    return Variant(HostTile(along), *HOST_ARCH, Int.of(1), None)


def _variants(kernel: Kernel, program: Program, strides: Strides) -> tuple[Variant, ...]:
    anchor = kernel.anchor
    if isinstance(anchor, Matmul):
        return matmul_variants(anchor)
    if isinstance(anchor, Attention):
        return attention_variants(anchor)
    if kernel.scatter is not None:
        return _pointwise_variants(kernel.axes[0].extent)
    if len(kernel.axes) == 2:
        return _reduction_variants(kernel, program, strides)
    width = line_width(kernel, program, strides)
    if width is not None:
        return (Variant(PlaneTile(width, 64, 64, num_warps=8), *ANY_ARCH, Int.of(1), None),)
    return _pointwise_variants(kernel.axes[0].extent)


def _pointwise_variants(numel: Int) -> tuple[Variant, ...]:
    small = Variant(PointwiseTile(256, 4), *ANY_ARCH, numel, SMALL_GRID)
    large = Variant(PointwiseTile(1024, 4), *ANY_ARCH, numel, None)
    low, high = bounds(numel)
    if high <= SMALL_GRID:
        return (replace(small, at_most=None),)
    return (large,) if low > SMALL_GRID else (small, large)


def _reduction_variants(kernel: Kernel, program: Program, strides: Strides) -> tuple[Variant, ...]:
    x, r = kernel.axes
    longest = bounds(r.extent)[1]
    persistent = longest <= MAX_PERSISTENT
    if _walks_along(kernel, program, strides) is x:
        tile = _column_tile(int(longest), persistent, _power_of_two(typical(x.extent)))
    elif persistent:
        return _row_variants(x.extent, _power_of_two(int(longest)))
    else:
        tile = ReductionTile(1, 4096, persistent=False, num_warps=8)
    return (Variant(tile, *ANY_ARCH, Int.of(1), None),)


def _row_variants(rows: Int, r: int) -> tuple[Variant, ...]:
    """About a thousand elements a warp. With many rows two of them share a program (measured)."""
    few = ReductionTile(max(1, 512 // r), r, persistent=True, num_warps=_row_warps(r))
    many = ReductionTile(max(2, 2048 // r), r, persistent=True, num_warps=2 * _row_warps(r))
    low, high = bounds(rows)
    small, large = (Variant(tile, *ANY_ARCH, rows, None) for tile in (few, many))
    if r > LONGEST_PAIR or high < MANY_ROWS:
        return (small,)
    return (large,) if low >= MANY_ROWS else (replace(small, at_most=MANY_ROWS - 1), large)


def _row_warps(r: int) -> int:
    return min(16, max(1, r // 1024))


def _column_tile(longest: int, persistent: bool, columns: int) -> ReductionTile:
    """Neighbouring columns a program, so that a warp reads whole cache lines."""
    r = _power_of_two(longest)
    if persistent and r <= 64:
        return ReductionTile(max(16, 2048 // r), r, persistent=True, num_warps=4)
    if persistent and r <= 256:
        return ReductionTile(16, r, persistent=True, num_warps=8)
    return ReductionTile(min(128, max(16, columns)), 32, persistent=False, num_warps=8)


def _walks_along(kernel: Kernel, program: Program, strides: Strides) -> Axis:
    """The axis along which most bytes are contiguous; the inner one if undecided."""
    x, r = kernel.axes
    votes = {x: 0, r: 0}
    for access in accesses(kernel):
        offset = access.offset(strides)
        for axis in (x, r):
            if local_slope(offset, axis) == 1:
                votes[axis] += typical_bytes(program.buffers[access.buffer])
    return x if votes[x] > votes[r] and typical(x.extent) > 1 else r


def _has_scan(kernel: Kernel) -> bool:
    return any(isinstance(member.operation, Scan) for member in kernel.members)


def _power_of_two(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()
