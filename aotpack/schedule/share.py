"""Memory in which programs that share a row leave each other the states of their parts (C:G18).

s[i] = sum over k of x[i, k], by 8 programs    ->    needs s_state0[i, 8]
"""

from dataclasses import replace

from aotpack.ir.integers import Int
from aotpack.ir.monoids import MONOIDS
from aotpack.ir.nodes import Buffer, Program, Reduction
from aotpack.ir.schedule import Kernel, cluster_size


def declare_exchanges(program: Program, kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """The kernels with a buffer for each state of each reduction whose rows are shared."""
    return tuple(_declared(kernel, program) for kernel in kernels)


def _declared(kernel: Kernel, program: Program) -> Kernel:
    together = max((cluster_size(variant.tile) for variant in kernel.variants), default=1)
    if together == 1:
        return kernel
    shape = (kernel.axes[0].extent, Int.of(together))
    reductions = (m.operation for m in kernel.members if isinstance(m.operation, Reduction))
    exchange = tuple(
        Buffer(_free(f"{operation.targets[0]}_state{number}", program), dtype, shape)
        for operation in reductions
        for number, dtype in enumerate(
            MONOIDS[operation.kind].state_dtypes(operation.args[0].dtype)
        )
    )
    return replace(kernel, exchange=exchange)


def _free(name: str, program: Program) -> str:
    """A name that no tensor has."""
    return _free(f"{name}_", program) if name in program.buffers else name
