"""Products of many rows read weights in panels; others read them as they are."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

import aotpack
from aotpack.ir.operations import Matmul
from aotpack.ir.program import Program, loads
from aotpack.ir.verify.program import verify
from aotpack.schedule.program.merge_products import merge_products
from aotpack.schedule.program.weight_panels import lay_in_panels
from aotpack.schedule.program.weight_program import derive_weights
from tests.schedule.program.test_copy_windows import realized
from tests.schedule.programs import assert_same


class Merged(nn.Module):
    """Two linears over one input, whose weights lie end to end in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(16, 64), nn.Linear(16, 128)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.one(x), self.other(x)


class Shared(nn.Module):
    """Two products with one weight, and a weight that forward changes."""

    def __init__(self, changes: bool = False) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(20, 20), requires_grad=False)
        self.changes = changes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = (x @ self.w).relu() @ self.w
        if self.changes:
            self.w.mul_(2)
        return y


def before(module: nn.Module, *shape: int) -> Program:
    return derive_weights(realized(module, *shape))


def read_by_products(program: Program) -> list[str]:
    products = (o for o in program.operations if isinstance(o, Matmul))
    weights = {*program.weights}
    return [load.buffer for o in products for load in loads(o) if load.buffer in weights]


LAID: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], list[str]]] = {
    "linear": (lambda: nn.Linear(24, 40), (17, 24), ["weight_panels"]),
    "one panel": (lambda: nn.Linear(24, 32), (17, 24), ["weight_panels"]),
    "shared": (Shared, (17, 20), ["w_panels", "w_panels"]),
    "one position": (lambda: nn.Conv2d(16, 33, 1), (1, 16, 5, 4), []),
    "first layer": (lambda: nn.Conv2d(3, 20, 3, 2), (1, 3, 19, 20), ["weight_panels"]),
    "groups": (lambda: nn.Conv2d(8, 12, 3, groups=2), (2, 8, 7, 6), ["conv2d_weight_panels"]),
    "1d": (lambda: nn.Conv1d(4, 9, 3), (2, 4, 30), ["weight_panels"]),
}


@pytest.mark.parametrize("case", LAID.values(), ids=LAID)
def test_products_of_many_rows_read_panels(
    case: tuple[Callable[[], nn.Module], tuple[int, ...], list[str]],
) -> None:
    make, shape, panels = case
    program = before(make(), *shape)
    laid = lay_in_panels(program, frozenset())
    verify(laid)
    assert [name for name in read_by_products(laid) if name.endswith("_panels")] == panels
    assert lay_in_panels(laid, frozenset()) is laid
    assert_same(program, laid)


def test_copies_that_only_panels_read_are_no_derived_weights() -> None:
    layers = nn.Conv2d(3, 16, 1), nn.Conv2d(16, 20, 3, padding=1)
    program = before(nn.Sequential(*layers), 1, 3, 9, 8)
    assert program.derived == ("conv2d_1_weight",)
    laid = lay_in_panels(program, frozenset())
    assert laid.derived == ("conv2d_1_weight_panels",)
    assert "conv2d_1_weight" not in laid.buffers
    assert_same(program, laid)


def test_panels_take_the_place_of_a_packed_weight() -> None:
    program = merge_products(before(Merged(), 17, 16))
    laid = lay_in_panels(program, frozenset())
    verify(laid)
    (name,) = read_by_products(laid)
    assert name.endswith("_panels") and len(program.packed) == 2 and len(laid.packed) == 1
    assert_same(program, laid)


STAYS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "few rows": (lambda: nn.Linear(24, 40), (16, 24)),
    "a column": (lambda: nn.Linear(256, 1), (64, 256)),
    "rows across the depth": (lambda: nn.Conv2d(16, 33, 1), (1, 16, 5, 4)),
    "dilated": (lambda: nn.Conv1d(4, 9, 3, dilation=2), (2, 4, 30)),
    "changed by forward": (lambda: Shared(changes=True), (17, 20)),
}


@pytest.mark.parametrize("case", STAYS.values(), ids=STAYS)
def test_other_products_read_weights_as_they_are(
    case: tuple[Callable[[], nn.Module], tuple[int, ...]],
) -> None:
    make, shape = case
    program = before(make(), *shape)
    assert lay_in_panels(program, frozenset()) is program


def test_what_other_methods_change_is_read_as_it_is() -> None:
    program = before(nn.Linear(24, 40), 17, 24)
    weight = next(name for name in program.weights if len(program.buffers[name].shape) == 2)
    assert lay_in_panels(program, frozenset()) is not program
    assert lay_in_panels(program, frozenset([weight])) is program


class OfWeights(nn.Module):
    """A product of weights alone, from which rows are read."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(32, 24, bias=False), nn.Linear(40, 32, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (self.down.weight @ self.up.weight).square().sum(1)


def test_a_weight_program_has_none_of_its_own() -> None:
    """It is scheduled as the program is, without another inside of it."""
    model = OfWeights()
    x = torch.randn(3, 24)
    packaged = aotpack.compile(model, (x,), target="cpu")
    torch.testing.assert_close(packaged(x), model(x))
    assert len(packaged.manifest.derived) == 1
