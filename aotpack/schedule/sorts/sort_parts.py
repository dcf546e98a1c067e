"""Shared parts of sort expansion: rows, and new buffers, axes and operations."""

from collections.abc import Callable
from dataclasses import dataclass, field

from aotpack.ir.dtypes import DType
from aotpack.ir.names import free_name
from aotpack.ir.operations import Pointwise, Reduction, Sort
from aotpack.ir.ops.fold import fold, integer_value
from aotpack.ir.ordering import Key, bool_op, key_of
from aotpack.ir.program import Buffer, Operation
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Guarded, Load, Value

COUNT = DType.INT32  # of counts in a run


@dataclass(frozen=True, slots=True)
class Row:
    """A row to sort: its size, its elements, and their positions in the sort's own row."""

    size: Int
    element: Callable[[Int], Value]
    position: Callable[[Int], Value]


@dataclass(slots=True)
class Parts:
    """One sort being expanded into ``operations``; new buffers are declared in ``buffers``."""

    sort: Sort
    buffers: dict[str, Buffer]
    operations: list[Operation] = field(default_factory=list)

    def declared(self, length: Int, *, unfusable: bool = False) -> tuple[str, str]:
        """New buffers for elements and positions, rows of some length."""
        values, positions = (
            self.declare(f"{target}_run", self.buffers[target].dtype, length, unfusable=unfusable)
            for target in self.sort.targets
        )
        return values, positions

    def declare(self, stem: str, dtype: DType, length: Int, *, unfusable: bool = False) -> str:
        """A new buffer with rows of some length."""
        name = free_name(stem, self.buffers)
        self.buffers[name] = Buffer(name, dtype, self.shape(length), unfusable)
        return name

    def key(self, element: Value, *, descending: bool = False) -> Key:
        """The key of an element, by the type it is stored in."""
        stored = element.dtype
        if isinstance(element, Load):
            stored = self.buffers[element.buffer].dtype
        return key_of(element, stored, descending=descending)

    def temporary(self, role: str, axes: tuple[Axis, ...], dtype: DType) -> str:
        """A new buffer of integers over some axes."""
        name = free_name(f"{self.sort.targets[0]}_{role}", self.buffers)
        self.buffers[name] = Buffer(name, dtype, tuple(axis.extent for axis in axes))
        return name

    def count(self, role: str, axes: tuple[Axis, ...], inner: Axis, wins: Value) -> Load:
        """For each point of some axes, the number of points of ``inner`` where ``wins`` holds."""
        name = self.temporary(role, axes, COUNT)
        counted = fold(Apply("cast", (wins,), COUNT))
        self.operations.append(
            Reduction((name,), axes, (inner,), "sum", (counted,), self.sort.origin)
        )
        return Load(name, tuple(map(Int.of, axes)), COUNT)

    def shape(self, length: Int) -> tuple[Int, ...]:
        """The sort's shape with rows of another length."""
        sort = self.sort
        return tuple(length if axis is sort.along else axis.extent for axis in sort.axes)

    def axis(self, name: str, extent: Int) -> Axis:
        """A new axis, with no name of a size or of the sort's axes."""
        axes = self.sort.axes
        taken = {axis.name for axis in axes}
        taken |= {str(leaf) for axis in axes for leaf in axis.extent.leaves()}
        while name in taken:
            name += "_"
        return Axis(name, extent)

    def axes(self, *along: Axis) -> tuple[Axis, ...]:
        """The sort's axes, with others in place of the sorted one."""
        sort = self.sort
        parts = ((along if axis is sort.along else (axis,)) for axis in sort.axes)
        return tuple(axis for part in parts for axis in part)

    def index(self, at: Int) -> tuple[Int, ...]:
        """The index of a place in the sort's row."""
        return tuple(at if axis is self.sort.along else Int.of(axis) for axis in self.sort.axes)

    def load(self, name: str, at: Int) -> Value:
        """The element at a place of a buffer's row."""
        return Load(name, self.index(at), self.buffers[name].dtype.compute)

    def append(
        self, name: str, axes: tuple[Axis, ...], value: Value, index: tuple[Int, ...]
    ) -> None:
        """Store a value for each point of some axes."""
        self.operations.append(Pointwise(name, axes, value, index, self.sort.origin))


def inside(place: Int, size: Int, value: Value) -> Value:
    """The value where the place is in a row of that size, else zero."""
    zero = Const(False, DType.BOOL) if value.dtype is DType.BOOL else Const(0, value.dtype)
    zero = Const(0.0, value.dtype) if value.dtype.is_float else zero
    is_inside = bool_op("lt", integer_value(place), integer_value(size))
    return fold(Guarded(is_inside, value, zero, value.dtype))
