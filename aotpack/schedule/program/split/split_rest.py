"""The elements of a split reduction that are in no part: the second half takes them too.

    whole = count * length + rest        y[i] = sum over s of p[s, i] + (s < R ? x[i, S*J + s] : 0)

    up to several elements for each of the S parts, R in all:
    y[i] = sum over n < max(S, R) of (n < S ? p[n, i] : 0) + (n < R ? x[i, S*J + n] : 0)

So all parts are equally long, and the first half compares no positions.
"""

from dataclasses import dataclass

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import delinearize, points
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.fold import integer_value
from aotpack.ir.ops.monoids import MONOIDS
from aotpack.ir.rewrite import Rewriter
from aotpack.ir.symbolic.integers import Axis, Int, Number, maximum, minimum
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value

JOINS = {  # the operator that joins a part and an element, by kind
    "sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "logical_or",
    "all": "logical_and",
    "xor_sum": "bitwise_xor",
}


@dataclass(frozen=True, slots=True)
class Rest:
    """Up to ``lanes`` elements for each part; none if that is 0.

    They may be more, but fewer than ``short``: then all elements are in no part.
    """

    whole: Reduction
    first: Reduction
    lanes: int = 0
    short: int = 0

    @property
    def inner(self) -> tuple[Axis, ...]:
        """The reduced axes of the second half."""
        own = tuple(axis for axis in self.first.axes if axis not in self.whole.axes)
        return (self._left,) if self.lanes > 1 else own

    @property
    def element(self) -> Value:
        """The reduced value of the element beside a part."""
        (element,) = args_at(self.whole, self._start + Int.of(*self.inner))
        return element

    def merged(self, kind: str, of_part: Value, of_element: Value) -> Value:
        """The value of the second half: that of a part, and that of an element if there is one."""
        if not self.lanes:
            return of_part
        dtype = of_part.dtype
        nothing = Const(MONOIDS[kind].identities(dtype)[0], dtype)
        (beside,) = map(Int.of, self.inner)
        left = points(self.whole.inner) - self._start
        element = Guarded(less(beside, left), of_element, nothing, dtype)
        if self.lanes > 1:
            of_part = Rewriter({self._part: beside})(of_part)
            of_part = Guarded(less(beside, self._part.extent), of_part, nothing, dtype)
        return Apply(JOINS[kind], (of_part, element), dtype)

    @property
    def _part(self) -> Axis:
        return self.first.axes[0]

    @property
    def _left(self) -> Axis:
        """Numbers parts, and elements in no part, which are rarely more than the parts."""
        count, left = self._part.extent, points(self.whole.inner) - self._start
        if self.short:
            left = minimum(left, maximum(count * self.lanes, self.short))  # a bound that is known
        return Axis("left", maximum(count, left))

    @property
    def _start(self) -> Int:
        return self._part.extent * self.first.inner[0].extent


def args_at(operation: Reduction, position: Int) -> tuple[Value, ...]:
    """The reduced values at a flat position of the inner axes."""
    return tuple(map(Rewriter(delinearize(operation.inner, position)), operation.args))


def less(index: Int, limit: Number, dtype: DType = DType.INT64) -> Value:
    """True where an index is below a limit."""
    return Apply("lt", (IndexValue(index, dtype), integer_value(limit, dtype)), DType.BOOL)
