"""From a plan's names to cells: everything a call needs that its sizes decide, done once.

All pointers and integers of a plan live in one array of 64-bit cells. A kernel's parameters point
to cells, so a call stores each input and output once, however many launches use it.

Rows S:A14.
"""

import ctypes
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from .arena import Arena
from .control import Issue, branch, counted_loop, in_turn, reader, while_loop
from .device import NULL_SLOT, Device, Step
from .dtypes import DType
from .errors import PackageError
from .manifest import Binary, Kernel, Signature
from .packing import pack
from .plan import Branch, Buffer, Launch, Loop, Part, Plan
from .plan import Step as PlanStep

_FIRST_INPUT = NULL_SLOT + 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel of the chosen target, ready in the driver."""

    kernel: Kernel
    binary: Binary
    handle: Any


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan bound to an arena: store the addresses of a call, then issue."""

    cells: "ctypes.Array[ctypes.c_uint64]"
    issue: Callable[[int], None]
    outputs: tuple[tuple[tuple[int, ...], DType], ...]

    def store(self, addresses: list[int]) -> None:
        """The addresses of all inputs and all outputs, in the order of the signature."""
        end = _FIRST_INPUT + len(addresses)
        self.cells[_FIRST_INPUT:end] = cast("list[ctypes.c_uint64 | int]", addresses)


class _Cells:
    """Numbers the cells while steps are made."""

    def __init__(self) -> None:
        self.values: list[int] = [0]
        self.turns: set[int] = set()  # the cells that hold the number of a loop's turn
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
class _Room:
    """A part of a plan with the memory it needs: offsets of its buffers, and parts inside it."""

    steps: tuple[PlanStep, ...]
    loaded: Mapping[int, Loaded]  # by the number of the step
    inner: "Mapping[int, tuple[_Room, ...]]"
    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    total: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """A branch or loop whose parts are steps; the cells of what decides, and of the turn."""

    step: Branch | Loop
    condition: int
    turn: int
    parts: "tuple[Sequence[Step | _Choice], ...]"


def prepare(
    signature: Signature,
    plan: Plan,
    kernels: Mapping[str, Loaded],
    weights: Mapping[str, int],
    arena: Arena[Prepared],
    device: Device,
) -> Prepared:
    """Pack the intermediates into the arena and turn the launches into steps."""
    room = _room(plan, kernels)
    arena.reserve(room.total)
    cells = _Cells()
    names: dict[str, int] = {}
    given = [(tensor.name, 0) for tensor in (*signature.inputs, *signature.outputs)]
    for name, address in (*given, *weights.items()):
        _name(names, name, cells.add(address))
    made = _steps(room, arena.address, ChainMap(names), cells)
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    outputs = tuple(
        (shape, spec.dtype) for shape, spec in zip(plan.outputs, signature.outputs, strict=True)
    )
    return Prepared(array, _issue(made, array, device), outputs)


def _room(part: Plan | Part, kernels: Mapping[str, Loaded]) -> _Room:
    """Pack a part's memory; what is inside a branch or loop has a place while that runs."""
    loaded: dict[int, Loaded] = {}
    inner: dict[int, tuple[_Room, ...]] = {}
    buffers = list(part.buffers)
    numbered = tuple(part.steps())
    for index, (place, step) in enumerate(numbered):
        if isinstance(step, Launch):
            loaded[index] = _loaded(step, kernels)
            buffers += _scratch(index, place, step, loaded[index])
        else:
            inner[index] = tuple(_room(each, kernels) for each in _parts(step))
            most = max(room.total for room in inner[index])
            buffers.append(Buffer(_inner_name(index), most, place, place))
    offsets, total = pack(buffers)
    return _Room(tuple(step for _, step in numbered), loaded, inner, tuple(buffers), offsets, total)


def _parts(step: Branch | Loop) -> tuple[Part, ...]:
    if isinstance(step, Branch):
        return step.first, step.second
    return (step.entry, step.body) if step.test is None else (step.entry, step.test, step.body)


def _steps(
    room: _Room, address: int, names: ChainMap[str, int], cells: _Cells
) -> "list[Step | _Choice]":
    """A part's launches on the memory at ``address``; its own names go into the first map."""
    for buffer, offset in zip(room.buffers, room.offsets, strict=True):
        _name(names.maps[0], buffer.name, cells.add(address + offset))
    made: list[Step | _Choice] = []
    for index, step in enumerate(room.steps):
        if not isinstance(step, Launch):
            made.append(_choice(index, step, room, names, cells))
        elif 0 not in step.grid:
            made.append(_step(index, step, room.loaded[index], names, cells))
    return made


def _choice(
    index: int, step: Branch | Loop, room: _Room, names: ChainMap[str, int], cells: _Cells
) -> _Choice:
    """A branch or loop; its turn's number is a name that its parts see."""
    turn, own = NULL_SLOT, {}
    if isinstance(step, Loop) and step.turn:
        turn = cells.add(0)
        cells.turns.add(turn)
        own = {step.turn: turn}
    condition = step.condition if isinstance(step, Loop) else step.predicate
    asked = _slot(names, condition, "a condition") if isinstance(condition, str) else NULL_SLOT
    address = cells.values[names[_inner_name(index)]]
    parts = tuple(
        _steps(each, address, names.new_child({**own}), cells) for each in room.inner[index]
    )
    return _Choice(step, asked, turn, parts)


def _issue(
    made: "Sequence[Step | _Choice]", cells: "ctypes.Array[ctypes.c_uint64]", device: Device
) -> Issue:
    """Runs of launches are issued by the device, what lies between them step by step."""
    parts: list[Issue] = []
    run: list[Step] = []
    for step in made:
        if isinstance(step, Step):
            run.append(step)
            continue
        if run:
            parts.append(device.executor(run, cells))
        run = []
        parts.append(_issue_choice(step, cells, device))
    return in_turn([*parts, device.executor(run, cells)] if run or not parts else parts)


def _issue_choice(choice: _Choice, cells: "ctypes.Array[ctypes.c_uint64]", device: Device) -> Issue:
    parts = [_issue(part, cells, device) for part in choice.parts]
    step = choice.step
    condition = step.condition if isinstance(step, Loop) else step.predicate
    if isinstance(condition, str):
        decide = reader(device, cells, choice.condition)
        return (branch if isinstance(step, Branch) else while_loop)(decide, *parts)
    if isinstance(step, Branch):
        return parts[0 if condition else 1]
    entry, body = parts
    return counted_loop(condition, cells, choice.turn, entry, body)


def _loaded(launch: Launch, kernels: Mapping[str, Loaded]) -> Loaded:
    loaded = kernels.get(launch.kernel)
    if loaded is None:
        raise PackageError(
            f"preparing a plan: the kernel {launch.kernel} has no binary for this GPU's target. "
            "The package is damaged: reinstall it."
        )
    if len(launch.args) != len(loaded.kernel.args):
        raise PackageError(
            f"preparing a plan: {launch.kernel} takes {len(loaded.kernel.args)} arguments, "
            f"wrapper.py passes {len(launch.args)}. The package is damaged: reinstall it."
        )
    return loaded


def _scratch(index: int, place: int, launch: Launch, loaded: Loaded) -> Iterator[Buffer]:
    """Global scratch, needed during one launch; its lifetime is the launch's place."""
    x, y, z = launch.grid
    size = loaded.binary.global_scratch * x * y * z * loaded.binary.num_ctas
    if size:
        yield Buffer(_scratch_name(index), size, place, place)


def _scratch_name(index: int) -> str:
    return f"scratch of launch {index}"


def _inner_name(index: int) -> str:
    return f"memory of step {index}"


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
    """A launch; a name that is passed as an integer is the number of a loop's turn."""
    slots = []
    for arg, declared in zip(launch.args, loaded.kernel.args, strict=True):
        slot = _slot(names, arg, launch.kernel) if isinstance(arg, str) else cells.number(arg)
        is_number = slot in cells.turns or not isinstance(arg, str)
        if is_number == declared.pointer:
            raise PackageError(f"preparing a plan: {launch.kernel} cannot take {arg!r} there")
        if not isinstance(arg, str):
            _check_fits(launch, arg, declared.dtype)
        slots.append(slot)
    scratch = names.maps[0].get(_scratch_name(index), NULL_SLOT)
    return Step(loaded.handle, launch.kernel, launch.grid, tuple(slots), scratch)


def _check_fits(launch: Launch, value: int, dtype: DType) -> None:
    half = 1 << (8 * dtype.itemsize - 1)
    if not -half <= value < half:
        raise PackageError(
            f"preparing a plan: {launch.kernel} takes {dtype}, which cannot hold {value}. Report "
            "this with the sizes of the call."
        )
