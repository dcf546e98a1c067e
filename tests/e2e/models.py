"""The table of small models: name, what to compute, example inputs, dynamic sizes, other calls."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

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


class Function(nn.Module):
    """A function of up to four tensors as a module."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        super().__init__()
        self.function = function
        self.forward = (self._one, self._two, self._three, self._four)[count - 1]

    def _one(self, x: torch.Tensor) -> Any:
        return self.function(x)

    def _two(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return self.function(x, y)

    def _three(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> Any:
        return self.function(x, y, z)

    def _four(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor, w: torch.Tensor) -> Any:
        return self.function(x, y, z, w)


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


# --- modules ------------------------------------------------------------------------------------


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 7))


class Rms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(24, eps=1e-6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + y
        return self.norm(total), total


class Glu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(10, 16, bias=False), nn.Linear(10, 16, bias=False)
        self.down = nn.Linear(16, 10, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(F.gelu(self.fc1(self.norm(x)), approximate="tanh"))


class SelfAttention(nn.Module):
    """Fused or separate projections; the heads are split and joined by views."""

    def __init__(self, width: int = 32, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, width = x.shape
        q, k, v = (
            p(x).view(b, s, self.heads, width // self.heads).transpose(1, 2)
            for p in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).reshape(b, s, width))


class Block(nn.Module):
    """A BERT layer: attention and a feed-forward part, each with a residual and a norm."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.attention, self.norm1 = SelfAttention(width, 2), nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(self.attention(x))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


class Weighted(nn.Module):
    """Returns an input, a weight, a result twice and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = x * self.weight
        return {"x": x, "weight": self.weight, "y": y, "again": y, "total": (y * y).sum()}


class Tokens(nn.Module):
    """Embedding with a tied output projection and log-softmax over the vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(23, 16), nn.Embedding(32, 16)
        self.head = nn.Linear(16, 23, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.head(x).log_softmax(-1)


def bert() -> nn.Module:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        attn_implementation="sdpa",
    )
    return BertModel(config, add_pooling_layer=False)


class MaskedBert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bert = bert()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=ids, attention_mask=mask).last_hidden_state


class Gpt2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        config = GPT2Config(
            vocab_size=50, n_positions=32, n_embd=32, n_layer=2, n_head=2, use_cache=False
        )
        self.gpt2 = GPT2Model(config)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.gpt2(input_ids=ids, use_cache=False).last_hidden_state


# --- functions of several lines -----------------------------------------------------------------


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    both = torch.cat([x, y.flip(1), F.pad(x, (1, 2), value=3.0)], dim=1)
    return both[:, 1:-1:2].roll(2, 1) * 2 + 1


def several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x.chunk(2, -1)
    return a * b, (a + b).sum(0), a.amax(1), b.mean()


def moments(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    deviation, mean = torch.std_mean(x, -1)
    return x.var(0), x.var((0, 1), correction=0), deviation, mean


def integers(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    bits = (x & y) | (x ^ 3), ~x, x << 1, x >> 1
    return *bits, x * y - 5, x // 3, x % 4, torch.div(x, 3, rounding_mode="trunc"), x.abs().sum()


def predicates(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a, b = x > 0, y <= x
    return a & b, a | ~b, a ^ b, torch.where(a, x, y * 2), a.any(-1), b.all(0), a.sum(), a.all()


def masked_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def grouped_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


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
    fn("arange", lambda x: x + torch.arange(6) * torch.arange(5).unsqueeze(1), t(5, 6)),
    fn("casts", lambda x: ((x * 3).long(), x.to(BF16), x.bool(), x.half(), x.double()), t(20)),
    Case(
        "same_tensor_twice",
        lambda: Function(lambda x, y: x - 2 * y, 2),
        lambda: (torch.ones(3),) * 2,
        calls=(lambda: drawn((t(3), t(3))),),
    ),
    fn("scalar", lambda x: x * 2 + 1, t()),
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
CASES = [*POINTWISE, *REDUCTIONS, *VIEWS, *PRODUCTS, *DYNAMIC]
