"""An attribute that is computed when it is first read, and kept."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

ResultT = TypeVar("ResultT")


class lazy(Generic[ResultT]):  # noqa: N801  (it is read as a decorator)
    """``functools.cached_property`` of Python 3.12 and later.

    That of 3.11 holds a lock of the class while it computes: builds in threads would wait for each
    other, and a process that is forked meanwhile for ever.
    """

    def __init__(self, compute: Callable[[Any], ResultT]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, one: None, owner: type) -> "lazy[ResultT]": ...

    @overload
    def __get__(self, one: object, owner: type) -> ResultT: ...

    def __get__(self, one: object | None, owner: type) -> "lazy[ResultT] | ResultT":
        if one is None:
            return self
        result = self._compute(one)
        one.__dict__[self._name] = result
        return result
