"""Padded strides: rows begin at whole cache lines, with a gap behind each row.

    t: [8, 50257] with the strides (50304, 1)        row of 50257 elements, pitch of 50304

A gap holds no data: whole vectors may be read and written over it.
"""

from dataclasses import dataclass

from aotpack.ir.kernels.access import Strides, is_dense
from aotpack.ir.program import Buffer
from aotpack.ir.symbolic.facts import bounds, known_le, known_lt, known_multiple
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, product

LINE_BYTES = 128  # of a cache line


@dataclass(frozen=True, slots=True)
class Row:
    """``length`` contiguous elements; the next row begins ``pitch`` elements after the first."""

    length: int
    pitch: int

    def walked_by(self, offset: Int) -> Axis | None:
        """The axis along which an access at this offset goes through a row, from its beginning.

        None for loaded indices: they may point into a gap.
        """
        if any(isinstance(leaf, Indirect) for leaf in offset.leaves()):
            return None
        for atom in offset.atoms():
            if isinstance(atom, Axis) and atom.extent.constant == self.length:
                others = offset - Int.of(atom)
                if atom not in others.leaves() and known_multiple(others, self.pitch):
                    return atom
        return None


def row_of(shape: tuple[Int, ...], strides: tuple[Int, ...]) -> Row | None:
    """The rows of a buffer with gaps behind them; None if its elements are dense."""
    if len(shape) < 2 or is_dense(shape, strides):
        return None
    dims = list(zip(strides, shape, strict=True))
    length = next((n.constant for step, n in dims if step.constant == 1 != n.constant), None)
    outer = [step for step, _ in dims if step.constant != 1]
    pitch = min((step.constant for step in outer if step.constant is not None), default=0)
    if length is None or pitch <= length:
        return None
    return Row(length, pitch) if all(known_multiple(step, pitch) for step in outer) else None


def storage_elements(shape: tuple[Int, ...], strides: tuple[Int, ...]) -> Int:
    """The elements of memory that a buffer takes, including the gap behind its last row."""
    if is_dense(shape, strides):
        return product(shape)
    stride, size = max(zip(strides, shape, strict=True), key=_extent)
    return stride * size


def storage_bytes(buffer: Buffer, strides: Strides) -> Int:
    """The memory that a buffer takes, in bytes."""
    return storage_elements(buffer.shape, strides[buffer.name]) * buffer.dtype.itemsize


def buffer_bytes(buffer: Buffer) -> Int:
    """The bytes of a buffer's elements."""
    return product(buffer.shape) * buffer.dtype.itemsize


def has_legal_strides(buffer: Buffer, strides: tuple[Int, ...]) -> bool:
    """True when dimensions do not overlap, and each is padded by less than a cache line."""
    if is_dense(buffer.shape, strides):
        return True
    if len(buffer.shape) != len(strides):
        return False
    taken, line = Int.of(1), LINE_BYTES // buffer.dtype.itemsize
    for stride, size in sorted(zip(strides, buffer.shape, strict=True), key=_extent):
        if not known_le(taken, stride) or not known_lt(stride, taken + line):
            return False
        taken = stride * size
    return True


def _extent(dim: tuple[Int, Int]) -> tuple[float, float]:
    """The key that orders dimensions from the innermost: at small sizes strides may be equal."""
    stride, size = dim
    return bounds(stride)[1], bounds(size)[1]
