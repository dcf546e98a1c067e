"""The parameters that Triton texts store through."""

import pytest

from aotpack.render.triton.stores import STORES


@pytest.mark.parametrize(
    "line", ["tl.store(x_ptr + x, 0)", "tl.atomic_add(x_ptr, 1)", "scatter_sum(x_ptr, x, 1)"]
)
def test_a_store_is_found(line: str) -> None:
    assert STORES.findall(line) == ["x_ptr"]


@pytest.mark.parametrize("line", ["tl.load(x_ptr + x)", "scatter_sum_1a2b(x_ptr)"])
def test_what_is_no_store_is_not_found(line: str) -> None:
    assert STORES.findall(line) == []
