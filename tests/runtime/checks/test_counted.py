"""Sizes that data decide keep their ranges and conditions; each is checked when it is known."""

from collections.abc import Callable

import pytest

from aotpack.runtime.checks.counted import check_counted, check_lengths
from aotpack.runtime.errors import AssertionFailed
from aotpack.runtime.manifest import Signature
from aotpack.runtime.plan import Buffer, Launch, Part
from aotpack.runtime.sizes import Size
from aotpack.runtime.structures.trees import Tree
from aotpack.runtime.tensors import CountedSize, SizeCondition

SIGNATURE = Signature(
    *("m", "1", (), (), (), Tree("tuple"), Tree("dict"), Tree("none"), (), (), ()),
    counted=(CountedSize("u0", 1, 4, "first"), CountedSize("u1", 0, 9, "second")),
    conditions=(SizeCondition(Size("min(1, max(0, 6 - u0 - u1))"), "u0 + u1 < 6", "third"),),
)


@pytest.mark.row("S:A13")
def test_sizes_in_their_ranges() -> None:
    check_counted(SIGNATURE, ("u0",), {"u0": 4})
    check_counted(SIGNATURE, ("u1",), {"u0": 4, "u1": 1})


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(
    ("new", "sizes", "message"),
    [
        ("u0", {"u0": 0}, "the size u0 0; accepted: 1 to 4\n  first"),
        ("u1", {"u0": 1, "u1": 10}, "the size u1 10; accepted: 0 to 9\n  second"),
        ("u1", {"u0": 4, "u1": 2}, r"accepted: sizes with u0 \+ u1 < 6\n  third"),
    ],
)
def test_others_are_refused(new: str, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(AssertionFailed, match=message):
        check_counted(SIGNATURE, (new,), sizes)


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(
    "rest",
    [
        lambda n: Part((Buffer("t", 4 * n, 0, 0),), ()),
        lambda n: Part((), (Launch("k", (n, 1, 1), ()),)),
    ],
)
def test_no_tensor_has_less_than_no_elements(rest: Callable[[int], Part]) -> None:
    check_lengths(SIGNATURE, rest(0), {"u0": 4})
    with pytest.raises(AssertionFailed, match="u0 = 4, by which a tensor has a negative size"):
        check_lengths(SIGNATURE, rest(-1), {"u0": 4})
