"""Split the reduction of a whole tensor along the rows of a row reduction that it depends on.

    m[i] = max over j of x[i, j]                 m[i] = max over j of x[i, j]
    y = sum over i, j of x[i, j] - m[i]    ->    p[i] = sum over j of x[i, j] - m[i]
                                                 y = sum over i of p[i]

Both then have the same loops and share a kernel, which reads x once.
"""

from collections.abc import Mapping

from aotpack.ir.kernels.access import points
from aotpack.ir.operations import Pointwise, Reduction
from aotpack.ir.program import Operation, reads
from aotpack.ir.symbolic.facts import known_equal, known_one, typical
from aotpack.ir.symbolic.integers import Int

SHORTEST_ROW = 32  # elements: the second half reads one for each of them


def aligned_rows(
    operation: Reduction, producers: Mapping[str, Operation]
) -> tuple[Int, Int] | None:
    """The common rows and row length of what a reduction to one number depends on, if any."""
    if not all(known_one(axis.extent) for axis in operation.axes):
        return None
    loops = _loops(operation, producers)
    if not loops:
        return None
    rows, length = loops[0]
    if known_one(rows):
        return None  # there is nothing to split
    if not all(known_equal(rows, n) and known_equal(length, r) for n, r in loops[1:]):
        return None
    if typical(length) < SHORTEST_ROW:
        return None
    outer = (points(operation.inner[:count]) for count in range(len(operation.inner)))
    is_whole = known_equal(points(operation.inner), rows * length)
    return (rows, length) if is_whole and any(known_equal(n, rows) for n in outer) else None


def _loops(operation: Reduction, producers: Mapping[str, Operation]) -> list[tuple[Int, Int]]:
    """The (rows, length) of the nearest reductions that an operation depends on."""
    found: list[tuple[Int, Int]] = []
    seen: set[str] = set()
    pending = [*reads(operation)]
    while pending:
        name = pending.pop()
        producer = producers.get(name)
        if name in seen or producer is None:
            continue
        seen.add(name)
        if isinstance(producer, Reduction):
            found.append((points(producer.axes), points(producer.inner)))
        elif isinstance(producer, Pointwise):
            pending += reads(producer)
        else:
            return []
    return found
