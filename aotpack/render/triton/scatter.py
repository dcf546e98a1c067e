"""Scatters in Triton: every lane takes its value into an element that other lanes may take too.

"set" is a store. Sums, and extrema of integers, are atomic instructions; for products and extrema
of floats, where NaN must win, there is none: those compare and swap until every lane is in.
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import written_index
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Scatter
from aotpack.ir.ops.conditions import bounds_checks
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.types import TRITON_TYPES

_ATOMIC = """@triton.jit
def scatter_{kind}(pointer, offset, value, mask):
    address = pointer + tl.where(mask, offset, 0)
    tl.{function}(address, value, mask=mask, sem="relaxed")
"""
_SWAP = """@triton.jit
def scatter_{kind}(pointer, offset, value, mask):
    cell = pointer.to(tl.pointer_type(tl.int{bits}), bitcast=True) + tl.where(mask, offset, 0)
    seen = tl.load(cell)
    waiting = mask
    while tl.max(waiting.to(tl.int32)) != 0:
        old = seen.to({type}, bitcast=True)
        new = combine_{kind}(old, value).to({type}).to(tl.int{bits}, bitcast=True)
        found = tl.atomic_cas(cell, seen, tl.where(waiting, new, seen), sem="relaxed")
        waiting = waiting & (found != seen)
        seen = found
"""


def scatter_line(builder: KernelBuilder, member: Member, operation: Scatter) -> str:
    """The statement that takes in the value of every point whose index lies in the buffer."""
    emitter, buffer = builder.emitter, builder.schedule.program.buffers[operation.target]
    index = written_index(member)
    value = emitter.value(builder.bound(member, operation.value))
    conditions = [emitter.value(condition) for condition in bounds_checks(index, buffer.shape)]
    offset, axes = builder.offset_of(buffer.name, index), frozenset(builder.kernel.axes)
    if operation.kind == "set":
        return emitter.store(buffer.name, offset, value, axes, conditions)
    masks = emitter.masks(axes) or [f"tl.full({emitter.frame.shape(axes)}, True, tl.int1)"]
    mask = " & ".join([*masks, *conditions])
    pointer = emitter.arguments.pointer(buffer.name)
    _define(builder, operation.kind, buffer.dtype)
    return f"scatter_{operation.kind}({pointer}, {emitter.index(offset)}, {value}, {mask})"


def _define(builder: KernelBuilder, kind: str, dtype: DType) -> None:
    """Put what the statement calls into the kernel's functions."""
    name, function = f"scatter_{kind}", _instruction(kind, dtype)
    if function is not None:
        builder.functions[name] = _ATOMIC.format(kind=kind, function=function)
        return
    monoid = TRITON_MONOIDS[kind]
    builder.functions[monoid.combine_name] = monoid.combine
    builder.functions[name] = _SWAP.format(
        kind=kind, bits=dtype.facts.bits, type=TRITON_TYPES[dtype]
    )


def _instruction(kind: str, dtype: DType) -> str | None:
    if kind == "sum":
        return "atomic_add"
    return f"atomic_{kind}" if kind in ("max", "min") and dtype.is_integer else None
