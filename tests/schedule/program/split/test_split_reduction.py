"""Long reductions with few results: two ordinary reductions that agree with the whole one."""

import math
from dataclasses import replace

import numpy as np
import pytest

from aotpack.devices import H200
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.ir.names import safe_size_name
from aotpack.ir.operations import Reduction
from aotpack.ir.ops.reference import Array
from aotpack.ir.program import Program, all_axes
from aotpack.ir.symbolic.facts import bounds
from aotpack.ir.symbolic.integers import Var, product
from aotpack.ir.verify.program import verify
from aotpack.schedule.program.split.split_reduction import split_reductions
from tests.schedule.programs import I64, Writer, load

LONG = 2**18
UNEVEN = LONG + 2**13 * 3 + 8 * 7  # no equal parts near those wanted
PRIME = 1_048_583


def whole(kind: str, count: int, length: int, *, columns: bool = False) -> Program:
    w = Writer(())
    x = w.input("x", *((length, count) if columns else (count, length)))
    value = (lambda i, r: load(x, r, i)) if columns else (lambda i, r: load(x, i, r))
    dtype = I64 if kind.startswith("arg") else x.dtype
    return w.program(w.reduction("y", [count], [length], value, kind=kind, dtype=dtype))


def halves(program: Program, x: Array) -> tuple[Array, Array]:
    """What the whole reduction gives, and what it gives split."""
    split = split_reductions(program, H200)
    verify(split)
    assert sum(isinstance(o, Reduction) for o in split.operations) >= 2
    first, second = (evaluate(p, {"x": x}, {}, {})[p.outputs[0]] for p in (program, split))
    return first, second


def numbers(count: int, length: int, *, columns: bool = False) -> Array:
    shape = (length, count) if columns else (count, length)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.row("S:B9", "S:B11", "S:inv27", "S:B12")
@pytest.mark.parametrize("length", [LONG, UNEVEN])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("kind", ["sum", "max", "logsumexp", "argmin"])
def test_halves_agree_with_the_whole(kind: str, columns: bool, length: int) -> None:
    program = whole(kind, 4, length, columns=columns)
    np.testing.assert_allclose(
        *halves(program, numbers(4, length, columns=columns)), rtol=1e-5, atol=1e-3
    )


@pytest.mark.parametrize(
    ("kind", "taken"),
    [("sum", "y_part"), ("argmax", "y_extreme_part"), ("argmax", "y_place_part")],
)
def test_what_is_between_halves_has_a_name_of_its_own(kind: str, taken: str) -> None:
    program = whole(kind, 4, UNEVEN)
    assert taken in split_reductions(program, H200).buffers
    buffers = {**program.buffers, taken: replace(program.buffers["x"], name=taken)}
    clashing = replace(program, inputs=(*program.inputs, taken), buffers=buffers)
    split = split_reductions(clashing, H200)
    verify(split)
    assert split.buffers[taken] is buffers[taken] and f"{taken}_1" in split.buffers


def test_the_axes_of_halves_are_named_like_no_size() -> None:
    first, second = split_reductions(whole("sum", 4, LONG), H200).operations
    names = {axis.name for one in (first, second) for axis in all_axes(one)}
    assert {"part", "step"} <= names
    assert [name for name in ("part", "step") if safe_size_name(name) == name] == []


@pytest.mark.row("S:B12", "S:inv27")
@pytest.mark.parametrize("kind", ["sum", "welford"])
def test_halves_of_a_prime_length_agree(kind: str) -> None:
    w = Writer(())
    x = w.input("x", 1, PRIME)
    names = ("y", "z") if kind == "welford" else ("y",)
    program = w.program(*w.reductions(names, [1], [PRIME], lambda i, r: load(x, i, r), kind=kind))
    found = halves(program, numbers(1, PRIME))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-2)


@pytest.mark.row("S:B12", "S:inv27")
@pytest.mark.parametrize("size", [0, 1, 8, 31, 33, 257])
@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min", "welford", "logsumexp", "softmax"])
@pytest.mark.parametrize("columns", [False, True])
def test_halves_of_a_dynamic_length_agree(kind: str, size: int, columns: bool) -> None:
    b = Var("b", 0, 2**20)
    w = Writer((b,))
    x = w.input("x", b, 1024)
    names = ("y", "z") if kind in ("welford", "softmax") else ("y",)
    made = (
        w.reductions(names, [1024], [b], lambda i, r: load(x, r, i), kind=kind)
        if columns
        else w.reductions(names, [], [b, 1024], lambda r, c: load(x, r, c), kind=kind)
    )
    program = w.program(*made)
    split = split_reductions(program, H200)
    verify(split)
    assert isinstance(first := split.operations[0], Reduction)
    assert bounds(first.axes[0].extent) == (1, 32 if columns else 512)
    given = 1 + numbers(size, 1024) / 999
    with np.errstate(all="ignore"):
        found = [evaluate(p, {"x": given}, {}, {"b": size}) for p in (program, split)]
    for name in names:
        np.testing.assert_allclose(*(values[name] for values in found), rtol=2e-5, atol=1e-4)


@pytest.mark.row("S:inv27", "C:inv19")
@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("size", [1, 9, 10_007])
def test_positions_in_a_dynamic_length_are_the_first(kind: str, size: int) -> None:
    b = Var("b", 1, 2**31 - 1)
    w = Writer((b,))
    x = w.input("x", b)
    program = w.program(
        w.reduction("y", [], [b], lambda r: load(x, r), kind=kind, dtype=I64),
    )
    for given in (numbers(1, size)[0], np.full(size, math.inf), np.full(size, -math.inf)):
        given = given.astype(np.float32)
        found = [
            evaluate(p, {"x": given}, {}, {"b": size})["y"]
            for p in (program, split_reductions(program, H200))
        ]
        assert found[0] == found[1]


@pytest.mark.row("S:B12")
@pytest.mark.parametrize(("length", "merged"), [(65536, 32), (65537, 32), (87_381, 32)])
def test_columns_are_split_so_that_little_is_left(length: int, merged: int) -> None:
    """About 33 parts of 1024 columns; a row left over is merged with a part."""
    split = split_reductions(whole("sum", 1024, length, columns=True), H200)
    *_, last = (o for o in split.operations if isinstance(o, Reduction))
    assert last.inner[0].extent.constant == merged


@pytest.mark.row("S:inv27", "C:inv19")
@pytest.mark.parametrize("length", [LONG, UNEVEN])
def test_positions_are_the_first_of_equals_and_of_nan(length: int) -> None:
    x = np.zeros((5, length), np.float32)
    x[0, [70_001, 200_000]] = 1  # equals in two parts
    x[1, [90_000, 3]] = math.inf
    x[2, [180_000, 60_000]] = math.nan  # before any number
    x[2, 10] = math.inf
    x[3] = -math.inf  # as what stands for missing elements
    x[4] = -1
    x[4, length - 1] = 2  # in the last, shorter part
    first, second = halves(whole("argmax", 5, length), x)
    assert second.tolist() == [70_001, 3, 60_000, 0, length - 1] == first.tolist()


@pytest.mark.row("S:inv27", "C:G21")
@pytest.mark.parametrize("length", [LONG, UNEVEN])
def test_exponential_sums_shrink_to_the_common_maximum(length: int) -> None:
    w = Writer(())
    x = w.input("x", 4, length)
    pair = w.reductions(("top", "sum"), [4], [length], lambda i, r: load(x, i, r), kind="softmax")
    program = w.program(*pair)
    given = numbers(4, length) * 9
    given[1] = -math.inf
    given[1, 5] = 3
    given[2, 70_000] = math.nan
    given[3, 70_000] = math.inf
    with np.errstate(all="ignore"):
        split = split_reductions(program, H200)
        found = [evaluate(p, {"x": given}, {}, {}) for p in (program, split)]
    for name in ("top", "sum"):
        np.testing.assert_allclose(*(values[name] for values in found), rtol=1e-5)


@pytest.mark.row("S:B9")
@pytest.mark.parametrize(
    ("kind", "count", "length"),
    [
        ("sum", 4, 2**15),  # too little work for a second launch
        ("sum", 4096, 4096),  # enough rows to fill the machine
    ],
)
def test_left_whole(kind: str, count: int, length: int) -> None:
    w = Writer(())
    x = w.input("x", count, length)
    program = w.program(w.reduction("y", [count], [length], lambda i, r: load(x, i, r), kind=kind))
    assert split_reductions(program, H200) is program


@pytest.mark.row("S:B12")
@pytest.mark.parametrize(("columns", "most"), [(512, 64), (2048, None)])
def test_the_largest_length_decides_where_few_programs_read(columns: int, most: int | None) -> None:
    """16 programs read 512 columns; those of 2048 columns reach half of the bandwidth."""
    b = Var("b", 1, 2**17)
    w = Writer((b,))
    x = w.input("x", b, columns)
    program = w.program(w.reduction("y", [columns], [b], lambda i, r: load(x, r, i)))
    split = split_reductions(program, H200)
    first = split.operations[0]
    assert (split is not program) == (most is not None)
    assert isinstance(first, Reduction)
    if most is not None:
        parts = first.axes[0].extent
        found = [parts.evaluate({"b": rows}) for rows in (1, 255, 256, 2**17)]
        assert found == [1, 1, 2, most]


@pytest.mark.row("S:B12")
@pytest.mark.parametrize("length", [2**32, 2**31 - 1])
def test_parts_of_a_length_of_any_bits_are_the_whole(length: int) -> None:
    first, second = split_reductions(whole("sum", 1, length), H200).operations
    assert isinstance(first, Reduction) and isinstance(second, Reduction)
    parts, step = int(first.axes[0].extent), int(first.inner[0].extent)
    lanes = int(product(axis.extent for axis in second.inner)) // parts
    assert length <= parts * (step + lanes) <= length + 16 * parts
