"""Sorts and searches: torch's order, what the evaluator and the printer make of a sort."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.operations import Pointwise, Sort
from aotpack.ir.ops.fold import integer_value
from aotpack.ir.ordering import bool_op, key_of, positions_in_order, search
from aotpack.ir.program import Buffer, Program, operation_text
from aotpack.ir.rewrite import Rewriter, map_values
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.ir.values import Apply, Const, Load, Value
from aotpack.ir.verify.program import InvalidProgram, verify

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


ENDS = [np.finfo(np.float32).max, -np.finfo(np.float32).max, 1e-45, -1e-45]
WHOLE = [-128, -2, -1, 0, 1, 3, 127]
KEYS = {
    F32: np.array(NUMBERS + ENDS, np.float32),
    DType.FLOAT64: np.array([*NUMBERS, 1e300, -1e300, 5e-324, -5e-324]),
    DType.FLOAT16: np.array([*NUMBERS, 65504, -65504, 6e-8, -6e-8, 1 + 2**-10], np.float16),
    DType.BFLOAT16: np.array([*NUMBERS, 2.0**127, -(2.0**127), 1 + 2**-7, 2.0**-133], np.float32),
    DType.BOOL: np.array([False, True]),
    DType.UINT8: np.array([0, 1, 127, 128, 255], np.uint8),
    DType.INT8: np.array(WHOLE, np.int8),
    DType.INT16: np.array([*WHOLE, -(2**15), 2**15 - 1], np.int16),
    DType.INT32: np.array([*WHOLE, -(2**31), 2**31 - 1], np.int32),
    I64: np.array([*WHOLE, -(2**63), 2**63 - 1], np.int64),
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", KEYS, ids=str)
def test_keys_have_the_order_and_the_range_they_say(dtype: DType, descending: bool) -> None:
    x, n = KEYS[dtype], Axis("j", Int.of(len(KEYS[dtype])))
    here = (Int.of(n),)
    key = key_of(Load("x", here, dtype.compute), dtype, descending=descending)
    shape = (n.extent,)
    buffers = {"x": Buffer("x", dtype, shape), "out": Buffer("out", key.value.dtype, shape)}
    program = Program((), buffers, ("x",), (), (Pointwise("out", (n,), key.value, here),), ("out",))
    keys = evaluate(program, {"x": x}, {}, {})["out"]
    assert key.least <= keys.min()
    assert int(keys.max()) < key.least + 2**key.bits
    order = positions_in_order(x, 0, descending=descending).tolist()
    assert np.argsort(keys, kind="stable").tolist() == order
    assert not dtype.is_float or keys[3] == keys[4]  # of 0.0 and -0.0


@pytest.mark.parametrize("descending", [False, True])
def test_comparison_is_that_of_the_order(descending: bool) -> None:
    shape = (Int.of(8), Int.of(8))
    a, b = Axis("a", Int.of(8)), Axis("b", Int.of(8))
    keys = (key_of(Load("x", (Int.of(n),), F32), F32, descending=descending) for n in (a, b))
    value = bool_op("lt", *(key.value for key in keys))
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
    found: Value = integer_value(0)
    for _ in range(levels):

        def is_counted(place: Value) -> Value:
            return Apply(
                "gt",
                (X, Load("x", (Int.of(0), Int.of(Indirect(place, Int.of(8)))), F32)),
                DType.BOOL,
            )

        found = search(found, integer_value(8), 8, is_counted)
    return found


def test_nested_searches_keep_short_distinct_texts() -> None:
    text = str(_searched(10))
    assert len(text) < 2000
    assert text != str(_searched(9)) and text == str(_searched(10))
    moved = Rewriter({ROW: 1})(_searched(30))  # deeper than Python's stack
    assert str(moved) != str(_searched(30))


def test_constants_are_searched_at_once() -> None:
    ends = [integer_value(n) for n in range(5)]
    assert [search(ends[0], end, 5, lambda _: Const(True, DType.BOOL)) for end in ends] == ends
