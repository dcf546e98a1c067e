"""Updates of inputs and weights: written in place where that is legal, else copied at the end.

A kernel may write an update into the updated tensor if all readers of the old value run before it,
or if it is itself the reader, and reads only what the same program then overwrites. So may a kernel
that keeps elements or sets them to a constant, as assertions do: a second write changes nothing.
Any other new value has its own memory, and a copy at the end.
"""

from dataclasses import replace

from aotpack.devices import Gpu
from aotpack.ir.kernels.access import Strides
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.operations import Pointwise
from aotpack.ir.origin import Origin
from aotpack.ir.program import Program, Update, loads, reads
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Const, walk
from aotpack.schedule.fusion.group import start
from aotpack.schedule.fusion.naming import kernel_name
from aotpack.schedule.memory.lifetimes import may_overwrite
from aotpack.schedule.program.insert_copies import copied
from aotpack.schedule.tiles.choose import choose_tiles


def place_updates(
    program: Program, kernels: tuple[Kernel, ...], strides: dict[str, tuple[Int, ...]], gpu: Gpu
) -> tuple[Program, tuple[Kernel, ...], dict[str, tuple[Int, ...]]]:
    """Write new values of inputs and weights in place; copy at the end where that is not legal."""
    for update in program.updates:
        if not _is_in_place(update, kernels, strides):
            program, copy = _with_copy(program, update)
            strides = strides | {copy.target: strides[update.name]}
            kernels += choose_tiles(program, (_kernel(copy, program),), strides, gpu)
    return program, kernels, strides


def _is_in_place(update: Update, kernels: tuple[Kernel, ...], strides: Strides) -> bool:
    readers = [p for p, kernel in enumerate(kernels) if update.name in kernel.reads]
    writer = next(p for p, kernel in enumerate(kernels) if update.value in kernel.stored)
    if update.value in kernels[writer].bases:
        return True  # ``insert_copies`` kept it only where legal
    last = max(readers, default=-1)
    if last == writer:
        return _is_idempotent(update, kernels[writer]) or may_overwrite(
            kernels[writer], update.value, update.name, strides
        )
    return last < writer


def _is_idempotent(update: Update, kernel: Kernel) -> bool:
    """True for ``new[i] = where(c, old[i], constant)``, if the kernel reads old nowhere else.

    Lanes and programs may do this to one element several times, in any order.
    """
    readers = [m.operation for m in kernel.members if update.name in reads(m.operation)]
    if len(readers) != 1 or not isinstance(readers[0], Pointwise):
        return False
    operation = readers[0]
    value, old = operation.value, [o for o in loads(operation) if o.buffer == update.name]
    if operation.target != update.value or not (isinstance(value, Apply) and value.op == "where"):
        return False
    condition, *sides = value.args
    return (
        [side for side in sides if not isinstance(side, Const)] == old
        and old[0].index == operation.index
        and old[0] not in walk([condition])
    )


def _with_copy(program: Program, update: Update) -> tuple[Program, Pointwise]:
    """The program whose update takes its value from a copy."""
    name, buffers = f"{update.value}_copy", dict(program.buffers)
    copy = copied(update.value, name, Origin((name,)), buffers, program.sizes)
    order = buffers[update.name].order
    buffers[copy.target] = replace(buffers[copy.target], order=order)
    changed = replace(
        program,
        buffers=buffers,
        operations=(*program.operations, copy),
        updates=tuple(replace(u, value=copy.target) if u is update else u for u in program.updates),
    )
    return changed, copy


def _kernel(operation: Pointwise, program: Program) -> Kernel:
    """A kernel of one operation, whose result is stored."""
    group = start(operation)
    name = kernel_name(group.members)
    return Kernel(name, group.axes, group.members, (operation.target,), group.read)
