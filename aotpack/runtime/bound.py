"""What a plan is bound to: cells for its names, steps that point to cells, and what issues them."""

import ctypes
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from .checks.debugging import Watch, WatchTarget
from .devices.device import Device, Step
from .graph.dependence import Access
from .graph.size_read import LateOutputs
from .manifest import Signature
from .memory.arena import Arena
from .memory.layout import Loaded
from .plan import Branch, Loop, Part, SizeRead
from .torch_calls import BoundCall, TorchCalls


class Cells:
    """Allocates the cells of a plan."""

    def __init__(self) -> None:
        self.values: list[int] = [0]
        self.lengths: dict[int, int] = {}  # the bytes behind cells, where known
        self.iterations: set[int] = set()  # the cells of iteration numbers
        self.counters = 0  # the address of all counters
        self.words: tuple[int, ...] = ()  # the cells of assertions
        self._by_number: dict[int, int] = {}

    def copy(self) -> "Cells":
        """The same cells, to which others may be added."""
        made = Cells()
        made.values, made.lengths = [*self.values], {**self.lengths}
        made.iterations, made.words = {*self.iterations}, self.words
        made._by_number = {**self._by_number}
        return made

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
class ControlFlow:
    """A branch or loop; the cells of its condition, iteration number and memory."""

    step: Branch | Loop
    condition: int
    iteration: int
    memory: int
    parts: "tuple[BoundPart, ...]"
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TorchStep:
    """A call of torch, and the cells of the names it uses."""

    call: BoundCall
    names: Mapping[str, int]
    after: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SizeStep:
    """A size read: the cells of its counts, and all names and cells that its rest may use."""

    step: SizeRead
    counts: tuple[int, ...]
    names: ChainMap[str, int]
    cells: Cells
    after: tuple[int, ...] = ()


AnyStep: TypeAlias = "Step | TorchStep | ControlFlow | SizeStep"


@dataclass(frozen=True, slots=True)
class BoundPart:
    """The steps of a part with their dependences, and the union of their accesses.

    ``targets`` has for a launch its kernel, for other steps the cells they write. ``fresh`` are the
    cells of memory without contents before these steps.
    """

    steps: "tuple[AnyStep, ...]"
    targets: tuple[WatchTarget, ...]
    access: Access
    fresh: frozenset[int]


@dataclass(frozen=True, slots=True)
class IssueContext:
    """The inputs that issuing needs for every part."""

    device: Device
    cells: "ctypes.Array[ctypes.c_uint64]"
    lengths: Mapping[int, int]
    graphs: bool
    watch: Watch | None
    check: Callable[[], None] | None
    rests: "Rests"


@dataclass(frozen=True, slots=True)
class Rests:
    """What else preparing a rest takes: ``sizes`` are known, by ``depth`` reads.

    ``check`` raises if a rest does not fit the manifest.
    """

    signature: Signature
    kernels: Mapping[str, Loaded]
    arena: "Arena[Any]"
    calls: TorchCalls | None
    outputs: LateOutputs
    check: Callable[[Part], None] | None
    sizes: Mapping[str, int]
    depth: int = 0
