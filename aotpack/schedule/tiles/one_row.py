"""Tiles of one row and codes that are factors of the matrix unit as they lie, on Hopper.

A program requests all codes of its columns before it waits for the launch before. Bytes on their
way to registers lie in the L1 cache, those to shared memory do not; a multiprocessor divides one
memory between both, and changes that only when it is idle. Measured on an H200: decode steps of
Llama-1B with int8 and int4 codes (decisions 058, 065, 066).
"""

from dataclasses import replace
from math import ceil

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
LONG_ROW_SHARED = 65536  # bytes of their codes in shared memory, where warps are more
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
    tiles, size = count // columns, columns * held
    if FLOAT8 in numbers_of(products[0]):
        return _at_once(made, shape, tiles, size)
    found = _at_once(_of_long_row(made, shape, size), shape, tiles, size)
    return _with_split(found, shape, tiles, size) if found.in_shared else found


def _of_long_row(tile: MatmulTile, shape: RowShape, size: int) -> MatmulTile:
    """The tile, with ``size`` bytes of codes; of a long row many are in shared memory.

    So no two programs meet on a multiprocessor, and one begins while programs of the launch before
    hold registers.
    """
    if tile.num_warps == WARPS:
        return tile
    step = size // shape.all_steps
    return replace(tile, in_shared=min(shape.all_steps, LONG_ROW_SHARED // step))


def _with_split(tile: MatmulTile, shape: RowShape, tiles: int, size: int) -> MatmulTile:
    """The tile with the shared memory of its programs that run at once on a multiprocessor."""
    in_shared = size * tile.in_shared // shape.all_steps
    program = in_shared + _factor_bytes(shape) + RESERVED_SHARED
    if tile.most_programs:
        return replace(tile, shared_split=program * ceil(tile.most_programs / MULTIPROCESSORS))
    most = 1 if tile.num_warps > WARPS else UNIT_PROGRAMS + 1  # by registers
    together = min(most, ceil(tiles / MULTIPROCESSORS))
    return replace(tile, shared_split=min(program * together, LARGEST_SPLIT))


def _at_once(tile: MatmulTile, shape: RowShape, tiles: int, size: int) -> MatmulTile:
    """The tile for programs that all run at once, with ``size`` bytes of codes for each tile.

    Little more than registers hold is in shared memory too. If there is much more, programs go
    through several tiles, equally many but for the last: each asks for the codes of its next one
    when it has multiplied those of one, and makes the row once.
    """
    is_full = size == WARPS * WARP * HELD_BYTES
    if tile.num_warps > WARPS or not is_full or tiles <= MULTIPROCESSORS:
        return tile
    if tiles <= 2 * UNIT_PROGRAMS * MULTIPROCESSORS:
        return replace(tile, in_shared=ceil(3 * shape.all_steps / 8))
    fitting = H200.shared // (size + _factor_bytes(shape) + RESERVED_BYTES)
    resident = min(UNIT_PROGRAMS, fitting) * MULTIPROCESSORS
    programs = ceil(tiles / ceil(tiles / resident))
    return replace(tile, most_programs=programs, in_shared=shape.all_steps)


def _factor_bytes(shape: RowShape) -> int:
    """The row as a factor, in shared memory."""
    return 4 * shape.row * shape.parts
