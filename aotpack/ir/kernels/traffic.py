"""The least work of a kernel: the bytes it moves, and the arithmetic of its products.

A tensor counts once, or by the number of points that access it where that is less: a gather, a
slice, one element of each row. The points of an access are those of the axes in its index.
"""

from dataclasses import dataclass

from aotpack.ir.foreign import Foreign
from aotpack.ir.kernels.access import Access, accesses, axes_in, points
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.rows import buffer_bytes
from aotpack.ir.operations import Attention, Matmul
from aotpack.ir.program import Operation, Program
from aotpack.ir.symbolic.integers import Int, minimum, product, total


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes moved, and multiplications and additions of products, over the model's sizes."""

    moved: Int
    flops: Int

    def __add__(self, other: "Work") -> "Work":
        return Work(self.moved + other.moved, self.flops + other.flops)


NO_WORK = Work(Int.of(0), Int.of(0))


def work_of(kernel: Kernel, program: Program) -> Work:
    """The work of one launch."""
    touched: dict[tuple[str, bool], dict[tuple[Int, ...], Int]] = {}
    for access in accesses(kernel):
        number = points(axes_in(access.index))
        touched.setdefault((access.buffer, access.is_store), {})[access.index] = number
    moved = []
    for (name, is_store), points_of in touched.items():
        buffer = program.buffers[name]
        elements = minimum(product(buffer.shape), total(points_of.values()))
        again = is_store and kernel.scatter is not None  # it reads what it combines with
        moved.append(elements * buffer.dtype.itemsize * (2 if again else 1))
    return Work(total(moved), total(_flops(member.operation) for member in kernel.members))


def bytes_of_call(schedule: Schedule) -> Int:
    """The least bytes that the launches of a call move; parts of branches and loops run once."""
    return total(_bytes(kernel, schedule.program) for kernel in schedule.kernels)


def _bytes(kernel: Kernel, program: Program) -> Int:
    if kernel.control is not None:
        return total(map(bytes_of_call, kernel.parts))
    if isinstance(kernel.members[0].operation, Foreign):
        passed = dict.fromkeys((*kernel.reads, *kernel.stored))
        return total(buffer_bytes(program.buffers[name]) for name in passed)
    return work_of(kernel, program).moved


def access_bytes(access: Access, program: Program) -> Int:
    """The bytes that one access touches."""
    buffer = program.buffers[access.buffer]
    number = minimum(product(buffer.shape), points(axes_in(access.index)))
    return number * buffer.dtype.itemsize


def _flops(template_op: Operation) -> Int:
    if isinstance(template_op, Matmul):
        return 2 * points((*template_op.axes, template_op.k))
    if isinstance(template_op, Attention):
        scores = points((template_op.batch, template_op.head, template_op.i, template_op.j))
        both = 2 * scores * (template_op.d.extent + template_op.e.extent)
        return both // 2 if template_op.causal else both
    return Int.of(0)
