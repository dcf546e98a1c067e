"""From a plan's names to cells: everything a call needs that its sizes decide, done once.

All pointers and integers of a plan live in one array of 64-bit cells. A kernel's parameters point
to cells, so a call stores each input and output once, however many launches use it.

Rows S:A14.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from .arena import Arena
from .debugging import Watch
from .dependence import Access, dependences
from .device import NULL_SLOT, Device, HostCall, Step
from .dtypes import DType
from .errors import PackageError
from .executor import executor
from .frameworks import Spec
from .manifest import Binary, Kernel, Signature
from .packing import pack, strides
from .plan import Buffer, Call, Launch, Plan
from .torch_calls import BoundCall, TorchCalls

_FIRST_INPUT = NULL_SLOT + 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel of the chosen target, ready in the driver."""

    kernel: Kernel
    binary: Binary
    handle: Any


@dataclass(frozen=True, slots=True)
class _Issued:
    """A launch that has programs to run: its number among them, and its place in the plan."""

    index: int
    place: int
    launch: Launch
    loaded: Loaded


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

    def __init__(self, signature: Signature) -> None:
        self.values: list[int] = [0]
        self.by_name: dict[str, int] = {}
        self._by_number: dict[int, int] = {}
        for tensor in (*signature.inputs, *signature.outputs):
            self.add(tensor.name, 0)

    def add(self, name: str, value: int) -> None:
        if name in self.by_name:
            raise PackageError(f"preparing a plan: two tensors are called {name!r}")
        self.by_name[name] = len(self.values)
        self.values.append(value)

    def number(self, value: int) -> int:
        if value not in self._by_number:
            self._by_number[value] = len(self.values)
            self.values.append(value & (2**64 - 1))
        return self._by_number[value]


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
) -> Prepared:
    """Pack the intermediates into the arena and turn launches and calls into steps."""
    issued = _issued(plan, kernels, calls)
    buffers = (*plan.buffers, *_scratch(issued))
    offsets, total = pack(buffers)
    arena.reserve(total)
    cells = _Cells(signature)
    for name, address in weights.items():
        cells.add(name, address)
    for buffer, offset in zip(buffers, offsets, strict=True):
        cells.add(buffer.name, arena.address + offset)
    loose = [_step(one, cells) if isinstance(one, _Issued) else one for one in issued]
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    steps = _ordered(issued, loose, cells, array, _places(buffers, offsets, cells))
    all_steps = watch.around(steps, list(map(_watched, issued)), array) if watch else steps
    issue = executor(device, all_steps, array, graphs=graphs)
    outputs = tuple(
        (shape, strides(shape), spec.dtype)
        for shape, spec in zip(plan.outputs, signature.outputs, strict=True)
    )
    return Prepared(array, issue, outputs)


def _issued(
    plan: Plan, kernels: Mapping[str, Loaded], calls: TorchCalls | None
) -> list[_Issued | BoundCall]:
    """The launches that have programs to run, and the calls of torch, in order."""
    found: list[_Issued | BoundCall] = []
    for place, one in plan.steps():
        if isinstance(one, Call):
            assert calls is not None  # loading made them of the manifest that names the calls
            found.append(calls.bound(one))
            continue
        loaded = _loaded(one, kernels)
        if 0 not in one.grid:
            found.append(_Issued(len(found), place, one, loaded))
    return found


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


def _scratch(issued: Sequence[_Issued | BoundCall]) -> list[Buffer]:
    """Global scratch, needed during one launch each; its lifetime is the launch's place."""
    buffers = []
    for one in (one for one in issued if isinstance(one, _Issued)):
        x, y, z = one.launch.grid
        size = one.loaded.binary.global_scratch * x * y * z * one.loaded.binary.num_ctas
        if size:
            buffers.append(Buffer(_scratch_name(one.index), size, one.place, one.place))
    return buffers


def _scratch_name(index: int) -> str:
    return f"scratch of launch {index}"


def _places(
    buffers: Sequence[Buffer], offsets: Sequence[int], cells: _Cells
) -> dict[int, tuple[int, int]]:
    """The bytes of the arena, from and to, that each intermediate has, by its cell."""
    placed = zip(buffers, offsets, strict=True)
    return {cells.by_name[b.name]: (offset, offset + b.size) for b, offset in placed if b.size}


def _access(one: _Issued | BoundCall, step: Step | BoundCall, cells: _Cells) -> Access:
    """The tensors a launch or call reads, and those it writes, a launch's scratch among them."""
    if isinstance(one, BoundCall):
        return Access(
            tuple(cells.by_name[name] for name in one.reads),
            tuple(cells.by_name[name] for name in one.writes),
        )
    assert isinstance(step, Step)
    pairs = list(zip(step.slots, one.loaded.kernel.args, strict=True))
    reads = tuple(slot for slot, arg in pairs if arg.pointer and not arg.written)
    writes = tuple(slot for slot, arg in pairs if arg.written)
    return Access(reads, (*writes, step.scratch) if step.scratch != NULL_SLOT else writes)


def _ordered(
    issued: Sequence[_Issued | BoundCall],
    loose: Sequence[Step | BoundCall],
    cells: _Cells,
    array: "ctypes.Array[ctypes.c_uint64]",
    places: Mapping[int, tuple[int, int]],
) -> list[Step | HostCall]:
    """The steps, each with those it must follow."""
    accesses = [_access(one, step, cells) for one, step in zip(issued, loose, strict=True)]
    return [
        step._replace(after=before)
        if isinstance(step, Step)
        else HostCall(partial(step.run, cells.by_name, array), before)
        for step, before in zip(loose, dependences(accesses, places), strict=True)
    ]


def _watched(one: _Issued | BoundCall) -> "tuple[Launch, Kernel] | tuple[str, ...]":
    """A launch with its kernel; of a call, what it writes."""
    return (one.launch, one.loaded.kernel) if isinstance(one, _Issued) else one.writes


def _step(one: _Issued, cells: _Cells) -> Step:
    """A launch, as if it had to follow no other."""
    launch, loaded = one.launch, one.loaded
    slots = []
    for arg, declared in zip(launch.args, loaded.kernel.args, strict=True):
        if isinstance(arg, str) != declared.pointer:
            raise PackageError(f"preparing a plan: {launch.kernel} cannot take {arg!r} there")
        if isinstance(arg, str):
            if arg not in cells.by_name:
                raise PackageError(f"preparing a plan: {launch.kernel} uses unknown {arg!r}")
            slots.append(cells.by_name[arg])
        else:
            _check_fits(launch, arg, declared.dtype)
            slots.append(cells.number(arg))
    scratch = cells.by_name.get(_scratch_name(one.index), NULL_SLOT)
    return Step(loaded.handle, launch.kernel, launch.grid, tuple(slots), scratch, ())


def _check_fits(launch: Launch, value: int, dtype: DType) -> None:
    half = 1 << (8 * dtype.itemsize - 1)
    if not -half <= value < half:
        raise PackageError(
            f"preparing a plan: {launch.kernel} takes {dtype}, which cannot hold {value}. Report "
            "this with the sizes of the call."
        )
