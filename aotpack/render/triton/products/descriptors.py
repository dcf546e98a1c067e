"""Factors of products that are loaded through tensor descriptors (TMA).

    lhs_block = tl.make_tensor_descriptor(x_ptr, [m, k], [k, 1], [128, 64])       # once
    lhs = lhs_block.load([m_start, k_start])                                       # at each step

The text makes the descriptor at its begin, or for each tile. Compiled code takes the former from
the host (``TensorMap``); it makes the latter in its global scratch. The copy engine computes
addresses, leaves
out elements beyond a border, and fills them with zeros. A factor whose rows run along the other
axis is loaded as stored, and transposed on its way into the product.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import dot
from aotpack.ir.kernels.blocks import Block, described_block
from aotpack.ir.symbolic.integers import Axis
from aotpack.ir.values import Load, Value
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.triton.contexts import Copy, Factor
from aotpack.stages import TensorMap


def described_factor(
    builder: KernelBuilder,
    name: str,
    value: Value,
    operand: DType,
    sides: Sequence[tuple[Axis, int]],
    starts: dict[Axis, str],
    lengths: Mapping[Axis, int] = MappingProxyType({}),
) -> Factor | None:
    """The lines that load a factor called ``name`` as a block; None where it is no block.

    ``sides`` are axes with the length of a tile; ``lengths`` those of a block that is a part of it.
    Elements are not rounded: they have the type ``operand`` already. ``starts`` are the names of
    the first indices of blocks, and of uniform indices.
    """
    if not isinstance(value, Load) or builder.resolve(value) is not None:
        return None
    if builder.arguments.dtype(value.buffer) is not operand:
        return None
    offset = dot(value.index, builder.schedule.strides[value.buffer])
    block = described_block(offset, sides, operand.itemsize)
    if block is None:
        return None
    lines = _made(builder, name, value.buffer, block, starts, lengths)
    step = Region(frozenset(starts))
    at_step = builder.emitter_in(Frame(starts, {}, ()), step)
    places = ", ".join(at_step.index(one.start) for one in block.dimensions)
    text = f"{name}_block.load([{places}])"
    is_turned = [one.axis for one in block.dimensions] != [axis for axis, _ in sides]
    if is_turned:
        text += ".T"
    is_fixed = not any(isinstance(leaf, Axis) for leaf in block.base.leaves())
    if is_fixed:
        builder.maps.append(_map(builder, f"{name}_block", value.buffer, block, lengths))
    before, setup = (lines, ()) if is_fixed else ((), lines)
    copied = Copy(f"{name}_block", places, f"{name}_tiles", _box(block, lengths), is_turned)
    steps = tuple(step.lines())
    is_plain = is_fixed and not steps
    return Factor(before, setup, (*steps, f"{name} = {text}"), name, copied if is_plain else None)


def _map(
    builder: KernelBuilder, name: str, buffer: str, block: Block, lengths: Mapping[Axis, int]
) -> TensorMap:
    """The descriptor of a block at a fixed place."""
    sides = block.dimensions
    return TensorMap(
        name,
        builder.arguments.pointer(buffer),
        block.base,
        tuple(one.size for one in sides),
        tuple(one.stride for one in sides),
        _box(block, lengths),
    )


def _box(block: Block, lengths: Mapping[Axis, int]) -> tuple[int, ...]:
    return tuple(lengths.get(one.axis, one.length) for one in block.dimensions)


def _made(
    builder: KernelBuilder,
    name: str,
    buffer: str,
    block: Block,
    starts: dict[Axis, str],
    lengths: Mapping[Axis, int],
) -> tuple[str, ...]:
    """The lines that make a descriptor."""
    region = Region(frozenset(starts))
    emitter = builder.emitter_in(Frame(starts, {}, ()), region)
    pointer = emitter.arguments.pointer(buffer)
    base = f"{pointer} + {emitter.index(block.base)}" if block.base.terms else pointer
    sizes = ", ".join(emitter.index(one.size) for one in block.dimensions)
    strides = ", ".join(emitter.index(one.stride) for one in block.dimensions)
    box = ", ".join(map(str, _box(block, lengths)))
    made = f"tl.make_tensor_descriptor({base}, [{sizes}], [{strides}], [{box}])"
    return (*region.lines(), f"{name}_block = {made}")
