"""Pointwise kernels in C, and parts of all loop kernels: functions, stores, costs of items.

Work sharing: the threads of a pool take items in chunks of ``GRAIN`` cheap operations or more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aotpack.ir.kernels.access import slope, written_index
from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.operations import Pointwise, Reduction, Scan, Scatter
from aotpack.ir.ops.opinfo import Cost
from aotpack.ir.ops.optable import OPS
from aotpack.ir.program import targets
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, product, total
from aotpack.ir.values import Apply, Load, Value, walk
from aotpack.render.c.dialect import C
from aotpack.render.c.loops.nest import LoopNest
from aotpack.render.c.regions import STREAMED, Loop, Store, c_lines, open_loop
from aotpack.render.c.types import C_STORED
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region

EXPENSIVE = 8  # in cheap operations
LEAST_STREAMED = 4 << 20  # bytes that a kernel touches; fewer fit any machine's caches
GRAIN = 65536  # cheap operations that justify waking a thread


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A static function of a kernel: its lines compute the items [first, last)."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostCode:
    """The functions of a kernel, and the lines of its entry, which run them and return."""

    functions: tuple[HostFunction, ...]
    entry: tuple[str, ...]


def pointwise_code(nest: LoopNest, builder: KernelBuilder) -> HostCode:
    """Every point of ``x``, in loops over its last digit. Items are blocks of points."""
    digit = nest.x[-1]
    points = builder.emitter.index(builder.kernel.axes[0].extent)
    blocks = (f"first *= {STREAMED};", f"last = aot_min(last * {STREAMED}, {points});")
    run = builder.root.open("for (int64_t run = first; run < last;)", frozenset(nest.x[:-1]))
    decode(nest.x, "run", run, builder, last_name="start")
    length = builder.emitter.index(digit.extent)
    rest = "last" if len(nest.x) == 1 else f"aot_min({length}, start + last - run)"
    run.append(f"const int64_t stop = {rest};")
    loop = open_loop(run, frozenset((digit,)), digit.name, "stop", start="start", is_vector=True)
    with builder.emitter.at(loop):
        loop_stores(loop, nest.kernel.members, nest, builder)
    run.close()
    run.append("run += stop - start;")
    end_streams(loop, builder)
    lines = (*blocks, *c_lines(builder.root))
    items = f"({points} + {STREAMED - 1}) / {STREAMED}"
    grain = max(1, GRAIN // cost(nest, builder) // STREAMED)
    return HostCode((HostFunction("run", lines),), (parallel(builder, "run", items, str(grain)),))


def decode(
    digits: Sequence[Axis],
    flat: str,
    region: Region,
    builder: KernelBuilder,
    *,
    last_name: str = "",
) -> None:
    """Lines that give digits their values; the last may get another name."""
    below: list[str] = []
    for number, digit in reversed(list(enumerate(digits))):
        name = last_name if last_name and number == len(digits) - 1 else digit.name
        text = f"{flat} / ({'*'.join(below)})" if below else flat
        extent = f"({builder.emitter.index(digit.extent)})"
        if number > 0:
            text = f"{text} % {extent}"
        if name != text:
            region.append(f"const int64_t {name} = {text};")
        below.append(extent)


def stores(members: Sequence[Member], nest: LoopNest, builder: KernelBuilder) -> list[Store]:
    """Stores of members' results. All values come first: a store may overwrite an operand."""
    emitter = builder.emitter
    pending: list[tuple[str, str, Member]] = []
    for member in members:
        for name in targets(member.operation):
            if name in nest.kernel.stored:
                pending.append((name, builder.result(member, name, emitter), member))
    return [
        _store(name, value, builder.offset_of(name, written_index(member)), builder)
        for name, value, member in pending
    ]


def _store(name: str, value: str, offset: Int, builder: KernelBuilder) -> Store:
    dtype = builder.arguments.dtype(name)
    address = C.address(builder.arguments.pointer(name), builder.emitter.index(offset))
    return Store(address, C.stored(value, dtype), C_STORED[dtype])


def loop_stores(
    loop: Loop, members: Sequence[Member], nest: LoopNest, builder: KernelBuilder
) -> None:
    """End a loop over the last axis by stores; past the caches, if that is worth it."""
    loop.stores += stores(members, nest, builder)
    touched = _touched_bytes(nest.kernel, builder)
    if (
        loop.stores
        and bounds(touched)[1] >= LEAST_STREAMED
        and _are_neighbours(members, nest, builder)
    ):
        loop.streams = "streams"
        # At the function's head, where names of loops are not declared.
        with builder.emitter.at(builder.root):
            builder.root.append(
                f"const bool streams = aot_streams(call, {builder.emitter.index(touched)});"
            )


def end_streams(loop: Loop, builder: KernelBuilder) -> None:
    """At the end of a function: order the streaming stores before others."""
    builder.root.close()
    if loop.streams:
        builder.root.append("if (streams) aot_end_stream();")


def _touched_bytes(kernel: Kernel, builder: KernelBuilder) -> Int:
    buffers = [builder.schedule.program.buffers[name] for name in (*kernel.reads, *kernel.stored)]
    return total(product(buffer.shape) * buffer.dtype.itemsize for buffer in buffers)


def _are_neighbours(members: Sequence[Member], nest: LoopNest, builder: KernelBuilder) -> bool:
    """True when steps of the last axis store side by side."""
    offsets = [
        builder.offset_of(name, written_index(member))
        for member in members
        for name in targets(member.operation)
        if name in nest.kernel.stored
    ]
    jumps = any(isinstance(leaf, Indirect) for offset in offsets for leaf in offset.leaves())
    return not jumps and all(slope(offset, nest.axes[-1]) == 1 for offset in offsets)


def parallel(
    builder: KernelBuilder, function: str, items: str, grain: str, scratch: str = "0"
) -> str:
    """The line that runs a function of the kernel over its items."""
    return f"return aot_parallel(call, {items}, {grain}, {scratch}, AOT_CHOSEN(KERNEL_{function}));"


def member_values(member: Member, builder: KernelBuilder) -> tuple[Value, ...]:
    """The bound values a member computes with."""
    operation = member.operation
    if isinstance(operation, (Pointwise, Scatter)):
        return (builder.bound(member, operation.value),)
    assert isinstance(operation, (Reduction, Scan))
    return tuple(builder.bound(member, value) for value in operation.args)


def cost(nest: LoopNest, builder: KernelBuilder) -> int:
    """The cost of a point of the innermost loop, in cheap operations, roughly."""
    roots = [value for member in nest.kernel.members for value in member_values(member, builder)]
    return 1 + sum(weight(value) for value in walk(roots))


def weight(value: Value) -> int:
    """The cost of one value without its operands."""
    if isinstance(value, Apply) and OPS[value.op].cost > Cost.FEW:
        return EXPENSIVE
    return 1 if isinstance(value, (Apply, Load)) else 0
