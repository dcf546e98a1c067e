"""Prepares a plan for one set of sizes: names become addresses, and a call only issues steps.

All pointers and integers of a plan lie in one array of 64-bit cells. A kernel's parameters point
to cells, so a call stores each input and output once for all launches that use it.
"""

import ctypes
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, cast

from .arrays.frameworks import Spec
from .checks.debugging import Watch, WatchTarget
from .devices.device import NULL_SLOT, Device, HostCall, Issue, Step
from .dtypes import DType
from .errors import PackageError
from .graph.control import bool_reader, branch, counted_loop, while_loop
from .graph.dependence import Access, dependences
from .graph.executor import executor
from .manifest import Kernel, Signature
from .memory.arena import Arena
from .memory.layout import Loaded, MemoryLayout, inner_name, memory_layout, scratch_name
from .plan import Branch, Call, Launch, Loop, Plan
from .strides import strides
from .torch_calls import BoundCall, TorchCalls

_FIRST_INPUT = NULL_SLOT + 1


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan bound to an arena: store the addresses of a call, then issue."""

    cells: "ctypes.Array[ctypes.c_uint64]"
    issue: Callable[[int], None]
    outputs: tuple[Spec, ...]

    def store(self, addresses: list[int]) -> None:
        """Store the addresses of all inputs and outputs, in the order of the signature."""
        end = _FIRST_INPUT + len(addresses)
        self.cells[_FIRST_INPUT:end] = cast("list[ctypes.c_uint64 | int]", addresses)


class _Cells:
    """Allocates the cells of a plan."""

    def __init__(self) -> None:
        self.values: list[int] = [0]
        self.lengths: dict[int, int] = {}  # the bytes behind cells, where known
        self.iterations: set[int] = set()  # the cells of iteration numbers
        self.counters = 0  # the address of all counters
        self.words: tuple[int, ...] = ()  # the cells of assertions
        self._by_number: dict[int, int] = {}

    def add(self, value: int) -> int:
        """A new cell."""
        self.values.append(value)
        return len(self.values) - 1

    def number(self, value: int) -> int:
        """The cell of a constant integer."""
        if value not in self._by_number:
            self._by_number[value] = self.add(value & (2**64 - 1))
        return self._by_number[value]


@dataclass(frozen=True, slots=True)
class _ControlFlow:
    """A branch or loop; the cells of its condition, iteration number and memory."""

    step: Branch | Loop
    condition: int
    iteration: int
    memory: int
    parts: "tuple[_BoundPart, ...]"
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _TorchStep:
    """A call of torch, and the cells of the names it uses."""

    call: BoundCall
    names: Mapping[str, int]
    after: tuple[int, ...] = ()


_AnyStep: TypeAlias = "Step | _TorchStep | _ControlFlow"


@dataclass(frozen=True, slots=True)
class _BoundPart:
    """The steps of a part with their dependences, and the union of their accesses.

    ``targets`` has for a launch its kernel, for other steps the cells they write. ``fresh`` are the
    cells of memory without contents before these steps.
    """

    steps: "tuple[_AnyStep, ...]"
    targets: tuple[WatchTarget, ...]
    access: Access
    fresh: frozenset[int]


@dataclass(frozen=True, slots=True)
class _IssueContext:
    """The inputs that issuing needs for every part."""

    device: Device
    cells: "ctypes.Array[ctypes.c_uint64]"
    lengths: Mapping[int, int]
    graphs: bool
    watch: Watch | None
    check: Callable[[], None] | None


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
    check: Callable[[], None] | None = None,
) -> Prepared:
    """Pack the intermediates into the arena and turn launches and calls into steps.

    New counters are zeroed on ``stream``, the stream of the first call. ``check`` raises if an
    assertion has failed; loops call it.
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
    cells.words = tuple(names[one.word] for one in signature.assertions if one.word in names)
    outputs = frozenset(names[tensor.name] for tensor in signature.outputs)
    part = _bind_part(layout, arena.address, ChainMap(names), cells, calls)
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    context = _IssueContext(device, array, cells.lengths, graphs, watch, check)
    specs = tuple(
        (shape, strides(shape, spec.order), spec.dtype, spec.order)
        for shape, spec in zip(plan.outputs, signature.outputs, strict=True)
    )
    part = replace(part, fresh=part.fresh | outputs)
    return Prepared(array, _issue(part, context), specs)


def _bind_part(
    layout: MemoryLayout,
    address: int,
    names: ChainMap[str, int],
    cells: _Cells,
    calls: TorchCalls | None,
) -> _BoundPart:
    """Bind a part to the memory at ``address``; its names are added to the first map."""
    places = _placed(layout, address, names, cells)
    unordered: list[_AnyStep] = []
    targets: list[WatchTarget] = []
    accesses: list[Access] = []
    for index, step in enumerate(layout.steps):
        if isinstance(step, (Branch, Loop)):
            flow = _bind_control_flow(index, step, layout, names, cells, calls)
            unordered.append(flow)
            accesses.append(_control_access(flow, cells.words))
            targets.append(accesses[-1].writes)
        elif isinstance(step, Call):
            assert calls is not None  # loading creates them if the manifest has calls
            bound = calls.bound(step)
            unordered.append(_TorchStep(bound, names))
            used = (tuple(names[name] for name in part) for part in (bound.reads, bound.writes))
            accesses.append(Access(*used))
            targets.append(accesses[-1].writes)
        elif 0 not in step.grid:
            kernel = layout.loaded[index].kernel
            issued = _step(index, step, layout.loaded[index], names, cells)
            unordered.append(issued)
            targets.append((step, kernel))
            accesses.append(_access(issued, kernel))
    after = dependences(accesses, places)
    steps = (_with_after(step, before) for step, before in zip(unordered, after, strict=True))
    return _BoundPart(tuple(steps), tuple(targets), _union(accesses), frozenset(places))


def _placed(
    layout: MemoryLayout, address: int, names: ChainMap[str, int], cells: _Cells
) -> dict[int, tuple[int, int]]:
    """Add the cells of a part's buffers; returns the byte range of each intermediate."""
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


def _with_after(step: _AnyStep, after: tuple[int, ...]) -> _AnyStep:
    return step._replace(after=after) if isinstance(step, Step) else replace(step, after=after)


def _access(step: Step, kernel: Kernel) -> Access:
    """The tensors a launch reads, and those it writes, with its scratch."""
    pairs = list(zip(step.slots, kernel.args, strict=True))
    reads = tuple(slot for slot, arg in pairs if arg.pointer and not arg.written)
    writes = tuple(slot for slot, arg in pairs if arg.written)
    return Access(reads, (*writes, step.scratch) if step.scratch != NULL_SLOT else writes)


def _control_access(flow: _ControlFlow, words: tuple[int, ...]) -> Access:
    """The accesses of all parts of a branch or loop, its memory and its condition.

    One whose condition is a tensor comes after the assertions before it, which may end the call.
    """
    reads = (flow.condition, *words) if flow.condition != NULL_SLOT else ()
    own = Access(reads, (flow.memory,))
    return _union([own, *(part.access for part in flow.parts)])


def _union(accesses: Sequence[Access]) -> Access:
    reads = dict.fromkeys(cell for access in accesses for cell in access.reads)
    writes = dict.fromkeys(cell for access in accesses for cell in access.writes)
    return Access(tuple(cell for cell in reads if cell not in writes), tuple(writes))


def _bind_control_flow(
    index: int,
    step: Branch | Loop,
    layout: MemoryLayout,
    names: ChainMap[str, int],
    cells: _Cells,
    calls: TorchCalls | None,
) -> _ControlFlow:
    """Bind a branch or loop; its parts see the iteration number by name."""
    iteration, own = NULL_SLOT, {}
    if isinstance(step, Loop) and step.turn:
        iteration = cells.add(0)
        cells.iterations.add(iteration)
        own = {step.turn: iteration}
    condition = step.condition if isinstance(step, Loop) else step.predicate
    predicate = _slot(names, condition, "a condition") if isinstance(condition, str) else NULL_SLOT
    memory = names[inner_name(index)]
    parts = tuple(
        _bind_part(each, cells.values[memory], names.new_child({**own}), cells, calls)
        for each in layout.inner[index]
    )
    return _ControlFlow(step, predicate, iteration, memory, parts)


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
    """A launch without dependences. A name in an integer's place is an iteration number."""
    slots = []
    for arg, declared in zip(launch.args, loaded.kernel.args, strict=True):
        slot = _slot(names, arg, launch.kernel) if isinstance(arg, str) else cells.number(arg)
        is_number = slot in cells.iterations or not isinstance(arg, str)
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


def _issue(part: _BoundPart, context: _IssueContext) -> Issue:
    """One function of the stream for all steps; branches and loops are host calls."""
    steps = [
        step if isinstance(step, Step) else HostCall(_host_call(step, context), step.after)
        for step in part.steps
    ]
    if context.watch:
        steps = context.watch.instrument(
            steps, part.targets, context.cells, context.lengths, part.fresh
        )
    return executor(context.device, steps, context.cells, graphs=context.graphs)


def _host_call(step: _TorchStep | _ControlFlow, context: _IssueContext) -> Issue:
    """The host's work between launches, as a function of the stream."""
    if isinstance(step, _TorchStep):
        return partial(step.call.run, step.names, context.cells)
    return _control_flow_issue(step, context)


def _control_flow_issue(flow: _ControlFlow, context: _IssueContext) -> Issue:
    """A branch or loop as a function of the stream."""
    parts = [_issue(part, context) for part in flow.parts]
    step = flow.step
    condition = step.condition if isinstance(step, Loop) else step.predicate
    if isinstance(condition, str):
        predicate = bool_reader(context.device, context.cells, flow.condition, context.check)
        return (branch if isinstance(step, Branch) else while_loop)(predicate, *parts)
    if isinstance(step, Branch):
        return parts[0 if condition else 1]
    entry, body = parts
    return counted_loop(condition, context.cells, flow.iteration, entry, body)
