"""What fusing two operations keeps alive at once that could share memory otherwise.

a = f(x, c); b = g(y, c), with x and y made for this alone: apart, y may lie where x did.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from aotpack.ir.program import Program
from aotpack.ir.uses import operation_uses
from aotpack.schedule.layout import typical_bytes

MOST_HELD = 32  # bytes for each one that fusing saves


def lent(program: Program) -> dict[str, int]:
    """Typical bytes of the intermediates that one operation reads: it leaves their memory."""
    given = {*program.inputs, *program.weights, *program.results}
    return {
        name: typical_bytes(program.buffers[name])
        for name, readers in operation_uses(program.operations).readers.items()
        if len(readers) == 1 and name not in given
    }


def holds_too_much(
    one: Iterable[str], other: Iterable[str], lent: Mapping[str, int], saved: int
) -> bool:
    """True when what both leave is as large, and much more than the bytes saved."""
    sizes = [Counter(lent[name] for name in {*names} if name in lent) for names in (one, other)]
    return sum((sizes[0] & sizes[1]).elements()) > MOST_HELD * saved
