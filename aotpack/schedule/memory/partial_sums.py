"""Exchange memory of products and attention whose sums are split between programs.

y[m, n] = sum over k of a[m, k] * b[k, n]    ->    y_parts[tile, split, m, n]; y_arrived[tile]
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.partial_sums import needed_parts
from aotpack.ir.names import free_name
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int


def with_partial_sums(kernel: Kernel, program: Program) -> Kernel:
    """A kernel with memory for the parts of its sums, and counters of the parts of each tile.

    They are as large as the largest variant needs; the same object if none is split.
    """
    template_op = kernel.template_op
    if template_op is None:
        return kernel
    needs = [needed_parts(kernel, v, tile) for v in kernel.variants for tile in v.tiles]
    elements, tiles = (max((one[at] for one in needs), default=0) for at in (0, 1))
    if not tiles:
        return kernel
    wide, known, name = template_op.operand.accumulator, program.buffers, template_op.target
    parts = Buffer(free_name(f"{name}_parts", known), wide, (Int.of(elements),))
    arrived = Buffer(free_name(f"{name}_arrived", known), DType.INT32, (Int.of(tiles),))
    return replace(kernel, exchange=(parts,), counters=(arrived,))
