"""C as a dialect of the emitter: typed scalars, in loops that the compiler vectorises."""

from collections.abc import Sequence

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Const
from aotpack.render.c.operators import c_text
from aotpack.render.c.types import C_TYPES, c_cast, c_literal


class CDialect:
    """Expressions over scalars. Every name is declared once, with its type."""

    def literal(self, constant: Const) -> str:
        """A number with exactly its type, in parentheses where it has a sign."""
        return c_literal(constant.value, constant.dtype)

    def apply(
        self, op: str, args: Sequence[str], operand: DType, result: DType, ends_in: DType | None
    ) -> str:
        """The text of the C table; the functions are fast in either precision."""
        return c_text(op, args, operand, result)

    def cast(self, text: str, source: DType, target: DType) -> str:
        """A cast, or a conversion function for 16-bit floats."""
        return c_cast(text, source, target)

    def index_value(self, text: str, dtype: DType) -> str:
        """A cast."""
        return c_cast(f"({text})", None, dtype)

    def fill(self, shape: str, text: str, dtype: DType) -> str:
        """A cast: a tile is one element."""
        return c_cast(text, DType.FLOAT32, dtype)

    def declare(self, name: str, text: str, dtype: DType | None) -> str:
        """A constant; indices are 64 bits wide."""
        kind = "int64_t" if dtype is None else C_TYPES[dtype.compute]
        return f"const {kind} {name} = {text};"

    def address(self, pointer: str, offset: str) -> str:
        """The element."""
        return f"{pointer}[{offset}]"

    def load(self, address: str, conditions: Sequence[str], dtype: DType, keep: str = "") -> str:
        """The element, read only where the conditions hold."""
        if not conditions:
            return address
        return f"{' & '.join(conditions)} ? {address} : 0"

    def store(
        self, address: str, value: str, conditions: Sequence[str], dtype: DType, keep: str = ""
    ) -> str:
        """An assignment, only where the conditions hold."""
        guard = f"if ({' & '.join(conditions)}) " if conditions else ""
        return f"{guard}{address} = {self.stored(value, dtype)};"

    def stored(self, value: str, dtype: DType) -> str:
        """A value in the format of memory."""
        return value if dtype.compute is dtype else f"aot_{dtype}_of_float({value})"

    def where(self, condition: str, value: str, otherwise: str) -> str:
        """A conditional expression."""
        return f"{condition} ? {value} : {otherwise}"

    def indirect(self, name: str, dtype: DType) -> str:
        """The name, widened: products of indices must not wrap."""
        return name if dtype is DType.INT64 else f"(int64_t){name}"

    def size(self, name: str) -> str:
        """A size of the model, under a prefix that no other identifier has."""
        return f"size_of_{name}"

    def wide_index(self) -> str:
        """Nothing: indices are 64 bits wide."""
        return ""

    def quotient(self, num: str, den: str) -> str:
        """C's / rounds towards zero."""
        return f"{num} / {den}"

    def remainder(self, num: str, den: str) -> str:
        """C's % has the sign of the numerator."""
        return f"{num} % {den}"

    def extremum(self, name: str, a: str, b: str) -> str:
        """A function of the header."""
        return f"aot_{name}({a}, {b})"

    def broadcast(self, text: str, shape: str) -> str:
        """Scalars have no shape."""
        return text


C = CDialect()
