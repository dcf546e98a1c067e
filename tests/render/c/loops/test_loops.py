"""Loops over points in C: shares of threads, stores, and results that go past the caches."""

import re

import pytest
import torch
from torch.export import Dim

from aotpack.target import CPU
from tests.render.models import First, c_kernel, rendered
from tests.schedule.programs import Writer, apply, load

NUMBERED = r"\b[it]\d+\b"  # what a function names


NUMBERED = r"\b[it]\d+\b"  # what a function names


def test_what_stands_at_the_head_of_a_function_in_c_names_nothing_of_its_loops() -> None:
    """Whether stores go past the caches is asked there, by a count of bytes that divides sizes."""
    sizes = ({1: Dim("n", min=4)},)
    product = rendered(First(3), torch.randn(2, 700), targets=(CPU,), dynamic_shapes=sizes)
    heads = [k.text.split("for (", 1)[0] for k in product.kernels if "bool streams" in k.text]
    asked = [(head, re.findall(r"bool streams = .*", head)) for head in heads]
    assert any(re.search(NUMBERED, line) for _, (line,) in asked)
    for head, (line,) in asked:
        assert set(re.findall(NUMBERED, line)) <= set(
            re.findall(rf"const \w+ ({NUMBERED}) =", head)
        )


def mapped(count: int, op: str = "relu", *, outputs: int = 1) -> str:
    """An operator on each element; of several results each is that of the one before."""
    w = Writer()
    x = w.input("x", count)
    made = []
    for number in range(outputs):
        x = w.pointwise(f"y{number}", [count], lambda i, x=x: apply(op, load(x, i)))
        made.append(x)
    return c_kernel(w.program(*made))


def grain(text: str) -> int:
    """The least share of a thread, in items of 64 points."""
    return int(re.findall(r"aot_parallel\(call, .*?, (\d+), 0,", text)[0])


def test_threads_share_blocks_of_points_and_dear_ones_are_shared_sooner() -> None:
    text = mapped(1000)
    assert "first *= 64;" in text and "last = aot_min(last * 64, 1000);" in text
    assert "aot_parallel(call, (1000 + 63) / 64," in text
    assert grain(text) > 2 * grain(mapped(1000, "tanh")) > 0


def transposed(rows: int, columns: int) -> str:
    """A copy whose reads are far apart; stores are neighbours."""
    w = Writer()
    x = w.input("x", columns, rows)
    return c_kernel(w.program(w.pointwise("y", [rows, columns], lambda i, j: load(x, j, i))))


@pytest.mark.parametrize(
    ("text", "streamed"),
    [(mapped(1 << 20), True), (mapped(1 << 16), False), (transposed(1024, 1024), True)],
    ids=["large", "small", "read-across"],
)
def test_results_that_no_cache_holds_go_past_caches(text: str, streamed: bool) -> None:
    for word in ("aot_streams(call,", "aot_stream(&out_ptr", "aot_end_stream();"):
        assert (word in text) is streamed


def test_all_values_are_made_before_the_first_is_stored() -> None:
    """A store may overwrite an operand."""
    lines = mapped(100, outputs=2).splitlines()
    made = [n for n, line in enumerate(lines) if re.match(r" +const float t\d", line)]
    stored = [n for n, line in enumerate(lines) if re.match(r" +out\d?_ptr\[", line)]
    assert len(stored) == 2 and max(made) < min(stored)
