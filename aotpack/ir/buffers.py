"""Buffers of a program, and what a program says of them: updates, packed weights, concats."""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import Int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory, addressed by logical index; strides come with the schedule.

    An ``unfusable`` buffer is stored, and its producer is alone in its kernel. An ``order`` (of
    dimensions, outermost first) is a contract with callers; without one, that is row-major.
    """

    name: str
    dtype: DType
    shape: tuple[Int, ...]
    unfusable: bool = False
    order: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Update:
    """After a run the input or weight ``name`` has the value of the buffer ``value``."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A weight that consists of others, contiguous in memory along the first dimension."""

    name: str
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConcatBuffer:
    """``name`` is all its ``parts`` in one memory; a part has its shape and type.

    A pointwise operation writes some elements of each part; together they write each element once.
    No other concat buffer has a part of these.
    """

    name: str
    parts: tuple[str, ...]
