"""From a plan's names to cells: everything a call needs that its sizes decide, done once.

All pointers and integers of a plan live in one array of 64-bit cells. A kernel's parameters point
to cells, so a call stores each input and output once, however many launches use it.

Rows S:A14.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from .arena import Arena
from .debugging import Watch
from .dependence import Access, dependences
from .device import NULL_SLOT, Device, Step
from .dtypes import DType
from .errors import PackageError
from .executor import executor
from .frameworks import Spec
from .manifest import Binary, Kernel, Signature
from .packing import pack, strides
from .plan import Buffer, Launch, Plan

_FIRST_INPUT = NULL_SLOT + 1


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel of the chosen target, ready in the driver."""

    kernel: Kernel
    binary: Binary
    handle: Any


@dataclass(frozen=True, slots=True)
class _Issued:
    """A launch that has programs to run, by its number in the plan."""

    index: int
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
    *,
    graphs: bool = False,
    watch: Watch | None = None,
) -> Prepared:
    """Pack the intermediates into the arena and turn the launches into steps."""
    launches = [(place, launch, _loaded(launch, kernels)) for place, launch in plan.steps()]
    buffers = (*plan.buffers, *_scratch(launches))
    offsets, total = pack(buffers)
    arena.reserve(total)
    cells = _Cells(signature)
    for name, address in weights.items():
        cells.add(name, address)
    for buffer, offset in zip(buffers, offsets, strict=True):
        cells.add(buffer.name, arena.address + offset)
    issued = [
        _Issued(index, launch, loaded)
        for index, (_, launch, loaded) in enumerate(launches)
        if 0 not in launch.grid
    ]
    steps = _ordered(issued, cells, _places(buffers, offsets, cells))
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    watched = [(one.launch, one.loaded.kernel) for one in issued] if watch else []
    all_steps = watch.around(steps, watched, array) if watch else steps
    issue = executor(device, all_steps, array, graphs=graphs)
    outputs = tuple(
        (shape, strides(shape), spec.dtype)
        for shape, spec in zip(plan.outputs, signature.outputs, strict=True)
    )
    return Prepared(array, issue, outputs)


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


def _scratch(launches: list[tuple[int, Launch, Loaded]]) -> list[Buffer]:
    """Global scratch, needed during one launch each; its lifetime is the launch's place."""
    buffers = []
    for index, (place, launch, loaded) in enumerate(launches):
        x, y, z = launch.grid
        size = loaded.binary.global_scratch * x * y * z * loaded.binary.num_ctas
        if size:
            buffers.append(Buffer(_scratch_name(index), size, place, place))
    return buffers


def _scratch_name(index: int) -> str:
    return f"scratch of launch {index}"


def _places(
    buffers: Sequence[Buffer], offsets: Sequence[int], cells: _Cells
) -> dict[int, tuple[int, int]]:
    """The bytes of the arena, from and to, that each intermediate has, by its cell."""
    placed = zip(buffers, offsets, strict=True)
    return {cells.by_name[b.name]: (offset, offset + b.size) for b, offset in placed if b.size}


def _access(one: _Issued, step: Step) -> Access:
    """The tensors a launch reads, and those it writes, its scratch among them."""
    pairs = list(zip(step.slots, one.loaded.kernel.args, strict=True))
    reads = tuple(slot for slot, arg in pairs if arg.pointer and not arg.written)
    writes = tuple(slot for slot, arg in pairs if arg.written)
    return Access(reads, (*writes, step.scratch) if step.scratch != NULL_SLOT else writes)


def _ordered(
    issued: Sequence[_Issued], cells: _Cells, places: Mapping[int, tuple[int, int]]
) -> list[Step]:
    """The steps, each with those it must follow."""
    loose = [_step(one, cells) for one in issued]
    accesses = [_access(one, step) for one, step in zip(issued, loose, strict=True)]
    after = dependences(accesses, places)
    return [step._replace(after=before) for step, before in zip(loose, after, strict=True)]


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
