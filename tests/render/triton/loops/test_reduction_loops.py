"""Accumulators over a loop of blocks: lanes, groups of neighbours, and scans that are carried."""

import re

import pytest

from aotpack.ir.operations import Scan
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.render.triton.loops.reduction_loops import Stretch, stretches
from tests.render.models import triton_kernel
from tests.schedule.programs import Writer, load

N = Var("n", 1, 10_000)
LONG = 50_021


def parts(extent: Int, *, keep_last: bool) -> list[tuple[str, str, bool]]:
    found = stretches(extent, 64, keep_last=keep_last)
    return [(str(one.start), str(one.stop), one.rest) for one in found]


def test_whole_blocks_come_first_and_what_is_left_is_a_rest() -> None:
    assert parts(Int.of(128), keep_last=False) == [("0", "128", False)]
    assert parts(Int.of(130), keep_last=False) == [("0", "128", False), ("128", "130", True)]
    assert parts(Int.of(60), keep_last=False) == [("0", "60", True)]


def test_the_last_block_is_kept_even_where_it_is_whole() -> None:
    assert parts(Int.of(128), keep_last=True) == [("0", "64", False), ("64", "128", True)]
    assert parts(Int.of(64), keep_last=True) == [("0", "64", True)]


@pytest.mark.parametrize("keep_last", [False, True])
@pytest.mark.parametrize("length", [1, 63, 64, 65, 128, 1000])
def test_every_element_is_in_one_stretch(length: int, keep_last: bool) -> None:
    met: list[int] = []
    for one in stretches(Int.of(N), 64, keep_last=keep_last):
        assert isinstance(one, Stretch)
        met += range(one.start.evaluate({"n": length}), one.stop.evaluate({"n": length}))
    assert met == list(range(length))


def reduced(kind: str, *names: str) -> str:
    """A reduction of long rows."""
    w = Writer()
    x = w.input("x", 4096, LONG)
    made = w.reductions(names, [4096], [LONG], lambda i, r: load(x, i, r), kind=kind)
    return triton_kernel(w.program(*made))


@pytest.mark.parametrize(
    ("kind", "names", "states"), [("sum", "s", 1), ("welford", "mv", 3), ("softmax", "mt", 2)]
)
def test_each_state_has_an_accumulator_of_lanes(kind: str, names: str, states: int) -> None:
    text = reduced(kind, *names)
    starts = re.findall(r"^    (acc\d+) = tl.full\(\[(\d+)\]", text, re.MULTILINE)
    assert len(starts) == states
    assert all(re.search(rf"^        {name} = ", text, re.MULTILINE) for name, _ in starts)


def test_what_reaches_over_the_end_changes_no_accumulator() -> None:
    rest = reduced("prod", "p").split("r_mask = r <")[1]
    assert re.search(r"acc\d+ = tl.where\(r_mask, t\d+, acc\d+\)", rest)


def scanned(length: int) -> str:
    """Running sums of rows."""
    w = Writer()
    x, y = w.input("x", 4096, length), w.buffer("y", (4096, length))
    i, j = Axis("i", x.shape[0]), Axis("j", x.shape[1])
    w.operations.append(Scan(("y",), (i, j), j, "sum", (load(x, i, j),)))
    return triton_kernel(w.program(y))


def test_what_was_before_a_block_is_carried_into_it() -> None:
    text = scanned(LONG)
    (carry,) = re.findall(r"^    (carry\d+) = tl.full\(\[\], 0.0", text, re.MULTILINE)
    assert f"tl.broadcast_to({carry}, " in text
    assert re.search(rf"^        {carry} = combine_sum\({carry}, t\d+\)", text, re.MULTILINE)
    assert "carry" not in scanned(1000)  # one block
