"""A kernel uses its result rounded to 16 bits, if other kernels read it so from memory.

    x: y = exp(a);  z = y - max(y)           x: y = exp(a);  z = rounded(y) - max(rounded(y))
    x: t = y - max                    ->     x: t = y - max

for a y stored in 16 bits. Otherwise the maximum comes from other numbers than those that it is
subtracted from, and a rounding error is left where values should cancel. A result that no other
kernel reads is not rounded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, kernel_uses
from aotpack.ir.operations import Pointwise
from aotpack.ir.program import Operation, Program, targets
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.rounding import ROUNDINGS
from aotpack.ir.values import Apply, Load, Value


def match_rounding(
    program: Program, kernels: tuple[Kernel, ...]
) -> tuple[Program, tuple[Kernel, ...]]:
    """Round a result where its own kernel uses it, if other kernels read it rounded from memory.

    The same objects if there is no such use.
    """
    changed: dict[tuple[str, ...], Operation] = {}
    uses = kernel_uses(kernels)
    made = []
    for position, kernel in enumerate(kernels):
        spare = _rounded_by_its_value(kernel)
        stored = (name for name in kernel.stored if name not in spare)
        elsewhere = [name for name in stored if uses.has_other_readers(name, position)]
        made.append(_with_rounded_uses(kernel, _types_of_16_bits(program, elsewhere), changed))
    if not changed:
        return program, kernels
    operations = tuple(changed.get(targets(o), o) for o in program.operations)
    return replace(program, operations=operations), tuple(made)


def _rounded_by_its_value(kernel: Kernel) -> set[str]:
    """The results whose value is rounded already."""
    return {
        operation.target
        for operation in (member.operation for member in kernel.members)
        if isinstance(operation, Pointwise)
        and isinstance(operation.value, Apply)
        and operation.value.op in ROUNDINGS
    }


def _with_rounded_uses(
    kernel: Kernel, shared: Mapping[str, DType], changed: dict[tuple[str, ...], Operation]
) -> Kernel:
    """The kernel with its uses of ``shared`` results rounded; adds to ``changed`` by targets."""
    if not shared:
        return kernel

    def rounded(load: Load) -> Value | None:
        stored = shared.get(load.buffer)
        return stored and Apply(f"round_{stored}", (load,), load.dtype)

    rewrite = Rewriter({}, rounded)
    members = []
    for member in kernel.members:
        operation = map_values(member.operation, rewrite)
        if operation is not member.operation:
            changed[targets(operation)] = operation
        members.append(replace(member, operation=operation))
    return replace(kernel, members=tuple(members))


def _types_of_16_bits(program: Program, names: Iterable[str]) -> dict[str, DType]:
    """The types of those buffers that are stored with fewer bits than they are computed with."""
    types = {name: program.buffers[name].dtype for name in names}
    return {name: dtype for name, dtype in types.items() if dtype.compute is not dtype}
