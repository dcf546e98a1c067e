"""Any monoid over a block in registers, as a reduction or as a scan."""

from collections.abc import Sequence

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.ops.monoid import LAST_INDEX
from aotpack.ir.program import values
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import loads_below
from aotpack.render.emit.regions import Region
from aotpack.render.triton.loops.loop_builder import LoopBuilder
from aotpack.render.triton.loops.softmax import ResidentExponentials, exponential
from aotpack.render.triton.monoid import TritonMonoid
from aotpack.render.triton.monoids import ADD_PAIRS, TRITON_MONOIDS
from aotpack.render.triton.types import TRITON_TYPES

EXPONENTIAL_SUMS = ("softmax", "logsumexp")


def block_reduction(builder: LoopBuilder, member: Member) -> list[str]:
    """Reduce a block of whole rows; gives the names of the results."""
    operation = member.operation
    assert isinstance(operation, Reduction)
    if operation.kind == "welford":
        return merged(builder, operation, _two_pass_welford(builder, member, operation))
    if operation.kind in EXPONENTIAL_SUMS and builder.partition.is_part:
        return merged(builder, operation, _two_pass_exponentials(builder, member, operation))
    return finish(builder, operation, block_states(builder, member, TRITON_MONOIDS[operation.kind]))


def block_scan(builder: LoopBuilder, member: Member) -> list[str]:
    """Scan a block of whole rows; masked lanes come last and change nothing before them."""
    operation = member.operation
    assert isinstance(operation, Scan)
    monoid = TRITON_MONOIDS[operation.kind]
    names = along(
        builder,
        monoid,
        "tl.associative_scan",
        block_states(builder, member, monoid),
        last_axis(builder),
    )
    return [named(builder, text.format(*names)) for text in monoid.finalise]


def _lifted(builder: LoopBuilder, member: Member, monoid: TritonMonoid) -> list[tuple[str, str]]:
    """(state, identity) of each element, as names that span the tile."""
    element, dtype = spanning(builder, member), reduced_type(member)
    place = place_type(builder, member, monoid)
    index = (
        f"({_position(builder, member)} + tl.zeros({tile_shape(builder)}, {TRITON_TYPES[place]}))"
    )
    kind = TRITON_TYPES[dtype]
    texts = [text.format(element, index=index, type=kind) for text in monoid.lift]
    fills = monoid.identity(dtype)
    if monoid.across:
        fills = (fills[0], str(last_place(place)))
    return list(zip([named(builder, text) for text in texts], fills, strict=True))


def _position(builder: LoopBuilder, member: Member) -> str:
    """The position of an element in its row, or the position that its reduction is given."""
    assert isinstance(member.operation, (Reduction, Scan))
    for given in member.operation.args[1:]:
        return builder.emitter.value(builder.bound(member, given))
    return builder.emitter.index(Int.of(builder.kernel.axes[1]))


def place_type(builder: LoopBuilder, member: Member, monoid: TritonMonoid) -> DType:
    """The type of positions in states: 32 bits where they suffice and are quicker."""
    assert isinstance(member.operation, (Reduction, Scan))
    for given in member.operation.args[1:]:
        return given.dtype
    return DType.INT32 if monoid.across and not builder.wide else DType.INT64


def last_place(dtype: DType) -> int:
    """A position behind all elements."""
    return LAST_INDEX if dtype is DType.INT64 else LAST_INDEX >> 32


def _masked(builder: LoopBuilder, text: str, identity: str) -> str:
    """Lanes past the end of the row take the identity."""
    mask = builder.emitter.frame.masks.get(builder.kernel.axes[1])
    return named(builder, f"tl.where({mask}, {text}, {identity})") if mask else text


def finish(builder: LoopBuilder, operation: Reduction, states: list[str]) -> list[str]:
    """Reduce states across the tile and across the programs of a row, and finalise."""
    monoid, dtype = TRITON_MONOIDS[operation.kind], operation.args[0].dtype
    rows = across(builder, monoid, dtype, states, builder.length)
    return merged(builder, operation, rows)


def merged(builder: LoopBuilder, operation: Reduction, rows: list[str]) -> list[str]:
    """Reduce states of parts of rows across the programs of each row, and finalise."""
    rows = builder.partition.merged(builder, operation, rows)
    return [named(builder, text.format(*rows)) for text in TRITON_MONOIDS[operation.kind].finalise]


def across(
    builder: LoopBuilder, monoid: TritonMonoid, dtype: DType, states: list[str], length: Int
) -> list[str]:
    """Reduce states of ``length`` elements across the tile; results keep the row dimension."""
    keep = "[:, None]" if len(builder.emitter.frame.blocks) == 2 else ""
    block = monoid.block.get(dtype.facts.kind)
    if block is not None:
        text = block.format(states[0], axis=last_axis(builder))
        if dtype.is_integer and dtype.facts.bits < 32:
            text += f".to({TRITON_TYPES[dtype]})"  # Triton reduces narrow integers in 32 bits
        return [named(builder, text + keep)]
    if monoid.merge is not None:
        names = [builder.fresh("t") for _ in states]
        operands = ", ".join(
            [*states, _count(builder, length, dtype), str(last_axis(builder) or 0)]
        )
        builder.emitter.region.append(
            f"{', '.join(names)} = {builder.use(monoid.merge)}({operands})"
        )
        return [named(builder, f"{name}{keep}") for name in names]
    if monoid.across is None:
        return reduced(builder, monoid, states)
    value, place = builder.fresh("t"), builder.fresh("t")
    call = f"{builder.use(monoid.across)}({', '.join(states)}, {last_axis(builder)})"
    builder.emitter.region.append(f"{value}, {place} = {call}")
    return [named(builder, f"{value}{keep}"), named(builder, f"{place}{keep}.to(tl.int64)")]


def reduced(builder: LoopBuilder, monoid: TritonMonoid, states: list[str]) -> list[str]:
    """The states of whole rows, with the row dimension kept."""
    names = along(builder, monoid, "tl.reduce", states, last_axis(builder))
    return [named(builder, f"{name}[:, None]") for name in names] if last_axis(builder) else names


def along(
    builder: LoopBuilder, monoid: TritonMonoid, function: str, states: list[str], axis: int | None
) -> list[str]:
    """Reduce or scan states along a dimension."""
    names = [builder.fresh("t") for _ in states]
    operand = f"({', '.join(states)})" if len(states) > 1 else states[0]
    call = f"{function}({operand}, {axis}, {builder.use(monoid.combine)})"
    builder.emitter.region.append(f"{', '.join(names)} = {call}")
    return names


def combined(
    builder: LoopBuilder,
    region: Region,
    monoid: TritonMonoid,
    a: Sequence[str],
    b: Sequence[str],
    names: Sequence[str] = (),
) -> list[str]:
    """The names of states combined by pairs; ``names`` gives them, else they are new."""
    made = list(names) or [builder.fresh("t") for _ in a]
    call = f"{builder.use(monoid.combine)}({', '.join([*a, *b])})"
    region.append(f"{', '.join(made)} = {call}")
    return made


def block_states(
    builder: LoopBuilder, member: Member, monoid: TritonMonoid, *, masked: bool = True
) -> list[str]:
    """The states of a block's elements; past the end of the row, if ``masked``, the identity."""
    states = _lifted(builder, member, monoid)
    return [_masked(builder, text, fill) if masked else text for text, fill in states]


def _two_pass_exponentials(builder: LoopBuilder, member: Member, operation: Reduction) -> list[str]:
    """The maximum, then distances from it: merging pairs would need more exponentials."""
    monoid, dtype = TRITON_MONOIDS[operation.kind], operation.args[0].dtype
    combine = builder.use(TRITON_MONOIDS["max"].combine)
    top = named(builder, f"tl.reduce({masked_element(builder, member, monoid)}, 0, {combine})")
    base = named(builder, f'tl.where(tl.abs({top}) == float("inf"), 0.0, {top})')
    builder.forget()
    below = named(builder, f"{masked_element(builder, member, monoid)} - {base}")
    bound = builder.bound(member, operation.args[0])
    softmax, key = builder.softmax, operation.targets[0]
    is_resident = softmax.wants(builder.emitter, builder.computed(), bound, key)
    is_short = dtype is not DType.FLOAT64 and (builder.emitter.ends_short or not is_resident)
    exponentials = named(builder, exponential(below, is_short=is_short))
    if is_resident:
        softmax.resident[key] = ResidentExponentials(bound, exponentials, top)
    return [top, named(builder, f"tl.sum({exponentials}, 0)")]


def _two_pass_welford(builder: LoopBuilder, member: Member, operation: Reduction) -> list[str]:
    """Mean, then sums of differences and of their squares: fewer registers than merging triples.

    The differences sum to what the rounded mean misses, by which both results are corrected: so
    equal elements have no variance. Where all that is read has 16 bits, their sum is exact, and a
    tenth of the time of a long row is saved. Source: Chan, Golub, LeVeque, Algorithms for computing
    the sample variance (1983), the corrected two-pass algorithm.
    """
    kind = TRITON_TYPES[reduced_type(member)]
    keep = "[:, None]" if len(builder.emitter.frame.blocks) == 2 else ""
    count = _count(builder, builder.length, reduced_type(member))
    element = spanning(builder, member)
    weight = f"tl.cast({count}, {kind})"
    total = named(
        builder, f"tl.sum({_masked(builder, element, '0.0')}, {last_axis(builder)}){keep}"
    )
    mean = named(builder, f"{total} / {count}")
    builder.forget()
    element = spanning(builder, member)
    delta = _masked(builder, named(builder, f"{element} - {mean}"), "0.0")
    if not _reads_wide(builder, member):
        total = f"tl.sum({delta} * {delta}, {last_axis(builder)}){keep}"
        return [mean, total, weight]
    rest, squares = builder.fresh("t"), builder.fresh("t")
    pair, add = f"({delta}, {delta} * {delta})", builder.use(ADD_PAIRS)
    builder.emitter.region.append(
        f"{rest}, {squares} = tl.reduce({pair}, {last_axis(builder)}, {add})"
    )
    missed = named(builder, f"{rest}{keep} / {count}")
    m2 = named(builder, f"{squares}{keep} - {rest}{keep} * {missed}")
    return [named(builder, f"{mean} + {missed}"), f"tl.where({m2} < 0.0, 0.0, {m2})", weight]


def _reads_wide(builder: LoopBuilder, member: Member) -> bool:
    """True where elements are made of numbers of 32 bits or more, in memory."""
    pending = [builder.bound(member, value) for value in values(member.operation)]
    while pending:
        for load in loads_below((pending.pop(),)):
            found = builder.resolve(load)
            if found is None and builder.arguments.dtype(load.buffer).itemsize > 2:
                return True
            if found is not None and not isinstance(found, str):
                pending.append(found)
    return False


def _count(builder: LoopBuilder, length: Int, dtype: DType) -> str:
    """The number of elements as a divisor: 1 where there are none."""
    if length.constant is not None:
        return f"{max(1, int(length))}.0"
    return f"tl.maximum({builder.emitter.index(length)}, 1).to({TRITON_TYPES[dtype]})"


def masked_element(builder: LoopBuilder, member: Member, monoid: TritonMonoid) -> str:
    """The reduced element; past the end of the row the identity."""
    return _masked(builder, spanning(builder, member), monoid.identity(reduced_type(member))[0])


def reduced_type(member: Member) -> DType:
    """The type of the reduced or scanned elements."""
    operation = member.operation
    assert isinstance(operation, (Reduction, Scan))
    return operation.args[0].dtype


def spanning(builder: LoopBuilder, member: Member) -> str:
    """The reduced element, broadcast over the whole tile, so that each lane counts once."""
    operation = member.operation
    assert isinstance(operation, (Reduction, Scan))
    bound = builder.bound(member, operation.args[0])
    text, frame = builder.emitter.value(bound), builder.emitter.frame
    if len(frame.spread(builder.emitter.needs(bound))) == len(frame.blocks):
        return text
    dtype = reduced_type(member)
    if dtype is DType.BOOL:
        return named(builder, f"tl.zeros({tile_shape(builder)}, tl.int1) | {text}")
    return named(builder, f"tl.zeros({tile_shape(builder)}, {TRITON_TYPES[dtype]}) + {text}")


def tile_shape(builder: LoopBuilder) -> str:
    frame = builder.emitter.frame
    return frame.shape(frozenset(axis for axis, _ in frame.blocks))


def last_axis(builder: LoopBuilder) -> int | None:
    """The dimension that is reduced; None for both dimensions of a frame of vectors."""
    frame = builder.emitter.frame
    return None if frame.vector else len(frame.blocks) - 1


def named(builder: LoopBuilder, text: str) -> str:
    if text.isidentifier():
        return text
    name = builder.fresh("t")
    builder.emitter.region.append(f"{name} = {text}")
    return name
