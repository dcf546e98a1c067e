"""Values: the scalar expressions that operations compute for each point. Values are interned.

    value = Const | IndexValue(Int) | Load(buffer, Int*) | Apply(op, value*)
          | Guarded(condition, value, otherwise)              # loads of value only where condition

An Int (``ir/symbolic/integers.py``) may use the axes of its operation, the sizes of the model, and
loaded values (``Indirect``). Equal values are one object, and distinct ones print differently.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import TypeAlias, Union, cast

from aotpack.ir.dtypes import DType
from aotpack.ir.interning import Interned
from aotpack.ir.symbolic.integers import Int

REMEMBERED = 2**12  # walks


class _Printed:
    """Prints as one expression; distinct values have distinct texts."""

    __slots__ = ()

    def __str__(self) -> str:
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

    ``dtype`` is the buffer's compute type: 16-bit floats load as float32, and stores round. So no
    value has a 16-bit float type, and replacing a load by the stored value keeps types (and only
    skips a rounding).
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


def children(value: Value) -> tuple[Value, ...]:
    """The values directly inside a value, those inside its indices included."""
    match value:
        case Load():
            return indirect_values(value.index)
        case IndexValue():
            return indirect_values((value.index,))
        case Apply():
            return value.args
        case Guarded():
            return (value.condition, value.value, value.otherwise)
        case Const():
            return ()


def indirect_values(index: Iterable[Int]) -> tuple[Value, ...]:
    """The loaded values inside indices."""
    return tuple([leaf.value for part in index for leaf in part.indirects])


def walk(roots: Iterable[Value]) -> tuple[Value, ...]:
    """Every value reachable from ``roots``, each once, children before parents."""
    return _walk(tuple(roots))


@lru_cache(maxsize=REMEMBERED)  # every pass walks them again; found by identity
def _walk(roots: tuple[Value, ...]) -> tuple[Value, ...]:
    done: dict[Value, None] = {}
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        value, ready = stack.pop()
        if ready:
            done[value] = None
        elif value not in done:
            stack.append((value, True))
            stack += [(child, False) for child in reversed(children(value)) if child not in done]
    return tuple(done)


@lru_cache(maxsize=REMEMBERED)
def loads_below(roots: tuple[Value, ...]) -> tuple[Load, ...]:
    """Every distinct load reachable from ``roots``, in evaluation order."""
    return tuple(value for value in walk(roots) if isinstance(value, Load))


def unguarded_parts(root: Value, known: Container[Value]) -> Iterator[Value]:
    """The values inside ``root`` and itself, parts first, but none that a guard encloses.

    Values that are known already are left out.
    """
    stack, seen = [(root, False)], set[Value]()
    while stack:
        value, is_ready = stack.pop()
        if is_ready:
            yield value
        elif value not in seen and value not in known:
            seen.add(value)
            stack.append((value, True))
            parts = children(value)
            if isinstance(value, Guarded):
                parts = (value.condition, value.otherwise)
            stack += [(part, False) for part in reversed(parts)]


# --- text --------------------------------------------------------------------------------------

Names: TypeAlias = Mapping[Value, str]
_LONGEST_PART = 600  # shared parts are written out: the text could grow without bound
_CHOICE, _UNARY, _ATOM = 0, 11, 12
INFIX = {  # symbol and precedence; comparisons do not chain
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


def value_text(value: Value) -> str:
    """The value as one expression, without sharing. A long part is a digest of its text."""
    done: dict[Value, tuple[str, int]] = {}
    for part in walk((value,)):
        text, binds = _one(part, done)
        if len(text) > _LONGEST_PART:
            text, binds = f"#{sha256(text.encode()).hexdigest()[:16]}", _ATOM
        done[part] = text, binds
    return done[value][0]


def named_text(value: Value, names: Names) -> str:
    """The text of a value in terms of the named ones; each distinct part is printed once."""
    done: dict[Value, tuple[str, int]] = {}
    for part in walk((value,)):
        name = names.get(part)
        done[part] = _one(part, done) if name is None else (name, _ATOM)
    return done[value][0]


def definition(value: Value, names: Names) -> str:
    """The text of a named value, in terms of the other names."""
    return named_text(value, {part: name for part, name in names.items() if part is not value})


def _one(value: Value, done: Mapping[Value, tuple[str, int]]) -> tuple[str, int]:
    """The text of a value and its precedence, from the texts of its parts."""

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
    if value.op in INFIX and len(args) == 2:
        symbol, binds = INFIX[value.op]
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


def shared_names(roots: tuple[Value, ...]) -> dict[Value, str]:
    """Names for values that are used more than once, in evaluation order."""
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
