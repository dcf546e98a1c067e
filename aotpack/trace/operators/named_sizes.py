"""The names and the whole numbers in the user's code, which may ask what leaves no condition.

Of ``type(n) is int and n == 64`` torch.export sees a False, and of ``{"64": 2}.get(str(n))`` a text
that stands for n. The number stands in the code, so a model is tried at it (a dictionary of
constants, as fuzzers have: Zalewski, American Fuzzy Lop, 2013).
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

from aotpack.trace.source import is_own_file, same_constants

_UNSEEN = frozenset(
    "type getattr hasattr is_compiling is_exporting is_dynamo_compiling is_tracing".split()
)
_MOST_FUNCTIONS = 256
_DEEPEST = 3  # of containers
_LARGEST = 2**20


def asks_unseen(module: nn.Module) -> bool:
    """Whether the model's own code asks for a type, for a number itself, or if it is exported."""

    def asks(code: CodeType) -> bool:
        has_numbers = any(not isinstance(one, bool) for one in same_constants(code))
        return has_numbers or not _UNSEEN.isdisjoint(code.co_names)

    return any(asks(code) for code, _ in _codes(module))


def names_in(module: nn.Module) -> set[str]:
    """What the model's own code names: globals, attributes, and texts (``getattr(x, "_base")``)."""
    return {
        name
        for code, _ in _codes(module)
        for name in (*code.co_names, *code.co_consts)
        if isinstance(name, str)
    }


def named_sizes(module: nn.Module) -> list[int]:
    """The numbers in the model's own code and what it reads of its modules, then their neighbours.

    Numbers in texts count.
    """
    found = dict[int, None]()
    for code, names in _codes(module):
        for value in (*code.co_consts, *(names[one] for one in code.co_names if one in names)):
            found.update(dict.fromkeys(_numbers(value, _DEEPEST)))
    exact = sorted(found)
    beside = sorted({n + step for n in exact for step in (-1, 1)} - found.keys())
    return [n for n in (*exact, *beside) if 0 < n <= _LARGEST]


def _numbers(value: Any, depth: int) -> Iterator[int]:
    if isinstance(value, bool) or depth < 0:
        return
    if isinstance(value, int):
        yield int(value)
    elif isinstance(value, str):
        yield from map(int, re.findall(r"\d{1,7}", value))
    elif isinstance(value, type) and issubclass(value, Enum):
        yield from itertools.chain(*(_numbers(one.value, depth - 1) for one in value))
    elif isinstance(value, (tuple, list, set, frozenset, Mapping)):
        yield from itertools.chain(*(_numbers(one, depth - 1) for one in value))


def _codes(module: nn.Module) -> Iterator[tuple[CodeType, Mapping[str, Any]]]:
    """The code of the model's own functions and of those that they name, with their globals."""
    waiting = list(_functions(module))
    seen = set[int]()
    while waiting and len(seen) < _MOST_FUNCTIONS:
        function = waiting.pop(0)
        if id(function) in seen or not is_own_file(function.__code__.co_filename):
            continue
        seen.add(id(function))
        names = function.__globals__
        for code in _within(function.__code__):
            yield code, names
            waiting += [one for name in code.co_names for one in _plain([names.get(name)])]
        cells = (cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
        waiting += _plain(cells)


def _functions(module: nn.Module) -> Iterator[FunctionType]:
    for part in module.modules():
        kinds = [kind for kind in type(part).__mro__ if not kind.__module__.startswith("torch.")]
        for holder in (part, *kinds):
            yield from _plain(vars(holder).values())


def _plain(values: Iterable[Any]) -> list[FunctionType]:
    """The functions among values, in what wraps them too."""
    found = []
    for value in values:
        if isinstance(value, property):
            value = value.fget
        if isinstance(value, (staticmethod, classmethod, MethodType)):
            value = value.__func__
        if isinstance(value, FunctionType):
            found.append(value)
    return found


def _within(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _within(one)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
