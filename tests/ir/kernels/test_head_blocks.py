"""Heads as blocks of the copy engine: how they are cut, and where they lie."""

import pytest

from aotpack.ir.dtypes import DType
from aotpack.ir.kernels.head_blocks import attended_heads, head_lengths, may_have_roles
from aotpack.ir.operations import Attention
from aotpack.ir.symbolic.integers import Axis, Int, Var
from tests.schedule.programs import BF16, F32, Writer, load

S = Var("s", 1, 2048)


@pytest.mark.parametrize(
    ("head", "blocks"),
    [
        (8, ((0, 16),)),
        (40, ((0, 64),)),
        (64, ((0, 64),)),
        (72, ((0, 64), (64, 16))),
        (96, ((0, 64), (64, 32))),
        (112, ((0, 64), (64, 64))),
        (256, ((0, 256),)),
    ],
)
def test_heads_are_cut_in_two_at_most(head: int, blocks: tuple[tuple[int, int], ...]) -> None:
    assert head_lengths(Axis("d", Int.of(head))) == blocks


def attention(head: int, dtype: DType = BF16, shared: int = 2, fewest: int = 1) -> Attention:
    w = Writer((S,))
    length = Var("s", fewest, 2048)
    q, k = (
        w.input(name, 2, heads, S, head, dtype=dtype) for name, heads in (("q", 4), ("k", shared))
    )
    extents = (2, 4, length, length, head, head)
    b, h, i, j, d, e = (Axis(f"a{n}", Int.of(extent)) for n, extent in enumerate(extents))
    group = Int.of(h) // (4 // shared)
    slots = (load(q, b, h, i, d), load(k, b, group, j, d), load(k, b, group, j, e))
    return Attention("y", b, h, i, j, d, e, *slots, 0.5, False, None, None, dtype)


def strides(head: int) -> dict[str, tuple[Int, ...]]:
    return {
        name: tuple(map(Int.of, (Int.of(S) * heads * head, Int.of(S) * head, head, 1)))
        for name, heads in (("q", 4), ("k", 2))
    }


def test_batch_and_heads_are_dimensions_of_a_descriptor() -> None:
    o = attention(80)
    found = attended_heads(o, 128, {"q": BF16, "k": BF16}, strides(80))
    assert found is not None and [one.length for one in found.value] == [64, 16]
    batch, heads, rows, inner = found.key[0].block.dimensions
    assert (batch.size.constant, heads.size.constant, rows.length, inner.length) == (2, 2, 128, 64)
    assert str(heads.start) == "(a1//2)" and found.key[0].block.base.constant == 0


def test_other_types_and_strides_are_refused() -> None:
    assert attended_heads(attention(80), 128, {"q": BF16, "k": F32}, strides(80)) is None
    assert attended_heads(attention(36), 128, {"q": BF16, "k": BF16}, strides(36)) is None


def test_a_form_without_a_mask_that_has_keys_may_have_roles() -> None:
    assert may_have_roles(attention(64))
    assert not may_have_roles(attention(64, F32))
    assert not may_have_roles(attention(64, fewest=0))
