"""Random models: the same seed gives every oracle the same numbers, a different one others."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import aotpack
from aotpack.emit import write_package
from aotpack.errors import UnsupportedError
from aotpack.runtime import load
from aotpack.runtime.errors import ArgumentError
from aotpack.runtime.selftest import check_golden
from aotpack.target import CPU, INTERPRETER
from aotpack.trace.operators.random.seeds import seeded

from .models import Function
from .oracle import agree, compile_all

BOTH = (INTERPRETER, CPU)


class Drawing(nn.Module):
    """Draws of each kind beside arithmetic; their types are given, so that widening keeps them."""

    def forward(self, x: torch.Tensor) -> Any:
        noise = torch.randn(x.shape[0], 5, dtype=torch.float32)
        kept = torch.rand(x.shape, dtype=torch.float32) < 0.5
        picked = torch.randint(0, x.shape[1], (4,))
        order = torch.randperm(6)
        wide = torch.rand(3, dtype=torch.float64)
        whole = torch.zeros(3, dtype=torch.int64).random_()
        ends = torch.zeros(5, dtype=torch.float32).random_(), wide.new_zeros(5).random_(2**40, None)
        return noise * 0.1, torch.where(kept, x * 2, x), x[:, picked], order, wide, whole, ends


def seed_of(number: int) -> dict[str, torch.Tensor]:
    return {"seed": torch.tensor(number)}


@pytest.mark.row("S:H21", "C:E24", "C:E25")
def test_all_oracles_draw_alike() -> None:
    torch.manual_seed(0)
    args = (torch.randn(3, 7),)
    compiled = compile_all(seeded(Drawing(), "m"), args, seed_of(0), targets=BOTH)
    for seed in (0, 1, -1, 2**63 - 1, -(2**63)):
        agree(compiled, args, seed_of(seed))


def test_dynamic_sizes_and_the_packages_own_test(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"x": {0: Dim("n", min=1, max=64)}}
    compiled = compile_all(
        Drawing(), (torch.randn(3, 7),), dynamic_shapes=sizes, targets=BOTH, golden=1e6
    )
    eager = seeded(Drawing(), "m")
    write_package(compiled.precompiled, tmp_path)
    with load(tmp_path, "cpu") as packaged:
        assert all(check.is_passed for check in check_golden(packaged, packaged))
    for model in compiled.models.values():
        for rows in (1, 64):
            x = torch.randn(rows, 7)
            ours, theirs = model(x, **seed_of(rows)), eager(x, **seed_of(rows))
            torch.testing.assert_close(ours, theirs)
            assert not torch.equal(model(x, **seed_of(5))[0], ours[0])
    with_number = compiled.models["cpu"](x, seed=64)
    assert torch.equal(with_number[0], compiled.models["cpu"](x, **seed_of(64))[0])


INSIDE = {
    "cond": lambda x: torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), torch.neg, (x,)),
    "map": lambda x: map_over(lambda row: row + torch.randn(3), x),
    "scan": lambda x: scan(lambda c, r: (c * torch.randint(0, 3, (3,)), r + 1), x[0], x, dim=0)[1],
    "while": lambda x: while_loop(
        lambda i, x: i < 2, lambda i, x: (i + 1, F.dropout(x, 0.5)), (torch.tensor(0), x)
    ),
}


@pytest.mark.parametrize("kind", INSIDE)
def test_random_numbers_in_control_flow_are_refused(kind: str) -> None:
    words = "random numbers are not built inside cond, map, scan and while_loop: draw them outside"
    module = Function(INSIDE[kind], 1)
    with pytest.raises(UnsupportedError, match=words):
        aotpack.compile(module, (torch.ones(4, 3),), target="cpu")


def test_random_numbers_from_outside_of_control_flow_are_accepted() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.add, torch.sub, (x, torch.rand_like(x)))

    model = aotpack.compile(Function(forward, 1), (torch.ones(4, 3),), target="interpreter")
    drawn = model(torch.ones(4, 3), seed=3) - 1
    assert ((drawn >= 0) & (drawn < 1)).all() and drawn.unique().numel() == 12
    torch.testing.assert_close(model(-torch.ones(4, 3), seed=3), -1 - drawn)


def test_a_call_without_a_seed_is_refused() -> None:
    compiled = compile_all(Drawing(), (torch.randn(3, 7),), targets=(CPU,))
    with pytest.raises(ArgumentError, match="argument 'seed' is missing"):
        compiled.models["cpu"](torch.randn(3, 7))


def into_a_row(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0].uniform_(2, 3)
    return y


def by_assignment(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y.t()[1:, 0] = torch.rand(2) + 2
    return y


def for_nothing(x: torch.Tensor) -> torch.Tensor:
    x.clone()[0].uniform_(2, 3)
    return x * 2


@pytest.mark.parametrize(
    ("draw", "drawn"),
    [
        (into_a_row, [True, True, True, False, False, False]),
        (by_assignment, [False, True, True, False, False, False]),
        (for_nothing, [False] * 6),
    ],
)
def test_views_are_drawn_where_their_base_is_needed(draw: Any, drawn: list[bool]) -> None:
    compiled = aotpack.compile(Function(draw, 1), (torch.zeros(2, 3),), target="cpu")
    found = compiled(torch.zeros(2, 3), **({"seed": 3} if any(drawn) else {}))
    assert [2 <= one < 3 for one in torch.as_tensor(found).flatten().tolist()] == drawn
