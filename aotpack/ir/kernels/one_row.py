"""Products of one row and codes, which are factors of the matrix unit as they lie in memory.

Which products those are, and which warp has what of a column: 64 bytes of it at a time.

    column = chunk of (warp of (step of 64 bytes))
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import Strides, axes_in, dot, shared_length, slope
from aotpack.ir.kernels.runs import split_run_scale
from aotpack.ir.kernels.tiles import WARP
from aotpack.ir.operations import Matmul
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.rounding import is_code
from aotpack.ir.symbolic.facts import known_multiple
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Load, Value, walk

BLOCK = 8  # columns; the matrix unit has rows for 16, of which a column takes two
STEP = 64  # codes of a column, that four threads have
VECTOR = 16  # codes of a thread in a step, and elements of the row that it converts
SHORT_CHUNK = 1024  # of bytes with two codes each
SPANS = 128, 64  # neighbours that are added before they are scaled
DECODED = "of_float8_e4m3fn_code"
FLOAT8 = "float8_e4m3fn"
LOW_CODE, HIGH_CODE = "low_code", "high_code"  # of the two in a byte
OPERANDS = DType.BFLOAT16, DType.FLOAT16


class RowShape(NamedTuple):
    """A row of bytes: ``chunks`` of ``chunk``, of which a warp has ``steps`` each.

    ``parts`` of the row are multiplied by the same bytes: two where a byte has two codes. A scale
    of a group is one number for ``span`` codes, or there is none and it is 0.
    """

    chunk: int
    chunks: int
    steps: int
    parts: int
    span: int

    @property
    def row(self) -> int:
        """The bytes of a column."""
        return self.chunk * self.chunks

    @property
    def all_steps(self) -> int:
        """The steps of a warp in a column."""
        return self.chunks * self.steps


def row_shape(products: tuple[Matmul, ...], warps: int) -> RowShape | None:
    """The shape of the row, if warps share it evenly."""
    first, spans = products[0], {span_of(one) for one in products}
    if len(spans) != 1 or None in spans:
        return None
    row, span = shared_length(codes_of(first), first.k), spans.pop() or 0
    parts = int(first.k.extent) // row
    chunk = warps * WARP * VECTOR
    if parts > 1 and row % chunk:
        chunk = SHORT_CHUNK
    if row % chunk or 2 * chunk < warps * WARP * VECTOR:
        return None
    return RowShape(chunk, row // chunk, chunk // (warps * STEP), parts, span)


def span_of(product: Matmul) -> int | None:
    """The neighbours that share a scale, 0 without scales of groups; None if it is in the way."""
    if not isinstance(product.rhs, Apply) or is_code(product.rhs):
        return 0
    found = (span for span in SPANS if split_run_scale(product, span)[1] is not None)
    return next(found, None)


def codes_of(product: Matmul) -> list[Load]:
    """The loads of the codes, without those of scales."""
    codes, _ = split_run_scale(product, span_of(product) or 1)
    found = [one for one in walk((codes,)) if isinstance(one, Load)]
    return [one for one in found if product.k in axes_in(one.index)]


def numbers_of(product: Matmul) -> tuple[str, ...]:
    """The names of the codes of each part of the row; "" for what is no code."""
    codes, _ = split_run_scale(product, span_of(product) or 1)
    length = shared_length(codes_of(product), product.k)
    k = Axis("k", Int.of(length))
    return tuple(
        _name(Rewriter({product.k: Int.of(k) + length * part})(codes))
        for part in range(int(product.k.extent) // length)
    )


def _name(value: Value) -> str:
    if not isinstance(value, Apply) or not is_code(value):
        return ""
    if value.op == DECODED:
        return FLOAT8 if isinstance(value.args[0], Load) else ""
    inner, name = code_of(value)
    return name if isinstance(inner, Load) and inner.dtype is DType.INT8 else ""


def code_of(number: Apply) -> tuple[Value, str]:
    """The code of 8 bits that a number is, or a byte and which of its two codes it is."""
    value = number.args[0]
    match value:
        case Apply(
            op="shift_right", args=(Apply(op="mul", args=(byte, Const(value=16))), Const(value=4))
        ):
            return byte, LOW_CODE
        case Apply(op="shift_right", args=(byte, Const(value=4))):
            return byte, HIGH_CODE
    return value, "int8"


def fits_matrix_unit(
    products: tuple[Matmul, ...], strides: Strides, dtypes: Mapping[str, DType], warps: int
) -> bool:
    """True if codes are factors of the matrix unit as they lie. ``dtypes`` are those of memory."""
    first = products[0]
    count = first.n.extent.constant
    if first.operand not in OPERANDS or count is None or count % BLOCK:
        return False
    names = {numbers_of(one) for one in products}
    if len(names) != 1 or "" in names.pop() or row_shape(products, warps) is None:
        return False
    return all(
        dtypes[load.buffer].itemsize == 1 and _is_aligned(product, load, strides)
        for product in products
        for load in codes_of(product)
    )


def _is_aligned(product: Matmul, load: Load, strides: Strides) -> bool:
    """True if a column is contiguous and begins at a multiple of a thread's codes."""
    offset, k = _offset(product, load, strides)
    across = slope(offset, product.n)
    if slope(offset, k) != 1 or across is None or across % VECTOR:
        return False
    return known_multiple(offset - Int.of(k) - Int.of(product.n) * across, VECTOR)


class WholeCodes(NamedTuple):
    """The first ``length`` bytes of a buffer."""

    buffer: str
    length: int


def whole_codes(product: Matmul, strides: Strides) -> WholeCodes | None:
    """The codes of a product, if they are the begin of a buffer, column by column."""
    loads = dict.fromkeys(codes_of(product))
    count = product.n.extent.constant
    if len(loads) != 1 or count is None or not all(numbers_of(product)):
        return None
    (load,) = loads
    offset, k = _offset(product, load, strides)
    length = int(k.extent)
    if offset != Int.of(k) + Int.of(product.n) * length:
        return None
    return WholeCodes(load.buffer, int(count) * length)


def _offset(product: Matmul, load: Load, strides: Strides) -> tuple[Int, Axis]:
    """The offset of a code in memory, with an axis along a column's bytes in place of that of k."""
    k = Axis("k", Int.of(shared_length([load], product.k)))
    moved = Rewriter({product.k: Int.of(k)})(load)
    assert isinstance(moved, Load)
    return dot(moved.index, strides[load.buffer]), k
