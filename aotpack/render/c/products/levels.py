"""Lines for the loop nests of templates, by depth (level), and texts of extents and batches."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel, Member, Schedule
from aotpack.ir.program import targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Const, Guarded, Load, Value
from aotpack.render.c.contexts import AxisLoop
from aotpack.render.c.dialect import C
from aotpack.render.c.parameters import parameter_lines
from aotpack.render.c.products.split import Split
from aotpack.render.emit.emitter import Emitter
from aotpack.render.emit.epilogue import batch_names
from aotpack.render.emit.frame import Frame
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region


class LevelRegions:
    """Nested regions, one for each loop of a template."""

    def __init__(
        self, builder: KernelBuilder, frame: Frame, levels: Iterable[Iterable[Axis]]
    ) -> None:
        self.regions = [Region(frozenset())]
        for axes in levels:
            self.regions.append(self.regions[-1].open("", frozenset(axes)))
        self.emitter: Emitter = builder.emitter_in(frame, self.regions[-1])

    def lines(self, level: int) -> tuple[str, ...]:
        """The lines of a level, without those of inner levels."""
        return tuple(item for item in self.regions[level].items if isinstance(item, str))


class TileBuilder(KernelBuilder):
    """Members read the product at the kernel's axes, also where their extent is 1."""

    def __init__(
        self, schedule: Schedule, kernel: Kernel, frame: Frame, own: tuple[Int, ...]
    ) -> None:
        self._own = own
        super().__init__(schedule, kernel, frame, Region(frozenset()), C)

    def bound(self, member: Member, value: Value) -> Value:
        """A member's value in kernel axes."""
        (product,) = targets(self.kernel.members[0].operation)

        def load(moved: Load) -> Value | None:
            return Load(product, self._own, moved.dtype) if moved.buffer == product else None

        return Rewriter({}, load)(super().bound(member, value))


def tile_builder(
    schedule: Schedule, kernel: Kernel, columns: Split, names: Mapping[Axis, str]
) -> KernelBuilder:
    """A builder for the kernel with its axis split."""
    members = tuple(
        replace(m, binding=tuple((a, e.substitute(columns.parts)) for a, e in m.binding))
        for m in kernel.members
    )
    template_op = kernel.members[0].operation
    own = tuple(Int.of(axis).substitute(columns.parts) for axis in template_op.axes)
    return TileBuilder(schedule, replace(kernel, members=members), Frame(names, {}, ()), own)


def walk_of(
    nest: LevelRegions, builder: KernelBuilder, axis: str, parts: Split, value: str
) -> AxisLoop:
    """A loop nest of a template, with levels 0 batch, 1 outer axis, 2 row, 3 column."""
    names = nest.emitter.frame.names
    return AxisLoop(
        axis=axis,
        row=names[parts.row] if parts.row is not None else "",
        column=names[parts.column],
        width="" if parts.width is None else extent_text(builder, parts.width),
        setup=(*nest.lines(0), *nest.lines(1)),
        outer_lines=nest.lines(2),
        row_lines=nest.lines(3),
        lines=nest.lines(4),
        value=value,
    )


def factor_text(emitter: Emitter, value: Value, operand: DType) -> str:
    """An operand in the type of the product: rounded to ``operand`` unless it is stored so."""
    text = emitter.value(value)
    if operand is DType.FLOAT32 or _is_stored_as(value, operand, emitter):
        return text
    return C.cast(text, value.dtype, operand)


def _is_stored_as(value: Value, operand: DType, emitter: Emitter) -> bool:
    """True for elements of buffers of that type, and zeros."""
    match value:
        case Load():
            return emitter.arguments.dtype(value.buffer) is operand
        case Guarded():
            parts = (value.value, value.otherwise)
            return all(_is_stored_as(part, operand, emitter) for part in parts)
        case Const():
            return value.value == 0
        case _:
            return False


def extent_text(builder: KernelBuilder, extent: Int) -> str:
    """An extent as text."""
    builder.arguments.use_sizes(extent)
    text = builder.emitter.index(extent)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def batch_lines(builder: KernelBuilder, axes: tuple[Axis, ...]) -> tuple[tuple[str, str], ...]:
    """Each batch axis as a digit of the number ``batch``."""
    lines: list[tuple[str, str]] = []
    below = Int.of(1)
    for axis, name in reversed(batch_names(axes).items()):
        digit = "batch" if below.constant == 1 else f"batch / {extent_text(builder, below)}"
        lines.append((name, f"{digit} % {extent_text(builder, axis.extent)}"))
        below = below * axis.extent
    return tuple(reversed(lines))


def setup_lines(builder: KernelBuilder, stored: tuple[str, ...]) -> tuple[str, ...]:
    """The first lines of every function of a kernel: parameters, and values that extents need."""
    extents = (item for item in builder.root.items if isinstance(item, str))
    return (*parameter_lines(builder.arguments, stored), *extents)
