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
    t2 = (i1 < 3)
    i3 = x // 8
    t4 = tl.load(x_ptr + i1 + 3*i3, mask=x_mask & t2, other=0)
    t5 = (i1 >= 3)
    t6 = tl.load(y_ptr + i1 + 5*i3 - 3, mask=x_mask & t5, other=0)
    t7 = tl.where(t5, t6, 0.0)
    t8 = tl.where(t2, t4, t7)
    t9 = t8 + 1.0
    tl.store(out_ptr + x, t9, mask=x_mask)
    gdc_launch_dependents()
