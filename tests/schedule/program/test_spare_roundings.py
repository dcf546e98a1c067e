"""Roundings that change nothing are dropped; others stay."""

from dataclasses import replace

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program, targets
from aotpack.schedule.fusion.fuse import fuse
from aotpack.schedule.program.realize import realize
from aotpack.schedule.program.spare_roundings import drop_kernels_roundings, drop_spare_roundings
from tests.schedule.programs import BF16, F32, Writer, apply, load

ROUND = "round_bfloat16"


def returned() -> Program:
    """A conversion that is stored alone."""
    w = Writer()
    x = w.input("x", 8)
    return w.program(w.pointwise("h", [8], lambda i: apply(ROUND, load(x, i)), dtype=BF16))


def of_an_input() -> Program:
    """A decision on a moved input, which memory holds in 16 bits."""
    w = Writer()
    x = w.input("x", 8, dtype=BF16)
    v = w.pointwise("v", [8], lambda i: apply("neg", load(x, 7 - i)), dtype=BF16)
    return w.program(w.pointwise("m", [8], lambda i: apply("floor", apply(ROUND, load(v, i)))))


def factor(operand: DType = BF16) -> Program:
    """A conversion before a product."""
    w = Writer()
    x, y = w.input("x", 8, 4), w.input("y", 4, 8, dtype=BF16)
    h = w.pointwise("h", [8, 4], lambda i, k: apply(ROUND, load(x, i, k)), dtype=BF16)
    z = w.matmul("z", 8, 8, 4, h, y, by_rows=False)
    product = w.operations[-1]
    assert isinstance(product, Matmul)
    w.operations[-1] = replace(product, operand=operand)
    return w.program(z)


def read_beside() -> Program:
    """A conversion that arithmetic reads."""
    w = Writer()
    x = w.input("x", 8)
    h = w.pointwise("h", [8], lambda i: apply(ROUND, load(x, i)), dtype=BF16)
    y = w.pointwise("y", [8], lambda i: apply("sub", load(x, i), load(h, i)), dtype=F32)
    return w.program(y, h)


def of_a_sum() -> Program:
    """A decision on a result."""
    w = Writer()
    x = w.input("x", 8, dtype=BF16)
    v = w.pointwise("v", [8], lambda i: apply("add", load(x, i), load(x, 7 - i)), dtype=BF16)
    return w.program(w.pointwise("m", [8], lambda i: apply("floor", apply(ROUND, load(v, i)))))


@pytest.mark.parametrize("before", [returned(), of_an_input(), factor()])
def test_spare_roundings_are_dropped(before: Program) -> None:
    assert ROUND in str(before)
    assert ROUND not in str(drop_spare_roundings(before))


@pytest.mark.parametrize("before", [read_beside(), of_a_sum(), factor(F32)])
def test_others_stay(before: Program) -> None:
    assert drop_spare_roundings(before) is before


@pytest.mark.parametrize("before", [read_beside(), of_a_sum()])
def test_others_stay_within_a_kernel(before: Program) -> None:
    kernels = fuse(before)
    assert drop_kernels_roundings(before, kernels) == (before, kernels)


def test_a_conversion_is_cheap_enough_for_each_of_its_readers() -> None:
    w = Writer()
    x, b = w.input("x", 64, 64), w.input("b", 64)
    h = w.pointwise("h", [64], lambda i: apply(ROUND, load(b, i)), dtype=BF16)
    y = w.pointwise("y", [64, 64], lambda i, j: apply("add", load(x, i, j), load(h, j)))
    after = realize(w.program(y))
    assert [targets(one) for one in after.operations] == [("y",)]


def test_results_of_other_kernels_are_rounded_in_memory() -> None:
    w = Writer()
    x = w.input("x", 64, 64, dtype=BF16)
    s = w.pointwise("s", [64, 64], lambda i, j: apply("exp", load(x, i, j)), dtype=BF16)
    c = w.reduction("c", [64], [64], lambda j, r: load(s, r, j), dtype=BF16)
    m = w.pointwise("m", [64], lambda j: apply("exp", apply(ROUND, load(c, 63 - j))))
    before = w.program(s, c, m)
    after, kernels = drop_kernels_roundings(before, fuse(before))
    assert len(kernels) > 1
    assert ROUND in str(before) and ROUND not in str(after)
