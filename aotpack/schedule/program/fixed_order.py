"""Deterministic scatters: a sort and sums in a fixed order, in place of atomics.

    for p: y[i[p]] += v[p]

    ->  keys, order = sort(i)                             equal keys keep the order of their points
        s[p] = v[order[p]]
        for d in 1, 2, 4, ...:  s[p] += s[p + d] where keys[p + d] == keys[p]
        y[t] = base[t] + s[place] where keys[place] == t, the first place with t's key

After step ``d``, ``s[p]`` holds the next 2*d points of its key: one tree for each element, the same
in every run. "set" takes the last point of a key, as a loop does. Integer scatters stay atomic:
they are exact in any order. So do scatters whose points cannot collide.
"""

from dataclasses import dataclass, field, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import axes_in, delinearize, flatten_index, points
from aotpack.ir.names import free_name
from aotpack.ir.operations import Pointwise, Scatter, Sort
from aotpack.ir.ops.conditions import bounds_checks, range_checks
from aotpack.ir.ops.fold import fold, integer_value
from aotpack.ir.ordering import bool_op, clamped_index, int64_op, search, unless_empty
from aotpack.ir.program import Buffer, Operation, Program
from aotpack.ir.rewrite import Rewriter, as_index
from aotpack.ir.symbolic.facts import bounds, known_le
from aotpack.ir.symbolic.integers import Axis, Int, Var, minimum, product
from aotpack.ir.values import Apply, Guarded, Load, Value

COMBINE = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}


def fix_order(program: Program) -> Program:
    """Replace each scatter that depends on an order by a sort and sums in a fixed order.

    The same object if there is none.
    """
    buffers = dict(program.buffers)
    operations: list[Operation] = []
    for operation in program.operations:
        if isinstance(operation, Scatter) and _depends_on_order(operation, program):
            operations += _Ordered(operation, buffers, program.sizes).expand()
        else:
            operations.append(operation)
    if len(operations) == len(program.operations):
        return program
    return replace(program, operations=tuple(operations), buffers=buffers)


def _depends_on_order(scatter: Scatter, program: Program) -> bool:
    """True if points may collide, and the result depends on which comes first."""
    if scatter.kind != "set" and not program.buffers[scatter.target].dtype.is_float:
        return False
    own = _own_axes(scatter, program.buffers[scatter.target].shape).values()
    return bounds(points(axis for axis in scatter.axes if axis not in own))[1] > 1


def _own_axes(scatter: Scatter, shape: tuple[Int, ...]) -> dict[int, Axis]:
    """The dimensions that one axis indexes alone: points that differ there never collide."""
    found: dict[int, Axis] = {}
    for dim, (part, size) in enumerate(zip(scatter.index, shape, strict=True)):
        axis = part.atom
        if isinstance(axis, Axis) and axis not in found.values() and known_le(axis.extent, size):
            found[dim] = axis
    return found


@dataclass(slots=True)
class _Ordered:
    """One scatter being expanded into ``operations``; new buffers are declared in ``buffers``."""

    scatter: Scatter
    buffers: dict[str, Buffer]
    sizes: tuple[Var, ...]
    operations: list[Operation] = field(default_factory=list)
    shape: tuple[Int, ...] = field(init=False)
    own: dict[int, Axis] = field(init=False)  # by dimension
    keyed: tuple[int, ...] = field(init=False)  # the other dimensions
    colliding: tuple[Axis, ...] = field(init=False)  # axes whose points may collide
    lanes: tuple[Axis, ...] = field(init=False)  # the other axes, of the values
    rows: tuple[Axis, ...] = field(init=False)  # the lanes that keys depend on
    point: Axis = field(init=False)  # all colliding axes as one

    def __post_init__(self) -> None:
        self.shape = self.buffers[self.scatter.target].shape
        self.own = _own_axes(self.scatter, self.shape)
        self.keyed = tuple(dim for dim in range(len(self.shape)) if dim not in self.own)
        self.lanes = tuple(self.own.values())
        self.colliding = tuple(axis for axis in self.scatter.axes if axis not in self.lanes)
        used = axes_in(self._keyed(self.scatter.index))
        self.rows = tuple(axis for axis in self.lanes if axis in used)
        self.point = self._axis("p", points(self.colliding))

    def expand(self) -> list[Operation]:
        """The operations, in order."""
        keys, order = self._sorted(self._keyed(self.scatter.index))
        values = self._values(order)
        if self.scatter.kind != "set":
            values = self._combined(values, keys)
        self._result(keys, values)
        return self.operations

    @property
    def count(self) -> Int:
        """The number of points that may collide."""
        return self.point.extent

    def _sorted(self, places: tuple[Int, ...]) -> tuple[str, str]:
        """The buffers of the sorted keys and of their points; keys outside the target are last."""
        shape = self._keyed(self.shape)
        key: Value = integer_value(flatten_index(places, shape))
        for condition in bounds_checks(places, shape):
            key = int64_op("where", condition, key, integer_value(product(shape)))
        key = Rewriter(delinearize(self.colliding, Int.of(self.point)))(key)
        axes = (*self.rows, self.point)
        unsorted = self._pointwise("keys", axes, key, DType.INT64)
        keys, order = (self._declare(role, axes, DType.INT64) for role in ("sorted", "order"))
        value = self._load(unsorted, axes)
        sort = Sort((keys, order), axes, self.point, value, descending=False)
        self.operations.append(replace(sort, origin=self.scatter.origin))
        return keys, order

    def _values(self, order: str) -> str:
        """The values in the order of their keys."""
        at = as_index(self._load(order, (*self.rows, self.point)), self.count)
        value = Rewriter(delinearize(self.colliding, at))(self.scatter.value)
        return self._pointwise("value", (*self.lanes, self.point), value)

    def _combined(self, values: str, keys: str) -> str:
        """At each place, the values of its key from there on, combined by doubling."""
        lanes, rows = (*self.lanes, self.point), (*self.rows, self.point)
        step = 1
        while step < min(bounds(self.count)[1], 2**31):
            there = Int.of(self.point) + step
            mine, theirs = self._load(values, lanes), self._load(values, (*self.lanes, there))
            same = bool_op("eq", self._load(keys, (*self.rows, there)), self._load(keys, rows))
            more = Apply("where", (same, self._combine(mine, theirs), mine), mine.dtype)
            inside_row = bool_op("lt", integer_value(there), integer_value(self.count))
            value = fold(Guarded(inside_row, more, mine, mine.dtype))
            values = self._pointwise("value", lanes, value)
            step *= 2
        return values

    def _combine(self, a: Value, b: Value) -> Value:
        return Apply(COMBINE[self.scatter.kind], (a, b), a.dtype)

    def _result(self, keys: str, values: str) -> None:
        """Each element of the target, combined with the values of its key."""
        axes = tuple(self._axis(f"t{dim}", size) for dim, size in enumerate(self.shape))
        index = tuple(map(Int.of, axes))
        at_lane = {  # nothing was scattered past an axis shorter than the target
            axis: minimum(index[dim], axis.extent - 1) for dim, axis in self.own.items()
        }
        key = integer_value(flatten_index(self._keyed(index), self._keyed(self.shape)))
        rows = tuple(at_lane[axis] for axis in self.rows)
        over = tuple(
            axis for dim, axis in enumerate(axes) if dim in self.keyed or self.own[dim] in self.rows
        )
        place = self._load(
            self._pointwise("place", over, self._place(keys, key, rows), DType.INT64), over
        )
        at = clamped_index(int64_op("maximum", place, integer_value(0)), self.count)
        read = product([self.count, *(axis.extent for axis in self.own.values())])
        found = unless_empty(read, bool_op("eq", self._load(keys, (*rows, at)), key))
        first, end = integer_value(0), integer_value(self.count)
        conditions = [bool_op("ge", place, first), bool_op("lt", place, end)]
        for dim, axis in self.own.items():
            conditions += range_checks(index[dim], 0, axis.extent)
        for condition in conditions:
            found = bool_op("logical_and", found, condition)
        base = self._load(self.scatter.base, axes)
        lanes = (*(at_lane[axis] for axis in self.lanes), at)
        mine = unless_empty(read, self._load(values, lanes))
        new = mine if self.scatter.kind == "set" else self._combine(base, mine)
        value = fold(Apply("where", (found, new, base), base.dtype))
        self.operations.append(
            Pointwise(self.scatter.target, axes, value, index, self.scatter.origin)
        )

    def _place(self, keys: str, key: Value, rows: tuple[Int, ...]) -> Value:
        """The first place of a key; for "set" the last."""
        is_set, longest = self.scatter.kind == "set", int(min(bounds(self.count)[1], 2**31))

        def is_before(place: Value) -> Value:
            there = self._load(keys, (*rows, clamped_index(place, self.count)))
            return bool_op("le" if is_set else "lt", there, key)

        place = search(integer_value(0), integer_value(self.count), longest, is_before)
        place = unless_empty(self.count, place)
        return int64_op("sub", place, integer_value(1)) if is_set else place

    def _keyed(self, per_dimension: tuple[Int, ...]) -> tuple[Int, ...]:
        return tuple(per_dimension[dim] for dim in self.keyed)

    # --- buffers and axes

    def _pointwise(
        self, role: str, axes: tuple[Axis, ...], value: Value, dtype: DType | None = None
    ) -> str:
        """A new buffer over some axes, with its operation."""
        name = self._declare(role, axes, dtype or self.buffers[self.scatter.target].dtype)
        index = tuple(map(Int.of, axes))
        self.operations.append(Pointwise(name, axes, value, index, self.scatter.origin))
        return name

    def _declare(self, role: str, axes: tuple[Axis, ...], dtype: DType) -> str:
        name = free_name(f"{self.scatter.target}_{role}", self.buffers)
        self.buffers[name] = Buffer(name, dtype, tuple(axis.extent for axis in axes))
        return name

    def _load(self, name: str, index: tuple[Axis | Int, ...]) -> Load:
        return Load(name, tuple(map(Int.of, index)), self.buffers[name].dtype.compute)

    def _axis(self, name: str, extent: Int) -> Axis:
        """A new axis, with no name of a size or of the scatter's axes."""
        taken = {axis.name for axis in self.scatter.axes} | {size.name for size in self.sizes}
        while name in taken:
            name += "_"
        return Axis(name, extent)
