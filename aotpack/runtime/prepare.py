"""Prepares a plan for one set of sizes: names become addresses, so that a call only issues.

All pointers and integers of a plan live in one array of 64-bit cells. A kernel's parameters point
to cells, so a call stores each input and output once, however many launches use it.
"""

import ctypes
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from .arrays.frameworks import Spec
from .checks.debugging import Told, Watch
from .devices.device import NULL_SLOT, Device, HostCall, Issue, Step
from .dtypes import DType
from .errors import PackageError
from .graph.control import branch, counted_loop, reader, while_loop
from .graph.dependence import Access, dependences
from .graph.executor import executor
from .manifest import Kernel, Signature
from .memory.arena import Arena
from .memory.layout import Loaded, MemoryLayout, inner_name, memory_layout, scratch_name
from .memory.packing import strides
from .plan import Branch, Call, Launch, Loop, Plan
from .torch_calls import BoundCall, TorchCalls

_FIRST_INPUT = NULL_SLOT + 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan bound to an arena: store the addresses of a call, then issue."""

    cells: "ctypes.Array[ctypes.c_uint64]"
    issue: Callable[[int], None]
    outputs: tuple[Spec, ...]

    def store(self, addresses: list[int]) -> None:
        """The addresses of all inputs and all outputs, in the order of the signature."""
        end = _FIRST_INPUT + len(addresses)
        self.cells[_FIRST_INPUT:end] = cast("list[ctypes.c_uint64 | int]", addresses)


class _Cells:
    """Numbers the cells while steps are made."""

    def __init__(self) -> None:
        self.values: list[int] = [0]
        self.lengths: dict[int, int] = {}  # the bytes behind cells, where they are known
        self.turns: set[int] = set()  # the cells that hold the number of a loop's turn
        self.counters = 0  # the address of all counters
        self._by_number: dict[int, int] = {}

    def add(self, value: int) -> int:
        """A new cell."""
        self.values.append(value)
        return len(self.values) - 1

    def number(self, value: int) -> int:
        """The cell of an integer that never changes."""
        if value not in self._by_number:
            self._by_number[value] = self.add(value & (2**64 - 1))
        return self._by_number[value]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A branch or loop over steps; the cells of what decides, of the turn and of its memory."""

    step: Branch | Loop
    condition: int
    turn: int
    memory: int
    parts: "tuple[_Made, ...]"
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Torch:
    """A call of torch, and the cells by the names it uses."""

    call: BoundCall
    names: Mapping[str, int]
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Made:
    """Steps in order, each with those it must follow, and what they touch together.

    ``told`` is what a watch must know: of a launch its kernel, of others the cells they write.
    ``own`` are the cells of memory in which nothing is before these steps.
    """

    steps: "tuple[Step | _Torch | _Choice, ...]"
    told: tuple[Told, ...]
    access: Access
    own: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Way:
    """How the steps of all parts are issued."""

    device: Device
    cells: "ctypes.Array[ctypes.c_uint64]"
    lengths: Mapping[int, int]
    graphs: bool
    watch: Watch | None


def prepare(
    signature: Signature,
    plan: Plan,
    kernels: Mapping[str, Loaded],
    weights: Mapping[str, int],
    arena: Arena[Prepared],
    device: Device,
    calls: TorchCalls | None = None,
    *,
    stream: int = 0,
    graphs: bool = False,
    watch: Watch | None = None,
) -> Prepared:
    """Pack the intermediates into the arena and turn launches and calls into steps.

    Counters that are new are zeroed on ``stream``, on which the first call will be.
    """
    layout = memory_layout(plan, kernels)
    arena.reserve(layout.total)
    cells = _Cells()
    cells.counters = arena.counters(layout.end, stream)
    names: dict[str, int] = {}
    given = [(tensor.name, 0) for tensor in (*signature.inputs, *signature.outputs)]
    for name, address in (*given, *weights.items()):
        _name(names, name, cells.add(address))
        if watch:
            cells.lengths[names[name]] = watch.lengths[name]
    outputs = frozenset(names[tensor.name] for tensor in signature.outputs)
    made = _made(layout, arena.address, ChainMap(names), cells, calls)
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    way = _Way(device, array, cells.lengths, graphs, watch)
    specs = tuple(
        (shape, strides(shape), spec.dtype)
        for shape, spec in zip(plan.outputs, signature.outputs, strict=True)
    )
    return Prepared(array, _issue(replace(made, own=made.own | outputs), way), specs)


def _made(
    layout: MemoryLayout,
    address: int,
    names: ChainMap[str, int],
    cells: _Cells,
    calls: TorchCalls | None,
) -> _Made:
    """A part's steps on the memory at ``address``; its own names go into the first map."""
    places = _placed(layout, address, names, cells)
    loose: list[Step | _Torch | _Choice] = []
    told: list[Told] = []
    accesses: list[Access] = []
    for index, step in enumerate(layout.steps):
        if isinstance(step, (Branch, Loop)):
            choice = _choice(index, step, layout, names, cells, calls)
            loose.append(choice)
            accesses.append(_touched(choice))
            told.append(accesses[-1].writes)
        elif isinstance(step, Call):
            assert calls is not None  # loading made them of the manifest that names the calls
            bound = calls.bound(step)
            loose.append(_Torch(bound, names))
            used = (tuple(names[name] for name in part) for part in (bound.reads, bound.writes))
            accesses.append(Access(*used))
            told.append(accesses[-1].writes)
        elif 0 not in step.grid:
            kernel = layout.loaded[index].kernel
            issued = _step(index, step, layout.loaded[index], names, cells)
            loose.append(issued)
            told.append((step, kernel))
            accesses.append(_access(issued, kernel))
    after = dependences(accesses, places)
    steps = (_following(step, before) for step, before in zip(loose, after, strict=True))
    return _Made(tuple(steps), tuple(told), _together(accesses), frozenset(places))


def _placed(
    layout: MemoryLayout, address: int, names: ChainMap[str, int], cells: _Cells
) -> dict[int, tuple[int, int]]:
    """The cells of a part's intermediates, with the bytes, from and to, that each has."""
    places = {}
    for buffer, offset in zip(layout.buffers, layout.offsets, strict=True):
        cell = cells.add(address + offset)
        cells.lengths[cell] = buffer.size
        _name(names.maps[0], buffer.name, cell)
        places[cell] = (offset, offset + buffer.size)
    for counter, offset in layout.counters:
        cell = cells.add(cells.counters + offset)
        cells.lengths[cell] = counter.size
        _name(names.maps[0], counter.name, cell)
    return places


def _following(step: Step | _Torch | _Choice, after: tuple[int, ...]) -> Step | _Torch | _Choice:
    return step._replace(after=after) if isinstance(step, Step) else replace(step, after=after)


def _access(step: Step, kernel: Kernel) -> Access:
    """The tensors a launch reads, and those it writes, its scratch among them."""
    pairs = list(zip(step.slots, kernel.args, strict=True))
    reads = tuple(slot for slot, arg in pairs if arg.pointer and not arg.written)
    writes = tuple(slot for slot, arg in pairs if arg.written)
    return Access(reads, (*writes, step.scratch) if step.scratch != NULL_SLOT else writes)


def _touched(choice: _Choice) -> Access:
    """What any part of a branch or loop may touch, its memory and what decides among it."""
    own = Access((choice.condition,) if choice.condition != NULL_SLOT else (), (choice.memory,))
    return _together([own, *(part.access for part in choice.parts)])


def _together(accesses: Sequence[Access]) -> Access:
    reads = dict.fromkeys(cell for access in accesses for cell in access.reads)
    writes = dict.fromkeys(cell for access in accesses for cell in access.writes)
    return Access(tuple(cell for cell in reads if cell not in writes), tuple(writes))


def _choice(
    index: int,
    step: Branch | Loop,
    layout: MemoryLayout,
    names: ChainMap[str, int],
    cells: _Cells,
    calls: TorchCalls | None,
) -> _Choice:
    """A branch or loop; the number of its turn is a name that its parts see."""
    turn, own = NULL_SLOT, {}
    if isinstance(step, Loop) and step.turn:
        turn = cells.add(0)
        cells.turns.add(turn)
        own = {step.turn: turn}
    condition = step.condition if isinstance(step, Loop) else step.predicate
    asked = _slot(names, condition, "a condition") if isinstance(condition, str) else NULL_SLOT
    memory = names[inner_name(index)]
    parts = tuple(
        _made(each, cells.values[memory], names.new_child({**own}), cells, calls)
        for each in layout.inner[index]
    )
    return _Choice(step, asked, turn, memory, parts)


def _name(names: MutableMapping[str, int], name: str, cell: int) -> None:
    if name in names:
        raise PackageError(f"preparing a plan: two tensors are called {name!r}")
    names[name] = cell


def _slot(names: Mapping[str, int], name: str, user: str) -> int:
    if name not in names:
        raise PackageError(f"preparing a plan: {user} uses unknown {name!r}")
    return names[name]


def _step(
    index: int, launch: Launch, loaded: Loaded, names: ChainMap[str, int], cells: _Cells
) -> Step:
    """A launch, as if it followed no other. A name passed as an integer is the number of a turn."""
    slots = []
    for arg, declared in zip(launch.args, loaded.kernel.args, strict=True):
        slot = _slot(names, arg, launch.kernel) if isinstance(arg, str) else cells.number(arg)
        is_number = slot in cells.turns or not isinstance(arg, str)
        if is_number == declared.pointer:
            raise PackageError(f"preparing a plan: {launch.kernel} cannot take {arg!r} there")
        if not isinstance(arg, str):
            _check_fits(launch, arg, declared.dtype)
        slots.append(slot)
    scratch = names.maps[0].get(scratch_name(index), NULL_SLOT)
    return Step(loaded.handle, launch.kernel, launch.grid, tuple(slots), scratch, ())


def _check_fits(launch: Launch, value: int, dtype: DType) -> None:
    half = 1 << (8 * dtype.itemsize - 1)
    if not -half <= value < half:
        raise PackageError(
            f"preparing a plan: {launch.kernel} takes {dtype}, which cannot hold {value}. Report "
            "this with the sizes of the call."
        )


def _issue(made: _Made, way: _Way) -> Issue:
    """One function of the stream for all steps; branches and loops are calls of the host."""
    steps = [
        step if isinstance(step, Step) else HostCall(_hosted(step, way), step.after)
        for step in made.steps
    ]
    if way.watch:
        steps = way.watch.around(steps, made.told, way.cells, way.lengths, made.own)
    return executor(way.device, steps, way.cells, graphs=way.graphs)


def _hosted(step: _Torch | _Choice, way: _Way) -> Issue:
    """What the host does between launches, as a function of the stream."""
    if isinstance(step, _Torch):
        return partial(step.call.run, step.names, way.cells)
    return _decided(step, way)


def _decided(choice: _Choice, way: _Way) -> Issue:
    """A branch or loop as a function of the stream."""
    parts = [_issue(part, way) for part in choice.parts]
    step = choice.step
    condition = step.condition if isinstance(step, Loop) else step.predicate
    if isinstance(condition, str):
        decide = reader(way.device, way.cells, choice.condition)
        return (branch if isinstance(step, Branch) else while_loop)(decide, *parts)
    if isinstance(step, Branch):
        return parts[0 if condition else 1]
    entry, body = parts
    return counted_loop(condition, way.cells, choice.turn, entry, body)
