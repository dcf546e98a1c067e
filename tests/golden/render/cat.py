# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def cat_add(x_ptr, y_ptr, out_ptr):
    gdc_wait()
    x = (tl.program_id(0)*256 + tl.arange(0, 256))
    x_mask = x < 32
    i1 = x % 8
    t2 = tl.cast(i1, tl.int64)
    t3 = t2 < tl.full([], 3, tl.int64)
    i4 = x // 8
    t5 = tl.load(x_ptr + i1 + 3*i4, mask=x_mask & t3, other=0)
    t6 = t2 >= tl.full([], 3, tl.int64)
    t7 = tl.load(y_ptr + i1 + 5*i4 - 3, mask=x_mask & t6, other=0)
    t8 = tl.where(t6, t7, 0.0)
    t9 = tl.where(t3, t5, t8)
    t10 = t9 + 1.0
    tl.store(out_ptr + x, t10, mask=x_mask)
    gdc_launch_dependents()
