"""Row pipelines: threads copy vectors of later rows to shared memory (cp.async) and read their own.

A program has a ring of n slots, each for a block of its part of a row. Blocks are numbered over all
its rows: block i is copied to slot i % n as soon as the results of block i - n are stored. Copies
run while the program computes. A thread reads only vectors that it copied: it waits for its copies,
not for other threads, without a barrier. It reads a vector before it begins the copy to that place:
hardware keeps this order; PTX does not promise it. Blocks that all rows share are copied once, and
stay. Slots begin at cache lines: copies to other places of a line were seen to read from L2 twice.

    ring = open_ring(threads)        a thread's place in the first slot
    async_copy(place, source, is_there)
    async_commit_group()             copies since the last commit are one group
    async_wait_group(n)              waits until at most the last n groups are in flight
    load_shared_bfloat16(place)      a block: a row for each element of a vector, a column a thread

A block has two dimensions so that Triton's default layout gives each thread a column.
"""

from dataclasses import replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import accesses
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.kernels.row_reads import Read, RowReads, in_row, row_reads
from aotpack.ir.kernels.rows import LINE_BYTES
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_function
from aotpack.render.triton.contexts import RingContext, VectorContext
from aotpack.render.triton.loops.cluster_reduction import ClusterReduction
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.looped_row import LoopedRow
from aotpack.render.triton.loops.reduction_loops import Blocks
from aotpack.render.triton.types import TRITON_TYPES
from aotpack.stages import RING_START

TEMPLATE = "device_row_pipeline.py.jinja"


class RowPipeline(LoopedRow):
    """Programs loop over rows; the next blocks are copied meanwhile."""

    is_row_pipeline = True

    def __init__(self, schedule: Schedule, kernel: Kernel, tile: ReductionTile) -> None:
        self._cluster = ClusterReduction(kernel, tile.cluster_size, stages=2)
        super().__init__(tile, self._cluster)
        found = row_reads(kernel, schedule.strides, schedule.program.buffers)
        assert found is not None, kernel.name
        self._reads = found
        self._length = int(self._cluster.length(kernel.axes[1].extent))
        self.ring_bytes = found.bytes(tile, -(-self._length // tile.r))

    def axes(self, kernel: Kernel) -> tuple[Axis, ...]:
        """None: a row has a value in the loop over rows alone."""
        return ()

    def emit(self, builder: LoopBuilder, program: str) -> None:
        """The loop over rows, with the loops over their blocks."""
        frame = replace(builder.emitter.frame, vector=self._reads.vector)
        with builder.emitter.at(builder.root, frame=frame):
            ring = Ring(builder, self.tile, self._reads, self._length)
            self.partition.open(builder)
            builder.root.append(f"row = {program} // {self.tile.cluster_size}")
            builder.root.append(f"clusters = tl.num_programs(0) // {self.tile.cluster_size}")
            ring.open()
            self._cluster.meet(builder.root)
            self._emit_rows(builder, ring)

    def _emit_rows(self, builder: LoopBuilder, ring: "Ring") -> None:
        """The loop over rows; ``made_for``: results depend on ``x`` even where its extent is 1."""
        emitter, (x, _) = builder.emitter, builder.kernel.axes
        turns = f"tl.cdiv({emitter.index(x.extent)} - row, clusters)"
        if builder.wide:  # mailbox stages have 32 bits; long rows are fewer
            turns = f"tl.cast({turns}, tl.int32)"
        rows = builder.root.open(f"for turn in range({turns}):", frozenset((x,)))
        rows.append(f"{x.name} = (row + turn*clusters){builder.index_type}")
        with emitter.at(rows, shared_reads=ring.shared_reads(), made_for=frozenset((x,))):
            self.emit_loops(builder, ring)
        builder.root.close()


class Ring(Blocks):
    """The lines that move blocks through the ring: it has a slot for each block in flight."""

    in_memory = False

    def __init__(
        self, builder: LoopBuilder, tile: ReductionTile, reads: RowReads, length: int
    ) -> None:
        super().__init__(tile)
        self.builder, self.reads, self.length = builder, reads, length
        self.blocks = -(-length // tile.r)  # of a program's part of a row
        context = RingContext(RING_START, LINE_BYTES)
        builder.functions["open_ring"] = render_function(TEMPLATE, "open_ring", context)
        for name in ("async_copy", "async_commit_group", "async_wait_group"):
            builder.functions[name] = render_function(TEMPLATE, name)

    def open(self) -> None:
        """The lines before the loop over rows: the first copies."""
        root, threads = self.builder.root, WARP * self.tile.num_warps
        root.append(f"ring = open_ring({threads})")
        root.append(f"lane = tl.arange(0, {threads})*{self.reads.vector}")
        if self._shared:
            inner = root.open(f"for r_block in range({self.blocks}):", frozenset())
            inner.append(f"at = r_block*{self.tile.r} + lane")
            for number, read in enumerate(self._shared):
                place = self._common_place(number, "r_block")
                self._copy(inner, place, read, "", self._inside("at"))
            root.close()
        inner = root.open(f"for number in range({self.tile.ring}):", frozenset())
        self._copy_block(inner, "number", "", f"ring + number*{self._slot}")
        root.close()
        self._keep()

    def _keep(self) -> None:
        """Load the common blocks that stay in registers, as a tuple for each tensor."""
        root, kept = self.builder.root, self.reads.common[len(self._shared) :]
        if not kept:
            return
        for number in range(len(kept)):
            root.append(f"kept{number} = ()")
        inner = root.open(f"for r_block in tl.static_range({self.blocks}):", frozenset())
        inner.append(f"at = r_block*{self.tile.r} + lane")
        mask = f", mask={self._inside('at')}[None, :], other=0" if self._inside("at") else ""
        for number, (buffer, offset) in enumerate(kept):
            names = {self.builder.kernel.axes[1]: "(first + at)[None, :]"}
            source = self.builder.emitter.address(buffer, offset, names)
            inner.append(
                f"kept{number} = kept{number} + (tl.load({source} + {self._neighbours}{mask}),)"
            )
        root.close()

    @property
    def elements(self) -> str:
        """The positions of elements in their block."""
        return f"{self._neighbours} + lane[None, :]"

    def steps(self, ends: str, *, is_rest: bool) -> str:
        """Unrolled: each block has a slot."""
        return f"tl.static_range({ends})"

    def enter(self, region: Region, *, is_first: bool) -> None:
        """Name the slot of the current block; in the first walk, wait for its copy."""
        if is_first:
            region.append(f"async_wait_group({self.tile.ring - 1} - {self._number})")
        if self.tile.ring == self.blocks:
            number = self._number
        else:
            number = f"(turn*{self.blocks} + {self._number}) % {self.tile.ring}"
        region.append(f"slot = ring + {number}*{self._slot}")

    def shared_reads(self) -> dict[Read, tuple[str, DType]]:
        """The texts that read the current block, and their types."""
        places = [self._stream_place("slot", number) for number in range(len(self.reads.streams))]
        places += [
            self._common_place(number, f"({self._number})") for number in range(len(self._shared))
        ]
        buffers, found = self.builder.schedule.program.buffers, {}
        for read, place in zip((*self.reads.streams, *self._shared), places, strict=True):
            dtype = buffers[read[0]].dtype
            is_wide = dtype is DType.BFLOAT16
            self.builder.functions[f"load_shared_{dtype}"] = self._reader(dtype)
            found[read] = f"load_shared_{dtype}({place})", DType.FLOAT32 if is_wide else dtype
        for number, read in enumerate(self.reads.common[len(self._shared) :]):
            found[read] = f"kept{number}[{self._number}]", buffers[read[0]].dtype
        kernel, strides = self.builder.kernel, self.builder.schedule.strides
        return {
            (access.buffer, access.offset(strides)): found[read]
            for access in accesses(kernel)
            if not access.is_store
            and (read := (access.buffer, in_row(access, strides, kernel.axes[0]))) in found
        }

    def _reader(self, dtype: DType) -> str:
        """The function that reads elements of a type."""
        if dtype is DType.BFLOAT16:
            return render_function(TEMPLATE, "load_shared_bfloat16")
        vector = self.reads.vector
        operands = ",".join("r" * vector)
        context = VectorContext(str(dtype), TRITON_TYPES[dtype], vector, operands)
        return render_function(TEMPLATE, "load_shared", context)

    def leave(self, region: Region) -> None:
        """The block was stored: copy the block that takes its slot."""
        ahead = f"({self._number} + {self.tile.ring})"
        self._copy_block(region, ahead, "turn + ", "slot")

    @property
    def _number(self) -> str:
        """The number of the current block in its row."""
        return f"r_start // {self.tile.r}"

    @property
    def _neighbours(self) -> str:
        return f"tl.arange(0, {self.reads.vector})[:, None]"

    @property
    def _slot(self) -> int:
        return self.reads.slot_bytes(self.tile.r)

    @property
    def _shared(self) -> tuple[Read, ...]:
        return self.reads.in_shared(self.tile.kept)

    def _stream_place(self, slot: str, number: int) -> str:
        skipped = number * self.reads.block_bytes(self.tile.r)
        return f"{slot} + {skipped}" if skipped else slot

    def _common_place(self, number: int, block: str) -> str:
        size = self.reads.block_bytes(self.tile.r)
        start = self.tile.ring * self._slot + number * self.blocks * size
        return f"ring + {start} + {block}*{size}"

    def _copy_block(self, region: Region, number: str, turn: str, slot: str) -> None:
        """Copy a block, if there is one; ``number`` counts from the first of the current row."""
        x = self.builder.kernel.axes[0]
        rows = self.builder.emitter.index(x.extent)
        region.append(f"at = {number} % {self.blocks} * {self.tile.r} + lane")
        later = f"({turn}{number} // {self.blocks})"
        region.append(f"next_row = (row + {later}*clusters){self.builder.index_type}")
        is_there = " & ".join(filter(None, (f"(next_row < {rows})", self._inside("at"))))
        for place, read in enumerate(self.reads.streams):
            self._copy(region, self._stream_place(slot, place), read, "next_row", is_there)
        region.append("async_commit_group()")

    def _inside(self, at: str) -> str:
        return f"({at} < {self.length})" if self.length % self.tile.r else ""

    def _copy(self, region: Region, place: str, read: Read, row: str, is_there: str) -> None:
        """Copy a thread's vector of a block; ``at`` is its position in the program's part."""
        builder, (buffer, offset) = self.builder, read
        x, r = builder.kernel.axes
        names: dict[Axis, str] = {x: row, r: "(first + at)"}
        source = builder.emitter.address(buffer, offset, names)
        region.append(f"async_copy({place}, {source}, {is_there or 'lane >= 0'})")
