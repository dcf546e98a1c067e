"""Parts of a dynamic axis: built where all sizes give as many, else told for which they do."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError

MOST = 20


class Parts(nn.Module):
    def __init__(self, cut: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.cut = cut

    def forward(self, x: torch.Tensor) -> Any:
        return tuple(part * 2 for part in self.cut(x))


def built(model: nn.Module, example: int, low: int, high: int) -> Any:
    shapes = ({0: Dim("n", min=low, max=high)},)
    given = (torch.randn(example, 2),)
    return aotpack.compile(model, given, dynamic_shapes=shapes, target="interpreter")


def check_all(model: nn.Module, package: Any, low: int, high: int) -> None:
    """Compare with eager for all sizes up to a small one."""
    for size in range(low, min(high, MOST) + 1):
        x = torch.randn(size, 2)
        ours, eager = package(x), model(x)
        assert len(ours) == len(eager), size
        assert all(torch.equal(a, b) for a, b in zip(ours, eager, strict=True)), size


def chunks(count: int) -> Parts:
    return Parts(lambda x: x.chunk(count, 0))


def of(length: int) -> Parts:
    return Parts(lambda x: x.split(length))


BUILT: dict[str, tuple[Parts, int, int, int]] = {  # with the example, the least, the largest size
    "chunk(3)": (chunks(3), 12, 5, 40),
    "chunk(3), of sizes of two parts": (Parts(lambda x: x.repeat(2, 1).chunk(3)), 4, 3, 40),
    "chunk(4)": (chunks(4), 12, 10, 40),
    "chunk(4), three parts": (chunks(4), 5, 5, 6),
    "chunk(5), four parts": (Parts(lambda x: torch.chunk(x, 5, dim=-2)), 12, 11, 12),
    "split(4)": (of(4), 10, 9, 12),
    "split of a rest": (Parts(lambda x: x.split([4, x.shape[0] - 4])), 12, 4, 40),
    "split of a third": (Parts(lambda x: x.split((x.shape[0] + 2) // 3)), 12, 5, 40),
    "tensor_split(3)": (Parts(lambda x: x.tensor_split(3)), 12, 2, 40),
    "tensor_split at no order": (Parts(lambda x: x.tensor_split((99, -50, 3))), 12, 1, 64),
    "tensor_split at places": (Parts(lambda x: x.tensor_split((2, 5))), 12, 3, 40),
    "tensor_split at places that cross": (Parts(lambda x: x.tensor_split((2, -1))), 6, 1, 24),
    "tensor_split at descending places": (Parts(lambda x: x.tensor_split((9, 3, 7))), 6, 1, 24),
    "shifts of one axis": (Parts(lambda x: [x.roll((6, 1), (0, 0))]), 6, 1, 24),
}


BUILT |= {
    "chunk(2)": (chunks(2), 10, 2, 40),
    "chunk(2) of all but one": (Parts(lambda x: x[1:].chunk(2)), 10, 3, 40),
    "chunk(2) of halves": (Parts(lambda x: [y for z in x.chunk(2) for y in z.chunk(2)]), 10, 4, 40),
    "the first of chunk(2)": (Parts(lambda x: x.chunk(2)[:1]), 10, 1, 40),
    "chunk(2), the last first": (Parts(lambda x: [torch.cat(x.chunk(2)[::-1])]), 10, 1, 40),
}


@pytest.mark.parametrize("name", BUILT)
def test_as_many_parts_of_all_sizes(name: str) -> None:
    model, example, low, high = BUILT[name]
    check_all(model, built(model, example, low, high), low, high)


@pytest.mark.parametrize(
    ("model", "example", "low", "accepted"),
    [
        (Parts(lambda x: x[1:].chunk(2)), 10, 2, (3, 40)),
        (chunks(3), 12, 2, (5, 40)),
        (chunks(3), 12, 4, (5, 40)),
        (chunks(4), 12, 3, (10, 40)),
        (chunks(4), 12, 9, (10, 40)),
        (chunks(4), 7, 3, (7, 8)),
        (chunks(5), 20, 13, (17, 40)),
        (of(4), 10, 3, (9, 12)),
        (Parts(lambda x: x.split((x.shape[0] + 2) // 3)), 12, 4, (5, 40)),
    ],
)
def test_sizes_that_give_as_many_parts_are_told(
    model: Parts, example: int, low: int, accepted: tuple[int, int]
) -> None:
    with pytest.raises(TraceError, match=r"at test_parts.py:\d+: .*(chunk|split)\(") as raised:
        built(model, example, low, 40)
    told = re.search(r"Declare Dim\('n', min=(\d+), max=(\d+)\) for", str(raised.value))
    assert told is not None, raised.value
    assert (int(told[1]), int(told[2])) == accepted
    assert "torch suggests" not in str(raised.value)
    check_all(model, built(model, example, *accepted), *accepted)


def two(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = x.chunk(2)
    return a, b


def halves(x: torch.Tensor) -> Any:
    return x.chunk(2)


def of_a_helper(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a, *_, b = halves(x)
    return a, b


ONE_PART: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "taken apart": (two, "ValueError: not enough values to unpack"),
    "a helper's": (of_a_helper, "ValueError: not enough values to unpack"),
    "the second": (lambda x: [x.chunk(2)[1]], "IndexError: tuple index out of range"),
    "arguments": (lambda x: (lambda a, b: (a, b))(*x.chunk(2)), "TypeError: .* missing 1 required"),
    "the last": (lambda x: [x.chunk(2)[-1]], "another function"),
    "their number": (lambda x: [x * len(x.chunk(2))], "another function"),
}


@pytest.mark.parametrize("name", ONE_PART)
def test_two_parts_of_a_size_of_one_are_refused(name: str) -> None:
    cut, words = ONE_PART[name]
    model = Parts(cut)
    with pytest.raises(TraceError, match=rf"(?s){words}.*range from 2 on") as raised:
        built(model, 10, 1, 40)
    assert "where n_=1" in str(raised.value)
    check_all(model, built(model, 10, 2, 40), 2, 40)


class Multiples(nn.Module):
    """Parts of a multiple of a size beside that size, or a part alone that is written to."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = x.clone()
        z.chunk(self.count)[-1].mul_(3)
        return z, *(part * place + y for place, part in enumerate(x.chunk(self.count)))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_as_many_parts_of_a_multiple_as_it_declares(count: int) -> None:
    m = Dim("m", min=1, max=9)
    model, given = Multiples(count), (torch.randn(3 * count, 2), torch.randn(3, 2))
    shapes = ({0: count * m}, {0: m})
    package = aotpack.compile(model, given, dynamic_shapes=shapes, target="interpreter")
    for size in range(1, 10):
        inputs = torch.randn(size * count, 2), torch.randn(size, 2)
        ours, eager = package(*inputs), model(*inputs)
        assert len(ours) == count + 1
        assert all(torch.equal(a, b) for a, b in zip(ours, eager, strict=True)), size


def of_multiple(model: nn.Module, times: int, more: int) -> Any:
    shapes = ({0: times * Dim("m", min=2, max=9) + more},)
    given = (torch.randn(3 * times + more, 2),)
    return aotpack.compile(model, given, dynamic_shapes=shapes, target="interpreter")


@pytest.mark.parametrize(("times", "more"), [(4, 0), (12, 0), (4, 8), (8, 4), (4, -4)])
def test_as_many_parts_of_multiples_alone(times: int, more: int) -> None:
    model = chunks(4)
    package = of_multiple(model, times, more)
    for size in range(2, 10):
        x = torch.randn(times * size + more, 2)
        ours, eager = package(x), model(x)
        assert all(torch.equal(a, b) for a, b in zip(ours, eager, strict=True)), size


@pytest.mark.parametrize(("times", "more"), [(2, 0), (3, 0), (4, -2), (4, 1)])
def test_multiples_of_another_number_are_refused(times: int, more: int) -> None:
    with pytest.raises(TraceError, match=r"(?s)at test_parts.py:\d+: .*chunk\("):
        of_multiple(chunks(4), times, more)
