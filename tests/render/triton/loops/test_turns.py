"""The text of loops in one launch: what is loaded once, what before the wait, what behind it."""

import pytest
import torch

from aotpack.target import Target
from tests.render.models import rendered
from tests.schedule.loops import Layer

H100 = (Target("cuda", 90),)


def lines(units: int, rows: int = 3, gates: int = 1) -> list[str]:
    """The lines of the kernel of a layer's loop."""
    args = (torch.randn(rows, units), torch.randn(4, rows, units))
    product = rendered(Layer(units, gates), *args, targets=H100)
    (kernel,) = (one for one in product.kernels if one.cluster_size > 1)
    return [line.strip() for line in kernel.text.splitlines()]


def places(text: list[str], *parts: str) -> list[int]:
    """The number of the first line with each of the parts."""
    return [next(n for n, line in enumerate(text) if part in line) for part in parts]


def test_a_turn_requests_its_slice_before_it_waits_for_others() -> None:
    text = lines(20)
    start = places(text, "for number")[0]
    found = places(text, "tl.load(weight_ptr", "for number", "tl.load(xs_ptr")
    assert found == sorted(found)
    inside = [start + n for n in places(text[start:], "xs_ptr", "_wait()", ".cg", "tl.dot", "_arr")]
    assert inside == sorted(inside)


def test_states_go_through_memory_of_two_turns() -> None:
    text = "\n".join(lines(20))
    assert "(number % 2) + 20 * row + k_row, mask=row_mask & k_row_mask" in text
    assert "((number + 1) % 2) + 20 * row + unit, t" in text


def test_whole_blocks_have_no_checks() -> None:
    text = "\n".join(lines(128, 16))
    assert "mask" not in text


@pytest.mark.parametrize("gates", [2, 4])
def test_the_columns_of_a_unit_are_neighbours(gates: int) -> None:
    text = "\n".join(lines(20, gates=gates))
    assert text.count("tl.dot(") == 1 and text.count("tl.split(") == gates - 1
    assert f"window = (column % {gates})[None, :]" in text
    assert "20*column_unit + 400*window" in text


def test_three_products_are_apart() -> None:
    text = "\n".join(lines(20, gates=3))
    assert text.count("tl.dot(") == 3 and "tl.split(" not in text
