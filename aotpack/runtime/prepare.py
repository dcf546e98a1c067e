"""From a plan's names to cells: everything a call needs that its sizes decide, done once.

All pointers and integers of a plan live in one array of 64-bit cells. A kernel's parameters point
to cells, so a call stores each input and output once, however many launches use it.

Rows S:A14.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

from .arena import Arena
from .device import NULL_SLOT, Device, Step
from .dtypes import DType
from .errors import PackageError
from .manifest import Binary, Kernel, Signature
from .packing import pack
from .plan import Buffer, Call, Launch, Plan
from .torch_calls import TorchCalls

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
) -> Prepared:
    """Pack the intermediates into the arena and turn the launches into steps."""
    planned = list(plan.steps())
    launches = [
        (place, launch, _loaded(launch, kernels))
        for place, launch in planned
        if isinstance(launch, Launch)
    ]
    scratch = _scratch(launches)
    buffers = (*plan.buffers, *scratch)
    offsets, total = pack(buffers)
    arena.reserve(total)
    cells = _Cells(signature)
    for name, address in weights.items():
        cells.add(name, address)
    for buffer, offset in zip(buffers, offsets, strict=True):
        cells.add(buffer.name, arena.address + offset)
    made = iter(
        [_step(index, launch, kernel, cells) for index, (_, launch, kernel) in enumerate(launches)]
    )
    parts = [next(made) if isinstance(one, Launch) else one for _, one in planned]
    array = (ctypes.c_uint64 * len(cells.values))(*cells.values)
    outputs = tuple(
        (shape, spec.dtype) for shape, spec in zip(plan.outputs, signature.outputs, strict=True)
    )
    return Prepared(array, _issue(parts, cells, array, device, calls), outputs)


def _issue(
    parts: Sequence[Step | Call],
    cells: _Cells,
    array: "ctypes.Array[ctypes.c_uint64]",
    device: Device,
    calls: TorchCalls | None,
) -> Callable[[int], None]:
    """A function of the stream that does all parts: runs of launches, and calls between them."""
    issues: list[Callable[[int], None]] = []
    for is_call, run in groupby(parts, lambda part: isinstance(part, Call)):
        if not is_call:
            steps = [part for part in run if isinstance(part, Step) and 0 not in part.grid]
            issues.append(device.executor(steps, array))
            continue
        assert calls is not None  # loading made them of the manifest that names the calls
        issues += [
            calls.bound(call, cells.by_name, array) for call in run if isinstance(call, Call)
        ]
    if not issues:
        return device.executor((), array)

    def issue(stream: int) -> None:
        for part in issues:
            part(stream)

    return issues[0] if len(issues) == 1 else issue


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


def _step(index: int, launch: Launch, loaded: Loaded, cells: _Cells) -> Step:
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
    scratch = cells.by_name.get(_scratch_name(index), NULL_SLOT)
    return Step(loaded.handle, launch.kernel, launch.grid, tuple(slots), scratch)


def _check_fits(launch: Launch, value: int, dtype: DType) -> None:
    half = 1 << (8 * dtype.itemsize - 1)
    if not -half <= value < half:
        raise PackageError(
            f"preparing a plan: {launch.kernel} takes {dtype}, which cannot hold {value}. Report "
            "this with the sizes of the call."
        )
