"""Control flow in the graph: what its bodies name, and what the reference computes of it."""

from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.scan import scan
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError, UnsupportedError
from aotpack.stages import Ref

X = torch.arange(6.0).reshape(3, 2)


def node_of(traced: Any) -> Any:
    (node,) = (node for node in traced.graph.nodes if node.bodies)
    return node


@pytest.mark.row("S:I3")
def test_bodies_name_what_is_around_them(trace_function) -> None:
    def forward(self, x, p):
        return torch.cond(p, lambda x: self.child(x), lambda x: x * 2, (x,))

    traced = trace_function(
        forward, X, torch.tensor(True), modules={"child": nn.Linear(2, 2, bias=False)}
    )
    node = node_of(traced)
    assert node.op == "higher_order.cond" and node.args == (Ref("p"),)
    first, second = node.bodies
    assert [inner.args for inner in first.nodes] == [(Ref("x"), Ref("child.weight"))]
    assert second.outputs == (Ref(second.nodes[0].name),)
    assert {weight.name for weight in traced.graph.weights} == {"child.weight"}
    shown = traced.as_text()
    assert "    body\n        linear: float32[3, 2] = aten.linear.default(x, child.weight)" in shown
    assert "        give mul" in shown


@pytest.mark.row("S:I3")
@pytest.mark.parametrize(
    ("holds", "text"),
    [
        (lambda s: s > 4, "min(1, max(0, s - 4))"),
        (lambda s: s <= 4, "min(1, max(-s + 5, 0))"),
        (lambda s: s % 2 == 0, None),
        (lambda s: torch.sym_not(s * 2 >= 9), None),
        (lambda s: s >= 1, "1"),
        (lambda s: s < 1, "0"),
    ],
)
def test_a_condition_on_sizes_is_a_number(trace_function, holds, text) -> None:
    def forward(self, x):
        return torch.cond(holds(x.shape[0]), lambda x: x + 1, lambda x: x * 2, (x,))

    sizes = {"x": {0: Dim("s", max=99)}}
    (condition,) = node_of(trace_function(forward, X, dynamic_shapes=sizes)).args
    assert text is None or str(condition) == text
    for size in range(1, 13):
        assert condition.evaluate({"s": size}) == int(bool(holds(size)))


@pytest.mark.row("S:I3")
def test_a_condition_on_rounded_sizes_is_refused(trace_function) -> None:
    def forward(self, x):
        return torch.cond(x.shape[0] * 0.5 > 1.7, lambda x: x + 1, lambda x: x * 2, (x,))

    with pytest.raises(UnsupportedError, match=r"cond: a size is computed with Float"):
        trace_function(forward, X, dynamic_shapes={"x": {0: Dim("s", max=99)}})


@pytest.mark.row("S:I4")
def test_a_loop_names_its_state_by_its_own_results(trace_function) -> None:
    def forward(self, x):
        return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * i), (0, x))[1]

    node = node_of(trace_function(forward, X))
    assert node.args == ((0, Ref("x")),)
    test, body = node.bodies
    assert [(n.op, n.args) for n in test.nodes] == [("operator.lt", (Ref(node.name), 3))]
    assert body.nodes[1].args == (Ref(node.name, 1), Ref(node.name))


@pytest.mark.row("S:I4")
def test_slices_are_tensors_of_a_body(trace_function) -> None:
    traced = trace_function(lambda self, x: map_over(lambda row: row * 2, x), X)
    (body,) = node_of(traced).bodies
    assert [str(spec) for spec in body.slices] == ["map_impl_slice: float32[2]"]
    assert body.nodes[0].args == (Ref("map_impl_slice"), 2)


@pytest.mark.row("S:I3", "S:I4")
@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
        lambda self, x: while_loop(lambda a: a.sum() < 99, lambda a: (a * 1.7 + 0.1,), (x,))[0],
        lambda self, x: map_over(lambda row: row.softmax(-1), x),
        lambda self, x: scan(lambda h, x: (h * 0.3 + x, (h * x).sin()), x[0] + 0.1, x)[1],
    ],
)
def test_the_reference_runs_bodies_in_float64(trace_function, forward) -> None:
    golden = trace_function(forward, X).golden
    ((_, _, shape, data),) = golden.outputs
    exact = torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(shape)
    wanted = forward(None, X.double())
    torch.testing.assert_close(exact, wanted.float(), rtol=0, atol=0)
    assert 0 <= golden.eager_errors[0] < 1e-4


def test_an_example_that_is_a_view() -> None:
    """torch.export guards the base of one, which the graph does not have."""

    class Either(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    shapes = ({0: Dim("rows", min=1, max=8)},)
    example = torch.arange(1.0, 37.0).reshape(6, 6)
    package = aotpack.compile(Either(), (example,), dynamic_shapes=shapes, target="cpu")
    for rows, sign in ((1, 1), (3, -1), (8, 1)):
        x = sign * torch.rand(rows, 6)
        torch.testing.assert_close(package(x), Either()(x))


def halves(p, x, own):
    return torch.cond(p, lambda a, b: a * b, lambda a, b: a - b, (x[1:], own(x[:-1])))


def changed_around(p, x, own):
    """Changes in place before and behind a branch are those of what it was given."""
    y = x * 1
    y.add_(1)
    found = halves(p, y, own)
    y.mul_(2)
    found.add_(1)
    return found + y[1:]


def state_beside_itself(p, x, own):
    """A loop carries the tensor that it also reads."""
    i = torch.tensor(0)
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 0.5 + x), (i, own(x)))[1]


def carried_twice(p, x, own):
    z = x * 2
    found = while_loop(lambda a, b: b.sum() > -9, lambda a, b: (a + 1, b - a * a), (z, own(z)))
    z.add_(1)
    return found[0] + found[1] * z


def in_a_loop(p, x, own):
    def body(i, a):
        return i + 1, torch.cat([halves(i > 1, a, own), a[:1] + 1])

    return while_loop(lambda i, a: i < 3, body, (torch.tensor(0), x))[1]


def over_rows(p, x, own):
    return scan(lambda c, e: ([c[0] + e, c[1] * e], c[0] * e), [own(x[0]), own(x[1])], x)[1]


def beside_its_transpose(p, x, own):
    t = own(x.mT)
    i = torch.tensor(0)
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a @ t @ x / 9), (i, own(x)))[1]


def rows_beside_the_transpose(p, x, own):
    t = own(x.mT)
    return scan(lambda c, e: (c + e @ t @ x / 9, c * 2), own(x[0]), own(x))[1]


def mapped_twice(p, x, own):
    t, u = own(x[1:]), own(x[1:].mT)
    return map_over(lambda e, y: e[0] * y.sum() + e[1] @ t @ u, (own(x), own(x)), own(x))


SHARING = (
    halves,
    changed_around,
    state_beside_itself,
    carried_twice,
    in_a_loop,
    over_rows,
    beside_its_transpose,
    rows_beside_the_transpose,
    mapped_twice,
)


@pytest.mark.row("S:I3")
@pytest.mark.parametrize("function", SHARING, ids=lambda function: function.__name__)
@pytest.mark.parametrize("strict", [False, True])
def test_operands_that_share_memory(*, function: Any, strict: bool) -> None:
    class Model(nn.Module):
        def forward(self, p: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return function(p, x, lambda operand: operand)

    given = torch.tensor(True), torch.randn(4, 3)
    model = aotpack.compile(Model(), given, target="interpreter", strict=strict)
    for p in (True, False):
        args = torch.tensor(p), torch.randn(4, 3)
        expected = function(*args, torch.clone)
        torch.testing.assert_close(model(*args), expected)


STEPS = {
    "while": lambda w, x: while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, a @ w @ w.T), (torch.tensor(0), x)
    )[1],
    "scan": lambda w, x: scan(lambda c, e: (c @ w @ w.T, c + e), x[0], x)[0],
    "map": lambda w, x: map_over(lambda row: row @ w @ w.T, x),
}


@pytest.mark.row("S:I4")
@pytest.mark.parametrize(("kind", "steps"), [("while", 2), ("scan", 3), ("map", 1)])
@pytest.mark.parametrize("strict", [False, True])
def test_a_buffer_and_its_transpose_in_a_loop(*, kind: str, steps: int, strict: bool) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.randn(4, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return STEPS[kind](self.w, x) + self.w.sum()

    module, x = Model(), torch.randn(3, 4)
    model = aotpack.compile(module, (x,), target="cpu", strict=strict)
    powers = torch.linalg.matrix_power(module.w @ module.w.T, steps)
    expected = (x[0] if kind == "scan" else x) @ powers + module.w.sum()
    torch.testing.assert_close(model(x), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.row("S:I3")
@pytest.mark.parametrize(
    "forward",
    [
        lambda self, p, x: while_loop(
            lambda i, a: i < 3, lambda i, a: (i + x.mT.sum(), x), (torch.tensor(0.0), x * 1)
        ),
        lambda self, p, x: torch.cond(p, lambda x: x, lambda x: x * 2, (x,)),
        lambda self, p, x: while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a[:]), (0, x)),
    ],
)
def test_results_that_share_memory_are_refused(trace_function, forward) -> None:
    message = r"(?s)alias.*write x.clone\(\) for a result.*\n  at test_control.py:\d+: .*lambda"
    with pytest.raises(TraceError, match=message):
        trace_function(forward, torch.tensor(True), X)


def behind_the_first(choose, x):
    return choose(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x[:, 1:],))


def of_one_layout_or_another(choose, x):
    return choose(x.sum() > 0, lambda a: a * 2, lambda a: a.clone(), (x[:, :-1],)).sum(0)


def turned(choose, x):
    return choose(x.sum() > 0, lambda a: a[:, 1:].t() * 2, lambda a: a[:, 1:].t() - 1, (x,)) + 1


def nested(choose, x):
    def inner(a):
        return choose(a.sum() > 9, lambda b: b[:, 1:] * 1, lambda b: b[:, 1:] + 1, (a,))

    return choose(x.sum() > 0, inner, lambda a: a[:, 1:] * 3, (x,)).reshape(-1)


def rows(choose, x):
    return choose(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x.mT[1:],))


SLICES = (behind_the_first, of_one_layout_or_another, turned, nested, rows)


@pytest.mark.row("S:I3")
@pytest.mark.parametrize("function", SLICES, ids=lambda function: function.__name__)
@pytest.mark.parametrize("low", [1, 2, 3])
def test_results_behind_a_slice_of_a_dynamic_dimension(function, low) -> None:
    """torch writes their strides as ``Max(1, c - 1)``, and sizes of 1 are no others."""

    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(torch.cond, x)

    sizes = {"x": {1: Dim("c", min=low, max=64)}}
    model = aotpack.compile(Model(), (torch.randn(4, 5),), target="cpu", dynamic_shapes=sizes)
    for columns in (low, 2, 3, 7):
        for sign in (1, -1):
            x = sign * torch.rand(4, max(columns, low))
            expected = function(lambda p, f, g, args: f(*args) if p else g(*args), x)
            torch.testing.assert_close(model(x), expected)


@pytest.mark.row("S:I3")
def test_results_of_one_shape_in_two_spellings() -> None:
    class Turned(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, self.turned, lambda x: x * 2, (x,))

        def turned(self, x: torch.Tensor) -> torch.Tensor:
            half = x.shape[0] // 2
            return torch.cat([x[half:], x[:half]])

    sizes = {"x": {0: Dim("c", min=2, max=9)}}
    model = aotpack.compile(Turned(), (torch.randn(5),), target="cpu", dynamic_shapes=sizes)
    for size in (2, 3, 9):
        x = torch.rand(size)
        assert torch.equal(model(x), x.roll(-(size // 2)))
        assert torch.equal(model(-x), -2 * x)


@pytest.mark.row("S:I3")
@pytest.mark.parametrize(
    ("branch", "shapes"),
    [
        (lambda x, y: y * 2, r"\(c, 5\) and \(d, 5\)"),
        (lambda x, y: torch.cat([x, y]), r"\(c, 5\) and \(c \+ d, 5\)"),
        (lambda x, y: x[:, 1:] * 2, r"\(c, 5\) and \(c, 4\)"),
    ],
)
def test_results_of_other_shapes_are_refused(trace_function, branch, shapes) -> None:
    message = rf"return tensors of the shapes {shapes}; accepted are .*\n  at test_control.py:\d+"
    with pytest.raises(UnsupportedError, match=message):
        trace_function(
            lambda self, x, y: torch.cond(x.sum() > 0, lambda x, y: x + 1, branch, (x, y)) + x,
            *(torch.randn(4, 5), torch.randn(7, 5)),
            dynamic_shapes={"x": {0: Dim("c", min=1, max=9)}, "y": {0: Dim("d", min=1, max=9)}},
        )


def test_a_view_as_a_result_is_refused(trace_function) -> None:
    with pytest.raises(
        TraceError, match=r"write x\.clone\(\) for a result that is .* a part of one"
    ):
        trace_function(
            lambda self, x: torch.cond(x.sum() > 0, lambda x: x[:3], lambda x: x[:3] * 2, (x,)),
            torch.randn(4, 5),
        )


@pytest.mark.row("S:I3")
def test_results_that_lie_in_parts_of_memory() -> None:
    class Parts(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            parts = lambda y: y.mT[:2].expand(3, 2, -1)  # noqa: E731
            result = torch.cond(x.sum() > 0, lambda x: parts(x * 2), lambda x: parts(x - 1), (x,))
            return result * 2

    sizes = {"x": {0: Dim("c", min=1, max=9)}}
    model = aotpack.compile(Parts(), (torch.ones(4, 5),), target="cpu", dynamic_shapes=sizes)
    for x in (torch.ones(1, 5), torch.ones(3, 5), -torch.ones(2, 5)):
        part = (x * 4 if x.sum() > 0 else x * 2 - 2).mT[:2].expand(3, 2, -1)
        torch.testing.assert_close(model(x), part)


class Slices(nn.Module):
    """Branches that return the same slice, in strides of the whole and behind its first element."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        part = lambda y: (y @ y.mT)[1:, 1:3]  # noqa: E731
        result = torch.cond(x.sum() > 0, lambda x: part(x * 2), lambda x: part(x - 1), (x,))
        return result.mT * 2 + result.stride(0) + result.storage_offset()


@pytest.mark.row("S:I3")
@pytest.mark.parametrize("sizes", [None, {"x": {0: Dim("c", min=3, max=9)}}])
def test_slices_of_products_lie_alike(sizes) -> None:
    model = aotpack.compile(Slices(), (torch.ones(4, 5),), target="cpu", dynamic_shapes=sizes)
    for x in (torch.ones(4, 5), -torch.ones(4, 5), torch.ones(7, 5))[: 3 if sizes else 2]:
        given = x * 2 if x.sum() > 0 else x - 1
        part = (given @ given.mT)[1:, 1:3]
        torch.testing.assert_close(model(x), part.mT * 2 + len(x) + len(x) + 1)


@pytest.mark.row("S:I3")
def test_slices_at_other_places_are_refused(trace_function) -> None:
    message = r"(?s)got 1 and 0\..*x\.clone\(\) for a result that is a part .*\n  at test_control"
    with pytest.raises(TraceError, match=message):
        trace_function(
            lambda self, x: torch.cond(
                x.sum() > 0, lambda x: (x * 2)[:, 1:], lambda x: (x * 3)[:, :-1], (x,)
            ),
            torch.randn(4, 5),
        )


@pytest.mark.row("S:I3")
def test_results_that_lie_otherwise_are_refused(trace_function) -> None:
    message = (
        r"(?s)branches return tensors that lie alike.*\.contiguous\(\) for each result\n  at test_"
    )
    with pytest.raises(TraceError, match=message) as error:
        trace_function(
            lambda self, x: torch.cond(
                x.sum() > 0, lambda x: (x * 2)[:, :2], lambda x: (x * 3)[:, :2].contiguous(), (x,)
            ),
            torch.randn(4, 5),
        )
    assert "Hint: Your code" not in str(error.value)
