"""The table of cases: name, what to compute, example inputs, dynamic sizes, other calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .models import (
    Block,
    Function,
    Glu,
    Gpt2,
    MaskedBert,
    Residual,
    Rms,
    SelfAttention,
    Tokens,
    Weighted,
    bert,
    grouped_attention,
    integers,
    joined,
    masked_attention,
    mlp,
    moments,
    predicates,
    several,
)

Args = tuple[Any, ...]
NAN = float("nan")
INF = float("inf")


@dataclass(frozen=True, slots=True)
class Case:
    """``make`` builds the module and ``args`` its example inputs, after torch.manual_seed(0).

    ``calls`` are more arguments to call it with, for dynamic sizes.
    """

    name: str
    make: Callable[[], nn.Module]
    args: Callable[[], Args]
    dynamic: Any = None
    calls: tuple[Callable[[], Args], ...] = ()


@dataclass(frozen=True, slots=True)
class Random:
    """A random tensor to be drawn: normal floats, small integers or coin tosses."""

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    high: int = 7

    def draw(self) -> torch.Tensor:
        if self.dtype is torch.bool:
            return torch.rand(self.shape) < 0.5
        if self.dtype.is_floating_point:
            return torch.randn(self.shape).to(self.dtype)
        low = 0 if self.high != 7 or self.dtype is torch.uint8 else -7
        return torch.randint(low, self.high, self.shape, dtype=self.dtype)


def t(*shape: int, dtype: torch.dtype = torch.float32, high: int = 7) -> Random:
    return Random(shape, dtype, high)


def fn(name: str, function: Callable[..., Any], *inputs: Random | torch.Tensor) -> Case:
    """A case of a function on inputs of fixed sizes."""
    return Case(name, lambda: Function(function, len(inputs)), lambda: drawn(inputs))


def dyn(name: str, make: Callable[[], nn.Module], specs: Any, *calls: Args) -> Case:
    """A case with dynamic sizes; the first call is the example."""
    first, *others = calls
    more = tuple((lambda call=call: drawn(call)) for call in others)
    return Case(name, make, lambda: drawn(first), specs, more)


def drawn(inputs: Args) -> Args:
    return tuple(x.draw() if isinstance(x, Random) else x for x in inputs)


QKV = (t(1, 2, 5, 8), t(1, 2, 7, 8), t(1, 2, 7, 4))
WITH_NAN = torch.tensor([[1.0, NAN, 3.0], [5.0, 5.0, -INF], [NAN, NAN, 0.0], [INF, 2.0, INF]])
F16, BF16, F64, I64 = torch.float16, torch.bfloat16, torch.float64, torch.int64
B, S = Dim("b", min=1, max=16), Dim("s", min=1, max=32)
ROWS, TOKENS = {"x": {0: B, 1: S}}, {"ids": {0: B, 1: S}}


def ids(b: int, s: int) -> Random:
    return t(b, s, dtype=I64, high=23)


POINTWISE = [
    fn("add_broadcast", lambda x, y: x + y * 2, t(3, 1, 5), t(4, 1)),
    fn("transpose_add", lambda x, y: x.t() + y, t(5, 9), t(9, 5)),
    fn(
        "three_directions",
        lambda x, y, z: x + y.permute(1, 2, 0) + z.permute(2, 0, 1),
        *(t(17, 20, 33), t(33, 17, 20), t(20, 33, 17)),
    ),
    fn("transpose_output", lambda x: x.permute(2, 0, 1).contiguous(), t(3, 4, 5)),
    fn("where_nan", lambda x: torch.where(x.isnan(), 0.0, x).clamp(-2, 2), WITH_NAN),
    fn("extrema_nan", lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), WITH_NAN, t(4, 3)),
    fn("powers", lambda x: (x.abs() ** 0.5, x**3, 2.0**x, x.abs().rsqrt()), t(6, 5)),
    fn("transcendental", lambda x: (x.exp(), x.sin(), x.erf(), x.abs().log(), x.tanh()), t(40)),
    fn("activations", lambda x: (F.silu(x), F.gelu(x), F.mish(x), F.softplus(x), F.elu(x)), t(40)),
    fn("integers", integers, t(4, 5, dtype=I64), t(4, 5, dtype=I64)),
    fn("integers32", integers, t(11, dtype=torch.int32), t(11, dtype=torch.int32)),
    fn("int8_wraps", lambda x: (x * x * x, x + 100), t(30, dtype=torch.int8)),
    fn("uint8", lambda x: (x + 250, x // 2, x.float() / 3), t(30, dtype=torch.uint8)),
    fn("predicates", predicates, t(4, 6), t(4, 6)),
    fn(
        "bools",
        lambda x, y: (x & y, x | y, x ^ y, ~x, x.logical_or(y)),
        *[t(9, dtype=torch.bool)] * 2,
    ),
    fn("mixed_types", lambda x, y, z: x * y + z, t(5, dtype=I64), t(5, dtype=F16), t(5)),
    fn(
        "windows_of_products",  # one factor does not move along the windows' columns
        lambda a, x: (
            F.avg_pool2d(a[:, None] * x, 3, 1, 1),
            F.pad(a[:, None] * x, (0, 0, 2, 2)).sum(0),
        ),
        t(8),
        t(1, 3, 8, 8),
    ),
    fn("arange", lambda x: x + torch.arange(6) * torch.arange(5).unsqueeze(1), t(5, 6)),
    fn("casts", lambda x: ((x * 3).long(), x.to(BF16), x.bool(), x.half(), x.double()), t(20)),
    Case(
        "same_tensor_twice",
        lambda: Function(lambda x, y: x - 2 * y, 2),
        lambda: (torch.ones(3),) * 2,
        calls=(lambda: drawn((t(3), t(3))),),
    ),
    fn(
        "parts",
        lambda x, y: (
            *torch.frexp(x),
            torch.nextafter(x, -x),
            torch.fmax(x, 1 / x),
            torch.ldexp(x * 1e-30, 130 + y),
        ),
        t(17),
        t(17, dtype=I64),
    ),
    fn(
        "special",
        lambda x: (
            torch.special.i1(x),
            torch.special.bessel_j0(x),
            torch.special.ndtri(x.sigmoid()),
        ),
        t(23),
    ),
    fn("gamma", lambda x: (x.lgamma(), x.abs().digamma(), torch.polygamma(2, x.abs() + 1)), t(23)),
    fn(
        "gamma_shares",
        lambda x, y: (torch.igamma(x.abs(), y.exp() + 4), torch.igammac(x.abs(), y.abs())),
        t(23),
        t(23),
    ),
    fn("integer_powers", lambda x, y: x**y, t(9, dtype=I64), t(9, dtype=I64)),
    fn(
        "sampled",
        lambda x, y: F.grid_sample(x, y, mode="bilinear", align_corners=False),
        t(1, 2, 5, 4),
        t(1, 3, 3, 2),
    ),
    fn("resized", lambda x: F.interpolate(x, size=(7, 3), mode="bilinear"), t(1, 2, 4, 5)),
    fn("scalar", lambda x: x * 2 + 1, t()),
    fn(
        "side_by_side",
        lambda x, y, z, v: (
            x.softmax(-1).cumsum(0),
            (y + 1, y.sum()),
            z.sigmoid() * z,
            F.layer_norm(v, (7,)) + z[0, 0],
            v.argmax(0),
        ),
        *(t(3, 40), t(5, dtype=I64), t(2, 300, dtype=BF16), t(6, 7)),
    ),
    fn("size_one", lambda x: (x + 1).softmax(-1), t(1, 1)),
    fn("size_zero", lambda x: (x * 2, x.sum(), x.sum(1), x.reshape(0, 3).t() + 1), t(3, 0)),
    fn(
        "size_zero_joined", lambda x, y: (torch.cat([x, y], 1) + 1, x.softmax(-1)), t(3, 0), t(3, 2)
    ),
    fn("size_zero_product", lambda x, y: (x @ y + 1, y @ x), t(3, 0), t(0, 3)),
    fn("prime", lambda x: (x * 3).sum(1), t(13, 1031)),
    fn(
        "float64", lambda x, y: (x.exp() * y).sum(-1) + x[:, 0], t(5, 7, dtype=F64), t(7, dtype=F64)
    ),
    fn(
        "float16", lambda x, y: (F.gelu(x) * y + x).softmax(-1), t(5, 7, dtype=F16), t(7, dtype=F16)
    ),
    fn(
        "bfloat16", lambda x, y: F.layer_norm(x * y, (24,)), t(5, 24, dtype=BF16), t(24, dtype=BF16)
    ),
]
REDUCTIONS = [
    fn("softmax_last", lambda x: x.softmax(-1), t(4, 11)),
    fn("softmax_first", lambda x: x.softmax(0), t(11, 4)),
    fn("softmax_middle", lambda x: x.softmax(1), t(3, 11, 4)),
    fn(
        "softmax_infinite",
        lambda x: x.softmax(-1),
        torch.tensor([[-INF, 0.0, 1.0], [1.0, 2.0, 3.0]]),
    ),
    fn("log_softmax", lambda x: x.log_softmax(-1), t(4, 11)),
    fn("logsumexp", lambda x: x.logsumexp(0), t(9, 4)),
    fn("column_sum", lambda x: x.sum(0), t(300, 17)),
    fn("full_sum", lambda x: (x.sum(), x.mean()), t(13, 17)),
    fn("middle_sum", lambda x: x.sum(1) + x.mean((0, 2)).sum(), t(4, 5, 6)),
    fn("prod", lambda x: (x.prod(1), x.prod()), t(3, 5)),
    fn("argmax_ties", lambda x: (x.argmax(1), x.argmin(0), x.argmax()), t(6, 9, dtype=I64).draw()),
    fn("argmax_nan", lambda x: (x.argmax(1), x.argmin(1), *x.max(1), *x.min(0)), WITH_NAN),
    fn("amax_nan", lambda x: (x.amax(1), x.amin(1), x.amax(), x.max(1).values), WITH_NAN),
    fn("moments", moments, t(6, 7)),
    fn(
        "any_all",
        lambda x: ((x > 1).any(1), (x > -1).all(0), (x > 5).any(), x.bool().all()),
        t(6, 7),
    ),
    fn("cumsum", lambda x: (x.cumsum(1), x.cumsum(0), x.cumprod(1)), t(5, 13)),
    fn("cummax", lambda x: tuple(torch.cummax(x, 1)), t(4, 13)),
    fn("count", lambda x: (x > 0).sum(1) / x.shape[1], t(6, 7)),
    fn("norm", lambda x: x / x.norm(dim=-1, keepdim=True).clamp_min(1e-6), t(6, 7)),
    fn("layer_norm", lambda x, w, b: F.layer_norm(x, (24,), w, b), t(5, 24), t(24), t(24)),
    fn("layer_norm_offset", lambda x: F.layer_norm(x + 1000, (64,)), t(3, 64)),
    fn("group_norm", lambda x: F.group_norm(x, 2), t(2, 4, 3, 5)),
    Case("rms_norm", Rms, lambda: drawn((t(5, 24), t(5, 24)))),
    fn("sum_then_use", lambda x: x / (x.exp().sum(-1, keepdim=True) + 1) + x.mean(0), t(6, 7)),
]
VIEWS = [
    fn("joined", joined, t(3, 4), t(3, 5)),
    fn("stack_unbind", lambda x, y: torch.stack([x, y * 2], 1).unbind(2), t(3, 4), t(3, 4)),
    fn("reshape_chain", lambda x: x.view(6, 4).t().reshape(3, 8) + 1, t(2, 3, 4)),
    fn("expand_sum", lambda x: (x.unsqueeze(1).expand(4, 3, 5) * 2).sum(1), t(4, 5)),
    fn("flip_roll", lambda x: x.flip(0, 1) - x.roll((1, 2), (0, 1)), t(4, 5)),
    fn("tril", lambda x: x.tril() + x.triu(1) * 2 + x.diagonal().sum(), t(5, 5)),
    fn("repeat", lambda x: x.repeat(2, 3) + x.repeat_interleave(2, 0).repeat(1, 3), t(3, 2)),
    fn("unfold", lambda x: x.unfold(1, 3, 2).sum(-1), t(2, 9)),
    fn("embedding", lambda w, i: F.embedding(i, w) * 2, t(7, 5), t(2, 3, dtype=I64, high=6)),
    fn("gather", lambda x, i: x.gather(1, i) + 1, t(4, 6), t(4, 3, dtype=I64, high=6)),
    fn("index", lambda x, i: x[i] + x[:, i].sum(), t(6, 6), t(4, dtype=I64)),
    fn("index_pair", lambda x, i, j: x[i, j] * 2, t(6, 8), t(4, dtype=I64), t(4, dtype=I64)),
    fn("index_select", lambda x, i: x.index_select(1, i), t(4, 6), t(5, dtype=I64, high=6)),
    fn("multi_output", several, t(4, 6)),
    Case("outputs", Weighted, lambda: drawn((t(3, 5),))),
    Case("tokens", Tokens, lambda: drawn((ids(2, 5),))),
]
PRODUCTS = [
    Case("mlp", mlp, lambda: drawn((t(5, 12),))),
    Case("mlp_bfloat16", lambda: mlp().to(BF16), lambda: drawn((t(5, 12, dtype=BF16),))),
    Case("mlp_float64", lambda: mlp().double(), lambda: drawn((t(5, 12, dtype=F64),))),
    Case("mlp_one_row", mlp, lambda: drawn((t(1, 12),))),
    Case("residual_one_row", Residual, lambda: drawn((t(1, 1, 16),))),
    fn(
        "one_row",
        lambda x, w, b, y: (F.gelu(F.linear(x, w, b)) * y[0] + y, (x @ w.t()).softmax(-1)),
        t(1, 33),
        t(17, 33),
        t(17),
        t(1, 17),
    ),
    Case("glu", Glu, lambda: drawn((t(2, 3, 10),))),
    Case("residual", Residual, lambda: drawn((t(2, 3, 16),))),
    fn("linear_no_bias", lambda x, w: F.linear(x, w), t(2, 3, 7), t(5, 7)),
    fn("matmul_leading", lambda x, y: x @ y, t(2, 3, 4, 5), t(5, 6)),
    fn("matmul_vector", lambda x, y: (x @ y, y @ x.t(), y @ y), t(4, 5), t(5)),
    fn("bmm", lambda x, y: torch.bmm(x, y.transpose(1, 2)) / 2, t(3, 4, 5), t(3, 6, 5)),
    fn("matmul_int", lambda x, y: x @ y, t(4, 5, dtype=I64), t(5, 3, dtype=I64)),
    fn("matmul_half", lambda x, y: (x @ y).relu(), t(17, 33, dtype=F16), t(33, 9, dtype=F16)),
    fn("matmul_softmax", lambda x, y: (x @ y).softmax(-1) @ y.t(), t(4, 5), t(5, 6)),
    fn("matmul_prologue", lambda x, y: (x.exp() * 2) @ (y + 1), t(4, 5), t(5, 6)),
    fn("matmul_column_sum", lambda x, y: (x @ y).sum(0), t(70, 5), t(5, 6)),
    fn("addmm", lambda b, x, y: torch.addmm(b, x, y, beta=2, alpha=0.5), t(6), t(4, 5), t(5, 6)),
    fn("attention", F.scaled_dot_product_attention, *QKV),
    fn("attention_long", F.scaled_dot_product_attention, *[t(1, 1, 70, 16)] * 3),
    fn(
        "attention_causal",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        *[t(2, 2, 7, 8)] * 3,
    ),
    fn(
        "attention_mask",
        masked_attention,
        *QKV,
        torch.rand(1, 1, 5, 7).gt(0.4).index_fill_(3, torch.tensor([0]), True),
    ),
    fn("attention_bias", masked_attention, *QKV, t(5, 7)),
    fn("attention_grouped", grouped_attention, t(1, 4, 6, 8), t(1, 2, 6, 8), t(1, 2, 6, 8)),
    Case("attention_block", SelfAttention, lambda: drawn((t(2, 5, 32),))),
    Case("layer", Block, lambda: drawn((t(2, 5, 64),))),
]
DYNAMIC = [
    dyn(
        "dynamic_softmax",
        lambda: Function(lambda x: x.softmax(-1), 1),
        ROWS,
        *[(t(*s),) for s in ((3, 4), (1, 1), (13, 31), (16, 32))],
    ),
    dyn(
        "dynamic_columns",
        lambda: Function(lambda x: x.mean(0) + x.sum(1).max(), 1),
        ROWS,
        *[(t(*s),) for s in ((3, 4), (1, 1), (13, 31), (16, 32))],
    ),
    dyn(
        "dynamic_views",
        lambda: Function(lambda x: torch.cat([x.flip(1), x[:, :1]], 1).reshape(-1) * x.shape[1], 1),
        ROWS,
        *[(t(*s),) for s in ((3, 4), (1, 1), (13, 31))],
    ),
    dyn("dynamic_mlp", mlp, {"input": {0: B}}, *[(t(n, 12),) for n in (3, 1, 13, 16)]),
    dyn("dynamic_layer", Block, ROWS, *[(t(b, s, 64),) for b, s in ((2, 3), (1, 1), (3, 11))]),
    dyn(
        "dynamic_tokens",
        Tokens,
        TOKENS,
        *[(ids(b, s),) for b, s in ((2, 3), (1, 1), (5, 7), (2, 32))],
    ),
    Case("bert", bert, lambda: drawn((ids(2, 5),))),
    dyn(
        "bert_mask",
        MaskedBert,
        {"ids": {0: B, 1: S}, "mask": {0: B, 1: S}},
        *[
            (ids(b, s), torch.ones(b, s, dtype=I64).tril(s // 2))
            for b, s in ((2, 6), (1, 1), (3, 7))
        ],
    ),
    dyn("gpt2", Gpt2, TOKENS, *[(ids(b, s),) for b, s in ((2, 3), (1, 1), (3, 7))]),
]
H, W = Dim("h", min=8, max=24), Dim("w", min=8, max=24)


def layers(name: str, make: Callable[[], nn.Module]) -> Case:
    """Layers on images whose height and width are dynamic: the sizes of results are divisions."""
    calls = [(t(2, 4, h, w),) for h, w in ((9, 11), (8, 8), (24, 23))]
    return dyn(name, make, {"input": {2: H, 3: W}}, *calls)


def strided(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x = x[::2, ::3]
    scans = x.exp().cumsum(1), x.cummax(1)[1], x.cumsum(0)
    return *scans, x.softmax(0) + x.softmax(1), torch.relu(x @ x.t()), x.argmax(0), x.sum()


IMAGES = [
    fn("conv1d", lambda x, w: F.conv1d(x, w, stride=2, groups=2), t(2, 4, 9), t(6, 2, 3)),
    fn("conv2d", lambda x, w: F.conv2d(x, w, dilation=2, padding=1), t(2, 3, 7, 5), t(4, 3, 3, 2)),
    fn("conv3d", lambda x, w: F.conv3d(x, w, padding=1), t(1, 2, 3, 4, 3), t(3, 2, 3, 3, 3)),
    fn(
        "conv_transposed",
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
        t(1, 3, 4, 3),
        t(3, 2, 3, 3),
    ),
    layers(
        "dynamic_network",
        lambda: nn.Sequential(
            nn.Conv2d(4, 6, 3, stride=2, padding=1),
            nn.BatchNorm2d(6),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 5, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(5, 3),
        ),
    ),
    layers("dynamic_depthwise", lambda: nn.Conv2d(4, 4, 3, groups=4, stride=2, padding=1)),
    layers(
        "dynamic_separable",
        lambda: nn.Sequential(
            nn.Conv2d(4, 20, 1),
            nn.Conv2d(20, 20, (5, 3), (1, 2), (4, 1), (2, 1), groups=20),
            nn.SiLU(),
            nn.MaxPool2d(3, 1, 1),
            nn.Conv2d(20, 3, 1),
        ),
    ),
    layers("dynamic_max_pool", lambda: nn.MaxPool2d(3, 2, 1)),
    layers("dynamic_avg_pool", lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
    layers("dynamic_adaptive", lambda: nn.AdaptiveAvgPool2d(3)),
    dyn(
        "dynamic_strided",
        lambda: Function(strided, 1),
        {"x": {0: Dim("b", min=4, max=17), 1: Dim("s", min=6, max=90)}},
        *[(t(*s),) for s in ((5, 8), (4, 6), (17, 90))],
    ),
]
CASES = [*POINTWISE, *REDUCTIONS, *VIEWS, *PRODUCTS, *DYNAMIC, *IMAGES]
