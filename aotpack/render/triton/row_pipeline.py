"""Rows in turn through shared memory: each thread copies vectors there, and reads its own again.

A program has a ring of slots, for a block of its part of a row each. Blocks are numbered in the
order in which rows and their blocks come; each is copied to the slot of the one before it by the
length of the ring, as soon as that was written out. Copies run while the program computes. A thread
reads what it copied itself, so that waiting for a copy is not waiting for other threads: no
barrier. It reads a vector before it begins the copy to that place: that this is also the order in
which they happen is how the hardware works; PTX does not promise it. What all rows share is copied
once, and stays. Slots begin where cache lines do: copies to other places in a line were seen
to read from L2 twice.

    slots = open_slots(threads)      a thread's vector of the first slot
    copy_vector(place, source, is_there)
    end_copies()                     those begun since the last end are one group
    await_copies(n)                  until at most the last n groups are on their way
    held_bfloat16(place)             a block: a row for each element of a vector, a column a thread

A block has two dimensions for that reason: by default Triton gives each thread a column.
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import accesses
from aotpack.ir.kernels.row_reads import Read, RowReads, in_row
from aotpack.ir.kernels.rows import LINE_BYTES
from aotpack.ir.kernels.tiles import WARP, ReductionTile
from aotpack.ir.symbolic.integers import Axis
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.emit.regions import Region
from aotpack.render.triton.types import TRITON_TYPES
from aotpack.stages import RING_START

OPEN_SLOTS = '''@triton.jit
def open_slots(threads: tl.constexpr):
    lane = tl.arange(0, threads)
    return tl.inline_asm_elementwise("""{{
        .reg .b32 start;
        mov.u32 start, global_smem;
        add.u32 start, start, {ring_start};
        and.b32 start, start, -{line};
        mad.lo.u32 $0, $1, 16, start;
    }}""", "=r,r", [lane], tl.int32, is_pure=False, pack=1)
'''
COPY_VECTOR = '''@triton.jit
def copy_vector(place, source, is_there):
    tl.inline_asm_elementwise("""{
        .reg .pred is_there;
        setp.ne.b32 is_there, $3, 0;
        @is_there cp.async.cg.shared.global [$1], [$2], 16;
        mov.u32 $0, 0;
    }""", "=r,r,l,r", [place, source, is_there.to(tl.int32)], tl.int32, is_pure=False, pack=1)
'''
END_COPIES = """@triton.jit
def end_copies():
    tl.inline_asm_elementwise(
        "cp.async.commit_group; mov.u32 $0, $1;", "=r,r", [0], tl.int32, is_pure=False, pack=1
    )
"""
AWAIT_COPIES = """@triton.jit
def await_copies(groups: tl.constexpr):
    tl.inline_asm_elementwise(
        "cp.async.wait_group %d; mov.u32 $0, $1;" % groups,
        "=r,r", [0], tl.int32, is_pure=False, pack=1
    )
"""
HELD = """@triton.jit
def held_{name}(place):
    places = place[None, :] + tl.zeros([{vector}, 1], tl.int32)
    return tl.inline_asm_elementwise(
        "ld.shared.v4.b32 {{$0, $1, $2, $3}}, [$4];", "=r,=r,=r,=r,{operands}",
        [places], {kind}, is_pure=False, pack={vector}
    )
"""
HELD_BFLOAT16 = '''@triton.jit
def held_bfloat16(place):  # widened: a register holds two
    places = place[None, :] + tl.zeros([8, 1], tl.int32)
    return tl.inline_asm_elementwise("""{
        ld.shared.v4.b32 {$0, $2, $4, $6}, [$8];
        and.b32 $1, $0, 0xffff0000;
        and.b32 $3, $2, 0xffff0000;
        and.b32 $5, $4, 0xffff0000;
        and.b32 $7, $6, 0xffff0000;
        shl.b32 $0, $0, 16;
        shl.b32 $2, $2, 16;
        shl.b32 $4, $4, 16;
        shl.b32 $6, $6, 16;
    }""", "=r,=r,=r,=r,=r,=r,=r,=r,r,r,r,r,r,r,r,r",
        [places], tl.float32, is_pure=False, pack=8)
'''


class Ring:
    """The lines by which a kernel takes rows in turn."""

    def __init__(
        self, builder: KernelBuilder, tile: ReductionTile, reads: RowReads, length: int
    ) -> None:
        self.builder, self.tile, self.reads, self.length = builder, tile, reads, length
        self.blocks = -(-length // tile.r)  # of a program's part of a row
        builder.functions.update(
            open_slots=OPEN_SLOTS.format(ring_start=RING_START, line=LINE_BYTES),
            copy_vector=COPY_VECTOR,
            end_copies=END_COPIES,
            await_copies=AWAIT_COPIES,
        )

    @property
    def bytes(self) -> int:
        """The shared memory of a program."""
        return self.reads.bytes(self.tile, self.blocks)

    def open(self) -> None:
        """The lines before the loop over rows: the first copies begin."""
        root, threads = self.builder.root, WARP * self.tile.num_warps
        root.append(f"slots = open_slots({threads})")
        root.append(f"lane = tl.arange(0, {threads})*{self.reads.vector}")
        if self._shared:
            inner = root.open(f"for r_block in range({self.blocks}):", frozenset())
            inner.append(f"at = r_block*{self.tile.r} + lane")
            for number, read in enumerate(self._shared):
                place = self._common_place(number, "r_block")
                self._copy(inner, place, read, "", self._inside("at"))
            root.close()
        inner = root.open(f"for number in range({self.tile.ring}):", frozenset())
        self._copy_block(inner, "number", "", f"slots + number*{self._slot}")
        root.close()
        self._keep()

    def _keep(self) -> None:
        """Load what stays in registers, as a tuple of blocks for each tensor."""
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
        """Where the elements of a block are in it."""
        return f"{self._neighbours} + lane[None, :]"

    def enter_block(self, region: Region, *, is_first: bool) -> None:
        """Name the slot of the block at hand; in the first walk, wait until it is there."""
        if is_first:
            region.append(f"await_copies({self.tile.ring - 1} - {self._number})")
        if self.tile.ring == self.blocks:
            number = self._number
        else:
            number = f"(turn*{self.blocks} + {self._number}) % {self.tile.ring}"
        region.append(f"slot = slots + {number}*{self._slot}")

    def held(self) -> dict[Read, tuple[str, DType]]:
        """The texts by which the block at hand is read, and what they give."""
        places = [self._stream_place("slot", number) for number in range(len(self.reads.streams))]
        places += [
            self._common_place(number, f"({self._number})") for number in range(len(self._shared))
        ]
        buffers, found = self.builder.schedule.program.buffers, {}
        for read, place in zip((*self.reads.streams, *self._shared), places, strict=True):
            dtype = buffers[read[0]].dtype
            is_wide = dtype is DType.BFLOAT16
            self.builder.functions[f"held_{dtype}"] = (
                HELD_BFLOAT16 if is_wide else self._reader(dtype)
            )
            found[read] = f"held_{dtype}({place})", DType.FLOAT32 if is_wide else dtype
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
        vector = self.reads.vector
        return HELD.format(
            name=dtype, kind=TRITON_TYPES[dtype], vector=vector, operands=",".join("r" * vector)
        )

    def leave_block(self, region: Region) -> None:
        """The block was written out: copy the one that takes its slot."""
        ahead = f"({self._number} + {self.tile.ring})"
        self._copy_block(region, ahead, "turn + ", "slot")

    @property
    def _number(self) -> str:
        """The block at hand, counted from the first of the row."""
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
        return f"slots + {start} + {block}*{size}"

    def _copy_block(self, region: Region, number: str, turn: str, slot: str) -> None:
        """Copy a block, if there is one; ``number`` counts from the first of the row at hand."""
        x = self.builder.kernel.axes[0]
        rows = self.builder.emitter.index(x.extent)
        region.append(f"at = {number} % {self.blocks} * {self.tile.r} + lane")
        later = f"({turn}{number} // {self.blocks})"
        region.append(f"later = (row + {later}*together){self.builder.index_type}")
        is_there = " & ".join(filter(None, (f"(later < {rows})", self._inside("at"))))
        for place, read in enumerate(self.reads.streams):
            self._copy(region, self._stream_place(slot, place), read, "later", is_there)
        region.append("end_copies()")

    def _inside(self, at: str) -> str:
        return f"({at} < {self.length})" if self.length % self.tile.r else ""

    def _copy(self, region: Region, place: str, read: Read, row: str, is_there: str) -> None:
        """A thread's vector of a block; ``at`` is where it begins in the program's part."""
        builder, (buffer, offset) = self.builder, read
        x, r = builder.kernel.axes
        names: dict[Axis, str] = {x: row, r: "(first + at)"}
        source = builder.emitter.address(buffer, offset, names)
        region.append(f"copy_vector({place}, {source}, {is_there or 'lane >= 0'})")
