"""Memory pressure: fusing two operations keeps operands live together that could share memory.

a = f(x, c); b = g(y, c)        unfused, y may lie where x did, if nothing else reads x and y
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from aotpack.ir.program import Program
from aotpack.ir.uses import operation_uses
from aotpack.schedule.layout import typical_bytes

MOST_HELD = 32  # bytes for each byte that fusion saves


def single_reader_bytes(program: Program) -> dict[str, int]:
    """Typical bytes of the intermediates with one reader: its end frees their memory."""
    given = {*program.inputs, *program.weights, *program.results}
    return {
        name: typical_bytes(program.buffers[name])
        for name, readers in operation_uses(program.operations).readers.items()
        if len(readers) == 1 and name not in given
    }


def raises_pressure(
    one: Iterable[str], other: Iterable[str], freed: Mapping[str, int], saved: int
) -> bool:
    """True when operands of equal sizes could share much more memory than the bytes saved."""
    sizes = [Counter(freed[name] for name in {*names} if name in freed) for names in (one, other)]
    return sum((sizes[0] & sizes[1]).elements()) > MOST_HELD * saved
