"""Which strides are padded, to what, and that no kernel's accesses become narrower by it."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.access import in_order
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.kernels.rows import LINE_BYTES
from aotpack.ir.kernels.tiles import Tile2D
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.render import render
from aotpack.schedule.tiles.padding import LARGEST_DENSE, padded
from aotpack.target import Target
from tests.ptx import access_bytes
from tests.schedule.programs import (
    BF16,
    F32,
    Size,
    Writer,
    apply,
    load,
    lowered,
    schedule,
    schedule_of,
)

B, C = Var("b", 1, 4096), Var("c", 1025, 4096)
ODD = 4097  # elements, in 2 bytes each; 64 fill a line
SIZES = st.lists(st.sampled_from([1, 2, 7, 33, 1025, 4097]), min_size=1, max_size=5)


@pytest.mark.row("S:D5", "S:inv34")
@given(SIZES, st.sampled_from([1, 2, 4, 8]), st.data())
def test_padded_strides_keep_the_order(
    sizes: list[int], itemsize: int, data: st.DataObject
) -> None:
    shape = tuple(map(Int.of, sizes))
    dims = data.draw(st.permutations(range(len(sizes))))
    dense = in_order(shape, tuple(dims))
    found = padded(shape, dense, itemsize)
    line = LINE_BYTES // itemsize
    steps = [int(found[dim]) for dim in reversed(dims)]  # from the innermost on
    assert steps[0] == 1 and steps == sorted(steps)
    within = 1
    for dim, step in zip(reversed(dims), steps, strict=True):
        assert within <= step < within + line and int(dense[dim]) <= step
        assert step <= LARGEST_DENSE or step % line == 0 or found == dense
        within = step * sizes[dim]


@pytest.mark.row("S:D5", "S:inv34")
def test_what_a_size_decides_and_channels_last_stay() -> None:
    rows = tuple(map(Int.of, (B, 3, C)))
    dense = in_order(rows, (0, 1, 2))
    assert padded(rows, dense, 2) == dense
    image = tuple(map(Int.of, (2, 1030, 7, 7)))
    assert padded(image, in_order(image, (0, 2, 3, 1)), 2) == in_order(image, (0, 2, 3, 1))
    assert padded(image, in_order(image, (0, 1, 2, 3)), 2) != in_order(image, (0, 1, 2, 3))


def steps(schedule: Schedule) -> dict[str, list[str]]:
    """The strides that are padded."""
    buffers = schedule.program.buffers
    return {
        name: list(map(str, strides))
        for name, strides in schedule.strides.items()
        if strides != in_order(buffers[name].shape, tuple(range(len(strides))))
    }


def product(w: Writer, n: Size, name: str = "t", *, rows: Size = B) -> Buffer:
    """A product with rows of n elements, in 16 bits."""
    x, weight = w.input(f"x_{name}", rows, 32, dtype=BF16), w.weight(f"w_{name}", n, 32, dtype=BF16)
    made = w.matmul(name, rows, n, 32, x, weight)
    w.buffers[name] = replace(made, dtype=BF16)
    return w.buffers[name]


def sums(w: Writer, t: Buffer, name: str = "y") -> Buffer:
    """Each row's sum of exponentials."""
    rows, n = t.shape
    return w.reduction(name, [rows], [n], lambda i, r: apply("exp", load(t, i, r)))


def product_and_sums(n: Size, *, is_output: bool = False) -> Program:
    w = Writer((B, C))
    t = product(w, n)
    y = sums(w, t)
    return w.program(t, y) if is_output else w.program(y)


@pytest.mark.row("S:D5")
def test_rows_between_a_product_and_a_reduction_are_padded() -> None:
    made = schedule_of(product_and_sums(ODD))
    verify_schedule(made)
    assert steps(made) == {"t": ["4160", "1"]}


@pytest.mark.row("S:D5")
@pytest.mark.parametrize("n", [C, 1001, 4096, 4098], ids=["dynamic", "short", "lines", "pairs"])
def test_no_padding_where_rows_are_dynamic_short_or_aligned(n: Size) -> None:
    assert steps(schedule_of(product_and_sums(n))) == {}


@pytest.mark.row("S:D5", "S:D14")
def test_what_callers_see_has_no_gaps() -> None:
    assert steps(schedule_of(product_and_sums(ODD, is_output=True))) == {}


@pytest.mark.row("S:D5")
def test_a_pointwise_kernel_between_padded_rows_goes_line_by_line() -> None:
    w = Writer((B, C))
    t, v = product(w, ODD), product(w, ODD, "v")
    u = w.pointwise(
        "u", (B, ODD), lambda i, j: apply("mul", load(t, i, j), load(v, i, j)), dtype=BF16
    )
    w.buffers["u"] = replace(u, unfusable=True)
    made = schedule_of(w.program(sums(w, u)))
    verify_schedule(made)
    assert steps(made) == {name: ["4160", "1"] for name in "tvu"}
    (kernel,) = (kernel for kernel in made.kernels if "u" in kernel.stored)
    tiles = {type(variant.tile) for variant in kernel.variants if variant.arch_high > 0}
    assert tiles == {Tile2D}


@pytest.mark.row("S:D5")
def test_pointwise_kernels_alone_gain_nothing_from_rows_with_room() -> None:
    w = Writer((B, C))
    x = w.input("x", B, ODD, dtype=BF16)
    t = w.pointwise("t", (B, ODD), lambda i, j: apply("exp", load(x, i, j)), dtype=BF16)
    w.buffers["t"] = replace(t, unfusable=True)
    y = w.pointwise("y", (B, ODD), lambda i, j: apply("neg", load(t, i, j)), dtype=BF16)
    made = schedule_of(w.program(y))
    assert len(made.kernels) == 2 and steps(made) == {}


@pytest.mark.row("S:D5")
def test_kernels_with_wide_rows_on_one_side_alone_gain_nothing() -> None:
    """One goes along rows of an input, the next down columns, into an output."""
    w = Writer((B, C))
    x = w.input("x", B, ODD, dtype=BF16)
    top = w.reduction("top", [B], [ODD], lambda i, r: load(x, i, r), kind="max")
    t = w.pointwise(
        "t",
        (B, ODD),
        lambda i, j: apply("exp", apply("sub", load(x, i, j), load(top, i))),
        dtype=BF16,
    )
    most = w.reduction("most", [ODD], [B], lambda j, r: load(t, r, j), kind="max")
    y = w.pointwise(
        "y", (B, ODD), lambda i, j: apply("sub", load(t, i, j), load(most, j)), dtype=BF16
    )
    made = schedule_of(w.program(y))
    assert [kernel.stored for kernel in made.kernels] == [("t",), ("y",)]
    assert steps(made) == {}


@pytest.mark.row("S:D5", "C:F12")
def test_products_store_and_rows_load_16_bytes_at_a_time() -> None:
    texts = render(schedule(lowered(product_and_sums(ODD))), (Target("cuda", 90),)).kernels
    found = {
        kernel.name.split("_")[0]: access_bytes(kernel) for kernel in texts if kernel.is_for(90)
    }
    assert set(found["linear"]["st"]) == {16}
    assert set(found["sum"]["ld"]) == {16}


@pytest.mark.row("S:D5", "C:inv19")
@pytest.mark.parametrize("operand", [BF16, F32], ids=str)
def test_factors_are_cleared_past_the_end_of_the_sum(operand: DType) -> None:
    """What lies in the gap is no zero, so a check against the end of the room is not enough."""
    w = Writer((B,))
    t = product(w, ODD)
    z = w.matmul("z", B, 64, ODD, t, w.weight("v", ODD, 64, dtype=BF16), by_rows=False)
    w.operations[-1] = replace(w.operations[-1], operand=operand)
    made = schedule(lowered(w.program(z)))
    assert steps(made.schedule) == {"t": ["4160", "1"]}
    texts = (kernel.text for kernel in render(made, (Target("cuda", 80),)).kernels)
    sums_over_rows = [text for text in texts if re.search("for k_start in .* 4097", text)]
    assert sums_over_rows
    for text in sums_over_rows:
        assert "tl.where(k_row_mask, " in text
