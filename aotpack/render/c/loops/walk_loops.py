"""The loops of a reduction kernel: rows one by one, or neighbouring rows in SIMD lanes.

Along "r" the lanes of an accumulator take elements of one row in turn. Along "x" each lane has a
row, and per-row values are arrays over the lanes. Row buffers hold values of whole rows between
walks.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.c.loops.loops import decode
from aotpack.render.c.loops.nest import LoopNest
from aotpack.render.c.loops.reductions import Accumulator, lane_count
from aotpack.render.c.regions import Loop, open_loop
from aotpack.render.c.types import C_TYPES
from aotpack.render.c.window import Window, limit_texts
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region

COLUMNS = 64  # rows side by side


class WalkLoops:
    """The loop over items, and the loops of each walk. ``is_columns``: along "x"."""

    def __init__(self, nest: LoopNest, builder: KernelBuilder, *, is_columns: bool) -> None:
        self.nest, self.builder, self.is_columns = nest, builder, is_columns
        self.buffers: list[tuple[str, DType]] = []
        self.length = builder.emitter.index(builder.kernel.axes[1].extent)
        self.outside = builder.root  # of the next loop: its bounds are computed there
        self.item = self._open_items()

    # --- items

    @property
    def rows(self) -> int:
        """The most rows of an item."""
        return COLUMNS if self.is_columns else 1

    def items(self) -> str:
        """The number of items."""
        emitter, x = self.builder.emitter, self.nest.x
        if not self.is_columns:
            return emitter.index(self.builder.kernel.axes[0].extent)
        outer = "".join(f"({emitter.index(digit.extent)})*" for digit in x[:-1])
        return f"{outer}{self._blocks()}"

    def _blocks(self) -> str:
        extent = self.builder.emitter.index(self.nest.x[-1].extent)
        return f"(({extent} + {COLUMNS - 1}) / {COLUMNS})"

    def _open_items(self) -> Region:
        """The loop over rows, or over blocks of rows."""
        builder, x = self.builder, self.nest.x
        header = "for (int64_t item = first; item < last; item++)"
        if not self.is_columns:
            region = open_fissioned(builder.root, header, frozenset(x))
            decode(x, "item", region, builder)
            return region
        region = open_fissioned(builder.root, header, frozenset(x[:-1]))
        if len(x) > 1:
            decode(x[:-1], f"item / {self._blocks()}", region, builder)
        start = f"item % {self._blocks()} * {COLUMNS}" if len(x) > 1 else f"item * {COLUMNS}"
        region.append(f"const int64_t start = {start};")
        length = builder.emitter.index(x[-1].extent)
        region.append(f"const int count = (int)aot_min({COLUMNS}, {length} - start);")
        return region

    # --- the loops of a walk

    @property
    def innermost(self) -> Axis:
        """The axis of the loop inside all others."""
        return self.nest.x[-1] if self.is_columns else self.nest.r[-1]

    def lanes(self, accumulators: list[Accumulator]) -> int:
        """The lanes of accumulators in one walk."""
        if self.is_columns:
            return COLUMNS
        return lane_count(accumulators, self.nest.r[-1].extent.constant)

    @contextmanager
    def open(
        self, lanes: int, *, is_vector: bool = True, found: Window | None = None
    ) -> Iterator[Loop]:
        """The loops over r (and the lanes); lines go into the innermost, which comes last."""
        emitter, r = self.builder.emitter, self.nest.r
        with emitter.at(self.outside):
            ends = [(frozenset((digit,)), digit.name, emitter.index(digit.extent)) for digit in r]
        self.outside = region = self.item
        for end in ends if self.is_columns else ends[:-1]:
            region = open_loop(region, *end)
        if self.is_columns:
            loop = self.open_lanes(region, found)
        else:
            loop = open_loop(region, *ends[-1], is_vector=is_vector, lanes=lanes)
        with emitter.at(loop):
            yield loop
        self.item.close()

    def open_lanes(self, region: Region, found: Window | None = None) -> Loop:
        """A loop over rows side by side, or over those in a window."""
        digit, emitter = self.nest.x[-1], self.builder.emitter
        first, end = "start", "start + count"
        if found is not None:
            with emitter.at(region):
                first, end = limit_texts(emitter, found, first, end)
            region.append(f"const int64_t low = {first};")
            region.append(f"const int64_t high = {end};")
            first, end = "low", "high"
            if not found.moves:
                region = open_fissioned(region, "if (low < high)", frozenset())
        loop = open_loop(region, frozenset((digit,)), digit.name, end, start=first, is_vector=True)
        loop.append(f"const int64_t lane = {digit.name} - start;")
        return loop

    def position(self) -> str:
        """The position of an element in its row; rows of one element need no loop for it."""
        if self.builder.kernel.axes[1].extent.constant == 1:
            return "0"
        return f"({self.builder.emitter.index(self.nest.flat[1])})"

    # --- values of each row

    def row_states(self, accumulator: Accumulator, lanes: int) -> list[str]:
        """The states of a row."""
        if self.is_columns:
            return [f"{name}[lane]" for name in accumulator.names]
        for line in accumulator.join(lanes):
            self.item.append(line)
        return [f"{name}[0]" for name in accumulator.names]

    def named(self, texts: list[str], kinds: list[DType]) -> list[str]:
        """Names for values of a row: scalars, or arrays over the lanes."""
        names = [self.builder.fresh("t") for _ in texts]
        for name, text, kind in zip(names, texts, kinds, strict=True):
            if self.is_columns:
                self.item.append(f"{C_TYPES[kind]} {name}[{COLUMNS}];")
                self.item.append(f"for (int lane = 0; lane < count; lane++) {name}[lane] = {text};")
            else:
                self.item.append(f"const {C_TYPES[kind]} {name} = {text};")
        return names

    def row_value(self, name: str) -> str:
        """A value of a row, inside a loop."""
        return f"{name}[lane]" if self.is_columns else name

    # --- row buffers

    def row_buffer(self, dtype: DType) -> str:
        """A new row buffer."""
        name = self.builder.fresh("row")
        self.buffers.append((name, dtype))
        return name

    def place(self, name: str) -> str:
        """The current element of a row buffer."""
        position = self.position()
        return (
            f"{name}[{position} * {COLUMNS} + lane]" if self.is_columns else f"{name}[{position}]"
        )

    def scratch(self) -> tuple[list[str], str]:
        """Lines that place the row buffers in the scratch memory, and its size in bytes."""
        setup: list[str] = []
        total = "0"
        for name, dtype in self.buffers:
            setup.append(
                f"{C_TYPES[dtype]} *const {name} = ({C_TYPES[dtype]} *)(scratch + {total});"
            )
            size = f"(size_t)({self.length}) * {self.rows * dtype.itemsize}"
            total = f"{total} + ({size} + 63) / 64 * 64"
        return setup, total.removeprefix("0 + ")


def open_fissioned(region: Region, header: str, axes: frozenset[Axis]) -> Region:
    """A region that recomputes all it needs: outer values may change, or be undefined."""
    inner = region.open(header, axes)
    inner.parent = None
    return inner
