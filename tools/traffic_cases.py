"""Graphs whose memory traffic ``bench_traffic.py`` counts, with the bytes that must move.

Each input must be read once and each output written once. What a barrier separates must cross
memory too: ``crossing`` bytes, for the reason ``why``. A barrier lies

- between a product or attention and a reader that needs other points of the result than its own;
- behind a reduction whose rows no multiprocessor or cluster can hold: of a whole tensor, or of long
  columns. What is used again behind it is read again.
- behind a scatter, for those that read its result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F

Shape = tuple[int, ...]
Spec = tuple[Shape, torch.dtype]
F32, BF16, I64 = torch.float32, torch.bfloat16, torch.int64
ROWS, COLUMNS = 4096, 1024
X = ((ROWS, COLUMNS), F32)
SQUARE = ((2048, 2048), F32)
VECTOR = ((COLUMNS,), F32)
WHOLE = ROWS * COLUMNS * 4  # bytes of X
IMAGES = ((8, 64, 56, 56), F32)
TOKENS = ((8, 512, 768), BF16)


@dataclass(frozen=True, slots=True)
class Case:
    """A function of tensors; ``dynamic`` gives its first size a range around the example's."""

    name: str
    function: Callable[..., object]
    inputs: tuple[Spec, ...]
    crossing: int = 0
    why: str = ""
    dynamic: bool = False

    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Example inputs without values."""
        return tuple(torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in self.inputs)


def _bytes(dtype: torch.dtype, *shape: int) -> int:
    return math.prod(shape) * dtype.itemsize


def _norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


def _rms_norm_residual(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> object:
    y = x + r
    return y, F.rms_norm(y, y.shape[-1:], w)


def _rope(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> object:
    def turned(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    return turned(q), turned(k)


def _kl(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    p, q = a.log_softmax(-1), b.log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


def _entropy(x: torch.Tensor) -> object:
    p = x.softmax(-1)
    return p, -(p * x.log_softmax(-1)).sum(-1)


def _per_tensor_int8(x: torch.Tensor) -> object:
    scale = x.abs().amax() / 127
    return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale


def _per_token_int8(x: torch.Tensor) -> object:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return torch.clamp(torch.round(x / scale), -127, 127).to(torch.int8), scale


def _glu(x: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return a * b.sigmoid()


def _cosine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    out = F.scaled_dot_product_attention(q, k, v)
    return F.linear(out.transpose(1, 2).flatten(2), w)


def _mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x + F.linear(F.gelu(F.linear(x, up)), down)


def _batch_norm(
    x: torch.Tensor, w: torch.Tensor, m: torch.Tensor, v: torch.Tensor, b: torch.Tensor
) -> torch.Tensor:
    """Channels last, as convolutions multiply them."""
    y = F.conv2d(x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), padding=1)
    return F.relu(F.batch_norm(y, m, v.abs(), b, b)).permute(0, 2, 3, 1)


POINTWISE = (
    Case("gelu(x + b) * y", lambda x, b, y: F.gelu(x + b) * y, (X, VECTOR, X)),
    Case("silu(x) * y", lambda x, y: F.silu(x) * y, (X, X)),
    Case("gated halves", _glu, (X,)),
    Case("x + y.t()", lambda x, y: x + y.t(), (SQUARE, SQUARE)),
    Case("x.sin(), x.t() * 2", lambda x: (x.sin(), x.t().contiguous() * 2), (SQUARE,)),
    Case("sin, cos, exp", lambda x: (x.sin(), x.cos(), x.exp()), (X,)),
    Case("where", lambda x, y: torch.where(y > 0, x, 0.0) * 2, (X, X)),
    Case("cat of two", lambda x, y: torch.cat((x.sin(), y.exp()), -1), (X, X)),
    Case("differences", lambda x: x[:, 1:] - x[:, :-1], (X,)),
    Case("to bfloat16", lambda x: (x * 0.5).to(BF16), (X,)),
    Case("rotary embedding", _rope, (((8, 16, 512, 64), F32),) * 2 + (((512, 64), F32),) * 2),
    Case("pad", lambda x: F.pad(x, (4, 4)), (X,)),
)
ROW_CASES = (
    Case("softmax", lambda x: x.softmax(-1), (X,)),
    Case("softmax, dynamic rows", lambda x: x.softmax(-1), (X,), dynamic=True),
    Case("layer norm", lambda x, w, b: F.layer_norm(x, w.shape, w, b), (X, VECTOR, VECTOR)),
    Case("rms norm of a residual", _rms_norm_residual, (X, X, VECTOR)),
    Case("norm(a) + norm(b)", lambda a, b: _norm(a) + _norm(b), (X, X)),
    Case("norm(a) + norm(b), dynamic", lambda a, b: _norm(a) + _norm(b), (X, X), dynamic=True),
    Case("three norms", lambda a, b, c: _norm(a) + _norm(b) + _norm(c), (X, X, X)),
    Case("KL of two softmaxes", _kl, (X, X)),
    Case("softmax and entropy", _entropy, (X,)),
    Case("max, argmax", lambda x: (x.amax(-1), x.argmax(-1)), (X,)),
    Case("mean, var", lambda x: (x.mean(-1), x.var(-1)), (X,)),
    Case("cosine of rows", _cosine, (X, X)),
    Case("int8 per token", _per_token_int8, (X,)),
    Case("int8 per token, dynamic", _per_token_int8, (X,), dynamic=True),
    Case(
        "cross entropy", lambda x, y: F.cross_entropy(x, y, reduction="none"), (X, ((ROWS,), I64))
    ),
    Case("cumsum", lambda x: x.cumsum(-1), (X,)),
    Case("group norm", lambda x: F.relu(F.group_norm(x, 8)), (IMAGES,)),
    Case("softmax of columns", lambda x: x.softmax(1), (((32, 128, 1024), F32),)),
)
WHOLE_CASES = (
    Case("column sum", lambda x: x.sum(0), (X,)),
    Case("column mean, var", lambda x: (x.mean(0), x.var(0)), (X,)),
    Case("mean, dynamic rows", lambda x: x.mean(), (X,), dynamic=True),
    Case("mean squared error", lambda x, y: F.mse_loss(x, y), (X, X)),
    Case("argmax of a tensor", lambda x: x.argmax(), (X,)),
    Case(
        "int8 per tensor",
        _per_tensor_int8,
        (X,),
        WHOLE,
        "the scale is known when all of x was read",
    ),
    Case(
        "int8 per tensor, dynamic",
        _per_tensor_int8,
        (X,),
        WHOLE,
        "the scale is known when all of x was read",
        dynamic=True,
    ),
    Case(
        "softmax of long columns",
        lambda x: x.softmax(0),
        (X,),
        WHOLE,
        "columns of 4096 elements are split over programs",
    ),
    Case(
        "standardised tensor",
        lambda x: (x - x.mean()) / x.std(),
        (X,),
        WHOLE,
        "the mean is known when all of x was read",
    ),
)
PRODUCT_CASES = (
    Case(
        "linear + gelu",
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        (TOKENS, ((768, 768), BF16), ((768,), BF16)),
    ),
    Case(
        "mlp with residual",
        _mlp,
        (TOKENS, ((3072, 768), BF16), ((768, 3072), BF16)),
        2 * _bytes(BF16, 8, 512, 3072) + _bytes(BF16, 8, 512, 768),
        "the second product needs whole rows of the first, and x is added behind it",
    ),
    Case(
        "linear, softmax",
        lambda x, w: F.linear(x, w).softmax(-1),
        (TOKENS, ((1024, 768), BF16)),
        2 * _bytes(BF16, 8, 512, 1024),
        "rows of the product belong to several programs",
    ),
    Case(
        "attention, projection",
        _attended,
        (((8, 12, 512, 64), BF16),) * 3 + (((768, 768), BF16),),
        2 * _bytes(BF16, 8, 512, 768),
        "the product needs all heads of a token",
    ),
    Case(
        "convolution, batch norm, relu",
        _batch_norm,
        (((8, 56, 56, 64), F32), ((64, 3, 3, 64), F32)) + (((64,), F32),) * 3,
    ),
    Case("max pool", lambda x: F.max_pool2d(x, 2), (IMAGES,)),
    Case(
        "embedding, norm",
        lambda i, w: _norm(F.embedding(i, w)),
        (((8, 512), I64), ((30000, 768), F32)),
    ),
    Case(
        "index_add",
        lambda x, i, y: x.index_add(0, i, y),
        (X, ((512,), I64), ((512, COLUMNS), F32)),
        2 * _bytes(F32, 512, COLUMNS),
        "rows of x are copied, then some are read and written again",
    ),
)
CASES = (*POINTWISE, *ROW_CASES, *WHOLE_CASES, *PRODUCT_CASES)
APART = (  # known to move more: what is read twice, and why
    Case("sums of rows and of columns", lambda x: (x.sum(1), x.sum(0)), (X,)),  # decision 027
    Case(  # tiles of both directions hold no whole rows
        "transposed, exp, row sums",
        lambda x: (x.t().contiguous() * 2, x.exp(), x.sum(-1)),
        (SQUARE,),
    ),
    Case(  # registers do not hold rows of both
        "two norms of long rows", lambda a, b: _norm(a) + _norm(b), (((256, 16384), F32),) * 2
    ),
)
