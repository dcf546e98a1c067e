"""Products on processors read weights in panels, which the weight program writes once.

    y[m, n] = sum over k of x[m, k] * w[n, k]

    ->  once:  p[n // 32, k, n % 32] = w[n, k]                            zeros beyond the last n
        y[m, n] = sum over k of x[m, k] * p[n // 32, k, n % 32]

Vectors of neighbouring n then lie one behind the other along the depth, as kernels read them: no
call packs weights. Products of few rows read weights where they lie, so they keep them.
"""

from dataclasses import dataclass, replace

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import dot, flatten_index, has_digits, in_order, local_slope
from aotpack.ir.names import free_name
from aotpack.ir.operations import Matmul, Pointwise
from aotpack.ir.ops.conditions import bounds_checks
from aotpack.ir.origin import Origin
from aotpack.ir.program import Buffer, Operation, Program, reads, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import bounds, typical
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var, ceil_div, product
from aotpack.ir.values import Apply, Const, Guarded, Load, Value, walk
from aotpack.schedule.layout import contiguous_by_contract, is_free_to_permute
from aotpack.schedule.program.dead_code import remove_dead_code

PANEL = 32  # columns: two vectors of the widest registers
FEW = 16  # rows up to which kernels read weights in the order of checkpoints
LANES = 16  # of a vector
TURN = 6  # the cost of adding up the lanes of a vector, in products of vectors


@dataclass(frozen=True, slots=True)
class Side:
    """A factor that is a weight, its axis, and the other factor with its axis."""

    slot: str
    load: Load
    axis: Axis
    other: Value
    rows: Axis


def lay_in_panels(program: Program, state: frozenset[str]) -> Program:
    """Write weights in panels for the products that read them; the same object without any.

    Not the ``state`` that other methods of the package change.
    """
    panels = _Panels(program, state)
    operations = tuple(map(panels.reading, program.operations))
    return panels.program(operations) if panels.made else program


class _Panels:
    """The panels of a program's weights, one for each way in which products read a weight."""

    def __init__(self, program: Program, state: frozenset[str]) -> None:
        self._program = program
        self._fixed = contiguous_by_contract(program)
        self._kept = {*state, *(update.name for update in program.updates)}
        self._parts = {packed.name: packed.parts for packed in program.packed}
        self.made: dict[tuple[str, Value, tuple[Axis, ...]], Pointwise] = {}
        self._buffers: dict[str, Buffer] = {}

    def reading(self, operation: Operation) -> Operation:
        """The operation with its weight in panels; the same object where that does not pay."""
        side = None if not isinstance(operation, Matmul) else self._side(operation)
        if side is None:
            return operation
        assert isinstance(operation, Matmul)
        panel = self._panel(operation, side)
        extents = (*(axis.extent for axis in operation.batch), panel.axes[-3].extent)
        own = Int.of(side.axis)
        row = flatten_index((*map(Int.of, operation.batch), own // PANEL), extents)
        place = (row * operation.k.extent + Int.of(operation.k), own % PANEL)
        read = Load(panel.target, place, side.load.dtype)
        if side.slot == "lhs":
            return replace(operation, lhs=read)
        return replace(operation, rhs=read)

    def program(self, operations: tuple[Operation, ...]) -> Program:
        """The program of these operations, and the weight program with the panels."""
        old = self._program
        read = {name for operation in operations for name in reads(operation)} | {*old.results}
        unread = {*old.derived, *self._parts} - read
        made = tuple(panel.target for panel in self.made.values())
        weights = (*(name for name in old.weights if name not in unread), *made)
        buffers = old.buffers | self._buffers
        names = (name for name in (*old.inputs, *weights, *buffers) if name not in unread)
        return replace(
            old,
            operations=operations,
            buffers={name: buffers[name] for name in dict.fromkeys(names)},
            weights=weights,
            packed=tuple(packed for packed in old.packed if packed.name not in unread),
            weight_program=self._weight_program(set(old.derived) - unread, made),
        )

    def _weight_program(self, kept: set[str], made: tuple[str, ...]) -> Program:
        """The weight program with panels; copies that only these read need no memory."""
        old, before = self._program, self._program.weight_program
        operations = (*(before.operations if before else ()), *self.made.values())
        written = {name for operation in operations for name in targets(operation)}
        read = {name for operation in operations for name in reads(operation)} - written
        known = old.buffers | (before.buffers if before else {}) | self._buffers
        buffers = {
            name: replace(one, unfusable=False) if name in written - kept else one
            for name, one in known.items()
            if name in written | read
        }
        weights = tuple(name for name in old.weights if name in read)
        outputs = (*(name for name in old.derived if name in kept), *made)
        return remove_dead_code(Program((), buffers, (), weights, operations, outputs))

    def _side(self, matmul: Matmul) -> Side | None:
        """The factor of a product that goes into panels, if one does."""
        if matmul.operand is not DType.FLOAT32:
            return None
        for slot, value, axis, other, rows in (
            ("rhs", matmul.rhs, matmul.n, matmul.lhs, matmul.m),
            ("lhs", matmul.lhs, matmul.m, matmul.rhs, matmul.n),
        ):
            if isinstance(value, Load) and self._is_weight(value):
                side = Side(slot, value, axis, other, rows)
                return side if self._is_worth(matmul, side) else None
        return None

    def _is_weight(self, load: Load) -> bool:
        """True for a float32 weight at known places, in no panels, that forward does not change."""
        buffer = self._program.buffers[load.buffer]
        if load.buffer not in self._program.weights or buffer.dtype is not DType.FLOAT32:
            return False
        if len(buffer.shape) == 2 and buffer.shape[-1].constant == PANEL:
            return False  # it lies in panels
        leaves = [leaf for part in load.index for leaf in part.leaves()]
        names = {load.buffer, *self._parts.get(load.buffer, ())}
        return not names & self._kept and not any(isinstance(x, (Indirect, Var)) for x in leaves)

    def _is_worth(self, matmul: Matmul, side: Side) -> bool:
        """True for many rows that run along the depth in memory, and columns that fill vectors."""
        rows, columns, depth = side.rows.extent, side.axis.extent.constant, matmul.k.extent
        extents = (*(axis.extent for axis in matmul.batch), depth)
        if bounds(rows)[0] <= FEW or columns is None:
            return False
        if any(extent.constant is None for extent in extents):
            return False
        sums, dots = -(-columns // LANES) * typical(depth), typical(depth) // LANES + TURN
        return sums <= columns * dots and all(
            self._runs_along(load, matmul.k)
            for load in walk((side.other,))
            if isinstance(load, Load)
        )

    def _runs_along(self, load: Load, k: Axis) -> bool:
        """True for elements that neighbour along ``k`` in memory, or may be laid out so."""
        buffer = self._program.buffers[load.buffer]
        if load.buffer in self._fixed or not is_free_to_permute(buffer):
            return local_slope(dot(load.index, in_order(buffer.shape, buffer.order)), k) == 1
        steps = [local_slope(part, k) for part in load.index]
        return [step for step in steps if step != 0] == [1] or not has_digits(load.index, k)

    def _panel(self, matmul: Matmul, side: Side) -> Pointwise:
        """The operation that writes panels: axes for the batch, panels, depth and lanes."""
        depth, columns = matmul.k.extent, side.axis.extent
        extents = (*(axis.extent for axis in matmul.batch), ceil_div(columns, PANEL), depth)
        names = [f"i{number}" for number in range(len(extents) + 1)]
        axes = tuple(map(Axis, names, (*extents, Int.of(PANEL))))
        *outer, panel, k, lane = map(Int.of, axes)
        own = panel * PANEL + lane
        places = dict(zip((*matmul.batch, side.axis, matmul.k), (*outer, own, k), strict=True))
        key = side.load.buffer, Rewriter(places)(side.load), axes
        if key not in self.made:
            conditions = bounds_checks((own,), (columns,))
            value = _guarded(conditions, self._unpacked(side.load, places))
            taken = self._program.buffers.keys() | self._buffers.keys()
            name = free_name(f"{side.load.buffer}_panels", taken)
            flat = flatten_index((*outer, panel, k), extents)
            self._buffers[name] = Buffer(name, DType.FLOAT32, (product(extents), Int.of(PANEL)))
            origin = Origin(matmul.origin.nodes, ("panels",), matmul.origin.sources)
            self.made[key] = Pointwise(name, axes, value, (flat, lane), origin)
        return self.made[key]

    def _unpacked(self, load: Load, places: dict[Axis, Int]) -> Value:
        """The element of a weight, or of the part of a packed weight that it lies in."""
        moved = Rewriter(places)(load)
        assert isinstance(moved, Load)
        parts = self._parts.get(load.buffer)
        if parts is None:
            return moved
        first, *rest = moved.index
        found: Value = Const(0.0, load.dtype)
        for part in parts:
            size = self._program.buffers[part].shape[0]
            element = Load(part, (first, *rest), load.dtype)
            found = _guarded(bounds_checks((first,), (size,)), element, found)
            first = first - size
        return found


def _guarded(conditions: list[Value], value: Value, otherwise: Value | None = None) -> Value:
    """A value where all conditions hold; elsewhere another, or 0."""
    if not conditions:
        return value
    first, *rest = conditions
    for condition in rest:
        first = Apply("logical_and", (first, condition), DType.BOOL)
    other = Const(0.0, value.dtype) if otherwise is None else otherwise
    return Guarded(first, value, other, value.dtype)
