"""Kernels write the pieces of a joined tensor where they belong; where that gains nothing, a copy.

What may go wrong is seen by the oracles: every case runs through them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.devices import H200
from aotpack.ir.kernels.access import accesses
from aotpack.ir.ops.conditions import range_checks
from aotpack.ir.program import Buffer, ConcatBuffer, Program
from aotpack.ir.symbolic.integers import Int
from aotpack.ir.values import Const, Guarded, Value
from aotpack.ir.verify.program import InvalidProgram, verify
from aotpack.ir.verify.schedule import InvalidSchedule, verify_schedule
from aotpack.schedule.fusion.concat_in_place import concat_in_place
from aotpack.schedule.fusion.fuse import fuse
from tests.e2e.models import Function
from tests.e2e.oracle import agree, compile_all
from tests.schedule.programs import F32, Writer, assert_same, load, replayed, schedule_of, scheduled

cat, stack, attend = torch.cat, torch.stack, F.scaled_dot_product_attention
IMAGE, HEADS = (2, 3, 8, 8), (2, 2, 8, 16)


class Two(nn.Module):
    """What ``function`` makes of an input and two layers."""

    def __init__(self, one: nn.Module, other: nn.Module, function: Callable[..., Any]) -> None:
        super().__init__()
        self.one, self.other, self.function = one, other, function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.one(x), self.other(x))


def linears(function: Callable[..., Any]) -> nn.Module:
    return Two(nn.Linear(16, 24), nn.Linear(16, 8), function)


def convolutions(function: Callable[..., Any]) -> nn.Module:
    return Two(nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 4, 1), function)


@dataclass(frozen=True, slots=True)
class Case:
    """A model of one input, the kernels it takes, and how many pieces are written in place."""

    name: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    kernels: int
    pieces: int = 2


CASES = (
    Case("products", lambda: linears(lambda x, a, b: cat([a, b.relu()], 1)), (6, 16), 2),
    Case("an input too", lambda: linears(lambda x, a, b: cat([a, x, b], 1)), (6, 16), 3, 3),
    Case("rows", lambda: Function(lambda x: cat([x @ x.T, x, x.T @ x]), 1), (16, 16), 3, 3),
    Case("read again", lambda: linears(lambda x, a, b: (cat([a, b], 1), a.sin())), (6, 16), 2),
    Case("convolutions", lambda: convolutions(lambda x, a, b: cat([a, b.relu()], 1)), IMAGE, 2),
    Case("then a product", lambda: linears(lambda x, a, b: cat([a, b], 1) @ x @ x.T), (32, 16), 4),
    Case("stack", lambda: linears(lambda x, a, b: stack([a, a.tanh()])), (6, 16), 1),
    Case("reductions", lambda: Function(lambda x: stack([x.sum(1), x.amax(1)]), 1), (8, 40), 1),
    Case("a scan", lambda: Function(lambda x: cat([x.cumsum(1), x.cos()], 1), 1), (8, 40), 1),
    Case("a rim", lambda: linears(lambda x, a, b: F.pad(a, (0, 8))), (6, 16), 2),
    Case("attention", lambda: Function(lambda x: cat([attend(x, x, x), x], -1), 1), HEADS, 2),
)
LEFT = (
    Case("nothing is made here", lambda: Function(lambda x: cat([x, x.sin()]), 1), (8, 40), 1, 0),
    Case("one reader", lambda: linears(lambda x, a, b: cat([a, b], 1).softmax(1)), (6, 16), 3, 0),
    Case("columns", lambda: linears(lambda x, a, b: stack([a, b @ b.T @ a], 2)), (6, 16), 5, 0),
    Case("two rims", lambda: linears(lambda x, a, b: F.pad(a, (8, 8))), (6, 16), 2, 0),
)


@pytest.mark.row("S:H5")
@pytest.mark.parametrize("case", (*CASES, *LEFT), ids=lambda case: case.name)
def test_kernels_write_their_pieces(case: Case) -> None:
    """As many kernels as a person would count; without pieces, what is joined is copied."""
    torch.manual_seed(0)
    x = torch.randn(case.shape)
    compiled = compile_all(case.make(), (x,))
    made = compiled.scheduled.schedule
    assert sum(len(concat.parts) for concat in made.program.concats) == case.pieces, made
    assert len(made.kernels) == case.kernels, made
    verify(replayed(made))
    agree(compiled, (x,))


@pytest.mark.row("S:H5")
def test_pieces_are_neither_read_nor_kept_apart() -> None:
    """Each element is stored once and, by the product behind, read once for each of its uses."""
    model = linears(lambda x, a, b: cat([a, b], 1) @ x @ x.T)
    made = scheduled(model, torch.zeros(32, 16)).schedule
    whole = made.program.concats[0].name
    moved = [(a.buffer, a.is_store) for kernel in made.kernels for a in accesses(kernel)]
    assert [name for name, is_store in moved if is_store][:2] == [f"{whole}.0", f"{whole}.1"]
    assert [name for name, is_store in moved if not is_store].count(whole) == 1
    assert {life.storage for life in made.lifetimes if life.buffer.startswith(whole)} == {whole}


@pytest.mark.row("S:H5")
def test_sizes_of_pieces_may_be_dynamic() -> None:
    model = linears(lambda x, a, b: cat([a, b @ b.T @ a, x @ x.T @ a]))
    x = torch.randn(5, 16)
    compiled = compile_all(model, (x,), dynamic_shapes=({0: Dim("n", max=9)},))
    assert compiled.scheduled.schedule.program.concats
    for rows in (5, 1, 9):
        agree(compiled, (torch.randn(rows, 16),))


@pytest.mark.row("S:H5")
def test_pieces_whose_order_depends_on_a_size_are_no_pieces() -> None:
    """The rows before the padded ones are none, or some, as the size says."""

    class Sliced(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(16, 24), nn.Linear(16, 24)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            size = y.shape[0]
            padded = F.pad(self.one(x), (0, 0, size - 4, 2))
            return torch.slice_scatter(padded, self.other(x[:2]), 0, size + 4, size + 6)

    x, y = torch.randn(8, 16), torch.randn(9, 16)
    compiled = compile_all(Sliced(), (x, y), dynamic_shapes=({}, {0: Dim("s", min=2, max=64)}))
    for size in (9, 4, 2, 30):
        agree(compiled, (x, torch.randn(size, 16)))


@pytest.mark.row("S:H5")
@pytest.mark.parametrize("launch", [0.0, H200.launch])
def test_a_launch_more_must_be_worth_it(launch: float) -> None:
    model = linears(lambda x, a, b: F.pad(a, (8, 8)))
    made = scheduled(model, torch.zeros(6, 16), gpu=replace(H200, launch=launch))
    assert bool(made.schedule.program.concats) is (launch == 0)


def two_parts() -> Program:
    """A product and a sum side by side."""
    w = Writer()
    x, y = w.input("x", 16, 16), w.input("y", 16, 16)
    a = w.matmul("a", 16, 16, 16, x, y)
    b = w.matmul("b", 16, 16, 16, y, x)
    w.pointwise("z", [32, 16], lambda i, j: joined_value(a, b, i, j))
    return w.program(w.buffers["z"])


def joined_value(a: Buffer, b: Buffer, i: Int, j: Int) -> Value:
    (first,), (second,) = range_checks(i, 0, 16), range_checks(i, 16, 32)
    rest = Guarded(second, load(b, i - 16, j), Const(0.0, F32), F32)
    return Guarded(first, load(a, i, j), rest, F32)


def test_the_rewrite_keeps_the_meaning() -> None:
    program = two_parts()
    changed = concat_in_place(program, H200)
    assert [concat.parts for concat in changed.concats] == [("z.0", "z.1")]
    assert "concat z = z.0 | z.1\n" in str(changed)
    assert len(fuse(changed)) == 2
    verify(changed)
    assert_same(program, changed)
    assert concat_in_place(changed, H200) is changed


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("z.0", "z.0"), "is two parts"),
        (("z.0",), "do not fill"),
        (("z.0", "a"), "is no part of"),
    ],
)
def test_what_is_no_concat_buffer_is_refused(parts: tuple[str, ...], words: str) -> None:
    program = two_parts()
    changed = concat_in_place(program, H200)
    with pytest.raises(InvalidProgram, match=words):
        verify(replace(changed, concats=(ConcatBuffer("z", parts),)))


def test_a_part_elsewhere_is_refused() -> None:
    made = schedule_of(two_parts())
    lives = tuple(replace(life, storage=life.buffer) for life in made.lifetimes)
    with pytest.raises(InvalidSchedule, match="does not lie where z does"):
        verify_schedule(replace(made, lifetimes=lives))
