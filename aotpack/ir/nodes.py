"""The loop IR. A Program is a straight line of operations over buffers, each written once (SSA).

    program   = inputs weights operation* outputs updates
    operation = Pointwise(target, axes, value, index)        # target[index] = value, for all axes
              | Reduction(targets, axes, inner, kind, args)  # targets[axes] = kind over inner
              | Scan(targets, axes, along, kind, args)       # targets[axes] = kind up to along
              | Scatter(target, base, axes, index, value, kind)  # base, with value at index
              | Sort(targets, axes, along, value, descending)  # (values, positions) along one axis
              | Matmul(target, batch, m, n, k, lhs, rhs)     # target[batch, m, n] = sum of products
              | Attention(target, ..., query, key, value...) # target[b, h, i, e], softmax over j
              | Foreign(targets, bases, kernel, ...)         # not ours: ``ir/foreign.py``
              | Branch(targets, ...) | Loop(targets, ...)    # that run programs: ``ir/control.py``
    value     = Const | IndexValue(Int) | Load(buffer, Int*) | Apply(op, value*)
              | Guarded(condition, value, otherwise)           # loads of value only where condition
An Int (``ir/symbolic/integers.py``) may use the axes of its operation, the sizes of the model, and loaded
values (``Indirect``). Values are interned: equal values are one object. ``ir/verify/program.py`` says what
is illegal, ``ir/printer.py`` how it prints, ``ir/interpret/evaluate.py`` what it computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Union, cast

from aotpack.ir.control import Branch, Loop, captured
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Foreign as Foreign
from aotpack.ir.interning import Interned
from aotpack.ir.joined import Joined as Joined
from aotpack.ir.joined import Packed as Packed
from aotpack.ir.origin import Origin as Origin
from aotpack.ir.symbolic.integers import Axis, Indirect, Int, Var


class _Printed:
    """Prints as one expression; distinct values have distinct texts."""

    __slots__ = ()

    def __str__(self) -> str:
        from aotpack.ir.printer import value_text

        return value_text(cast("Value", self))


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Const(_Printed, metaclass=Interned):
    """A number of exactly this type. ``value`` is bool, int or float as ``dtype`` is."""

    value: bool | int | float
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class IndexValue(_Printed, metaclass=Interned):
    """An integer expression used as data."""

    index: Int
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Load(_Printed, metaclass=Interned):
    """The element of a buffer at a logical index, one Int for each dimension.

    ``dtype`` is the compute type of the buffer's: 16-bit floats load as float32, a store rounds. So
    a value never has a 16-bit float type, and replacing a load by the value that was stored keeps
    types (and only skips a rounding).
    """

    buffer: str
    index: tuple[Int, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Apply(_Printed, metaclass=Interned):
    """An elementwise operator of the op table (``ir/ops/optable.py``)."""

    op: str
    args: tuple[Value, ...]
    dtype: DType


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Guarded(_Printed, metaclass=Interned):
    """``value``, and its loads, where ``condition`` (a bool) holds, else ``otherwise``.

    Used where an index may leave its buffer: pad, cat, diagonal.
    """

    condition: Value
    value: Value
    otherwise: Value
    dtype: DType


Value = Union[Const, IndexValue, Load, Apply, Guarded]


@dataclass(frozen=True, slots=True)
class Pointwise:
    """``target[index] = value`` for every point of ``axes``; each writes an element of its own.

    ``index`` is usually the axes; it may be read from memory where that keeps the points apart.
    Elements no point writes are undefined.
    """

    target: str
    axes: tuple[Axis, ...]
    value: Value
    index: tuple[Int, ...]
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Reduction:
    """``targets[axes] = finalise(combine(lift(args) over inner))``, a kind of ``ir/ops/monoids.py``."""

    targets: tuple[str, ...]
    axes: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    kind: str
    args: tuple[Value, ...]
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Scan:
    """``targets[axes]`` = the monoid over all positions up to and with ``along``, one of axes."""

    targets: tuple[str, ...]
    axes: tuple[Axis, ...]
    along: Axis
    kind: str
    args: tuple[Value, ...]
    origin: Origin = Origin()


SCATTER_KINDS = ("set", "sum", "prod", "max", "min")


@dataclass(frozen=True, slots=True)
class Scatter:
    """``target = base``, then at each point of ``axes`` ``target[index]`` takes ``value`` in.

    ``base`` is a buffer of the target's shape and type, no value: the target may lie in its memory.
    ``index`` may hold loaded positions; points whose index lies outside the buffer are skipped.
    Kind "set" replaces the element, of several points by one of their values; the others are
    commutative monoids that combine it with those of all its points, in any order. They work on
    types with 32 or 64 bits, as atomics do: lowering widens.
    """

    target: str
    base: str
    axes: tuple[Axis, ...]
    index: tuple[Int, ...]
    value: Value
    kind: str
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Sort:
    """``targets`` = the values in order along ``along``, one of axes, and their int64 positions.

    NaN is the largest, -0.0 and 0.0 are equal, and equal values keep their order.
    """

    targets: tuple[str, ...]
    axes: tuple[Axis, ...]
    along: Axis
    value: Value
    descending: bool
    origin: Origin = Origin()


@dataclass(frozen=True, slots=True)
class Matmul:
    """``target[*batch, m, n] = sum over k of lhs * rhs``, accumulated wide, rounded once.

    ``lhs`` is a value over batch, m, k; ``rhs`` over batch, k, n: the load slots.
    Both are rounded to ``operand`` before they are multiplied; the result has its accumulator type.
    """

    target: str
    batch: tuple[Axis, ...]
    m: Axis
    n: Axis
    k: Axis
    lhs: Value
    rhs: Value
    operand: DType
    origin: Origin = Origin()

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (*self.batch, self.m, self.n)


@dataclass(frozen=True, slots=True)
class Attention:
    """``target[b, h, i, e] = sum_j softmax_j(scale * sum_d query * key + bias) * value``.

    ``query`` is a value over b, h, i, d; ``key`` over b, h, j, d; ``value`` over b, h, j, e.
    ``bias`` (added, in logits) and ``mask`` (bool, True = attend) are values over b, h, i, j;
    ``causal`` keeps j <= i. A row without any allowed j gives zeros. The factors of both products
    are rounded to ``operand``; logits, softmax and sums are in its accumulator type.
    """

    target: str
    batch: Axis
    head: Axis
    i: Axis
    j: Axis
    d: Axis
    e: Axis
    query: Value
    key: Value
    value: Value
    scale: float
    causal: bool
    bias: Value | None
    mask: Value | None
    operand: DType
    origin: Origin = Origin()

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.batch, self.head, self.i, self.e)


Computation = Union[Pointwise, Reduction, Scan, Scatter, Sort, Matmul, Attention]
Operation = Union[Computation, Foreign, Branch, Loop]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory, addressed by logical index; strides come with the schedule.

    What makes an ``alone`` one shares its kernel with nothing, and is stored.
    """

    name: str
    dtype: DType
    shape: tuple[Int, ...]
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Update:
    """The input or weight called ``name`` has the value of the buffer ``value`` after a run.

    So a change in place is a new version; operations read the one they mean.
    """

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Program:
    """Operations in execution order. Each buffer has one writer, but inputs and joined ones."""

    sizes: tuple[Var, ...]
    buffers: dict[str, Buffer]  # insertion order is definition order
    inputs: tuple[str, ...]
    weights: tuple[str, ...]  # with the names of ``packed`` ones
    operations: tuple[Operation, ...]
    outputs: tuple[str, ...]
    packed: tuple[Packed, ...] = ()
    updates: tuple[Update, ...] = ()
    joined: tuple[Joined, ...] = ()

    @property
    def results(self) -> tuple[str, ...]:
        """What a run is for: the outputs, and the new values of what it changes."""
        return (*self.outputs, *(update.value for update in self.updates))

    def __str__(self) -> str:
        from aotpack.ir.printer import program_text

        return program_text(self)


def targets(operation: Operation) -> tuple[str, ...]:
    """The buffers an operation writes."""
    if isinstance(operation, (Reduction, Scan, Sort, Foreign, Branch, Loop)):
        return operation.targets
    return (operation.target,)


def written(operation: Operation) -> tuple[Int, ...]:
    """The index at which an operation writes its targets, in its axes."""
    if isinstance(operation, (Pointwise, Scatter)):
        return operation.index
    return tuple(map(Int.of, operation.axes))


def all_axes(operation: Operation) -> tuple[Axis, ...]:
    """Every axis of an operation: those of its result, then the inner ones."""
    match operation:
        case Reduction():
            return (*operation.axes, *operation.inner)
        case Matmul():
            return (*operation.axes, operation.k)
        case Attention():
            return (*operation.axes, operation.j, operation.d)
        case _:
            return operation.axes


def values(operation: Operation) -> tuple[Value, ...]:
    """The expressions an operation computes with."""
    match operation:
        case Pointwise() | Sort():
            return (operation.value, *_indirect_values(written(operation)))
        case Reduction() | Scan():
            return operation.args
        case Scatter():
            places = (IndexValue(part, DType.INT64) for part in operation.index)
            return (operation.value, *places)
        case Matmul():
            return (operation.lhs, operation.rhs)
        case Attention(query=query, key=key, value=value, bias=bias, mask=mask):
            slots = (query, key, value, bias, mask)
            return tuple(slot for slot in slots if slot is not None)
        case Foreign() | Branch() | Loop():
            return ()


def children(value: Value) -> tuple[Value, ...]:
    """The values directly inside a value, those inside its indices included."""
    match value:
        case Load():
            return _indirect_values(value.index)
        case IndexValue():
            return _indirect_values((value.index,))
        case Apply():
            return value.args
        case Guarded():
            return (value.condition, value.value, value.otherwise)
        case Const():
            return ()


def _indirect_values(index: Iterable[Int]) -> tuple[Value, ...]:
    leaves = (leaf for part in index for leaf in part.leaves())
    return tuple(leaf.value for leaf in leaves if isinstance(leaf, Indirect))


def walk(roots: Iterable[Value]) -> tuple[Value, ...]:
    """Every value reachable from ``roots``, each once, children before parents."""
    done: dict[Value, None] = {}
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(tuple(roots))]
    while stack:
        value, ready = stack.pop()
        if ready:
            done[value] = None
        elif value not in done:
            stack.append((value, True))
            stack += [(child, False) for child in reversed(children(value)) if child not in done]
    return tuple(done)


def loads(operation: Operation) -> tuple[Load, ...]:
    """Every distinct load of an operation, in evaluation order."""
    return tuple(value for value in walk(values(operation)) if isinstance(value, Load))


def reads(operation: Operation) -> tuple[str, ...]:
    """The buffers an operation reads, each once."""
    return tuple(dict.fromkeys((*read_whole(operation), *(o.buffer for o in loads(operation)))))


def read_whole(operation: Operation) -> tuple[str, ...]:
    """The buffers an operation reads without loads: overwritten ones, operands, captured ones."""
    if isinstance(operation, (Branch, Loop)):
        return captured(operation)
    calls = operation.operands if isinstance(operation, Foreign) else ()
    return (*(base for _, base in overwritten(operation)), *calls)


def overwritten(operation: Operation) -> tuple[tuple[str, str], ...]:
    """(target, base) for each target that is its base with changes, and may lie in its memory."""
    if isinstance(operation, Scatter):
        return ((operation.target, operation.base),)
    if isinstance(operation, Foreign):
        pairs = zip(operation.targets, operation.bases, strict=True)
        return tuple((target, base) for target, base in pairs if base is not None)
    return ()
