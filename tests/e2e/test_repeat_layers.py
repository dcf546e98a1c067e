"""Repeated layers as calls of one body: eager's answers, and one body for all layers or none."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn import functional

import aotpack
from aotpack.ir.kernels.kernel import Schedule
from aotpack.ir.program import Call, Program
from aotpack.pipeline import Build, BuildOptions, Method, Source, build_of
from aotpack.target import CPU, parse_targets

from .oracle import GPU, agree, compile_all, on_gpu

MASK = torch.ones(2, 1, 6, 6, dtype=torch.bool).tril()
ROWS = torch.randn(2, 6, 16)


class Unit(nn.Module):
    """A norm and two products, added to what they are given."""

    def __init__(self, width: int = 16, scale: float = 1.0, act: Any = functional.gelu) -> None:
        super().__init__()
        self.norm, self.scale, self.act = nn.LayerNorm(width), scale, act
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.scale * self.down(self.act(self.up(self.norm(x))))


class Attends(nn.Module):
    """Attention with three products of one input, then a norm."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in "qkv")
        self.out, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (2, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.heads(one(x)) for one in (self.q, self.k, self.v))
        found = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.norm(x + self.out(found.transpose(1, 2).flatten(2)))


class Remembers(Attends):
    """The same over a cache of its own."""

    def __init__(self, width: int = 16) -> None:
        super().__init__(width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, 2, 4, width // 2))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(2, place, self.heads(self.k(x)))
        self.values.index_copy_(2, place, self.heads(self.v(x)))
        mask = torch.arange(4)[None] <= place[:, None]
        found = functional.scaled_dot_product_attention(
            self.heads(self.q(x)), self.keys, self.values, attn_mask=mask
        )
        return self.norm(x + self.out(found.transpose(1, 2).flatten(2)))


class Convolves(nn.Module):
    """A convolution whose norm is folded into its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.norm.running_mean = torch.randn(4)
        self.norm.running_var = torch.rand(4) + 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.norm(self.conv(x)))


class Both(nn.Module):
    """Attention, then two units: layers inside of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.attends, self.units = Attends(), nn.ModuleList([Unit(), Unit()])

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.attends(x, mask)
        for unit in self.units:
            x = unit(x)
        return x


class Region(nn.Module):
    """A region that strict exports keep as a graph of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    @torch.compiler.nested_compile_region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + x.mean(0)


class Checked(Unit):
    """With an assertion about what it is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert_async((x > -99).all(), "too low")
        return super().forward(x)


class Draws(Unit):
    """Each layer has random numbers of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(super().forward(x), 0.5, training=True)


class Stack(nn.Module):
    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, *others)
        return x


class Parallel(nn.Module):
    """Equal products of one input: none follows another."""

    def __init__(self) -> None:
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([one(x) for one in self.linears])


def stack(make: Callable[[], nn.Module], count: int = 3) -> Callable[[], Stack]:
    return lambda: Stack(*(make() for _ in range(count)))


def tied() -> Stack:
    layer = Attends()
    return Stack(layer, layer, layer)


@dataclass(frozen=True, slots=True)
class Case:
    """A model, its arguments and the calls of each of its bodies, those of the outermost first."""

    name: str
    make: Callable[[], nn.Module]
    args: tuple[torch.Tensor, ...]
    calls: tuple[int, ...]
    dynamic: Any = None

    def __str__(self) -> str:
        return self.name


SIZES = {0: Dim("b", max=4), 1: Dim("t", max=8)}
CASES = (
    Case("units", stack(Unit, 4), (ROWS,), (4,)),
    Case("attention with a shared mask", stack(Attends), (ROWS, MASK), (3,)),
    Case("one layer called several times", tied, (ROWS, MASK), (3,)),
    Case("folded norms", stack(Convolves), (torch.randn(2, 4, 5, 5),), (3,)),
    Case("layers inside of layers", stack(Both), (ROWS, MASK), (3, 2)),
    Case("a last layer that differs", lambda: Stack(Unit(), Unit(), Unit(act=torch.sin)),
         (ROWS,), (2,)),
    Case("a layer with another constant",
         lambda: Stack(*(Unit(scale=0.5 if n == 2 else 1.0) for n in range(6))), (ROWS,), (2, 3)),
    Case("two widths", lambda: nn.Sequential(Unit(), Unit(), nn.Linear(16, 8), Unit(8), Unit(8)),
         (ROWS,), (2, 2)),
    Case("dynamic sizes", stack(Attends), (ROWS, MASK), (3,),
         (SIZES, ({0: SIZES[0], 2: SIZES[1], 3: SIZES[1]},))),
    Case("caches", stack(Remembers), (ROWS[:1, :1], torch.tensor([2])), (3,)),
    Case("assertions", stack(Checked), (ROWS,), (3,)),
    Case("constants that all differ", lambda: Stack(*(Unit(scale=n) for n in (0.5, 1.5, 2.5))),
         (ROWS,), ()),
    Case("a constant of another type", lambda: Stack(Unit(scale=1), Unit(scale=1.0)), (ROWS,), ()),
    Case("equal products side by side", Parallel, (ROWS,), ()),
)  # fmt: skip


def calls_of(program: Program) -> list[int]:
    """The calls of each body, those inside of bodies behind."""
    calls = [one for one in program.operations if isinstance(one, Call)]
    bodies = {id(one.body): one.body for one in calls}
    found = [sum(one.body is body for one in calls) for body in bodies.values()]
    return found + [n for body in bodies.values() for n in calls_of(body)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_layers_are_one_body_and_answer_as_eager(case: Case) -> None:
    torch.manual_seed(0)
    model = case.make().eval()
    compiled = compile_all(model, case.args, dynamic_shapes=case.dynamic, repeat_layers=True)
    assert calls_of(compiled.lowered.program) == [*case.calls]
    agree(compiled, case.args)
    if case.dynamic:
        agree(compiled, (torch.randn(1, 3, 16), torch.ones(1, 1, 3, 3, dtype=torch.bool)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_the_option_no_layer_is_a_call(case: Case) -> None:
    source = Source(case.make().eval(), case.args, dynamic_shapes=case.dynamic)
    assert calls_of(Build(source, BuildOptions(parse_targets("cpu"))).lowered.program) == []


def lines_of(model: nn.Module, *args: torch.Tensor) -> tuple[str, ...]:
    options = BuildOptions(parse_targets("cpu"), repeat_layers=True)
    return Build(Source(model.eval(), args), options).repeats


def test_a_build_says_which_layers_are_one_body() -> None:
    (line,) = lines_of(stack(Unit)(), ROWS)
    found = "layers.0.norm.weight to layers.2.norm.weight"
    assert line == f"3 layers of 6 operators are calls of one body: {found}"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (Stack(Unit(scale=0.5), Unit(scale=2.0)), r"aten.mul.Tensor\(float32\[2, 6, 16\], 0.5\) in "
         r"one is aten.mul.Tensor\(float32\[2, 6, 16\], 2.0\) in the next"),
        (Parallel(), "none of the equal ones takes a result of the one before it"),
        (nn.ReLU(), "no operators with a product among them follow themselves"),
    ],
)  # fmt: skip
def test_a_build_says_why_no_layers_are_one_body(model: nn.Module, told: str) -> None:
    (line,) = lines_of(model, ROWS)
    with pytest.raises(AssertionError, match=f"no layers are calls of one body: {told}"):
        raise AssertionError(line)


def answers_alike(model: Any, other: Any, *args: Any) -> None:
    np.testing.assert_array_equal(np.asarray(model(*args)), np.asarray(other(*args)))


def test_layers_that_draw_answer_as_layers_apart() -> None:
    model, made = stack(Draws)(), []
    for repeat in (True, False):
        made.append(aotpack.compile(model, (ROWS,), target="cpu", repeat_layers=repeat))
    first, other = (np.asarray(one(ROWS, seed=7)) for one in made)
    np.testing.assert_array_equal(first, other)
    assert len(np.unique(first == 0, axis=0)) == 2  # rows draw apart too


def test_an_assertion_of_a_layer_fails() -> None:
    model = aotpack.compile(stack(Checked)(), (ROWS,), target="cpu", repeat_layers=True)
    with pytest.raises(aotpack.errors.AssertionFailed, match="too low"):
        model(ROWS - 200)


@pytest.mark.parametrize("quantize", ["int8", "int4:group=16"])
def test_codes_of_layers_answer_as_those_of_layers_apart(quantize: str) -> None:
    model, args = stack(Attends)().eval(), (ROWS, MASK)
    made = [
        aotpack.compile(model, args, target="cpu", quantize=quantize, repeat_layers=repeat)
        for repeat in (True, False)
    ]
    answers_alike(*made, *args)


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (stack(Convolves), (torch.randn(2, 4, 5, 5),)),
        (stack(lambda: Attends(64)), (torch.randn(2, 20, 64), torch.ones(1, 1, 20, 20) > 0)),
    ],
    ids=["folded norms", "panels of merged products"],
)
def test_weights_are_bound_to_calls(
    make: Callable[[], nn.Module], args: tuple[torch.Tensor, ...]
) -> None:
    model, other = make().eval(), make().eval()
    compiled = compile_all(model, args, targets=(CPU,), repeat_layers=True)
    assert compiled.scheduled.schedule.program.derived
    agree(compiled, args)
    for target, packaged in compiled.models.items():
        packaged.bind_weights(other.state_dict())
        given = on_gpu(args) if target == GPU else args
        torch.testing.assert_close(packaged(*given).cpu(), other(*args), atol=1e-4, rtol=1e-4)


class Sums(nn.Module):
    """Another method over the layers of a stack."""

    def __init__(self, of: Stack) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.of(x, mask).sum(1)


def test_methods_share_the_weights_of_their_bodies() -> None:
    model = stack(Attends, 4)().eval()
    first, second = (ROWS, MASK), (ROWS[:1, :2], MASK[:1, :, :2, :2].contiguous())
    methods = {"run": Method(model, first), "sums": Method(Sums(model), second)}
    packaged: Any = aotpack.compile(methods, target="cpu", repeat_layers=True)
    torch.testing.assert_close(packaged.run(*first), model(*first), atol=1e-5, rtol=1e-5)
    expected = model(*second).sum(1)
    torch.testing.assert_close(packaged.sums(*second), expected, atol=1e-5, rtol=1e-5)


def test_regions_of_strict_exports_are_one_body() -> None:
    model = stack(Region)().eval()
    program = torch.export.export(model, (ROWS[0],), strict=True)
    assert "invoke_subgraph" in str(program.graph)
    options = BuildOptions(parse_targets("cpu"), repeat_layers=True)
    made = Build(Source(program, (ROWS[0],)), options)
    assert calls_of(made.lowered.program) == [3]
    packaged = aotpack.compile(program, (ROWS[0],), target="cpu", repeat_layers=True)
    torch.testing.assert_close(packaged(ROWS[0]), model(ROWS[0]), atol=1e-5, rtol=1e-5)


def test_torch_runs_operators_of_a_body() -> None:
    model = Stack(*(Unit(act=lambda x: torch.special.zeta(x.abs() + 2, x.abs() + 1)) for _ in "ab"))
    packaged = aotpack.compile(model.eval(), (ROWS,), target="cpu", repeat_layers=True)
    torch.testing.assert_close(packaged(ROWS), model(ROWS), atol=1e-4, rtol=1e-4)


def kernels_of(schedule: Schedule) -> int:
    """The kernels that a call of the package runs."""
    return sum(
        kernels_of(kernel.parts[0]) if isinstance(kernel.control, Call) else 1
        for kernel in schedule.kernels
    )


def test_caches_are_written_in_place() -> None:
    torch.manual_seed(0)
    model = stack(Remembers)().eval()
    twin, args = copy.deepcopy(model), (ROWS[:1, :1], torch.tensor([1]))
    apart, together = (
        Build(Source(model, args), BuildOptions(parse_targets("cpu"), repeat_layers=repeat))
        for repeat in (False, True)
    )
    assert kernels_of(together.scheduled.schedule) == kernels_of(apart.scheduled.schedule)
    packaged = aotpack.compile(model, args, target="cpu", repeat_layers=True)
    for place in (0, 1, 2):
        now = torch.randn(1, 1, 16), torch.tensor([place])
        torch.testing.assert_close(packaged(*now), twin(*now), atol=1e-5, rtol=1e-5)
    for name, expected in twin.named_buffers():
        found = torch.as_tensor(packaged.state[name])
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_build_of_many_layers_has_the_kernels_of_few() -> None:
    few, many = (
        build_of(Source(stack(Unit, count)().eval(), (ROWS,)),
                 BuildOptions(parse_targets("cpu,sm_90"), repeat_layers=True)).rendered
        for count in (2, 12)
    )  # fmt: skip
    assert [one.text for one in few.kernels] == [one.text for one in many.kernels]
    assert len(many.wrapper) < 2 * len(few.wrapper)


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=str)
def test_layers_answer_on_a_gpu_as_layers_apart(case: Case) -> None:
    torch.manual_seed(0)
    model = case.make().eval()
    apart, together = (
        aotpack.compile(model, case.args, dynamic_shapes=case.dynamic, repeat_layers=repeat)
        for repeat in (False, True)
    )
    for _ in range(3):
        given = on_gpu(case.args)
        assert torch.equal(together(*given), apart(*given))
