"""Sorts and searches: torch's order, what the evaluator and the printer make of a sort."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aotpack.ir.dtypes import DType
from aotpack.ir.evaluate import evaluate
from aotpack.ir.fold import whole
from aotpack.ir.integers import Axis, Indirect, Int
from aotpack.ir.nodes import Apply, Buffer, Const, Load, Pointwise, Program, Sort, Value
from aotpack.ir.ordering import comes_first, positions_in_order, search
from aotpack.ir.printer import operation_text
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.verify import InvalidProgram, verify

F32, I64 = DType.FLOAT32, DType.INT64
NUMBERS = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 2.5]
ROW, J = Axis("i", Int.of(3)), Axis("j", Int.of(8))
X = Load("x", (Int.of(ROW), Int.of(J)), F32)
SORT = Sort(("v", "p"), (ROW, J), J, X, descending=False)


def program(sort: Sort = SORT) -> Program:
    shape = (Int.of(3), Int.of(8))
    buffers = {n: Buffer(n, I64 if n == "p" else F32, shape) for n in ("x", "v", "p")}
    return Program((), buffers, ("x",), (), (sort,), ("v", "p"))


@given(st.lists(st.sampled_from(NUMBERS), max_size=30), st.booleans())
def test_order_is_torchs(numbers: list[float], descending: bool) -> None:
    x = np.array(numbers, np.float32)
    theirs = torch.sort(torch.from_numpy(x), stable=True, descending=descending).indices
    assert positions_in_order(x, 0, descending=descending).tolist() == theirs.tolist()


@pytest.mark.parametrize("descending", [False, True])
def test_comparison_is_that_of_the_order(descending: bool) -> None:
    shape = (Int.of(8), Int.of(8))
    a, b = Axis("a", Int.of(8)), Axis("b", Int.of(8))
    value = comes_first(
        Load("x", (Int.of(a),), F32), Load("x", (Int.of(b),), F32), descending=descending
    )
    out = Pointwise("out", (a, b), value, (Int.of(a), Int.of(b)))
    buffers = {
        "x": Buffer("x", F32, (Int.of(8),)),
        "out": Buffer("out", DType.BOOL, shape),
    }
    x = np.array(NUMBERS, np.float32)
    found = evaluate(Program((), buffers, ("x",), (), (out,), ("out",)), {"x": x}, {}, {})["out"]
    ranks = np.unique(x, return_inverse=True)[1] * (-1 if descending else 1)
    np.testing.assert_array_equal(found, ranks[:, None] < ranks[None, :])


def test_a_sort_is_evaluated_printed_and_verified() -> None:
    x = np.random.default_rng(0).integers(-2, 3, (3, 8)).astype(np.float32)
    whole_program = program()
    verify(whole_program)
    found = evaluate(whole_program, {"x": x}, {}, {})
    values, positions = torch.sort(torch.from_numpy(x), stable=True)
    np.testing.assert_array_equal(found["v"], values.numpy())
    np.testing.assert_array_equal(found["p"], positions.numpy())
    assert operation_text(SORT).splitlines() == [
        "for i < 3, j < 8:",
        "    v[i, j], p[i, j] = sort(x[i, j], along j)",
    ]
    assert "along j, descending" in operation_text(replace(SORT, descending=True))
    assert map_values(SORT, Rewriter({})) is SORT


@pytest.mark.parametrize(
    ("sort", "complaint"),
    [
        (replace(SORT, along=Axis("k", Int.of(8))), "k is no axis of the sort"),
        (replace(SORT, targets=("p", "v")), "float32 is stored into p"),
    ],
)
def test_illegal_sorts_are_refused(sort: Sort, complaint: str) -> None:
    with pytest.raises(InvalidProgram, match=complaint):
        verify(program(sort))


def _searched(levels: int) -> Value:
    """A search in a row, in whose result a search goes on, and so forth."""
    found: Value = whole(0)
    for _ in range(levels):

        def is_counted(place: Value) -> Value:
            return Apply(
                "gt",
                (X, Load("x", (Int.of(0), Int.of(Indirect(place, Int.of(8)))), F32)),
                DType.BOOL,
            )

        found = search(found, whole(8), 8, is_counted)
    return found


def test_nested_searches_keep_short_distinct_texts() -> None:
    text = str(_searched(10))
    assert len(text) < 2000
    assert text != str(_searched(9)) and text == str(_searched(10))
    moved = Rewriter({ROW: 1})(_searched(30))  # deeper than Python's stack
    assert str(moved) != str(_searched(30))


def test_constants_are_searched_at_once() -> None:
    places = [search(whole(0), whole(n), 5, lambda _: Const(True, DType.BOOL)) for n in range(5)]
    assert places == [whole(n) for n in range(5)]
