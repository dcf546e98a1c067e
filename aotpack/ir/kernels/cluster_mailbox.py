"""The layout of a program's mailbox: shared memory for the states of its cluster's programs.

Each reduction has a slot: a counter of the bytes that have arrived (an mbarrier), then for each
state a word of each program.
"""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.monoids import MONOIDS

COUNTER_BYTES = 8


@dataclass(frozen=True, slots=True)
class MailboxSlot:
    """Offsets of a reduction's slot: the counter, each state, and the end."""

    ready: int
    places: tuple[int, ...]
    end: int

    @property
    def bytes(self) -> int:
        """The bytes that all programs send."""
        return self.end - self.ready - COUNTER_BYTES


def word_bits(dtype: DType) -> int:
    """The size of the words in which states of a type are sent."""
    return max(32, dtype.facts.bits)


def state_dtypes(operation: Reduction) -> tuple[DType, ...]:
    """The types of a reduction's states."""
    return MONOIDS[operation.kind].state_dtypes(operation.args[0].dtype)


def mailbox_slots(kernel: Kernel, programs: int) -> dict[str, MailboxSlot]:
    """The slots of a mailbox, by the first target of each reduction."""
    found: dict[str, MailboxSlot] = {}
    end = 0
    for operation in kernel.reductions:
        ready, places = end, []
        end += COUNTER_BYTES
        widths = [word_bits(dtype) // 8 * programs for dtype in state_dtypes(operation)]
        for width in widths:
            places.append(end)
            end += width
        end = -(-end // COUNTER_BYTES) * COUNTER_BYTES
        found[operation.targets[0]] = MailboxSlot(ready, tuple(places), places[-1] + widths[-1])
    return found


def mailbox_bytes(kernel: Kernel, programs: int) -> int:
    """The bytes of a mailbox that serves one row."""
    end = max(slot.end for slot in mailbox_slots(kernel, programs).values())
    return -(-end // COUNTER_BYTES) * COUNTER_BYTES
