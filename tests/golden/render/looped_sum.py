# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


# template: device_monoids.py.jinja
@triton.jit
def combine_sum(a, b):
    return a + b


@triton.jit
def sum(x_ptr, out_ptr):
    gdc_wait()
    x = tl.program_id(0)
    acc2 = tl.full([2048], 0.0, tl.float32)
    for r_start in tl.range(0, 28672, 2048, loop_unroll_factor=4):
        r = (r_start + tl.arange(0, 2048))
        t1 = tl.load(x_ptr + r + 30011*x)
        t3 = combine_sum(acc2, t1)
        acc2 = t3
    for r_start in range(28672, 30011, 2048):
        r = (r_start + tl.arange(0, 2048))
        r_mask = r < 30011
        t4 = tl.load(x_ptr + r + 30011*x, mask=r_mask, other=0)
        t5 = combine_sum(acc2, t4)
        acc2 = tl.where(r_mask, t5, acc2)
    t6 = tl.sum(acc2, 0)
    tl.store(out_ptr + x, t6)
    gdc_launch_dependents()
