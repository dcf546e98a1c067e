"""Packs of weights of several methods."""

import pytest

from aotpack.ir.packs import fits, largest, packs_of


def test_packs_are_read_off_the_order_of_memory():
    weights = [("a", False), ("q", False), ("k", True), ("v", True), ("b", False)]
    assert packs_of(weights) == (("q", "k", "v"),)


def test_packs_inside_others_are_left_out():
    assert largest([("k", "v"), ("q", "k", "v"), ("k", "v"), ("a", "b")]) == (
        ("q", "k", "v"),
        ("a", "b"),
    )


@pytest.mark.parametrize("group", [("k", "v"), ("a", "b"), ("x", "q", "k", "v")])
def test_a_group_that_fits(group):
    assert fits(group, (("q", "k", "v"),))


@pytest.mark.parametrize("group", [("q", "v"), ("v", "k"), ("v", "a"), ("k", "v", "q")])
def test_a_group_that_does_not_fit(group):
    assert not fits(group, (("q", "k", "v"),))
