"""Operators of the user: refused by name, or lowered as registered and checked against eager."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan

import aotpack
from aotpack.errors import TraceError, UnsupportedError, UsageError

from .oracle import agree, compile_all

X, Y = torch.randn(4, 5), torch.randn(4, 5)
ROWS = torch.export.Dim("rows", min=1, max=64)


@torch.library.custom_op("aot_tests::blend", mutates_args=())
def blend(x: Tensor, y: Tensor, share: float = 0.25) -> Tensor:
    return x * share + y * (1 - share)


@blend.register_fake
def _(x: Tensor, y: Tensor, share: float = 0.25) -> Tensor:
    return torch.empty_like(x)


@aotpack.register_lowering(blend)
def _blend(x: Tensor, y: Tensor, share: float) -> Tensor:
    return torch.lerp(y, x, share)


@torch.library.custom_op("aot_tests::norms", mutates_args=())
def norms(x: Tensor, *, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    norm = x.square().mean(-1).add(eps).rsqrt()
    return x * norm[:, None], norm


@norms.register_fake
def _(x: Tensor, *, eps: float = 1e-6) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), x.new_empty(x.shape[0])


@aotpack.register_lowering("aot_tests::norms")
def _norms(x: Tensor, *, eps: float) -> tuple[Tensor, Tensor]:
    norm = torch.rsqrt((x * x).sum(-1) / x.shape[1] + eps)
    return torch.ops.aot_tests.blend(x, x) * norm.unsqueeze(1), norm


@torch.library.custom_op("aot_tests::put", mutates_args=("cache",))
def put(cache: Tensor, value: Tensor, place: int) -> None:
    cache[place].copy_(value)


@put.register_fake
def _(cache: Tensor, value: Tensor, place: int) -> None:
    return None


@aotpack.register_lowering(torch.ops.aot_tests.put.default)
def _put(cache: Tensor, value: Tensor, place: int) -> None:
    cache.select(0, place).copy_(value)


class Registered(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        whole, norm = norms(blend(x, y, share=0.5), eps=1e-3)
        return torch.ops.aot_tests.blend(whole.relu(), y), norm


class Cache(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(3, 5))

    def forward(self, x: Tensor) -> Tensor:
        put(self.cache, x[0].exp(), 1)
        return self.cache.sum(0) + x


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> Any:
        return self.function(x, y)


@pytest.mark.row("S:H12")
def test_registered_operators_agree_on_all_oracles() -> None:
    shapes = ({0: ROWS}, {0: ROWS})
    compiled = compile_all(Registered(), (X, Y), dynamic_shapes=shapes)
    agree(compiled, (X, Y))
    agree(compiled, (torch.randn(7, 5), torch.randn(7, 5)))
    agree(compiled, (torch.randn(1, 5), torch.randn(1, 5)))


@pytest.mark.row("S:H14")
def test_operators_that_change_their_arguments() -> None:
    model = aotpack.compile(Cache(), (X,), target="cpu")
    eager = Cache()
    for x in (X, Y):
        torch.testing.assert_close(model(x), eager(x))
    torch.testing.assert_close(torch.from_dlpack(model.state["cache"]), eager.cache)


@torch.library.custom_op("aot_tests::snapshot", mutates_args=())
def snapshot(x: Tensor) -> Tensor:
    return x.clone()


@snapshot.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@aotpack.register_lowering(snapshot)
def _snapshot(x: Tensor) -> Tensor:
    return x


class Previous(nn.Module):
    """Returns what the call before was given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.zeros(5))

    def forward(self, x: Tensor) -> Tensor:
        before = snapshot(self.kept)
        self.kept.copy_(x)
        return before * 2


def changed_after(x: Tensor, y: Tensor) -> Tensor:
    kept = snapshot(x)
    x.add_(y)
    return kept * 3


@pytest.mark.row("S:H12")
def test_a_lowering_that_returns_its_argument_gives_other_memory() -> None:
    model, eager = aotpack.compile(Previous(), (X[0],), target="cpu"), Previous()
    for x in X:
        torch.testing.assert_close(model(x), eager(x))
    zero, one = torch.zeros(5), torch.ones(5)
    changing = aotpack.compile(Calls(changed_after), (zero.clone(), one), target="cpu")
    torch.testing.assert_close(changing(zero, one), torch.zeros(5))
    torch.testing.assert_close(zero, one)


@torch.library.custom_op("aot_tests::accumulate", mutates_args=("x",))
def accumulate(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x.sum()


@accumulate.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return x.new_empty(())


@aotpack.register_lowering(accumulate)
def _accumulate(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    return x.sum()


class Doubled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.ones(5))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return accumulate(self.b, self.b), self.b + x


@pytest.mark.row("S:H14")
def test_one_tensor_may_be_changed_and_read() -> None:
    model, eager = aotpack.compile(Doubled(), (X[0],), target="cpu"), Doubled()
    for x in X:
        torch.testing.assert_close(model(x), eager(x))


def in_a_branch(x: Tensor, y: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x, y: blend(x, y), lambda x, y: x - y, (x, y))


def in_a_loop(x: Tensor, y: Tensor) -> Any:
    def step(n: Tensor, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return n + 1, blend(x, y), y.clone()

    return while_loop(lambda n, x, y: n < 3, step, (torch.tensor(0), x, y))[1]


def in_a_scan(x: Tensor, y: Tensor) -> Any:
    return scan(lambda c, row: (blend(c, row), c.clone()), x[0], y, dim=0)


@pytest.mark.row("S:H12")
@pytest.mark.parametrize("function", [in_a_branch, in_a_loop, in_a_scan])
def test_registered_operators_in_control_flow(function: Callable[..., Any]) -> None:
    compiled = compile_all(Calls(function), (X.abs(), Y))
    agree(compiled, (X.abs(), Y))
    agree(compiled, (-X.abs(), Y))


def test_a_wrong_lowering_in_a_branch_is_refused() -> None:
    op = unregistered("wrong_inside")
    aotpack.register_lowering(op)(lambda x, y: x + 1.01)

    def call(x: Tensor, y: Tensor) -> Any:
        return torch.cond(x.sum() > 0, op, lambda x, y: x - y, (x, y))

    with pytest.raises(TraceError, match="wrong_inside.default .*its results differs by 0.01"):
        aotpack.compile(Calls(call), (X.abs(), Y), target="interpreter")


def unregistered(name: str, changes: tuple[str, ...] = ()) -> Any:
    """An operator without a lowering: x + 1, or x.add_(1)."""

    def fresh(x: Tensor, y: Tensor) -> Tensor:
        return x + 1

    def changing(x: Tensor, y: Tensor) -> None:
        x.add_(1)

    op = torch.library.custom_op(f"aot_tests::{name}", mutates_args=changes)(
        changing if changes else fresh
    )
    op.register_fake(lambda x, y: None if changes else torch.empty_like(x))
    return getattr(torch.ops.aot_tests, name).default


@pytest.mark.row("S:H12")
def test_unregistered_operators_are_refused_with_a_hint() -> None:
    op = unregistered("unknown")
    with pytest.raises(UnsupportedError) as refusal:
        aotpack.compile(Calls(op), (X, Y), target="interpreter")
    assert "aot_tests.unknown.default" in str(refusal.value)
    assert "register_lowering('aot_tests::unknown')" in str(refusal.value)
    assert "test_registered.py" in str(refusal.value)


@pytest.mark.row("S:H14")
def test_an_unregistered_operator_that_changes_its_argument_is_refused_by_name() -> None:
    op = unregistered("unknown_", ("x",))

    def call(x: Tensor, y: Tensor) -> Tensor:
        op(x, y)
        return x * 2

    with pytest.raises(UnsupportedError, match=r"aot_tests.unknown_.default: .*register_lowering"):
        aotpack.compile(Calls(call), (X, Y), target="interpreter")


def longer(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y])


def by_sizes(x: Tensor, y: Tensor) -> Tensor:
    return x + 1 if x.shape[0] < 50 else x + 2


WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "shape": (longer, r"result 0 of the lowering is float32\[2\*\w+, 5\], the operator's"),
    "dtype": (lambda x, y: (x + 1).double(), "is float64"),
    "count": (lambda x, y: (x + 1, y), "returns 2 results, the operator 1"),
    "nothing": (lambda x, y: None, "result 0 of the lowering is a NoneType"),
    "values": (lambda x, y: x + 1.01, "on the example inputs one of its results differs by 0.01"),
    "sizes": (by_sizes, "asks for more than the model's sizes promise"),
    "error": (lambda x, y: x @ y, "the lowering fails"),
    "changes": (lambda x, y: x.add_(1), "one of the arguments it changes differs by 1"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_lowering_is_refused(kind: str) -> None:
    op = unregistered(f"wrong_{kind}")
    function, words = WRONG[kind]
    aotpack.register_lowering(op)(function)
    shapes = ({0: ROWS}, {0: ROWS})
    with pytest.raises(TraceError, match=words) as refusal:
        aotpack.compile(Calls(op), (X, Y), dynamic_shapes=shapes, target="interpreter")
    assert f"aot_tests.wrong_{kind}.default" in str(refusal.value)


@pytest.mark.parametrize("low", [1, 2, 9])
@pytest.mark.parametrize(
    "part", [lambda x: x[::2], lambda x: x[: x.shape[0] // 2 + 1], lambda x: x[-1:].t()]
)
def test_parts_of_a_dynamic_size(part: Callable[[Tensor], Tensor], low: int) -> None:
    op = unregistered(f"part_{low}_{id(part)}")
    aotpack.register_lowering(op)(lambda x, y: x + 1)
    dims = {0: torch.export.Dim("rows", min=low, max=64)}
    x = torch.rand(12, 5)
    model = aotpack.compile(
        Calls(lambda x, y: op(part(x), part(y))),
        (x, x.clone()),
        dynamic_shapes=(dims, dims),
        target="interpreter",
    )
    for rows in (low, low + 1, 64):
        x = torch.rand(rows, 5)
        torch.testing.assert_close(model(x, x.clone()), part(x) + 1)


def test_a_lowering_that_asks_whether_a_size_is_1_is_refused() -> None:
    op = unregistered("asks_for_1")
    aotpack.register_lowering(op)(lambda x, y: x + 1 if x.shape[0] != 1 else x + 2)
    dims = {0: torch.export.Dim("rows", min=2, max=64)}
    with pytest.raises(TraceError, match="asks for more than the model's sizes promise: Ne"):
        aotpack.compile(
            Calls(lambda x, y: op(x[1:], y[1:])), (X, Y), dynamic_shapes=(dims, dims), target="cpu"
        )


def test_an_error_of_a_lowering_has_its_line_and_the_call_s_alone() -> None:
    op = unregistered("failing")

    @aotpack.register_lowering(op)
    def lowered(x: Tensor, y: Tensor) -> Tensor:
        if torch.fx.experimental.proxy_tensor.get_proxy_mode() is not None:
            raise ValueError("no words for this")
        return x + 1

    with pytest.raises(TraceError, match="no words for this") as refusal:
        aotpack.compile(Calls(op), (X, Y), target="interpreter")
    text = str(refusal.value)
    assert 'raise ValueError("no words for this")' in text and "return self.function(" in text
    assert "tlparse" not in text and "Original traceback" not in text and "https://" not in text


def _takes_other(x: Tensor, z: Tensor) -> Tensor:
    return x + z


def _takes_any(*args: Any) -> Any:
    return args


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "twice": (blend, _blend, "_blend is registered for it already"),
    "names": (unregistered("names"), _takes_other, r"takes x.*z.*accepted are the parameters of"),
    "any": (unregistered("any"), _takes_any, r"takes \*args"),
    "no function": (unregistered("value"), 3, "found an int; a function is accepted"),
    "a function": (torch.sin, _takes_any, "found <built-in .*; accepted are the result"),
    "a name": ("aot_tests::nowhere", _takes_any, "torch knows no such operator"),
    "overloads": (torch.ops.aten.add, _takes_any, "it is one of aten.add.Tensor.*name which"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_registration_is_refused(kind: str) -> None:
    op, function, words = REFUSED[kind]
    with pytest.raises(UsageError, match=words):
        aotpack.register_lowering(op)(function)
