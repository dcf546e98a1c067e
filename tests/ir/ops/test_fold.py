"""Folding keeps every bit: against the evaluator on edge values, and rule by rule."""

import itertools

import numpy as np
import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.ops.fold import fold
from aotpack.ir.ops.optable import OPS
from aotpack.ir.ops.reference import Array
from aotpack.ir.symbolic.integers import Axis, Int
from aotpack.ir.values import Apply, Const, Guarded, IndexValue, Value
from tests.ir import samples
from tests.ir.programs import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    J,
    S,
    apply,
    buffer,
    index,
    load,
    number,
    over,
    program,
)

X, Y = load("x", J), load("y", J)
FLAG = load("flag", J, dtype=BOOL)
N = load("n", J, dtype=I32)


def computed(value: Value) -> Array:
    """The value where x, y, n and flag hold edge values."""
    x = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-42], np.float32)
    n = np.array([0, 1, -1, 7, -8, 2**31 - 1, -(2**31), 3], np.int32)
    flag = np.arange(8) % 2 == 0
    given = {"x": x, "y": x[::-1].copy(), "n": n, "flag": flag}
    buffers = [buffer("x", F32, 8), buffer("y", F32, 8), buffer("n", I32, 8)]
    buffers += [buffer("flag", BOOL, 8), buffer("out", value.dtype, 8)]
    whole = program(buffers, [over("out", (J,), value)], inputs="x y n flag")
    return evaluate(whole, given, {}, {"s": 3})["out"]


def same_bits(a: Array, b: Array) -> bool:
    """Equal, the signs of zeros included; any NaN is as good as another."""
    signs = np.signbit(a) == np.signbit(b) if a.dtype.kind == "f" else True
    equal = np.equal(a, b) & signs
    return bool(np.all(equal | ((a != a) & (b != b))))


def cast(value: Value, dtype: DType) -> Apply:
    return apply("cast", value, dtype=dtype)


ZERO, MINUS_ZERO, ONE, TWO = (number(x) for x in (0.0, -0.0, 1.0, 2.0))
TRUE, FALSE = number(True, BOOL), number(False, BOOL)
NOT_FLAG = apply("logical_not", FLAG)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (apply("add", X, MINUS_ZERO), X),
        (apply("add", number(0, I32), N), N),
        (apply("sub", X, ZERO), X),
        (apply("mul", ONE, X), X),
        (apply("mul", N, number(0, I32)), number(0, I32)),
        (apply("div", X, ONE), X),
        (apply("floordiv", N, number(1, I32)), N),
        (apply("pow", X, ONE), X),
        (apply("pow", X, TWO), apply("square", X)),
        (apply("maximum", X, X), X),
        (apply("neg", apply("neg", X)), X),
        (apply("logical_not", NOT_FLAG), FLAG),
        (apply("logical_and", FLAG, TRUE), FLAG),
        (apply("logical_and", FALSE, FLAG), FALSE),
        (apply("logical_or", FLAG, FALSE), FLAG),
        (apply("logical_or", FLAG, TRUE), TRUE),
        (apply("logical_or", FLAG, FLAG), FLAG),
        (apply("where", TRUE, X, Y), X),
        (apply("where", FALSE, X, Y), Y),
        (apply("where", FLAG, X, X), X),
        (apply("where", NOT_FLAG, X, Y), apply("where", FLAG, Y, X)),
        (apply("where", FLAG, TRUE, FALSE), FLAG),
        (apply("where", FLAG, FALSE, TRUE), NOT_FLAG),
        (cast(X, F32), X),
        (cast(cast(X, F64), F32), X),
        (cast(cast(N, I64), F32), cast(N, F32)),
        (cast(cast(FLAG, F32), BOOL), FLAG),
        (Guarded(TRUE, X, Y, F32), X),
        (Guarded(FALSE, X, Y, F32), Y),
        (Guarded(FLAG, ONE, ONE, F32), ONE),
    ],
    ids=str,
)
def test_rule_applies_and_keeps_every_bit(value: Value, want: Value) -> None:
    assert fold(value) is want
    assert same_bits(computed(value), computed(want))


@pytest.mark.row("C:def6")
@pytest.mark.parametrize(
    "value",
    [
        apply("add", X, ZERO),  # -0.0 + 0.0 is 0.0
        apply("sub", X, MINUS_ZERO),
        apply("mul", X, ZERO),  # inf * 0.0 is nan
        apply("floordiv", X, ONE),
        apply("sub", X, X),
        apply("logical_not", apply("logical_not", N, dtype=BOOL)),  # n is not a bool
        apply("logical_and", N, number(1, I32), dtype=BOOL),
        cast(cast(X, I32), F32),
        cast(cast(N, F32), I32),  # float32 has 24 bits
        cast(cast(N, DType.INT8), I32),
        Guarded(FLAG, X, X, F32),  # the otherwise reads unguarded
        apply("floordiv", number(1, I32), number(0, I32)),
    ],
    ids=str,
)
def test_rule_that_would_change_a_bit_does_not_apply(value: Value) -> None:
    assert fold(value) is value


@pytest.mark.row("C:inv16")
@pytest.mark.parametrize("info", OPS.values(), ids=lambda info: info.name)
def test_constants_fold_to_what_the_evaluator_computes(info: object) -> None:
    info = OPS[info.name]  # type: ignore[attr-defined]
    for dtype in filter(info.accepts, (F32, F64, I32, DType.UINT8, BOOL)):
        edges = [Const(x.item(), dtype) for x in samples.edge_values(dtype)[::4]]
        result = info.result_type(dtype, F32)
        count = 2 if info.name == "where" else info.arity
        for args in itertools.product(edges[:5], repeat=count):
            args = (TRUE, *args) if info.name == "where" else args
            folded = fold(Apply(info.name, args, result))
            if isinstance(folded, Const):
                want = computed(Apply(info.name, args, result))[0]
                assert same_bits(np.array(folded.value, want.dtype), want)
            else:
                assert info.name in samples.INTEGER_DIVISIONS


ROW = Axis("row", Int.of(S))
R, SIZE = Int.of(ROW), Int.of(S)


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (apply("add", index(R), number(2, I64)), index(R + 2)),
        (apply("sub", index(R + 1), index(R)), number(1, I64)),
        (apply("mul", index(R, I32), number(4, I32)), index(R * 4, I32)),
        (apply("floordiv", index(R * 4 + 1), number(4, I64)), index(R)),
        (apply("remainder", index(R * 4 + 1), number(4, I64)), number(1, I64)),
        (apply("lt", index(R), index(SIZE), dtype=BOOL), TRUE),
        (apply("gt", index(R), index(SIZE), dtype=BOOL), FALSE),
        (apply("ge", index(R), number(0, I64), dtype=BOOL), TRUE),
        (apply("le", index(SIZE), index(R), dtype=BOOL), FALSE),
        (apply("eq", index(R), index(R), dtype=BOOL), TRUE),
        (apply("ne", index(R), number(-1, I64), dtype=BOOL), TRUE),
        (apply("cast", index(R), dtype=I32), index(R, I32)),
    ],
    ids=str,
)
def test_integer_algebra(value: Value, want: Value) -> None:
    assert fold(value) is want


def test_arithmetic_that_may_wrap_stays() -> None:
    big = apply("mul", index(R, I32), number(2**30, I32))
    assert fold(big) is big
    narrow = apply("cast", index(R * 2), dtype=DType.INT8)
    assert fold(narrow) is narrow


def test_comparison_that_depends_on_the_point_stays() -> None:
    value = apply("lt", index(R), number(1, I64), dtype=BOOL)
    assert fold(value) is value


@pytest.mark.parametrize("op_and_bound", [("lt", 1), ("le", 0), ("eq", 0)])
def test_position_mask_of_a_shifted_row_vanishes(op_and_bound: tuple[str, int]) -> None:
    op, bound = op_and_bound
    first = fold(apply(op, index(R), number(bound, I64), dtype=BOOL))
    before = fold(apply("where", first, number(-1, I64), index(R - 1)))
    assert before is index(R - 1)
    difference = fold(apply("sub", index(R), before))
    assert fold(apply("eq", difference, number(1, I64), dtype=BOOL)) is TRUE


def test_first_element_that_differs_is_kept() -> None:
    first = apply("lt", index(R), number(1, I64), dtype=BOOL)
    value = apply("where", first, number(5, I64), index(R - 1))
    assert fold(value) is value
    assert isinstance(value.args[2], IndexValue)


def test_other_arm_of_a_negated_first() -> None:
    rest = apply("ge", index(R), number(1, I64), dtype=BOOL)
    assert fold(apply("where", rest, index(R - 1), number(-1, I64))) is index(R - 1)
