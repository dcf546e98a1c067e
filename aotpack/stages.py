"""The stage products: the six frozen values that pass from one verb to the next.

A build is a ladder of six frozen values, Traced -> Lowered -> Scheduled -> Rendered ->
Precompiled -> Emitted. Each prints as text (``as_text``) and none imports the stage that made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeVar

from aotpack.ir.assertions import Assertion as Assertion
from aotpack.ir.assertions import CountedSize as CountedSize
from aotpack.ir.assertions import SizeCondition as SizeCondition
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import TorchOperator
from aotpack.ir.golden import DrawnInput as DrawnInput
from aotpack.ir.golden import Golden as Golden
from aotpack.ir.golden import Recorded as Recorded
from aotpack.ir.golden import SampledResult as SampledResult
from aotpack.ir.graph import Arg as Arg
from aotpack.ir.graph import Body as Body
from aotpack.ir.graph import GraphNode as GraphNode
from aotpack.ir.graph import Ref as Ref
from aotpack.ir.graph import Source as Source
from aotpack.ir.graph import TensorSpec as TensorSpec
from aotpack.ir.graph import arg_text, node_lines
from aotpack.ir.graph import every_node as every_node
from aotpack.ir.graph import refs_in as refs_in
from aotpack.ir.kernels.kernel import ArchSchedule, Schedule, taken_by, why_text
from aotpack.ir.kernels.source import RING_START as RING_START
from aotpack.ir.kernels.source import KernelArg as KernelArg
from aotpack.ir.kernels.source import KernelSource as KernelSource
from aotpack.ir.kernels.source import TensorMap as TensorMap
from aotpack.ir.program import Program
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.program import verify
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.target import Target
from aotpack.trees import Constant, Tree


class Product:
    __slots__ = ()

    def as_text(self) -> str:
        """What a person would write."""
        raise NotImplementedError

    def verify(self) -> None:
        """Raise what is illegal about it; most products have nothing to verify."""


ProductT = TypeVar("ProductT", bound=Product)


@dataclass(frozen=True, slots=True)
class PerMethod(Product, Generic[ProductT]):
    """A stage's product for each method of a package, by name."""

    methods: Mapping[str, ProductT]

    def as_text(self) -> str:
        parts = ((f"# method {n}\n", one.as_text()) for n, one in self.methods.items())
        return "".join(text for part in parts for text in part)

    def verify(self) -> None:
        for one in self.methods.values():
            one.verify()


# --- the interface of the model: shared by every stage -----------------------------------------


@dataclass(frozen=True, slots=True)
class Signature:
    """The contract of the packaged callable.

    ``sizes`` are the dynamic dimensions with their ranges; ``args``/``kwargs`` describe what
    forward takes, leaves in the order of ``inputs``; ``positional`` names what a call may pass by
    position: the children of ``args``, then keys of ``kwargs`` and of ``defaults``, the parameters
    that the example left out; ``result`` is what it returns, leaves in the order of ``outputs``;
    ``updates`` are the inputs and weights it changes in place; ``assertions`` are checked by every
    call; ``unused`` are state_dict names of tensors that the program does not use. ``counted`` are
    the sizes that a call reads from its data, in order, with the ``conditions`` on them.
    """

    name: str
    version: str
    sizes: tuple[Var, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    args: Tree
    kwargs: Tree
    result: Tree
    positional: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    unused: tuple[str, ...] = ()
    counted: tuple[CountedSize, ...] = ()
    conditions: tuple[SizeCondition, ...] = ()
    defaults: tuple[tuple[str, Constant], ...] = ()


@dataclass(frozen=True, slots=True)
class Weight:
    """A parameter, buffer or lifted constant. ``names`` are all its names (tied weights).

    ``is_constant`` marks tensors that no state_dict has (lifted tensors, non-persistent buffers):
    the package always contains them, so that binding a checkpoint is enough. In the model it
    ``shares`` memory with others, which are views of a part of it, or it of theirs.
    """

    name: str
    names: tuple[str, ...]
    dtype: DType
    shape: tuple[int, ...]
    data: memoryview  # C-contiguous bytes, itemsize 1
    is_constant: bool = False
    follows: bool = False  # contiguous with the weight before it
    is_staged: bool = False  # only the weight program reads it
    pairs: bool = False  # of complex numbers, whose parts are the last dimension
    shares: tuple[str, ...] = ()


# --- Traced -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Graph:
    """A straight-line tensor program in torch's operators, free of torch objects.

    ``updates`` are the inputs and weights that forward changes in place, and the flags of
    assertions, with their new values. ``unchecked`` are inputs with positions that nothing checks.
    """

    signature: Signature
    weights: tuple[Weight, ...]
    nodes: tuple[GraphNode, ...]
    outputs: tuple[Ref, ...]
    updates: tuple[tuple[str, Ref], ...] = ()
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Traced(Product):
    graph: Graph
    golden: Golden
    quantized: tuple[str, ...] = ()  # a line for each layer of the package

    def as_text(self) -> str:
        graph = self.graph
        lines = [f"model {graph.signature.name} {graph.signature.version}"]
        lines += [
            f"size {size.name} in [{size.low}, {size.high}]" for size in graph.signature.sizes
        ]
        lines += [
            f"size {one.size} in [{one.size.low}, {one.size.high}], counted by {one.place}"
            for one in graph.signature.counted
        ]
        lines += [f"where {one.text}" for one in graph.signature.conditions]
        lines += [f"input {spec}" for spec in graph.signature.inputs]
        lines += [f"weight {w.name}: {w.dtype}{list(w.shape)}" for w in graph.weights]
        lines += [f"assertion {a.word}: {a.message}" for a in graph.signature.assertions]
        for node in graph.nodes:
            lines += node_lines(node)
        lines += [f"update {name} = {arg_text(value)}" for name, value in graph.updates]
        lines.append("return " + ", ".join(map(arg_text, graph.outputs)))
        return "\n".join(lines) + "\n"


# --- Lowered, Scheduled -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lowered(Product):
    signature: Signature
    weights: tuple[Weight, ...]
    golden: Golden
    program: Program
    fallbacks: tuple[str, ...] = ()  # operators that torch will run, with reasons
    repeats: tuple[str, ...] = ()  # layers that are calls of one body, or why there are none

    def as_text(self) -> str:
        notes = [f"# through torch: {line}\n" for line in self.fallbacks]
        notes += [f"# {line}\n" for line in self.repeats]
        return "".join(notes) + str(self.program)

    def verify(self) -> None:
        verify(self.program)


@dataclass(frozen=True, slots=True)
class Scheduled(Product):
    """``schedule`` is for all architectures but those of ``per_arch``, in order."""

    signature: Signature
    weights: tuple[Weight, ...]
    golden: Golden
    schedule: Schedule
    per_arch: tuple[ArchSchedule, ...] = ()

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of all architectures."""
        return (*(one.schedule for one in self.per_arch), self.schedule)

    def on(self, arch: int) -> Schedule:
        """The schedule for an architecture."""
        special = (one.schedule for one in self.per_arch if one.takes(arch))
        return next(special, self.schedule)

    def for_targets(self, targets: tuple[Target, ...]) -> "Scheduled":
        """The same with what these targets take, and nothing that others do."""
        arches = [target.arch for target in targets]
        per_arch = tuple(
            replace(one, schedule=taken_by(one.schedule, arches))
            for one in self.per_arch
            if any(map(one.takes, arches))
        )
        return replace(self, schedule=taken_by(self.schedule, arches), per_arch=per_arch)

    def as_text(self) -> str:
        others = "# on all others\n" if self.per_arch else ""
        return "".join(map(str, (*self.per_arch, others, self.schedule)))

    def verify(self) -> None:
        for schedule in self.schedules:
            verify_schedule(schedule)

    def why_text(self) -> str:
        """The reasons why operations were not fused."""
        return "".join(map(why_text, self.schedules))


@dataclass(frozen=True, slots=True)
class DerivedWeight:
    """A weight that the weight program computes; ``bytes`` with the padding of its rows."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    bytes: int


# --- Rendered -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decisions:
    """The choice between the forms of a launch: the number in a package, and measurements.

    ``measured`` gives, for a target and the key of a launch, the name of its quickest form.
    """

    candidates: int = 1
    measured: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def looks_beyond_the_first(self) -> bool:
        """True if a package may contain forms other than the predicted best."""
        return self.candidates > 1 or bool(self.measured)


@dataclass(frozen=True, slots=True)
class TorchCall:
    """An operator that torch runs. ``dtypes`` are those of the passed values, None for sizes.

    It writes the last ``results`` of the passed values.
    """

    name: str
    operator: TorchOperator
    dtypes: tuple[DType | None, ...]
    results: int


@dataclass(frozen=True, slots=True)
class Rendered(Product):
    """All kernels, deduplicated by text, and the wrapper that launches them.

    That of a package with several ``methods`` has what they share: weights, kernels, calls.
    """

    signature: Signature
    weights: tuple[Weight, ...]
    golden: Golden
    kernels: tuple[KernelSource, ...]
    wrapper: str
    peak_bytes: int  # arena at the largest admitted sizes
    host_file: str = ""  # all kernels in C with their common text, for the target cpu
    choices: tuple[str, ...] = ()  # keys of the launches that have several forms
    settled: tuple[
        tuple[str, str], ...
    ] = ()  # (target, key) of launches that a measurement decided
    calls: tuple[TorchCall, ...] = ()  # operators that torch runs
    interface: str = ""  # the types of the package's module, as __init__.pyi
    derived: tuple[DerivedWeight, ...] = ()
    moved: Mapping[str, Int] = field(default_factory=dict)  # bytes of a call, by target
    methods: Mapping[str, "Rendered"] = field(default_factory=dict)

    @property
    def entries(self) -> Mapping[str, "Rendered"]:
        """Each method by its name; the only one is called ""."""
        return self.methods or {"": self}

    def as_text(self) -> str:
        parts = [f"# ==== kernel {kernel.name}\n{kernel.text}" for kernel in self.kernels]
        for method, one in self.entries.items():
            parts.append(f"# ==== wrapper{method and f' of {method}'}\n{one.wrapper}")
        return "\n".join(parts)


# --- Precompiled --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled kernel for one target, with its launch configuration.

    ``symbol`` is the entry point inside ``code``. ``shared`` is dynamic shared memory in bytes,
    ``global_scratch`` bytes per program with ``global_scratch_align``, ``registers`` and
    ``spills`` per thread (bytes of local memory) as the binary's own header states them.
    """

    kernel: str
    target: str
    symbol: str
    code: bytes
    suffix: str  # "cubin", "so" for all kernels of cpu together, "py" for the interpreter
    num_warps: int
    num_ctas: int
    shared: int
    global_scratch: int
    global_scratch_align: int
    registers: int
    spills: int
    starts_early: bool = False  # programmatic dependent launch
    maps: str = ""  # JSON: what the code expects of the descriptors it takes
    carveout: int = 0  # percent of a multiprocessor's shared memory; 0: the driver chooses


@dataclass(frozen=True, slots=True, order=True)
class Refused:
    """A rejected number of warps: the kernel spills ``spills`` bytes a thread."""

    kernel: str
    target: str
    num_warps: int
    spills: int


@dataclass(frozen=True, slots=True)
class HostBuild:
    """The requirements of the shared object of the target cpu; ``glibc`` None for no glibc."""

    machine: str  # "x86_64"
    arch: str  # "x86-64-v3"
    glibc: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Precompiled(Product):
    rendered: Rendered
    targets: tuple[Target, ...]
    binaries: tuple[Binary, ...]  # sorted by (target, kernel)
    compilers: Mapping[str, str]  # name -> version, recorded in the manifest
    host: HostBuild | None = None  # with the target cpu
    refused: tuple[Refused, ...] = ()  # in order

    def as_text(self) -> str:
        lines = ["target     kernel  bytes  registers  spills  shared  carveout"]
        for b in self.binaries:
            row = (b.target, b.kernel, len(b.code), b.registers, b.spills, b.shared)
            carveout = f"{b.carveout}%" if b.carveout else "-"
            lines.append("  ".join(map(str, (*row, carveout))))
        lines += [
            f"{one.target}  {one.kernel} refused with {one.num_warps} warps: spills {one.spills}"
            for one in self.refused
        ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Emitted(Product):
    wheel: Path
    files: tuple[tuple[str, int], ...]  # (path in the wheel, bytes), sorted
    sidecar: Path | None  # the weights beside the wheel, if separate
    replaced: tuple[Path, ...] = ()  # the files that were there before, under the same names

    def as_text(self) -> str:
        lines = [f"{self.wheel.name}  {self.wheel.stat().st_size} bytes"]
        lines += [f"{size:>12}  {path}" for path, size in self.files]
        if self.sidecar is not None:
            lines.append(f"{self.sidecar.name}  {self.sidecar.stat().st_size} bytes")
        return "\n".join(lines) + "\n"
