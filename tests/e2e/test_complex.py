"""Complex numbers inside a model, as pairs of reals; none come in or go out."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from aotpack.errors import AotpackError, UnsupportedError
from aotpack.pipeline import compile
from tests.e2e.oracle import agree, compile_all

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
        (
            lambda x, y: torch.complex(x, y),
            "output0 has the element type complex64; .* inside of a model alone",
        ),
        (lambda x, y: torch.complex(x.half(), y.half()).abs(), "complex32; .* as complex64 or"),
        (lambda x, y: torch.complex(x, y).exp().real, "exp.default: of complex .*view_as_real"),
        (lambda x, y: torch.complex(x, y).to(torch.int64), "converted to floats alone, not to"),
        (
            lambda x, y: torch.view_as_real(1j * torch.complex(x, y)),
            r"an argument that is a complex \(1j\); write torch.tensor",
        ),
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
    ],
    ids=["rows may be one", "rows", "roll of all", "roll of rows"],
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
    return values.exp(), torch.special.gammaincc(x, y), torch.complex(x, y).exp().abs()


def test_operators_without_a_lowering_are_listed_beside_others() -> None:
    listed = {"error": ["aten._linalg_svd", "aten.igammac", "aten.exp"]}
    listed["torch"] = listed["error"][2:]
    for fallback, names in listed.items():
        with pytest.raises(UnsupportedError, match="these cannot be packaged") as caught:
            compile(Function(unsupported), (X, Y), target="cpu", fallback=fallback)
        lines = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
        assert [line.split(".default:")[0].strip() for line in lines] == names
        assert all("(test_complex.py:" in line for line in lines)
