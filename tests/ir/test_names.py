"""Names of sizes and of what passes add: they meet no axis and nothing that is there."""

import pytest

from aotpack.ir.names import free_name, safe_size_name


@pytest.mark.parametrize("name", ["b", "s", "batch", "seq_len", "x_size0", "parts", "i", "lambda"])
def test_keeps(name: str) -> None:
    assert safe_size_name(name) == name


@pytest.mark.parametrize("name", ["x", "r", "part", "step", "i0", "r12"])
def test_changes_the_name_of_an_axis(name: str) -> None:
    assert safe_size_name(name) == name + "_"


@pytest.mark.parametrize(("reserved", "safe"), [({"lambda"}, "lambda_"), ({"acc"}, "lambda")])
def test_changes_a_reserved_name(reserved: set[str], safe: str) -> None:
    assert safe_size_name("lambda", reserved) == safe


@pytest.mark.parametrize(
    ("taken", "free"),
    [([], "y_part"), (["y_part"], "y_part_1"), (["y_part", "y_part_1"], "y_part_2")],
)
def test_a_new_name_is_that_of_nothing_else(taken: list[str], free: str) -> None:
    assert free_name("y_part", taken) == free
