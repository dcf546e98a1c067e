"""Lines go to the outermost region in which all they need has a value."""

import pytest

from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.render.emit.regions import Region

X, R = Axis("x", Int.of(4)), Axis("r", Int.of(8))


def nest() -> tuple[Region, Region]:
    root = Region(frozenset((X,)))
    return root, root.open("for r in range(8):", frozenset((R,)))


@pytest.mark.row("C:F6", "C:G12")
def test_home_is_the_outermost_region_that_has_the_axes() -> None:
    root, loop = nest()
    assert loop.home(frozenset((X,))) is root
    assert loop.home(frozenset()) is root
    assert loop.home(frozenset((X, R))) is loop


@pytest.mark.row("C:B9", "C:G12")
def test_lines_of_the_root_go_before_an_open_loop_and_after_a_closed_one() -> None:
    root, loop = nest()
    loop.append("inside")
    root.append("before")
    root.append("before too")
    root.close()
    root.append("after")
    assert list(root.lines()) == [
        "before",
        "before too",
        "for r in range(8):",
        "    inside",
        "after",
    ]


def test_names_are_found_outwards_only() -> None:
    root, loop = nest()
    root.names["a"] = "t1"
    loop.names["b"] = "t2"
    assert (loop.find("a"), loop.find("b")) == ("t1", "t2")
    assert (root.find("a"), root.find("b")) == ("t1", None)


@pytest.mark.row("C:B11")
def test_an_empty_loop_prints_nothing() -> None:
    root, _ = nest()
    assert list(root.lines()) == []
