"""Sorted rows and what is read off them: sort, argsort, topk, kthvalue, medians."""

from functools import partial

from aotpack.ir.dtypes import DType
from aotpack.ir.integers import Int
from aotpack.ir.nodes import Value
from aotpack.ir.rewrite import as_index
from aotpack.lower.context import Context, Index, Scalar
from aotpack.lower.registry import CannotLower, lowering
from aotpack.lower.values import position
from aotpack.lower.view import replaced, with_entry
from aotpack.stages import Ref


@lowering("aten.sort.default")
def sort(c: Context, self: Ref, dim: int = -1, descending: bool = False) -> None:
    """Always stable, which torch's default may be."""
    c.sort((c.result(0), c.result(1)), self, dim, descending=descending)


@lowering("aten.sort.stable")
def sort_stable(
    c: Context, self: Ref, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> None:
    sort(c, self, dim, descending)


@lowering("aten.msort.default")
def msort(c: Context, self: Ref) -> None:
    c.sort((c.result(), positions_of(c, self)), self, 0, descending=False)


@lowering("aten.argsort.default")
def argsort(c: Context, self: Ref, dim: int = -1, descending: bool = False) -> None:
    c.sort((values_of(c, self), c.result()), self, dim, descending=descending)


@lowering("aten.argsort.stable")
def argsort_stable(
    c: Context, self: Ref, *, stable: bool, dim: int = -1, descending: bool = False
) -> None:
    argsort(c, self, dim, descending)


def values_of(c: Context, self: Ref) -> Ref:
    """A new tensor for the elements in order."""
    return c.temporary("sorted", c.dtype(self), c.shape(self))


def positions_of(c: Context, self: Ref) -> Ref:
    """A new tensor for where the elements in order come from."""
    return c.temporary("order", DType.INT64, c.shape(self))


@lowering("aten.topk.default")
def topk(
    c: Context, self: Ref, k: Scalar, dim: int = -1, largest: bool = True, sorted: bool = True
) -> None:
    """The beginning of the sorted row: what torch may leave unsorted is sorted here."""
    both = (values_of(c, self), positions_of(c, self))
    c.sort(both, self, dim, descending=largest)
    for number, source in enumerate(both):
        c.pointwise(c.result(number), partial(c.load, source))
