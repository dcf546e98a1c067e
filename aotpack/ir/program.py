"""A Program is a straight line of operations over buffers, each written once (SSA).

    program   = inputs weights operation* outputs updates
    operation = computation                                  # ``ir/operations.py``
              | Foreign(targets, bases, kernel, ...)         # a foreign call: ``ir/foreign.py``
              | Branch(targets, predicate, sides)            # one of two programs
              | Loop(targets, entry, condition, test, turn, body)  # a repeated program
              | SizeRead(targets, sizes, counts, most, rest)       # sizes that data decide
              | Call(targets, arguments, body)        # a body that several calls share

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

    y, s1 = body(x, w, s0)           Call((y, s1), (x, s0, w), body)

The programs inside a branch, loop or size read are its parts. A part has no weights and no outputs:
its inputs are buffers of the outer program, by name, and its updates write the operation's targets,
together at its end. The part of a call is a program with names of its own.
``ir/verify`` says what is illegal, ``ir/interpret`` what a program computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Union

from aotpack.ir.buffers import Buffer as Buffer
from aotpack.ir.buffers import ConcatBuffer as ConcatBuffer
from aotpack.ir.buffers import PackedWeight as PackedWeight
from aotpack.ir.buffers import Update as Update
from aotpack.ir.foreign import Foreign, foreign_text
from aotpack.ir.foreign import index_tuple as index_tuple
from aotpack.ir.operations import (
    Computation,
    Pointwise,
    Reduction,
    Scan,
    Scatter,
    Sort,
    computation_lines,
    computed_values,
    every_axis,
    ranges,
)
from aotpack.ir.operations import weight_program_lines as weight_program_lines
from aotpack.ir.origin import Origin
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.values import (
    Load,
    Value,
    definition,
    element,
    loads_below,
    named_text,
    shared_names,
)


class _WithParts:
    __slots__ = ()

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What runs programs has no axes."""
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Branch(_WithParts):
    """The first side runs where ``predicate`` holds, else the second; each writes every target.

    The predicate is a bool buffer without dimensions, or an expression over sizes that is 0 or 1.
    """

    targets: tuple[str, ...]
    predicate: str | Int
    sides: tuple[Program, Program]
    origin: Origin

    @property
    def parts(self) -> tuple[Program, ...]:
        return self.sides

    def with_parts(self, parts: tuple[Program, ...]) -> Branch:
        """The same with other parts."""
        first, second = parts
        return replace(self, sides=(first, second))


@dataclass(frozen=True, slots=True, eq=False)
class Loop(_WithParts):
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
class SizeRead(_WithParts):
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
    def parts(self) -> tuple[Program, ...]:
        return (self.rest,)

    def with_parts(self, parts: tuple[Program, ...]) -> SizeRead:
        """The same with another rest."""
        (rest,) = parts
        return replace(self, rest=rest)


@dataclass(frozen=True, slots=True, eq=False)
class Call(_WithParts):
    """``body`` with ``arguments`` in place of its inputs, then of its weights.

    The targets are its outputs, then the new values of the inputs that it updates. Calls of one
    body have the same object. An argument that is updated is a base: its target lies in its memory.
    """

    targets: tuple[str, ...]
    arguments: tuple[str, ...]
    body: Program
    origin: Origin

    @property
    def parts(self) -> tuple[Program, ...]:
        return (self.body,)

    @property
    def given(self) -> dict[str, str]:
        """The argument for each input and weight of the body."""
        names = (*self.body.inputs, *self.body.weights)
        return dict(zip(names, self.arguments, strict=False))  # may be illegal

    @property
    def bases(self) -> tuple[tuple[str, str], ...]:
        """(target, argument) for each input that the body updates."""
        given, body = self.given, self.body
        pairs = zip(self.targets[len(body.outputs) :], body.updates, strict=False)
        return tuple((target, given[u.name]) for target, u in pairs if u.name in given)

    def with_parts(self, parts: tuple[Program, ...]) -> Call:
        """The same with another body."""
        (body,) = parts
        return replace(self, body=body)


Control = Branch | Loop | SizeRead | Call
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
    """The outer buffers that parts read, predicates, counts of a size read, arguments of a call."""
    if isinstance(operation, Call):
        return operation.arguments
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
    return operation.axes if isinstance(operation, (Foreign, Control)) else every_axis(operation)


def values(operation: Operation) -> tuple[Value, ...]:
    """The expressions that an operation computes."""
    return () if isinstance(operation, (Foreign, Control)) else computed_values(operation)


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
        return operation.in_place
    return operation.bases if isinstance(operation, Call) else ()


# --- text --------------------------------------------------------------------------------------

_INDENT = "    "
AS_ABOVE = "# as above"


def operation_text(operation: Operation) -> str:
    """A loop nest over the axes, with the shared values named before they are used."""
    if isinstance(operation, Control):
        texts = ["\n".join(_part(part)) for part in operation.parts]
        return control_text(operation, texts)
    if isinstance(operation, Foreign):
        return foreign_text(operation)
    names = shared_names(values(operation))
    lines = [f"{name} = {definition(value, names)}" for value, name in names.items()]
    lines += computation_lines(operation, lambda value: named_text(value, names))
    header = f"for {ranges(operation.axes)}:" if operation.axes else "once:"
    return header + operation.origin.comment + "".join(f"\n{_INDENT}{line}" for line in lines)


def control_text(operation: Control, parts: Iterable[str]) -> str:
    """The texts of an operation's parts, each under its condition."""
    heads = _heads(operation)
    heads[0] += operation.origin.comment
    texts = zip(heads, parts, strict=True)
    return "\n".join(f"{head}\n{indent(text, _INDENT)}".rstrip() for head, text in texts)


def _heads(operation: Control) -> list[str]:
    """What stands above each part."""
    if isinstance(operation, Call):
        given = ", ".join(f"{name}={argument}" for name, argument in operation.given.items())
        results = (*operation.body.outputs, *(update.value for update in operation.body.updates))
        made = ", ".join(map("=".join, zip(operation.targets, results, strict=False)))
        return [f"call with {given} for {made}:"]
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
    return [*(line for lines in _operations(program) for line in lines), *ending_lines(program)]


def program_text(program: Program, notes: Mapping[int, str] | None = None) -> str:
    """The whole program. ``notes`` are remarks under operations, by their position."""
    lines = weight_program_lines(program.weight_program)
    lines += [f"size {size} in [{size.low}, {size.high}]" for size in program.sizes]
    lines += [f"input {_declared(program.buffers, name)}" for name in program.inputs]
    packed = {each.name: f" = {' ++ '.join(each.parts)}" for each in program.packed}
    for name in program.weights:
        lines.append(f"weight {_declared(program.buffers, name)}{packed.get(name, '')}")
    for position, own in enumerate(_operations(program)):
        lines += ["", *own]
        if notes and position in notes:
            lines.append(f"^^^ {notes[position]}")
    return "\n".join([*lines, "", *ending_lines(program)]) + "\n"


def later_calls(operations: Iterable[Operation]) -> frozenset[int]:
    """The positions of calls whose body an earlier call has: text shows it once."""
    bodies = [one.body if isinstance(one, Call) else None for one in operations]
    first = {id(body): place for place, body in reversed([*enumerate(bodies)])}
    return frozenset(n for n, body in enumerate(bodies) if body is not None and first[id(body)] < n)


def _operations(program: Program) -> Iterator[list[str]]:
    """The declarations of each operation's targets, then the operation."""
    again = later_calls(program.operations)
    for position, one in enumerate(program.operations):
        text = operation_text(one)
        if isinstance(one, Call) and position in again:
            text = control_text(one, [AS_ABOVE])
        yield [*(_declared(program.buffers, name) for name in targets(one)), text]


def ending_lines(program: Program) -> list[str]:
    """Concat buffers, updates and outputs; a part returns nothing."""
    updates = [f"update {update.name} = {update.value}" for update in program.updates]
    concats = [f"concat {each.name} = {' | '.join(each.parts)}" for each in program.concats]
    returned = [f"return {', '.join(program.outputs)}"] if program.outputs else []
    return [*concats, *updates, *returned]


def _declared(buffers: Mapping[str, Buffer], name: str) -> str:
    return str(buffers[name]) if name in buffers else f"{name}: undeclared"
