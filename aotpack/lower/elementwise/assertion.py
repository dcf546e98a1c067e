"""An assertion's flag: 0 until its condition fails, 1 from then on."""

from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index
from aotpack.lower.registry import lowering
from aotpack.lower.values import where
from aotpack.stages import Ref


@lowering("assertion.word")
def word(context: Context, before: Ref, condition: Ref) -> None:
    """The flag after a run: unchanged if the condition holds, else 1."""

    def value(index: Index) -> Value:
        return where(context.load(condition, index), context.load(before, index), 1)

    context.pointwise(context.result(), value)
