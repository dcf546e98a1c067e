# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


# template: device_monoids.py.jinja
@triton.jit
def add_pairs(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


@triton.jit
def layer_norm_add(x_ptr, y_ptr, weight_ptr, bias_ptr, out_ptr):
    gdc_wait()
    x = tl.program_id(0)
    r = tl.arange(0, 1024)
    r_mask = r < 768
    t1 = tl.load(x_ptr + r + 768*x, mask=r_mask, other=0).to(tl.float32)
    t2 = tl.load(y_ptr + r + 768*x, mask=r_mask, other=0).to(tl.float32)
    t3 = t1 + t2
    t4 = tl.where(r_mask, t3, 0.0)
    t5 = tl.sum(t4, 0)
    t6 = t5 / 768.0
    t7 = t3 - t6
    t8 = tl.where(r_mask, t7, 0.0)
    t9, t10 = tl.reduce((t8, t8 * t8), 0, add_pairs)
    t11 = t9 / 768.0
    t12 = t10 - t9 * t11
    t13 = t6 + t11
    t14 = tl.where(t12 < 0.0, 0.0, t12)
    t15 = t3 - t13
    t16 = t14 / 768.0
    t17 = t16 + 1e-05
    t18 = tl.rsqrt(t17)
    t19 = t15 * t18
    t20 = tl.load(weight_ptr + r, mask=r_mask, other=0).to(tl.float32)
    t21 = t19 * t20
    t22 = tl.load(bias_ptr + r, mask=r_mask, other=0).to(tl.float32)
    t23 = t21 + t22
    tl.store(out_ptr + r + 768*x, t23.to(tl.bfloat16), mask=r_mask)
    gdc_launch_dependents()
