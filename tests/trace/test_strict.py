"""Strict mode with dynamic sizes: its guards name the inputs by number."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError, UnsupportedError
from aotpack.stages import Traced
from aotpack.trace import trace

X, N, M = torch.randn(4, 5), Dim("b", max=64), Dim("c", max=32)


class Sum(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x) + y


class Nested(nn.Module):
    """A number among the inputs, and keywords in another order than the signature's."""

    def forward(self, x: Tensor, *, factor: int, last: Tensor, all_: list[Any]) -> Tensor:
        return x * factor + all_[0] + all_[1]["y"] + last.sum(0)[:, None]


class Variable(nn.Module):
    def forward(self, x: Tensor, *ys: Tensor) -> Tensor:
        return x + sum(ys)


class Fours(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.view(-1, 4)


def strictly(
    module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], shapes: Any
) -> Traced:
    return trace(module, args, kwargs, dynamic_shapes=shapes, name="m", version="1", strict=True)


NESTED = {"last": torch.randn(7, 4), "all_": [X, {"y": X + 1}], "factor": 3}
CASES: dict[str, tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any, list[str]]] = {
    "shared": (Sum(), (X, X + 1), {}, ({0: N, 1: M}, {0: N, 1: M}), ["b, c", "b, c"]),
    "automatic": (
        Sum(),
        (X, X + 1),
        {},
        {"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}},
        ["x_size0, 5", "x_size0, 5"],
    ),
    "keywords": (
        Nested(),
        (X,),
        NESTED,
        {"x": {0: N}, "last": {0: M, 1: N}, "all_": [{0: N}, {"y": {0: N}}]},
        ["b, 5", "c, b", "b, 5", "b, 5"],
    ),
    "variable": (Variable(), (X, X, X + 1), {}, ({0: N}, ({0: N}, {0: N})), ["b, 5"] * 3),
}


@pytest.mark.parametrize("case", CASES)
def test_shared_sizes_are_accepted(case: str) -> None:
    module, args, kwargs, shapes, wanted = CASES[case]
    inputs = strictly(module, args, kwargs, shapes).graph.signature.inputs
    assert [", ".join(map(str, spec.shape)) for spec in inputs] == wanted


def test_another_condition_is_refused_by_name() -> None:
    words = (
        r"sizes where\n  x_size0, dimension 0 of argument 'x', is a multiple of 4: \(x_size0 % 4\)"
    )
    with pytest.raises(TraceError, match=words):
        strictly(Fours(), (torch.randn(8),), {}, {"x": {0: Dim.AUTO}})


class Planes(nn.Module):
    def forward(self, x: Tensor, others: dict[str, Tensor]) -> Tensor:
        return others["y"].view(-1, 10) + x.sum()


def test_a_condition_that_torch_derives_is_refused_by_name() -> None:
    shapes = {"x": {}, "others": {"y": {0: N}}}
    words = r"""dimension 0 of argument "others\['y'\]", is a multiple of 2"""
    with pytest.raises(TraceError, match=words):
        strictly(Planes(), (X, {"y": X + 1}), {}, shapes)


def test_a_strict_package_answers_at_other_sizes() -> None:
    shapes = ({0: N, 1: M}, {0: N, 1: M})
    model = aotpack.compile(
        Sum(), (X, X + 1), dynamic_shapes=shapes, target="interpreter", strict=True
    )
    x, y = torch.randn(7, 3), torch.randn(7, 3)
    assert torch.equal(model(x, y), torch.relu(x) + y)
    with pytest.raises(aotpack.AotpackError, match="y"):
        model(x, torch.randn(7, 4))
    model.close()


class BetweenSizes(nn.Module):
    """Rows whose number is that of no input, and may be counted from the end."""

    def __init__(self, *, asks: bool = False) -> None:
        super().__init__()
        self.asks = asks

    def forward(self, x: Tensor) -> Tensor:
        length = x.shape[0] - x.shape[1]
        rows = x[:length]
        return rows + rows if self.asks and length < 0 else rows * rows


@pytest.mark.parametrize("low", [1, 2])
def test_a_slice_between_two_sizes_asks_nothing(low: int) -> None:
    shapes = {"x": {0: Dim("a", min=low, max=9), 1: Dim("b", min=low, max=9)}}
    how: dict[str, Any] = {"dynamic_shapes": shapes, "target": "interpreter", "strict": True}
    model = aotpack.compile(BetweenSizes(), (torch.randn(7, 4),), **how)
    for x in (torch.randn(rows, columns) for rows in (low, 3, 9) for columns in (low, 4, 9)):
        assert torch.equal(model(x), BetweenSizes()(x))


def test_a_branch_on_its_length_is_refused() -> None:
    shapes = {"x": {0: Dim("a", min=2, max=9), 1: Dim("b", min=2, max=9)}}
    with pytest.raises(
        TraceError, match=r"sizes where\n  a \+ \(\(-1\)\*b\) >= 0  \(not for a=2, b=3\)"
    ):
        strictly(BetweenSizes(asks=True), (torch.randn(7, 4),), {}, shapes)


class Region(nn.Module):
    """A layer that strict mode keeps as one graph, called several times."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + x.mean(0)


class Regions(nn.Module):
    def __init__(self, *, branches: bool) -> None:
        super().__init__()
        self.layers, self.branches = nn.ModuleList(Region() for _ in range(3)), branches

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cond(x.sum() > 0, layer, torch.sin, (x,)) if self.branches else layer(x)
        return x


def test_regions_are_a_part_of_the_program() -> None:
    model, rows = Regions(branches=False).eval(), {"x": {0: Dim("b", min=2, max=9)}}
    program = torch.export.export(model, (torch.ones(4, 3),), dynamic_shapes=rows, strict=True)
    assert "invoke_subgraph" in str(program.graph)
    packaged = aotpack.compile(program, (torch.ones(4, 3),), target="cpu")
    for size in (2, 7):
        x = torch.randn(size, 3)
        torch.testing.assert_close(packaged(x), model(x))


def test_regions_in_branches_are_refused() -> None:
    model = Regions(branches=True).eval()
    with pytest.raises(UnsupportedError, match="invoke_subgraph: it takes functions; of such"):
        aotpack.compile(model, (torch.ones(4, 3),), strict=True, target="cpu")
