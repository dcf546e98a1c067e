"""Shared by templates: pointwise members over the result tile, stores, and batch numbers."""

from collections.abc import Container

from aotpack.ir.kernels.access import written_index
from aotpack.ir.kernels.kernel import Kernel, Member
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import targets
from aotpack.ir.symbolic.integers import Axis, Int, operand
from aotpack.ir.values import Apply, Const, Load, indirect_values, walk
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.kernel_builder import KernelBuilder


def render_epilogue(
    kernel: Kernel, builder: KernelBuilder, axes: tuple[Axis, ...], other: Emitter | None = None
) -> tuple[str, ...]:
    """Compute and store what the members make of the template's result tile, or an ``other``."""
    emitter = other or builder.emitter
    for member in kernel.members:
        store_results(builder, member, emitter, frozenset(axes))
    return tuple(emitter.region.lines())


def loaded_early(
    kernel: Kernel,
    builder: KernelBuilder,
    rows: Axis | None = None,
    among: Container[str] | None = None,
) -> tuple[str, ...]:
    """The lines that load what the epilogue adds, such as a bias: it comes while sums are made.

    They are the first lines of the epilogue, which follows. What differs between ``rows`` is left
    to it, and so are buffers that are not ``among`` some.
    """
    made = {name for member in kernel.members for name in targets(member.operation)}
    for member in kernel.members:
        if not isinstance(member.operation, Pointwise):
            continue
        inner = walk((builder.bound(member, member.operation.value),))
        if all(isinstance(one, (Apply, Const, Load)) for one in inner):
            for load in (one for one in inner if isinstance(one, Load)):
                leaves = {leaf for index in load.index for leaf in index.leaves()}
                if load.buffer in made or rows in leaves:
                    continue
                if among is not None and load.buffer not in among:
                    continue
                if not indirect_values(load.index):
                    builder.emitter.value(load)
    return tuple(builder.root.lines())


def store_results(
    builder: KernelBuilder, member: Member, emitter: Emitter, axes: frozenset[Axis]
) -> None:
    """The stores of what a member makes and others read."""
    for name in targets(member.operation):
        if name in builder.kernel.stored:
            value = builder.result(member, name, emitter)
            offset = builder.offset_of(name, written_index(member))
            emitter.region.append(emitter.store(name, offset, value, axes))


def batch_names(axes: tuple[Axis, ...]) -> dict[Axis, str]:
    """Names of batch axes in templates, the same for all operations."""
    return {axis: f"g{number}" for number, axis in enumerate(axes)}


def batch_numbers(axes: tuple[Axis, ...], name: str) -> tuple[tuple[str, str], ...]:
    """Each batch axis, as text, from the flat batch number ``name``."""
    names = batch_names(axes)
    numbers: list[tuple[str, str]] = []
    below = Int.of(1)
    for position, axis in reversed(list(enumerate(axes))):
        text = name if below.constant == 1 else f"{name} // {operand(below)}"
        if position > 0:
            text = f"{text} % {operand(axis.extent)}"
        numbers.append((names[axis], text))
        below = below * axis.extent
    return tuple(reversed(numbers))
