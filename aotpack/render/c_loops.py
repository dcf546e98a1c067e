"""Pointwise kernels in C, and what all loop kernels share: functions, stores, what items cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from aotpack.ir.access import written_index
from aotpack.ir.integers import Axis
from aotpack.ir.nodes import Apply, Load, Pointwise, Reduction, Scan, Scatter, Value, targets, walk
from aotpack.ir.schedule import Member
from aotpack.render.c_nest import Nest
from aotpack.render.c_regions import c_lines, open_loop
from aotpack.render.emitter import Emitter
from aotpack.render.regions import Region
from aotpack.render.workshop import Workshop

CHEAP = frozenset(
    "add sub mul neg abs cast where eq ne lt le gt ge logical_and logical_or logical_xor"
    " logical_not minimum maximum relu square bitwise_and bitwise_or bitwise_xor bitwise_not"
    " isnan floor ceil"
    " trunc round sign signbit shift_left shift_right".split()
)
EXPENSIVE = 8  # in cheap operations
SHARE = 65536  # cheap operations that are worth waking a thread for


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A static function of a kernel: its lines compute the items [first, last)."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostCode:
    """The functions of a kernel, and the lines of its entry, which run them and return."""

    functions: tuple[HostFunction, ...]
    entry: tuple[str, ...]


def pointwise_code(nest: Nest, shop: Workshop) -> HostCode:
    """Every point of ``x``, in runs of its last digit."""
    digit = nest.x[-1]
    run = shop.root.open("for (int64_t run = first; run < last;)", frozenset(nest.x[:-1]))
    decode(nest.x, "run", run, shop, last_name="start")
    length = shop.emitter.index(digit.extent)
    rest = "last" if len(nest.x) == 1 else f"aot_min({length}, start + last - run)"
    run.append(f"const int64_t stop = {rest};")
    loop = open_loop(run, frozenset((digit,)), digit.name, "stop", start="start", is_vector=True)
    shop.emitter.region = loop
    loop.items += stores(nest.kernel.members, nest, shop)
    run.close()
    run.append("run += stop - start;")
    lines = tuple(c_lines(shop.root))
    entry = entry_emitter(shop)
    points = entry.index(shop.kernel.axes[0].extent)
    grain = max(1, SHARE // cost(nest, shop))
    run_all = (*entry.region.lines(), parallel(shop, "run", points, str(grain)))
    return HostCode((HostFunction("run", lines),), run_all)


def entry_emitter(shop: Workshop) -> Emitter:
    """An emitter for a kernel's entry, which knows no names of the functions."""
    return shop.emitter_in(shop.emitter.frame, Region(frozenset()))


def decode(
    digits: Sequence[Axis], flat: str, region: Region, shop: Workshop, *, last_name: str = ""
) -> None:
    """Lines that give digits their values; the last may get another name."""
    below: list[str] = []
    for number, digit in reversed(list(enumerate(digits))):
        name = last_name if last_name and number == len(digits) - 1 else digit.name
        text = f"{flat} / ({'*'.join(below)})" if below else flat
        extent = f"({shop.emitter.index(digit.extent)})"
        if number > 0:
            text = f"{text} % {extent}"
        if name != text:
            region.append(f"const int64_t {name} = {text};")
        below.append(extent)


def stores(members: Sequence[Member], nest: Nest, shop: Workshop) -> list[str]:
    """Store what the members make. All values come first: a store may overwrite an operand."""
    emitter = shop.emitter
    pending: list[tuple[str, str, Member]] = []
    for member in members:
        for name in targets(member.operation):
            if name in nest.kernel.stored:
                value = (
                    emitter.value(shop.bound(member, member.operation.value))
                    if isinstance(member.operation, Pointwise)
                    else shop.results[name]
                )
                pending.append((name, value, member))
    return [
        emitter.store(name, shop.offset_of(name, written_index(member)), value, frozenset())
        for name, value, member in pending
    ]


def parallel(shop: Workshop, function: str, items: str, grain: str, scratch: str = "0") -> str:
    """The line that runs a function of the kernel over its items."""
    return f"return aot_parallel(call, {items}, {grain}, {scratch}, AOT_CHOSEN(KERNEL_{function}));"


def member_values(member: Member, shop: Workshop) -> tuple[Value, ...]:
    """The bound values a member computes with."""
    operation = member.operation
    if isinstance(operation, (Pointwise, Scatter)):
        return (shop.bound(member, operation.value),)
    assert isinstance(operation, (Reduction, Scan))
    return tuple(shop.bound(member, value) for value in operation.args)


def cost(nest: Nest, shop: Workshop) -> int:
    """Cheap operations for each point of the innermost loop, about."""
    roots = [value for member in nest.kernel.members for value in member_values(member, shop)]
    return 1 + sum(weight(value) for value in walk(roots))


def weight(value: Value) -> int:
    """What computing one value costs, its operands aside."""
    if isinstance(value, Apply) and value.op not in CHEAP:
        return EXPENSIVE
    return 1 if isinstance(value, (Apply, Load)) else 0
