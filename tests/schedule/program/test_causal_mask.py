"""Masks that are known without reading memory."""

import pytest

from aotpack.ir.operations import Attention
from aotpack.ir.program import Buffer, Program
from aotpack.ir.symbolic.integers import Axis, Int, Var
from aotpack.ir.values import Apply, Const, IndexValue, Value
from aotpack.schedule.program.causal_mask import recognise_causal_masks
from tests.schedule.programs import BOOL, F32, I64, Writer, load

S = Var("s", 1, 64)
KEYS = Int.of(S)


def program(mask: Value | None, keys: Int = KEYS) -> Program:
    w = Writer((S,))
    q, k, v = w.input("q", 1, 2, S, 8), w.input("k", 1, 2, keys, 8), w.input("v", 1, 2, keys, 8)
    out = w.buffer("out", (1, 2, S, 8))
    b, h, i, _, d, e = axes(keys)
    j = axes(keys)[3]
    slots = (load(q, b, h, i, d), load(k, b, h, j, d), load(v, b, h, j, e))
    w.operations.append(Attention("out", *axes(keys), *slots, 0.5, False, None, mask, F32))
    return w.program(Buffer(out.name, out.dtype, out.shape))


def axes(keys: Int = KEYS) -> tuple[Axis, ...]:
    extents = {
        "b": Int.of(1),
        "h": Int.of(2),
        "i": Int.of(S),
        "j": keys,
        "d": Int.of(8),
        "e": Int.of(8),
    }
    return tuple(Axis(f"a{name}", extent) for name, extent in extents.items())


def compare(op: str, left: Int, right: Int) -> Value:
    return Apply(op, (IndexValue(left, I64), IndexValue(right, I64)), BOOL)


ROW, COLUMN = (Int.of(axis) for axis in axes()[2:4])


@pytest.mark.parametrize(
    "mask",
    [
        compare("le", COLUMN, ROW),
        compare("ge", ROW, COLUMN),
        compare("lt", COLUMN, ROW + 1),
        compare("gt", ROW + 1, COLUMN),
    ],
    ids=str,
)
def test_causal_in_four_spellings(mask: Value) -> None:
    (operation,) = recognise_causal_masks(program(mask)).operations
    assert isinstance(operation, Attention)
    assert operation.causal and operation.mask is None


@pytest.mark.parametrize(
    "mask",
    [
        compare("lt", COLUMN, ROW),
        compare("le", COLUMN, ROW + 1),
        compare("ge", COLUMN, ROW),
        compare("eq", ROW, COLUMN),
    ],
    ids=str,
)
def test_other_masks_stay(mask: Value) -> None:
    before = program(mask)
    assert recognise_causal_masks(before) is before


def test_mask_that_allows_all_is_none() -> None:
    (operation,) = recognise_causal_masks(program(Const(True, BOOL))).operations
    assert isinstance(operation, Attention)
    assert operation.mask is None and not operation.causal


def test_mask_that_allows_nothing_stays() -> None:
    before = program(Const(False, BOOL))
    assert recognise_causal_masks(before) is before
