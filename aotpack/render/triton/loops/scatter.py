"""Scatters in Triton: lanes combine their values into elements that other lanes may write too.

"set" is a store. Sums, and extrema of integers, are atomic instructions. Products, and extrema of
floats, where NaN must win, have none: they compare and swap until every lane is done.
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import written_index
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Scatter
from aotpack.ir.ops.conditions import bounds_checks
from aotpack.render.environment import render_function
from aotpack.render.triton.contexts import AtomicContext, SwapContext
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.types import TRITON_TYPES

TEMPLATE = "device_scatter.py.jinja"


def scatter_line(builder: LoopBuilder, member: Member, operation: Scatter) -> str:
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


def _define(builder: LoopBuilder, kind: str, dtype: DType) -> None:
    """Put what the statement calls into the kernel's functions."""
    name, function = f"scatter_{kind}", _instruction(kind, dtype)
    if function is not None:
        context = AtomicContext(kind, function)
        builder.functions[name] = render_function(TEMPLATE, "atomic", context)
        return
    builder.use(TRITON_MONOIDS[kind].combine)
    swap = SwapContext(kind, dtype.facts.bits, TRITON_TYPES[dtype])
    builder.functions[name] = render_function(TEMPLATE, "compare_and_swap", swap)


def _instruction(kind: str, dtype: DType) -> str | None:
    if kind == "sum":
        return "atomic_add"
    return f"atomic_{kind}" if kind in ("max", "min") and dtype.is_integer else None
