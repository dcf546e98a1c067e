"""Cluster reductions: each program sends the states of its part of a row, and merges all.

The programs of a row are one thread block cluster: the GPU runs all at once or refuses the launch,
so waiting for each other cannot deadlock. Each has a mailbox in its shared memory, into which the
others write: a slot for each reduction, with a place for each state of each program, and a counter
of bytes (an mbarrier) that says when all have arrived. No memory is fenced: results and loads in
flight stay so while programs wait. A program ends when all have written to it, so no program writes
to one that has ended.

    mailbox = open_mailbox()           initialises the counters; arrives at the barrier
    cluster_wait()                     waits until all others have arrived
    mbarrier_expect(ready, bytes)      the bytes that will arrive in this program's slot
    send_32(place, ready, word)        a state to all programs; counts its bytes there
    mbarrier_wait(ready, parity)       waits until all bytes have arrived
    receive_32(place)                  the words of all programs, as a block
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.cluster_mailbox import (
    MailboxSlot,
    mailbox_bytes,
    mailbox_slots,
    state_dtypes,
    word_bits,
)
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.operations import Reduction
from aotpack.ir.symbolic.integers import Int
from aotpack.render.emit.regions import Region
from aotpack.render.environment import render_function
from aotpack.render.triton.contexts import ClusterContext, MailboxContext, WordContext
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.reductions import across
from aotpack.render.triton.monoids import TRITON_MONOIDS
from aotpack.render.triton.types import TRITON_TYPES

TEMPLATE = "device_cluster_reduction.py.jinja"
REGISTERS = {32: "r", 64: "l"}  # of inline assembly, by the bits of a word


class ClusterReduction:
    """The lines by which the programs of a cluster divide a row, and reduce it together.

    A row pipeline has a mailbox of two stages, which rows use alternately.
    """

    is_part = True

    def __init__(self, kernel: Kernel, programs: int, stages: int) -> None:
        self.programs, self.stages = programs, stages
        self._extent = kernel.axes[1].extent
        self._slots = mailbox_slots(kernel, programs)
        self._bytes = mailbox_bytes(kernel, programs)  # of a stage
        self._has_met = False

    @property
    def context(self) -> ClusterContext:
        """The division of a row."""
        return ClusterContext(self.programs, str(self.length(self._extent)))

    def length(self, extent: Int) -> Int:
        """The elements of a part; all parts are equally long."""
        return extent // self.programs

    def in_row(self, position: str) -> str:
        """The position in the row of a position in the program's part."""
        return f"first + {position}"

    def open(self, builder: LoopBuilder) -> None:
        """The line that opens a program's mailbox, before all others."""
        places = (
            slot.ready + stage * self._bytes
            for stage in range(self.stages)
            for slot in self._slots.values()
        )
        context = MailboxContext(self._bytes * self.stages, tuple(places))
        builder.functions["open_mailbox"] = render_function(TEMPLATE, "open_mailbox", context)
        builder.root.append("mailbox = open_mailbox()")

    def meet(self, region: Region) -> None:
        """The line, once, after which all mailboxes are open."""
        if not self._has_met:
            region.append("cluster_wait()")
        self._has_met = True

    def merged(self, builder: LoopBuilder, operation: Reduction, states: list[str]) -> list[str]:
        """Send the states of this program's part to the others; gives the states of the row."""
        region, slot = builder.emitter.region, self._slots[operation.targets[0]]
        for name in ("cluster_wait", "mbarrier_expect", "mbarrier_wait"):
            builder.functions[name] = render_function(TEMPLATE, name)
        self.meet(region)
        parts = self._exchanged(builder, operation, slot, states)
        monoid, dtype = TRITON_MONOIDS[operation.kind], operation.args[0].dtype
        rows = across(builder, monoid, dtype, parts, self._extent)
        builder.forget()
        return rows

    def _exchanged(
        self, builder: LoopBuilder, operation: Reduction, slot: MailboxSlot, states: list[str]
    ) -> list[str]:
        """The states of all parts, as blocks."""
        region, dtypes = builder.emitter.region, state_dtypes(operation)
        stage, parity = self._stage(region)
        ready = f"{stage} + {slot.ready}"
        region.append(f"mbarrier_expect({ready}, {slot.bytes})")
        for place, state, dtype in zip(slot.places, states, dtypes, strict=True):
            send = self._function(builder, "send", dtype)
            region.append(f"{send}({stage} + {place}, {ready}, {_word(state, dtype)})")
        region.append(f"mbarrier_wait({ready}, {parity})")
        names = [builder.fresh("t") for _ in states]
        for name, place, dtype in zip(names, slot.places, dtypes, strict=True):
            receive = self._function(builder, "receive", dtype)
            region.append(f"{name} = {_state(f'{receive}({stage} + {place})', dtype)}")
        return names

    def _stage(self, region: Region) -> tuple[str, str]:
        """The stage of the mailbox for the current row, and the parity of its use.

        Two stages are enough: a program that sends for row i + 2 has received all of row i + 1. All
        send that behind the barrier of a reduction, so after they have read the states of row i.
        """
        if self.stages == 1:
            return "mailbox", "0"
        if region.find("stage") is None:
            region.append(f"stage = mailbox + turn % 2 * {self._bytes}")
            region.names["stage"] = "stage"
        return "stage", "turn // 2 % 2"

    def _function(self, builder: LoopBuilder, name: str, dtype: DType) -> str:
        """The name of the function for words of a type's states."""
        bits = word_bits(dtype)
        context = WordContext(bits, bits // 8, REGISTERS[bits], self.programs)
        builder.functions[f"{name}_{bits}"] = render_function(TEMPLATE, name, context)
        return f"{name}_{bits}"


def _word(state: str, dtype: DType) -> str:
    """A state as the integer word that is sent."""
    if not dtype.is_float:
        return f"{state}.to(tl.int{word_bits(dtype)})"
    wide = state if dtype.facts.bits >= 32 else f"{state}.to(tl.float32)"
    return f"{wide}.to(tl.int{word_bits(dtype)}, bitcast=True)"


def _state(word: str, dtype: DType) -> str:
    """The state of a word."""
    if dtype is DType.BOOL:
        return f"{word} != 0"
    if not dtype.is_float:
        return word if dtype.facts.bits == word_bits(dtype) else f"{word}.to({TRITON_TYPES[dtype]})"
    wide = f"{word}.to(tl.float{word_bits(dtype)}, bitcast=True)"
    return wide if dtype.facts.bits >= 32 else f"{wide}.to({TRITON_TYPES[dtype]})"
