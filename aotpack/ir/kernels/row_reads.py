"""The reads of a row pipeline: streams, which differ from row to row, and common reads.

Both go through shared memory in vectors of 16 bytes, one a thread, so a row must be contiguous
whole vectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aotpack.ir.kernels.access import VECTOR_BYTES, Access, Strides, accesses
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.operations import Scan
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.program import Buffer, values
from aotpack.ir.symbolic.facts import known_multiple, known_one
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var
from aotpack.ir.values import Guarded, walk

WIDTHS = (2, 4)  # bytes of an element

Read = tuple[str, Int]  # a buffer, and the element offset in kernel axes


@dataclass(frozen=True, slots=True)
class RowReads:
    """``streams`` differ from row to row, ``common`` do not; elements have ``width`` bytes."""

    streams: tuple[Read, ...]
    common: tuple[Read, ...]
    width: int

    @property
    def vector(self) -> int:
        """The elements of a vector."""
        return VECTOR_BYTES // self.width

    def block_bytes(self, block: int) -> int:
        """The bytes of a block of one tensor."""
        return block * self.width

    def slot_bytes(self, block: int) -> int:
        """The bytes of a block of each stream."""
        return len(self.streams) * self.block_bytes(block)

    def in_shared(self, kept: int) -> tuple[Read, ...]:
        """The common reads in shared memory; the last ``kept`` ones are in registers."""
        return self.common[: len(self.common) - kept]

    def common_bytes(self, kept: int, block: int, count: int) -> int:
        """The bytes of the common reads in shared memory, of ``count`` blocks each."""
        return len(self.in_shared(kept)) * count * self.block_bytes(block)

    def bytes(self, tile: ReductionTile, count: int) -> int:
        """The shared memory of a program with ``count`` blocks in each row."""
        common = self.common_bytes(tile.kept, tile.r, count)
        return tile.ring * self.slot_bytes(tile.r) + common


def row_reads(kernel: Kernel, strides: Strides, buffers: Mapping[str, Buffer]) -> RowReads | None:
    """The reads of a kernel along its rows; None if it cannot be a row pipeline.

    It cannot with scans, positions, conditions or loaded indices. Nor with results wider than the
    operands: they would need another layout, reached through shared memory.
    """
    operations = [member.operation for member in kernel.members]
    computed = walk(value for operation in operations for value in values(operation))
    if (
        any(isinstance(operation, Scan) for operation in operations)
        or any(MONOIDS[reduction.kind].finds_first for reduction in kernel.reductions)
        or any(isinstance(value, Guarded) for value in computed)
    ):
        return None
    x, r = kernel.axes
    found: dict[Read, bool] = {}
    written: set[int] = set()
    for access in accesses(kernel):
        offset = in_row(access, strides, x)
        if any(isinstance(leaf, Indirect) for leaf in offset.leaves()):
            return None
        if r not in offset.leaves():
            continue
        if access.is_store:
            written.add(buffers[access.buffer].dtype.itemsize)
        else:
            found[access.buffer, offset] = x in offset.leaves() or known_one(x.extent)
    widths = {buffers[name].dtype.itemsize for (name, _), is_stream in found.items() if is_stream}
    if len(widths) != 1 or not widths.issubset(WIDTHS):
        return None
    (width,) = widths
    if max(written, default=0) > width:
        return None
    whole = {read for read in found if _in_vectors(read, r, buffers, width)}
    streams = tuple(read for read, is_stream in found.items() if is_stream)
    if not whole.issuperset(streams):
        return None
    common = tuple(read for read, is_stream in found.items() if not is_stream and read in whole)
    return RowReads(streams, common, width)


def in_row(access: Access, strides: Strides, x: Axis) -> Int:
    """The element offset of an access; with a single row, its offset in the row.

    So ``x*4096 + r`` and ``r``, two reads of a flattened tensor, are equal.
    """
    offset = access.offset(strides)
    return offset.substitute({x: Int.of(0)}) if known_one(x.extent) else offset


def _in_vectors(read: Read, r: Axis, buffers: Mapping[str, Buffer], width: int) -> bool:
    """True when the vectors of a row are aligned vectors of memory."""
    name, offset = read
    rest = offset - Int.of(r)
    vector = VECTOR_BYTES // width
    is_line = r not in rest.leaves() and known_multiple(rest, vector)
    is_plain = all(isinstance(atom, (Axis, Var)) for atom in offset.atoms())
    return is_line and is_plain and buffers[name].dtype.itemsize == width
