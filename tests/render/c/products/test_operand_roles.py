"""Which factor of a product is packed, and whether rows can be read where they lie."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.operations import Matmul
from aotpack.render.c.products.operand_roles import choose_roles, operands_of, row_stride
from tests.schedule.programs import BF16, F16, F32, Writer, schedule_of


def product(m: int, n: int, *, by_rows: bool = True, dtype: DType = F32):
    """The schedule of ``x @ w.T`` (or ``x @ w``), its kernel and its product."""
    w = Writer()
    shape = (n, 96) if by_rows else (96, n)
    x, weight = w.input("x", m, 96, dtype=dtype), w.weight("w", *shape, dtype=dtype)
    schedule = schedule_of(w.program(w.matmul("y", m, n, 96, x, weight, by_rows=by_rows)))
    (kernel,) = schedule.kernels
    assert isinstance(kernel.template_op, Matmul)
    return schedule, kernel, kernel.template_op


@pytest.mark.parametrize(
    ("m", "n", "packed"), [(64, 2048, "m"), (2048, 64, "n")], ids=["few-rows", "few-columns"]
)
def test_the_shorter_factor_is_packed_and_the_longer_read_in_place(
    m: int, n: int, packed: str
) -> None:
    schedule, kernel, template_op = product(m, n)
    roles = choose_roles(schedule, kernel, template_op)
    assert roles.packed.axis is getattr(template_op, packed)
    assert {roles.packed.axis, roles.rows.axis} == {template_op.m, template_op.n}


def test_a_factor_whose_depth_is_not_side_by_side_is_packed() -> None:
    schedule, kernel, template_op = product(64, 2048, by_rows=False)
    assert choose_roles(schedule, kernel, template_op).packed.axis is template_op.n


def test_stores_run_along_the_packed_axis_where_results_lie_along_it() -> None:
    """Results are [m, n]: neighbours along n."""
    schedule, kernel, template_op = product(2048, 64)
    roles = choose_roles(schedule, kernel, template_op)
    assert roles.packed.axis is template_op.n and roles.panel_is_inner
    schedule, kernel, template_op = product(64, 2048)
    assert not choose_roles(schedule, kernel, template_op).panel_is_inner


@pytest.mark.parametrize(
    ("dtype", "stored", "in_place"),
    [(F32, F32, True), (BF16, BF16, True), (F32, BF16, False), (F16, F32, False)],
)
def test_rows_are_read_in_place_where_they_are_stored_as_multiplied(
    dtype: DType, stored: DType, in_place: bool
) -> None:
    schedule, _, template_op = product(64, 2048, dtype=dtype)
    _, right = operands_of(template_op)
    step = row_stride(right, schedule, DType.FLOAT32, stored)
    assert (step is not None) is in_place
    assert step is None or step.constant == 96


def test_rows_that_are_rounded_before_they_are_multiplied_are_copied() -> None:
    schedule, _, template_op = product(64, 2048)
    left, _ = operands_of(template_op)
    assert row_stride(left, schedule, BF16, F32) is None


def test_columns_cannot_be_read_as_rows() -> None:
    schedule, _, template_op = product(64, 2048, by_rows=False)
    left, right = operands_of(template_op)
    assert row_stride(left, schedule, F32, F32) is not None
    assert row_stride(right, schedule, F32, F32) is None
