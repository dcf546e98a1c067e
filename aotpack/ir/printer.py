"""Programs, operations and values as the text a person would write.

Values of one operation that are used more than once are named first (``t0 = ...``). Without names,
as ``str(value)`` does it, distinct values have distinct texts, which orders indices.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from textwrap import indent
from typing import TypeAlias

from aotpack.ir.control import Branch, Loop
from aotpack.ir.dtypes import DType
from aotpack.ir.nodes import (
    Apply,
    Attention,
    Buffer,
    Computation,
    Const,
    Foreign,
    Guarded,
    IndexValue,
    Load,
    Matmul,
    Operation,
    Origin,
    Pointwise,
    Program,
    Reduction,
    Scan,
    Scatter,
    Sort,
    Value,
    children,
    overwritten,
    targets,
    values,
    walk,
)
from aotpack.ir.schedule import Kernel, Schedule, Variant
from aotpack.ir.symbolic.integers import Axis, Int

_Names: TypeAlias = Mapping[Value, str]
_INDENT = "    "
_LONGEST_PART = 600  # values repeat their parts: written out, the text could grow without bound
_CHOICE, _UNARY, _ATOM = 0, 11, 12
_INFIX = {  # symbol and how tightly it binds; comparisons do not chain
    "logical_or": ("or", 1),
    "logical_and": ("and", 2),
    "eq": ("==", 4),
    "ne": ("!=", 4),
    "lt": ("<", 4),
    "le": ("<=", 4),
    "gt": (">", 4),
    "ge": (">=", 4),
    "bitwise_or": ("|", 5),
    "bitwise_xor": ("^", 6),
    "bitwise_and": ("&", 7),
    "shift_left": ("<<", 8),
    "shift_right": (">>", 8),
    "add": ("+", 9),
    "sub": ("-", 9),
    "mul": ("*", 10),
    "div": ("/", 10),
    "floordiv": ("//", 10),
    "remainder": ("%", 10),
}
_PREFIX = {"neg": "-", "bitwise_not": "~"}
_NATURAL = (DType.BOOL, DType.INT64, DType.FLOAT32)  # literals of these need no type


# --- values ------------------------------------------------------------------------------------


def value_text(value: Value) -> str:
    """One expression, nothing shared. A long part is a digest of its text."""
    done: dict[Value, tuple[str, int]] = {}
    for part in walk((value,)):
        text, binds = _one(part, done)
        if len(text) > _LONGEST_PART:
            text, binds = f"#{sha256(text.encode()).hexdigest()[:16]}", _ATOM
        done[part] = text, binds
    return done[value][0]


def _text(value: Value, names: _Names) -> str:
    """The text of a value in terms of the named ones; each distinct part is printed once."""
    done: dict[Value, tuple[str, int]] = {}
    for part in walk((value,)):
        name = names.get(part)
        done[part] = _one(part, done) if name is None else (name, _ATOM)
    return done[value][0]


def _definition(value: Value, names: _Names) -> str:
    """The text of a value that has a name, as what the name stands for."""
    return _text(value, {part: name for part, name in names.items() if part is not value})


def _one(value: Value, done: Mapping[Value, tuple[str, int]]) -> tuple[str, int]:
    """The text of a value, and how tightly it binds, from the texts of its parts."""

    def operand(part: Value, least: int) -> str:
        text, binds = done[part]
        return text if binds >= least else f"({text})"

    match value:
        case Const():
            text = repr(value.value)
            binds = _UNARY if text.startswith("-") else _ATOM
            return (text if value.dtype in _NATURAL else f"{text}:{value.dtype}"), binds
        case IndexValue():
            return f"{value.dtype}({value.index})", _ATOM
        case Load():
            return element(value.buffer, value.index), _ATOM
        case Guarded():
            parts = [operand(p, 1) for p in (value.value, value.condition, value.otherwise)]
            return "{} if {} else {}".format(*parts), _CHOICE
        case Apply():
            return _apply(value, operand)


def _apply(value: Apply, operand: Callable[[Value, int], str]) -> tuple[str, int]:
    args = value.args
    if value.op in _INFIX and len(args) == 2:
        symbol, binds = _INFIX[value.op]
        left = operand(args[0], binds + (binds == 4))
        return f"{left} {symbol} {operand(args[1], binds + 1)}", binds
    if value.op in _PREFIX:
        (arg,) = args
        text = operand(arg, _UNARY)
        return _PREFIX[value.op] + (f"({text})" if isinstance(arg, Const) else text), _UNARY
    if value.op == "cast":
        return f"{operand(args[0], _ATOM)}.to({value.dtype})", _ATOM
    return f"{value.op}({', '.join(operand(arg, _CHOICE) for arg in args)})", _ATOM


def element(buffer: str, index: Iterable[object]) -> str:
    """``buffer[i, j]``; ``buffer[()]`` for a tensor without dimensions."""
    return f"{buffer}[{', '.join(map(str, index)) or '()'}]"


def _shared(roots: tuple[Value, ...]) -> dict[Value, str]:
    """Names for the arithmetic that is used more than once, in evaluation order."""
    uses: dict[Value, int] = {}
    order = walk(roots)
    for parent in order:
        if isinstance(parent, (Apply, Guarded)):
            for child in children(parent):
                uses[child] = uses.get(child, 0) + 1
    for root in roots:
        uses[root] = uses.get(root, 0) + 1
    repeated = [v for v in order if isinstance(v, (Apply, Guarded)) and uses.get(v, 0) > 1]
    return {value: f"t{number}" for number, value in enumerate(repeated)}


# --- operations --------------------------------------------------------------------------------


def operation_text(operation: Operation) -> str:
    """A loop nest over the axes, with the shared values named before they are used."""
    if isinstance(operation, (Branch, Loop)):
        texts = ["\n".join(_part(part)) for part in operation.parts]
        return control_text(operation, texts)
    if isinstance(operation, Foreign):
        return _foreign(operation)
    names = _shared(values(operation))
    lines = [f"{name} = {_definition(value, names)}" for value, name in names.items()]
    lines += _body(operation, lambda value: _text(value, names))
    header = f"for {_ranges(operation.axes)}:" if operation.axes else "once:"
    return header + _comment(operation.origin) + "".join(f"\n{_INDENT}{line}" for line in lines)


def _foreign(operation: Foreign) -> str:
    """The copies a call begins with, then the call."""
    lines = [f"{target} = {base}" for target, base in overwritten(operation)]
    passed = zip(operation.kernel.passed, operation.arguments, strict=False)  # illegal ones print
    arguments = dict(operation.kernel.parameters) | dict(passed)
    shown = ", ".join(f"{name}={argument}" for name, argument in arguments.items())
    lines.append(f"{operation.kernel.function}[{_tuple(operation.grid)}]({shown})")
    return "once:" + _comment(operation.origin) + "".join(f"\n{_INDENT}{line}" for line in lines)


def _body(operation: Computation, text: Callable[[Value], str]) -> list[str]:
    match operation:
        case Pointwise():
            return [f"{element(operation.target, operation.index)} = {text(operation.value)}"]
        case Reduction():
            args = ", ".join(map(text, operation.args))
            over = f" for {_ranges(operation.inner)}" if operation.inner else ""
            return [f"{_results(operation)} = {operation.kind}({args}{over})"]
        case Scan():
            args = ", ".join(map(text, operation.args))
            return [
                f"{_results(operation)} = scan_{operation.kind}({args}, along {operation.along})"
            ]
        case Scatter():
            return _scatter(operation, text)
        case Sort():
            order = ", descending" * operation.descending
            value = text(operation.value)
            return [f"{_results(operation)} = sort({value}, along {operation.along}{order})"]
        case Matmul():
            factors = f"{_factor(operation.lhs, text)} * {_factor(operation.rhs, text)}"
            product = f"sum({factors} for {_ranges((operation.k,))})"
            return [f"{_results(operation)} = {product}  # factors in {operation.operand}"]
        case Attention():
            return _attention(operation, text)


def control_text(operation: Branch | Loop, parts: Iterable[str]) -> str:
    """The texts of an operation's parts, each under what decides whether it runs."""
    condition = operation.condition if isinstance(operation, Loop) else operation.predicate
    shown = element(condition, ()) if isinstance(condition, str) else str(condition)
    if isinstance(operation, Branch):
        heads = [f"if {shown}:", "else:"]
    elif operation.test is not None:
        heads = ["first:", f"while {shown}, by:", "do:"]
    else:
        heads = ["first:", f"for {operation.turn or 'turn'} < {shown}:"]
    heads[0] += _comment(operation.origin)
    texts = zip(heads, parts, strict=True)
    return "\n".join(f"{head}\n{indent(text, _INDENT)}".rstrip() for head, text in texts)


def _part(program: Program) -> list[str]:
    """A program within an operation: what it does, without what it is given."""
    lines = [line for o in program.operations for line in _operation(program, o)]
    return [*lines, *_ending(program)]


def _scatter(operation: Scatter, text: Callable[[Value], str]) -> list[str]:
    place, value = element(operation.target, operation.index), text(operation.value)
    sign = "=" if operation.kind == "set" else f"{operation.kind}="
    return [f"{place} {sign} {value}  # in {operation.base}"]


def _factor(value: Value, text: Callable[[Value], str]) -> str:
    shown = text(value)
    compound = isinstance(value, Guarded) or (isinstance(value, Apply) and value.op in _INFIX)
    return f"({shown})" if compound and not shown.isidentifier() else shown


def _attention(operation: Attention, text: Callable[[Value], str]) -> list[str]:
    slots = {
        "query": operation.query,
        "key": operation.key,
        "value": operation.value,
        "bias": operation.bias,
        "mask": operation.mask,
    }
    inner = _ranges((operation.j, operation.d))
    lines = [f"{_results(operation)} = attention(  # over {inner}; factors in {operation.operand}"]
    lines += [f"{_INDENT}{name}={text(slot)}," for name, slot in slots.items() if slot is not None]
    return [*lines, f"{_INDENT}scale={operation.scale!r}, causal={operation.causal})"]


def _results(operation: Operation) -> str:
    return ", ".join(element(name, operation.axes) for name in targets(operation))


def _ranges(axes: Iterable[Axis]) -> str:
    return ", ".join(f"{axis} < {axis.extent}" for axis in axes)


def _comment(origin: Origin) -> str:
    parts = [", ".join(origin.nodes), *origin.sources]
    shown = "; ".join(part for part in parts if part)
    return f"  # {shown}" if shown else ""


# --- programs ----------------------------------------------------------------------------------


def program_text(program: Program, notes: Mapping[int, str] | None = None) -> str:
    """The whole program. ``notes`` are remarks under operations, by their position."""
    lines = [f"size {size} in [{size.low}, {size.high}]" for size in program.sizes]
    lines += [f"input {_declared(program.buffers, name)}" for name in program.inputs]
    packed = {each.name: f" = {' ++ '.join(each.parts)}" for each in program.packed}
    for name in program.weights:
        lines.append(f"weight {_declared(program.buffers, name)}{packed.get(name, '')}")
    for position, operation in enumerate(program.operations):
        lines += ["", *_operation(program, operation)]
        if notes and position in notes:
            lines.append(f"^^^ {notes[position]}")
    return "\n".join([*lines, "", *_ending(program)]) + "\n"


def _operation(program: Program, operation: Operation) -> list[str]:
    """The buffers an operation writes, and what it does."""
    declared = [_declared(program.buffers, name) for name in targets(operation)]
    return [*declared, operation_text(operation)]


def _ending(program: Program) -> list[str]:
    """New values and results; a part of an operation returns nothing."""
    updates = [f"update {update.name} = {update.value}" for update in program.updates]
    joined = [f"join {each.name} = {' | '.join(each.parts)}" for each in program.joined]
    returned = [f"return {', '.join(program.outputs)}"] if program.outputs else []
    return [*joined, *updates, *returned]


def _declared(buffers: Mapping[str, Buffer], name: str) -> str:
    return str(buffers[name]) if name in buffers else f"{name}: undeclared"


def schedule_text(schedule: Schedule) -> str:
    """Kernels in launch order, their variants and members, then the lifetimes of intermediates."""
    lines = [line for kernel in schedule.kernels for line in (*_kernel(kernel), "")]
    for name, strides in schedule.strides.items():
        lines.append(f"strides {schedule.program.buffers[name]}: {_tuple(strides)}")
    for life in schedule.lifetimes:
        lines.append(
            f"memory {life.buffer} in {life.storage}: launches {life.first} to {life.last}"
        )
    return "\n".join([*lines, *_ending(schedule.program)]) + "\n"


def why_text(schedule: Schedule) -> str:
    """Why operations that touch the same buffers are in different kernels, one reason each."""
    lines = [
        f"{each.buffer} is not in the kernel of {each.other}: {each.reason}"
        for kernel in schedule.kernels
        for each in kernel.apart
    ]
    return "\n".join([*lines, ""])


def _kernel(kernel: Kernel) -> list[str]:
    lines = [f"kernel {kernel.name} over {_ranges(kernel.axes) or 'one point'}"]
    lines[0] += ", in the launch of the one before" if kernel.joins else ""
    lines[0] += ", by the last programs to arrive" if kernel.completes else ""
    lines.append(f"{_INDENT}reads {', '.join(kernel.reads)}; stores {', '.join(kernel.stored)}")
    if kernel.control is not None:
        text = control_text(kernel.control, map(schedule_text, kernel.parts))
        return [*lines, indent(text, _INDENT)]
    lines += [f"{_INDENT}{_variant(variant)}" for variant in kernel.variants]
    for member in kernel.members:
        bound = ", ".join(f"{axis} = {index}" for axis, index in member.binding)
        place = "once a row, " if member.outer else ""
        lines.append(f"{_INDENT}with {place}{bound or 'no axes'}")
        body = operation_text(member.operation).splitlines()
        lines += [f"{_INDENT}{_INDENT}{line}" for line in body]
    return lines


def _variant(variant: Variant) -> str:
    limit = "" if variant.at_most is None else f" while {variant.measure} <= {variant.at_most}"
    limit += "".join(f" where {size} % {factor} == 0" for size, factor in variant.promises)
    others = "".join(f"; or {tile}" for tile in variant.others)
    return f"tile {variant.tile} for arch {variant.arch_low} to {variant.arch_high}{limit}{others}"


def _tuple(numbers: Iterable[Int]) -> str:
    return f"({', '.join(map(str, numbers))})"
