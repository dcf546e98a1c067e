"""What rendering one kernel works with: its emitter, its root region, what its members have made so far."""

from collections.abc import Sequence

from aotpack.ir.access import dot
from aotpack.ir.dtypes import DType
from aotpack.ir.facts import bounds
from aotpack.ir.integers import LARGEST_SIZE, Int, product
from aotpack.ir.nodes import Load, Pointwise, Value, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.schedule import Kernel, Member, Schedule
from aotpack.render.arguments import Arguments
from aotpack.render.dialect import Dialect
from aotpack.render.emitter import Emitter, Frame
from aotpack.render.regions import Region
from aotpack.render.triton_dialect import TRITON

MAX_COMMENTS = 6


class Workshop:
    """State of rendering one kernel. ``results`` names what reductions, scans and templates made."""

    def __init__(
        self,
        schedule: Schedule,
        kernel: Kernel,
        frame: Frame,
        root: Region,
        dialect: Dialect = TRITON,
    ) -> None:
        self.schedule = schedule
        self.dialect = dialect
        self.kernel = kernel
        self.root = root
        self._count = 0
        self.wide = needs_64_bits(schedule, kernel)
        self.results: dict[str, str] = {}
        self.functions: dict[str, str] = {}
        self.arguments = Arguments(schedule.program, kernel.stored, wide=self.wide)
        self._values: dict[str, Value] = {}
        for member in kernel.members:
            if isinstance(member.operation, Pointwise):
                self._values[member.operation.target] = self.bound(member, member.operation.value)
        self.emitter = self.emitter_in(frame, root)

    def emitter_in(self, frame: Frame, region: Region) -> Emitter:
        """An emitter for another tile of the same kernel."""
        stored = [self.schedule.program.buffers[name].dtype for name in self.kernel.stored]
        fast = all(dtype in (DType.FLOAT16, DType.BFLOAT16) for dtype in stored)
        ports = (self.arguments, self.offset, self.resolve, self.fresh, self.dialect)
        return Emitter(frame, region, *ports, fast=fast)

    def fresh(self, prefix: str) -> str:
        """A name no line of this kernel has yet."""
        self._count += 1
        return f"{prefix}{self._count}"

    @property
    def index_type(self) -> str:
        """The cast of program numbers and ranges."""
        return ".to(tl.int64)" if self.wide else ""

    @property
    def comments(self) -> tuple[str, ...]:
        """The user's source lines behind the kernel."""
        lines = dict.fromkeys(
            source for member in self.kernel.members for source in member.operation.origin.sources
        )
        return tuple(lines)[:MAX_COMMENTS]

    def bound(self, member: Member, value: Value) -> Value:
        """A member's value in kernel axes."""
        return Rewriter(dict(member.binding))(value)

    def define(self, member: Member, names: Sequence[str]) -> None:
        """Record the names of what a member made."""
        self.results.update(zip(targets(member.operation), names, strict=True))

    def resolve(self, load: Load) -> Value | str | None:
        """What stands for a load of something this kernel made."""
        if load.buffer in self.results:
            return self.results[load.buffer]
        return self._values.get(load.buffer)

    def offset(self, load: Load) -> Int:
        """The element offset of a load."""
        return self.offset_of(load.buffer, load.index)

    def offset_of(self, buffer: str, index: tuple[Int, ...]) -> Int:
        """The element offset of an index of a buffer."""
        return dot(index, self.schedule.strides[buffer])


def needs_64_bits(schedule: Schedule, kernel: Kernel) -> bool:
    """True unless every element offset and every loop count is known to fit 31 bits (C:D1)."""
    buffers = schedule.program.buffers
    names = (*kernel.reads, *kernel.stored)
    sizes = [product(buffers[name].shape) for name in names]
    sizes.append(product(axis.extent for axis in kernel.axes[:2]))
    return any(bounds(size)[1] > LARGEST_SIZE - 2**20 for size in sizes)


