"""The producer and the readers of each buffer, and what stands in an operation.

A pass computes them once, for its operations. For kernels and members see ``ir/kernels/kernel.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from aotpack.ir.foreign import Foreign
from aotpack.ir.program import (
    Branch,
    Control,
    Loop,
    Operation,
    all_axes,
    reads,
    store_index,
    targets,
    values,
)
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Apply, Guarded, IndexValue, Load, Value, walk

User = TypeVar("User")


@dataclass(frozen=True, slots=True)
class Uses(Generic[User]):
    """The producer and the readers of each buffer; a buffer without any has no entry."""

    producers: Mapping[str, User]
    readers: Mapping[str, tuple[User, ...]]  # each reader once, in order

    @staticmethod
    def of(users: Iterable[tuple[User, Iterable[str], Iterable[str]]]) -> Uses[User]:
        """The uses by (user, buffers it writes, buffers it reads)."""
        producers: dict[str, User] = {}
        readers: dict[str, list[User]] = {}
        for user, written, read in users:
            producers.update(dict.fromkeys(written, user))
            for name in dict.fromkeys(read):
                readers.setdefault(name, []).append(user)
        frozen = {name: tuple(found) for name, found in readers.items()}
        return Uses(MappingProxyType(producers), MappingProxyType(frozen))

    def has_other_readers(self, name: str, user: User) -> bool:
        """True when another user reads a buffer."""
        return any(reader != user for reader in self.readers.get(name, ()))


def operation_uses(operations: Iterable[Operation]) -> Uses[Operation]:
    """The uses by operations, including reads of whole buffers."""
    return Uses.of((one, targets(one), reads(one)) for one in operations)


def integers(operation: Operation) -> list[Int]:
    """The extents of an operation, its indices, and those of what is inside of it."""
    found = [axis.extent for axis in all_axes(operation)] + [*store_index(operation)]
    for value in walk(values(operation)):
        if isinstance(value, Load):
            found += value.index
        elif isinstance(value, IndexValue):
            found.append(value.index)
    if isinstance(operation, Foreign):
        found += [*operation.grids, *(one for one in operation.arguments if isinstance(one, Int))]
    if isinstance(operation, Control):
        if isinstance(operation, (Branch, Loop)):
            asked = operation.predicate if isinstance(operation, Branch) else operation.condition
            found += [asked] if isinstance(asked, Int) else []
        inside = (one for part in operation.parts for one in part.operations)
        found += [one for each in inside for one in integers(each)]
    return found


def operator_count(operation: Operation) -> int:
    """The operators in the values of an operation, each once."""
    return operators_below(values(operation))


def operators_below(roots: Iterable[Value]) -> int:
    """The operators in values, each once."""
    return sum(isinstance(value, (Apply, Guarded)) for value in walk(roots))
