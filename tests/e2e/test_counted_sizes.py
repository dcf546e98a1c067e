"""Sizes that data decide: every oracle gives eager's answer at no element, some and all."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError
from aotpack.runtime.errors import AssertionFailed

from .models import Function
from .oracle import agree, compile_all

torch.manual_seed(0)
X = torch.randn(4, 6)
ROWS = torch.tensor([True, False, True, True])


def number(n: torch.Tensor, most: int) -> Any:
    """A number as a size that torch accepts."""
    k = n.item()
    torch._check(k >= 0)
    torch._check(k <= most)
    return k


def selections(x: torch.Tensor, rows: torch.Tensor) -> Any:
    """Two reads that are ready together, and pointwise work behind them."""
    return x[x > 0] * 2 + 1, x[rows].relu(), torch.where(rows)[0], x + 1


def positions(x: torch.Tensor) -> Any:
    columns = x[:, x[0] > 0]
    chosen = torch.masked_select(x, x[0] > 0).sum()
    return x.nonzero(), chosen, columns.softmax(1), columns.logsumexp((0, 1)), columns.logsumexp(0)


def behind_each_other(x: torch.Tensor) -> Any:
    """A selection of a selection: one read waits for the other."""
    y = x[x > 0] * 2
    z = y[y < 1] + 1
    return z, y.sum(), z.softmax(0), x.relu()


def slices(x: torch.Tensor, n: torch.Tensor) -> Any:
    k = number(n, 4)
    return x[:k] * k, torch.arange(k) * 2, x[:k].sum(0), torch.zeros(k, 3)


def products(x: torch.Tensor, rows: torch.Tensor) -> Any:
    """A product over counted rows, put back where they came from."""
    chosen = x[rows] @ x.new_ones(6, 5)
    y = x.clone()
    y[rows] = x[rows] * 2 + x[0]
    return x.new_zeros(4, 5).index_put((rows.nonzero()[:, 0],), chosen), y


def repeats(n: torch.Tensor, x: torch.Tensor) -> Any:
    """Lengths that are counted, repeated and summed; two of them have no bound."""
    return (
        torch.repeat_interleave(x, n, dim=0) * 2,
        torch.bincount(n, minlength=2),
        torch.bincount(n, weights=x[:, 0]),
    )


def distinct(n: torch.Tensor) -> Any:
    return (
        *torch.unique(n, return_inverse=True, return_counts=True),
        *torch.unique_consecutive(n.reshape(-1), return_counts=True),
    )


def experts(x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Tokens sorted by expert, in pieces of counted lengths, and back."""
    order = chosen.argsort(stable=True)
    counts = torch.bincount(chosen, minlength=3)[:3].tolist()
    for count in counts:
        torch._check(count >= 0)
    pieces = x[order].split(counts)
    made = torch.cat([(piece * (k + 1)).relu() for k, piece in enumerate(pieces)])
    return torch.zeros_like(made).index_copy(0, order, made)


def ends(x: torch.Tensor, n: torch.Tensor) -> Any:
    """Slices as in Python: ends count from the end, and may lie outside."""
    return x[: n.item()] * 2, x[n.item() :].sum(0)


def bodies(x: torch.Tensor, n: torch.Tensor) -> Any:
    """Branches and loops behind reads, whose operands have fixed or counted sizes."""
    chosen, zero = x[x > 0], torch.zeros((), dtype=torch.int64)
    total = torch.cond(torch.bincount(n)[2] > 1, lambda s: s + 1, lambda s: s * 2, (x.sum(),))
    turns, rows = while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * 2), (zero, chosen))
    deep = torch.cond(
        total > 3,
        lambda t, y: torch.cond(y.sum() > 9, lambda t, y: t - y.sum(), lambda t, y: -t, (t, y)),
        lambda t, y: t * 3,
        (total, chosen),
    )
    return turns, rows, *scan(lambda c, a: (c + a, c * a), chosen.sum(), x[0, :2], dim=0), deep


def branches(x: torch.Tensor, p: torch.Tensor) -> Any:
    """Branches that return tensors of counted sizes, the same on both sides."""
    some, others = x[x > 0], x[x < 0]

    def swapped(y: torch.Tensor, z: torch.Tensor) -> Any:
        inner = torch.cond(y.sum() > 9, lambda y: y + 1, lambda y: y - 1, (y,))
        return inner, torch.cat([z, y])[:, None]

    first, both = torch.cond(p, swapped, lambda y, z: (y * 2, torch.cat([y, z])[:, None]),
                             (some, others))  # fmt: skip
    return first, first * some, both.relu().sum(0), torch.cat([both[:, 0], first])


NONE, ALL = torch.zeros(4, dtype=torch.bool), torch.ones(4, dtype=torch.bool)
CASES: list[tuple[Callable[..., Any], list[tuple[torch.Tensor, ...]]]] = [
    (selections, [(X, ROWS), (X.abs(), ALL), (-X.abs(), NONE), (X, NONE)]),
    (positions, [(X,), (X.abs() + 1,), (torch.zeros(4, 6),)]),
    (behind_each_other, [(X,), (X.abs(),), (X * 0,), (X,)]),
    (slices, [(X, torch.tensor(k)) for k in (2, 0, 1, 4)]),
    (repeats, [(torch.tensor(n), X) for n in ([1, 0, 3, 2], [0, 0, 0, 0], [9, 1, 0, 2])]),
    (distinct, [(torch.tensor(n),) for n in ([[2, 0], [0, 2]], [[1, 1], [1, 1]])]),
    (experts, [(X, torch.tensor(n)) for n in ([2, 0, 1, 0], [1, 1, 1, 1])]),
    (ends, [(X, torch.tensor(k)) for k in (1, -1, 0, 9, -9)]),
    (products, [(X, ROWS), (X, NONE), (X, ALL)]),
    (branches, [(x, torch.tensor(p)) for x in (X, -X.abs()) for p in (True, False)]),
    (bodies, [(X.abs(), torch.tensor([0, 2])), (-X.abs(), torch.tensor([2, 2]))]),
]


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(("function", "calls"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_targets_agree(function: Callable[..., Any], calls: list[tuple[torch.Tensor, ...]]) -> None:
    compiled = compile_all(Function(function, len(calls[0])), calls[0])
    for call in calls:
        agree(compiled, call)


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(
    "function", [torch.repeat_interleave, torch.bincount], ids=lambda f: f.__name__
)
def test_negative_numbers_are_refused(function: Callable[..., Any]) -> None:
    model = aotpack.compile(Function(function, 1), (torch.tensor([1, 2]),), target="cpu")
    with pytest.raises(AssertionFailed, match="the data make the size u0 -1; accepted: 0 to"):
        model(torch.tensor([3, -1]))
    found = torch.tensor([3, 0])
    assert torch.equal(model(found), function(found))


@pytest.mark.row("S:A13")
def test_dynamic_inputs_beside_counted_sizes() -> None:
    def chosen(x: torch.Tensor) -> Any:
        y = x[x[:, 0] > 0]
        return y * 2, y.sum(0)

    shapes = ({0: Dim("rows", min=1, max=64)},)
    compiled = compile_all(Function(chosen, 1), (torch.randn(6, 3),), dynamic_shapes=shapes)
    for rows in (1, 6, 64):
        agree(compiled, (torch.randn(rows, 3),))


@pytest.mark.row("S:A13")
def test_what_a_package_says_of_them() -> None:
    def chosen(x: torch.Tensor) -> Any:
        y = x[x > 0]
        return y, torch.unique(y)

    model = aotpack.compile(Function(chosen, 1), (X,), target="cpu")
    ranges = "(float32[u0], float32[u1])\n  u0 in 0 to 24, as the data say\n  u1 in 0 to 24"
    assert ranges in str(model.signature)
    output, _ = model.outputs
    assert output.shape == ("u0",) and "u0 in 0 to 24" in repr(output)
    assert 24 * 4 <= model.memory < 1 << 14
    found, _ = model(X.numpy())
    np.testing.assert_array_equal(found, X.numpy()[X.numpy() > 0])
    shifted = [X + shift / 8 for shift in range(-16, 16)]
    with ThreadPoolExecutor(4) as pool:  # each call has memory of its own
        for x, (some, _) in zip(shifted, pool.map(model, shifted), strict=True):
            assert torch.equal(some, x[x > 0])


class Pieces(nn.Module):
    """The sums of pieces of counted lengths, which fill the rows."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> list[torch.Tensor]:
        sizes = n.tolist()
        for size in sizes:
            torch._check(size >= 0)
        return [piece.sum(0) for piece in x.split(sizes)]


@pytest.mark.row("S:A13")
def test_sizes_outside_of_their_ranges_and_conditions() -> None:
    model = aotpack.compile(Pieces(), (X, torch.tensor([1, 1, 2])), target="cpu")
    for sizes, message in (
        (
            [5, 0, -1],
            r"size u0 5; accepted: 0 to 4\n  .*dense.default at .*py:\d+: sizes = n.tolist",
        ),
        ([0, 0, -1], "size u2 -1; accepted: 0 to 4"),
        ([1, 1, 1], r"u0 = 1, u1 = 1, u2 = 1; accepted: sizes with u0 \+ u1 \+ u2 == 4"),
    ):
        with pytest.raises(AssertionFailed, match=message):
            model(X, torch.tensor(sizes))
        torch.testing.assert_close(model(X, torch.tensor([0, 4, 0]))[1], X.sum(0))


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[x[:, 0] > 0, x[0] > 0], "two masks, or one without dimensions"),
    ],
)
def test_refuses(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(AotpackError, match=message):
        aotpack.compile(Function(function, 1), (X,), target="cpu")


class Recurrent(nn.Module):
    """A recurrent layer whose input waits for a size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.GRU(6, 5)

    def forward(self, x: torch.Tensor) -> Any:
        return self.layer(x * x[x > 0].sum())[0]


@pytest.mark.row("S:A13")
def test_recurrent_layers_behind_reads() -> None:
    compiled = compile_all(Recurrent(), (X,))
    for x in (X, -X.abs()):
        agree(compiled, (x,))


class Inside(nn.Module):
    """A body that yields a size."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x[x > 0].sum(), lambda x: x.sum(), (x,))


EITHER = {
    "products": lambda a: a @ a.t(),
    "columns": lambda a: a.t() * 2,
    "pairs": lambda a: a[:, None] * a[None],
    "attention": lambda a: nn.functional.scaled_dot_product_attention(*3 * (a[None] * 1,)),
    "added": lambda a: a.new_zeros(4, 3).index_add(0, a[:, 0].long() * 0, a),
}


@pytest.mark.row("S:A13", "S:I3")
@pytest.mark.parametrize("branch", EITHER.values(), ids=EITHER)
def test_branches_return_what_is_made_of_a_selection(branch: Callable[..., Any]) -> None:
    """Also of a selection without elements."""

    class Either(nn.Module):
        def forward(self, x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
            rows = x[x[:, 0] > 0]
            result = torch.cond(p, lambda a: branch(a) + 1, branch, (rows,))
            return result.sum() + rows.sum() + result * 2

    package = aotpack.compile(Either(), (torch.randn(7, 3), torch.tensor(True)), target="cpu")
    for x in (torch.randn(7, 3), torch.ones(7, 3), -torch.ones(7, 3)):
        for p in (0, 1):
            rows = x[x[:, 0] > 0]
            result = branch(rows) + p
            expected = result.sum() + rows.sum() + result * 2
            torch.testing.assert_close(package(x, torch.tensor(bool(p))), expected)


def test_an_operator_that_asks_for_elements_is_refused() -> None:
    class Rolled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda a: a.roll(1, 0), torch.neg, (x[x[:, 0] > 0],))

    words = r"the condition 3\*u0 is 0.*\n  an operator of the line asks whether .* no elements\n"
    with pytest.raises(AotpackError, match=rf"{words}  at test_counted_sizes.py:\d+: .*roll"):
        aotpack.compile(Rolled(), (torch.randn(7, 3),), target="cpu")


class Unequal(nn.Module):
    """Branches that return different counted sizes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y, z: y + 1, lambda y, z: z + 1, (x[x > 0], x[x < 0]))


@pytest.mark.row("S:A13")
def test_bodies_yield_no_sizes() -> None:
    words = "both branches can return a tensor of the same one; make .* before, not inside"
    with pytest.raises(AotpackError, match=rf"index.Tensor: .*{words}  \(.*py:\d+: .*torch.cond"):
        aotpack.compile(Inside(), (X,), target="cpu")


@pytest.mark.row("S:A13")
def test_branches_return_equal_sizes() -> None:
    words = r"shapes \(u0\) and \(u1\), where data decide u0 and u1; accepted are .* equal shapes"
    with pytest.raises(AotpackError, match=rf"{words}.*\n  at test_counted_sizes.py:\d+: .*cond"):
        aotpack.compile(Unequal(), (X,), target="cpu")


class Gram(nn.Module):
    """Products whose sums are over the chosen rows: one block of columns, several, a batch."""

    def forward(self, x: torch.Tensor, wide: torch.Tensor, mask: torch.Tensor) -> Any:
        some, rows = x[mask].relu(), wide[mask]
        batch = torch.stack([some, some * 2])
        return (some.T @ some).relu() + 1, rows.T @ rows, batch.mT @ batch


@pytest.mark.row("S:A13")
def test_sums_of_products_over_no_rows_are_zero() -> None:
    x, wide = torch.randn(4, 5), torch.randn(4, 300)
    full = torch.tensor([True, True, False, True])
    model = aotpack.compile(Gram(), (x, wide, full), target="cpu")
    for mask in (full, ~full, full & ~full, full):
        for ours, eager in zip(model(x, wide, mask), Gram()(x, wide, mask), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-4)


def four(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """A number that has to be 4."""
    k = n.item()
    torch._check(k == 4)
    return x[:k] * k


FLAT, FOUR = torch.randn(6), torch.tensor([1, 0, 1, 1, 0, 1])
PINNED: list[tuple[Callable[..., Any], torch.Tensor, torch.Tensor, str]] = [
    (lambda x, n: (x[n > 0] + x[:4], x[n > 0] * 2), FOUR, FOUR * 0, "size u0 0; accepted: 4"),
    (lambda x, n: x[n > 0].view(2, 2), FOUR, FOUR * 0 + 1, "size u0 6; accepted: 4"),
    (lambda x, n: x[n > 0].split([1, 3]), FOUR, FOUR * 0, "size u0 0; accepted: 4"),
    (lambda x, n: x.masked_select(n > 0) @ x[:4], FOUR, FOUR * 0, "size u0 0; accepted: 4"),
    (lambda x, n: n.nonzero() * x[:4, None], FOUR, FOUR * 0, "size u0 0; accepted: 4"),
    (lambda x, n: x[None, :, None][:, n > 0] + x[:4, None], FOUR, FOUR * 0, "u0 0; accepted: 4"),
    (lambda x, n: n.unique() + x[:2], FOUR, FOUR * 0, "size u0 1; accepted: 2"),
    (lambda x, n: n.unique_consecutive() + x[:5], FOUR, FOUR * 0, "size u0 1; accepted: 5"),
    (lambda x, n: x.repeat_interleave(n) + x[:4], FOUR, FOUR * 3, "size u0 12; accepted: 4"),
    (lambda x, n: n.bincount() + x[:2], FOUR, FOUR * 2, "size u0 3; accepted: 2"),
    (
        four,
        torch.tensor(4),
        torch.tensor(3),
        "size u0 3; accepted: 4",
    ),
]


@pytest.mark.row("S:A13")
@pytest.mark.parametrize(("function", "good", "bad", "message"), PINNED)
def test_counts_that_meet_a_size_have_to_be_it(
    function: Callable[..., Any], good: torch.Tensor, bad: torch.Tensor, message: str
) -> None:
    model = aotpack.compile(Function(function, 2), (FLAT, good), target="cpu")
    torch.testing.assert_close(model(FLAT, good), function(FLAT, good))
    with pytest.raises(AssertionFailed, match=message):
        model(FLAT, bad)


@pytest.mark.row("S:A13")
def test_counts_that_meet_a_dynamic_size() -> None:
    def added(x: torch.Tensor, n: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x[n > 0] + y

    shapes = ({}, {}, {0: Dim("length", min=2, max=6)})
    compiled = compile_all(Function(added, 3), (FLAT, FOUR, FLAT[:4]), dynamic_shapes=shapes)
    agree(compiled, (FLAT, FOUR, FLAT[:4]))
    agree(compiled, (FLAT, FOUR * 0 + 1, FLAT))
    for model in compiled.models.values():
        with pytest.raises(AssertionFailed, match="length = 5, u0 = 4; accepted: .* u0 == length"):
            model(FLAT, FOUR, FLAT[:5])


class Own(nn.Module):
    """A body whose own count meets a size."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda x, n: x[n > 0] + x[:4], lambda x, n: x[:4] - 1, (x, n)
        )


@pytest.mark.row("S:A13")
def test_bodies_do_not_count_for_a_size() -> None:
    with pytest.raises(AotpackError, match="a branch or loop counts elements of its own"):
        aotpack.compile(Own(), (FLAT, FOUR), target="cpu")
