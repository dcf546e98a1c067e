"""Reads JSON into frozen dataclasses; their annotations are the schema.

A field is a key of the JSON object. Its annotation says what is accepted:

- ``str``, ``int``, ``bool``, ``float``: that type alone (true is no integer); floats are finite;
- ``Annotated[T, rule, ...]``: also what the rules say, in order: ``InRange``, ``Matching``,
  ``OneOf``, or ``Parsed``, which makes the value;
- ``X | None``, ``tuple[X, ...]``, ``frozenset[X]``, ``Mapping[str, X]``, and dataclasses;
- ``Annotated[T, INLINE]``: a record whose keys stand in the same object;
- ``Annotated[T, PLACE]``: no key, but the key that the record itself stands under.

Keys with a default may be absent; others than those of the fields are refused.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

MOST = 10_000_000  # entries of a list, characters of a text
_SHOWN = 60

INLINE = "the keys of this record stand in the object around it"
PLACE = "the key under which the record stands"

Reader: TypeAlias = Callable[[Any, Any], Any]
"""Takes the value and the key it stands under."""


class Mismatch(ValueError):
    """A value that the schema refuses; ``within`` adds the keys that lead to it."""

    def __init__(self, found: str, accepted: str) -> None:
        super().__init__(found, accepted)
        self.found, self.accepted, self.path = found, accepted, ""

    def within(self, key: str | int) -> "Mismatch":
        """The same mismatch, inside the entry ``key`` of an object or a list."""
        step = f"[{key}]" if isinstance(key, int) else f".{key}" if _is_plain(key) else f"[{key!a}]"
        self.path = step + self.path
        return self

    def __str__(self) -> str:
        where = self.path.removeprefix(".") or "the whole"
        return f"{where} is {self.found}; accepted: {self.accepted}"


class InRange(NamedTuple):
    """Numbers from ``low`` to ``high``."""

    low: float
    high: float

    def __call__(self, value: Any) -> Any:
        if not self.low <= value <= self.high:
            raise Mismatch(shown(value), f"{self.low} to {self.high}")
        return value


class Matching(NamedTuple):
    """Text that a regular expression matches as a whole."""

    pattern: "re.Pattern[str]"
    words: str

    def __call__(self, value: Any) -> Any:
        if not self.pattern.fullmatch(value):
            raise Mismatch(shown(value), self.words)
        return value


class OneOf(NamedTuple):
    """One of these values."""

    values: tuple[Any, ...]

    def __call__(self, value: Any) -> Any:
        if value not in self.values:
            raise Mismatch(shown(value), ", ".join(map(str, self.values)))
        return value


class Parsed(NamedTuple):
    """The result of ``parse``, which raises Mismatch."""

    parse: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        return self.parse(value)


def read_record(kind: Any, data: Any, place: Any = None) -> Any:
    """A ``kind`` of the JSON value ``data``; Mismatch says where they differ."""
    try:
        return _reader(kind)(data, place)
    except RecursionError:
        raise Mismatch("nested deeper than Python recurses", "what a build writes") from None


def shown(value: Any) -> str:
    """A JSON value in an error, cut to a readable length."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 128:
        return f"an integer of {value.bit_length()} bits"
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


@cache
def _reader(kind: Any) -> Reader:
    """The reader of an annotation."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _ruled(args[0], args[1:])
    if origin in (Union, UnionType):
        (inner,) = (arg for arg in args if arg is not NoneType)
        return _optional(_reader(inner))
    if origin in (tuple, frozenset):
        return _sequence(origin, _reader(args[0]))
    if origin is Mapping or (origin is not None and issubclass(origin, Mapping)):
        return _mapping(_reader(args[0]), _reader(args[1]))
    if is_dataclass(kind):
        return _record(kind)
    return _plain(kind)


def _plain(kind: type[Any]) -> Reader:
    words = {str: "text", int: "an integer", bool: "true or false", float: "a number"}[kind]

    def read(value: Any, place: Any) -> Any:
        if kind is float and type(value) is int and abs(value) < 1 << 63:
            return float(value)
        if type(value) is not kind:
            raise Mismatch(shown(value), words)
        if kind is float and not math.isfinite(value):
            raise Mismatch(shown(value), "a finite number")
        if kind is str and (len(value) > MOST or not (value.isascii() or is_text(value))):
            raise Mismatch(shown(value), f"at most {MOST} characters of Unicode")
        return value

    return read


def _ruled(kind: Any, rules: tuple[Any, ...]) -> Reader:
    makes = [rule for rule in rules if isinstance(rule, Parsed)]
    inner: Reader = _any if makes else _reader(kind)

    def read(value: Any, place: Any) -> Any:
        value = inner(value, place)
        for rule in rules:
            value = rule(value)
        return value

    return read


def _any(value: Any, place: Any) -> Any:
    return value


def _optional(inner: Reader) -> Reader:
    return lambda value, place: None if value is None else inner(value, place)


def _sequence(kind: Callable[[Any], Any], inner: Reader) -> Reader:
    def read(value: Any, place: Any) -> Any:
        if not isinstance(value, list) or len(value) > MOST:
            raise Mismatch(shown(value), f"a list of at most {MOST}")
        index = 0
        try:
            found = []
            for index, one in enumerate(value):
                found.append(inner(one, index))
        except Mismatch as mismatch:
            raise mismatch.within(index) from None
        return kind(found)

    return read


def _mapping(key: Reader, inner: Reader) -> Reader:
    def read(value: Any, place: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(shown(value), "an object")
        name = ""
        try:
            found = {}
            for name, one in value.items():
                found[key(name, name)] = inner(one, name)
        except Mismatch as mismatch:
            raise mismatch.within(name) from None
        return found

    return read


class _Fields(NamedTuple):
    """The fields of a record by where their values come from."""

    keyed: Mapping[str, Reader]
    needed: frozenset[str]
    inlined: Mapping[str, Any]
    placed: tuple[str, ...]

    @property
    def keys(self) -> frozenset[str]:
        """All keys of the object."""
        return frozenset(self.keyed).union(*(_fields(kind).keys for kind in self.inlined.values()))


@cache
def _fields(kind: Any) -> _Fields:
    hints = get_type_hints(kind, include_extras=True)
    inlined = {name: get_args(hint)[0] for name, hint in hints.items() if INLINE in get_args(hint)}
    placed = tuple(name for name, hint in hints.items() if PLACE in get_args(hint))
    keyed = {n: _reader(hint) for n, hint in hints.items() if n not in inlined and n not in placed}
    needed = (
        one.name
        for one in fields(kind)
        if one.name in keyed and one.default is one.default_factory is MISSING
    )
    return _Fields(keyed, frozenset(needed), inlined, placed)


def _record(kind: Any) -> Reader:
    def read(value: Any, place: Any) -> Any:
        if not isinstance(value, dict):
            raise Mismatch(shown(value), "an object")
        keys = _fields(kind).keys  # not before: a record may hold records of its own kind
        if extra := value.keys() - keys:
            known = f"the keys {', '.join(sorted(keys))}"
            raise Mismatch("there", known).within(min(extra))
        return _made(kind, value, place)

    return read


def _made(kind: Any, value: Mapping[str, Any], place: Any) -> Any:
    own = _fields(kind)
    if missing := own.needed - value.keys():
        raise Mismatch("absent", "a value, which every package has").within(min(missing))
    made, name = {}, ""
    try:
        for name, read in own.keyed.items():
            if name in value:
                made[name] = read(value[name], name)
    except Mismatch as mismatch:
        raise mismatch.within(name) from None
    made |= {name: _made(inner, value, place) for name, inner in own.inlined.items()}
    return kind(**made, **dict.fromkeys(own.placed, place))


def _is_plain(key: str) -> bool:
    return key.isidentifier() and key.isascii()


def is_text(value: str) -> bool:
    """False with halves of surrogate pairs, which no file or terminal takes."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
