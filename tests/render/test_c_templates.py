"""Matrix products, convolutions and attention on target cpu, against eager by the accuracy law."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.nn.functional import scaled_dot_product_attention as attention

from aotpack import pipeline
from aotpack.errors import UnsupportedError
from tests.e2e.law import Answers, call_complaints

pytestmark = pytest.mark.usefixtures("as_shipped")

NAN, INF = float("nan"), float("inf")
_RANDOM = torch.Generator().manual_seed(0)
Tensors = tuple[torch.Tensor, ...]


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=_RANDOM)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.function(*args)


@dataclass(frozen=True)
class Case:
    """A module and what it is called with."""

    name: str
    module: nn.Module
    args: Tensors

    def __str__(self) -> str:
        return self.name


class Table(nn.Module):
    """All cases in one model, so that they are built and compiled at once."""

    def __init__(self, cases: list[Case]) -> None:
        super().__init__()
        self.modules_of_cases = nn.ModuleList(case.module for case in cases)
        self.counts = [len(case.args) for case in cases]

    def forward(self, *args: torch.Tensor) -> Tensors:
        results = []
        start = 0
        for module, count in zip(self.modules_of_cases, self.counts, strict=True):
            results.append(module(*args[start : start + count]))
            start += count
        return tuple(results)


def linear(m: int, n: int, k: int, dtype: torch.dtype = torch.float32) -> Case:
    module = nn.Sequential(nn.Linear(k, n), nn.GELU()).to(dtype)
    return Case(f"linear-{m}x{n}x{k}-{dtype}", module, (floats(m, k).to(dtype),))


def product(
    m: int, n: int, k: int, *batch: int, dtype: torch.dtype = torch.float32, turned: bool = False
) -> Case:
    """With ``turned``, the depth of the first factor does not lie side by side."""
    a, b = floats(*batch, m, k).to(dtype), floats(*batch, k, n).to(dtype)
    if not turned:
        module = Call(lambda a, b: torch.relu(a @ b))
        return Case(f"product-{batch}{m}x{n}x{k}-{dtype}", module, (a, b))
    module = Call(lambda a, b: torch.relu(a.transpose(-1, -2) @ b))
    args = a.transpose(-1, -2).contiguous(), b
    return Case(f"turned-{batch}{m}x{n}x{k}-{dtype}", module, args)


def few_products(m: int, n: int, k: int, *batch: int) -> Case:
    """Products of rows with rows."""
    module = Call(lambda a, b: a @ b.transpose(-1, -2))
    return Case(f"rows-{batch}{m}x{n}x{k}", module, (floats(*batch, m, k), floats(*batch, n, k)))


def widened(m: int, n: int, k: int) -> Case:
    """Factors of a wider type than they are stored in."""
    args = floats(m, k).bfloat16(), floats(n, k).bfloat16()
    return Case(f"widened-{m}x{n}x{k}", Call(lambda a, b: a.float() @ b.float().t()), args)


def conv(dims: int, items: int, size: tuple[int, ...], **options: object) -> Case:
    """A convolution with batch norm, a residual and relu, all of which its kernel must take."""
    kinds = (nn.Conv1d, nn.Conv2d, nn.Conv3d), (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    made = kinds[0][dims - 1](**options)  # type: ignore[arg-type]
    norm = kinds[1][dims - 1](made.out_channels)
    norm.running_mean.uniform_(-1, 1, generator=_RANDOM)
    norm.running_var.uniform_(0.5, 2, generator=_RANDOM)
    image = floats(items, made.in_channels, *size)
    text = "-".join(f"{key}{value}" for key, value in options.items())
    return Case(f"conv{dims}d-{items}-{text}", nn.Sequential(made, norm, nn.ReLU()), (image,))


def plain_conv(size: tuple[int, ...], **options: int) -> Case:
    """In bfloat16, of which pairs of neighbours along the depth lie in two windows."""
    module = nn.Conv2d(**options).bfloat16()  # type: ignore[arg-type]
    text = "-".join(f"{key}{value}" for key, value in options.items())
    return Case(f"conv-{text}", module, (floats(*size).bfloat16(),))


def between_layers(channels: int, size: tuple[int, int], **options: Any) -> Case:
    """A convolution whose image may have its channels innermost."""
    first, last = nn.Conv2d(3, channels, 1), nn.Conv2d(channels, 5, 1)
    module = nn.Sequential(first, nn.Conv2d(channels, channels, **options), nn.SiLU(), last)
    text = "-".join(f"{key}{value}" for key, value in options.items())
    return Case(f"between-{channels}-{text}", module, (floats(1, 3, *size),))


def pool(kind: str, size: tuple[int, ...], *sizes: int, **options: object) -> Case:
    """Pooling: windows that reach over borders, and rows longer than a block of lanes."""
    module = getattr(nn, kind)(*sizes, **options)
    text = "-".join(f"{key}{value}" for key, value in options.items())
    return Case(f"{kind}-{sizes}-{text}-{size[-1]}", module, (floats(*size),))


def heads(
    b: int,
    h: int,
    i: int,
    j: int,
    d: int,
    *,
    kind: str = "plain",
    dtype: torch.dtype = torch.float32,
) -> Case:
    q, k, v = (floats(b, h, n, d).to(dtype) for n in (i, j, j))
    name = f"attention-{kind}-{b}x{h}x{i}x{j}x{d}-{dtype}"
    if kind == "causal":
        return Case(name, Call(lambda q, k, v: attention(q, k, v, is_causal=True)), (q, k, v))
    if kind == "bias":
        return Case(name, Call(attention), (q, k, v, floats(b, 1, i, j).to(dtype)))
    if kind == "mask":
        allowed = floats(b, 1, i, j) > 0
        allowed[..., 0] = True
        return Case(name, Call(attention), (q, k, v, allowed))
    return Case(name, Call(attention), (q, k, v))


def cases() -> list[Case]:
    """Each with the weights it has in every run, whatever was drawn before."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return [
            *(linear(*sizes) for sizes in ((1, 1, 1), (1, 7, 13), (97, 131, 61), (13, 33, 517))),
            *(linear(65, 30, 100, dtype) for dtype in (torch.bfloat16, torch.float16)),
            *(
                linear(*sizes, torch.bfloat16)
                for sizes in ((97, 131, 62), (37, 300, 33), (130, 65, 258), (300, 37, 2))
            ),
            *(
                product(*sizes, dtype=torch.bfloat16, turned=turned)
                for sizes in ((41, 75, 50, 3), (65, 33, 131, 2), (97, 129, 260))
                for turned in (False, True)
            ),
            *(
                linear(*sizes)
                for sizes in ((1, 67, 1100), (16, 5, 90), (200, 3, 50), (7, 35, 2048))
            ),
            linear(5, 37, 2100, torch.bfloat16),
            linear(3, 33, 40, torch.float16),
            few_products(5, 33, 40, 2, 3),
            *(widened(m, 35, 50) for m in (3, 40)),
            *(
                product(*sizes)
                for sizes in ((3, 5, 2), (200, 300, 129), (17, 23, 19, 3), (1, 31, 7, 2, 3))
            ),
            conv(2, 1, (9, 11), in_channels=3, out_channels=5, kernel_size=3, padding=1),
            conv(
                2,
                2,
                (9, 7),
                in_channels=4,
                out_channels=6,
                kernel_size=3,
                stride=2,
                padding=1,
                groups=2,
            ),
            conv(
                2, 2, (11, 7), in_channels=7, out_channels=13, kernel_size=3, padding=2, dilation=2
            ),
            conv(2, 1, (5, 5), in_channels=5, out_channels=3, kernel_size=1, stride=2),
            conv(1, 2, (17,), in_channels=6, out_channels=9, kernel_size=2, groups=3),
            conv(3, 1, (5, 4, 7), in_channels=3, out_channels=4, kernel_size=3, padding=1),
            *(
                conv(dims, 2, size, in_channels=4, groups=4, **options)  # depthwise
                for dims, size, options in (
                    (2, (9, 67), {"out_channels": 4, "kernel_size": 5, "padding": 4}),
                    (2, (8, 9), {"out_channels": 8, "kernel_size": 3, "stride": 2, "padding": 1}),
                    (2, (3, 2), {"out_channels": 4, "kernel_size": (1, 7), "padding": (0, 5)}),
                    (1, (131,), {"out_channels": 4, "kernel_size": 4, "padding": 3, "dilation": 2}),
                )
            ),
            *(
                conv(2, batch, size, in_channels=3, kernel_size=kernel, **options)  # wide images
                for batch, size, kernel, options in (
                    (1, (13, 61), 7, {"out_channels": 40, "stride": 2, "padding": 3}),
                    (2, (5, 50), 3, {"out_channels": 130, "dilation": 2, "padding": (0, 2)}),
                    (2, (8, 96), 4, {"out_channels": 16, "stride": 4}),
                )
            ),
            *(
                between_layers(channels, size, kernel_size=kernel, **options)
                for channels, size, kernel, options in (
                    (16, (9, 30), 5, {"padding": 2, "groups": 16}),
                    (37, (7, 13), 3, {"padding": 2, "groups": 37, "stride": 2}),
                    (20, (6, 19), (3, 7), {"padding": (1, 6), "groups": 20, "dilation": 2}),
                    (20, (6, 33), 3, {"padding": 1}),
                )
            ),
            plain_conv((2, 4, 9, 41), in_channels=4, out_channels=9, kernel_size=3, padding=1),
            plain_conv((1, 6, 12, 9), in_channels=6, out_channels=35, kernel_size=2, stride=2),
            plain_conv((1, 8, 7, 7), in_channels=8, out_channels=6, kernel_size=3, groups=2),
            plain_conv((1, 3, 7, 6), in_channels=3, out_channels=6, kernel_size=3, dilation=2),
            pool("MaxPool2d", (1, 3, 9, 11), 3, 2, 1),
            pool("MaxPool2d", (2, 2, 5, 131), 3, 1, 1, dilation=2, ceil_mode=True),
            pool("MaxPool2d", (1, 1, 4, 4), 2, padding=1),
            pool("MaxPool1d", (2, 3, 5), 5, 1, 2),
            pool("AvgPool2d", (1, 2, 7, 150), 3, 2, 1),
            pool("AvgPool2d", (1, 2, 7, 9), 3, 1, 1, count_include_pad=False),
            pool("AvgPool3d", (1, 2, 4, 5, 67), 2, 1),
            heads(1, 2, 128, 128, 64),
            heads(2, 3, 7, 13, 5),
            heads(1, 1, 1, 1, 1),
            heads(1, 2, 101, 101, 32, kind="causal"),
            heads(1, 2, 257, 131, 16, kind="bias"),
            heads(2, 2, 31, 129, 130, kind="mask"),
            heads(1, 2, 67, 67, 32, dtype=torch.bfloat16),
        ]


CASES = cases()


@pytest.fixture(scope="module")
def complaints() -> list[str | None]:
    """What the accuracy law says about each case."""
    table = Table(CASES).eval()
    exact = copy.deepcopy(table).double()
    args = tuple(arg for case in CASES for arg in case.args)

    def answers(given: Sequence[torch.Tensor]) -> Answers:
        wide = (x.double() if x.is_floating_point() else x for x in given)
        return model(*given), table(*given), exact(*wide)

    with torch.no_grad(), pipeline.compile(table, args, target="cpu") as model:
        return call_complaints(args, answers)


@pytest.mark.parametrize("number", range(len(CASES)), ids=[str(case) for case in CASES])
def test_obeys_the_accuracy_law(number: int, complaints: list[str | None]) -> None:
    assert complaints[number] is None, complaints[number]


def test_depths_that_a_call_decides() -> None:
    """Pairs of bfloat16 serve even ones alone; what is not finite stays so."""
    module = Call(lambda a, b: torch.relu(a @ b))
    rows, depth = Dim("rows", min=1, max=99), Dim("depth", min=1, max=300)
    sizes = {"args": ({0: rows, 1: depth}, {0: depth})}
    example = floats(20, 64).bfloat16(), floats(64, 40).bfloat16()
    with pipeline.compile(module, example, dynamic_shapes=sizes, target="cpu") as model:
        for m, k in ((20, 1), (1, 2), (17, 127), (96, 128), (97, 129), (40, 258)):
            a, b = floats(m, k).bfloat16(), floats(k, 40).bfloat16()
            a[0, 0], b[k - 1, 3] = NAN, -INF
            complaint, *_ = call_complaints(
                (a, b), lambda x: ([model(*x)], [module(*x)], [module(*(y.double() for y in x))])
            )
            assert complaint is None, f"{m} x {k}: {complaint}"


def test_sums_without_terms_are_zero() -> None:
    empty = Call(lambda a, b: a @ b)
    args = (torch.zeros(3, 0), torch.zeros(0, 5))
    with pipeline.compile(empty, args, target="cpu") as model:
        assert torch.equal(model(*args), torch.zeros(3, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_attention_with_dropout_has_no_kernel(dtype: torch.dtype) -> None:
    module = Call(lambda q: attention(q, q, q, dropout_p=0.5))
    with pytest.raises(UnsupportedError, match="dropout is on"):
        pipeline.compile(module, (floats(1, 1, 3, 2).to(dtype),), target="cpu")
