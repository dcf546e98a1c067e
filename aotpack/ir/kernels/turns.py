"""A counted loop as one launch: what each program of it computes in a turn, from its own elements.

    for t < turns:                               for t < turns:
        p[i, j] = sum(h[i, k] * w[j, k])             for i, u of the program:
        y[i, j] = p[i, j] + x[t, i, j]      ->           h[i, u] = f(p[i, u] + x[t, i, u],
        h[i, u] = f(y[i, u], y[i, u + n])                            p[i, u + n] + x[t, i, u + n])
                                                     wait for the other programs of the row

A program owns rows and units of the state. All that it needs of others are the states that products
multiply; these are ``exchanged``. Everything between is computed where it is used.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from aotpack.ir.kernels.access import axes_of
from aotpack.ir.kernels.kernel import Kernel, Schedule
from aotpack.ir.operations import Matmul, Pointwise, Scatter
from aotpack.ir.program import Loop, Operation, Program, targets
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.facts import known_equal, known_le, known_one
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Load, Value, loads_below

MOST_INLINED = 64  # results of operations, each at one index; they are inlined by nested calls


@dataclass(frozen=True, slots=True)
class Window:
    """Columns of a product from ``first`` on, as many as units; values read them as ``name``.

    The left factor of ``product`` is over row and k, the right one over k and unit.
    """

    name: str
    product: Matmul
    first: int


@dataclass(frozen=True, slots=True)
class Write:
    """``buffer[index] = value``, in each turn, for each row and unit."""

    buffer: str
    index: tuple[Int, ...]
    value: Value


@dataclass(frozen=True, slots=True)
class Turns:
    """A loop over ``turn``. ``carried`` are states, written at (row, unit); ``stacked`` others.

    The state ``exchanged`` is the left factor of all ``windows``; "" without any.
    """

    row: Axis
    unit: Axis
    turn: Axis
    carried: tuple[Write, ...]
    stacked: tuple[Write, ...]
    windows: tuple[Window, ...]
    exchanged: str

    @property
    def stride(self) -> int:
        """The distance between the windows of one product, if all have the same; else 0."""
        firsts = [window.first for window in self.windows]
        steps = {b - a for a, b in pairwise(firsts)}
        targets = {window.product.target for window in self.windows}
        return steps.pop() if len(steps) == len(targets) == 1 else 0


class NotHeld(Exception):
    """Why a loop is not one launch."""


def turns_of(kernel: Kernel) -> Turns | None:
    """The turns of a loop, if each program can compute its elements in one launch."""
    loop = kernel.control
    if not isinstance(loop, Loop) or loop.turn is None or not isinstance(loop.condition, Int):
        return None
    if len(kernel.parts) != 2 or not _is_plain(kernel.parts[0]):
        return None
    try:
        return _Analysis(loop, kernel.parts[1].program).turns()
    except NotHeld:
        return None


def _is_plain(entry: Schedule) -> bool:
    """True for launches that need no memory of their own."""
    kernels = entry.kernels
    is_bare = not any(k.is_opaque or k.exchange or k.counters or k.unfused for k in kernels)
    return is_bare and not entry.lifetimes


class _Analysis:
    """The operations of a body as values of a row and a unit, in axes of the launch."""

    def __init__(self, loop: Loop, body: Program) -> None:
        assert loop.turn is not None and isinstance(loop.condition, Int)
        self._makers = {name: o for o in body.operations for name in targets(o)}
        self._given = frozenset(body.inputs)
        self._updates = {update.name: update.value for update in body.updates}
        self._dtypes = {name: buffer.dtype for name, buffer in body.buffers.items()}
        self._turn = Axis(loop.turn.name, loop.condition)
        self._of_turn = {loop.turn: Int.of(self._turn)}
        self._row, self._unit = self._domain()
        self._windows: dict[Load, Window] = {}
        self._inlined: dict[Load, Value] = {}
        self._begun = set[Load]()

    def turns(self) -> Turns:
        """The turns; NotHeld if some element needs more than its program has."""
        made = {name: self._makers.get(value) for name, value in self._updates.items()}
        carried = tuple(
            self._carried(name, one) for name, one in made.items() if isinstance(one, Pointwise)
        )
        stacked = tuple(
            self._stacked(name, one) for name, one in made.items() if isinstance(one, Scatter)
        )
        if len(carried) + len(stacked) < len(made):
            raise NotHeld("a result is neither a state nor a stack of states")
        exchanged = self._exchanged({one.buffer for one in carried})
        self._check_reads((*carried, *stacked))
        axes, windows = (self._row, self._unit, self._turn), tuple(self._in_order())
        return Turns(*axes, carried, stacked, windows, exchanged)

    def _in_order(self) -> list[Window]:
        """The windows of each product by their columns."""
        return sorted(self._windows.values(), key=lambda one: (one.product.target, one.first))

    def _domain(self) -> tuple[Axis, Axis]:
        """Row and unit, as long as the last dimensions of the results."""
        makers = [self._makers.get(value) for value in self._updates.values()]
        axes = next((one.axes for one in makers if isinstance(one, (Pointwise, Scatter))), ())
        if len(axes) not in (1, 2):
            raise NotHeld("its results are not of rows and units")
        rows = axes[0].extent if len(axes) == 2 else Int.of(1)
        return Axis("row", rows), Axis("unit", axes[-1].extent)

    # --- results

    def _carried(self, name: str, made: Pointwise) -> Write:
        if tuple(map(Int.of, made.axes)) != made.index:
            raise NotHeld(f"{name} is not written in its order")
        place = self._place(made.axes)
        return Write(name, place, self._value(made, place))

    def _stacked(self, name: str, made: Scatter) -> Write:
        turn, *rest = made.index
        is_slice = turn.substitute(self._of_turn) == Int.of(self._turn)
        if made.kind != "set" or made.base != name or not is_slice:
            raise NotHeld(f"{name} is not a stack with a slice for each turn")
        if tuple(map(Int.of, made.axes)) != tuple(rest):
            raise NotHeld(f"{name} is not written in its order")
        place = self._place(made.axes)
        return Write(name, (Int.of(self._turn), *place), self._value(made, place))

    def _place(self, axes: tuple[Axis, ...]) -> tuple[Int, ...]:
        """Row and unit for the axes of a result."""
        own = (self._row, self._unit)[-len(axes) :]
        if not 1 <= len(axes) <= 2 or (len(axes) == 1 and not known_one(self._row.extent)):
            raise NotHeld("its results are not of rows and units")
        if not all(known_equal(a.extent, b.extent) for a, b in zip(axes, own, strict=True)):
            raise NotHeld("its results differ in rows or units")
        return tuple(map(Int.of, own))

    # --- values

    def _value(self, made: Pointwise | Scatter, place: tuple[Int, ...]) -> Value:
        """What an operation computes at a place."""
        return self._moved(dict(zip(made.axes, place, strict=True)), made.value)

    def _moved(self, place: Mapping[Axis, Int], value: Value) -> Value:
        """A value of an operation with these points, in the axes of the launch."""
        return Rewriter({**place, **self._of_turn}, self._made)(value)

    def _made(self, load: Load) -> Value | None:
        """What a load stands for, in the axes of the launch; None for memory around the loop."""
        if load.buffer in self._given:
            return None
        if load not in self._inlined:
            maker = self._maker(load)
            if isinstance(maker, Pointwise) and tuple(map(Int.of, maker.axes)) == maker.index:
                self._inlined[load] = self._value(maker, load.index)
            elif isinstance(maker, Matmul) and not maker.batch:
                self._inlined[load] = self._window(load, maker)
            else:
                raise NotHeld(f"{load.buffer} is neither of points nor a product")
        return self._inlined[load]

    def _maker(self, load: Load) -> Operation:
        """The operation that computes a load which is not inlined yet."""
        self._begun.add(load)
        if len(self._begun) > MOST_INLINED:
            raise NotHeld("a turn computes too much for each of its elements")
        if load.buffer not in self._makers:
            raise NotHeld(f"{load.buffer} is written in parts")
        return self._makers[load.buffer]

    def _window(self, load: Load, product: Matmul) -> Load:
        """Some columns of a product, at the row and unit of a program."""
        row, column = load.index
        first = (column - Int.of(self._unit)).constant
        if not self._is_axis(row, self._row) or first is None or first < 0:
            raise NotHeld(f"{load.buffer} is read at other rows, or not by units")
        if not known_equal(product.m.extent, self._row.extent):
            raise NotHeld(f"{load.buffer} has other rows")
        if not known_le(self._unit.extent + first, product.n.extent):
            raise NotHeld(f"{load.buffer} has fewer columns than units")
        lhs = Rewriter({product.m: Int.of(self._row), **self._of_turn})(product.lhs)
        rhs = self._moved({product.n: Int.of(self._unit) + first}, product.rhs)
        name = f"{load.buffer}@{first}"
        self._windows[load] = Window(name, replace(product, lhs=lhs, rhs=rhs), first)
        return Load(name, (Int.of(self._row), Int.of(self._unit)), load.dtype)

    # --- what programs read

    def _exchanged(self, states: Collection[str]) -> str:
        """The state that products multiply by what no turn writes; "" without products."""
        found = set[str]()
        changing = {*self._updates, *(window.name for window in self._windows.values())}
        for window in self._windows.values():
            lhs, rhs, k = window.product.lhs, window.product.rhs, window.product.k
            if not isinstance(lhs, Load) or lhs.buffer not in states:
                raise NotHeld("a product is not of a state")
            if not self._is_axis(lhs.index[-1], k) or not self._is_row(lhs.index[:-1]):
                raise NotHeld("a product does not take a state as it is")
            if not known_equal(k.extent, self._unit.extent):
                raise NotHeld("a product does not sum over units")
            if self._dtypes[lhs.buffer] is not window.product.operand:
                raise NotHeld("a product rounds a state")
            if any(load.buffer in changing for load in loads_below((rhs,))):
                raise NotHeld("a product is of two states")
            if self._turn in axes_of((rhs,)):
                raise NotHeld("a product has another right factor in each turn")
            found.add(lhs.buffer)
        if len(found) > 1:
            raise NotHeld("products are of several states")
        return "".join(found)

    def _check_reads(self, writes: tuple[Write, ...]) -> None:
        """Of what turns write, a program reads its own elements of states."""
        for load in loads_below(tuple(one.value for one in writes)):
            if load.buffer in self._updates and not self._is_own(load):
                raise NotHeld(f"{load.buffer} is read at other places than it is written")

    def _is_own(self, load: Load) -> bool:
        *row, unit = load.index
        is_state = isinstance(self._makers.get(self._updates[load.buffer]), Pointwise)
        return is_state and self._is_row(tuple(row)) and self._is_axis(unit, self._unit)

    def _is_row(self, index: tuple[Int, ...]) -> bool:
        return len(index) < 2 and all(self._is_axis(part, self._row) for part in index)

    def _is_axis(self, index: Int, axis: Axis) -> bool:
        """True for an axis; one of a single point may be 0."""
        return index == Int.of(axis) or (known_one(axis.extent) and index.constant == 0)
