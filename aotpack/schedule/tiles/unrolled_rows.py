"""Tiles for windows: rows of a few elements, which they may share with neighbouring rows."""

from dataclasses import replace

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import (
    VECTOR_BYTES,
    Access,
    Strides,
    accesses,
    axes_in,
    has_digits,
    local_slope,
)
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.operations import Reduction
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import known_multiple, typical
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, product
from aotpack.schedule.interchange import Digit, digits_of, step_along

LONGEST = 72  # elements of a row: lines of a kernel
LONGEST_APART = 16  # of windows that share no elements
KINDS = ("sum", "prod", "max", "min", "any", "all")  # whose states are single elements
WARPS = 4
OF_A_LANE = (7, 4, 2)  # windows that slide along a line of an image
OF_A_GROUP = (4, 2)  # sums of one window
MOST_TERMS = 7 * 49  # of the windows of a lane: lines of a kernel
VECTOR = 4  # neighbouring elements of each: more take registers that other warps need
LONG_WINDOW = 36  # elements, beyond which two neighbours do (7x7: 51 us in place of 69)


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
    slopes = {local_slope(access.offset(strides), x) for access in along}
    if not slopes <= {0, 1}:
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
    tile = ReductionTile(rows, length, persistent=True, num_warps=WARPS, unrolled=True)
    largest = max(along, key=lambda one: typical(product(program.buffers[one.buffer].shape)))
    places = [leaf for access in along for leaf in access.offset(strides).leaves()]
    if any(isinstance(leaf, Indirect) for leaf in places):
        return tile  # a gather: nobody knows what neighbours share
    return _with_neighbours(tile, kernel, strides, along, largest, gpu)


def _with_neighbours(
    tile: ReductionTile,
    kernel: Kernel,
    strides: Strides,
    along: list[Access],
    image: Access,
    gpu: Gpu,
) -> ReductionTile:
    """The tile with several windows for each lane, if neighbours along a digit share elements.

    Channels of a group have one window. Where they are neighbours in memory, lanes have them, and
    windows slide along a line.
    """
    x, r = kernel.axes
    digits = [one for one in reversed(digits_of(kernel, x)) if _is_fixed(one)]
    shared = [one for one in digits if not step_along(image.offset(strides), one)]
    apart = [one for one in shared if one.below.constant != 1]
    if apart:
        return _with_windows(tile, apart[0], OF_A_GROUP, x, gpu)
    for digit in digits[1:]:
        if any(_slides(access.offset(strides), digit, r, tile.r) for access in along):
            return _with_windows(tile, digit, OF_A_LANE, x, gpu)
    return _with_windows(tile, shared[0], OF_A_GROUP, x, gpu) if shared else tile


def _with_windows(
    tile: ReductionTile, line: Digit, counts: tuple[int, ...], x: Axis, gpu: Gpu
) -> ReductionTile:
    """The tile with windows that are neighbours along a digit, as many as leave enough lanes."""
    vector = VECTOR if tile.r <= LONG_WINDOW else VECTOR // 2
    for windows in counts:
        lanes = x.extent // windows
        fills = typical(lanes) >= 2 * gpu.multiprocessors * WARP * WARPS
        if known_multiple(line.size, windows) and fills and windows * tile.r <= MOST_TERMS:
            block = min(tile.x, WARP * WARPS * vector)
            while block > WARP * WARPS and typical(lanes) < 2 * gpu.multiprocessors * block:
                block //= 2
            return replace(tile, x=block, unroll=windows, apart=int(line.below))
    return tile


def _is_fixed(digit: Digit) -> bool:
    """True for a digit whose places are known: of a line of dynamic length no plane is one."""
    return digit.size.constant is not None and digit.below.constant is not None


def _slides(offset: Int, line: Digit, r: Axis, length: int) -> bool:
    """True when a window and its neighbour along a line share elements."""
    step, axes = step_along(offset, line), axes_in((offset,))
    if not step:
        return False
    origin: dict[Axis, Int] = dict.fromkeys(axes, Int.of(0))
    places = (offset.substitute({**origin, r: Int.of(place)}) for place in range(length))
    first, *others = map(typical, places)
    return any(other - first == step for other in others)
