# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


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
    t9 = tl.sum(t8 * t8, 0)
    t10 = t3 - t6
    t11 = t9 / 768.0
    t12 = t11 + 1e-05
    t13 = tl.rsqrt(t12)
    t14 = t10 * t13
    t15 = tl.load(weight_ptr + r, mask=r_mask, other=0).to(tl.float32)
    t16 = t14 * t15
    t17 = tl.load(bias_ptr + r, mask=r_mask, other=0).to(tl.float32)
    t18 = t16 + t17
    tl.store(out_ptr + r + 768*x, t18.to(tl.bfloat16), mask=r_mask)
    gdc_launch_dependents()
