"""What follows a product as a launch of its own: another form of the kernel, for tuning to time.

    y = gelu(x @ w + b)      or      t = x @ w;  y = gelu(t + b)

The product then lies in memory of its own between the two. Nothing is decided here: the fused form
comes first.

Rows S:N2, C:K3.
"""

from dataclasses import replace

from aotpack.ir.access import Strides
from aotpack.ir.nodes import Pointwise, Program, reads
from aotpack.ir.schedule import Kernel, Lifetime
from aotpack.schedule.fuse import fuse
from aotpack.schedule.memory import may_overwrite
from aotpack.schedule.naming import kernel_name
from aotpack.schedule.tile import choose_tiles


def with_unfused(
    program: Program,
    kernels: tuple[Kernel, ...],
    strides: Strides,
    lifetimes: tuple[Lifetime, ...],
) -> tuple[Kernel, ...]:
    """The kernels, those of products with their parts."""
    homes = {life.buffer: life.storage for life in lifetimes}
    homes |= {update.value: update.name for update in program.updates}
    return tuple(
        replace(kernel, unfused=_parts(kernel, program, strides, homes)) for kernel in kernels
    )


def _parts(
    kernel: Kernel, program: Program, strides: Strides, homes: dict[str, str]
) -> tuple[Kernel, ...]:
    """The product alone and what follows it, if that is one kernel."""
    first, *rest = kernel.members
    anchor, operations = kernel.anchor, tuple(member.operation for member in rest)
    if anchor is None or not operations:
        return ()
    if not all(isinstance(operation, Pointwise) for operation in operations):
        return ()
    product = replace(
        kernel,
        name=kernel_name((first,)),
        members=(first,),
        stored=(anchor.target,),
        reads=tuple(dict.fromkeys(reads(anchor))),
    )
    outputs = tuple(name for name in kernel.stored if name != anchor.target)
    behind = replace(program, operations=operations, outputs=outputs, updates=())
    made = choose_tiles(program, fuse(behind), strides)
    if len(made) != 1 or not _is_in_place(made[0], strides, homes):
        return ()
    return (product, made[0])


def _is_in_place(kernel: Kernel, strides: Strides, homes: dict[str, str]) -> bool:
    """True when what shares memory is read only where it is then overwritten."""
    return all(
        may_overwrite(kernel, name, other, strides)
        for name in kernel.stored
        for other in kernel.reads
        if homes.get(name, name) == homes.get(other, other)
    )
