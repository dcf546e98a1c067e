"""Tiles of one row and codes that are factors of the matrix unit as they lie, on Hopper.

A program requests all codes of its columns before it waits for the launch before. Bytes on their
way to registers lie in the L1 cache, those to shared memory do not; a multiprocessor divides one
memory between both, and changes that only when it is idle. Measured on an H200: decode steps of
Llama-1B with codes of 8 and 4 bits (decisions 058, 065, 066, 067).
"""

from dataclasses import replace
from math import ceil
from typing import NamedTuple

from aotpack.devices import H200, LARGEST_SPLIT, RESERVED_SHARED
from aotpack.ir.kernels.access import Strides
from aotpack.ir.kernels.one_row import (
    FLOAT8,
    RowShape,
    fits_matrix_unit,
    numbers_of,
    row_shape,
)
from aotpack.ir.kernels.tiles import WARP, MatmulTile
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program

WARPS = 4
LONG_CODES = 4096  # bytes along k of one column, from which on more warps share them
UNIT_COLUMNS = {WARPS: (32, 16, 8), 2 * WARPS: (16, 8)}  # by warps
LONG_ROW_CODES = 65536  # bytes of their codes in shared memory, where warps are more
LONG_ROW_FLOATS = 98304  # the same of 8-bit floats, whose row is shorter
HELD_BYTES = 512  # of codes in a thread's registers
UNIT_PROGRAMS = 3  # of a multiprocessor, with so many
MULTIPROCESSORS = H200.multiprocessors  # for which these programs are shared out
RESERVED_BYTES = 2048  # of shared memory, for each program
ENOUGH_PROGRAMS = 128  # one for each multiprocessor


def in_matrix_unit(
    tile: MatmulTile, products: tuple[Matmul, ...], program: Program, strides: Strides
) -> MatmulTile | None:
    """A tile of one row and codes that are factors of the matrix unit as they lie."""
    dtypes = {name: one.dtype for name, one in program.buffers.items()}
    if not tile.weights_first or not fits_matrix_unit(products, strides, dtypes, WARPS):
        return None
    shape, warps = row_shape(products, WARPS), WARPS
    assert shape is not None
    if shape.row >= LONG_CODES and fits_matrix_unit(products, strides, dtypes, 2 * WARPS):
        warps = 2 * WARPS
    held = shape.row * len(products)  # bytes of a column
    fitting = [c for c in UNIT_COLUMNS[warps] if c * held <= warps * WARP * HELD_BYTES]
    count = int(products[0].n.extent)
    whole = [c for c in fitting if count % c == 0]
    if not whole:
        return None
    enough = (c for c in whole if count // c >= ENOUGH_PROGRAMS)
    columns = next(enough, whole[-1])
    made = replace(tile, n=columns, num_warps=warps, in_matrix_unit=True)
    shape = row_shape(products, warps)
    assert shape is not None
    is_float8 = FLOAT8 in numbers_of(products[0])
    work = _Work(shape, count // columns, columns * held, is_float8)
    found = _at_once(_of_long_row(made, work), work)
    return _with_split(found, work) if found.in_shared else found


class _Work(NamedTuple):
    """Tiles, each with ``codes`` bytes of codes, 8-bit floats or integers."""

    shape: RowShape
    tiles: int
    codes: int
    is_float8: bool

    @property
    def row(self) -> int:
        """The bytes of the row as a factor: two halves of each element, or four digits."""
        return (2 if self.is_float8 else 4) * self.shape.row * self.shape.parts


def _of_long_row(tile: MatmulTile, work: _Work) -> MatmulTile:
    """The tile; of a long row as many codes are in shared memory as make a program large.

    So no two programs meet on a multiprocessor, and one begins while programs of the launch before
    hold registers. If there is one for nearly every multiprocessor, the others get one without a
    tile: up to six programs of the next launch would meet on each of these.
    """
    if tile.num_warps == WARPS:
        return tile
    steps = work.shape.all_steps
    most = LONG_ROW_FLOATS if work.is_float8 else LONG_ROW_CODES
    least = MULTIPROCESSORS if ENOUGH_PROGRAMS <= work.tiles < MULTIPROCESSORS else 0
    return replace(tile, in_shared=min(steps, most // (work.codes // steps)), least_programs=least)


def _with_split(tile: MatmulTile, work: _Work) -> MatmulTile:
    """The tile with the shared memory of its programs that run at once on a multiprocessor."""
    in_shared = work.codes * tile.in_shared // work.shape.all_steps
    program = in_shared + work.row + RESERVED_SHARED
    if tile.most_programs:
        return replace(tile, shared_split=program * ceil(tile.most_programs / MULTIPROCESSORS))
    most = 1 if tile.num_warps > WARPS else UNIT_PROGRAMS + 1  # by registers
    together = min(most, ceil(work.tiles / MULTIPROCESSORS))
    return replace(tile, shared_split=min(program * together, LARGEST_SPLIT))


def _at_once(tile: MatmulTile, work: _Work) -> MatmulTile:
    """The tile for programs that all run at once.

    Little more than registers hold is in shared memory too. If there is much more, programs go
    through several tiles, equally many but for the last: each asks for the codes of its next one
    when it has multiplied those of one, and makes the row once.
    """
    is_full = work.codes == WARPS * WARP * HELD_BYTES
    if tile.num_warps > WARPS or not is_full or work.tiles <= MULTIPROCESSORS:
        return tile
    if work.tiles <= 2 * UNIT_PROGRAMS * MULTIPROCESSORS:
        return replace(tile, in_shared=ceil(3 * work.shape.all_steps / 8))
    fitting = H200.shared // (work.codes + work.row + RESERVED_BYTES)
    resident = min(UNIT_PROGRAMS, fitting) * MULTIPROCESSORS
    programs = ceil(work.tiles / ceil(work.tiles / resident))
    return replace(tile, most_programs=programs, in_shared=work.shape.all_steps)
