"""Conversions round where they stand, on every target; ``verify`` notices one that does not."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import aotpack
from aotpack.emit import write_package
from aotpack.errors import UsageError
from aotpack.ir.interpret.evaluate import evaluate
from aotpack.pipeline import Build, BuildOptions, Source
from aotpack.precompile import precompile
from aotpack.runtime import load, verify
from aotpack.stages import Golden
from aotpack.target import CPU

Function = Callable[[torch.Tensor], torch.Tensor]

X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))
X[0, :3] = torch.tensor([0.999, 2049.0, 257.0])
X[1, 0] = 0.999  # in rows of small numbers
ADDENDS = [torch.randn(8, 16, generator=torch.Generator().manual_seed(n)) for n in (1, 2)]


@torch.library.custom_op("aotpack_casts::rest", mutates_args=())
def rest_of(x: torch.Tensor) -> torch.Tensor:
    return x - x.bfloat16().float()


rest_of.register_fake(torch.empty_like)
aotpack.register_lowering(rest_of)(lambda x: x - x.bfloat16().float())


WITH_CASTS: dict[str, tuple[Function, Function]] = {
    "rest": (lambda x: x - x.bfloat16().float(), lambda x: x - x),
    "floor": (lambda x: x[1:].bfloat16().floor(), lambda x: x[1:].floor().bfloat16()),
    "integer": (lambda x: x.half().to(torch.int32), lambda x: x.to(torch.int32)),
    "equal": (lambda x: x.bfloat16() == 1.0, lambda x: x == 1.0),
    "low part": (
        lambda x: (x - x.bfloat16().float()).bfloat16(),
        lambda x: (x - x).bfloat16(),
    ),
    "two parts": (
        lambda x: (x.bfloat16().float() + (x - x.bfloat16().float()).bfloat16().float())[1:],
        lambda x: x[1:] + 0.0,
    ),
    "sum": (lambda x: x.half().float().sum(1), lambda x: x.sum(1)),
    "float8": (lambda x: x.to(torch.float8_e4m3fn).float(), lambda x: x * 1.0),
    "index": (
        lambda x: torch.arange(300.0)[x[0, 1:3].abs().bfloat16().long() - 2000 * (x[0, 1:3] > 999)],
        lambda x: torch.arange(300.0)[x[0, 1:3].abs().long() - 2000 * (x[0, 1:3] > 999)],
    ),
    "registered": (lambda x: rest_of(x), lambda x: x - x),
    "slice": (
        lambda x: torch.zeros(8, 16).half().slice_scatter(x[2:6].half(), 0, 2, 6).float() * 3,
        lambda x: torch.zeros(8, 16).slice_scatter(x[2:6], 0, 2, 6) * 3,
    ),
    "copied": (
        lambda x: torch.zeros(8, 16, dtype=torch.half).copy_(x).float() * 3,
        lambda x: x * 3,
    ),
}
"""Functions with a conversion, and without its rounding."""


class Functions(nn.Module):
    """Several functions of one input."""

    def __init__(self, functions: Sequence[Function]) -> None:
        super().__init__()
        self.functions = list(functions)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x) for function in self.functions]


class Sums(nn.Module):
    """Decisions on 16-bit sums, and what a subtraction leaves beside them."""

    def forward(self, *given: torch.Tensor) -> list[torch.Tensor]:
        return [*self.decided(*given[:3]), *self.decided(*given[3:])]

    def decided(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> list[torch.Tensor]:
        total = a + b
        largest, place = total.view(4, 32).max(1)
        return [
            total == c,
            (total.t() > c.t()).sum(),
            total.floor(),
            total.float().long(),
            place,
            total.view(4, 32) - largest[:, None],
            (total * 60000).isinf(),
            total.sign() * total,
        ]


TRUE, TWIN = (Functions([pair[k] for pair in WITH_CASTS.values()]) for k in (0, 1))


def assert_equal(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> None:
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert torch.equal(one, other), (number, one, other)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_each_conversion_rounds(target: str) -> None:
    assert_equal(aotpack.compile(TRUE, (X,), target=target)(X), TRUE(X))


def test_the_evaluator_rounds_too() -> None:
    program = Build(Source(TRUE, (X,))).lowered.program
    found = evaluate(program, {"x": X.numpy()}, {}, {})
    wanted = [one.float() if one.is_floating_point() else one for one in TRUE(X)]
    assert_equal([torch.from_numpy(found[name]) for name in program.outputs], wanted)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_decisions_are_those_of_rounded_sums(target: str) -> None:
    pairs = [[one.to(dtype) for one in ADDENDS] for dtype in (torch.bfloat16, torch.float16)]
    args = tuple(tensor for a, b in pairs for tensor in (a, b, a + b))
    assert_equal(aotpack.compile(Sums(), args, target=target)(*args), Sums()(*args))


WHOLE = torch.tensor([2049, 5, 70000, -3, 257])
HALF = torch.tensor([2048, 5, float("inf"), 2.5, 256]).half()
PROMOTED: dict[str, tuple[torch.Tensor, ...]] = {
    "whole": (WHOLE, HALF),
    "brain": (WHOLE.int(), HALF.nan_to_num(posinf=70144.0).bfloat16()),
    "short": (WHOLE.clamp(max=32767).to(torch.int16), HALF),
    "no dimensions": (torch.tensor(2049.3), HALF),
    "no whole dimensions": (torch.tensor(2049), HALF),
}


class Promoted(nn.Module):
    """Operators that convert both operands to the shorter float first, which rounds."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        pairs = [(a, b), (b, a)]
        found = [f(*pair) for pair in pairs for f in (torch.eq, torch.ne, torch.lt, torch.le)]
        found += [f(*pair) for pair in pairs for f in (torch.gt, torch.ge, torch.maximum)]
        found += [f(*pair) for pair in pairs for f in (torch.remainder, torch.fmod, torch.isin)]
        found += [torch.where(b > 3, *pair) for pair in pairs]
        return [*found, b == 2049.3, torch.bucketize(a, b.abs().sort()[0])]


@pytest.mark.parametrize("precision", ["default", "strict"])
@pytest.mark.parametrize("name", PROMOTED)
def test_operands_are_rounded_to_the_type_of_both(name: str, precision: str) -> None:
    args = PROMOTED[name]
    found = aotpack.compile(Promoted(), args, target="cpu", precision=precision)(*args)
    for number, (one, other) in enumerate(zip(found, Promoted()(*args), strict=True)):
        assert torch.allclose(one, other, 0, 0, equal_nan=True), (number, one, other)


@pytest.mark.parametrize("name", PROMOTED)
def test_the_reference_promotes_too(name: str) -> None:
    golden = Build(Source(Promoted(), PROMOTED[name])).traced.golden
    assert not any(golden.eager_errors)


class Places(nn.Module):
    """Choices by 16-bit results, whose float32 values would choose otherwise."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        total = (a + 64)[None, None]  # few different numbers
        return [
            nn.functional.max_pool2d(total, (4, 8), return_indices=True)[1],
            nn.functional.adaptive_max_pool2d(total, (2, 2), return_indices=True)[1],
            (a * b).nan_to_num(),
            self.nearest(a * 0.6875),
        ]

    def nearest(self, places: torch.Tensor) -> torch.Tensor:
        """The elements of a row at places in [-1, 1]."""
        row = (torch.arange(1024) % 251).to(places.dtype).expand(1, 1, 2, 1024)
        grid = places[None, :, :, None].expand(-1, -1, -1, 2)
        return nn.functional.grid_sample(row, grid, mode="nearest", align_corners=False)

    def wanted(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        """Eager's answer; its ``grid_sample`` would round the positions between elements too."""
        return [*self(a, b)[:3], self.nearest((a * 0.6875).float()).to(a.dtype)]


def near_one(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Two tensors; the product of their first elements is no float16."""
    a, b = ((one / 40 + 1).to(dtype) for one in ADDENDS)
    a[0, 0] = b[0, 0] = 300
    return a, b


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_places_are_chosen_by_rounded_sums(target: str, dtype: torch.dtype) -> None:
    a, b = near_one(dtype)
    made = aotpack.compile(Places(), (a, b), target=target)(a, b)
    assert_equal(made, Places().wanted(a, b))


class Rests(nn.Module):
    """What rounding the results of operators leaves, which a wider result would not."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        total = a + b
        product = (a @ b.t()).relu()
        return [
            total.float() - (a.float() + b.float()),
            product.float() - (product * 0.3125).float() * 3.2,
            nn.functional.smooth_l1_loss(a, b).float() * 3,
        ]


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_strict_rounds_every_result(target: str) -> None:
    args = tuple(one.bfloat16() for one in ADDENDS)
    strict = aotpack.compile(Rests(), args, target=target, precision="strict")(*args)
    assert_equal(strict, Rests()(*args))


def test_by_default_a_result_may_be_kept_wider() -> None:
    args = tuple(one.bfloat16() for one in ADDENDS)
    rest, *_ = aotpack.compile(Rests(), args, target="interpreter")(*args)
    assert rest.abs().max() == 0 != Rests()(*args)[0].abs().max()


class Equal(nn.Module):
    """A sum that a product reads, so that it may be kept wider, and a decision on the product."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x + y) * y == x * y + y * y


@pytest.mark.parametrize("precision", ["default", "strict"])
def test_verify_counts_the_decisions_that_are_not_eagers(tmp_path: Path, precision: str) -> None:
    args = tuple(one.bfloat16() for one in ADDENDS)
    how = BuildOptions((CPU,), precision=precision, golden=4e6)
    write_package(Build(Source(Equal(), args), how).precompiled, tmp_path)
    with load(tmp_path, "cpu") as model:
        differing = int((model(*args) != Equal()(*args)).sum())
    assert (differing > 0) is (precision == "default")
    (check,) = verify(tmp_path, "cpu").checks
    assert check.is_passed and check.differing == differing
    assert (f"wrong ({differing} differ from eager's" in str(check)) is (differing > 0)


def test_other_precisions_are_refused() -> None:
    with pytest.raises(UsageError, match="precision='exact'; accepted are 'default' and 'strict'"):
        aotpack.compile(TRUE, (X,), target="cpu", precision="exact")


def packaged(
    folder: Path,
    model: nn.Module,
    golden: Golden | None = None,
    example: tuple[torch.Tensor, ...] = (X,),
) -> Path:
    """The package of a model for processors, with golden data of its own or of another."""
    made = Build(Source(model, example), BuildOptions(targets=(CPU,)))
    rendered = replace(made.rendered, golden=golden or made.traced.golden)
    write_package(precompile(rendered, (CPU,)), folder)
    return folder


def test_verify_knows_the_choices_by_rounded_results(tmp_path: Path) -> None:
    folder = packaged(tmp_path / "places", Places(), example=near_one(torch.float16))
    assert verify(folder, "cpu").is_passed


def test_verify_fails_where_a_conversion_is_left_out(tmp_path: Path) -> None:
    golden = Build(Source(TRUE, (X,)), BuildOptions(targets=(CPU,))).traced.golden
    assert verify(packaged(tmp_path / "true", TRUE, golden), "cpu").is_passed
    wrong = verify(packaged(tmp_path / "twin", TWIN, golden), "cpu")
    passed = [name for name, check in zip(WITH_CASTS, wrong.checks, strict=True) if check.is_passed]
    assert not passed
