"""Copies of functions that hold parts of a model: ``self.norm = lambda x: self.bn(x)``.

``copy.deepcopy`` takes a function as it is, so that of a copied model would call the model it was
copied from: in its mode, with its state and its weights. Here what a function holds in its closure
and its defaults is copied with the model, where the model holds it too.
"""

import copy
import functools
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CellType, FunctionType, MethodType
from typing import Any

_DISPATCH: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
_CONTAINERS = (list, tuple, set, frozenset)


@contextmanager
def copied_functions(held: Collection[int]) -> Iterator[None]:
    """Inside the block, ``copy.deepcopy`` copies functions that hold values with such ids."""

    def copied(function: FunctionType, memo: dict[int, Any]) -> FunctionType:
        return _copied(function, memo, held) if _holds(function, held, set()) else function

    before = _DISPATCH[FunctionType]
    _DISPATCH[FunctionType] = copied
    try:
        yield
    finally:
        _DISPATCH[FunctionType] = before


def _copied(function: FunctionType, memo: dict[int, Any], held: Collection[int]) -> FunctionType:
    cells = [_cell(one, memo, held) for one in function.__closure__ or ()]
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        closure=tuple(new for new, _ in cells) if function.__closure__ else None,
    )
    for name in functools.WRAPPER_ASSIGNMENTS:
        setattr(made, name, getattr(function, name))
    vars(made).update(vars(function))
    memo[id(function)] = made  # which its own variables may name
    for new, old in cells:
        if old is not None:
            new.cell_contents = copy.deepcopy(old.cell_contents, memo)
    given, named = function.__defaults__, function.__kwdefaults__
    made.__defaults__ = given and tuple(_value(one, memo, held) for one in given)
    made.__kwdefaults__ = named and {key: _value(one, memo, held) for key, one in named.items()}
    return made


def _cell(
    cell: CellType, memo: dict[int, Any], held: Collection[int]
) -> tuple[CellType, CellType | None]:
    """The variable of a copy, and the one that it has yet to be filled from; functions share it."""
    if id(cell) in memo:
        return memo[id(cell)], None
    if not _holds(cell, held, set()):
        return cell, None
    memo[id(cell)] = CellType()
    return memo[id(cell)], cell


def _value(value: Any, memo: dict[int, Any], held: Collection[int]) -> Any:
    return copy.deepcopy(value, memo) if _holds(value, held, set()) else value


def _holds(value: Any, held: Collection[int], seen: set[int]) -> bool:
    """Whether a value is one of the model's, or reaches one in what ``deepcopy`` copies here."""
    if id(value) in held:
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    return any(_holds(one, held, seen) for one in _parts(value))


def _parts(value: Any) -> list[Any]:
    if isinstance(value, CellType):
        try:
            return [value.cell_contents]
        except ValueError:  # it has none yet
            return []
    if isinstance(value, FunctionType):
        named = value.__kwdefaults__ or {}
        return [*(value.__closure__ or ()), *(value.__defaults__ or ()), *named.values()]
    if isinstance(value, MethodType):
        return [value.__self__]
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, _CONTAINERS) else []
