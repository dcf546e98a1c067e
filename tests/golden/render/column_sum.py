import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def combine_sum(a, b):
    return a + b


@triton.jit
def sum_717b1d81(x_ptr, out_ptr):
    x = (tl.program_id(0)*32 + tl.arange(0, 32))[:, None]
    acc2 = tl.full([32, 64], 0.0, tl.float32)
    for r_start in range(0, 300, 64):
        r = (r_start + tl.arange(0, 64))[None, :]
        r_mask = r < 300
        t1 = tl.load(x_ptr + 512*r + x, mask=r_mask, other=0)
        t3 = combine_sum(acc2, t1)
        acc2 = tl.where(r_mask, t3, acc2)
    t4 = tl.sum(acc2, 1)[:, None]
    tl.store(out_ptr + x, t4)
