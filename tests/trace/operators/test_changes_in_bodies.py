"""Bodies of branches and loops change in place what they make themselves, as in eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError
from tests.e2e.models import Function

X = torch.randn(4, 3)


def branched(body: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        made: Tensor = torch.cond(x.sum() > 0, body, lambda y: y * 2, (x,))
        return made + x

    return forward


def turned(body: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        start = torch.tensor(0), x.clone()
        made: Tensor = while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, body(y)), start)[1]
        return made

    return forward


def scanned(body: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def step(state: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        made = body(row + state)
        state = state.clone()
        state[0, 0].mul_(2).add_(made.sum())
        return state, made

    def forward(x: Tensor) -> Tensor:
        made: Tensor = scan(step, x * 0, torch.stack([x, x - 1]))[1]
        return made

    return forward


def mapped(body: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def forward(x: Tensor) -> Tensor:
        made: Tensor = map_over(body, torch.stack([x, x - 1]))
        return made

    return forward


def numbers(y: Tensor) -> Tensor:
    z = y.clone()
    z[0], z[-1, ::2] = 5, 2.5
    z[z > 2] = -1
    return z


def operators(y: Tensor) -> Tensor:
    z = torch.zeros_like(y)
    z += y
    z[1:].mul_(3).sub_(1)
    z.t()[0].copy_(z[:, 1])
    z.relu_()
    return z


def seen_through_views(y: Tensor) -> Tensor:
    z = y.clone()
    view = z[0]
    z.mul_(2)
    view.add_(1)
    before = z[:, 0] * 1
    z[:, 0] = 9
    return z + before.sum() + view


def at_tensors(y: Tensor) -> Tensor:
    z, rows = y.clone(), torch.arange(0, 3, 2)
    z[rows] = z[rows] * 2
    z.index_add_(0, rows, z[:2].clone())
    z.masked_fill_(z < 0, 0)
    z.fill_diagonal_(8)
    return z


def other_types(y: Tensor) -> Tensor:
    z, positive = (y * 3).long(), y > 0
    z[0], positive[1] = 5.7, True  # type: ignore[call-overload]
    z += 1
    return (z * positive).to(y.dtype)


def by_size(y: Tensor) -> Tensor:
    z = torch.empty_like(y).zero_()
    n = y.shape[0]
    z[n - 1] = y[n - 2]
    z[: n // 2] = 1
    return z


def of_its_own_parts(y: Tensor) -> Tensor:
    z = y.clone()
    z[1:] += z[:-1].clone()
    z.unsqueeze(0).transpose(0, 1)[2].zero_()
    return z


def of_products(y: Tensor) -> Tensor:
    z = F.linear(y, torch.ones(3, 3)).relu_()
    seen = z.softmax(-1) + z.expand(2, *z.shape).sum(0)
    z.view(-1).mul_(2)
    z.squeeze().movedim(0, 1)[1:].sub_(seen.mT[1:])
    return z


def by_data(y: Tensor) -> Tensor:
    z = y.clone()
    view, before = z.data, z.data * 1
    z.data[1] = y.data[0]
    view.mul_(2)
    return z + view + before


BODIES = (
    *(numbers, operators, seen_through_views, at_tensors),
    *(other_types, by_size, of_its_own_parts, of_products, by_data),
)


CASES = [(body, kind, False) for body in BODIES for kind in (branched, scanned)]
CASES += [(body, turned, True) for body in BODIES[3:]]
CASES += [(body, mapped, True) for body in BODIES[:3]]


@pytest.mark.row("S:I3", "S:I4")
@pytest.mark.parametrize(
    ("body", "kind", "is_dynamic"), CASES, ids=lambda one: getattr(one, "__name__", str(one))
)
def test_a_change_of_what_a_body_makes(body: Any, kind: Any, *, is_dynamic: bool) -> None:
    model = Function(kind(body), 1)
    shapes = ({0: Dim("n", min=3, max=16)},) if is_dynamic else None
    package = aotpack.compile(model, (X,), dynamic_shapes=shapes, target="interpreter")
    for size in (3, 4, 11) if is_dynamic else (4,):
        for given in (torch.rand(size, 3), -torch.rand(size, 3)):
            torch.testing.assert_close(package(given), model(given))


def of_an_operand(y: Tensor) -> Tensor:
    y.add_(1)
    return y * 1


def of_what_may_be_an_operand(y: Tensor) -> Tensor:
    z = F.dropout(y, training=False)
    z.add_(1)
    return z * 1


def of_the_same_type(y: Tensor) -> Tensor:
    z = y.to(torch.float32)
    z.add_(1)
    return z * 1


def through_what_may_be_a_copy(y: Tensor) -> Tensor:
    z = y.clone()
    z.t().reshape(-1).add_(1)
    return z


def of_its_form(y: Tensor) -> Tensor:
    z = y.clone()
    z.t_()
    return z.t() * 1


def drawn(y: Tensor) -> Tensor:
    z = y.clone()
    z.uniform_()
    return z


def of_a_result(y: Tensor) -> Tensor:
    z = torch.empty_like(y)
    torch.add(y, 1, out=z)
    return z


def read_as_itself(y: Tensor) -> Tensor:
    z = y.clone()
    same = F.dropout(z, training=False)
    z.add_(1)
    return z + same


def read_as_a_copy(y: Tensor) -> Tensor:
    z = y.clone()
    first = z.chunk(2)[0]
    z.add_(1)
    return z + first.sum()


def of_an_operands_data(y: Tensor) -> Tensor:
    y.data.add_(1)
    return y * 1


REFUSED = (
    of_an_operands_data,
    *(read_as_itself, read_as_a_copy),
    *(of_an_operand, of_what_may_be_an_operand, of_the_same_type, through_what_may_be_a_copy),
    *(of_its_form, drawn, of_a_result),
)


@pytest.mark.row("S:I4")
@pytest.mark.parametrize(
    ("body", "kind"),
    [*((body, branched) for body in REFUSED), (of_an_operand, mapped), (read_as_itself, mapped)],
    ids=lambda one: one.__name__,
)
def test_another_change_is_refused(body: Any, kind: Any) -> None:
    ours = r"aten\.\w+\.\w+ changes a tensor in place inside of a branch or a loop"
    words = rf"(?s)({ours}|Encountered input mutation).*\n  at test_changes_in_bodies.py:\d+: "
    with pytest.raises(AotpackError, match=words):
        aotpack.compile(Function(kind(body), 1), (X,), target="interpreter")


def test_other_memory_is_refused() -> None:
    def body(y: Tensor) -> Tensor:
        z = y.clone()
        z.data = y * 3
        return z

    words = r"(?s)y\.copy_\(v\) or y = v for y\.data = v.*\n  at test_changes_in_bodies.py:\d+: "
    with pytest.raises(AotpackError, match=words):
        aotpack.compile(Function(turned(body), 1), (X,), target="interpreter")


@pytest.mark.parametrize("is_row", [True, False])
def test_a_write_at_a_counter_is_refused_in_few_lines(*, is_row: bool) -> None:
    def forward(x: Tensor) -> Any:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            z = y.clone()
            z[i if is_row else (slice(None), i)] = 7
            return i + 1, z

        return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))

    words = r"(?s)at test_changes_in_bodies.py:\d+: z\[i .*y\.index_copy\(0, i\[None\], v\[None\]\)"
    with pytest.raises(AotpackError, match=words) as raised:
        aotpack.compile(Function(forward, 1), (X,), target="interpreter")
    assert len(str(raised.value).splitlines()) < 5


def test_the_advice_for_a_counter_is_packaged() -> None:
    def forward(x: Tensor) -> Any:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            v = y.index_select(0, i[None])[0] * 2
            return i + 1, y.index_copy(0, i[None], v[None])

        return while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))

    package = aotpack.compile(Function(forward, 1), (X,), target="interpreter")
    assert torch.equal(package(X)[1], forward(X)[1])
