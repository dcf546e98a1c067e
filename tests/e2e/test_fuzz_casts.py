"""The fuzzer of conversions finds nothing in a few graphs, and a conversion that is left out."""

import pytest

from tools import fuzz_casts

INPUTS = fuzz_casts.drawn(8)
GRAPHS = [fuzz_casts.make(seed, INPUTS) for seed in range(8, 16)]


def test_graphs_give_an_answer_of_eager() -> None:
    assert not list(fuzz_casts.mistakes(GRAPHS, INPUTS))


def test_a_conversion_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aotpack.trace.operators.operators.is_rounding", lambda node: False)
    wrong = list(fuzz_casts.mistakes(GRAPHS, INPUTS, ["interpreter"], ["default"]))
    assert wrong
    small = fuzz_casts.shrink(wrong[0], INPUTS)
    assert len(small.graph.lines) <= len(wrong[0].graph.lines)


def test_graphs_are_a_function_of_the_seed() -> None:
    text = [graph.text() for graph in GRAPHS]
    assert text == [fuzz_casts.make(seed, INPUTS).text() for seed in range(8, 16)]
    assert len({str(one) for one in text}) > 4
