"""Branches and loops: what torch's own operators give, on every target (S:I3, I4)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError
from aotpack.ir.operations import Scatter
from aotpack.ir.program import Loop
from aotpack.lower import lower
from aotpack.pipeline import Build, Source
from aotpack.stages import Lowered

from .oracle import agree, compile_all

YES, NO = torch.tensor(True), torch.tensor(False)
ROWS = {0: Dim("s", max=99)}


def number(value: int) -> torch.Tensor:
    return torch.tensor(value)


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


class Own(nn.Module):
    """``step(self, ...)`` with a linear layer, a table of weights and a buffer to close over."""

    def __init__(self, step: Callable[..., Any]) -> None:
        super().__init__()
        self.step = step
        self.linear = nn.Linear(4, 4)
        self.table = nn.Parameter(torch.randn(3, 4))
        self.register_buffer("state", torch.zeros(3, 4))

    def forward(self, *args: torch.Tensor) -> Any:
        return self.step(self, *args)


@dataclass(frozen=True, slots=True)
class Case:
    """A forward of ``Own`` with arguments: the first are those it is built with."""

    name: str
    step: Callable[..., Any]
    calls: tuple[Callable[[], tuple[torch.Tensor, ...]], ...]
    dynamic: Any = None


def closures(self, x, p):
    return torch.cond(p, lambda x: self.linear(x) + self.table, lambda x: x * self.state, (x,))


def several_results(self, x, p):
    """A result twice, an input as it is, a number that both sides give, integers and bools."""

    def first(x):
        return x + 1, x.clone(), torch.ones(2, dtype=torch.int32), x.sum() > 0

    def second(x):
        return x * 2, x * 2, torch.zeros(2, dtype=torch.int32), x.sum() < 0

    given = torch.cond(p.any(), first, second, (x,))
    return given[0], given[1], given[0], given[2], given[3], x


def by_sizes(self, x):
    side = torch.cond(x.shape[0] > 4, lambda x: x.cumsum(0), lambda x: x * 2, (x,))
    return torch.cond(x.shape[0] % 3 == 1, lambda y: y + 1, lambda y: y - 1, (side,))


def by_data(self, x):
    """Work before, between and after; a predicate with one dimension."""
    y = torch.relu(x) @ self.linear.weight
    z = torch.cond(y.sum() > 0, lambda y: y.cumsum(-1), lambda y: y.sort(-1).values, (y,))
    w = torch.cond(z[0, :1] > 0.3, lambda z, y: z + y, lambda z, y: z - y, (z, y))
    return w * 2, z


def one_side_forever(self, x):
    return torch.cond(x.shape[1] == 4, lambda x: x + 1, lambda x: x - 1, (x,))


def unlike_products(self, x, p):
    """Products that merge outside, of weights that a side takes as well."""
    one, two = self.linear(x), nn.functional.linear(x, self.linear.weight.t().contiguous())
    return torch.cond(p, lambda x: self.linear(x) + one, lambda x: two * x, (x,))


def keeps(self, x, p):
    """A branch gives the new state."""
    new = torch.cond(p, lambda s, x: s + x, lambda s, x: s * 0.5 - x, (self.state, x))
    self.state.copy_(new)
    return new * 2


def counting(self, x, n):
    def body(i, a, b):
        return i + 1, torch.tanh(self.linear(a)) + b, b.clone()

    return while_loop(lambda i, a, b: i < n, body, (torch.zeros((), dtype=torch.int64), x, x * 2))


def swapping(self, x, n):
    """The state's parts change places, so no new value may overwrite an old one too early."""

    def body(i, a, b, c):
        return i - 1, b.clone(), a + c, c.clone()

    return while_loop(lambda i, a, b, c: i > 0, body, (n, x, x + 1, x * 0.5))


def numbers(self, x):
    """Integers in the state: compared, computed with, used as an operand and as a position."""

    def body(i, k, a):
        j = (i * 3 + k) % 3
        return i + 1, torch.sym_max(k, 5 - i), a * 0.5 + a[j] + self.table[-1 - j] * i

    turns = while_loop(lambda i, k, a: i < 7, body, (0, 1, x))
    return turns[2] + turns[1]


def sized(self, x):
    """A size of the model ends the loop."""
    rows = x.shape[0]

    def body(i, a):
        return i + 1, a + x[i % 3] / rows

    return while_loop(lambda i, a: i < rows, body, (0, x * 1))[1]


def until_it_settles(self, x):
    """Data ends the loop."""
    given = while_loop(
        lambda a, far: far > 1e-3,
        lambda a, far: (a.cos(), (a.cos() - a).abs().max()),
        (x, x.new_ones(())),
    )
    return given[0].round(decimals=1)


def writing(self, x, n):
    """A cache that the loop writes a row of."""

    def body(i, cache):
        return i + 1, cache.index_copy(0, i.reshape(1), (x[:1] * i))

    first = torch.zeros((), dtype=torch.int64)
    cache = while_loop(lambda i, c: i < n, body, (first, self.state * 1))[1]
    self.state.copy_(cache)
    return cache.sum(0)


def nested(self, x, p, n):
    def body(i, a):
        inner = lambda a: torch.cond(p, lambda a: a * 2, lambda a: a + x, (a,))  # noqa: E731
        a = torch.cond(i % 2 == 0, inner, lambda a: a.sin(), (a,))
        rows = map_over(lambda row: row * i + self.table[0], a)
        return i + 1, rows

    return while_loop(lambda i, a: i < n, body, (torch.zeros((), dtype=torch.int64), x.clone()))


def loop_in_loop(self, x, n):
    """The inner loop runs as often as the outer one has."""

    def outer(i, a):
        inner = while_loop(lambda j, b: j < i, lambda j, b: (j + 1, b * 0.9 + 1), (n * 0, a * 1))
        return i + 1, inner[1]

    return while_loop(lambda i, a: i < n, outer, (n * 0, x))


def mapped(self, x, y):
    return map_over(lambda row, y: ((row @ y).relu() * y.sum(), row.max(-1).values), x, y)


def mapped_pair(self, x, y):
    """Two tensors in slices, one of them of a type of its own."""
    return map_over(lambda rows: rows[0] * rows[1] + self.table[0], (x, y))


def recurrent(self, h, x):
    def body(h, x):
        new = torch.tanh(self.linear(h) + x)
        return new, new * 2

    return scan(body, h, x, dim=0)


def backwards(self, h, x):
    """From the end, along another dimension, two states and two stacks."""

    def body(state, x):
        a, b = state
        return (a + x, b * x), (a.sum(-1), b - x)

    return scan(body, (h, h * 2), x, dim=1, reverse=True)


def scan_of_scans(self, x):
    """The inner loop takes slices of what the outer one does."""

    def outer(total, rows):
        inner = lambda a, row: (a + row, (a * row).clone())  # noqa: E731
        last, steps = scan(inner, total, rows, dim=0)
        return last, steps.sum(0)

    return scan(outer, self.table[0] * 1, x, dim=0)


def associative(self, x):
    return associative_scan(lambda a, b: a * 0.5 + b, x, 0, combine_mode="generic")


def fills_a_constant(self, x, p):
    return torch.cond(p, lambda x: x + torch.full((), 2.0), lambda x: x * 3, (x,))


CASES = (
    Case("closures", closures, (lambda: (x(3, 4), YES), lambda: (x(3, 4), NO))),
    Case("several", several_results, (lambda: (x(3, 4), NO), lambda: (x(3, 4), YES))),
    Case(
        "sizes", by_sizes, tuple(lambda n=n: (x(n, 4),) for n in (3, 7, 1, 4, 5)), ({0: Dim("s")},)
    ),
    Case("data", by_data, tuple(lambda: (x(3, 4),) for _ in range(4))),
    Case("one side", one_side_forever, (lambda: (x(3, 4),),)),
    Case("products", unlike_products, (lambda: (x(3, 4), YES), lambda: (x(3, 4), NO))),
    Case("counting", counting, tuple(lambda n=n: (x(3, 4), number(n)) for n in (3, 0, 1, 7))),
    Case("swapping", swapping, tuple(lambda n=n: (x(3, 4), number(n)) for n in (3, 0, 1, 4))),
    Case("numbers", numbers, (lambda: (x(3, 4),),)),
    Case("sized", sized, tuple(lambda n=n: (x(n, 4),) for n in (3, 11)), ({0: Dim("s", min=3)},)),
    Case("settles", until_it_settles, (lambda: (x(3, 4),), lambda: (x(3, 4),))),
    Case(
        "nested",
        nested,
        tuple(lambda n=n, p=p: (x(3, 4), p, number(n)) for n, p in ((3, YES), (4, NO), (0, NO))),
    ),
    Case("loops", loop_in_loop, tuple(lambda n=n: (x(3, 4), number(n)) for n in (4, 0, 1))),
    Case("map", mapped, tuple(lambda n=n: (x(n, 5, 4), x(4, 2)) for n in (3, 1, 13)), (ROWS, None)),
    Case("pair", mapped_pair, (lambda: (x(5, 4), torch.arange(5)),)),
    Case(
        "scan",
        recurrent,
        tuple(lambda n=n: (x(2, 4), x(n, 2, 4)) for n in (5, 1, 17)),
        (None, ROWS),
    ),
    Case("backwards", backwards, (lambda: (x(2, 4), x(2, 5, 4)),)),
    Case("scans", scan_of_scans, (lambda: (x(3, 2, 4),),)),
    Case("filled", fills_a_constant, (lambda: (x(3, 4), YES), lambda: (x(3, 4), NO))),
    Case("associative", associative, (lambda: (x(7, 4),),)),
)


def dynamic_of(case: Case) -> Any:
    return None if case.dynamic is None else {"args": case.dynamic}


@pytest.mark.row("S:I3", "S:I4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_oracles_agree(case: Case) -> None:
    torch.manual_seed(0)
    module = Own(case.step)
    compiled = compile_all(module, case.calls[0](), dynamic_shapes=dynamic_of(case))
    for call in case.calls:
        agree(compiled, call())


@dataclass(frozen=True, slots=True)
class Kept:
    """A forward of ``Own`` that changes its state, and the calls it gets one after the other."""

    name: str
    step: Callable[..., Any]
    calls: tuple[Callable[[], tuple[torch.Tensor, ...]], ...]


KEPT = (
    Kept("keeps", keeps, tuple(lambda p=p: (x(3, 4), p) for p in (YES, NO, YES))),
    Kept("writing", writing, tuple(lambda n=n: (x(3, 4), number(n)) for n in (3, 0, 2))),
)


@pytest.mark.row("S:I3", "S:I4", "S:D8")
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.name)
def test_state_goes_through_control_flow(case: Kept, target: str) -> None:
    torch.manual_seed(0)
    module = Own(case.step).eval()
    first, *_ = case.calls
    model = aotpack.compile(module, first(), target=target)
    with torch.no_grad():
        for call in case.calls:
            args = call()
            torch.testing.assert_close(model(*args), module(*args))
            torch.testing.assert_close(torch.from_dlpack(model.state["state"]), module.state)


@pytest.mark.row("S:I4")
def test_a_loop_writes_rows_of_its_state_in_place() -> None:
    lowered = to_lowered(writing, (x(3, 4), number(2)))
    (loop,) = (o for o in lowered.program.operations if isinstance(o, Loop))
    assert any(isinstance(operation, Scatter) for operation in loop.body.operations)


def changes_an_input(self, x, p):
    def side(x):
        x.add_(1)
        return x * 2

    return torch.cond(p, side, lambda x: x * 3, (x,))


def changes_a_buffer(self, x, p):
    def side(x):
        self.state.mul_(2)
        return x + self.state

    return torch.cond(p, side, lambda x: x * 3, (x,))


def makes_a_constant(self, x, p):
    return torch.cond(p, lambda x: x + torch.tensor(2.0), lambda x: x * 3, (x,))


def takes_a_list(self, x, p):
    return torch.cond(p, lambda x: x[[1, 0, 2]], lambda x: x * 3, (x,))


def sizes_from_data(self, x, p):
    return torch.cond(p, lambda x: x.nonzero().sum(), lambda x: x.long().sum(), (x,))


def slices_by_a_number(self, x, p):
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a + self.table.roll(i, 0)), (0, x))[
        1
    ]


def halves_a_number(self, x, p):
    return while_loop(lambda i, a: i < 2, lambda i, a: (i + 1, a * math.floor(i / 2)), (0, x))[1]


def draws(self, x, p):
    return torch.cond(p, lambda x: x + torch.rand(3, 4), lambda x: x * 1, (x,))


@pytest.mark.row("S:I3", "S:I4")
@pytest.mark.parametrize(
    ("step", "message"),
    [
        (changes_an_input, r"aten.add_.Tensor changes a tensor in place inside of a branch"),
        (changes_a_buffer, r"aten.mul_.Tensor changes a tensor in place inside of a branch"),
        (makes_a_constant, r"make the tensor outside, or write torch.full"),
        (
            takes_a_list,
            r"numbers become a tensor inside of .* or a list as index.*\n  at \w+.py:\d+:",
        ),
        (sizes_from_data, r"aten.nonzero.default: a size \(u\d+\) depends on the data"),
        (slices_by_a_number, "is data, a number that a loop carries"),
        (halves_a_number, "of numbers that are data, these are computed: add, sub"),
        (draws, r"aten.rand.default|random"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refuses(step: Callable[..., Any], message: str) -> None:
    with pytest.raises(AotpackError, match=message):
        to_lowered(step, (x(3, 4), YES))


def to_lowered(step: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> Lowered:
    traced = Build(Source(Own(step).eval(), args)).traced
    return lower(traced)


@pytest.mark.row("S:I3", "S:I4")
def test_torch_runs_operators_inside_of_bodies() -> None:
    hermite = torch.special.hermite_polynomial_h

    def polynomials(self, x, p):
        def body(i, a):
            return i + 1, hermite(a.tanh(), a.cos() + 4)

        turned = while_loop(lambda i, a: i < 2, body, (torch.zeros((), dtype=torch.int64), x))[1]
        return torch.cond(p, lambda a: hermite(a.tanh(), a.sin() + 3) * a, lambda a: -a, (turned,))

    torch.manual_seed(0)
    module = Own(polynomials).eval()
    with pytest.warns(UserWarning, match="the package calls torch for"):
        model = aotpack.compile(module, (x(3, 4), YES), target="cpu", fallback="torch")
    for predicate in (YES, NO):
        args = (x(3, 4), predicate)
        torch.testing.assert_close(model(*args), module(*args))
