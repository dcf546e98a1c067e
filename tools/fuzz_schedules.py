"""Odd schedules for random models: small blocks, many parts, and forms that are rarely chosen."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest import mock

import aotpack.schedule
from aotpack.devices import H200, Gpu
from aotpack.ir.kernels.access import Strides
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import (
    MAX_ARCH,
    AttentionTile,
    MatmulTile,
    PointwiseTile,
    ReductionTile,
    Tile2D,
    Variant,
)
from aotpack.ir.operations import Scan
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.ir.symbolic.integers import product
from aotpack.schedule.fusion import concat_in_place
from aotpack.schedule.sorts import expand_sorts
from aotpack.schedule.tiles import tile_2d
from aotpack.schedule.tiles.choose import choose_tiles
from aotpack.target import CPU

PROGRAMS = 64  # about the most of a kernel: they are interpreted one by one
STEPS = 256  # about the most loop steps of all of them
# Few elements are a long row there, and launches are free, so that many are made.
SMALL = replace(H200, name="small", registers=12, launch=0.0)
SMALL_NUMBERS = (
    (tile_2d, "SHORTEST_SIDE", 2),
    (concat_in_place, "SHORTEST_RUN", 1),
    (expand_sorts, "LONGEST_COUNTED", 3),
    (expand_sorts, "LONGEST_COUNTED_LEFT", 4),
    (expand_sorts, "SHORTEST_SELECTED", 2),
    (expand_sorts, "MOST_SELECTED", 2),
    (expand_sorts, "RUN", 2),
)


@contextmanager
def odd_schedules(seed: int) -> Iterator[None]:
    """Schedules that are legal for any model, with small numbers: loops iterate and sorts merge.

    On the GPU ``SMALL`` rows have parts too.
    """

    def choose(
        program: Program, kernels: tuple[Kernel, ...], strides: Strides, gpu: Gpu
    ) -> tuple[Kernel, ...]:
        rng = random.Random(seed)
        chosen = choose_tiles(program, kernels, strides, gpu)
        return tuple(replace(kernel, variants=_odd_on_gpus(kernel, rng)) for kernel in chosen)

    with ExitStack() as stack:
        for module, name, value in SMALL_NUMBERS:
            stack.enter_context(mock.patch.object(module, name, value))
        passes = aotpack.schedule.PASSES.replaced("choose_tiles", choose)
        stack.enter_context(mock.patch.object(aotpack.schedule, "PASSES", passes))
        yield


def _odd_on_gpus(kernel: Kernel, rng: random.Random) -> tuple[Variant, ...]:
    """The variants for processors, and one odd form for all GPUs."""
    return *(v for v in kernel.variants if v.takes(CPU.arch)), _odd(kernel, rng)


def _odd(kernel: Kernel, rng: random.Random) -> Variant:
    last = kernel.variants[-1]
    variant = replace(last, arch_low=CPU.arch + 1, arch_high=MAX_ARCH, at_most=None, others=())
    tile = variant.tile
    match tile:
        case PointwiseTile():
            points = product(typical(axis.extent) for axis in kernel.axes)
            tile = replace(tile, x=_enough(rng.choice((2, 16)), int(points), PROGRAMS))
        case Tile2D():
            tile = replace(tile, y=rng.choice((2, 8)), x=rng.choice((2, 4)))
        case ReductionTile():
            looped = not any(isinstance(member.operation, Scan) for member in kernel.members)
            looped = looped and rng.random() < 0.7
            r = rng.choice((2, 4, 16)) if looped else 1
            x, group = rng.choice(((1, 1), (1, 2), (2, 1), (8, 1)))
            rows, along = (int(typical(axis.extent)) for axis in kernel.axes)
            x, group = _enough(x, rows, PROGRAMS), group if x == 1 else 1
            if looped:
                r = _enough(r, along, STEPS // -(-rows // x))
            else:
                r = _enough(r, int(bounds(kernel.axes[1].extent)[1]), 1)
            tile = ReductionTile(x, r, persistent=not looped, num_warps=4, group=group)
        case MatmulTile():
            tile = replace(tile, m=rng.choice((16, 32)), n=rng.choice((16, 32)), k=16)
        case AttentionTile():
            rows = tile.i if tile.is_for_few else 16  # memory for parts counts on them
            tile = replace(tile, i=rows, j=rng.choice((16, 32)))
    return replace(variant, tile=tile, others=())


def _enough(block: int, points: int, most: int) -> int:
    """The block, or its multiple by a power of two with at most ``most`` blocks for all points."""
    while points > max(most, 1) * block:
        block *= 2
    return block
