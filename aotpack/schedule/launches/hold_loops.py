"""Loops whose turns are a loop of one kernel.

    for t < turns: launch, launch, launch        ->        launch

A launch takes 1 to 3 us, as long as a turn of a recurrent layer computes. Programs that own parts
of the state go through all turns. Those that exchange states are a cluster, which the GPU runs at
once; several clusters have different rows. A loop whose factors do not fit the shared memory of a
cluster stays as it is, and so do calls with more rows than clusters run at once.
"""

from collections.abc import Iterator
from dataclasses import replace

from aotpack.devices import GPUS, LATER, Gpu, first_with_clusters, portable_cluster
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.key_splits import power_of_two
from aotpack.ir.kernels.tiles import MAX_ARCH, TurnsTile, Variant
from aotpack.ir.kernels.turns import Turns, turns_of
from aotpack.ir.names import free_name
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.uses import operators_below
from aotpack.ir.values import loads_below
from aotpack.schedule.fusion.groups import compiles_too_long

SHORTEST = 16  # rows, units and depth of a product of the matrix unit
ROWS = (16, 32, 64)  # of a cluster
ROWS_OF_32_BITS = (4, 8, 16)  # whose products the matrix unit does not make
MOST_SINGLE = 32_768  # products of single elements in a turn: 2**17 take 10.7 us (H200, 2026-11-28)
FEW_ROWS, FEW_UNITS = 16, 32  # of which four warps are quicker than eight
SCRATCH = 8192  # bytes that changes of layout take
POINTS = 128  # of a program without products


def hold_loops(program: Program, kernels: tuple[Kernel, ...], gpu: Gpu) -> tuple[Kernel, ...]:
    """Give loops that fit a form as one launch, and the memory that its programs exchange."""
    return tuple(_held(kernel, program, gpu) for kernel in kernels)


def _held(kernel: Kernel, program: Program, gpu: Gpu) -> Kernel:
    turns = turns_of(kernel)
    if turns is None or _is_too_large(turns):
        return kernel
    if not turns.windows:
        return replace(kernel, variants=(_of_points(turns, gpu),))
    state = program.buffers[turns.exchanged]
    variants = tuple(_of_products(turns, state.dtype, gpu))
    if not variants:
        return kernel
    shape = (Int.of(2), turns.row.extent, turns.unit.extent)
    sent = Buffer(free_name(f"{turns.exchanged}_turns", program.buffers), state.dtype, shape)
    return replace(kernel, variants=variants, exchange=(sent,))


def _is_too_large(turns: Turns) -> bool:
    """True for turns that no kernel would have all of, were they no loop."""
    writes = (*turns.carried, *turns.stacked)
    computed = tuple(one.value for one in writes)
    touched = {one.buffer for one in writes} | {one.buffer for one in loads_below(computed)}
    return compiles_too_long(len(writes), operators_below(computed), touched)


def _of_points(turns: Turns, gpu: Gpu) -> Variant:
    """Programs without products share nothing, so any GPU runs them.

    Of more points than threads, the launches of a turn take longer than starting them.
    """
    units = power_of_two(int(min(bounds(turns.unit.extent)[1], POINTS)))
    rows = power_of_two(int(min(bounds(turns.row.extent)[1], POINTS // units)))
    tile = TurnsTile(rows, units, depth=0, together=1, cluster_size=1, num_warps=4)
    points, most = turns.row.extent * turns.unit.extent, gpu.threads_at_once
    return Variant(tile, 1, MAX_ARCH, points, None if bounds(points)[1] <= most else most)


def _of_products(turns: Turns, dtype: DType, gpu: Gpu) -> Iterator[Variant]:
    """Variants for more and more rows, on GPUs whose shared memory holds the factors."""
    first = first_with_clusters()
    ranges = [(first, LATER - 1), (LATER, MAX_ARCH)]
    forms = [tuple(_forms(turns, dtype, _shared(*one), gpu)) for one in ranges]
    if forms[0] == forms[1]:
        ranges, forms = [(first, MAX_ARCH)], forms[:1]
    for arches, found in zip(ranges, forms, strict=True):
        yield from (Variant(tile, *arches, turns.row.extent, limit) for tile, limit in found)


def _forms(
    turns: Turns, dtype: DType, shared: int, gpu: Gpu
) -> Iterator[tuple[TurnsTile, int | None]]:
    """Tiles with the rows that they are for; the last is for all, if so many clusters run."""
    units, most = turns.unit.extent.constant, bounds(turns.row.extent)[1]
    if units is None:
        return
    programs = portable_cluster()
    at_once = dict(gpu.clusters).get(programs, gpu.multiprocessors // programs)
    for rows in ROWS if dtype.itemsize < 4 else ROWS_OF_32_BITS:
        limit = at_once * rows
        tiles = (_tile(rows, units, together) for together in _counts(turns))
        tile = next((one for one in tiles if _fits(turns, one, dtype, shared)), None)
        if tile is None:
            return
        yield tile, None if most <= limit else limit
        if most <= limit:
            return


def _counts(turns: Turns) -> tuple[int, ...]:
    """How many products may be one, the best first; in registers two or four come apart."""
    count = len(turns.windows)
    return (count, 1) if count in (2, 4) and turns.stride else (1,)


def _shared(low: int, high: int) -> int:
    """The shared memory that a program has on all these architectures."""
    return min(gpu.shared for arch, gpu in GPUS.items() if low <= arch <= high)


def _tile(rows: int, units: int, together: int) -> TurnsTile:
    programs = portable_cluster()
    part = max(SHORTEST, power_of_two(-(-units // programs)))
    depth = max(SHORTEST, power_of_two(units))
    warps = 4 if rows <= FEW_ROWS and part <= FEW_UNITS else 8
    return TurnsTile(rows, part, depth, together, programs, warps)


def _fits(turns: Turns, tile: TurnsTile, dtype: DType, shared: int) -> bool:
    """True if shared memory holds all factors and the state, and a turn is short."""
    columns = len(turns.windows) * tile.units
    if dtype.itemsize > 2 and tile.rows * columns * tile.depth > MOST_SINGLE:
        return False
    return (columns + tile.rows) * tile.depth * dtype.itemsize + SCRATCH <= shared
