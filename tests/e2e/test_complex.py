"""Complex numbers inside of a model and at its border, as pairs of reals."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.emit import write_package
from aotpack.errors import AotpackError, UnsupportedError
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.pipeline import Build, BuildOptions, Source, compile
from aotpack.runtime import load
from aotpack.runtime.errors import ArgumentError
from aotpack.runtime.selftest import check_golden
from aotpack.target import CPU
from tests.e2e.law import LAW, accuracy_complaint
from tests.e2e.oracle import agree, compile_all, weight_arrays

X, Y = torch.randn(4, 5), torch.randn(4, 5)


class Rotary(nn.Module):
    """The rotary embedding of Llama's first code; ``kind`` is where the complex table lies."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(32).float(), 10000.0 ** -(torch.arange(4) / 4))
        table = torch.polar(torch.ones_like(angles), angles)
        if kind == "attribute":
            self.table = table
        else:
            self.register_buffer("table", table, persistent=kind == "state")

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turns = self.table[: q.shape[1]].view(1, q.shape[1], 1, 4)
        pairs = (torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) for x in (q, k))
        return tuple(torch.view_as_real(pair * turns).flatten(3).type_as(q) for pair in pairs)


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)


def moved(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = torch.complex(x, y)
    both = torch.cat([z, z.flip(0)], -1).unsqueeze(1).transpose(0, -1)
    rows = torch.stack([z, -z])[..., 1:].index_select(-1, torch.tensor([2, 0]))
    return both.real, both.imag, torch.view_as_real(rows.reshape(-1, 4).permute(1, 0))


def turned_over(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = torch.complex(x, y)
    rows = z.t().roll((1, -2), (0, -1)), z[0].t(), z.roll(-3), z[:, None, :1].squeeze()
    return [torch.view_as_real(row) for row in rows]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "products": lambda x, y: torch.view_as_real(torch.complex(x, y) * torch.polar(x.abs(), y)),
    "quotients": lambda x, y: torch.view_as_real(torch.complex(x, y) / torch.complex(y, x * 1e-3)),
    "with_reals": lambda x, y: torch.view_as_real((2 * torch.complex(x, y) - 1.5) * x + y[0]),
    "sizes": lambda x, y: (torch.complex(x, y).abs(), torch.complex(x, y).angle()),
    "huge": lambda x, y: torch.complex(x * 1e30, y * 1e30).abs(),
    "turned": lambda x, y: torch.view_as_real(torch.complex(x, y).conj() * torch.complex(y, x)),
    "turned_by_a_number": lambda x, y: torch.view_as_real(torch.tensor(1j) * torch.complex(x, y)),
    "moved": moved,
    "converted": lambda x, y: (x.to(torch.complex64) * torch.complex(y, x)).to(torch.float64),
    "turned_over": turned_over,
}


@pytest.mark.row("C:D7")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_agrees_with_eager(name: str) -> None:
    agree(compile_all(Function(FUNCTIONS[name]), (X, Y)), (X, Y))


def assigned(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.complex(x, y)
    z[1:3], z[0] = z[0:1], x[0]
    z[:, ::2] *= 2
    z[1, 2] = 3 - 1j
    z.real.add_(1)
    return z


def created(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.complex(x, y)
    like = torch.zeros_like(z) + torch.full_like(z, 2 - 1j) + torch.ones_like(z)
    return like * torch.full((4, 5), 2.5 - 1j) + torch.ones(4, 5, dtype=torch.cfloat)


def parted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.complex(x, y)
    first, second = z.repeat(1, 2).split((7, 3), 1)
    columns = z.unbind(1)
    return second * columns[0][:, None] + first[:, :3].cumsum(-1) + z.triu()[:, :3]


def put(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z, at = torch.complex(x, y), torch.tensor([3, 0])
    return z.index_put((at,), z[1:3]).gather(1, at.expand(4, 2)) + z.diagonal()[:2]


def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.complex(x, y).to(torch.complex128)


def point(z: torch.Tensor) -> torch.Tensor:
    """Moves of a number without dimensions."""
    return z.transpose(0, -1) + z.squeeze(0) * z.roll(1) + z.flip(0).t()


COMPLEX_RESULTS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "assigned": assigned,
    "created": created,
    "parted": parted,
    "put": put,
    "matmul": lambda x, y: torch.complex(x, y) @ torch.complex(y, x).mT,
    "einsum": lambda x, y: torch.einsum("ij,kj->jik", torch.complex(x, y), torch.complex(y, x)),
    "linear": lambda x, y: nn.functional.linear(
        torch.complex(x, y), torch.complex(y, x), torch.complex(x, y)[:, 0]
    ),
    "addmm": lambda x, y: torch.addmm(
        torch.complex(x, x)[:, :4], torch.complex(x, y), torch.complex(y, x).t(), beta=2, alpha=0.5
    ),
    "vector": lambda x, y: torch.complex(x, y) @ torch.complex(y, x)[0],
    "dots": lambda x, y: torch.vdot(torch.complex(x, y)[1], torch.complex(y, x)[0]),
    "sums": lambda x, y: torch.complex(x, y).sum(-1) + torch.complex(y, x).mean(-1),
    "exp": lambda x, y: torch.exp(torch.complex(x, y)),
    "log": lambda x, y: torch.log(torch.complex(x, y)),
    "sqrt": lambda x, y: torch.sqrt(torch.complex(x, y)) + torch.complex(x, y).rsqrt(),
    "sqrt_of_reals": lambda x, y: torch.sqrt(torch.complex(-x.abs(), y * 0)),
    "sin": lambda x, y: torch.complex(x, y).sin() - torch.complex(x, y).sinh(),
    "cos": lambda x, y: torch.complex(x, y).cos() - torch.complex(x, y).cosh(),
    "tanh": lambda x, y: torch.complex(x * 60, y).tanh() + torch.complex(x, y).tanh(),
    "sigmoid": lambda x, y: torch.complex(x, y).sigmoid(),
    "powers": lambda x, y: torch.complex(x, y) ** 2 + torch.complex(y, x) ** -1,
    "other_powers": lambda x, y: torch.complex(x, y) ** 2.5 + torch.complex(y, x) ** 1j,
    "signs": lambda x, y: torch.complex(x, y).sgn() + torch.complex(y, x).reciprocal(),
    "chosen": lambda x, y: torch.where(x > 0, torch.complex(x, y), y).masked_fill(y > 1, 2j),
    "numbers": lambda x, y: torch.sub(torch.complex(x, y) * 1j + (2 - 1j), x, alpha=3),
    "precisions": lambda x, y: (torch.complex(x, y) * twice(y, x) - y.double()) / twice(x, y),
    "number_of_more": lambda x, y: torch.complex(x, y) * twice(y, x)[0, 0] + x.double()[0, 0],
    "joined": lambda x, y: torch.cat([x, torch.complex(x, y), y.double()], -1),
    "stacked": lambda x, y: torch.stack([torch.complex(x, y), y, twice(x, y)]),
    "tan": lambda x, y: torch.complex(x, y).tan() + torch.complex(x, y * 60).tan(),
    "logs": lambda x, y: torch.complex(x, y).log2() - torch.complex(y, x).log10(),
    "nan_to_num": lambda x, y: torch.complex(x * torch.nan, y).nan_to_num(2.0),
    "point": lambda x, y: point(torch.complex(x, y)[0, 0]),
    "products_of_all": lambda x, y: torch.complex(x, y).prod(1) + torch.complex(y, x)[:2].prod(),
    "running_products": lambda x, y: torch.complex(x, y).cumprod(1) + torch.complex(x, y)[0, 0],
    "tensor_powers": lambda x, y: torch.complex(x, y) ** torch.complex(y, x),
    "powers_of_numbers": lambda x, y: 2 ** torch.complex(x, y) + (1 - 2j) ** torch.complex(y, x),
    "inverses": lambda x, y: torch.complex(x, y).asin() + torch.complex(y, x).acosh(),
    "other_inverses": lambda x, y: torch.complex(x, y).atan() - torch.complex(y, x).asinh(),
    "near_numbers": lambda x, y: torch.complex(x, y).log1p() + torch.complex(y, x).expm1(),
    "added": lambda x, y: torch.complex(x, y).scatter_add(
        1, torch.tensor([[0, 2, 2], [1, 1, 1]]), torch.complex(y, x)
    ),
    "added_rows": lambda x, y: torch.complex(x, y).index_add(
        0, torch.tensor([0, 0, 2, 1]), torch.complex(y, x), alpha=2
    ),
    "scattered": lambda x, y: torch.complex(x, y).scatter(1, torch.tensor([[0, 2]]), 2.5 - 1j),
    "seen_as_complex": lambda x, y: (
        (x * y)[:, :4]
        .contiguous()
        .view(torch.complex64 if x.dtype is torch.float32 else torch.complex128)
    ),
    "trapezoid": lambda x, y: torch.trapezoid(torch.complex(x, y), dim=1),
    "convolution": lambda x, y: nn.functional.conv1d(
        torch.complex(x, y)[:, None], torch.complex(y, x)[:2, None, :3], padding=1
    ),
}
REAL_RESULTS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "equal": lambda x, y: torch.complex(x, y) == torch.complex(x, y.abs()),
    "unequal": lambda x, y: torch.complex(x, y) != x,
    "finite": lambda x, y: torch.complex(x, y / 0).isfinite(),
    "nan": lambda x, y: torch.complex(x, y * torch.nan).isnan(),
    "norm": lambda x, y: torch.linalg.vector_norm(torch.complex(x, y), dim=-1),
    "parts": lambda x, y: torch.complex(x, y).conj().imag + torch.complex(x, y).real,
    "variances": lambda x, y: torch.complex(x, y).var(1) + torch.complex(x, y).std(),
    "any": lambda x, y: (torch.complex(x, y) * (x > 0.5)).any(1),
    "all": lambda x, y: (torch.complex(x, y) * (x > -0.5)).all(1),
    "truth": lambda x, y: (torch.complex(x, y) * (x > 0)).bool() | (torch.complex(x, y) == 0),
    "close": lambda x, y: torch.isclose(torch.complex(x, y), torch.complex(x, y * (x > 0))),
    "seen_as_reals": lambda x, y: torch.complex(x, y).view(x.dtype),
}


def every_result(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    made = [torch.view_as_real(one(x, y).resolve_conj()) for one in COMPLEX_RESULTS.values()]
    return [*made, *(one(x, y) for one in REAL_RESULTS.values())]


@pytest.mark.row("C:D7")
def test_every_formula_has_its_meaning() -> None:
    lowered = Build(Source(Function(every_result), (X, Y)), BuildOptions((CPU,), golden=0)).lowered
    program = lowered.program
    given = {spec.name: x.numpy() for spec, x in zip(lowered.signature.inputs, (X, Y), strict=True)}
    found = evaluate(program, given, weight_arrays(lowered.weights, program), {})
    names = [*COMPLEX_RESULTS, *REAL_RESULTS]
    exact, loose = every_result(X.double(), Y.double()), type(LAW)(factor=8)
    for name, output, theirs, reference in zip(
        names, program.outputs, every_result(X, Y), exact, strict=True
    ):
        ours = torch.from_numpy(found[output])
        assert not (words := accuracy_complaint(ours, theirs, reference, loose)), f"{name}: {words}"


def crossing(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x * y.conj(), {"sizes": x.abs()}, (x.sum(), torch.fft.fft(y)), x.t()


@pytest.mark.row("C:D7", "S:H19", "S:H20")
def test_complex_inputs_and_outputs() -> None:
    rows = {0: Dim("b", min=1, max=9)}
    x, y = torch.complex(X, Y), torch.complex(Y, X)
    source = Source(Function(crossing), (x, y), None, (rows, rows))
    made = Build(source, BuildOptions((CPU,), golden=4e6)).precompiled
    with tempfile.TemporaryDirectory() as folder:
        write_package(made, Path(folder))
        model = load(folder)
        assert "x: complex64[b, 5]" in str(model.signature)
        assert all(check.is_passed for check in check_golden(model, model))
        for given in ((x, y), (x[:1], y[:1]), (x.conj(), y)):
            torch.testing.assert_close(model(*given), crossing(*given))
        found = model(x.numpy(), y.numpy())[0]
        np.testing.assert_allclose(found, crossing(x, y)[0].resolve_conj(), rtol=1e-5)
        assert found.dtype == np.complex64
        with pytest.raises(ArgumentError, match="'x' has dtype float32; accepted: complex64, in"):
            model(X, y)


def test_a_complex_input_is_changed_in_place() -> None:
    def doubled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2j)
        return x.real + y

    x = torch.complex(X, Y)
    model, given = compile(Function(doubled), (x.clone(), Y), target="cpu"), x.clone()
    torch.testing.assert_close(model(given, Y), (x * 2j).real + Y)
    torch.testing.assert_close(given, x * 2j)
    with pytest.raises(ArgumentError, match="is a conjugated view, but the model changes it"):
        model(given.conj(), Y)


class FourierLayer(nn.Module):
    """The layer of a Fourier neural operator (Li et al. 2021) in two dimensions."""

    def __init__(self, inputs: int, outputs: int, modes: int) -> None:
        super().__init__()
        self.outputs, self.modes = outputs, modes
        shape = inputs, outputs, modes, modes
        self.low = nn.Parameter(torch.randn(shape, dtype=torch.cfloat) / inputs)
        self.high = nn.Parameter(torch.randn(shape, dtype=torch.cfloat) / inputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, _, height, width = x.shape
        spectrum, m = torch.fft.rfft2(x), self.modes
        kept = torch.zeros(batch, self.outputs, height, width // 2 + 1, dtype=torch.cfloat)
        kept[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, :m, :m], self.low)
        kept[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, -m:, :m], self.high)
        return torch.fft.irfft2(kept, s=(height, width))


@pytest.mark.row("C:D7")
def test_a_fourier_neural_operator() -> None:
    batch = {"x": {0: Dim("b", min=1, max=4)}}
    model = FourierLayer(2, 3, 3).eval()
    compiled = compile(model, (torch.randn(2, 2, 8, 8),), dynamic_shapes=batch, target="cpu")
    for size in (1, 3):
        x = torch.randn(size, 2, 8, 8)
        torch.testing.assert_close(compiled(x), model(x))


@pytest.mark.row("C:D7", "S:H19")
@pytest.mark.parametrize("kind", ["attribute", "constant", "state"])
def test_rotary_embedding(kind: str) -> None:
    length = {1: Dim("s", min=2, max=32)}
    model, shapes = Rotary(kind).eval(), {"q": length, "k": length}

    def args(size: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(2, size, 3, 8), torch.randn(2, size, 3, 8)

    compiled = compile(model, args(6), dynamic_shapes=shapes, target="cpu")
    for size in (2, 17):
        given = args(size)
        torch.testing.assert_close(compiled(*given), model(*given))


@pytest.mark.row("C:D7")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, y: torch.complex(x.half(), y.half()).abs(), "complex32; .* as complex64 and"),
        (
            lambda x, y: torch.complex(x, y).logcumsumexp(0).real,
            "logcumsumexp.default: it has no formula .*_real",
        ),
        (lambda x, y: torch.complex(x, y)[0, 0].index_select(0, torch.tensor(0)), "that has none"),
        (lambda x, y: torch.complex(x, y).to(torch.int64), "converted to floats alone, not to"),
        (lambda x, y: torch.complex(x, y).view(torch.float64), "a view of torch.complex64 as"),
    ],
)
def test_refuses(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        compile(Function(function), (X, Y), target="cpu")


@pytest.mark.row("C:D7")
@pytest.mark.parametrize(
    ("low", "function", "message"),
    [
        (1, lambda z: z[:, :1].squeeze(), "removes a dimension of size n_ only where that is 1"),
        (2, lambda z: z[:, :1].squeeze(), ""),
        (2, lambda z: z.roll(z.shape[0]), "a roll of all .* by a size; name the dimensions"),
        (2, lambda z: z.roll(z.shape[0] - 1, 0), ""),
        (2, lambda z: z.prod(0), "a product of complex numbers along a size that may change"),
        (2, lambda z: z.prod(1) + z.cumprod(1)[:, 0], ""),
    ],
    ids=["may be one", "rows", "roll of all", "roll of rows", "product of rows", "in rows"],
)
def test_dynamic_rows(low: int, function: Callable[..., Any], message: str) -> None:
    rows = {0: Dim("n", min=low, max=8)}
    model, shapes = Function(lambda x, y: function(torch.complex(x, y)).real), (rows, rows)
    if message:
        with pytest.raises(AotpackError, match=message):
            compile(model, (X, Y), dynamic_shapes=shapes, target="cpu")
        return
    packaged = compile(model, (X, Y), dynamic_shapes=shapes, target="cpu")
    for given in ((X, Y), (X[:2], Y[:2])):
        torch.testing.assert_close(packaged(*given), model(*given))


def unsupported(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    values = torch.linalg.svdvals(x)
    return values.exp(), torch.linalg.eigvalsh(x @ x.mT), torch.complex(x, y).logcumsumexp(0).abs()


def test_operators_without_a_lowering_are_listed_beside_others() -> None:
    listed = {"error": ["aten._linalg_svd", "aten._linalg_eigh", "aten.logcumsumexp"]}
    listed["torch"] = listed["error"][2:]
    for fallback, names in listed.items():
        with pytest.raises(UnsupportedError, match="these cannot be packaged") as caught:
            compile(Function(unsupported), (X, Y), target="cpu", fallback=fallback)
        lines = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
        assert [line.split(".default:")[0].strip() for line in lines] == names
        assert all("(test_complex.py:" in line for line in lines)


def test_sizes_are_operands_and_elements_are_selected() -> None:
    def counted(x: torch.Tensor, y: torch.Tensor) -> Any:
        scaled = x / x.shape[0] + x * x.shape[1] ** -0.5
        return scaled, y[y.real > 0] * 2, (y * (y.real > 0)).nonzero()

    x, y = torch.complex(X, Y), torch.complex(Y, X)
    rows = {0: Dim("b", min=2, max=9)}
    model = compile(Function(counted), (x, y), dynamic_shapes=(rows, rows), target="cpu")
    for given in ((x, y), (x[:2], y[:2])):
        torch.testing.assert_close(model(*given), counted(*given))
    with pytest.raises(ArgumentError, match="makes b 1"):
        model(x[:1], y[:1])
