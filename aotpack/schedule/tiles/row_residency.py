"""Resident rows: long rows that are not split, though few, where a GPU can hold a row.

    split:     launch 1 reads x and reduces parts; launch 2 reads x again, writes y
    resident:  programs have a row in shared memory or registers: one launch, which reads x once

Split rows keep all multiprocessors at work; a resident row has at most eight. Which is quicker is
estimated (fitted to an H200 with 1 to 131 rows of 32000 to 1048576 elements, 2026-11-22,
``docs/measurements/h200_row_residency.csv``).
"""

from dataclasses import replace
from itertools import compress
from operator import not_

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import Strides
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import ReductionTile, Variant
from aotpack.ir.operations import Pointwise, Reduction, Scan
from aotpack.ir.program import Program, reads, targets
from aotpack.ir.symbolic.facts import typical
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.layout import choose_strides, typical_bytes
from aotpack.schedule.program.split.split_reduction import rows_to_split, split_reductions
from aotpack.schedule.tiles.choose import choose_tiles
from aotpack.schedule.tiles.long_rows import reads_again
from aotpack.schedule.tiles.row_pipeline import takes_exponentials

RESIDENT_LAUNCH = 2.0  # in launches of a graph
SPLIT_LAUNCHES = 5.8  # of both
REREAD = 1.3  # slowdown of a program that reads its row again
COMMON_SHARE = 0.875  # of the vendor's bandwidth, when all read and write


def resident_rows(
    program: Program, arches: tuple[int, ...], gpu: Gpu, expected: Strides
) -> tuple[frozenset[str], ...]:
    """For each architecture the first targets of reductions whose rows are not split."""
    resident: dict[int, set[str]] = {arch: set() for arch in arches}
    long = rows_to_split(program, gpu, expected) if arches else frozenset()
    if long:
        whole = _around(split_reductions(program, gpu, long, expected), long)
        kernels = fuse(whole)
        strides = choose_strides(whole, kernels)
        for kernel in kernels:
            found = long & {one.targets[0] for one in kernel.reductions}
            if found and reads_again(kernel):
                (tiled,) = choose_tiles(whole, (kernel,), strides, gpu)
                for arch in arches:
                    is_quicker = _is_quicker_resident(tiled, whole, arch, gpu)
                    resident[arch] |= found if is_quicker else set()
    return tuple(frozenset(resident[arch]) for arch in arches)


def _around(program: Program, long: frozenset[str]) -> Program:
    """The operations that may share kernels with those reductions.

    Those connected by values, directly or not, and the products at the ends.
    """
    operations = program.operations
    touched = [{*targets(one), *reads(one)} for one in operations]
    passed = set(program.buffers).difference(program.inputs, program.weights)
    names = set().union(*(t for t, one in zip(touched, operations, strict=True) if t & long))
    count = 0
    while len(names) > count:
        count = len(names)
        for one, buffers in zip(operations, touched, strict=True):
            if buffers & names and isinstance(one, (Pointwise, Reduction, Scan)):
                names |= buffers & passed
    is_near = [bool(buffers & names) for buffers in touched]
    near = tuple(compress(operations, is_near))
    far = set(program.results).union(*compress(touched, map(not_, is_near)))
    stored = tuple(name for one in near for name in targets(one) if name in far)
    return replace(program, operations=near, outputs=stored, updates=())


def _is_quicker_resident(kernel: Kernel, program: Program, arch: int, gpu: Gpu) -> bool:
    """True when one launch for whole rows is estimated to take less than two for parts."""
    rows = max(1, typical(kernel.axes[0].extent))
    tile = next(v.tile for v in kernel.variants if _takes(v, arch, rows))
    if not isinstance(tile, ReductionTile):
        return False
    read, written = (
        sum(typical_bytes(program.buffers[name]) for name in names)
        for names in (kernel.reads, kernel.stored)
    )
    rate = gpu.bandwidth / 1e6 * COMMON_SHARE
    split = SPLIT_LAUNCHES * gpu.launch + (2 * read + written) / rate
    walks = not tile.ring and not tile.persistent
    if walks and tile.cluster_size > 1 and takes_exponentials(kernel):
        return False  # computes each exponential twice
    read *= 2 if walks else 1
    programs = rows * tile.cluster_size
    clusters = min(rows, dict(gpu.clusters)[tile.cluster_size]) if tile.ring else rows
    at_once = clusters * tile.cluster_size
    of_one = (read / gpu.read_rate + written / gpu.write_rate) / programs
    of_one *= REREAD if walks else 1
    of_all = (read + written) / programs * at_once / rate
    waves = -(-programs // at_once)
    return RESIDENT_LAUNCH * gpu.launch + waves * max(of_one, of_all) < split


def _takes(variant: Variant, arch: int, rows: int) -> bool:
    """True when a variant takes this many rows."""
    is_for = variant.takes(arch) and not variant.divisibility
    return is_for and (variant.at_most is None or rows <= variant.at_most)
