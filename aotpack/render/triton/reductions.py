"""Any monoid over a block in registers, or as a scan of one."""

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.kernel import Member
from aotpack.ir.operations import Reduction, Scan
from aotpack.ir.ops.monoid import LAST_INDEX, Monoid
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.symbolic.integers import Int
from aotpack.render.emit.kernel_builder import Workshop
from aotpack.render.emit.softmax import Held, exponential
from aotpack.render.triton.cluster_reduction import exchange, part_length

EXPONENTIAL_SUMS = ("softmax", "logsumexp")


def block_reduction(shop: Workshop, member: Member) -> list[str]:
    """Reduce a block that holds whole rows; the names of the results."""
    operation = member.operation
    assert isinstance(operation, Reduction)
    if operation.kind == "welford":
        return merged(shop, operation, _two_pass_welford(shop, member, operation))
    if operation.kind in EXPONENTIAL_SUMS and shop.cluster_size > 1:
        return merged(shop, operation, _two_pass_exponentials(shop, member, operation))
    return finish(shop, operation, block_states(shop, member, MONOIDS[operation.kind]))


def block_scan(shop: Workshop, member: Member) -> list[str]:
    """Scan a block that holds whole rows; masked lanes come last and change nothing before them."""
    operation = member.operation
    assert isinstance(operation, Scan)
    monoid = MONOIDS[operation.kind]
    names = along(
        shop, monoid, "tl.associative_scan", block_states(shop, member, monoid), last_axis(shop)
    )
    return [named(shop, text.format(*names)) for text in monoid.finalise_triton]


def _lifted(shop: Workshop, member: Member, monoid: Monoid) -> list[tuple[str, str]]:
    """(state, identity) of each element, as names that span the tile."""
    element, dtype = spanning(shop, member), reduced_type(member)
    place = place_type(shop, member, monoid)
    index = f"({_position(shop, member)} + tl.zeros({tile_shape(shop)}, {place.facts.triton}))"
    kind = dtype.facts.triton
    texts = [text.format(element, index=index, type=kind) for text in monoid.lift_triton]
    fills = monoid.identity_triton(dtype)
    if monoid.across_triton:
        fills = (fills[0], str(last_place(place)))
    return list(zip([named(shop, text) for text in texts], fills, strict=True))


def _position(shop: Workshop, member: Member) -> str:
    """Where an element is in its row, or where its reduction is told that it is."""
    assert isinstance(member.operation, (Reduction, Scan))
    for given in member.operation.args[1:]:
        return shop.emitter.value(shop.bound(member, given))
    return shop.emitter.index(Int.of(shop.kernel.axes[1]))


def place_type(shop: Workshop, member: Member, monoid: Monoid) -> DType:
    """The type of positions among the states: 32 bits where they are enough and quicker."""
    assert isinstance(member.operation, (Reduction, Scan))
    for given in member.operation.args[1:]:
        return given.dtype
    return DType.INT32 if monoid.across_triton and not shop.wide else DType.INT64


def last_place(dtype: DType) -> int:
    """A position behind all elements."""
    return LAST_INDEX if dtype is DType.INT64 else LAST_INDEX >> 32


def _masked(shop: Workshop, text: str, identity: str) -> str:
    """Lanes past the end of the row take the identity."""
    mask = shop.emitter.frame.masks.get(shop.kernel.axes[1])
    return named(shop, f"tl.where({mask}, {text}, {identity})") if mask else text


def finish(shop: Workshop, operation: Reduction, states: list[str]) -> list[str]:
    """Reduce states across the tile, and across programs that share a row, and finalise."""
    monoid, dtype = MONOIDS[operation.kind], operation.args[0].dtype
    length = part_length(shop.kernel.axes[1].extent, shop.cluster_size)
    return merged(shop, operation, _across(shop, monoid, dtype, states, length))


def merged(shop: Workshop, operation: Reduction, rows: list[str]) -> list[str]:
    """Reduce states of rows across programs that share them, and finalise."""
    monoid, dtype = MONOIDS[operation.kind], operation.args[0].dtype
    if shop.cluster_size > 1:
        states = exchange(shop, operation, rows)
        rows = _across(shop, monoid, dtype, states, shop.kernel.axes[1].extent)
        shop.forget()
    return [named(shop, text.format(*rows)) for text in monoid.finalise_triton]


def _across(
    shop: Workshop, monoid: Monoid, dtype: DType, states: list[str], length: Int
) -> list[str]:
    """Reduce states of ``length`` elements across the tile; results keep the row dimension."""
    keep = "[:, None]" if len(shop.emitter.frame.blocks) == 2 else ""
    block = monoid.block_triton.get(dtype.facts.kind)
    if block is not None:
        text = block.format(states[0], axis=last_axis(shop))
        if dtype.is_integer and dtype.facts.bits < 32:
            text += f".to({dtype.facts.triton})"  # Triton reduces narrow integers in 32 bits
        return [named(shop, text + keep)]
    for used in monoid.across_uses:
        shop.functions[MONOIDS[used].combine_name] = MONOIDS[used].combine_triton
    if monoid.merge_triton:
        shop.functions[monoid.merge_name] = monoid.merge_triton
        names = [shop.fresh("t") for _ in states]
        operands = ", ".join([*states, _count(shop, length, dtype), str(last_axis(shop) or 0)])
        shop.emitter.region.append(f"{', '.join(names)} = {monoid.merge_name}({operands})")
        return [named(shop, f"{name}{keep}") for name in names]
    if not monoid.across_triton:
        return reduced(shop, monoid, states)
    shop.functions[monoid.across_name] = monoid.across_triton
    value, place = shop.fresh("t"), shop.fresh("t")
    call = f"{monoid.across_name}({', '.join(states)}, {last_axis(shop)})"
    shop.emitter.region.append(f"{value}, {place} = {call}")
    return [named(shop, f"{value}{keep}"), named(shop, f"{place}{keep}.to(tl.int64)")]


def reduced(shop: Workshop, monoid: Monoid, states: list[str]) -> list[str]:
    """The states of whole rows, with the row dimension kept."""
    names = along(shop, monoid, "tl.reduce", states, last_axis(shop))
    return [named(shop, f"{name}[:, None]") for name in names] if last_axis(shop) else names


def along(
    shop: Workshop, monoid: Monoid, function: str, states: list[str], axis: int | None
) -> list[str]:
    """Reduce or scan states along a dimension."""
    shop.functions[monoid.combine_name] = monoid.combine_triton
    names = [shop.fresh("t") for _ in states]
    operand = f"({', '.join(states)})" if len(states) > 1 else states[0]
    call = f"{function}({operand}, {axis}, {monoid.combine_name})"
    shop.emitter.region.append(f"{', '.join(names)} = {call}")
    return names


def block_states(
    shop: Workshop, member: Member, monoid: Monoid, *, masked: bool = True
) -> list[str]:
    """The states of a block's elements; past the end of the row, if ``masked``, the identity."""
    states = _lifted(shop, member, monoid)
    return [_masked(shop, text, fill) if masked else text for text, fill in states]


def _two_pass_exponentials(shop: Workshop, member: Member, operation: Reduction) -> list[str]:
    """The maximum, then distances from it: merging pairs would take exponentials of its own."""
    monoid, dtype = MONOIDS[operation.kind], operation.args[0].dtype
    shop.functions["combine_max"] = MONOIDS["max"].combine_triton
    top = named(shop, f"tl.reduce({masked_element(shop, member, monoid)}, 0, combine_max)")
    base = named(shop, f'tl.where(tl.abs({top}) == float("inf"), 0.0, {top})')
    shop.forget()
    below = named(shop, f"{masked_element(shop, member, monoid)} - {base}")
    bound = shop.bound(member, operation.args[0])
    softmax, key = shop.emitter.softmax, operation.targets[0]
    is_held = softmax.wants(shop.emitter, shop.computed(), bound, key)
    is_short = dtype is not DType.FLOAT64 and (shop.emitter.ends_short or not is_held)
    share = named(shop, exponential(below, is_short=is_short))
    if is_held:
        softmax.held[key] = Held(bound, share, top)
    return [top, named(shop, f"tl.sum({share}, 0)")]


def _two_pass_welford(shop: Workshop, member: Member, operation: Reduction) -> list[str]:
    """Mean, then squares of differences: two sums, fewer registers than merging triples."""
    r = shop.kernel.axes[1]
    kind = reduced_type(member).facts.triton
    keep = "[:, None]" if len(shop.emitter.frame.blocks) == 2 else ""
    count = _count(shop, part_length(r.extent, shop.cluster_size), reduced_type(member))
    element = spanning(shop, member)
    weight = f"tl.cast({count}, {kind})"
    total = named(shop, f"tl.sum({_masked(shop, element, '0.0')}, {last_axis(shop)}){keep}")
    mean = named(shop, f"{total} / {count}")
    shop.forget()
    element = spanning(shop, member)
    delta = _masked(shop, named(shop, f"{element} - {mean}"), "0.0")
    return [mean, named(shop, f"tl.sum({delta} * {delta}, {last_axis(shop)}){keep}"), weight]


def _count(shop: Workshop, length: Int, dtype: DType) -> str:
    """So many elements as a divisor: where there are none, 1."""
    if length.constant is not None:
        return f"{max(1, int(length))}.0"
    return f"tl.maximum({shop.emitter.index(length)}, 1).to({dtype.facts.triton})"


def masked_element(shop: Workshop, member: Member, monoid: Monoid) -> str:
    """What is reduced, and past the end of the row the value of no element."""
    return _masked(shop, spanning(shop, member), monoid.identity_triton(reduced_type(member))[0])


def reduced_type(member: Member) -> DType:
    """The type of what is reduced or scanned."""
    operation = member.operation
    assert isinstance(operation, (Reduction, Scan))
    return operation.args[0].dtype


def spanning(shop: Workshop, member: Member) -> str:
    """What is reduced, stretched over the whole tile, so that each lane counts once."""
    operation = member.operation
    assert isinstance(operation, (Reduction, Scan))
    bound = shop.bound(member, operation.args[0])
    text, frame = shop.emitter.value(bound), shop.emitter.frame
    if len(frame.spread(shop.emitter.needs(bound))) == len(frame.blocks):
        return text
    dtype = reduced_type(member)
    if dtype is DType.BOOL:
        return named(shop, f"tl.zeros({tile_shape(shop)}, tl.int1) | {text}")
    return named(shop, f"tl.zeros({tile_shape(shop)}, {dtype.facts.triton}) + {text}")


def tile_shape(shop: Workshop) -> str:
    frame = shop.emitter.frame
    return frame.shape(frozenset(axis for axis, _ in frame.blocks))


def last_axis(shop: Workshop) -> int | None:
    """The dimension that is reduced; None for both dimensions of a frame of vectors."""
    frame = shop.emitter.frame
    return None if frame.vector else len(frame.blocks) - 1


def named(shop: Workshop, text: str) -> str:
    if text.isidentifier():
        return text
    name = shop.fresh("t")
    shop.emitter.region.append(f"{name} = {text}")
    return name
