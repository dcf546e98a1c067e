"""Which attention of many queries runs with roles of warps (Hopper; measured on an H200).

A program has 64 queries for each group of warps, and a multiprocessor has one program: with fewer
tiles than multiprocessors, smaller tiles without roles are as fast.
"""

from collections.abc import Mapping
from dataclasses import replace

from aotpack.devices import BLACKWELL, HOPPER, Gpu
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.head_blocks import (
    GROUP_ROWS,
    GROUP_WARPS,
    attended_heads,
    head_lengths,
    may_have_roles,
)
from aotpack.ir.kernels.tiles import AttentionTile, Variant
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.ir.symbolic.integers import Axis, Int

SHORT_HEAD, WIDE_HEAD, LONGEST_HEAD = 64, 128, 256  # elements
MANY_KEYS = 2048  # of a query, from which on short heads gain
FEW_KEYS = 1024


def with_roles(
    variants: tuple[Variant, ...],
    o: Attention,
    dtypes: Mapping[str, DType],
    strides: Mapping[str, tuple[Int, ...]],
    gpu: Gpu,
) -> tuple[Variant, ...]:
    """The variants, on Hopper with those with roles before what they replace."""
    tile = roles_tile(o, gpu)
    if tile is None or attended_heads(o, tile.j, dtypes, strides) is None:
        return variants
    few = _fewest_queries(o, tile, gpu)
    queries = o.batch.extent * o.head.extent * o.i.extent
    found: list[Variant] = []
    for variant in variants:
        plain = variant.tile
        assert isinstance(plain, AttentionTile)
        if variant.arch_low != HOPPER or plain.is_for_few:
            found.append(variant)
            continue
        found += [
            *_on_hopper(variant, tile, queries, few),
            replace(variant, arch_low=BLACKWELL),
        ]
    return tuple(found)


def _on_hopper(variant: Variant, tile: AttentionTile, queries: Int, few: int) -> list[Variant]:
    """The variant for so few queries, then the one with roles."""
    plain = replace(variant, arch_high=BLACKWELL - 1)
    fewest, most = bounds(queries)
    if most <= few or variant.at_most is not None:
        return [plain]
    special = replace(plain, tile=tile, others=(variant.tile, *variant.others))
    if fewest > few:
        return [special]
    return [replace(plain, measure=queries, at_most=few), special]


def roles_tile(o: Attention, gpu: Gpu) -> AttentionTile | None:
    """The tile with roles; None for a form of attention, or a head, that is no faster so.

    Short heads take three groups, which have fewer registers each; they gain where each query has
    many keys. A causal query has half of them.
    """
    head = max(_covered(o.d), _covered(o.e)) if may_have_roles(o) else 0
    if not head or head > LONGEST_HEAD or not gpu.has_descriptors:
        return None
    keys = typical(o.j.extent) // (2 if o.causal else 1)
    if head <= SHORT_HEAD:
        return _tile(3, 128, 3) if keys >= MANY_KEYS else None
    return _tile(2, 128, 2) if head <= WIDE_HEAD else _tile(2, 64, 2)


def _tile(groups: int, keys: int, stages: int) -> AttentionTile:
    return AttentionTile(GROUP_ROWS * groups, keys, GROUP_WARPS * groups, stages, roles=True)


def _covered(axis: Axis) -> int:
    """The elements of a head's blocks."""
    return sum(length for _, length in head_lengths(axis))


def _fewest_queries(o: Attention, tile: AttentionTile, gpu: Gpu) -> int:
    """The queries of all heads up to which the plain tile is as fast.

    Half a tile for each multiprocessor; two of few keys, which are mostly begin and end. Four of
    short heads, whose plain tiles are several on a multiprocessor.
    """
    wave = gpu.multiprocessors * 2 * GROUP_ROWS
    if tile.i > 2 * GROUP_ROWS:
        return 4 * wave
    return wave // 2 if typical(o.j.extent) >= FEW_KEYS else 2 * wave
