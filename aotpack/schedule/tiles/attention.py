"""Attention tiles by architecture, head dimension and number of queries (measured on an H200)."""

from collections.abc import Container, Iterator
from dataclasses import replace

from aotpack.devices import GPUS, HOPPER, LATER, Gpu, rounded_down
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.tiles import MAX_ARCH, AttentionTile, Variant
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.schedule.tiles.few_queries import few_queries, other_tiles

NARROW_HEAD = 32
WIDE_HEAD = 64  # elements; beyond, registers are the limit
SMALLEST_SIDE = 16
LARGE = AttentionTile(128, 64, 8, 3)
SHORT = AttentionTile(64, 32, 4, 3)  # 197 keys of ViT-B/16, batch 32: 27 us, 42 with LARGE
SHORT_KEYS = 256  # up to which few steps overlap in a program: more programs do
MANY_KEYS = 2048  # from which on descriptors of long heads gain more than it takes to make them
WGMMA_ARCHES = (HOPPER, LATER - 1)
OTHERS_HALF = (
    *((64, 64, 4, 3), (128, 64, 8, 3), (64, 32, 4, 3), (64, 128, 4, 2), (128, 128, 8, 2)),
    *((32, 64, 4, 3), (64, 64, 4, 2), (64, 64, 8, 3)),
)
OTHERS_SINGLE = ((32, 32, 4, 2), (16, 64, 4, 2), (16, 32, 4, 2), (32, 32, 4, 1))
"""Queries, keys, warps and stages of candidates beside the measured tiles."""


def attention_variants(
    template_op: Attention,
    gpu: Gpu,
    fp32_precision: str = "ieee",
    updated: Container[str] = (),
) -> tuple[Variant, ...]:
    """Measured tiles, made smaller if a long head exceeds an architecture's shared memory.

    ``updated`` tensors are written behind their readers, by the same program (``few_queries``).
    """
    measured = tuple(_all(template_op, gpu, updated))
    if template_op.operand is DType.FLOAT32 and fp32_precision == "tf32":
        measured = tuple(map(_with_tf32, measured))
    return tuple(_with_others(one, template_op, gpu) for one in measured)


def _all(template_op: Attention, gpu: Gpu, updated: Container[str]) -> Iterator[Variant]:
    """For each range of architectures the variants for few queries, then those for more."""
    measured = _measured(template_op, gpu)
    for arches in dict.fromkeys((one.arch_low, one.arch_high) for one in measured):
        few = few_queries(template_op, arches, gpu, updated)
        yield from few
        if not few or few[-1].at_most is not None:
            yield from (one for one in measured if (one.arch_low, one.arch_high) == arches)


def _with_tf32(variant: Variant) -> Variant:
    assert isinstance(variant.tile, AttentionTile)
    return replace(variant, tile=replace(variant.tile, precision="tf32"))


def _with_others(variant: Variant, template_op: Attention, gpu: Gpu) -> Variant:
    """The variant with other tiles, all made to fit its architectures."""
    tile = variant.tile
    assert isinstance(tile, AttentionTile)
    devices = GPUS | {gpu.arch: gpu}
    available = min(one.shared for arch, one in devices.items() if variant.takes(arch))
    if tile.is_for_few:
        tiles = [tile, *other_tiles(tile)]
    else:
        others = OTHERS_SINGLE if template_op.operand is DType.FLOAT32 else OTHERS_HALF
        tiles = [tile, *(AttentionTile(*other, tile.precision) for other in others)]
        if tile.descriptors:
            tiles.insert(1, replace(tile, descriptors=False))
    first, *rest = dict.fromkeys(_fitted(one, available, template_op) for one in tiles)
    return replace(variant, tile=first, others=tuple(rest))


def _fitted(tile: AttentionTile, available: int, template_op: Attention) -> AttentionTile:
    """Fewer stages first, then fewer queries, then fewer keys at a time."""
    while _shared_bytes(tile, template_op) > available:
        if tile.num_stages > 2:
            tile = replace(tile, num_stages=tile.num_stages - 1)
        elif tile.i > 2 * SMALLEST_SIDE and not tile.is_for_few:
            tile = replace(tile, i=tile.i // 2, num_warps=4)
        elif tile.j > SMALLEST_SIDE:
            tile = replace(tile, j=tile.j // 2)
        elif tile.num_stages > 1:
            tile = replace(tile, num_stages=1)
        elif tile.i > SMALLEST_SIDE and not tile.is_for_few:
            tile = replace(tile, i=tile.i // 2)
        else:
            break
    return tile


def _shared_bytes(tile: AttentionTile, template_op: Attention) -> int:
    """The bytes of queries, and of keys and values in every stage, in whole powers of two.

    Few queries are loaded with each block of keys.
    """
    d, e = (
        1 << (int(bounds(axis.extent)[1]) - 1).bit_length()
        for axis in (template_op.d, template_op.e)
    )
    times = tile.num_stages if tile.is_for_few else 1
    elements = times * tile.i * d + tile.num_stages * tile.j * (d + e)
    return elements * template_op.operand.itemsize


def _measured(template_op: Attention, gpu: Gpu) -> tuple[Variant, ...]:
    """Tiles that do not spill.

    Larger ones if each multiprocessor has about four of them, over all heads.
    """
    many = rounded_down(4 * gpu.multiprocessors * LARGE.i)
    head = max(bounds(template_op.d.extent)[1], bounds(template_op.e.extent)[1])
    wide = head > WIDE_HEAD
    length = template_op.i.extent
    if template_op.operand is DType.FLOAT32:
        old = AttentionTile(32, 32, 4, 1, "bf16x6")
        i, j = (32, 32) if head <= NARROW_HEAD else (16, 32 if wide else 64)
        new = AttentionTile(i, j, 4, 2, "bf16x6")
        return tuple(
            Variant(tile, low, high, length, None)
            for tile, low, high in (
                (old, 0, HOPPER - 1),
                (new, *WGMMA_ARCHES),
                (old, LATER, MAX_ARCH),
            )
        )
    mma = AttentionTile(128, 32, 8, 3) if wide else AttentionTile(64, 32, 4, 3)
    described = wide and typical(template_op.j.extent) >= MANY_KEYS and gpu.has_descriptors
    tile = AttentionTile(64, 64, 4, 3, descriptors=described)
    hopper = [Variant(tile, *WGMMA_ARCHES, length, None)]
    queries = template_op.batch.extent * template_op.head.extent * length
    if not wide and not template_op.causal and bounds(queries)[1] > many and typical(length) >= 128:
        hopper.insert(0, Variant(AttentionTile(64, 64, 4, 3), *WGMMA_ARCHES, queries, many))
        largest = SHORT if typical(template_op.j.extent) <= SHORT_KEYS else LARGE
        hopper[-1] = Variant(largest, *WGMMA_ARCHES, queries, None)
    return (
        Variant(mma, 0, HOPPER - 1, length, None),
        *hopper,
        Variant(mma, LATER, MAX_ARCH, length, None),
    )
