"""Draws from a seed: which models get one, what they draw, and what is refused."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import aotpack
from aotpack.errors import TraceError, UnsupportedError
from aotpack.trace import trace
from aotpack.trace.operators.random.seeds import seeded

N = 20_000
NAMED: dict[str, Any] = {"name": "m", "version": "1"}
X, NORMAL = torch.zeros(N), torch.randn(N)


class Drawing(nn.Module):
    """A function of one tensor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def drawn(function: Callable[..., Any], seed: int = 1, x: torch.Tensor = X) -> torch.Tensor:
    """What the function draws from a seed."""
    result = seeded(copy.deepcopy(Drawing(function)), "m")(x, seed=torch.tensor(seed))
    assert isinstance(result, torch.Tensor)
    return result


# function, mean, deviation, smallest, largest
DISTRIBUTIONS: list[tuple[str, Callable[..., Any], float, float, float, float]] = [
    ("rand", lambda x: torch.rand(N), 0.5, 12**-0.5, 0, 1),
    ("rand_like", lambda x: torch.rand_like(x), 0.5, 12**-0.5, 0, 1),
    ("rand_half", lambda x: torch.rand(size=(N,), dtype=torch.float16), 0.5, 12**-0.5, 0, 1),
    ("rand_double", lambda x: torch.rand(N, dtype=torch.float64), 0.5, 12**-0.5, 0, 1),
    ("randn", lambda x: torch.randn(N // 2, 2), 0, 1, -6, 6),
    ("randn_double", lambda x: torch.randn(N, dtype=torch.float64), 0, 1, -9, 9),
    ("randn_like", lambda x: torch.randn_like(x), 0, 1, -6, 6),
    ("randint", lambda x: torch.randint(10, (N,)), 4.5, 8.25**0.5, 0, 9),
    ("randint_low", lambda x: torch.randint(-2, 3, (N,)), 0, 2**0.5, -2, 2),
    ("randint_like", lambda x: torch.randint_like(x, 4), 1.5, 1.25**0.5, 0, 3),
    ("bernoulli", lambda x: torch.bernoulli(x + 0.25), 0.25, 0.1875**0.5, 0, 1),
    ("bernoulli_", lambda x: x.clone().bernoulli_(0.75), 0.75, 0.1875**0.5, 0, 1),
    ("random_", lambda x: x.clone().random_(-2, 3), 0, 2**0.5, -2, 2),
    ("random_named", lambda x: x.clone().random_(-2, to=3), 0, 2**0.5, -2, 2),
    (
        "random_from",
        lambda x: x.int().random_(2**31 - 4, None).long() - 2**31,
        -2.5,
        1.25**0.5,
        -4,
        -1,
    ),
    ("random_all", lambda x: x.long().random_() * 2.0**-63, 0.5, 12**-0.5, 0, 1),
    ("random_bytes", lambda x: x.byte().random_(), 127.5, 73.9, 0, 255),
    ("random_half", lambda x: x.half().random_(), 1024, 2049 * 12**-0.5, 0, 2048),
    ("random_to", lambda x: x.clone().random_(10), 4.5, 8.25**0.5, 0, 9),
    ("uniform_", lambda x: x.clone().uniform_(-1, 3), 1, 4 / 12**0.5, -1, 3),
    ("normal_", lambda x: x.clone().normal_(2, 3), 2, 3, -16, 20),
    ("exponential_", lambda x: x.clone().exponential_(2), 0.5, 0.5, 0, 10),
    ("normal", lambda x: torch.normal(1.0, 2.0, (N,)), 1, 2, -11, 13),
    ("normal_tensors", lambda x: torch.normal(x + 1, x + 2), 1, 2, -11, 13),
    ("dropout", lambda x: F.dropout(x + 1, 0.2), 1, 0.5, 0, 1.25),
    ("log_normal_", lambda x: x.clone().log_normal_(2, 3).log(), 2, 3, -16, 20),
    ("cauchy_", lambda x: (x.clone().cauchy_(2, 3) - 2).div(3).atan(), 0, math.pi / 12**0.5, -2, 2),
    ("geometric_", lambda x: x.clone().geometric_(0.5), 2, 2**0.5, 1, 24),
    ("dropout2d", lambda x: F.dropout2d((x + 1).view(-1, 2, 1, 1), 0.2), 1, 0.5, 0, 1.25),
    ("alpha_dropout", lambda x: F.alpha_dropout(NORMAL, 0.3, True), 0, 1, -6, 6),
    ("channels", lambda x: F.feature_alpha_dropout(NORMAL[:, None], 0.3, True), 0, 1, -6, 6),
    ("gumbel", lambda x: F.gumbel_softmax(x.view(-1, 2) + 1, hard=True)[:, 0], 0.5, 0.5, 0, 1),
    ("multinomial", lambda x: (x + 1).view(-1, 2).multinomial(1), 0.5, 0.5, 0, 1),
    ("replaced", lambda x: (x + 1).view(-1, 4).multinomial(4, True), 1.5, 1.25**0.5, 0, 3),
    ("randperm", lambda x: torch.randperm(N), (N - 1) / 2, N / 12**0.5, 0, N - 1),
]


@pytest.mark.row("S:H21", "C:E24")
@pytest.mark.parametrize("row", DISTRIBUTIONS, ids=lambda row: row[0])
def test_distributions(row: tuple[str, Callable[..., Any], float, float, float, float]) -> None:
    _, function, mean, deviation, low, high = row
    x = drawn(function).double()
    assert abs(float(x.mean()) - mean) < 5 * deviation / math.sqrt(x.numel()) * 1.5
    assert abs(float(x.std()) - deviation) < 0.05 * deviation
    assert low <= float(x.min()) and float(x.max()) <= high
    assert torch.equal(x, drawn(function).double())
    assert not torch.equal(x, drawn(function, seed=2).double())


def test_halves_stay_below_one() -> None:
    for dtype in (torch.float16, torch.bfloat16):
        assert float(drawn(lambda x, dtype=dtype: torch.rand(N, dtype=dtype)).max()) < 1


@pytest.mark.row("C:def8")
def test_streams_differ() -> None:
    pair = drawn(lambda x: torch.stack([torch.rand(N), torch.rand(N)]))
    assert abs(float(torch.corrcoef(pair)[0, 1])) < 0.03


def test_permutations_and_races_have_no_repeats() -> None:
    assert drawn(lambda x: torch.randperm(50)).unique().numel() == 50
    rows = drawn(lambda x: torch.ones(100, 5).multinomial(5))
    assert torch.equal(rows.sort(1).values, torch.arange(5).expand(100, 5))
    never = drawn(lambda x: torch.tensor([0.0, 1.0, 0.0, 2.0]).expand(100, 4).multinomial(2))
    assert not bool(((never == 0) | (never == 2)).any())


@pytest.mark.parametrize("function", [F.dropout2d, F.feature_alpha_dropout])
def test_channels_are_dropped_whole(function: Callable[..., torch.Tensor]) -> None:
    x = drawn(lambda x: function((x + 1).view(5, -1, 4, 10), 0.5, True))
    first = x[..., :1, :1]
    assert torch.equal(x, first.expand_as(x))
    assert first.unique().numel() == 2


@pytest.mark.parametrize(("function", "rank"), [(F.dropout1d, 2), (F.dropout3d, 4)])
def test_a_tensor_without_a_batch_has_channels_first(
    function: Callable[..., torch.Tensor], rank: int
) -> None:
    x = drawn(lambda x: function((x + 1).view(-1, *(2,) * (rank - 1)), 0.5))
    assert torch.equal(x, x.flatten(1)[:, 0].view(-1, *(1,) * (rank - 1)).expand_as(x))
    assert x.unique().numel() == 2


def test_a_dropout_in_place_changes_its_argument() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        F.dropout2d(y.view(-1, 2, 1, 1), 0.5, inplace=True)
        return y

    assert drawn(forward).unique().tolist() == [0, 2]


@pytest.mark.parametrize("p", [0.0, 1.0])
@pytest.mark.parametrize("function", [F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout])
def test_all_or_none_is_dropped(function: Callable[..., torch.Tensor], p: float) -> None:
    x = drawn(lambda x: function((x + 1).view(5, -1, 4, 10), p, True))
    assert torch.equal(x, torch.full_like(x, 1 - p))


@pytest.mark.row("S:H21", "C:E25")
def test_a_seed_is_asked_for_only_by_what_draws() -> None:
    function = Drawing(lambda x: F.dropout(x, 0.5, training=False) + 1)
    traced = trace(function, (torch.ones(3),), {}, name="m", version="1")
    assert [spec.name for spec in traced.graph.signature.inputs] == ["x"]
    traced = trace(Drawing(torch.rand_like), (torch.ones(3),), {}, name="m", version="1")
    signature = traced.graph.signature
    assert [str(spec) for spec in signature.inputs] == ["x: float32[3]", "seed: int64[]"]
    assert signature.kwargs.keys == ("seed",)
    assert traced.golden.eager_errors == (0.0,)


def test_ends_of_integers_are_traced() -> None:
    """torch.export cannot write a call with the keyword "from"."""
    traced = trace(Drawing(lambda x: x + torch.zeros(3).random_(0, 50)), (torch.ones(3),), **NAMED)
    assert [spec.name for spec in traced.graph.signature.inputs] == ["x", "seed"]
    for ends in ((), (0, None)):
        draw = Drawing(lambda x, ends=ends: x + torch.zeros(3).random_(*ends))
        assert trace(draw, (torch.ones(3),), **NAMED).graph.signature.kwargs.keys == ("seed",)


@pytest.mark.parametrize(
    ("low", "high"), [(-1000, 1000), (299, 303), (-303, -299), (250, 2**40), (256, 257)]
)
def test_integers_that_a_type_lacks_stay_in_their_range(low: int, high: int) -> None:
    x = drawn(lambda x: x.bfloat16().random_(low, high)).double()
    assert low <= x.min() and x.max() < high


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda x: x.byte().random_(0, 300), r"uint8 .* \[0, 256\).*not in \[0, 300\); change"),
        (lambda x: x.bool().random_(-1, 2), r"bool .* \[0, 2\).*not in \[-1, 2\)"),
        (lambda x: torch.randint(0, 70000, (3,), dtype=torch.half), r"\[-65504, 65505\), not in"),
        (lambda x: x.random_(5, 5), r"not in \[5, 5\)"),
        (lambda x: x.long().random_(-2, 2**63 - 1), r"at most 2\*\*63 numbers.*not in \[-2, 92"),
        (lambda x: x.bfloat16().random_(1025, 1028), r"bfloat16 has no integer in \[1025, 1028\)"),
        (
            lambda x: x.half().random_(2049, 2050),
            r"float16 has no integer in \[2049, 2050\); change",
        ),
    ],
)
def test_ranges_beyond_a_type_are_refused(draw: Callable[..., Any], words: str) -> None:
    with pytest.raises(TraceError, match=rf"{words}.*\n  at test_random.py"):
        trace(Drawing(lambda x: draw(x.clone())), (torch.ones(3),), **NAMED)


def test_what_cannot_be_drawn_is_refused() -> None:
    module = Drawing(lambda x: F.rrelu(x, training=True))
    found = r"aten\.rrelu\.default at test_random\.py:\d+: .* cannot be drawn from a seed"
    with pytest.raises(
        UnsupportedError, match=rf"{found}. Draw it outside of the model.*; or draw by .*rand"
    ):
        trace(module, (torch.ones(8),), {}, name="m", version="1")
    module = Drawing(lambda x: torch.rand(8, out=torch.empty(8)) + x)
    with pytest.raises(UnsupportedError, match=r"aten.rand.* cannot be drawn"):
        trace(module, (torch.ones(8),), {}, name="m", version="1")
    program = torch.export.export(Drawing(torch.rand_like), (torch.ones(3),))
    with pytest.raises(
        UnsupportedError, match=r"rand_like.default at .* cannot be drawn .*not in a .pt2 file"
    ):
        trace(program, (torch.ones(3),), {}, name="m", version="1")


def test_layers_that_drop_nothing_in_eval_mode_need_no_seed() -> None:
    layers: list[nn.Module] = [nn.Dropout(0.5), nn.TransformerEncoderLayer(8, 2, 8, 0.1)]
    for layer in layers:
        traced = trace(layer, (torch.ones(2, 3, 8),), {}, name="m", version="1")
        assert len(traced.graph.signature.inputs) == 1
    traced = trace(nn.LSTM(8, 8, 2, dropout=0.1), (torch.ones(2, 3, 8),), {}, name="m", version="1")
    assert len(traced.graph.signature.inputs) == 1


class Seeded(nn.Module):
    """A model with an input of that name."""

    def forward(self, seed: torch.Tensor) -> torch.Tensor:
        return torch.rand_like(seed)


def test_an_input_called_seed_is_refused() -> None:
    with pytest.raises(TraceError, match="forward has one already. Rename it"):
        trace(Seeded(), (torch.ones(3),), {}, name="m", version="1")


def by_the_seed(x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return x[:8] + torch.randn(8)


def by_a_generator(x: torch.Tensor) -> torch.Tensor:
    return x[:8] + torch.randn(8, generator=torch.Generator().manual_seed(0))


def as_before(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return x[:8] + torch.randn(8)


@pytest.mark.parametrize("function", [by_the_seed, by_a_generator, as_before])
def test_a_forward_with_a_seed_of_its_own_is_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(TraceError, match=r"and it (seeds torch's generator|draws the same .*);"):
        trace(Drawing(function), (X,), name="m", version="1")


def test_a_generator_of_the_model_and_draws_without_effect_are_accepted() -> None:
    class Counted(Drawing):
        def __init__(self) -> None:
            super().__init__(nn.BatchNorm1d(8))

        def forward(self, x: torch.Tensor) -> Any:
            return super().forward(x) + (torch.rand(8) < 2)

    state, generator = torch.get_rng_state(), torch.Generator().manual_seed(0)
    functions = (
        lambda x: x[:8] + torch.randn(8, generator=generator),
        lambda x: x[:8] + (torch.rand(8) < 2),
    )
    for function in functions:
        assert trace(Drawing(function), (X,), name="m", version="1")
    model = Counted()
    assert trace(model, (torch.ones(3, 8),), name="m", version="1")
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model.function.running_mean, torch.zeros(8))


def test_a_layer_made_in_forward_is_named() -> None:
    class Made(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made: torch.Tensor = nn.Linear(4, 4)(x)
            return made

    with pytest.raises(UnsupportedError, match=r"forward makes a layer.* in __init__"):
        trace(Made(), (torch.randn(4, 4),), {}, name="m", version="1")


def test_integers_of_small_floats_and_up_to_a_size() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            small = torch.zeros(64, dtype=torch.float8_e4m3fn).random_(0, 5).float()
            drawn = torch.randint(0, x.shape[0], (64,)) + small * 0
            return torch.stack([small, drawn, torch.zeros(64).random_(0, x.shape[0])])

    sizes = {"x": {0: Dim("n", min=1, max=2**30)}}
    model = aotpack.compile(Model(), (torch.ones(7),), target="cpu", dynamic_shapes=sizes)
    for size in (1, 2, 7):
        small, drawn, floats = model(torch.ones(size), seed=3)
        assert small.unique().tolist() == [0, 1, 2, 3, 4]
        assert drawn.unique().tolist() == floats.unique().tolist() == [*range(size)]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_categories_are_drawn_by_their_probabilities(dtype: torch.dtype) -> None:
    even = (torch.ones(20, 2000) / 2000).to(dtype)
    counts = torch.bincount(drawn(lambda x: x.multinomial(2000, True), x=even).flatten())
    assert counts.numel() == 2000
    assert 0 < counts.min() <= counts.max() < 60
    some = torch.zeros(400, 8)
    some[:, 1:4] = some[:, 6] = 1 / 4
    found = drawn(lambda x: x.multinomial(64, True), x=some.to(dtype))
    assert found.unique().tolist() == [1, 2, 3, 6]


def test_what_is_dropped_is_multiplied_by_0() -> None:
    x = torch.tensor([math.inf, -math.inf, math.nan, 1.0]).repeat(200)
    for p in (0.5, 1.0):
        found = drawn(lambda x, p=p: F.dropout(x, p), x=x).view(-1, 4)
        assert found[:, :3].isnan().any(0).all() and F.dropout(x, p).isnan().any()
        assert {*found[:, 3].tolist()} == ({0.0, 2.0} if p < 1 else {0.0})


COMPLEX: dict[str, tuple[Callable[..., Any], complex, float]] = {  # mean, variance of each part
    "randn": (lambda x: torch.randn(N, dtype=torch.complex64), 0, 0.5),
    "randn_like": (lambda x: torch.randn_like(x, dtype=torch.complex128), 0, 0.5),
    "normal_": (lambda x: x.to(torch.complex64).normal_(1, 2), 1 + 1j, 2),
    "normal": (lambda x: torch.normal(1.0, 2.0, (N,), dtype=torch.complex64), 1 + 1j, 2),
    "rand": (lambda x: torch.rand(N, dtype=torch.complex64), 0.5 + 0.5j, 1 / 12),
    "rand_like": (lambda x: torch.rand_like(x, dtype=torch.complex64), 0.5 + 0.5j, 1 / 12),
    "uniform_": (lambda x: x.to(torch.complex64).uniform_(1, 3), 2 + 2j, 1 / 3),
}


@pytest.mark.parametrize(("function", "mean", "variance"), COMPLEX.values(), ids=COMPLEX)
def test_complex_numbers_have_two_parts(
    function: Callable[..., Any], mean: complex, variance: float
) -> None:
    for found in (drawn(function), function(X)):
        parts = torch.view_as_real(found).double()
        want = torch.tensor([mean.real, mean.imag], dtype=torch.float64)
        torch.testing.assert_close(parts.mean(0), want, rtol=0, atol=6 * (variance / N) ** 0.5)
        spread = torch.full((2,), variance, dtype=torch.float64)
        torch.testing.assert_close(parts.var(0), spread, rtol=0.06, atol=0)
        assert abs(torch.corrcoef(parts.T)[0, 1]) < 6 / N**0.5


def test_integers_of_a_complex_type_are_refused() -> None:
    def complex_ones(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(8, dtype=torch.complex64).random_(0, 5).real + x[:8]

    with pytest.raises(TraceError, match="integers are of integer types, bool and floats, not of"):
        trace(Drawing(complex_ones), (X,), name="m", version="1")
