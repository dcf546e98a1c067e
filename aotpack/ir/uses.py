"""The producer and the readers of each buffer.

A pass computes them once, for its operations. For kernels and members see ``ir/kernels/kernel.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from aotpack.ir.program import Operation, reads, targets

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
