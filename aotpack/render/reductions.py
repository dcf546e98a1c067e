"""Any monoid over a block in registers, a loop of blocks, or as a scan (C:G1-G15, section 2.5)."""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Axis, Int
from aotpack.ir.monoids import MONOIDS, Monoid
from aotpack.ir.nodes import Reduction, Scan
from aotpack.ir.schedule import Member
from aotpack.render.emitter import Emitter
from aotpack.render.regions import Region
from aotpack.render.workshop import Workshop


def block_reduction(shop: Workshop, member: Member) -> list[str]:
    """Reduce a block that holds whole rows; the names of the results."""
    operation = member.operation
    assert isinstance(operation, Reduction)
    if operation.kind == "welford":
        return _two_pass_welford(shop, member, operation)
    monoid, dtype = MONOIDS[operation.kind], operation.args[0].dtype
    return _finish(shop, monoid, dtype, _block_states(shop, member, monoid))


def block_scan(shop: Workshop, member: Member) -> list[str]:
    """Scan a block that holds whole rows; masked lanes come last and change nothing before them."""
    operation = member.operation
    assert isinstance(operation, Scan)
    monoid = MONOIDS[operation.kind]
    names = _along(shop, monoid, "tl.associative_scan", _block_states(shop, member, monoid))
    return [_named(shop, text.format(*names)) for text in monoid.finalise_triton]


@dataclass(slots=True)
class ReductionLoop:
    """An open loop over the inner axis with the accumulators of its reductions."""

    shop: Workshop
    region: Region
    pending: list[tuple[Member, list[str]]]

    def accumulate(self, member: Member) -> None:
        """Combine this block into the member's accumulators, lane by lane."""
        operation = member.operation
        assert isinstance(operation, Reduction)
        shop, monoid, dtype = self.shop, MONOIDS[operation.kind], operation.args[0].dtype
        lifted = [text for text, _ in _lifted(shop, member, monoid)]
        names = [shop.fresh("acc") for _ in lifted]
        everything = _tile_shape(shop)
        fills = zip(names, monoid.identity_triton(dtype), monoid.state_dtypes(dtype), strict=True)
        for name, identity, kind in fills:
            shop.root.append(f"{name} = tl.full({everything}, {identity}, {kind.facts.triton})")
        shop.functions[monoid.combine_name] = monoid.combine_triton
        combined = [shop.fresh("t") for _ in names]
        call = f"{monoid.combine_name}({', '.join([*names, *lifted])})"
        self.region.append(f"{', '.join(combined)} = {call}")
        mask = shop.emitter.frame.masks.get(shop.kernel.axes[1])
        for name, new in zip(names, combined, strict=True):
            self.region.append(f"{name} = " + (f"tl.where({mask}, {new}, {name})" if mask else new))
        self.pending.append((member, names))

    def scan(self, member: Member) -> list[str]:
        """Scan this block; the state of all blocks before it is carried over."""
        operation = member.operation
        assert isinstance(operation, Scan)
        shop, monoid, dtype = self.shop, MONOIDS[operation.kind], operation.args[0].dtype
        states = _block_states(shop, member, monoid)
        carried = [shop.fresh("carry") for _ in states]
        row = shop.emitter.frame.shape(frozenset(shop.kernel.axes[:1])) if _axis(shop) else "[]"
        fills = zip(carried, monoid.identity_triton(dtype), monoid.state_dtypes(dtype), strict=True)
        for name, identity, kind in fills:
            shop.root.append(f"{name} = tl.full({row}, {identity}, {kind.facts.triton})")
        scanned = _along(shop, monoid, "tl.associative_scan", states)
        shape = _tile_shape(shop)
        before = [f"tl.broadcast_to({name}, {shape})" for name in carried]
        names = [shop.fresh("t") for _ in states]
        call = f"{monoid.combine_name}({', '.join([*before, *scanned])})"
        self.region.append(f"{', '.join(names)} = {call}")
        totals = _reduced(shop, monoid, states)
        call = f"{monoid.combine_name}({', '.join([*carried, *totals])})"
        self.region.append(f"{', '.join(carried)} = {call}")
        return [_named(shop, text.format(*names)) for text in monoid.finalise_triton]

    def finish(self) -> list[tuple[Member, list[str]]]:
        """Close the loop and reduce the accumulators across lanes."""
        shop = self.shop
        shop.root.close()
        shop.emitter.region = shop.root
        done = []
        for member, names in self.pending:
            operation = member.operation
            assert isinstance(operation, Reduction)
            monoid = MONOIDS[operation.kind]
            done.append((member, _finish(shop, monoid, operation.args[0].dtype, names)))
        return done


def start_loop(shop: Workshop, r: Axis) -> ReductionLoop:
    """Open a loop over blocks of the inner axis."""
    tile_r = next(length for axis, length in shop.emitter.frame.blocks if axis is r)
    shop.arguments.use_sizes(r.extent)
    region = shop.root.open(f"for r_start in range(0, {r.extent}, {tile_r}):", frozenset((r,)))
    shape = "[None, :]" if len(shop.emitter.frame.blocks) == 2 else ""
    region.append(f"r = (r_start + tl.arange(0, {tile_r})){shape}{shop.index_type}")
    if r in shop.emitter.frame.masks:
        region.append(f"r_mask = r < {r.extent}")
    shop.emitter.region = region
    return ReductionLoop(shop, region, [])


def _lifted(shop: Workshop, member: Member, monoid: Monoid) -> list[tuple[str, str]]:
    """(state, identity) of each element, as names that span the tile."""
    operation = member.operation
    assert isinstance(operation, (Reduction, Scan))
    emitter, (value,) = shop.emitter, operation.args
    bound = shop.bound(member, value)
    element = _spanning(shop, emitter.value(bound), emitter.needs(bound), value.dtype)
    index = f"({_position(emitter, shop)} + tl.zeros({_tile_shape(shop)}, tl.int64))"
    kind = value.dtype.facts.triton
    texts = [text.format(element, index=index, type=kind) for text in monoid.lift_triton]
    return list(
        zip([_named(shop, t) for t in texts], monoid.identity_triton(value.dtype), strict=True)
    )


def _position(emitter: Emitter, shop: Workshop) -> str:
    return emitter.index(Int.of(shop.kernel.axes[1]))


def _masked(shop: Workshop, text: str, identity: str) -> str:
    """Lanes past the end of the row take the identity."""
    mask = shop.emitter.frame.masks.get(shop.kernel.axes[1])
    return _named(shop, f"tl.where({mask}, {text}, {identity})") if mask else text


def _finish(shop: Workshop, monoid: Monoid, dtype: DType, states: list[str]) -> list[str]:
    """Reduce states across the tile and finalise; results keep the row dimension."""
    keep = "[:, None]" if len(shop.emitter.frame.blocks) == 2 else ""
    block = monoid.block_triton.get(dtype.facts.kind)
    if block is not None:
        text = block.format(states[0], axis=_axis(shop))
        if dtype.is_integer and dtype.facts.bits < 32:
            text += f".to({dtype.facts.triton})"  # Triton reduces narrow integers in 32 bits
        reduced = [_named(shop, text + keep)]
    else:
        reduced = _reduced(shop, monoid, states)
    return [_named(shop, text.format(*reduced)) for text in monoid.finalise_triton]


def _reduced(shop: Workshop, monoid: Monoid, states: list[str]) -> list[str]:
    """The states of whole rows, with the row dimension kept."""
    names = _along(shop, monoid, "tl.reduce", states)
    return [_named(shop, f"{name}[:, None]") for name in names] if _axis(shop) else names


def _along(shop: Workshop, monoid: Monoid, function: str, states: list[str]) -> list[str]:
    """Reduce or scan states along the last dimension of the tile."""
    shop.functions[monoid.combine_name] = monoid.combine_triton
    names = [shop.fresh("t") for _ in states]
    operand = f"({', '.join(states)})" if len(states) > 1 else states[0]
    call = f"{function}({operand}, {_axis(shop)}, {monoid.combine_name})"
    shop.emitter.region.append(f"{', '.join(names)} = {call}")
    return names


def _block_states(shop: Workshop, member: Member, monoid: Monoid) -> list[str]:
    """The states of a block's elements; past the end of the row, the identity."""
    return [_masked(shop, text, fill) for text, fill in _lifted(shop, member, monoid)]


def _two_pass_welford(shop: Workshop, member: Member, operation: Reduction) -> list[str]:
    """Mean, then squares of differences: two sums, fewer registers than merging triples (C:G10)."""
    r = shop.kernel.axes[1]
    (value,) = operation.args
    kind = value.dtype.facts.triton
    keep = "[:, None]" if len(shop.emitter.frame.blocks) == 2 else ""
    bound = shop.bound(member, value)
    element = _spanning(shop, shop.emitter.value(bound), shop.emitter.needs(bound), value.dtype)
    count = (
        f"tl.maximum({shop.emitter.index(r.extent)}, 1)"
        if r.extent.constant is None
        else (f"{max(1, int(r.extent))}.0")
    )
    total = _named(shop, f"tl.sum({_masked(shop, element, '0.0')}, {_axis(shop)}){keep}")
    mean = _named(
        shop, f"{total} / {count}" if count[0].isdigit() else f"{total} / {count}.to({kind})"
    )
    delta = _masked(shop, _named(shop, f"{element} - {mean}"), "0.0")
    return [mean, _named(shop, f"tl.sum({delta} * {delta}, {_axis(shop)}){keep}")]


def _spanning(shop: Workshop, text: str, needs: frozenset[Axis], dtype: DType) -> str:
    """A value stretched over the whole tile, so that each lane counts once (C:G1)."""
    frame = shop.emitter.frame
    if len(frame.spread(needs)) == len(frame.blocks):
        return text
    return (
        _named(shop, f"tl.zeros({_tile_shape(shop)}, {dtype.facts.triton}) + {text}")
        if (dtype is not DType.BOOL)
        else _named(shop, f"tl.zeros({_tile_shape(shop)}, tl.int1) | {text}")
    )


def _tile_shape(shop: Workshop) -> str:
    frame = shop.emitter.frame
    return frame.shape(frozenset(axis for axis, _ in frame.blocks))


def _axis(shop: Workshop) -> int:
    return len(shop.emitter.frame.blocks) - 1


def _named(shop: Workshop, text: str) -> str:
    if text.isidentifier():
        return text
    name = shop.fresh("t")
    shop.emitter.region.append(f"{name} = {text}")
    return name
