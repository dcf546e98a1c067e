"""Triton as a dialect of the emitter: tiles, masked loads and stores."""

from collections.abc import Sequence

from aotpack.ir.dtypes import DType
from aotpack.ir.values import Const
from aotpack.render.triton.operators import triton_text
from aotpack.render.triton.types import TRITON_TYPES, triton_literal

_SHIFTS = {"shift_left": "<<", "shift_right": ">>"}


class TritonDialect:
    """Expressions over tiles; names need no declaration of their type."""

    def literal(self, constant: Const) -> str:
        """A number with exactly its type: float32, int32 and bool are Triton's own."""
        value = constant.value
        if constant.dtype is DType.BOOL:
            return "True" if value else "False"
        text = triton_literal(value)
        if constant.dtype in (DType.FLOAT32, DType.INT32):
            return text
        return _full("[]", text, constant.dtype)

    def apply(
        self, op: str, args: Sequence[str], operand: DType, result: DType, ends_in: DType | None
    ) -> str:
        """The text of the table; a shift by a constant in range needs no check."""
        if op in _SHIFTS and args[1].isdecimal() and int(args[1]) < operand.facts.bits:
            return f"{args[0]} {_SHIFTS[op]} {args[1]}"
        return triton_text(op, args, operand, result, ends_in)

    def cast(self, text: str, source: DType, target: DType) -> str:
        """``text.to(...)``."""
        return f"{text}.to({TRITON_TYPES[target]})"

    def index_value(self, text: str, dtype: DType) -> str:
        """``tl.cast``, which takes plain numbers too."""
        return f"tl.cast({text}, {TRITON_TYPES[dtype]})"

    def fill(self, shape: str, text: str, dtype: DType) -> str:
        """``tl.full``."""
        return _full(shape, text, dtype)

    def declare(self, name: str, text: str, dtype: DType | None) -> str:
        """An assignment."""
        return f"{name} = {text}"

    def address(self, pointer: str, offset: str) -> str:
        """A tile of pointers."""
        return f"{pointer} + {offset}"

    def load(self, address: str, conditions: Sequence[str], dtype: DType, keep: str = "") -> str:
        """``tl.load``, with a mask if there are conditions."""
        mask = f", mask={' & '.join(conditions)}, other=0" if conditions else ""
        return f"tl.load({address}{mask}{_eviction(keep)})"

    def store(
        self, address: str, value: str, conditions: Sequence[str], dtype: DType, keep: str = ""
    ) -> str:
        """``tl.store``, with a mask if there are conditions."""
        mask = f", mask={' & '.join(conditions)}" if conditions else ""
        if dtype.compute is not dtype and value.isidentifier():  # Triton casts plain numbers
            value = self.cast(value, dtype.compute, dtype)
        return f"tl.store({address}, {value}{mask}{_eviction(keep)})"

    def where(self, condition: str, value: str, otherwise: str) -> str:
        """``tl.where``."""
        return f"tl.where({condition}, {value}, {otherwise})"

    def indirect(self, name: str, dtype: DType) -> str:
        """The name: Triton widens by itself."""
        return name

    def size(self, name: str) -> str:
        """Sizes are parameters under their own names."""
        return name

    def wide_index(self) -> str:
        """A cast."""
        return ".to(tl.int64)"

    def quotient(self, num: str, den: str) -> str:
        """Triton's // rounds towards zero."""
        return f"{num} // {den}"

    def remainder(self, num: str, den: str) -> str:
        """Triton's % has the sign of the numerator."""
        return f"{num} % {den}"

    def extremum(self, name: str, a: str, b: str) -> str:
        """``tl.minimum`` or ``tl.maximum``."""
        return f"tl.{'minimum' if name == 'min' else 'maximum'}({a}, {b})"

    def broadcast(self, text: str, shape: str) -> str:
        """``tl.broadcast_to``."""
        return f"tl.broadcast_to({text}, {shape})"


def _eviction(keep: str) -> str:
    if keep == "past":
        return ', cache_modifier=".cg"'
    return f', eviction_policy="evict_{keep}"' if keep else ""


def _full(shape: str, text: str, dtype: DType) -> str:
    """The interpreter of Triton 3.6 makes no bfloat16 of a number."""
    if dtype is DType.BFLOAT16:
        return f"tl.full({shape}, {text}, tl.float32).to(tl.bfloat16)"
    return f"tl.full({shape}, {text}, {TRITON_TYPES[dtype]})"


TRITON = TritonDialect()
