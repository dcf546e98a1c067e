"""The manifest's records of tensors with their sizes, kernels, and operators that torch runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from .files.kinds import (
    MOST,
    Argument,
    Count,
    File,
    Identifier,
    Name,
    Operator,
    Positive,
    Sha256,
    Small,
    Type,
)
from .files.schema import PLACE, InRange, Mismatch, Parsed, shown
from .sizes import Size

MOST_DIMENSIONS = 64


Formula: TypeAlias = Annotated[Size, Parsed(Size)]
Ranged: TypeAlias = Annotated[int, InRange(-MOST, MOST)]
Percent: TypeAlias = Annotated[int, InRange(0, 100)]


@dataclass(frozen=True, slots=True)
class SizeRange:
    """A size of the model: ``low <= name <= high``, a multiple of ``multiple``."""

    name: Identifier
    low: Count
    high: Count
    multiple: Positive

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise Mismatch(str(self.high), f"{self.low}, which is low, or more").within("high")

    def __str__(self) -> str:
        step = f", a multiple of {self.multiple}" if self.multiple > 1 else ""
        return f"{self.name} in {self.low} to {self.high}{step}"


@dataclass(frozen=True, slots=True)
class CountedSize:
    """A size that data decide: a call reads it. ``place`` is the operator and the source line."""

    name: Identifier
    low: Ranged
    high: Ranged
    place: str

    def __str__(self) -> str:
        return f"{self.name} in {self.low} to {self.high}, as the data say"


@dataclass(frozen=True, slots=True)
class SizeCondition:
    """A condition on counted sizes that every call meets: ``holds`` is 1 then, else 0."""

    holds: Formula
    text: str
    place: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named tensor of the signature.

    ``order`` is its order in memory: its dimensions, outermost first; empty for row-major. Callers
    see ``pairs`` of reals as complex numbers.
    """

    name: Name
    dtype: Type
    shape: tuple[Formula, ...]
    order: tuple[Count, ...] = ()
    pairs: bool = False

    def __post_init__(self) -> None:
        for dimension, size in enumerate(self.shape):
            if not 0 <= (size.constant or 0) <= MOST:
                raise Mismatch(str(size), f"0 to {MOST}").within(dimension).within("shape")
        _check_rank(self.shape)
        dimensions = [*range(len(self.shape))]
        if self.order and sorted(self.order) != dimensions:
            accepted = f"the numbers {dimensions} in any order"
            raise Mismatch(shown([*self.order]), accepted).within("order")
        is_last = not self.order or self.order[-1] == len(self.shape) - 1
        is_pair = self.shape and self.shape[-1].constant == 2 and is_last
        if self.pairs and not (is_pair and self.dtype.name in ("float32", "float64")):
            raise Mismatch("true", "false but for float32 or float64 of shape [..., 2]").within(
                "pairs"
            )

    def __str__(self) -> str:
        return f"{self.name}: {self.type_text()}"

    @property
    def element(self) -> str:
        """The element type that callers see."""
        return _element(self.dtype, pairs=self.pairs)

    @property
    def extents(self) -> tuple[Formula, ...]:
        """The shape that callers see."""
        return self.shape[:-1] if self.pairs else self.shape

    def type_text(self) -> str:
        """Type and shape, such as ``float32[b, 4]``, and an order other than row-major."""
        dims = self.order[:-1] if self.pairs else self.order
        order = f" in order {', '.join(map(str, dims))}" if dims else ""
        return f"{self.element}[{', '.join(map(str, self.extents))}]{order}"


def _element(dtype: Type, *, pairs: bool) -> str:
    """The element type that callers see."""
    return f"complex{16 * dtype.itemsize}" if pairs else str(dtype)


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight and all its names; a constant always comes with the package.

    A weight that ``follows`` is contiguous with the weight before it. Only the weight program reads
    one that is ``staged``. Callers may give one of ``pairs`` of reals as complex numbers. In the
    model it ``shares`` memory with others, which are given together.
    """

    name: Name
    names: tuple[Name, ...]
    dtype: Type
    shape: tuple[Count, ...]
    constant: bool
    follows: bool
    staged: bool = False
    pairs: bool = False
    shares: tuple[Name, ...] = ()

    @property
    def size(self) -> int:
        """Its bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def type_text(self) -> str:
        """The type and shape that callers see, as those of the state_dict."""
        extents = self.shape[:-1] if self.pairs else self.shape
        return f"{_element(self.dtype, pairs=self.pairs)}{list(extents)}"

    def __post_init__(self) -> None:
        _check_rank(self.shape)
        if math.prod(self.shape) > MOST // self.dtype.itemsize:
            raise Mismatch(f"{self.dtype}{[*self.shape]}", f"{MOST} bytes").within("shape")


@dataclass(frozen=True, slots=True)
class DerivedWeight:
    """A weight that the weight program computes once from others, in ``bytes`` of memory."""

    name: Name
    dtype: Type
    shape: tuple[Count, ...]
    bytes: Count

    def __post_init__(self) -> None:
        _check_rank(self.shape)
        least = math.prod(self.shape) * self.dtype.itemsize
        if self.bytes < least:
            raise Mismatch(str(self.bytes), f"{least}, the bytes of its elements, or more").within(
                "bytes"
            )


def derived_text(weights: Sequence[DerivedWeight]) -> tuple[str, ...]:
    """What the weight program makes, in a line; nothing if there is none."""
    if not weights:
        return ()
    size = sum(weight.bytes for weight in weights)
    made = tensors_text(len(weights))
    return (f"{made} of {size:,} bytes, computed from weights when they are bound",)


def tensors_text(count: int) -> str:
    """``1 tensor`` or ``COUNT tensors``."""
    return f"{count} tensor{'' if count == 1 else 's'}"


def weights_text(weights: Sequence[Weight]) -> str:
    """The number of the weights, and their bytes."""
    return f"{tensors_text(len(weights))} of {sum(one.size for one in weights):,} bytes"


def _check_rank(shape: tuple[Any, ...]) -> None:
    if len(shape) > MOST_DIMENSIONS:
        found = f"a list of {len(shape)}"
        raise Mismatch(found, f"at most {MOST_DIMENSIONS} dimensions").within("shape")


@dataclass(frozen=True, slots=True)
class KernelArg:
    """A parameter of a kernel: a pointer to ``dtype``, or an integer of ``dtype``."""

    dtype: Type
    pointer: bool
    written: bool  # the kernel may store there
    in_place: bool = False  # and changes what is there; tuning puts it back


@dataclass(frozen=True, slots=True)
class MapSource:
    """A rectangle of memory that a kernel reads by a descriptor; its formulas are in a0, a1, ...

    These are the integer arguments by their places. Numbers are of elements; the innermost side is
    the last, with neighbours beside each other.
    """

    pointer: Count  # the place of the argument
    offset: Formula
    sizes: tuple[Formula, ...]
    strides: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class MapForm:
    """What code expects of a descriptor, in the numbers of cuTensorMapEncodeTiled."""

    swizzle: Count
    element: Count
    box: tuple[Small, ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """A kernel compiled for one target, and its launch configuration."""

    file: File
    sha256: Sha256
    bytes: Count
    symbol: Identifier
    num_warps: Small
    num_ctas: Small
    shared: Count
    global_scratch: Count
    global_scratch_align: Small
    registers: Count
    spills: Count
    starts_early: bool  # programmatic dependent launch
    maps: tuple[MapForm, ...] = ()  # it takes descriptors behind its arguments
    carveout: Percent = 0  # of a multiprocessor's shared memory; 0: the driver chooses


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A number of warps that the build gave up, for it spilled."""

    num_warps: Small
    spills: Count


@dataclass(frozen=True, slots=True)
class Kernel:
    name: Annotated[str, PLACE]
    args: tuple[KernelArg, ...]
    source: File
    moved: Formula  # bytes that a launch moves, in the model's sizes
    flops: Formula  # of its products
    binaries: Mapping[Identifier, Binary]
    refused: Mapping[Identifier, tuple[GivenUp, ...]] = field(default_factory=dict)
    maps: tuple[MapSource, ...] = ()
    reads_early: bool = False  # state and inputs, before it waits for the launch before

    def __post_init__(self) -> None:
        for number, source in enumerate(self.maps):
            self._check_map(number, source)
        for target, binary in self.binaries.items():
            if len(binary.maps) > len(self.maps):
                mismatch = Mismatch(
                    f"{len(binary.maps)}", f"{len(self.maps)} at most, as many as the kernel's"
                )
                raise mismatch.within("maps").within(target).within("binaries")
            if binary.symbol != self.name:
                mismatch = Mismatch(shown(binary.symbol), f"{self.name}, the kernel's name")
                raise mismatch.within("symbol").within(target).within("binaries")

    def _check_map(self, number: int, source: MapSource) -> None:
        """A descriptor is of an argument that is a pointer, and its formulas are of integers."""
        pointers = {place for place, arg in enumerate(self.args) if arg.pointer}
        integers = {f"a{place}" for place, arg in enumerate(self.args) if not arg.pointer}
        used = {
            name for one in (source.offset, *source.sizes, *source.strides) for name in one.names
        }
        sides = len(source.sizes)
        if source.pointer not in pointers or not used <= integers or len(source.strides) != sides:
            accepted = "a pointer, and formulas of integer arguments"
            raise Mismatch("a descriptor of others", accepted).within(number).within("maps")


@dataclass(frozen=True, slots=True)
class TorchCall:
    """An operator that torch runs; it writes the last ``results`` of the passed values.

    In ``args`` and ``kwargs``, as read from JSON, {"passed": n} stands for passed value n,
    {"dtype": name} for a type, {"float": text} for a number that JSON lacks.
    """

    operator: Operator
    args: tuple[Argument, ...]
    kwargs: Mapping[Identifier, Argument]
    dtypes: tuple[Type | None, ...]  # of the passed values; None for an integer
    results: Count
    reason: str  # why it has no kernel

    def __post_init__(self) -> None:
        passed = len(self.dtypes)
        if self.results > passed:
            raise Mismatch(str(self.results), f"at most {passed}, the values passed").within(
                "results"
            )
        for key, argument in (("args", [*self.args]), ("kwargs", [*self.kwargs.values()])):
            if max(_numbers_of(argument), default=-1) >= passed:
                raise Mismatch("a number of a passed value", f"below {passed}").within(key)


@dataclass(frozen=True, slots=True)
class Host:
    """The requirements of CPU code."""

    machine: Name
    arch: Name


def _numbers_of(argument: Any) -> list[int]:
    """The passed values that an argument takes."""
    if isinstance(argument, list):
        return [number for part in argument for number in _numbers_of(part)]
    return [argument["passed"]] if isinstance(argument, dict) and "passed" in argument else []
