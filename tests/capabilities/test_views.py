"""Views, layouts, and what is stored: index maps that compose, and no kernel that only copies."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim

from aotpack.ir.kernels.access import accesses, contiguous, is_dense
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.operations import Matmul, Pointwise
from aotpack.ir.program import loads
from aotpack.ir.symbolic.integers import Int, Var
from aotpack.ir.verify.schedule import verify_schedule
from aotpack.lower import lower
from aotpack.schedule.program.realize import MAX_INLINED_OPS, MAX_OPS, MAX_READS, realize
from aotpack.stages import Ref
from aotpack.trace import trace
from tests.e2e.models import Function
from tests.lower.oracle import Case, case, check_traced, floats, node, spec_of
from tests.lower.oracle import traced as graph_of
from tests.schedule.programs import Writer, apply, load, schedule_of, scheduled


@pytest.mark.parametrize(
    "case",
    [
        *(
            pytest.param(
                case("expand.default", floats(*shape), sizes), marks=pytest.mark.row("S:C3")
            )
            for shape, sizes in (((2, 1), [2, 3]), ((3,), [4, -1]), ((1, 3), [5, 2, 3]), ((), [2]))
        ),
        *(
            pytest.param(
                case("permute.default", floats(2, 3, 4), dims), marks=pytest.mark.row("S:C4")
            )
            for dims in ([2, 0, 1], [-1, 1, 0], [0, 1, 2])
        ),
        *(
            pytest.param(case("squeeze.dim", floats(1, 3, 1), dim), marks=pytest.mark.row("S:C5"))
            for dim in (0, -1, 1)
        ),
        pytest.param(case("squeeze.default", floats(1, 3, 1)), marks=pytest.mark.row("S:C5")),
        *(
            pytest.param(case("view.default", floats(4, 6), shape), marks=pytest.mark.row("S:C6"))
            for shape in ([24], [-1, 8], [2, 2, 6], [4, 1, 6], [1, 3, 8])
        ),
        pytest.param(case("view.default", floats(0, 6), [3, 0]), marks=pytest.mark.row("S:C6")),
        *(
            pytest.param(case("slice.Tensor", floats(7), 0, *at), marks=pytest.mark.row("S:C10"))
            for at in ((2, 5), (-3,), (-100, 100), (5, 2), (9, 12), (1, 2**63 - 1, 3), (0, -1))
        ),
        *(
            pytest.param(case("select.int", floats(3, 4), 1, k), marks=pytest.mark.row("S:C10"))
            for k in (0, 3, -1, -4)
        ),
        pytest.param(case("split.Tensor", floats(7, 2), 3), marks=pytest.mark.row("S:C10")),
        pytest.param(case("full.default", [2], 3.5), marks=pytest.mark.row("S:C11")),
        pytest.param(case("arange.start_step", 10, 1, -3), marks=pytest.mark.row("S:C11")),
    ],
    ids=str,
)
def test_view_reads_what_eager_reads(case: Case) -> None:
    case.check()


@pytest.mark.row("S:C10", "S:C11", "S:A8", "S:E4")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[:, -2:] * x.shape[1],
        lambda x: x.flatten().view(-1, x.shape[0]) + torch.arange(x.shape[0]),
    ],
)
def test_sizes_of_a_call_are_values_and_bounds(function: Callable[..., torch.Tensor]) -> None:
    module = Function(function, 1)
    shapes = {"x": {0: Dim("b", min=3, max=9), 1: Dim("s", min=3, max=9)}}
    traced = trace(module, (floats(5, 4),), {}, dynamic_shapes=shapes, name="m", version="1")
    check_traced(traced, module, (floats(5, 4),), (floats(3, 9),), (floats(9, 3),))


# --- chains of views -----------------------------------------------------------------------------

Step = tuple[str, tuple[Any, ...]]
OPERATORS = {
    "permute": "aten.permute.default",
    "reshape": "aten.view.default",
    "slice": "aten.slice.Tensor",
    "squeeze": "aten.squeeze.default",
    "expand": "aten.expand.default",
    "select": "aten.select.int",
}


@st.composite
def chains(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Step]]:
    """A shape, and views that torch accepts one after the other."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    x, steps = torch.empty(shape), []
    for _ in range(draw(st.integers(1, 5))):
        name = draw(st.sampled_from(("permute", "reshape", "slice", "squeeze", "expand", "select")))
        step = _step(draw, name, x)
        if step is not None:
            steps.append(step)
            x = apply_step(x, step)
    return shape, steps


def _step(draw: st.DrawFn, name: str, x: torch.Tensor) -> Step | None:
    if name == "permute":
        return name, (draw(st.permutations(range(x.dim()))),)
    if name == "reshape" and 0 < x.numel() <= 64:
        numel = x.numel()
        first = draw(st.sampled_from([d for d in range(1, numel + 1) if numel % d == 0]))
        return name, ((first, numel // first),)
    if name == "expand" and x.dim() < 4:
        return name, ((draw(st.integers(1, 3)), *x.shape),)
    if name == "squeeze":
        return name, ()
    if not x.dim():
        return None
    dim = draw(st.integers(0, x.dim() - 1))
    size = x.shape[dim]
    if name == "slice" and size:
        start = draw(st.integers(-size, size - 1))
        return name, (dim, start, draw(st.integers(-size, size + 2)), draw(st.integers(1, 2)))
    return ("select", (dim, draw(st.integers(-size, size - 1)))) if size else None


def apply_step(x: torch.Tensor, step: Step) -> torch.Tensor:
    name, args = step
    if name == "slice":
        return torch.ops.aten.slice.Tensor(x, *args)
    return getattr(x, name)(*args)


@pytest.mark.row("S:inv35", "S:A10", "S:C1", "S:C7", "C:inv1")
@settings(max_examples=60, deadline=None)
@given(chains())
def test_chain_of_views_is_one_index_into_the_input(chain: tuple[Any, ...]) -> None:
    shape, steps = chain
    x = torch.arange(float(np.prod(shape))).reshape(shape)
    nodes, expected = [], x
    for number, (name, args) in enumerate(steps):
        expected = apply_step(expected, (name, args))
        source = Ref(f"v{number - 1}" if number else "x")
        result = spec_of("result", expected)
        nodes.append(node(f"v{number}", OPERATORS[name], (source, *args), result))
    last = f"v{len(steps) - 1}" if steps else "x"
    nodes.append(node("out", "aten.add.Tensor", (Ref(last), 1), spec_of("out", expected)))
    (operation,) = realize(
        lower(graph_of(nodes, (spec_of("x", x),), (Ref("out"),))).program
    ).operations
    assert isinstance(operation, Pointwise)
    found = loads(operation)
    for place in itertools.product(*map(range, expected.shape)):
        values = {axis.name: k for axis, k in zip(operation.axes, place, strict=True)}
        index = tuple(int(part.evaluate(values)) for part in found[0].index)
        assert len(found) == 1 and x[index] == expected[place]


# --- layouts -------------------------------------------------------------------------------------


class Turned(nn.Module):
    """Products of tensors that are seen transposed, joined, expanded and sliced."""

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turned = x.transpose(1, 2) @ w.t()
        wide = x[:, :1].expand(-1, 5, -1) @ x[:, :5].transpose(1, 2)
        return turned, wide, x.permute(2, 0, 1).flatten(1)[:, ::2] * 2


@pytest.mark.row("S:C2", "S:C8", "S:D11", "S:D12", "S:D13", "S:D15", "S:H3", "S:inv33", "S:H2")
def test_no_view_is_ever_copied_for_its_reader() -> None:
    """Load slots read any index map: nothing is demanded of a layout, so nothing is copied."""
    made = scheduled(Turned(), floats(2, 5, 6), floats(4, 5)).schedule
    assert len(made.kernels) == 3 and not made.lifetimes  # two products and an output
    stored = [name for kernel in made.kernels for name in kernel.stored]
    assert sorted(stored) == sorted(made.program.outputs)
    products = [kernel.template_op for kernel in made.kernels if kernel.template_op]
    assert all(isinstance(product, Matmul) for product in products) and len(products) == 2


@pytest.mark.row("S:D4", "S:D16", "S:inv32", "S:T17")
def test_strides_are_decided_once_and_by_their_accesses() -> None:
    made = product_read_transposed()
    verify_schedule(made)
    before = dict(made.strides)
    for kernel in made.kernels:
        for access in accesses(kernel):
            access.offset(made.strides)
    assert str(made) and made.strides == before


def product_read_transposed() -> Schedule:
    w = Writer()
    x, a, b = w.input("x", 8, 16), w.weight("a", 16, 16), w.weight("b", 8, 8)
    y = w.matmul("y", 8, 16, 16, x, a)
    t = w.pointwise("t", [16, 8], lambda i, j: load(y, j, i), op="transpose")
    return schedule_of(w.program(w.matmul("z", 16, 8, 8, t, b)))


@pytest.mark.row("S:A9", "S:A11", "S:D2", "S:D3")
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 1, 4), (1, 1), (5, 1), ()])
def test_any_order_of_dimensions_is_dense_and_ones_lie_anywhere(shape: tuple[int, ...]) -> None:
    sizes = tuple(map(Int.of, shape))
    for order in itertools.permutations(range(len(shape))):
        turned = contiguous(tuple(sizes[dim] for dim in order))
        strides = tuple(turned[order.index(dim)] for dim in range(len(shape)))
        assert is_dense(sizes, strides)
    if len(shape) == 3 and 1 not in shape:
        assert not is_dense(sizes, tuple(map(Int.of, (12, 4, 2))))


# --- what is stored ------------------------------------------------------------------------------


def look_back_of(count: int, readers: int) -> list[str]:
    """Stored buffers where ``readers`` operations read a value of ``count`` additions."""
    w = Writer()
    x = w.input("x", 4)

    def value(i: Any) -> Any:
        total = load(x, i)
        for number in range(count):
            total = apply("add", total, float(number + 1))
        return total

    t = w.pointwise("t", [4], value)
    outputs = [
        w.pointwise(f"y{n}", [4], lambda i, n=n: apply("mul", load(t, i), float(n + 2)))
        for n in range(readers)
    ]
    made = realize(w.program(*outputs))
    return [operation.target for operation in made.operations]  # type: ignore[union-attr]


@pytest.mark.row("S:A6", "S:E8", "S:E9")
def test_limits_of_recomputation_hold_exactly() -> None:
    assert "t" not in look_back_of(MAX_OPS, readers=2)
    assert "t" in look_back_of(MAX_OPS + 1, readers=2)
    assert "t" not in look_back_of(MAX_INLINED_OPS, readers=1)  # a single reader takes much more
    assert "t" in look_back_of(MAX_INLINED_OPS + 1, readers=1)


@pytest.mark.row("S:E7", "S:A6")
def test_a_value_of_many_reads_is_stored_for_two_readers() -> None:
    def stored(count: int) -> bool:
        w = Writer()
        xs = [w.input(f"x{n}", 4) for n in range(count)]

        def value(i: Any) -> Any:
            total = load(xs[0], i)
            for x in xs[1:]:
                total = apply("add", total, load(x, i))
            return total

        t = w.pointwise("t", [4], value)
        outs = [
            w.pointwise(f"y{n}", [4], lambda i, n=n: apply("mul", load(t, i), n + 2.0))
            for n in range(2)
        ]
        return len(realize(w.program(*outs)).operations) == 3

    assert [stored(MAX_READS), stored(MAX_READS + 1)] == [False, True]


@pytest.mark.row("S:D6", "S:H4", "S:H6", "S:inv36")
def test_joined_tensors_are_written_once_by_the_kernel_that_makes_the_pieces() -> None:
    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x.exp(), y.tanh(), x + 1], 1)

    made = scheduled(Function(forward, 2), floats(4, 3), floats(4, 5)).schedule
    (kernel,) = made.kernels
    assert kernel.stored == made.program.outputs and not made.lifetimes
    (operation,) = [member.operation for member in kernel.members]
    assert [int(axis.extent) for axis in operation.axes] == [4, 11]


@pytest.mark.row("S:F2", "S:F4", "S:L21", "C:A6", "C:A10")
@pytest.mark.parametrize("shape", [(4, 8, 16), (Var("b", 1, 9), 8, 16), (2, 1, 3, 1)])
def test_adjacent_dimensions_walk_as_one(shape: tuple[Any, ...]) -> None:
    """Digits that join again leave no division in any address."""
    w = Writer(tuple(size for size in shape if isinstance(size, Var)))
    x, bias = w.input("x", *shape), w.input("bias", *shape[1:])
    y = w.pointwise("y", shape, lambda *i: apply("add", load(x, *i), load(bias, *i[1:])))
    made = schedule_of(w.program(y))
    (kernel,) = made.kernels
    texts = {a.buffer: str(a.offset(made.strides)) for a in accesses(kernel)}
    assert texts["x"] == texts["y"] == "x"
    assert "//" not in texts["bias"]


@pytest.mark.row("S:F1", "S:K6", "C:B1")
def test_every_loop_kernel_runs_over_rows_and_their_elements() -> None:
    w = Writer()
    x = w.input("x", 3, 4, 5)
    y = w.reduction("y", [3, 5], [4], lambda i, k, r: load(x, i, r, k))
    (kernel,) = schedule_of(w.program(y)).kernels
    assert [(axis.name, int(axis.extent)) for axis in kernel.axes] == [("x", 15), ("r", 4)]
    (member,) = kernel.members
    assert {axis.name: str(value) for axis, value in member.binding} == {
        "i0": "(x//5)",
        "i1": "(x%5)",
        "r0": "r",
    }
