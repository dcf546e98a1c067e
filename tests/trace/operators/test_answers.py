"""Functions that ask their data whether they may run are exported without the question."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, Distribution, Geometric, Normal
from torch.export import Dim

import aotpack
from aotpack.errors import AotpackError, TraceError
from aotpack.lower.registry import LOWERINGS
from aotpack.trace import trace
from aotpack.trace.operators.answers import WithoutDataChecks
from tests.lower.oracle import check_traced, floats

X = floats(4, 6)
WITH_NAN = X.where(X.abs() > 0.3, float("nan"))
WHOLE = torch.tensor([1, 2, 3, 1, 0, 2])
Q = torch.tensor([0.0, 0.4, 1.0])
BATCH = Dim("batch", min=1, max=64)

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cov": torch.cov,
    "cov_of_a_row": lambda x: torch.cov(x[0]),
    "weighted_cov": lambda x: x.cov(correction=1, fweights=WHOLE, aweights=x[0].abs() + 1),
    "complex_cov": lambda x: torch.view_as_real(torch.cov(torch.complex(x, x.flip(0) + 2 * x))),
    "weighted_complex_cov": lambda x: torch.view_as_real(
        torch.complex(x, x.flip(1)).cov(fweights=WHOLE, aweights=x[0].abs() + 1)
    ),
    "complex_corrcoef": lambda x: torch.view_as_real(torch.corrcoef(torch.complex(x, x.flip(1)))),
    "corrcoef": torch.corrcoef,
    "corrcoef_of_a_row": lambda x: torch.corrcoef(x[0]),
    "quantile": lambda x: torch.quantile(x, Q, 1),
    "quantile_of_all": lambda x: x.quantile(0.3, keepdim=True),
    "nearest_quantile": lambda x: x.quantile(Q, 0, keepdim=True, interpolation="nearest"),
    "midpoint_of_nan": lambda x: WITH_NAN.quantile(0.7, -1, interpolation="midpoint").isnan(),
    "midpoint": lambda x: x.quantile(0.7, -1, interpolation="midpoint"),
    "nanquantile": lambda x: torch.nanquantile(WITH_NAN, Q, 0),
    "variance_of_a_row": lambda x: F.gaussian_nll_loss(x, x + 1, x[:, 0] ** 2, reduction="sum"),
    "gaussian_nll_loss": lambda x: F.gaussian_nll_loss(x, x.roll(1, 0), x.square(), full=True),
}


class Model(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.row("S:H26")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_answers_as_eager(name: str) -> None:
    module = Model(FUNCTIONS[name])
    check_traced(trace(module, (X,), name="m", version="1"), module, (X,))


def test_what_is_left_out_is_the_question_alone() -> None:
    negative = torch.full((4, 6), -1.0)
    with pytest.raises(ValueError, match="negative"):
        F.gaussian_nll_loss(X, X, negative)
    with WithoutDataChecks():
        assert F.gaussian_nll_loss(X, X, negative).isfinite()
        with pytest.raises(ValueError, match=r"variances of \(3, 6\)"):
            F.gaussian_nll_loss(X, X, negative[:3])


QUANTILES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a number": lambda x: x.quantile(0.5, dim=1),
    "several": lambda x: x.quantile(Q, 1, keepdim=True),
    "of rows": lambda x: x.quantile(0.3, 0, keepdim=True),
    "of all": lambda x: x.quantile(Q),
    "ignoring NaN": lambda x: x.nanquantile(Q, 1),
    **{
        way: lambda x, way=way: x.quantile(0.7, 1, interpolation=way)  # type: ignore[misc]
        for way in ("lower", "higher", "nearest", "midpoint")
    },
}
SHAPES = ((1, 1), (2, 2), (8, 1), (1, 31), (3, 13), (8, 40))


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_of_dynamic_sizes(name: str) -> None:
    module = Model(QUANTILES[name])
    shapes = ({0: Dim("b", min=1, max=8), 1: Dim("n", min=1, max=40)},)
    traced = trace(module, (X,), dynamic_shapes=shapes, name="m", version="1")
    drawn = [floats(*shape) for shape in SHAPES]
    with_nan = [x.where(x < 1.5, torch.nan) for x in drawn]
    check_traced(traced, module, *((x,) for x in (*drawn, *with_nan)))


def test_a_quantile_of_a_size_taken_as_a_number_is_refused() -> None:
    module = Model(lambda x: x.quantile(float(x.shape[1]) / 50, dim=1))
    with pytest.raises(TraceError, match="(?s)right only for some.*n is 6"):
        trace(module, (X,), dynamic_shapes=({1: Dim("n", max=40)},), name="m", version="1")


@pytest.mark.parametrize("rows", [5, 30])
def test_distances_of_any_number_of_rows(rows: int) -> None:
    """torch chooses an algorithm by the number, for which an exported program has no branch."""
    module, shapes = Model(lambda x: torch.cdist(x, X)), ({0: Dim("n", min=1, max=60)},)
    options = {"name": "m", "version": "1", "whole": frozenset(LOWERINGS)}
    traced = trace(module, (floats(rows, 6),), dynamic_shapes=shapes, **options)
    check_traced(traced, module, *((floats(n, 6),) for n in (1, 2, 25, 26, 60)))


def test_products_give_distances_where_the_model_says_so() -> None:
    multiplied = Model(lambda x: torch.cdist(x, X, compute_mode="use_mm_for_euclid_dist"))
    many, n = Model(lambda x: torch.cdist(x, X)), Dim("n", min=26, max=60)
    for module in (multiplied, many):
        options = {"name": "m", "version": "1", "whole": frozenset(LOWERINGS)}
        traced = trace(module, (floats(30, 6),), dynamic_shapes=({0: n},), **options)
        assert "aten.matmul.default" in [node.op for node in traced.graph.nodes]


@pytest.mark.parametrize("points", [100, 20])
@pytest.mark.parametrize("example", [3, 30])
def test_distances_to_fixed_points(points: int, example: int) -> None:
    """torch asks for the dynamic number of rows first, which does not matter for many points."""
    fixed = floats(points, 6)
    module, shapes = Model(lambda x: torch.cdist(x, fixed)), ({0: BATCH},)
    options = {"name": "m", "version": "1", "whole": frozenset(LOWERINGS)}
    traced = trace(module, (floats(example, 6),), dynamic_shapes=shapes, **options)
    check_traced(traced, module, *((floats(n, 6),) for n in (1, 20, 30, 64)))
    is_multiplied = "aten.matmul.default" in [node.op for node in traced.graph.nodes]
    assert is_multiplied == (points > 25)


def test_a_model_that_asks_for_the_number_of_rows_itself_is_refused() -> None:
    module = Model(lambda x: torch.cdist(x, x) if x.shape[0] > 25 else x)
    with pytest.raises(TraceError, match="(?s)right only for some.*batch <= 25"):
        trace(module, (X,), dynamic_shapes=({0: BATCH},), name="m", version="1")


@pytest.fixture
def validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's compiler turns the checks of distributions off, in the whole process."""
    monkeypatch.setattr(Distribution, "_validate_args", True)


@pytest.mark.usefixtures("validation")
def test_what_a_distribution_checks_is_asserted() -> None:
    model = Model(lambda x: Normal(x, x + 1).log_prob(x + 2) + Categorical(x + 1).entropy().sum())
    packaged = aotpack.compile(model, (X.abs(),), target="cpu")
    torch.testing.assert_close(packaged(X.abs()), model(X.abs()))
    with pytest.raises(ValueError, match="Expected parameter scale"):
        model(X - 9)
    with pytest.raises(AotpackError, match=r"(?s)scale of a distribution.*test_answers\.py"):
        packaged(X - 9)


@pytest.mark.usefixtures("validation")
def test_other_branches_of_distributions_are_refused() -> None:
    model = Model(lambda x: Geometric(x.sigmoid()).log_prob(x.abs().round()))
    with pytest.raises(TraceError, match=r"(?s)data-dependent.*validate_args=False"):
        trace(model, (X,), name="m", version="1")
    model = Model(lambda x: Geometric(x.sigmoid(), validate_args=False).entropy())
    packaged = aotpack.compile(model, (X,), target="cpu")
    torch.testing.assert_close(packaged(X), model(X))


def test_a_mask_that_may_be_causal_is_told() -> None:
    layers = nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    given = (torch.randn(2, 5, 8), torch.randn(2, 3, 8))
    model = Model(lambda x: layers(x, given[1], tgt_mask=mask))
    with pytest.raises(TraceError, match=r"(?s)data-dependent.*tgt_is_causal=True"):
        trace(model, given[:1], name="m", version="1")
    model = Model(lambda x: layers(x, given[1], tgt_mask=mask, tgt_is_causal=True))
    packaged = aotpack.compile(model, given[:1], target="cpu")
    torch.testing.assert_close(packaged(given[0]), model(given[0]), rtol=1e-4, atol=1e-5)


class Stored(nn.Module):
    """A copy of the input, in which a function writes where an integer says."""

    def __init__(self, write: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
        super().__init__()
        self.write = write

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        self.write(y, i)
        return y


def set_item(*key: object, value: object) -> Callable[[torch.Tensor, torch.Tensor], object]:
    """``y[key] = value``; "i" stands for the integer, and a function of ``y`` for a value."""

    def write(y: torch.Tensor, i: torch.Tensor) -> None:
        at = tuple(i if one == "i" else one for one in key)
        y[at[0] if len(at) == 1 else at] = value(y) if callable(value) else value

    return write


STORED = {
    "a number": set_item("i", value=5),
    "a bool": set_item("i", value=True),
    "a row": set_item("i", value=torch.arange(6.0)),
    "a row of the tensor": set_item("i", value=lambda y: y[1]),
    "a row with leading ones": set_item(None, "i", slice(None), None, value=X[:1, None, :, None]),
    "an element": set_item("i", -1, value=7),
    "a part": set_item(..., "i", slice(1, 3), value=2.5),
    "a column": set_item(slice(None), "i", value=torch.arange(4)),
    "the diagonal": set_item("i", "i", value=0),
}


@pytest.mark.parametrize("name", STORED)
def test_an_integer_that_data_decide_says_where_to_write(name: str) -> None:
    model = Stored(STORED[name])
    packaged = aotpack.compile(model, (X, torch.tensor(1)), target="interpreter")
    for number in (0, 3, -1, -4):
        given = X + number, torch.tensor(number)
        assert torch.equal(packaged(*given), model(*given))


def test_an_integer_beyond_the_elements_is_found() -> None:
    model, given = Stored(STORED["a number"]), (X, torch.tensor(1))
    packaged = aotpack.compile(model, given, target="cpu", check_indices=True)
    with pytest.raises(IndexError):
        model(X, torch.tensor(4))
    with pytest.raises(AotpackError, match=r"(?s)at least -4 and less than 4.*test_answers\.py"):
        packaged(X, torch.tensor(4))
