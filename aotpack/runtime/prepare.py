"""Prepares a plan for one set of sizes: names become addresses, and a call only issues steps.

All pointers and integers of a plan lie in one array of 64-bit cells. A kernel's parameters point
to cells, so a call stores each input and output once for all launches that use it.
"""

import ctypes
import math
from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import cast

from .arrays.frameworks import Spec
from .bound import (
    AnyStep,
    BoundPart,
    Cells,
    ControlFlow,
    IssueContext,
    Rests,
    SizeStep,
    TorchStep,
)
from .checks.counted import check_counted, check_lengths
from .checks.debugging import Watch, WatchTarget
from .devices.device import NULL_SLOT, Device, HostCall, Issue, Step
from .dtypes import DType
from .errors import PackageError
from .graph.control import bool_reader, branch, counted_loop, while_loop
from .graph.dependence import Access, dependences
from .graph.executor import executor
from .graph.size_read import Late, LateOutputs, Rest, SizeReader
from .manifest import Kernel, Signature
from .memory.arena import Arena
from .memory.layout import Loaded, MemoryLayout, inner_name, memory_layout, scratch_name
from .plan import Branch, Call, Launch, Loop, Part, Plan, SizeRead
from .strides import strides
from .tensors import Tensor
from .torch_calls import TorchCalls

_FIRST_INPUT = NULL_SLOT + 1
UNBOUNDED = 2**31 - 1  # a size of no known bound


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan bound to an arena: store the addresses of a call, then issue."""

    cells: "ctypes.Array[ctypes.c_uint64]"
    issue: Callable[[int], None]
    outputs: tuple[Spec | None, ...]  # None where a size read makes the shape known
    late: LateOutputs | None  # allocates those

    def store(self, addresses: list[int]) -> None:
        """Store the addresses of all inputs and outputs, in the order of the signature."""
        end = _FIRST_INPUT + len(addresses)
        self.cells[_FIRST_INPUT:end] = cast("list[ctypes.c_uint64 | int]", addresses)


def prepare(
    signature: Signature,
    plan: Plan,
    kernels: Mapping[str, Loaded],
    weights: Mapping[str, int],
    arena: Arena[Prepared],
    device: Device,
    calls: TorchCalls | None = None,
    *,
    graphs: bool = False,
    watch: Watch | None = None,
    check: Callable[[], None] | None = None,
    sizes: Mapping[str, int] = MappingProxyType({}),
    check_rest: Callable[[Part], None] | None = None,
) -> Prepared:
    """Pack the intermediates into the arena and turn launches and calls into steps.

    ``check`` raises if an assertion has failed; loops call it. ``sizes`` are known; ``check_rest``
    raises if what waits for others does not fit the manifest.
    """
    layout = memory_layout(plan, kernels)
    arena.reserve(layout.total)
    cells = Cells()
    cells.counters = arena.counters(layout.end)
    names = _given(signature, weights, cells, watch)
    cells.words = tuple(names[one.word] for one in signature.assertions if one.word in names)
    outputs = frozenset(names[tensor.name] for tensor in signature.outputs)
    part = _bind_part(layout, arena.address, ChainMap(names), cells, calls)
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    late = LateOutputs()
    rests = Rests(signature, kernels, arena, calls, late, check_rest, sizes)
    context = IssueContext(device, array, cells.lengths, graphs, watch, check, rests)
    specs = tuple(
        None if shape is None else _spec(shape, tensor)
        for shape, tensor in zip(plan.outputs, signature.outputs, strict=True)
    )
    part = replace(part, fresh=part.fresh | outputs)
    return Prepared(array, _issue(part, context), specs, late if None in specs else None)


def _given(
    signature: Signature, weights: Mapping[str, int], cells: Cells, watch: Watch | None
) -> dict[str, int]:
    """The cells of inputs, outputs and weights."""
    names: dict[str, int] = {}
    given = [(tensor.name, 0) for tensor in (*signature.inputs, *signature.outputs)]
    for name, address in (*given, *weights.items()):
        _name(names, name, cells.add(address))
        if watch:
            cells.lengths[names[name]] = watch.lengths.get(name, 0)  # a later output's is not known
    return names


def _spec(shape: tuple[int, ...], tensor: Tensor) -> Spec:
    return shape, strides(shape, tensor.order), tensor.dtype, tensor.order


def _bind_part(
    layout: MemoryLayout,
    address: int,
    names: ChainMap[str, int],
    cells: Cells,
    calls: TorchCalls | None,
) -> BoundPart:
    """Bind a part to the memory at ``address``; its names are added to the first map."""
    places = _placed(layout, address, names, cells)
    unordered: list[AnyStep] = []
    targets: list[WatchTarget] = []
    accesses: list[Access] = []
    for index, step in enumerate(layout.steps):
        if isinstance(step, SizeRead):
            counts = tuple(_slot(names, name, "a size") for name in step.counts)
            unordered.append(SizeStep(step, counts, names, cells))
            accesses.append(Access((), tuple(dict.fromkeys((*names.values(), *cells.words)))))
            targets.append(accesses[-1].writes)
        elif isinstance(step, (Branch, Loop)):
            flow = _bind_control_flow(index, step, layout, names, cells, calls)
            unordered.append(flow)
            accesses.append(_control_access(flow, cells.words))
            targets.append(accesses[-1].writes)
        elif isinstance(step, Call):
            assert calls is not None  # loading creates them if the manifest has calls
            bound = calls.bound(step)
            unordered.append(TorchStep(bound, names))
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
    return BoundPart(tuple(steps), tuple(targets), _union(accesses), frozenset(places))


def _placed(
    layout: MemoryLayout, address: int, names: ChainMap[str, int], cells: Cells
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


def _with_after(step: AnyStep, after: tuple[int, ...]) -> AnyStep:
    return step._replace(after=after) if isinstance(step, Step) else replace(step, after=after)


def _access(step: Step, kernel: Kernel) -> Access:
    """The tensors a launch reads, and those it writes, with its scratch."""
    pairs = list(zip(step.slots, kernel.args, strict=True))
    reads = tuple(slot for slot, arg in pairs if arg.pointer and not arg.written)
    writes = tuple(slot for slot, arg in pairs if arg.written)
    return Access(reads, (*writes, step.scratch) if step.scratch != NULL_SLOT else writes)


def _control_access(flow: ControlFlow, words: tuple[int, ...]) -> Access:
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
    cells: Cells,
    calls: TorchCalls | None,
) -> ControlFlow:
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
    return ControlFlow(step, predicate, iteration, memory, parts)


def _name(names: MutableMapping[str, int], name: str, cell: int) -> None:
    if name in names:
        raise PackageError(f"preparing a plan: two tensors are called {name!r}")
    names[name] = cell


def _slot(names: Mapping[str, int], name: str, user: str) -> int:
    if name not in names:
        raise PackageError(f"preparing a plan: {user} uses unknown {name!r}")
    return names[name]


def _step(
    index: int, launch: Launch, loaded: Loaded, names: ChainMap[str, int], cells: Cells
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


def _issue(part: BoundPart, context: IssueContext) -> Issue:
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


def _host_call(step: TorchStep | ControlFlow | SizeStep, context: IssueContext) -> Issue:
    """The host's work between launches, as a function of the stream."""
    if isinstance(step, SizeStep):
        return _size_reader(step, context)
    if isinstance(step, TorchStep):
        return partial(step.call.run, step.names, context.cells)
    return _control_flow_issue(step, context)


def _control_flow_issue(flow: ControlFlow, context: IssueContext) -> Issue:
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


# --- sizes that data decide ---------------------------------------------------------------------


def _size_reader(step: SizeStep, context: IssueContext) -> Issue:
    """A size read and its rest, as a function of the stream."""
    rests = context.rests
    return SizeReader(
        context.device,
        context.cells,
        step.counts,
        partial(_bind_rest, step, context, _most_bytes(step.step, rests)),
        lambda: rests.arena.generation,
        rests.outputs,
        context.check,
    )


def _most_bytes(step: SizeRead, rests: Rests) -> int:
    """The bytes of a rest at the largest sizes; 0 where a size has no known bound."""
    if max(step.most) >= UNBOUNDED:
        return 0
    part = step.rest(*step.most)
    if min((buffer.size for buffer in part.buffers), default=0) < 0:
        return 0  # no call has all the largest sizes
    return memory_layout(part, rests.kernels).total


def _bind_rest(step: SizeStep, context: IssueContext, most: int, values: tuple[int, ...]) -> Rest:
    """Check sizes that were read, and prepare what waits for them.

    Its launches are not kept as graphs: sizes may differ from call to call, and building a graph
    takes longer than launching.
    """
    rests = context.rests
    sizes = {**rests.sizes, **dict(zip(step.step.sizes, values, strict=True))}
    check_counted(rests.signature, step.step.sizes, sizes)
    part = step.step.rest(*values)
    check_lengths(rests.signature, part, sizes)
    if rests.check is not None:
        rests.check(part)
    layout = memory_layout(part, rests.kernels)
    cells = step.cells.copy()
    address = rests.arena.rest(rests.depth, layout.total, most)
    cells.counters = rests.arena.rest_counters(rests.depth, layout.end)
    late = _late_outputs(step, rests, sizes)
    for one in late:
        shape, _, dtype, _ = one.spec
        cells.lengths[one.cell] = math.prod(shape) * dtype.itemsize
    bound = _bind_part(layout, address, step.names.new_child({}), cells, rests.calls)
    bound = replace(bound, fresh=bound.fresh | {one.cell for one in late})
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    inner = replace(
        context,
        cells=array,
        lengths=cells.lengths,
        graphs=False,
        rests=replace(rests, sizes=sizes, depth=rests.depth + 1),
    )
    return Rest(array, _issue(bound, inner), late, rests.arena.generation)


def _late_outputs(step: SizeStep, rests: Rests, sizes: Mapping[str, int]) -> tuple[Late, ...]:
    """The outputs whose shapes are known from now on."""
    found: list[Late] = []
    for number, tensor in enumerate(rests.signature.outputs):
        names = {name for size in tensor.shape for name in size.names}
        if names <= sizes.keys() and names.intersection(step.step.sizes):
            shape = tuple(size.evaluate(sizes) for size in tensor.shape)
            found.append(Late(number, step.names[tensor.name], _spec(shape, tensor)))
    return tuple(found)
