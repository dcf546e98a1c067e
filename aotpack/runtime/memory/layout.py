"""The memory layout of a plan: offsets of the intermediates of each part and its inner parts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import PackageError
from ..manifest import Binary, Kernel
from ..plan import Branch, Buffer, Counters, Launch, Loop, Part, Plan, Step
from .packing import align, pack


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel of the chosen target, loaded by the device."""

    kernel: Kernel
    binary: Binary
    handle: Any


@dataclass(frozen=True, slots=True)
class MemoryLayout:
    """A part of a plan with the offsets of its buffers, and the layouts of its inner parts.

    ``counters`` lie in separate memory; ``end`` is behind those of the part and its inner parts.
    """

    steps: tuple[Step, ...]
    loaded: Mapping[int, Loaded]  # by the number of the launch
    inner: "Mapping[int, tuple[MemoryLayout, ...]]"
    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    total: int
    counters: tuple[tuple[Counters, int], ...]
    end: int


def memory_layout(part: Plan | Part, kernels: Mapping[str, Loaded], end: int = 0) -> MemoryLayout:
    """Pack a part's memory; inner parts of a branch or loop share one buffer, live while it runs.

    What waits for a size read is laid out when the sizes are known.

    Counters of different launches never share memory; those of the part begin at ``end``.
    """
    counters: list[tuple[Counters, int]] = []
    for counter in part.counters:
        counters.append((counter, end))
        end += align(counter.size)
    loaded: dict[int, Loaded] = {}
    inner: dict[int, tuple[MemoryLayout, ...]] = {}
    buffers = list(part.buffers)
    numbered = tuple(part.steps())
    for index, (place, step) in enumerate(numbered):
        if isinstance(step, Launch):
            loaded[index] = _loaded(step, kernels)
            buffers += _scratch(index, place, step, loaded[index])
        elif isinstance(step, (Branch, Loop)):
            found: list[MemoryLayout] = []
            for each in _parts(step):
                found.append(memory_layout(each, kernels, end))
                end = found[-1].end
            inner[index] = tuple(found)
            most = max(layout.total for layout in inner[index])
            buffers.append(Buffer(inner_name(index), most, place, place))
    offsets, total = pack(buffers)
    steps = tuple(step for _, step in numbered)
    return MemoryLayout(steps, loaded, inner, tuple(buffers), offsets, total, tuple(counters), end)


def scratch_name(index: int) -> str:
    """The name of the buffer for a launch's global scratch, by step number."""
    return f"scratch of launch {index}"


def inner_name(index: int) -> str:
    """The name of the buffer for the parts of a branch or loop, by step number."""
    return f"memory of step {index}"


def _parts(step: Branch | Loop) -> tuple[Part, ...]:
    if isinstance(step, Branch):
        return step.first, step.second
    return (step.entry, step.body) if step.test is None else (step.entry, step.test, step.body)


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
    """The buffer for global scratch, live during one launch."""
    x, y, z = launch.grid
    size = loaded.binary.global_scratch * x * y * z * loaded.binary.num_ctas
    if size:
        yield Buffer(scratch_name(index), size, place, place)
