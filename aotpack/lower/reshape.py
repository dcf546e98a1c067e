"""Index maps between shapes with equally many elements, through the row-major position."""

from aotpack.ir.kernels.access import flatten_index
from aotpack.ir.symbolic.division import exact_quotient
from aotpack.ir.symbolic.facts import known_equal, known_le
from aotpack.ir.symbolic.integers import Int, product

Index = tuple[Int, ...]
Shape = tuple[Int, ...]


def unflatten_index(position: Int, shape: Shape) -> Index:
    """The index at a row-major position of a shape without a dimension of constant size 0."""
    entries: list[Int] = []
    for size in reversed(shape[1:]):
        entries.append(position % size)
        position = position // size
    return (*([position] if shape else []), *reversed(entries))


def reshape_index(index: Index, shape: Shape, source: Shape) -> Index:
    """The index in ``source`` of the element at ``index`` of a tensor of ``shape``.

    Dimensions are matched in groups of equal products, so that only dimensions that were split or
    merged need divisions.
    """
    if any(size.constant == 0 for size in (*shape, *source)):
        return (Int.of(0),) * len(source)
    result: list[Int] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        i_end, j_end = _group_end(shape, i, source, j)
        position = flatten_index(index[i:i_end], shape[i:i_end])
        result += unflatten_index(position, source[j:j_end])
        i, j = i_end, j_end
    return tuple(result)


def _group_end(shape: Shape, i: int, source: Shape, j: int) -> tuple[int, int]:
    """Extend from (i, j) until both sides have the same product."""
    i_end, j_end = min(i + 1, len(shape)), min(j + 1, len(source))
    while True:
        a, b = product(shape[i:i_end]), product(source[j:j_end])
        if known_equal(a, b) or (i_end == len(shape) and j_end == len(source)):
            return i_end, j_end
        if j_end == len(source) or (i_end < len(shape) and _is_smaller(a, b)):
            i_end += 1
        else:
            j_end += 1


def _is_smaller(a: Int, b: Int) -> bool:
    return exact_quotient(b, a) is not None or known_le(a, b)
