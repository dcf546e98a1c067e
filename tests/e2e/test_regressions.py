"""Models that once gave wrong answers, each on the targets of this machine and against eager."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from aotpack.errors import AotpackError
from aotpack.pipeline import compile
from aotpack.runtime.errors import ArgumentError
from aotpack.target import CPU

from .oracle import agree, compile_all

pytestmark = pytest.mark.usefixtures("for_this_processor")

Tensors = Any


class Model(nn.Module):
    """A function of tensors, with four square weights."""

    def __init__(self, function: Callable[..., Tensors]) -> None:
        super().__init__()
        self.function = function
        generator = torch.Generator().manual_seed(0)
        for k in range(4):
            weight = torch.randn(16, 16, generator=generator) / 10
            self.register_parameter(f"w{k}", nn.Parameter(weight))

    def forward(self, *args: torch.Tensor) -> Tensors:
        return self.function(self, *args)


def gathered(m: Model, x: torch.Tensor) -> Tensors:
    t = x.exp()
    return t, t[torch.arange(8) // 2].sum(1), t[:4].repeat_interleave(2, 0).amax(1)


def padded(m: Model, x: torch.Tensor) -> Tensors:
    t = x.exp()
    return t, F.pad(t[:4], (0, 4))


def used_after_overwriting(m: Model, x: torch.Tensor) -> Tensors:
    h = torch.relu(x @ m.w0)
    y = h @ m.w1 @ m.w2
    q, p = torch.exp(h + y), y * 2
    return q + 1, q * 3, p @ m.w3


def equal_texts(m: Model, x_1: torch.Tensor, x_2: torch.Tensor) -> Tensors:
    return x_1.t().contiguous(), x_2.t().contiguous()


def narrow_integers(m: Model, x: torch.Tensor) -> Tensors:
    return (x - x.amax(1, keepdim=True)).float()


def wide_numbers(m: Model, x: torch.Tensor) -> Tensors:
    return torch.arange(50_000) * 100_000 + x


def scanned_columns(m: Model, x: torch.Tensor) -> Tensors:
    c = x.cumsum(0)
    return c, c - c.mean(0), x.cummax(0)[1], x.logcumsumexp(0)


def scanned_rows(m: Model, x: torch.Tensor) -> Tensors:
    c = x.cumsum(1)
    return c, c - c.mean(1, keepdim=True), x.cummin(1)[0]


def infinite_softmax(m: Model, x: torch.Tensor) -> Tensors:
    x = x.clone()
    x[0, 3], x[1, 5] = float("inf"), float("-inf")
    return x.softmax(1), x.log_softmax(1)


def every_other_column(m: Model, x: torch.Tensor) -> Tensors:
    y = x[:, ::2] * 2
    return y, y.sum(0), y.sum(1), y.softmax(1)


def adaptive_windows(m: Model, x: torch.Tensor) -> Tensors:
    """Three windows of two: their ends move with them."""
    best, places = F.adaptive_max_pool1d(x, 3, return_indices=True)
    return best, places, F.adaptive_avg_pool1d(x, 3)


def single_element(m: Model, x: torch.Tensor) -> Tensors:
    return F.layer_norm(x, (1,)), F.rms_norm(x, (1,))


def bits_of_what_is_rounded(m: Model, x: torch.Tensor) -> Tensors:
    y = x * 1.7
    return y.view(torch.int16), (y.view(torch.int16) & 0x7FFF).view(torch.bfloat16)


def embedded(m: Model, i: torch.Tensor) -> Tensors:
    """Rows of a product that lie wherever data say."""
    return F.embedding(i, m.w0) @ m.w1, F.embedding(i, m.w2)[:3] @ m.w1


def embedded_and_shifted(m: Model, i: torch.Tensor) -> Tensors:
    """They are no neighbours because the places they are read at are."""
    return torch.cat([m.w0] * 7)[i + torch.arange(len(i))] @ m.w1


def written_through_windows(m: Model, x: torch.Tensor) -> Tensors:
    """What no window covers, between windows and after the last, keeps its value."""
    a, b, c, d = (x.clone() for _ in range(4))
    a.unfold(0, 1, 2).neg_()
    b.unfold(1, 2, 3).mul_(2)
    b.unfold(0, 2, 4).transpose(0, 2)[:1].add_(5)
    c.unfold(1, 6, 7).unfold(2, 2, 3)[..., 0].mul_(2)
    one, other = d.t().unfold(0, 3, 4).unbind(-1)[:2]
    other.copy_(one)
    return a, b, c, d, other


def powers_of_bools(m: Model, x: torch.Tensor) -> Tensors:
    return x**True, torch.pow(x, False), x.pow(True).int() + 1, x**2, True ** x.int()


SPECIAL = torch.tensor([0.0, 0.5, 1.0, 2.0, -1.0, -2.0, torch.inf, -torch.inf, torch.nan])


def powers_of_infinity(m: Model, x: torch.Tensor) -> Tensors:
    exponents = (torch.inf, -torch.inf, torch.nan)
    return [x**e for e in exponents] + [torch.pow(e, x) for e in exponents]


def lengths_beside_nan(m: Model, x: torch.Tensor) -> Tensors:
    return torch.hypot(x, x[:, None])


def multiples_that_overflow(m: Model, x: torch.Tensor) -> Tensors:
    y = x * 7 + 3
    return [torch.lcm(x.to(t), y.to(t)) for t in (torch.int8, torch.int16)]


def constants_of_other_types(m: Model, x: torch.Tensor) -> Tensors:
    """A kernel reads what it has just written, which is a constant."""
    known = torch.isneginf(x)
    return known, known.double(), known * x, known.int() + 1 > x


def pooled_padding(m: Model, x: torch.Tensor) -> Tensors:
    """Where a whole window is -inf, its index is that of an element, not of padding."""
    pool = torch.nn.functional.max_pool1d
    dilated = pool(x, 3, 2, 1, dilation=2, ceil_mode=True, return_indices=True)
    return [*dilated, *pool(x, 2, padding=1, return_indices=True)]


CASES = {
    powers_of_infinity: (SPECIAL,),
    lengths_beside_nan: (SPECIAL,),
    multiples_that_overflow: (torch.tensor([-5, -11089, 128, 99_999, -2, 0]),),
    constants_of_other_types: (torch.tensor([3, 0, -7]),),
    pooled_padding: (torch.randn(2, 3, 11).masked_fill(torch.arange(11) < 5, -torch.inf),),
    written_through_windows: (torch.randn(9, 23),),
    powers_of_bools: (torch.tensor([True, False]),),
    embedded: (torch.randint(16, (100,)),),
    embedded_and_shifted: (torch.randint(12, (100,)),),
    bits_of_what_is_rounded: (torch.randn(8, 4).bfloat16(),),
    gathered: (torch.randn(8, 4),),
    padded: (torch.randn(8, 4),),
    used_after_overwriting: (torch.randn(16, 16),),
    equal_texts: (torch.randn(8, 4), torch.randint(2**40, (8, 4))),
    narrow_integers: (torch.tensor([[-100, 100, 3], [5, 6, 7]], dtype=torch.int8),),
    wide_numbers: (torch.zeros(1, dtype=torch.int64),),
    scanned_columns: (torch.randn(300, 20),),
    scanned_rows: (torch.randn(2, 17_001),),
    infinite_softmax: (torch.randn(2, 17_001),),
    single_element: (torch.randn(1).bfloat16(),),
    adaptive_windows: (torch.randn(3, 4, 4),),
}


@pytest.mark.row("C:B6", "C:def1", "C:G15")
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_agrees_with_eager(function: Callable[..., Tensors], target: str) -> None:
    model, args = Model(function).eval(), CASES[function]
    with torch.no_grad():
        expected = model(*args)
        given = compile(model, args, target=target)(*args)
    torch.testing.assert_close(given, expected, rtol=1e-3, atol=1e-3, equal_nan=True)


def test_sizes_that_are_quotients_on_processors() -> None:
    model, sizes = Model(every_other_column).eval(), {"args": ({1: Dim("n", min=3, max=600)},)}
    compiled = compile(model, (torch.randn(3, 20),), dynamic_shapes=sizes, target="cpu")
    args = (torch.randn(3, 31),)
    torch.testing.assert_close(compiled(*args), model(*args))


@pytest.mark.row("S:A13", "S:L8")
def test_sizes_that_are_derived_from_others() -> None:
    def function(m: Model, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Tensors:
        halves = x.view(-1, 2).sum(1)
        return halves + y, z[1:] * y, y[: y.shape[0] // 2] + 1, torch.cat([x, z])[::2]

    s = Dim("s", min=4, max=9)
    shapes = {"args": ({0: 2 * s}, {0: s}, {0: s + 1})}
    model = Model(function).eval()

    def args(size: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(2 * size), torch.randn(size), torch.randn(size + 1)

    compiled = compile(model, args(4), dynamic_shapes=shapes, target="cpu")
    for size in (4, 5, 9):
        given = args(size)
        torch.testing.assert_close(compiled(*given), model(*given))
    with pytest.raises(AotpackError, match="x|args"):
        compiled(torch.randn(11), *args(5)[1:])


@pytest.mark.row("C:B6")
def test_rows_keep_what_is_guarded_with_its_guard() -> None:
    """Computed without it, elements before the first of a weight would be read."""

    def function(m: Model, x: torch.Tensor) -> Tensors:
        joined = torch.cat([m.w0 - x, torch.fmod(x, m.w1.abs() + 1)], 1)
        return F.layer_norm(joined, (joined.shape[-1],))

    x = torch.randn(16, 16)
    compiled = compile_all(Model(function), (x,), targets=(CPU,))
    agree(compiled, (x,))
    kernels = compiled.precompiled.rendered.kernels
    (kernel,) = (k for k in kernels if re.search(r"^ *const .*fmod", k.text, re.MULTILINE))
    lines = [line.strip() for line in kernel.text.splitlines()]
    at = [n for n, line in enumerate(lines) if "fmod" in line and line.startswith("const")]
    assert len(at) == 2  # whole vectors and the rest, in the first walk alone
    for n in at:
        name = lines[n].split()[2]
        (guarded,) = (line for line in lines[n + 1 : n + 3] if name in line)
        assert f"? {name} : 0" in guarded


@pytest.mark.parametrize(
    "names", [("batch", "w"), ("w", "batch"), ("softmax", "sum_1"), ("p", "p_"), ("t", "of_t")]
)
def test_sizes_may_be_called_like_tensors(names: tuple[str, str]) -> None:
    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(1))

        def forward(self, batch: torch.Tensor) -> Tensors:
            return (batch * self.w).softmax(1).cumsum(0), batch.sum(1)

    x = torch.randn(3, 4)
    sizes = {"batch": {axis: Dim(name, min=1, max=8) for axis, name in enumerate(names)}}
    compiled = compile_all(Weighted(), (x,), dynamic_shapes=sizes, targets=(CPU,))
    for shape in ((3, 4), (8, 1)):
        agree(compiled, (torch.randn(shape),))


@pytest.mark.parametrize("count", [1, 6, 33])
@pytest.mark.parametrize("whole", [torch.int8, torch.int32, torch.int64], ids=str)
def test_an_integer_zero_becomes_a_positive_zero(whole: torch.dtype, count: int) -> None:
    """Compilers make of a float, cast to an integer and back, a truncation with its sign."""
    x = -torch.linspace(0.1, 0.9, count)
    module = Model(lambda m, x: (1 / x.to(whole).float(), 1 / x.to(whole).double()))
    found = compile(module, (x,), target=str(CPU))(x)
    assert all(map(torch.equal, found, module(x)))


def test_sizes_without_bounds_may_be_several() -> None:
    """Their memory at the largest sizes is more than a manifest holds; each call takes its own."""
    module = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)).eval()
    shapes = ({0: Dim("b"), 1: Dim("s")},)
    model = compile(module, (torch.ones(2, 3, 8),), dynamic_shapes=shapes, target="cpu")
    x = torch.randn(5, 7, 8)
    torch.testing.assert_close(model(x), module(x))
    assert model.memory > 2**62


@pytest.mark.parametrize("factor", [2.3, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_nearest_neighbours_of_dynamic_images(factor: float, dtype: torch.dtype) -> None:
    """Eager has a kernel for small images, and rounds the step from row to row."""

    def resized(m: Model, x: torch.Tensor, like: torch.Tensor) -> Tensors:
        scaled = (
            F.interpolate(x, scale_factor=factor),
            F.interpolate(x[..., 0], scale_factor=factor),
        )
        return *scaled, F.interpolate(x, size=like.shape[2:])

    h, w, n, m = (
        Dim(name, min=2, max=most) for name, most in zip("hwnm", (40, 40, 96, 96), strict=True)
    )
    sizes = {"args": ({2: h, 3: w}, {2: n, 3: m})}
    images = torch.randn(1, 2, 5, 7, dtype=dtype), torch.randn(1, 2, 9, 5, dtype=dtype)
    compiled = compile_all(Model(resized), images, dynamic_shapes=sizes, targets=(CPU,))
    for shape in (5, 7, 9, 5), (2, 2, 82, 94), (3, 9, 30, 82), (40, 33, 7, 3):
        halves = shape[:2], shape[2:]
        agree(compiled, tuple(torch.randn(1, 2, *half, dtype=dtype) for half in halves))


def test_nearest_neighbours_along_a_fixed_size_beside_a_dynamic_one() -> None:
    """Eager's kernel for small images rounds in float32, and reads another element of float64."""

    def resized(m: Model, x: torch.Tensor) -> Tensors:
        return (F.interpolate(x, size=(3 * x.shape[2], 82)),)

    height, x = Dim("height", min=2, max=40), torch.randn(1, 2, 5, 4, dtype=torch.float64)
    sizes = {"args": ({2: height},)}
    compiled = compile_all(Model(resized), (x,), dynamic_shapes=sizes, targets=(CPU,))
    for rows in (5, 30):
        agree(compiled, (torch.randn(1, 2, rows, 4, dtype=torch.float64),))


def test_factors_that_give_as_many_elements_copy_them() -> None:
    """For small images alone, where the sizes are dynamic."""

    def resized(m: Model, x: torch.Tensor) -> Tensors:
        modes = [F.interpolate(x, scale_factor=1.2, mode=mode) for mode in ("bilinear", "bicubic")]
        return *modes, F.interpolate(x[..., 0], scale_factor=1.2, mode="linear")

    h, w = (Dim(name, min=1, max=20) for name in "hw")
    compiled = compile_all(
        Model(resized),
        (torch.randn(1, 2, 5, 7),),
        dynamic_shapes={"args": ({2: h, 3: w},)},
        targets=(CPU,),
    )
    for height, width in (5, 7), (4, 3), (4, 12), (1, 1):
        agree(compiled, (torch.randn(1, 2, height, width),))


@pytest.mark.parametrize("align", [False, True])
def test_infinities_stay_where_a_linear_resizing_copies(align: bool) -> None:
    """Of dynamic sizes: next to an infinity, where the sizes are equal, nothing changes."""

    def resized(m: Model, x: torch.Tensor, like: torch.Tensor) -> Tensors:
        sized = F.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=align)
        scaled = F.interpolate(x, scale_factor=1.2, mode="bilinear", align_corners=align)
        return sized, scaled

    def infinite(height: int, width: int) -> torch.Tensor:
        x = torch.randn(1, 1, height, width)
        x[0, 0, height // 2, width // 2] = float("inf")
        return x

    h, w, n, m = (Dim(name, min=1, max=20) for name in "hwnm")
    sizes = {"args": ({2: h, 3: w}, {2: n, 3: m})}
    compiled = compile_all(
        Model(resized),
        (infinite(5, 7), torch.randn(1, 1, 6, 4)),
        dynamic_shapes=sizes,
        targets=(CPU,),
    )
    for height, width, *other in (5, 7, 5, 7), (4, 3, 4, 5), (4, 3, 2, 3), (4, 3, 8, 6):
        agree(compiled, (infinite(height, width), torch.randn(1, 1, *other)))


def test_an_argument_without_memory_is_named_as_the_caller_writes_it() -> None:
    compiled = compile(Model(lambda m, x, y: x + y), (torch.ones(2), torch.ones(2)), target="cpu")
    with pytest.raises(ArgumentError, match=r"argument 'args\[1\]' has a shape but no memory"):
        compiled(torch.ones(2), torch.ones(2, device="meta"))
    assert compiled(torch.ones(2), torch.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sums_of_many_products_are_as_exact_as_those_of_few(dtype: torch.dtype) -> None:
    """Of any depth: sums over a part of it are added up by themselves."""
    k = Dim("k", min=2, max=70_000)
    sizes = {"args": ({1: k}, {0: k})}
    factors = torch.rand(70, 512).to(dtype), torch.rand(512, 40).to(dtype)
    model = Model(lambda m, x, y: (x @ y, (x @ y).T + 1))
    compiled = compile(model, factors, dynamic_shapes=sizes, target="cpu")
    unit = torch.finfo(dtype).eps
    for depth in 2, 2047, 2048, 2049, 2176, 4096, 4100, 61_444:
        x, y = torch.rand(70, depth).to(dtype), torch.rand(depth, 40).to(dtype)
        exact = x.double() @ y.double()
        found, turned = compiled(x, y)
        assert (found - exact).abs().max() <= 4 * unit * exact.max()
        assert (turned - exact.T - 1).abs().max() <= 5 * unit * exact.max()


@pytest.mark.parametrize("length", [60_000, 131_071])
def test_equal_numbers_of_a_long_row_have_no_variance(length: int) -> None:
    """Parts have one mean, so their average is it; of other rows the law holds."""
    rows = Model(lambda m, x: (x.var(-1), F.layer_norm(x, x.shape[-1:]), torch.var_mean(x, -1)[1]))
    compiled = compile_all(rows, (torch.full((2, length), 0.1),), targets=(CPU,))
    for x in torch.full((2, length), 0.1), torch.randn(2, length) + 3:
        agree(compiled, (x,))
    variance, normed, mean = compiled.models["cpu"](torch.full((2, length), 0.1))
    assert not variance.any() and not normed.any() and bool((mean == 0.1).all())


@pytest.mark.parametrize("several", [torch.var_mean, torch.std_mean])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_buffer_of_lowering_takes_no_name_of_a_node(several: Any, dtype: torch.dtype) -> None:
    """``var`` has a buffer for its mean; ``var_mean`` is another node's name."""

    def both(m: Model, x: torch.Tensor) -> Tensors:
        spread = several(x, 0)[0]
        own = x.var(1) if several is torch.var_mean else x.std(1)
        return spread, own, spread.sum() + own.sum()

    x = (torch.randn(5, 9) + 3).to(dtype)
    agree(compile_all(Model(both), (x,)), (x,))


def test_huge_numbers_in_no_part_have_a_variance() -> None:
    """Of rows too short for a part, which is then empty: it counts 0 times."""
    sizes = {"args": ({0: Dim("n", min=2, max=2**24)},)}
    model = Model(lambda m, x: (x.var(), x.std()))
    compiled = compile(model, (torch.randn(50),), dynamic_shapes=sizes, target="cpu")
    for numbers in [2e19, 3e19, 4e19], [1e19, 1.1e19], [-1e18, 3e18, 2e18, 1e18] * 5:
        x = torch.tensor(numbers)
        exact = x.double().var(), x.double().std()
        torch.testing.assert_close(compiled(x), tuple(map(torch.Tensor.float, exact)))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize(("dim", "shortest"), [(0, 128), (1, 4096)])
def test_short_rows_of_a_dynamic_length_near_a_large_mean(
    target: str, dim: int, shortest: int
) -> None:
    """Rows shorter than a part are in none: a part's mean in float32 would cost digits."""
    sizes = {"args": ({dim: Dim("n", min=2, max=2**20)},)}
    model = Model(lambda m, x: (x.var(dim), x.std(dim, correction=0)))
    shape = [2, 2]
    shape[dim] = 50
    with compile(model, (torch.randn(shape),), dynamic_shapes=sizes, target=target) as compiled:
        for length in (2, 7, 9, 15, 100, shortest - 1):
            shape[dim] = length
            x = torch.randn(shape) + 1000
            exact = x.double().var(dim), x.double().std(dim, correction=0)
            for found, wanted in zip(compiled(x), exact, strict=True):
                torch.testing.assert_close(found.double(), wanted, rtol=5e-7, atol=0)
