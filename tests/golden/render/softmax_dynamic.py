# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


# template: device_monoids.py.jinja
@triton.jit
def combine_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def softmax(x_ptr, out_ptr, b, s):
    gdc_wait()
    x = tl.program_id(0)
    r = tl.arange(0, 512)
    r_mask = r < s
    t1 = tl.load(x_ptr + r + s*x, mask=r_mask, other=0)
    t2 = tl.where(r_mask, t1, float("-inf"))
    t3 = tl.reduce(t2, 0, combine_max)
    t4 = t1 - t3
    t5 = libdevice.exp(t4)
    t6 = tl.where(r_mask, t5, 0.0)
    t7 = tl.sum(t6, 0)
    t8 = tl.div_rn(t5, t7)
    tl.store(out_ptr + r + s*x, t8, mask=r_mask)
    gdc_launch_dependents()
