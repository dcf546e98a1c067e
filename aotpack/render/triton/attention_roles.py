"""Attention whose warps have roles: one requests keys and values, groups of four attend (Hopper).

The plain text of the same tile is what the interpreter runs, and what is compiled where Gluon's
compiler refuses the epilogue, whose lines are the same in both. A head of 80 is blocks of 64 and
16 elements, which are multiplied one after the other.
"""

from collections.abc import Callable
from dataclasses import replace

from aotpack.ir.kernels.access import dot
from aotpack.ir.kernels.blocks import described_block, placed_block
from aotpack.ir.kernels.head_blocks import GROUP_ROWS, HeadBlock, head_blocks
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Load, Value
from aotpack.render.emit.epilogue import batch_names
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_template
from aotpack.render.triton.contexts import AttentionContext, AttentionRoles, HeadCopy
from aotpack.stages import TensorMap

_LANES, _VECTOR = 32, 8  # of a warp; elements that a thread stores at once
_LONGEST_ROW = 128  # elements; longer ones are stored as they lie, without shared memory
_REGISTERS = {1: 240, 2: 240, 3: 160}
"""Of a thread of so many groups; the requesting warp has the rest."""


def with_roles(
    context: AttentionContext, builder: KernelBuilder, o: Attention, tile: AttentionTile
) -> AttentionContext:
    """The context with roles of warps, if all factors lie in rectangles at a fixed place."""
    if o.mask is not None or o.bias is not None or context.natural:
        return context
    copies = _Copies(builder, o)
    found = (
        copies.of("query", o.query, (o.i, GROUP_ROWS), o.d, "first"),
        copies.of("key", o.key, (o.j, tile.j), o.d, "j_start"),
        copies.of("value", o.value, (o.j, tile.j), o.e, "j_start"),
    )
    if not all(found):
        return context
    builder.gluon_maps.extend(copies.maps)
    query, key, value = found
    groups = tile.num_warps // 4
    size = o.operand.itemsize
    roles = AttentionRoles(
        query=query,
        key=key,
        value=value,
        groups=groups,
        rows=GROUP_ROWS,
        stages=tile.num_stages,
        registers=_REGISTERS[groups],
        query_bytes=size * GROUP_ROWS * sum(one.block for one in query),
        key_bytes=size * tile.j * sum(one.block for one in key),
        value_bytes=size * tile.j * sum(one.block for one in value),
    )
    return replace(context, roles=roles)


def attention_gluon_text(context: AttentionContext) -> Callable[[str], str] | None:
    """The text under a name; None without roles."""
    if context.roles is None:
        return None
    template = "kernel_attention_gluon.py.jinja"
    return lambda name: render_template(template, replace(context, name=name))


class _Copies:
    """How the copy engine loads each block of a factor's heads; ``maps`` are their descriptors."""

    def __init__(self, builder: KernelBuilder, o: Attention) -> None:
        self._builder, self._o = builder, o
        self.maps: list[TensorMap] = []

    def of(
        self, slot: str, value: Value, rows: tuple[Axis, int], inner: Axis, start: str
    ) -> tuple[HeadCopy, ...]:
        """The copies of a factor; none where it is no rectangle at a fixed place."""
        found: list[HeadCopy] = []
        for number, block in enumerate(head_blocks(inner)):
            one = self._copy(f"{slot}_{number}", value, rows, (inner, block), start)
            if one is None:
                return ()
            found.append(one)
        return tuple(found)

    def _copy(
        self,
        name: str,
        value: Value,
        rows: tuple[Axis, int],
        inner: tuple[Axis, HeadBlock],
        start: str,
    ) -> HeadCopy | None:
        if not isinstance(value, Load) or self._builder.resolve(value) is not None:
            return None
        if self._builder.arguments.dtype(value.buffer) is not self._o.operand:
            return None
        axis, block = inner
        offset = dot(value.index, self._builder.schedule.strides[value.buffer])
        sides = (rows, (axis, block.length))
        found = described_block(offset, sides, self._o.operand.itemsize)
        found = found and placed_block(found, self._o.operand.itemsize)
        if found is None or found.dimensions[-1].axis is not axis:
            return None
        names = batch_names((self._o.batch, self._o.head))
        starts = names | {rows[0]: start, axis: str(block.start)}
        region = Region(frozenset(starts))
        emitter = self._builder.emitter_in(Frame(starts, {}, ()), region)
        places = tuple(emitter.index(one.start) for one in found.dimensions)
        lengths = tuple(one.length for one in found.dimensions)
        self.maps.append(
            TensorMap(
                f"{name}_block",
                self._builder.arguments.pointer(value.buffer),
                found.base,
                tuple(one.size for one in found.dimensions),
                tuple(one.stride for one in found.dimensions),
                lengths,
            )
        )
        lanes = min(_LANES, block.length // _VECTOR) if block.length <= _LONGEST_ROW else 0
        return HeadCopy(
            block=block.length,
            start=block.start,
            descriptor=f"{name}_block",
            lines=tuple(region.lines()),
            places=", ".join(places),
            tiles=f"{name}_tiles",
            box=lengths,
            lanes=lanes,
            lane_rows=16 * lanes // _LANES,
        )
