"""The port between the emitter and a language of kernels.

Operands are names or literals. A method gives an expression, or a statement where it says a line.
"""

from collections.abc import Sequence
from typing import Protocol

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Const


class Dialect(Protocol):
    """One language; ``render/languages.py`` lists them."""

    def literal(self, constant: Const) -> str:
        """A number of exactly its type."""

    def apply(
        self, op: str, args: Sequence[str], operand: DType, result: DType, ends_in: DType | None
    ) -> str:
        """An operator of the op table on operands of type ``operand``."""

    def cast(self, text: str, source: DType, target: DType) -> str:
        """An operand of one type in another; a 16-bit float rounds."""

    def index_value(self, text: str, dtype: DType) -> str:
        """An index expression as data."""

    def fill(self, shape: str, text: str, dtype: DType) -> str:
        """A constant of type ``dtype`` as a tile; ``shape`` is all ones."""

    def declare(self, name: str, text: str, dtype: DType | None) -> str:
        """The line that gives a value (of type None: an index) its name."""

    def address(self, pointer: str, offset: str) -> str:
        """The address of an element."""

    def load(self, address: str, conditions: Sequence[str], dtype: DType, keep: str = "") -> str:
        """The element as stored; where a condition does not hold, 0 without an access.

        ``keep`` is the eviction policy of caches: "last" for elements that are read again soon,
        "first" for those that are not; "past" reads past the near caches, which may be stale.
        """

    def store(
        self, address: str, value: str, conditions: Sequence[str], dtype: DType, keep: str = ""
    ) -> str:
        """The line that writes a value of the compute type to an element of ``dtype``."""

    def where(self, condition: str, value: str, otherwise: str) -> str:
        """A select: one of two values, both computed."""

    def indirect(self, name: str, dtype: DType) -> str:
        """A loaded integer as a factor of an index."""

    def size(self, name: str) -> str:
        """A size of the model."""

    def wide_index(self) -> str:
        """What stands behind a program number or range to make it 64 bits wide."""

    def quotient(self, num: str, den: str) -> str:
        """Division of indices that rounds towards zero."""

    def remainder(self, num: str, den: str) -> str:
        """The remainder of ``quotient``."""

    def extremum(self, name: str, a: str, b: str) -> str:
        """The "min" or "max" of two indices."""

    def broadcast(self, text: str, shape: str) -> str:
        """A tile broadcast to a shape."""
