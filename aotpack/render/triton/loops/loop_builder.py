"""The state of rendering a loop kernel in Triton, and the partition of rows over programs."""

from collections.abc import Callable, Collection
from typing import Protocol

from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Reduction
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply
from aotpack.render.emit.emitter import EmitOptions, Emitter
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.triton.contexts import ClusterContext
from aotpack.render.triton.dialect import TRITON
from aotpack.render.triton.loops.nearest import nearest_integer
from aotpack.render.triton.loops.softmax import Softmax
from aotpack.render.triton.monoid import DeviceFunction
from aotpack.render.triton.monoids import TRITON_MONOIDS


class RowPartition(Protocol):
    """The part of each row that a program works on."""

    is_part: bool

    @property
    def context(self) -> ClusterContext | None:
        """How the programs of a cluster divide a row, for the template; None without a cluster."""

    def length(self, extent: Int) -> Int:
        """The number of elements of a row of ``extent`` in the program's part."""

    def in_row(self, position: str) -> str:
        """The position in the row of a position in the program's part."""

    def open(self, builder: "LoopBuilder") -> None:
        """Append the lines that come before all others."""

    def merged(self, builder: "LoopBuilder", operation: Reduction, states: list[str]) -> list[str]:
        """The states of whole rows, from those of the program's part."""


class WholeRow:
    """Programs have whole rows, and exchange nothing."""

    is_part = False
    context = None

    def length(self, extent: Int) -> Int:
        """All elements."""
        return extent

    def in_row(self, position: str) -> str:
        """The same position."""
        return position

    def open(self, builder: "LoopBuilder") -> None:
        """No lines."""

    def merged(self, builder: "LoopBuilder", operation: Reduction, states: list[str]) -> list[str]:
        """The same states."""
        return states


class LoopBuilder(KernelBuilder):
    """Builds a kernel over rows or points. Results of its softmax have cheaper forms."""

    def __init__(
        self,
        schedule: Schedule,
        kernel: Kernel,
        frame: Frame,
        root: Region,
        partition: RowPartition,
        *,
        awaited: Collection[str] = (),
        unpack: Callable[[str], str] | None = None,
    ) -> None:
        self.partition = partition
        self.softmax = Softmax()
        options = EmitOptions(awaited, unpack, self._shortcut)
        super().__init__(schedule, kernel, frame, root, TRITON, options)

    def _shortcut(self, emitter: Emitter, value: Apply, is_short: bool) -> str | None:
        """A cheaper text of an operation; ``is_short``: the results are rounded to 16 bits."""
        return nearest_integer(emitter, value) or self.softmax.shortcut(emitter, value, is_short)

    def use(self, function: DeviceFunction) -> str:
        """The name of a function, which the kernel then has, with what it calls."""
        for kind in function.calls:
            self.use(TRITON_MONOIDS[kind].combine)
        if function.name not in self.functions:
            self.functions[function.name] = function.text
        return function.name

    @property
    def length(self) -> Int:
        """The number of elements in a program's part of a row."""
        return self.partition.length(self.kernel.axes[1].extent)

    def forget(self) -> None:
        """Begin a new pass over a resident row."""
        if len(self.kernel.axes) > 1:
            self.emitter.forget(self.kernel.axes[1])
