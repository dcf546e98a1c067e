"""Integer expressions are canonical and always mean what was written."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from aotpack.ir.dtypes import DType
from aotpack.ir.symbolic.integers import (
    Axis,
    Indirect,
    Int,
    Var,
    ceil_div,
    content,
    maximum,
    minimum,
    product,
    total,
)
from aotpack.ir.values import Load
from tests.ir.integer_strategies import DIVISORS, FLAT, PAIRS, POINTS, ROW, J, K, Pair, S, T


@pytest.mark.row("C:A5", "C:A8", "C:inv1")
@settings(max_examples=250, deadline=None)
@given(PAIRS)
def test_simplified_expression_equals_direct_evaluation(pair: Pair) -> None:
    for point in POINTS:
        assert pair.built.evaluate(point) == pair.direct(point), point


@settings(max_examples=80, deadline=None)
@given(PAIRS)
def test_printed_text_is_python(pair: Pair) -> None:
    for point in POINTS[::7]:
        names = {**point, "min": min, "max": max}
        assert eval(str(pair.built), {}, names) == pair.direct(point)


@settings(max_examples=80, deadline=None)
@given(PAIRS, DIVISORS)
def test_substitution_replaces_before_evaluating(pair: Pair, new: Pair) -> None:
    axis = new.built % Int.of(6)
    replaced = pair.built.substitute({K: axis})
    for point in POINTS[::3]:
        moved = {**point, "k": axis.evaluate(point)}
        assert replaced.evaluate(point) == pair.built.evaluate(moved)


@settings(max_examples=80, deadline=None)
@given(PAIRS)
def test_arrays_evaluate_like_numbers(pair: Pair) -> None:
    arrays = {name: np.array([point[name] for point in POINTS]) for name in POINTS[0]}
    found = np.broadcast_to(pair.built.evaluate(arrays), len(POINTS))
    assert found.tolist() == [pair.built.evaluate(point) for point in POINTS]


@settings(max_examples=80, deadline=None)
@given(PAIRS, PAIRS)
def test_equal_polynomials_are_one_object(a: Pair, b: Pair) -> None:
    assert a.built + b.built is b.built + a.built
    assert (a.built - b.built) + b.built is a.built


i, j, k, flat, s, t = map(Int.of, (ROW, J, K, FLAT, S, T))


@pytest.mark.row("C:A5", "C:A6", "C:A7", "C:A8")
@pytest.mark.parametrize(
    ("found", "want"),
    [
        ((i * 6 + k) // 6, i),
        ((i * 6 + k) % 6, k),
        ((i * t + j) // t, i),
        ((i * t + j) % t, j),
        (flat // t * t + flat % t, flat),
        ((flat // t) // s, Int.of(0)),
        (flat % (s * t), flat),
        ((k * 4 + 1) // 2, k * 2),
        ((k // 2) // 3, Int.of(0)),
        ((flat % 6) % 3, flat % 3),
        (ceil_div(s * 8, 8), s),
        (minimum(k, 5), k),
        (maximum(s, 1), s),
        (minimum(t, s + 5), t),
        (total([i, 2, i]), i * 2 + 2),
        (product([2, s, 3]), s * 6),
    ],
    ids=str,
)
def test_canonical_form(found: Int, want: Int) -> None:
    assert found is want


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (i * 6 + k - 1, "6*i + k - 1"),
        (-i, "-i"),
        (flat // 2 * 3, "3*(l//2)"),
        ((flat + 1) % t, "((l + 1)%t)"),
        (minimum(s, 3), "min(3, s)"),
        (s * s, "s*s"),
        (Int.of(0), "0"),
    ],
)
def test_text(expression: Int, text: str) -> None:
    assert str(expression) == text


def test_number_of_a_constant_and_of_a_size() -> None:
    assert int(Int.of(5)) == 5
    assert (s * 0 + 3).constant == 3
    with pytest.raises(TypeError, match="the size s is not a constant"):
        int(s)


def test_leaves_and_content() -> None:
    assert (flat // t + i * 4).leaves() == (FLAT, T, ROW) or set((flat // t + i * 4).leaves()) == {
        ROW,
        FLAT,
        T,
    }
    assert content(i * 4 + 6) == 2


def test_indirect_value_needs_memory() -> None:
    load = Load("ids", (i,), DType.INT64)
    index = Int.of(Indirect(load, Int.of(10))) + 1
    assert str(index) == "{ids[i]} + 1"
    assert index.evaluate({"i": 3}, lambda atom: 7) == 8
    with pytest.raises(TypeError, match="read from memory"):
        index.evaluate({"i": 3})


def test_division_by_zero_is_refused() -> None:
    with pytest.raises(ZeroDivisionError, match="s divided by 0"):
        s // 0
    with pytest.raises(ZeroDivisionError, match="s divided by -2"):
        s % -2


def test_variables_with_other_ranges_are_other_variables() -> None:
    assert Var("s", 1, 5) is S
    assert Int.of(Var("s", 1, 6)) is not s
    assert Axis("i", Int.of(3)) is not ROW


def test_importing_the_expressions_alone_brings_their_rules() -> None:
    script = (
        "from aotpack.ir.symbolic.integers import Axis, Int, minimum\n"
        "i = Int.of(Axis('i', Int.of(12)))\n"
        "print(i // 12, i % 12, minimum(i, 12), (i + 5) // 4 * 4 + (i + 5) % 4)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0 i i i + 5\n", "")
