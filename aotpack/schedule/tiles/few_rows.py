"""Tiles of products with few rows, which the memory of their weights bounds.

One or two rows take no matrix unit: weights stream through registers, 16 bytes a thread. Codes of
one row do, on Hopper (``one_row``). More rows are the columns of a matrix unit, and weights its
rows: so few of its lanes are idle. So are those of weights that are neighbours along n.

Measured on an H200 in bfloat16 beside cuBLAS, weights beyond L2, each launch admitted as the one
before it starts (us, 2026-11-23; a copy takes 8.1 us for 32 MiB):

| n x k | 1 row | cuBLAS | 2 rows | cuBLAS | 16 rows | cuBLAS |
|---|---|---|---|---|---|---|
| 2048 x 2048 | 3.1 | 6.2 | 4.0 | 5.8 | 4.8 | 6.1 |
| 16384 x 2048 | 16.5 | 18.2 | 16.9 | 17.9 | 17.5 | 18.7 |
| 14336 x 4096 | 27.4 | 30.4 | 28.0 | 30.5 | 31.4 | 30.7 |
| 2048 x 8192 | 9.0 | 13.5 | 10.6 | 13.5 | 10.8 | 13.1 |
| 4096 x 14336 | 28.3 | 31.2 | | | | |

Without a matrix unit 4 rows of 16384 x 2048 took 20.2 us, and 8 rows 39.3. Alone, programs of two
columns whose warps lie along k are as quick for short rows; between other launches of a decode step
a warp for each column is: 657 us for all products of Llama-1B, 676 with warps along k. Rows of 4096
hold twice the registers that way, and each warp reads the left factor anew: with warps along k a
decode step of four layers of Llama-8B takes 681 us, not 783 (2026-11-30).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

from aotpack.devices import ADA, BLACKWELL, H200, HOPPER
from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import (
    VECTOR_BYTES,
    Strides,
    axes_in,
    dot,
    gains_of,
    local_slope,
    shared_length,
)
from aotpack.ir.kernels.one_row import DECODED
from aotpack.ir.kernels.runs import split_run_scale
from aotpack.ir.kernels.tiles import MAX_ARCH, WARP, MatmulTile, Variant
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Axis, Indirect
from aotpack.ir.values import Apply, Const, IndexValue, Load, walk
from aotpack.schedule.program.merge_products import SHORTEST_SUM
from aotpack.schedule.tiles.one_row import WARPS, in_matrix_unit

MOST_ROWS = {DType.BFLOAT16: 2, DType.FLOAT16: 2, DType.FLOAT32: 8}
"""For which multiplying takes less time than loading, by the type of factors."""
MOST_COLUMNS = 16  # of a matrix unit, that rows are
LEAST_WEIGHTS = 2**20  # elements, from which on memory bounds a product with a matrix unit
SUMS = 64  # registers of a thread
VECTORS = 16  # of weights in a thread's registers, for several groups of steps; half for codes
ALL_VECTORS = 28  # the same, if all steps of one row are one group
ALL_CODES = 32  # the same, of codes of 8 bits
SHORT_ROW, MIDDLE_ROW, LONG_ROW = 4096, 8192, 16384  # bytes along k of one column
SHORT_CODES = 2048  # likewise, of 8 bits: more columns share what the left factor costs,
MANY_CODES = 8192  # where there are so many
SPLITS = (8, 6, 4, 3, 2)
ENOUGH_TILES = 48  # of 64 columns: each multiprocessor has 120 KiB in flight
FEWER_TILES = 32  # that are enough for a sum not longer than
SHORT_SUM = 2048
LONG_SUM = 16384  # from which on tiles are shared up to all multiprocessors (25088: 57 to 52 us)


def few_rows_variants(
    products: tuple[Matmul, ...],
    program: Program,
    strides: Strides,
    changed: frozenset[str],
    reads: Iterable[str] = (),
) -> tuple[Variant, ...]:
    """Variants up to a number of rows; the last takes all sizes if there are never more.

    No launch writes the weights that are not ``changed``. The kernel ``reads`` more than factors.
    """
    template_op = products[0]
    if not _is_plain(template_op):
        return ()
    constant = set(program.weights) - changed
    early = [one for each in products for one in _loads(each)]
    early += [one for each in products for one in gains_of(each.lhs, program.weights)]
    first = all(one.buffer in constant for one in early) and changed.isdisjoint(reads)
    along_k = _steps_by_one(template_op, template_op.k, strides)
    limit = MOST_ROWS.get(template_op.operand, 0) if along_k else 0
    low, high = bounds(template_op.m.extent)
    found, rows = list[Variant](), 1
    while rows <= limit and rows < 2 * high:
        if rows >= low:
            tiles = tuple(_tiles(products, rows, program, first=first))
            if not tiles:  # the sums of so many rows, in lanes of long vectors
                limit = rows // 2
                break
            at_most = None if high <= rows else rows
            unit = in_matrix_unit(tiles[0], products, program, strides) if rows == 1 else None
            found += _by_decoding(tiles, products, at_most, unit)
        rows *= 2
    has_vectors = along_k or _steps_by_one(template_op, template_op.n, strides)
    if high > limit and low <= MOST_COLUMNS and has_vectors:
        found += _swapped(template_op, int(min(high, MOST_COLUMNS + 1)))
    return tuple(found)


def _by_decoding(
    tiles: tuple[MatmulTile, ...],
    products: tuple[Matmul, ...],
    at_most: int | None,
    unit: MatmulTile | None,
) -> Iterator[Variant]:
    """Variants of the tiles, before Ada without 8-bit floats; on Hopper the ``unit``."""
    rows, first = products[0].m.extent, 1
    parts = walk(product.rhs for product in products)
    if any(isinstance(one, Apply) and one.op == DECODED for one in parts):
        yield Variant(tiles[0], first, ADA - 1, rows, at_most, others=tiles[1:])
        tiles, first = tuple(replace(tile, decodes=True) for tile in tiles), ADA
        unit = unit and replace(unit, decodes=True)
    if unit:
        yield Variant(tiles[0], first, HOPPER - 1, rows, at_most, others=tiles[1:])
        yield Variant(unit, HOPPER, BLACKWELL - 1, rows, at_most, others=tiles[:1])
        first = BLACKWELL
    yield Variant(tiles[0], first, MAX_ARCH, rows, at_most, others=tiles[1:])


def _loads(template_op: Matmul) -> list[Load]:
    """The loads of the right factor."""
    return [value for value in walk((template_op.rhs,)) if isinstance(value, Load)]


def _is_plain(template_op: Matmul) -> bool:
    """True if the right factor is arithmetic on elements at known addresses."""
    depth = template_op.k.extent.constant
    if template_op.batch or depth is None or depth < SHORTEST_SUM:
        return False
    inner = walk((template_op.rhs,))
    if not all(isinstance(v, (Load, Apply, Const, IndexValue)) for v in inner):
        return False
    places = [part for v in inner if isinstance(v, Load) for part in v.index]
    places += [v.index for v in inner if isinstance(v, IndexValue)]
    leaves = (leaf for place in places for leaf in place.leaves())
    return not any(isinstance(leaf, Indirect) for leaf in leaves)


def _steps_by_one(template_op: Matmul, axis: Axis, strides: Strides) -> bool:
    """True if what the right factor reads along an axis are neighbours in memory, or one element.

    A scale is one element for a group of neighbours.
    """
    along = [load for load in _loads(template_op) if axis in axes_in(load.index)]
    slopes = {local_slope(dot(load.index, strides[load.buffer]), axis) for load in along}
    return 1 in slopes and slopes <= {0, 1}


def _tiles(
    products: tuple[Matmul, ...], rows: int, program: Program, *, first: bool
) -> Iterator[MatmulTile]:
    """The best guess, then others that tuning times; each once. Vectors are of what is stored."""
    k, loads = products[0].k, _loads(products[0])
    depth = shared_length(loads, k)
    along = (load.buffer for load in loads if k in axes_in(load.index))
    size = min(program.buffers[name].dtype.itemsize for name in along)
    width = _width(products, rows, depth, VECTOR_BYTES // size)
    run = _run(products, width)
    shapes = _shapes(products, rows, depth, size)
    in_group = VECTORS // 2 if size == 1 else VECTORS
    most = VECTORS if rows > 1 else ALL_CODES if size == 1 else ALL_VECTORS
    found = dict.fromkeys(_fitted(shape, depth, WARP * width) for shape in shapes)
    for columns, across in found:
        length = WARP * width * across
        in_thread = columns * length // (WARP * WARPS)
        if rows * in_thread * len(products) <= SUMS * run:
            steps = ceil(depth / length)
            vectors = steps * in_thread * len(products) // width
            groups = 1 if vectors <= most else ceil(vectors / in_group)
            yield MatmulTile(
                rows,
                columns,
                length,
                WARPS,
                1,
                at_once=ceil(steps / groups),
                weights_first=first,
                run=run,
            )


def _width(products: tuple[Matmul, ...], rows: int, depth: int, width: int) -> int:
    """The elements of a thread's vector, ``width`` at most.

    A pair of products has no other form: there must be a tile whose sums fit.
    """
    while WARP * width > depth and width > 1:
        width //= 2
    while len(products) > 1 and rows * width * len(products) > SUMS * _run(products, width):
        width //= 2
    return width


def _run(products: tuple[Matmul, ...], width: int) -> int:
    """The neighbours that are added before they are scaled: a vector, or none."""
    return 1 if any(split_run_scale(one, width)[1] is None for one in products) else width


def _shapes(
    products: tuple[Matmul, ...], rows: int, depth: int, size: int
) -> tuple[tuple[int, int], ...]:
    """Columns of a tile with warps along k, best guess first, by the bytes of a row."""
    side, count = len(products), products[0].n.extent.constant
    if rows > 1:
        return (4, 4), (2, 4), (4, 1)
    if size == 1 and depth <= SHORT_CODES:
        is_long = count is not None and count * side >= MANY_CODES
        widest, other = (16, 8) if is_long or side > 1 else (8, 16)
        return (widest // side, 1), (other // side, 1), (4, 1), (2, 4)
    if size == 1 or depth * size <= SHORT_ROW:
        return (8 // side, 1), (4, 1), (2, 4), (4, 4)
    is_middle = size == 2 and depth * size <= MIDDLE_ROW
    if depth * size <= LONG_ROW and not is_middle:
        return (4, 1), (2, 4), (4, 4), (8, 1)
    return (2, 4), (4, 4), (4, 1), (8, 1)


def _fitted(shape: tuple[int, int], depth: int, length: int) -> tuple[int, int]:
    """Columns of a tile, and warps along k, whose steps divide ``depth`` if any do."""
    columns, across = shape
    while across > 1 and depth % (across * length):
        across //= 2
    return max(columns, WARPS // across), across


def _swapped(template_op: Matmul, most: int) -> Iterator[Variant]:
    """A variant of Hopper's matrix units, which take 64 rows or more."""
    n, k = template_op.n.extent.constant, int(template_op.k.extent)
    if n is None or n * k < LEAST_WEIGHTS or template_op.operand.itemsize != 2:
        return
    tile = MatmulTile(MOST_COLUMNS, 64, 256, WARPS, 4, swapped=True)
    tiles = ceil(n / tile.n)
    enough = FEWER_TILES if k <= SHORT_SUM else ENOUGH_TILES
    if tiles > H200.multiprocessors:
        tile = replace(tile, k=128)
    elif tiles < (enough if k < LONG_SUM else H200.multiprocessors):
        fitting = (s for s in SPLITS if tiles * s <= H200.multiprocessors and 2 * s * tile.k <= k)
        tile = replace(tile, splits=next(fitting, 1))
    others = (replace(tile, num_stages=3), replace(tile, k=128), replace(tile, splits=1))
    at_most = None if most <= MOST_COLUMNS else MOST_COLUMNS
    yield Variant(
        tile,
        HOPPER,
        BLACKWELL - 1,
        template_op.m.extent,
        at_most,
        others=tuple(other for other in dict.fromkeys(others) if other != tile),
    )
