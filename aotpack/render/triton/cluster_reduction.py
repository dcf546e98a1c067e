"""Several programs share a row: each tells the others the states of its part, and merges all parts.

The programs of a row are one thread block cluster: the GPU runs them at once or refuses the launch,
so waiting for each other cannot hang, whatever else the GPU does. Each has a room in its shared
memory, into which the others write without its help: a place for each state of each program, and a
counter of bytes (an mbarrier) that says when all have come. No memory is fenced: results and loads
that are on their way stay there while programs wait. A program ends when all have written to it, so
nobody writes to one that has ended.

    room = open_room()           the counters are there; tells the others so
    all_open()                   all others have come as far
    expect(ready, bytes)         what is to come into this program's room
    send(place, ready, word)     a state into everybody's room, and its bytes onto their counters
    wait(ready, parity)          until all has come
    received(place)              the words of all programs, as a block
"""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.cluster_mailbox import mailbox_bytes, mailbox_slots, state_dtypes, word_bits
from aotpack.ir.kernels.kernel import Kernel
from aotpack.ir.kernels.tiles import ReductionTile
from aotpack.ir.operations import Reduction
from aotpack.ir.symbolic.integers import Int
from aotpack.render.contexts import ClusterReduction
from aotpack.render.emit.kernel_builder import KernelBuilder
from aotpack.render.triton.types import TRITON_TYPES

REGISTERS = {32: "r", 64: "l"}  # of inline assembly, by the bits of a word
OPEN_ROOM = '''@triton.jit
def open_room():
    return tl.inline_asm_elementwise("""{{
        .shared .align 16 .b8 room[{bytes}];
        .reg .pred is_first;
        .reg .b32 thread;
        mov.u32 $0, room;
        mov.u32 thread, %tid.x;
        setp.eq.u32 is_first, thread, 0;
{counters}
        @is_first fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.release.aligned;
    }}""", "=r,r", [0], tl.int32, is_pure=False, pack=1)
'''
COUNTER = "        @is_first mbarrier.init.shared::cta.b64 [$0 + {place}], 1;"
ALL_OPEN = """@triton.jit
def all_open():
    tl.inline_asm_elementwise(
        "barrier.cluster.wait.acquire.aligned; mov.u32 $0, $1;",
        "=r,r", [0], tl.int32, is_pure=False, pack=1
    )
"""
EXPECT = '''@triton.jit
def expect(ready, bytes):
    tl.inline_asm_elementwise("""{
        .reg .pred is_first;
        .reg .b32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 is_first, thread, 0;
        @is_first mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1], $2;
        mov.u32 $0, 0;
    }""", "=r,r,r", [ready, bytes], tl.int32, is_pure=False, pack=1)
'''
SEND = '''@triton.jit
def send_{bits}(place, ready, word):  # a thread writes to each program
    tl.inline_asm_elementwise("""{{
        .reg .pred is_sender;
        .reg .b32 program, rank, there, counter;
        mov.u32 program, %tid.x;
        setp.lt.u32 is_sender, program, {programs};
        mov.u32 rank, %cluster_ctarank;
        mad.lo.u32 there, rank, {bytes}, $1;
        @is_sender mapa.shared::cluster.u32 there, there, program;
        @is_sender mapa.shared::cluster.u32 counter, $2, program;
        @is_sender st.async.shared::cluster.mbarrier::complete_tx::bytes.b{bits}
            [there], $3, [counter];
        mov.u32 $0, 0;
    }}""", "=r,r,r,{register}", [place, ready, word], tl.int32, is_pure=False, pack=1)
'''
WAIT = '''@triton.jit
def wait(ready, parity):
    tl.inline_asm_elementwise("""{
        .reg .pred is_over;
    again:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 is_over, [$1], $2;
        @!is_over bra again;
        mov.u32 $0, 0;
    }""", "=r,r,r", [ready, parity], tl.int32, is_pure=False, pack=1)
'''
RECEIVED = """@triton.jit
def received_{bits}(place):
    places = place + tl.arange(0, {programs}) * {bytes}
    return tl.inline_asm_elementwise(
        "ld.shared.b{bits} $0, [$1];", "={register},r",
        [places], tl.int{bits}, is_pure=False, pack=1
    )
"""


def part_length(extent: Int, cluster_size: int) -> Int:
    """The elements of a part; all are equally long."""
    return extent // cluster_size


def cluster_reduction_of(kernel: Kernel, tile: ReductionTile) -> ClusterReduction | None:
    """How a tile's rows are divided; None where a program has a row of its own."""
    if tile.cluster_size == 1:
        return None
    length = part_length(kernel.axes[1].extent, tile.cluster_size)
    return ClusterReduction(tile.cluster_size, str(length))


def open_room(builder: KernelBuilder) -> None:
    """The line that opens a program's room, first of all."""
    parts = mailbox_slots(builder.kernel, builder.cluster_size).values()
    length, phases = (
        mailbox_bytes(builder.kernel, builder.cluster_size),
        2 if builder.ring is not None else 1,
    )
    places = [slot.ready + phase * length for phase in range(phases) for slot in parts]
    counters = "\n".join(COUNTER.format(place=place) for place in places)
    size = length * phases
    builder.functions["open_room"] = OPEN_ROOM.format(bytes=size, counters=counters)
    builder.root.append("room = open_room()")


def exchange(builder: KernelBuilder, operation: Reduction, states: list[str]) -> list[str]:
    """Tell the others the states of a part; the states of all parts, as blocks."""
    region, dtypes = builder.emitter.region, state_dtypes(operation)
    slot = mailbox_slots(builder.kernel, builder.cluster_size)[operation.targets[0]]
    builder.functions.update(all_open=ALL_OPEN, expect=EXPECT, wait=WAIT)
    if not builder.has_met:
        region.append("all_open()")
        builder.has_met = True
    side, parity = _side(builder)
    ready = f"{side} + {slot.ready}"
    region.append(f"expect({ready}, {slot.bytes})")
    for place, state, dtype in zip(slot.places, states, dtypes, strict=True):
        send = _function(builder, "send", SEND, dtype)
        region.append(f"{send}({side} + {place}, {ready}, {_word(state, dtype)})")
    region.append(f"wait({ready}, {parity})")
    names = [builder.fresh("t") for _ in states]
    for name, place, dtype in zip(names, slot.places, dtypes, strict=True):
        received = _function(builder, "received", RECEIVED, dtype)
        region.append(f"{name} = {_state(f'{received}({side} + {place})', dtype)}")
    return names


def _side(builder: KernelBuilder) -> tuple[str, str]:
    """The side of the room that serves the row at hand, and the parity of its use.

    Two sides are enough for rows in turn: who sends for row i + 2 has received all of row i + 1,
    which all send behind the barrier of a reduction, and so when they have read what row i brought.
    """
    if builder.ring is None:
        return "room", "0"
    region = builder.emitter.region
    if region.find("side") is None:
        region.append(
            f"side = room + turn % 2 * {mailbox_bytes(builder.kernel, builder.cluster_size)}"
        )
        region.names["side"] = "side"
    return "side", "turn // 2 % 2"


def _function(builder: KernelBuilder, name: str, source: str, dtype: DType) -> str:
    """The name of the function for words of a type's states."""
    bits = word_bits(dtype)
    builder.functions[f"{name}_{bits}"] = source.format(
        bits=bits, bytes=bits // 8, register=REGISTERS[bits], programs=builder.cluster_size
    )
    return f"{name}_{bits}"


def _word(state: str, dtype: DType) -> str:
    """A state as the integer that is sent."""
    if not dtype.is_float:
        return f"{state}.to(tl.int{word_bits(dtype)})"
    wide = state if dtype.facts.bits >= 32 else f"{state}.to(tl.float32)"
    return f"{wide}.to(tl.int{word_bits(dtype)}, bitcast=True)"


def _state(word: str, dtype: DType) -> str:
    """The state that a word stands for."""
    if dtype is DType.BOOL:
        return f"{word} != 0"
    if not dtype.is_float:
        return word if dtype.facts.bits == word_bits(dtype) else f"{word}.to({TRITON_TYPES[dtype]})"
    wide = f"{word}.to(tl.float{word_bits(dtype)}, bitcast=True)"
    return wide if dtype.facts.bits >= 32 else f"{wide}.to({TRITON_TYPES[dtype]})"
