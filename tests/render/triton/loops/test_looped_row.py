"""Rows in loops: one for each level of reductions, in an order that caches gain by."""

from tests.render.triton.loops.rows import IN_LOOPS, shares_on, text


def test_a_row_is_walked_once_for_each_level() -> None:
    lines = text(shares_on(IN_LOOPS)).splitlines()
    loops = [number for number, line in enumerate(lines) if line.startswith("for ")]
    stores = [number for number, line in enumerate(lines) if "tl.store(" in line]
    assert len(loops) == 2 and "acc2 = tl.full(" in lines[0]
    assert loops[0] < stores[0] < loops[1] < stores[1]  # the last block first: it is in registers


def test_the_last_block_is_read_once_and_others_twice() -> None:
    lines = text(shares_on(IN_LOOPS))
    assert lines.count("tl.load(x_ptr + rest") == 1
    assert lines.count("tl.load(x_ptr + r +") == 2


def test_what_is_read_again_stays_in_caches() -> None:
    first, rest, again = [
        line for line in text(shares_on(IN_LOOPS)).splitlines() if "tl.load(x_ptr" in line
    ]
    assert "evict_last" in first and "evict_first" in rest and "evict_first" in again


def test_what_other_programs_wrote_is_read_past_the_nearest_cache() -> None:
    loads = [
        line
        for line in text(shares_on(IN_LOOPS, awaited=("x",))).splitlines()
        if "tl.load(" in line
    ]
    assert len(loads) == 5
    assert all(('cache_modifier=".cg"' in line) is ("x_ptr" in line) for line in loads)
