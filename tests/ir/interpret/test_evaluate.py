"""The evaluator against torch and numpy, operation by operation; and what it refuses."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from aotpack.ir.dtypes import DType
from aotpack.ir.interpret.evaluate import IndexOutOfRange, Precision, evaluate, round_bfloat16
from aotpack.ir.operations import Attention, Matmul, Pointwise, Reduction, Scan
from aotpack.ir.ops.reference import Array
from aotpack.ir.program import Buffer, Operation, PackedWeight, Program
from aotpack.ir.symbolic.integers import Axis, Indirect, Int
from aotpack.ir.values import Guarded, Value
from tests.ir.programs import (
    BF16,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    ROW,
    J,
    K,
    S,
    apply,
    buffer,
    index,
    load,
    number,
    over,
    program,
)

ROWS = 5
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(0, 2, (ROWS, 8)).astype(np.float32)


def outputs(
    operation: Operation, results: list[Buffer], precision: Precision = Precision.EXACT
) -> tuple[Array, ...]:
    """The operation over x: float32[s, 8]."""
    buffers = [buffer("x", F32, S, 8), *results]
    whole = program(buffers, [operation], inputs="x")
    return tuple(evaluate(whole, {"x": X}, {}, {"s": ROWS}, precision).values())


def pointwise(value: Value, dtype: DType = F32) -> Array:
    return outputs(over("out", (ROW, J), value), [buffer("out", dtype, S, 8)])[0]


TORCH: dict[str, Callable[..., torch.Tensor]] = {
    name: getattr(torch, name)
    for name in "exp log1p tanh sigmoid erf abs neg relu square floor ceil round sign rsqrt".split()
} | {"isnan": torch.isnan, "signbit": torch.signbit, "reciprocal": torch.reciprocal}


@pytest.mark.parametrize("op", TORCH)
def test_unary_operators_agree_with_torch(op: str) -> None:
    dtype = BOOL if op in ("isnan", "signbit") else F32
    found = pointwise(apply(op, load("x", ROW, J), dtype=dtype), dtype)
    want = TORCH[op](torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(found, want, rtol=5e-7, atol=1e-7)


BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "floordiv": torch.floor_divide,
    "truncdiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "bitwise_and": torch.bitwise_and,
    "shift_left": torch.bitwise_left_shift,
    "shift_right": torch.bitwise_right_shift,
    "lt": torch.lt,
    "logical_xor": torch.logical_xor,
}


@pytest.mark.parametrize("dtype", [DType.INT8, DType.UINT8, I32, I64], ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_integer_operators_wrap_like_torch(op: str, dtype: DType) -> None:
    limits = np.iinfo(dtype.facts.numpy or "")
    a = np.array([0, 1, 7, 100, limits.max, limits.min, limits.max - 3, 9], dtype.facts.numpy)
    b = np.array([3, 2, 5, 3, 4, 3, 6, 7], dtype.facts.numpy)
    result = BOOL if op in ("lt", "logical_xor") else dtype
    value = apply(op, load("a", J, dtype=dtype), load("b", J, dtype=dtype), dtype=result)
    buffers = [buffer("a", dtype, 8), buffer("b", dtype, 8), buffer("out", result, 8)]
    whole = program(buffers, [over("out", (J,), value)], inputs="a b")
    found = evaluate(whole, {"a": a, "b": b}, {}, {"s": 1})["out"]
    np.testing.assert_array_equal(found, BINARY[op](torch.from_numpy(a), torch.from_numpy(b)))


def test_bfloat16_rounds_to_nearest_even() -> None:
    numbers = np.concatenate([X.ravel(), [1 + 2**-8, 1 + 3 * 2**-8, np.nan, np.inf, -0.0, 3.4e38]])
    numbers = numbers.astype(np.float32)
    want = torch.from_numpy(numbers).bfloat16().float().numpy()
    np.testing.assert_array_equal(round_bfloat16(numbers), want)
    found = pointwise(load("x", ROW, J), BF16)
    np.testing.assert_array_equal(found, torch.from_numpy(X).bfloat16().float().numpy())


@pytest.mark.row("C:D6")
def test_wide_precision_keeps_every_digit() -> None:
    value = apply("mul", load("x", ROW, J), number(0.1))
    operation = over("out", (ROW, J), value)
    wide = outputs(operation, [buffer("out", BF16, S, 8)], Precision.WIDE)[0]
    np.testing.assert_array_equal(wide, X.astype(np.float64) * 0.1)


@pytest.mark.row("S:B3")
@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        ("sum", lambda x: x.sum(1)),
        ("prod", lambda x: x.prod(1)),
        ("max", lambda x: x.amax(1)),
        ("argmin", lambda x: x.argmin(1)),
        ("logsumexp", lambda x: x.logsumexp(1)),
    ],
)
def test_reductions_agree_with_torch(
    kind: str, meaning: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    operation = Reduction(("out",), (ROW,), (J,), kind, (load("x", ROW, J),))
    dtype = I64 if kind == "argmin" else F32
    (found,) = outputs(operation, [buffer("out", dtype, S)])
    np.testing.assert_allclose(found, meaning(torch.from_numpy(X)), rtol=1e-6)


@pytest.mark.row("S:B15", "S:B17")
def test_welford_gives_mean_and_squared_differences() -> None:
    operation = Reduction(("mean", "m2"), (ROW,), (J,), "welford", (load("x", ROW, J),))
    mean, m2 = outputs(operation, [buffer("mean", F32, S), buffer("m2", F32, S)])
    np.testing.assert_allclose(mean, X.mean(1), rtol=1e-5)
    np.testing.assert_allclose(m2 / 8, X.var(1), rtol=1e-5)


def test_reduction_of_everything_counts_positions_in_order() -> None:
    operation = Reduction(("out",), (), (ROW, J), "argmax", (load("x", ROW, J),))
    assert outputs(operation, [buffer("out", I64)])[0] == X.argmax()


@pytest.mark.row("S:A14", "S:B6")
def test_reduction_of_nothing_is_the_identity() -> None:
    none = Axis("none", Int.of(0))
    operation = Reduction(("out",), (ROW,), (none,), "sum", (load("x", ROW, none),))
    np.testing.assert_array_equal(outputs(operation, [buffer("out", F32, S)])[0], np.zeros(ROWS))


@pytest.mark.row("S:B19", "S:inv31")
@pytest.mark.parametrize("kind", ["sum", "prod"])
def test_scans_agree_with_numpy(kind: str) -> None:
    operation = Scan(("out",), (ROW, J), ROW, kind, (load("x", ROW, J),))
    (found,) = outputs(operation, [buffer("out", F32, S, 8)])
    want = np.cumsum(X, 0) if kind == "sum" else np.cumprod(X, 0)
    np.testing.assert_allclose(found, want, rtol=1e-5)


@pytest.mark.row("S:B19", "S:inv31")
def test_running_maximum_agrees_with_torch() -> None:
    operation = Scan(("top", "where"), (ROW, J), J, "cummax", (load("x", ROW, J),))
    top, where = outputs(operation, [buffer("top", F32, S, 8), buffer("where", I64, S, 8)])
    want = torch.from_numpy(X).cummax(1)
    np.testing.assert_array_equal(top, want.values)
    np.testing.assert_array_equal(where, want.indices)


def test_matmul_rounds_its_factors_and_sums_wide() -> None:
    m, n = Axis("m", Int.of(S)), Axis("n", Int.of(4))
    operation = Matmul("out", (), m, n, J, load("x", m, J), load("x", n, J), BF16)
    (found,) = outputs(operation, [buffer("out", F32, S, 4)])
    rounded = torch.from_numpy(X).bfloat16().double()
    np.testing.assert_allclose(found, rounded @ rounded[:4].T, rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_agrees_with_torch(causal: bool) -> None:
    shape = (2, 3, ROWS, 4)
    q, k, v = (RANDOM.normal(0, 1, shape).astype(np.float32) for _ in range(3))
    mask = RANDOM.random((ROWS, ROWS)) < 0.7
    mask[2] = False
    b, h, e = Axis("b", Int.of(2)), Axis("h", Int.of(3)), Axis("e", Int.of(4))
    j = Axis("j", Int.of(S))
    slots = [load("q", b, h, ROW, K), load("k", b, h, j, K), load("v", b, h, j, e)]
    allowed = load("mask", ROW, j, dtype=BOOL)
    operation = Attention("out", b, h, ROW, j, K, e, *slots, 0.5, causal, None, allowed, F32)
    buffers = [buffer(name, F32, 2, 3, S, 4) for name in ("q", "k", "v", "out")]
    whole = program([*buffers, buffer("mask", BOOL, S, S)], [operation], inputs="q k v mask")
    given = {"q": q, "k": k, "v": v, "mask": mask}
    found = evaluate(whole, given, {}, {"s": ROWS})["out"]
    keep = np.tril(mask) if causal else mask
    want = torch.nn.functional.scaled_dot_product_attention(
        *map(torch.from_numpy, (q, k, v)), attn_mask=torch.from_numpy(keep), scale=0.5
    )
    np.testing.assert_allclose(found, torch.nan_to_num(want), rtol=2e-5, atol=2e-6)
    assert not found[:, :, 2].any()


def gather(extent: int) -> Program:
    ids = Indirect(load("ids", ROW, dtype=I64), Int.of(extent))
    value = load("table", ids, J)
    buffers = [buffer("ids", I64, S), buffer("table", F32, 4, 8), buffer("out", F32, S, 8)]
    return program(buffers, [over("out", (ROW, J), value)], inputs="ids table")


def test_loaded_indices_gather() -> None:
    ids, table = np.array([3, 0, 2]), X[:4]
    found = evaluate(gather(4), {"ids": ids, "table": table}, {}, {"s": 3})["out"]
    np.testing.assert_array_equal(found, table[ids])


def test_index_out_of_range_names_buffer_and_index() -> None:
    given = {"ids": np.array([0, 4, 1]), "table": X[:4]}
    with pytest.raises(IndexOutOfRange, match=r"table\[\{ids\[i\]\}, j\] reads 4 in dimension 0"):
        evaluate(gather(4), given, {}, {"s": 3})
    with pytest.raises(
        IndexOutOfRange, match=r"x\[i \+ 1, j\] reads 5 in dimension 0 of shape \(5"
    ):
        pointwise(load("x", Int.of(ROW) + 1, J))


@pytest.mark.row("C:E23")
def test_guard_keeps_loads_inside() -> None:
    inside = apply("ge", index(ROW), number(1, I64), dtype=BOOL)
    padded = Guarded(inside, load("x", Int.of(ROW) - 1, J), number(9.0), F32)
    found = pointwise(padded)
    np.testing.assert_array_equal(found[0], np.full(8, 9.0))
    np.testing.assert_array_equal(found[1:], X[:-1])
    with pytest.raises(IndexOutOfRange, match=r"x\[i - 1, j\] reads -1"):
        pointwise(Guarded(inside, number(9.0), load("x", Int.of(ROW) - 1, J), F32))


def test_writes_outside_or_twice_are_refused() -> None:
    results = [buffer("out", F32, S, 8)]
    shifted = Pointwise("out", (ROW, J), number(1.0), (Int.of(ROW) + 1, Int.of(J)))
    with pytest.raises(IndexOutOfRange, match=r"out\[i \+ 1, j\] writes 5 in dimension 0"):
        outputs(shifted, results)
    same = Pointwise("out", (ROW, J), number(1.0), (Int.of(ROW), Int.of(0)))
    with pytest.raises(IndexOutOfRange, match="out is written twice"):
        outputs(same, results)


def test_input_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"x: float32\[s, 8\] with .* got shape \(5, 7\)"):
        whole = program([buffer("x", F32, S, 8)], [over("x", (ROW, J), number(0.0))], inputs="x")
        evaluate(whole, {"x": X[:, :7]}, {}, {"s": ROWS})


def test_float64_stays_float64() -> None:
    value = apply("cast", load("x", ROW, J), dtype=F64)
    assert pointwise(value, F64).dtype == np.float64


def test_packed_weight_is_made_of_its_parts() -> None:
    n = Axis("n", Int.of(6))
    rows = [buffer("w", F32, 6), buffer("a", F32, 2), buffer("b", F32, 4), buffer("out", F32, 6)]
    whole = program(rows, [over("out", (n,), load("w", n))], inputs="")
    whole = replace(whole, weights=("a", "b", "w"), packed=(PackedWeight("w", ("a", "b")),))
    weights = {"a": X[0, :2], "b": X[0, 2:6]}
    np.testing.assert_array_equal(evaluate(whole, {}, weights, {"s": 1})["out"], X[0, :6])
    assert "weight w: float32[6] = a ++ b" in str(whole)
