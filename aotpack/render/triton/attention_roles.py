"""Attention whose warps have roles: one requests keys and values, groups of four attend (Hopper).

The plain text of the same tile is what the interpreter runs, and what is compiled where Gluon's
compiler refuses the epilogue, whose lines are the same in both. A head of 80 is blocks of 64 and
16 elements, which are multiplied one after the other.
"""

from collections.abc import Callable
from dataclasses import replace

from aotpack.ir.kernels.head_blocks import (
    GROUP_ROWS,
    GROUP_WARPS,
    HeadBlock,
    attended_heads,
    may_have_roles,
)
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import AttentionTile
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.emit.epilogue import batch_names
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_template
from aotpack.render.triton.attention import attention_context
from aotpack.render.triton.attention_contexts import AttentionContext, AttentionRoles, HeadCopy
from aotpack.stages import TensorMap

_LANES, _VECTOR = 32, 8  # of a warp; elements that a thread stores at once
_WARP_ROWS = 16  # of a product
_LONGEST_ROW = 128  # elements; longer ones are stored as they lie, without shared memory
_REGISTERS = {1: 240, 2: 240, 3: 160}
"""Of a thread of so many groups; the requesting warp has the rest."""


def attention_with_roles(
    kernel: Kernel, o: Attention, tile: AttentionTile, builder: KernelBuilder
) -> AttentionContext:
    """The context, with roles of warps if all factors lie in rectangles at a fixed place."""
    context = attention_context(kernel, o, tile, builder)
    dtypes = {name: one.dtype for name, one in builder.schedule.program.buffers.items()}
    heads = attended_heads(o, tile.j, dtypes, builder.schedule.strides)
    if not tile.roles or heads is None or not may_have_roles(o):
        return context

    def copies(slot: str, blocks: tuple[HeadBlock, ...], start: str, rows: Axis) -> _Copies:
        starts = batch_names((o.batch, o.head)) | {rows: start}
        numbered = enumerate(blocks)
        return tuple(_copy(builder, f"{slot}_{number}", one, starts) for number, one in numbered)

    size = o.operand.itemsize
    query = copies("query", heads.query, "first", o.i)
    key = copies("key", heads.key, "j_start", o.j)
    value = copies("value", heads.value, "j_start", o.j)
    groups = tile.num_warps // GROUP_WARPS
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


_Copies = tuple[HeadCopy, ...]


def attention_gluon_text(context: AttentionContext) -> Callable[[str], str] | None:
    """The text under a name; None without roles."""
    if context.roles is None:
        return None
    template = "kernel_attention_gluon.py.jinja"
    return lambda name: render_template(template, replace(context, name=name))


def _copy(builder: KernelBuilder, name: str, head: HeadBlock, starts: dict[Axis, str]) -> HeadCopy:
    """How the copy engine loads a block of heads; its descriptor is one of the kernel's."""
    sides = head.block.dimensions
    names = starts | {sides[-1].axis: str(head.start)}
    region = Region(frozenset(names))
    emitter = builder.emitter_in(Frame(names, {}, ()), region)
    places = ", ".join(emitter.index(one.start) for one in sides)
    box = tuple(one.length for one in sides)
    builder.gluon_maps.append(
        TensorMap(
            f"{name}_block",
            builder.arguments.pointer(head.buffer),
            head.block.base,
            tuple(one.size for one in sides),
            tuple(one.stride for one in sides),
            box,
        )
    )
    lanes = min(_LANES, head.length // _VECTOR) if head.length <= _LONGEST_ROW else 0
    return HeadCopy(
        block=head.length,
        start=head.start,
        descriptor=f"{name}_block",
        lines=tuple(region.lines()),
        places=places,
        tiles=f"{name}_tiles",
        box=box,
        lanes=lanes,
        lane_rows=_WARP_ROWS * lanes // _LANES,
    )
