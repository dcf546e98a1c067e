"""Triton kernels as users write them, with operators and models around them."""

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.library import triton_op, wrap_triton
from triton.language.extra import libdevice

SLOPE = tl.constexpr(0.1)


@triton.jit
def leaky(x):
    return tl.where(x > 0, x, x * SLOPE)


@triton.jit
def put(x_ptr, place, value, inside):  # a name that the kernel itself has for what it only reads
    tl.store(x_ptr + place, value, mask=inside)


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    x = tl.load(x_ptr + place, mask=inside)
    y = tl.load(y_ptr + place, mask=inside)
    put(out_ptr, place, leaky(x + scale * y), inside)


@triton_op("aot_kernels::scaled_add", mutates_args=())
def scaled_add(x: Tensor, y: Tensor, scale: float) -> Tensor:
    out = torch.empty_like(x)
    n = out.numel()
    wrap_triton(scaled_add_kernel)[(triton.cdiv(n, 32),)](x, y, out, n, scale, BLOCK=32)
    return out


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 4}, num_warps=2, num_stages=1),
        triton.Config({"BLOCK_M": 8}, num_warps=8),
    ],
    key=["m"],
    reset_to_zero=["total_ptr"],
    restore_value=["x_ptr"],
)
@triton.heuristics({"BLOCK_N": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def row_sums_kernel(
    x_ptr, out_ptr, total_ptr, m, n, stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * stride + columns[None, :], mask=inside, other=0.0)
    sums = tl.sum(x, axis=1)
    tl.store(out_ptr + rows, sums, mask=rows < m)
    tl.atomic_add(total_ptr, tl.sum(sums, axis=0))


@triton_op("aot_kernels::row_sums", mutates_args=())
def row_sums(x: Tensor) -> tuple[Tensor, Tensor]:
    m, n = x.shape
    out, total = x.new_empty(m), x.new_zeros(1)

    def grid(meta):
        return (triton.cdiv(m, meta["BLOCK_M"]),)

    wrap_triton(row_sums_kernel)[grid](x, out, total, m, n, x.stride(0))
    return out, total


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < n)
    tl.store(x_ptr + place, libdevice.abs(x) * 2, mask=place < n)


@triton_op("aot_kernels::double_", mutates_args=("x",))
def double_(x: Tensor) -> None:
    n = x.numel()
    wrap_triton(double_kernel)[(1, triton.cdiv(n, 16))](x, n, BLOCK=16)


class Fused(nn.Module):
    """Kernels of the user's between operators that fuse on both sides."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(8)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = scaled_add(self.norm(x), y.exp().t().contiguous().t().contiguous(), 0.5)
        sums, total = row_sums(z * 2)
        return z.relu() + sums[:, None], total


class FusedReference(Fused):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        z = nn.functional.leaky_relu(self.norm(x) + 0.5 * y.exp(), 0.1)
        return z.relu() + (z * 2).sum(1, keepdim=True), (z * 2).sum().reshape(1)


class Sums(nn.Module):
    """One of two results."""

    def forward(self, x: Tensor) -> Tensor:
        return row_sums(x.exp())[0] + 1


class Changing(nn.Module):
    """Changes a state, an intermediate that is read before and after, and an input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.arange(-6.0, 6.0).reshape(3, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        before = y.sum()
        double_(y)
        double_(self.state)
        double_(x)
        return y - before, self.state + x


class ChangingReference(Changing):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        self.state.abs_().mul_(2)
        x.abs_().mul_(2)
        return y.abs() * 2 - y.sum(), self.state + x


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, -tl.load(x_ptr + place, mask=place < n), mask=place < n)


@triton_op("aot_kernels::negated", mutates_args=())
def negated(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    wrap_triton(copy_kernel)[(triton.cdiv(x.numel(), 16),)](x, out, x.numel(), BLOCK=16)
    return out


@triton.autotune(configs=[triton.Config({"BLOCK": 4}, maxnreg=32)], key=["n"])
@triton.jit
def bounded_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.load(x_ptr + place, mask=place < n), mask=place < n)


WORLD = {"one": 1}


@triton.jit
def worldly_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, WORLD["one"], mask=place < n)


@triton.jit
def described_kernel(x_desc, out_ptr):
    place = tl.arange(0, 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    tl.store(out_ptr + place, x_desc.load([0, 0]))


@triton.jit
def idle_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.load(x_ptr + tl.arange(0, BLOCK))
