"""Taking apart by what is remembered, beside torch's own public way."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import exported_program
from torch.nn import functional as F

import aotpack
from aotpack.errors import TraceError, UnsupportedError
from aotpack.lower import LOWERINGS, lower
from aotpack.trace import trace
from aotpack.trace.capture import decompose
from aotpack.trace.operators import decompositions
from aotpack.trace.operators.decompositions import KEPT_WHOLE
from aotpack.trace.operators.registered import RegisteredLowerings

WHOLE = frozenset(LOWERINGS)
FEWER = WHOLE - {"aten.linear.default", "aten.layer_norm.default"}


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


class Composites(nn.Module):
    """Composite operators that are kept, are taken apart, and have a decomposition in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.norm(self.layer(x))
        z = F.pad(F.interpolate(y, scale_factor=2.0), (1, 1)).std(-1)
        z += torch.einsum("bij,bkj->bk", y, x)
        return z.chunk(2, 1)[0], torch.outer(z[0], z[1]).clip(0, 1), x.movedim(0, 1).diff()


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(Composites().eval(), (torch.randn(2, 3, 8),))


def _public(
    program: torch.export.ExportedProgram, whole: frozenset[str] | None
) -> torch.export.ExportedProgram:
    table = {}
    if whole is not None:
        table = {**torch._decomp.decomposition_table, **torch.export.default_decompositions()}
        kept = whole | KEPT_WHOLE
        table = {operator: made for operator, made in table.items() if str(operator) not in kept}
    with torch.no_grad(), RegisteredLowerings():
        return program.run_decompositions(table)


@pytest.mark.parametrize("whole", [None, FEWER, WHOLE], ids=["none", "more", "ours"])
def test_programs_are_those_of_run_decompositions(
    program: torch.export.ExportedProgram, whole: frozenset[str] | None
) -> None:
    ours, public = decompose(program, name="m", whole=whole), _public(program, whole)
    assert str(ours.graph) == str(public.graph)
    assert ours.graph_signature == public.graph_signature


@pytest.mark.parametrize("step", decompositions._STEPS)
def test_a_torch_with_other_steps_is_asked_publicly(
    program: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    ours = decompose(program, name="m", whole=FEWER)
    monkeypatch.setitem(decompositions._STEPS, step, ("what", "it", "took"))
    monkeypatch.setattr(decompositions, "_split_table", None)  # the steps are not taken
    assert str(decompose(program, name="m", whole=FEWER).graph) == str(ours.graph)


def test_a_torch_without_its_table_is_refused(
    program: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch._decomp, "decomposition_table")
    with pytest.raises(TraceError, match=r"functionalising m: torch .* has no torch\._decomp"):
        decompose(program, name="m", whole=frozenset({"aten.linear.default"}))


def test_few_operators_are_told_by_name() -> None:
    split = exported_program._split_decomp_table_to_cia_and_python_decomp
    composite, _ = decompositions._split_table(split, frozenset(LOWERINGS))
    everything, _ = decompositions._split_table(split, None)
    assert len(composite) < len(everything) / 2
    assert torch.ops.aten.linear.default in composite
    assert torch.ops.aten.einsum.default not in composite


def _views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    halves = x.reshape(-1, 4).flatten().unflatten(0, (2, -1)).chunk(2, 1)
    return (
        *halves,
        x.movedim(0, 1).contiguous().view(x.shape[1] * x.shape[0]),
        x.mT.expand_as(x.mT),
    )


def _casts(x: torch.Tensor) -> torch.Tensor:
    return (x.to(torch.float16).to("cpu") + x.double().type_as(x)).resolve_neg()


def _off(x: torch.Tensor) -> torch.Tensor:
    mean, variance = x[0], x[1] ** 2 + 1
    return F.dropout(F.batch_norm(x, mean, variance), 0.5, training=False)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", [_views, _casts, _off, torch.tanh])
def test_a_program_of_operators_that_stay_is_not_traced_again(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any], dynamic: bool
) -> None:
    shapes = {"args": ({0: torch.export.Dim("n", min=2, max=64) * 4},)} if dynamic else None
    model, x = Function(function), torch.randn(8, 8)
    step = "_decompose_and_get_gm_with_new_signature_constants"
    monkeypatch.setattr(exported_program, step, None)
    packaged = aotpack.compile(model, (x,), dynamic_shapes=shapes, target="cpu")
    for given in (x, torch.randn(12, 8)) if dynamic else (x,):
        torch.testing.assert_close(packaged(given), model(given))


def test_a_copied_program_has_its_names_and_its_own_graph() -> None:
    class Input(nn.Module):
        def forward(self, input: torch.Tensor, len: torch.Tensor) -> torch.Tensor:
            return input.reshape(-1) + len

    program = torch.export.export(Input(), (torch.randn(2, 3), torch.randn(6)))
    copied = decompose(program, name="m", whole=WHOLE)
    assert [one.name for one in copied.graph.nodes] == [one.name for one in program.graph.nodes]
    assert copied.graph_signature == program.graph_signature
    assert copied.graph is not program.graph
    assert copied.state_dict is not program.state_dict


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.to(torch.float32),
        lambda x: x.to(x.device).type_as(x),
        lambda x: F.dropout(x, 0.5, training=False),
        lambda x: +x.contiguous().resolve_conj(),
    ],
    ids=["type", "place", "dropout", "sign"],
)
def test_operators_that_give_their_argument_are_left_out(function: Callable[..., Any]) -> None:
    model = Function(lambda x: function(x).sin())
    traced = trace(model, (torch.randn(2, 3),), name="m", version="1", whole=WHOLE)
    assert [node.op for node in traced.graph.nodes] == ["aten.sin.default"]


def test_a_conversion_to_another_type_is_not_left_out() -> None:
    model = Function(lambda x: x.to(torch.float16).sin())
    traced = trace(model, (torch.randn(2, 3),), name="m", version="1", whole=WHOLE)
    assert [node.op for node in traced.graph.nodes] == ["aten.to.dtype", "aten.sin.default"]


def _in_place(x: torch.Tensor) -> torch.Tensor:
    return x.clone().add_(1)


def _constant(x: torch.Tensor) -> torch.Tensor:
    return x + torch.tensor([1.0])


def _drawn(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.5, training=True)


def _statistics(x: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, training=True)


def _branch(x: torch.Tensor) -> torch.Tensor:
    chosen: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    return chosen


def _complex(x: torch.Tensor) -> torch.Tensor:
    return (x.to(torch.complex64) * 2).abs()


def _counted(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].reshape(-1, 1)


@pytest.mark.parametrize(
    "function",
    [
        *(_in_place, _constant, _drawn, _statistics, _branch, _complex, _counted),
        *(nn.RNN(8, 4), F.mish),
    ],
)
def test_a_program_that_changes_or_draws_is_traced_again(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., torch.Tensor]
) -> None:
    with torch.no_grad():
        program = torch.export.export(Function(function), (torch.randn(8, 8),))
    monkeypatch.setattr(decompositions, "_copied", None)
    decompose(program, name="m", whole=WHOLE - {"aten.mish.default"})


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.linalg.inv, "aten.linalg_inv.default"),
        (torch.inverse, "aten.linalg_inv.default"),
        (lambda x: torch.linalg.solve(x, x), "aten.linalg_solve.default"),
        (lambda x: torch.linalg.cholesky(x @ x.mT + 4), "aten.linalg_cholesky.default"),
    ],
)
def test_an_operator_that_checks_its_data_is_named_itself(function, name):
    class Model(nn.Module):
        def forward(self, x):
            return function(x)

    x = torch.eye(3) * 2
    traced = trace(Model(), (x,), name="m", version="1", whole=frozenset(LOWERINGS))
    with pytest.raises(UnsupportedError, match=f"{name} .*no lowering(.|\n)*fallback torch"):
        lower(traced)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("rank", [1, 2])
def test_labels_end_at_the_first_negative_one(reduction: str, rank: int) -> None:
    class Loss(nn.Module):
        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return F.multilabel_margin_loss(x, labels, reduction=reduction)

    x, full = torch.randn(5, 4), torch.tensor([[3, 0, 1, 2]]).repeat(5, 1)
    ended = torch.tensor([[3, 0, -1, 1], [-1] * 4, [2, -1, -1, -1], [0, 1, 2, -1], [1, 0, 3, 2]])
    full, rows = (full, ended) if rank == 2 else (full[0], ended[0])
    x = x if rank == 2 else x[0]
    model = aotpack.compile(Loss(), (x, full), target="interpreter")
    for labels in (full, rows):
        torch.testing.assert_close(model(x, labels), Loss()(x, labels))


@pytest.mark.parametrize("align", [True, False], ids=["aligned", "not aligned"])
@pytest.mark.parametrize(
    "size", [(3, 1, 4, 1), (3, 2, 1, 1), (3, 1, 5, 3), (3, 1, 1, 4, 3)], ids=str
)
def test_affine_grids_with_sides_of_1(size: tuple[int, ...], align: bool) -> None:
    class Grid(nn.Module):
        def forward(self, theta: torch.Tensor) -> torch.Tensor:
            return F.affine_grid(theta, list(size), align_corners=align)

    dims = len(size) - 2
    theta = torch.randn(3, dims, dims + 1, generator=torch.Generator().manual_seed(0))
    model = aotpack.compile(Grid(), (theta,), target="cpu")
    torch.testing.assert_close(model(theta), Grid()(theta))


FACTORIES: dict[str, Callable[[int], torch.Tensor]] = {
    "frequencies": lambda n: torch.fft.fftfreq(n, 0.5),
    "half frequencies": lambda n: torch.fft.rfftfreq(n),
    "frequencies in float64": lambda n: torch.fft.fftfreq(n, dtype=torch.float64),
    "bartlett": torch.bartlett_window,
    "symmetric bartlett": lambda n: torch.bartlett_window(n, False),
    "blackman": torch.blackman_window,
    "symmetric blackman": lambda n: torch.blackman_window(n, False),
    "hamming": torch.hamming_window,
    "hamming of parameters": lambda n: torch.hamming_window(n, False, 0.6, 0.4),
    "kaiser": torch.kaiser_window,
    "kaiser of a shape": lambda n: torch.kaiser_window(n, False, beta=3.0, dtype=torch.float64),
    "range": lambda n: torch.range(0.5, n, 0.7),
    "range downwards": lambda n: torch.range(n, 0, -2),
}


NO_LENGTH = ("half frequencies", "range", "range downwards")  # of 0


@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_constants_by_formulas(name: str) -> None:
    class Lengths(nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [x * FACTORIES[name](n) for n in lengths]

    lengths = [n for n in (0, 1, 2, 7, 8) if n or name not in NO_LENGTH]
    x = torch.ones(1)
    model = aotpack.compile(Lengths(), (x,), target="cpu")
    for found, wanted in zip(model(x), Lengths()(x), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_affine_grids_of_dynamic_sides() -> None:
    class Grid(nn.Module):
        def forward(self, theta: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return F.affine_grid(theta, list(x.shape), align_corners=True)

    given = (torch.randn(3, 2, 3), torch.randn(3, 1, 4, 5))
    shapes = {"theta": {}, "x": {2: torch.export.Dim("side", min=1, max=40)}}
    package = aotpack.compile(Grid(), given, target="cpu", dynamic_shapes=shapes)
    for side in (1, 2, 5, 40):
        x = torch.randn(3, 1, side, 5)
        torch.testing.assert_close(package(given[0], x), Grid()(given[0], x))


@pytest.mark.parametrize("name", ["code", "graph", "meta", "recompile", "_graph"])
@pytest.mark.parametrize("kind", ["parameter", "module", "state"])
def test_weights_may_have_names_of_torchs_modules_of_graphs(name: str, kind: str) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.other = nn.Linear(6, 6)
            if kind == "module":
                setattr(self, name, nn.Linear(6, 6))
            elif kind == "parameter":
                setattr(self, name, nn.Parameter(torch.ones(6, 6)))
            else:
                self.register_buffer(name, torch.ones(6, 6))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            own = getattr(self, name)
            y = own(x) if kind == "module" else x @ own
            if kind == "state":
                own.add_(1)
            return self.other(y), x[x > 0]

    model = Named()
    traced = trace(model, (torch.randn(5, 6),), name="m", version="1")
    assert {one.name for one in traced.graph.weights} == {*model.state_dict()}
