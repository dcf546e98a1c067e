"""A Program is a straight line of operations over buffers, each written once (SSA).

    program   = inputs weights operation* outputs updates
    operation = computation                                  # ``ir/operations.py``
              | Foreign(targets, bases, kernel, ...)         # a foreign call: ``ir/foreign.py``
              | Branch(targets, predicate, sides)            # one of two programs
              | Loop(targets, entry, condition, test, turn, body)  # a repeated program
              | SizeRead(targets, sizes, counts, most, rest)       # sizes that data decide

    if p[()]:                    Branch(targets, p, (side, side))
        t = f(a)
    else:
        t = g(a)

    c = a                        Loop(targets, entry, p, test, None, body)
    p = test(c)
    while p[()]:
        c = body(c, b)
        p = test(c)

    u0 = n[()]                   SizeRead(targets, (u0,), (n,), (most,), rest)
    t = f(a), of u0 elements

The programs inside a branch, loop or size read are its parts. A part has no weights and no outputs:
its inputs are buffers of the outer program, by name, and its updates write the operation's targets,
together at its end. ``ir/verify`` says what is illegal, ``ir/interpret`` what a program computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Union

from aotpack.ir.buffers import Buffer as Buffer
from aotpack.ir.buffers import ConcatBuffer as ConcatBuffer
from aotpack.ir.buffers import PackedWeight as PackedWeight
from aotpack.ir.buffers import Update as Update
from aotpack.ir.dtypes import DType
from aotpack.ir.foreign import Foreign
from aotpack.ir.operations import (
    Attention,
    Computation,
    Matmul,
    Pointwise,
    Reduction,
    Scan,
    Scatter,
    Sort,
    computation_lines,
    ranges,
)
from aotpack.ir.origin import Origin
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.values import (
    IndexValue,
    Load,
    Value,
    definition,
    element,
    indirect_values,
    loads_below,
    named_text,
    shared_names,
)


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """The first side runs where ``predicate`` holds, else the second; each writes every target.

    The predicate is a bool buffer without dimensions, or an expression over sizes that is 0 or 1.
    """

    targets: tuple[str, ...]
    predicate: str | Int
    sides: tuple[Program, Program]
    origin: Origin

    @property
    def axes(self) -> tuple[Axis, ...]:
        """A branch has no axes."""
        return ()

    @property
    def parts(self) -> tuple[Program, ...]:
        return self.sides

    def with_parts(self, parts: tuple[Program, ...]) -> Branch:
        """The same with other parts."""
        first, second = parts
        return replace(self, sides=(first, second))


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """``entry`` initialises the targets; ``body`` changes them, in each iteration.

    With a ``test``, the body runs while ``condition`` holds: a bool buffer without dimensions, one
    of the targets, which the test writes before each iteration. Without one, ``condition`` is the
    number of iterations. ``turn``, a size of the body alone, counts them from 0. A target that
    neither entry nor body has written is undefined.
    """

    targets: tuple[str, ...]
    entry: Program
    condition: str | Int
    test: Program | None
    turn: Var | None
    body: Program
    origin: Origin

    @property
    def axes(self) -> tuple[Axis, ...]:
        """A loop has no axes."""
        return ()

    @property
    def parts(self) -> tuple[Program, ...]:
        return (self.entry, self.body) if self.test is None else (self.entry, self.test, self.body)

    def with_parts(self, parts: tuple[Program, ...]) -> Loop:
        """The same with other parts."""
        if self.test is None:
            entry, body = parts
            return replace(self, entry=entry, body=body)
        entry, test, body = parts
        return replace(self, entry=entry, test=test, body=body)


@dataclass(frozen=True, slots=True, eq=False)
class SizeRead:
    """Each of the ``sizes`` becomes what its buffer of ``counts`` holds; then the ``rest`` runs.

    A count is an int64 without dimensions. ``most`` bounds each size, by sizes that are known
    before. Shapes of targets may depend on the sizes, so nothing but the caller reads those.
    """

    targets: tuple[str, ...]
    sizes: tuple[Var, ...]
    counts: tuple[str, ...]
    most: tuple[Int, ...]
    rest: Program
    origin: Origin

    @property
    def axes(self) -> tuple[Axis, ...]:
        """A size read has no axes."""
        return ()

    @property
    def parts(self) -> tuple[Program, ...]:
        return (self.rest,)

    def with_parts(self, parts: tuple[Program, ...]) -> SizeRead:
        """The same with another rest."""
        (rest,) = parts
        return replace(self, rest=rest)


Control = Branch | Loop | SizeRead
Operation = Union[Computation, Foreign, Control]


@dataclass(frozen=True, slots=True)
class Program:
    """Operations in execution order. Each buffer but inputs and concat buffers has one writer.

    The ``weight_program`` has neither sizes nor inputs; its outputs are weights here.
    """

    sizes: tuple[Var, ...]
    buffers: dict[str, Buffer]  # insertion order is definition order
    inputs: tuple[str, ...]
    weights: tuple[str, ...]  # includes the ``packed`` and the ``derived`` ones
    operations: tuple[Operation, ...]
    outputs: tuple[str, ...]
    packed: tuple[PackedWeight, ...] = ()
    updates: tuple[Update, ...] = ()
    concats: tuple[ConcatBuffer, ...] = ()
    weight_program: Program | None = None

    @property
    def derived(self) -> tuple[str, ...]:
        """The weights that the weight program computes; no contract fixes their layout."""
        return self.weight_program.outputs if self.weight_program else ()

    @property
    def results(self) -> tuple[str, ...]:
        """The buffers that a run computes: the outputs, and the new values of updated tensors."""
        return (*self.outputs, *(update.value for update in self.updates))

    def __str__(self) -> str:
        return program_text(self)


def expand_concats(names: Iterable[str], program: Program) -> tuple[str, ...]:
    """The buffers that must be written before these are read: a concat buffer gives its parts."""
    parts = {concat.name: concat.parts for concat in program.concats}
    return tuple(source for name in names for source in parts.get(name, (name,)))


def concats_by_part(program: Program) -> dict[str, str]:
    """The concat buffer that each part lies in."""
    return {part: concat.name for concat in program.concats for part in concat.parts}


def captured(operation: Control) -> tuple[str, ...]:
    """The outer buffers that parts read, the predicate of a branch, the counts of a size read."""
    asked: tuple[str | Int, ...] = ()
    if not isinstance(operation, Loop):
        asked = (operation.predicate,) if isinstance(operation, Branch) else operation.counts
    names = [name for name in asked if isinstance(name, str)]
    names += [name for part in operation.parts for name in part.inputs]
    return tuple(name for name in dict.fromkeys(names) if name not in operation.targets)


def targets(operation: Operation) -> tuple[str, ...]:
    """The buffers an operation writes."""
    if isinstance(operation, (Reduction, Scan, Sort, Foreign, Control)):
        return operation.targets
    return (operation.target,)


def store_index(operation: Operation) -> tuple[Int, ...]:
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
    """The expressions that an operation computes."""
    match operation:
        case Pointwise() | Sort():
            return (operation.value, *indirect_values(store_index(operation)))
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
        case Foreign() | Branch() | Loop() | SizeRead():
            return ()


def loads(operation: Operation) -> tuple[Load, ...]:
    """Every distinct load of an operation, in evaluation order."""
    return loads_below(values(operation))


def reads(operation: Operation) -> tuple[str, ...]:
    """The buffers an operation reads, each once."""
    return tuple(dict.fromkeys((*read_whole(operation), *(o.buffer for o in loads(operation)))))


def read_whole(operation: Operation) -> tuple[str, ...]:
    """The buffers that an operation reads without loads: bases, operands, captured buffers."""
    if isinstance(operation, Control):
        return captured(operation)
    calls = operation.operands if isinstance(operation, Foreign) else ()
    return (*(base for _, base in in_place_pairs(operation)), *calls)


def in_place_pairs(operation: Operation) -> tuple[tuple[str, str], ...]:
    """(target, base) for each target that changes its base, and may lie in its memory."""
    if isinstance(operation, Scatter):
        return ((operation.target, operation.base),)
    if isinstance(operation, Foreign):
        pairs = zip(operation.targets, operation.bases, strict=True)
        return tuple((target, base) for target, base in pairs if base is not None)
    return ()


# --- text --------------------------------------------------------------------------------------

_INDENT = "    "


def operation_text(operation: Operation) -> str:
    """A loop nest over the axes, with the shared values named before they are used."""
    if isinstance(operation, Control):
        texts = ["\n".join(_part(part)) for part in operation.parts]
        return control_text(operation, texts)
    if isinstance(operation, Foreign):
        return _foreign(operation)
    names = shared_names(values(operation))
    lines = [f"{name} = {definition(value, names)}" for value, name in names.items()]
    lines += computation_lines(operation, lambda value: named_text(value, names))
    header = f"for {ranges(operation.axes)}:" if operation.axes else "once:"
    return header + _comment(operation.origin) + "".join(f"\n{_INDENT}{line}" for line in lines)


def _foreign(operation: Foreign) -> str:
    """The copies of bases, then the call."""
    lines = [f"{target} = {base}" for target, base in in_place_pairs(operation)]
    passed = zip(operation.kernel.passed, operation.arguments, strict=False)  # may be illegal
    arguments = dict(operation.kernel.parameters) | dict(passed)
    shown = ", ".join(f"{name}={argument}" for name, argument in arguments.items())
    lines.append(f"{operation.kernel.function}[{index_tuple(operation.grid)}]({shown})")
    for other in operation.others:
        constants = ", ".join(f"{name}={text}" for name, text in other.kernel.parameters if text)
        lines.append(f"or {other.kernel.function}[{index_tuple(other.grid)}]({constants})")
    return "once:" + _comment(operation.origin) + "".join(f"\n{_INDENT}{line}" for line in lines)


def control_text(operation: Control, parts: Iterable[str]) -> str:
    """The texts of an operation's parts, each under its condition."""
    heads = _heads(operation)
    heads[0] += _comment(operation.origin)
    texts = zip(heads, parts, strict=True)
    return "\n".join(f"{head}\n{indent(text, _INDENT)}".rstrip() for head, text in texts)


def _heads(operation: Control) -> list[str]:
    """What stands above each part."""
    if isinstance(operation, SizeRead):
        rows = zip(operation.sizes, operation.counts, operation.most, strict=True)
        return ["with " + ", ".join(f"{s} = {c}[()] <= {most}" for s, c, most in rows) + ":"]
    condition = operation.condition if isinstance(operation, Loop) else operation.predicate
    shown = element(condition, ()) if isinstance(condition, str) else str(condition)
    if isinstance(operation, Branch):
        return [f"if {shown}:", "else:"]
    if operation.test is not None:
        return ["first:", f"while {shown}, by:", "do:"]
    return ["first:", f"for {operation.turn or 'turn'} < {shown}:"]


def _part(program: Program) -> list[str]:
    """A part: its operations, without its inputs."""
    lines = [line for o in program.operations for line in _operation(program, o)]
    return [*lines, *ending_lines(program)]


def _comment(origin: Origin) -> str:
    shown = "; ".join(part for part in (", ".join(origin.nodes), *origin.sources) if part)
    return f"  # {shown}" if shown else ""


def program_text(program: Program, notes: Mapping[int, str] | None = None) -> str:
    """The whole program. ``notes`` are remarks under operations, by their position."""
    lines = weight_program_lines(program.weight_program)
    lines += [f"size {size} in [{size.low}, {size.high}]" for size in program.sizes]
    lines += [f"input {_declared(program.buffers, name)}" for name in program.inputs]
    packed = {each.name: f" = {' ++ '.join(each.parts)}" for each in program.packed}
    for name in program.weights:
        lines.append(f"weight {_declared(program.buffers, name)}{packed.get(name, '')}")
    for position, operation in enumerate(program.operations):
        lines += ["", *_operation(program, operation)]
        if notes and position in notes:
            lines.append(f"^^^ {notes[position]}")
    return "\n".join([*lines, "", *ending_lines(program)]) + "\n"


def weight_program_lines(made: object) -> list[str]:
    """The text of a weight program or its schedule."""
    return [f"once, from weights alone:\n{indent(str(made).rstrip(), _INDENT)}\n"] if made else []


def _operation(program: Program, operation: Operation) -> list[str]:
    """The declarations of an operation's targets, then the operation."""
    declared = [_declared(program.buffers, name) for name in targets(operation)]
    return [*declared, operation_text(operation)]


def ending_lines(program: Program) -> list[str]:
    """Concat buffers, updates and outputs; a part returns nothing."""
    updates = [f"update {update.name} = {update.value}" for update in program.updates]
    concats = [f"concat {each.name} = {' | '.join(each.parts)}" for each in program.concats]
    returned = [f"return {', '.join(program.outputs)}"] if program.outputs else []
    return [*concats, *updates, *returned]


def _declared(buffers: Mapping[str, Buffer], name: str) -> str:
    return str(buffers[name]) if name in buffers else f"{name}: undeclared"


def index_tuple(numbers: Iterable[Int]) -> str:
    """``(1, n)``."""
    return f"({', '.join(map(str, numbers))})"
