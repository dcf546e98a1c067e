"""Scatters on every target: what each kind yields for duplicates, NaN and places out of range."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.target import CPU, INTERPRETER

from .cases import BF16, F16, F64, I64, INF, NAN, B, Case, dyn, fn, t
from .models import Function
from .oracle import agree, compile_all

OFTEN = torch.tensor([3, 0, 3, 6, 3, 0, 2, 6, 1])
BACK = torch.tensor([3, -1, 3, 6, -4, 0, -7, 6, 1])
SPECIAL = torch.tensor([[1.0, NAN, -0.0, 0.0, -2.0], [NAN, 5.0, -INF, INF, 3.0]])
I32, I8, BOOL = torch.int32, torch.int8, torch.bool


def reductions(*kinds: str, include_self: bool = True) -> Callable[..., Any]:
    def reduced(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        at = i[:, None].expand(v.shape)
        return tuple(x.scatter_reduce(0, at, v, kind, include_self=include_self) for kind in kinds)

    return reduced


def written(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Assignments as a model writes them."""
    a, b, c = x * 2, x.clone(), x + 1
    a[i] = v
    a[:, 1:3] = 0
    a[0] = 1
    b[i, 2] = 5.0
    b[b > 1] = 1
    c[:, i[:3]] = v[:7, :3]
    return a, b, c, x.index_fill(1, i[:2], 3)


def in_place(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Zeros that sums go to, read afterwards; a base that is needed as it was."""
    y = torch.zeros_like(x)
    y.index_add_(0, i, v)
    y.index_add_(0, i, v.exp(), alpha=0.5)
    z = x.exp()
    return y, y.softmax(-1), z, z.index_add(0, i, v * z[0]) @ x.t()


def cached(k: torch.Tensor, at: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """A cache of keys takes new ones in, and is read."""
    return torch.softmax(k.index_copy(2, at, new).sum(-1), -1)


def halves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Lengths that kernels must divide for, before any loop."""
    even = x[::2]
    counts = torch.zeros_like(x[:2]).index_add(0, (even[:, 0] > 0).long(), even.exp())
    grown = even.index_add(0, torch.zeros(2, dtype=torch.int64), x[:2])
    return counts, grown, even.relu().cumsum(0), even.sum(0)


CASES = [
    fn("assignments", written, t(7, 5), OFTEN, t(9, 5)),
    fn("in_place", in_place, t(7, 5), OFTEN, t(9, 5)),
    fn("sums", reductions("sum", "mean"), t(7, 5), OFTEN, t(9, 5)),
    fn("sums_alone", reductions("sum", "mean", include_self=False), t(7, 5), OFTEN, t(9, 5)),
    fn("products", reductions("prod"), t(7, 5), OFTEN, t(9, 5)),
    fn(
        "float64",
        reductions("sum", "prod", "amax"),
        t(7, 5, dtype=F64),
        OFTEN,
        t(9, 5, dtype=F64),
    ),
    fn(
        "int64",
        reductions("sum", "prod", "amax", "amin", "mean"),
        t(7, 5, dtype=I64),
        OFTEN,
        t(9, 5, dtype=I64),
    ),
    fn("int32", reductions("sum", "amin"), t(7, 5, dtype=I32), OFTEN, t(9, 5, dtype=I32)),
    fn("int8", reductions("sum", "amax"), t(7, 5, dtype=I8), OFTEN, t(9, 5, dtype=I8)),
    fn("bfloat16", reductions("sum", "amax"), t(7, 5, dtype=BF16), OFTEN, t(9, 5, dtype=BF16)),
    fn("float16", reductions("mean", "prod"), t(7, 5, dtype=F16), OFTEN, t(9, 5, dtype=F16)),
    fn(
        "extrema_nan",
        reductions("amax", "amin"),
        SPECIAL,
        torch.tensor([1, 1, 0]),
        torch.tensor([[NAN, 0.0, 1.0, -1.0, 0.0], [1.0, 2.0, NAN, INF, -INF], [0.0] * 5]),
    ),
    fn(
        "negative_places",
        lambda x, i, v: (x.index_put((i,), v, accumulate=True), x.index_put((i, i % 5), v[:, 0])),
        t(7, 5),
        BACK,
        t(9, 5),
    ),
    fn(
        "flags",
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        t(7, 5, dtype=BOOL),
        OFTEN,
        t(9, 5, dtype=BOOL),
    ),
    fn("masked", lambda x, s: x.masked_scatter(x > 0, s).sum(1), t(7, 5), t(35)),
    fn("cache", cached, t(2, 3, 8, 4), torch.tensor([5, 6]), t(2, 3, 2, 4)),
    fn("many_threads", lambda x, i, v: x.index_add(0, i, v), t(20, 3000), OFTEN, t(9, 3000)),
    dyn(
        "dynamic_halves",
        lambda: Function(halves, 1),
        {"x": {0: Dim("s", min=4, max=64)}},
        *[(t(n, 5),) for n in (9, 4, 10)],
    ),
    dyn(
        "dynamic",
        lambda: Function(lambda x, i, v: x.index_add(0, i, v) + x.sum(0), 3),
        {"x": None, "y": {0: B}, "z": {0: B}},
        *[(t(7, 5), OFTEN.repeat(2)[:n], t(n, 5)) for n in (9, 1, 16)],
    ),
]


@pytest.mark.row("S:B2", "S:H17", "S:H18", "S:inv23", "C:F12")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_targets_agree(case: Case) -> None:
    torch.manual_seed(0)
    args = case.args()
    compiled = compile_all(case.make(), args, None, case.dynamic, (INTERPRETER, CPU))
    agree(compiled, args)
    for call in case.calls:
        agree(compiled, call())


class Beyond(nn.Module):
    """Writes, and reads, at places that eager refuses."""

    def forward(
        self, x: torch.Tensor, i: torch.Tensor, v: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        total = x.index_put((i,), v, accumulate=True)
        return x.index_put((i,), v), total, x.scatter_reduce(0, i, v, "prod"), x[i]


@pytest.mark.row("C:inv5", "C:F14")
def test_places_out_of_range_are_skipped() -> None:
    x, v = torch.arange(5.0), torch.tensor([10.0, 20.0, 30.0, 40.0])
    legal = torch.tensor([0, 1, 2, 3])
    compiled = compile_all(Beyond(), (x, legal, v), targets=(INTERPRETER, CPU))
    places = torch.tensor([5, 1, -6, 2**40])
    for model in compiled.models.values():
        replaced, total, product, read = model(x, places, v)
        assert read.tolist() == [4, 1, 0, 4]
        assert replaced.tolist() == [0, 20, 2, 3, 4]
        assert total.tolist() == [0, 21, 2, 3, 4]
        assert product.tolist() == [0, 20, 2, 3, 4]


def refusing(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What eager refuses a negative place."""
    wide = i[:, None].expand_as(v)
    return (
        x.index_copy(0, i, v),
        x.index_add(0, i, v),
        x.index_reduce(0, i, v, "amax"),
        x.scatter(0, wide, v),
        x.scatter_add(0, wide, v),
        x.scatter_reduce(0, wide, v, "amin"),
    )


def counting(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """What counts it from the end."""
    return x.index_put((i,), v), x.index_fill(0, i, 7.0), x.flatten().put(i, v[:, 0])


@pytest.mark.row("C:inv5")
def test_negative_places_count_from_the_end_only_where_they_do_in_eager() -> None:
    def both(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return *refusing(x, i, v), *counting(x, i, v)

    x, v = torch.arange(10.0).reshape(5, 2), torch.full((2, 2), 20.0)
    compiled = compile_all(Function(both, 3), (x, torch.tensor([0, 3]), v))
    places = torch.tensor([1, -2])
    with pytest.raises(IndexError, match="index -2 is out of bounds"):
        refusing(x, places, v)
    wanted = *refusing(x, places[:1], v[:1]), *counting(x, places, v)
    for model in compiled.models.values():
        for ours, eager in zip(model(x, places, v), wanted, strict=True):
            assert torch.equal(ours, eager)  # of the place that is refused, nothing is written


def test_of_several_values_processors_keep_the_last() -> None:
    x, v = torch.zeros(300, 70), torch.arange(700.0)[:, None].expand(700, 70).contiguous()
    i = torch.randint(0, 300, (700,), generator=torch.Generator().manual_seed(0))
    module = Function(lambda x, i, v: (x.index_put((i,), v), x.t().index_copy(1, i, v.t())), 3)
    compiled = compile_all(module, (x, i, v), targets=(CPU,))
    last = torch.zeros(300)
    for position, place in enumerate(i.tolist()):
        last[place] = position
    rows, columns = compiled.models[str(CPU)](x, i, v)
    assert torch.equal(rows, last[:, None].expand(300, 70))
    assert torch.equal(columns, last.expand(70, 300))
