"""Copies, conversions and what does nothing when a model is only run.

Rows C:E19, S:H24.
"""

from aotpack.lower.context import Context
from aotpack.lower.pointwise import result_dtype
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import cast
from aotpack.stages import Arg, Ref


def _convert(c: Context, self: Ref, *_: Arg, **__: Arg) -> None:
    """Copies and conversions: the result's dtype says all."""
    c.pointwise(c.result(), lambda index: cast(c.load(self, index), result_dtype(c)))


lowering(
    "aten.to.dtype",
    "aten.to.dtype_layout",
    "aten.to.device",
    "aten.to.other",
    "aten._to_copy.default",
    "aten.type_as.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.alias.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "aten.lift.default",
    "aten.positive.default",
    "aten.resolve_conj.default",
    "aten.resolve_neg.default",
    "prims.convert_element_type.default",
)(_convert)


@lowering("aten.copy.default")
def copy(c: Context, self: Ref, src: Ref, non_blocking: bool = False) -> None:
    c.pointwise(c.result(), lambda index: c.operand(src, index, result_dtype(c)))


@lowering("aten.dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default")
def dropout(c: Context, input: Ref, p: float, train: bool) -> None:
    if train and p > 0:
        raise CannotLower("dropout is on; call model.eval() before the build")
    c.pointwise(c.result(), lambda index: c.load(input, index))
