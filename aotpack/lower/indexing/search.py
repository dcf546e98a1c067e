"""Search in sorted rows, and membership: searchsorted, bucketize, isin."""

from aotpack.ir.dtypes import DType
from aotpack.ir.ordering import clamped_index, search, unless_empty
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import product
from aotpack.ir.values import Value
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.promotion import Operand, number_type, result_type
from aotpack.lower.registry import lowering
from aotpack.lower.reshape import unflatten_index
from aotpack.lower.values import apply, cast, index_from, position
from aotpack.stages import Ref


@lowering("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    c: Context,
    sorted_sequence: Ref,
    self: Ref | Scalar,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Ref | None = None,
) -> None:
    """Binary search in rows of equal leading dimensions, or in one row for all, as in torch."""
    after_equals = right or side == "right"
    shape = c.shape(sorted_sequence)
    common = _common_type(c, sorted_sequence, self)

    def value(index: Index) -> Value:
        row = index[:-1] if len(shape) > 1 else ()
        wanted = c.operand(self, index, common)

        def is_counted(place: Value) -> Value:
            at = clamped_index(place, shape[-1])
            if sorter is not None:
                at = index_from(c.load(sorter, (*row, at)), shape[-1])
            element = c.converted(sorted_sequence, c.load(sorted_sequence, (*row, at)), common)
            return apply("logical_not", apply("gt" if after_equals else "ge", element, wanted))

        longest = int(min(bounds(shape[-1])[1], 2**31))
        found = search(position(0), position(shape[-1]), longest, is_counted)
        return cast(unless_empty(shape[-1], found), c.dtype(c.result()))

    c.pointwise(c.result(), value)


@lowering("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(
    c: Context, self: Ref | Scalar, boundaries: Ref, *, out_int32: bool = False, right: bool = False
) -> None:
    searchsorted(c, boundaries, self, right=right)


@lowering("aten.isin.Tensor_Tensor", "aten.isin.Tensor_Scalar", "aten.isin.Scalar_Tensor")
def isin(
    c: Context,
    elements: Ref | Scalar,
    test_elements: Ref | Scalar,
    *,
    assume_unique: bool = False,
    invert: bool = False,
) -> None:
    """Compare each element with each test element. NaN equals nothing."""
    common = _common_type(c, elements, test_elements)
    tests = c.shape(test_elements) if isinstance(test_elements, Ref) else ()
    found = c.temporary("found", DType.BOOL, c.shape(c.result()))

    def equal(outer: Index, inner: Index) -> tuple[Value, ...]:
        other = unflatten_index(inner[0], tests) if tests else ()
        element = c.operand(elements, outer, common)
        return (apply("eq", element, c.operand(test_elements, other, common)),)

    c.reduction((found,), "any", (product(tests),), equal)
    c.pointwise(
        c.result(),
        lambda index: (
            apply("logical_not", c.load(found, index)) if invert else c.load(found, index)
        ),
    )


def _common_type(c: Context, *operands: Ref | Scalar) -> DType:
    """The type in which tensors and numbers are compared."""

    def seen(operand: Ref | Scalar) -> Operand:
        if isinstance(operand, Ref):
            return Operand(c.dtype(operand), "tensor" if c.rank(operand) else "zero-dim")
        return Operand(number_type(operand), "number")

    return result_type(map(seen, operands))
