# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def sum(x_ptr, out_ptr):
    gdc_wait()
    x = (tl.program_id(0)*8 + tl.arange(0, 8))[:, None]
    r = tl.arange(0, 64)[None, :]
    r_mask = r < 61
    t1 = tl.load(x_ptr + 512*r + x, mask=r_mask, other=0)
    t2 = tl.where(r_mask, t1, 0.0)
    t3 = tl.sum(t2, 1)[:, None]
    tl.store(out_ptr + x, t3)
    gdc_launch_dependents()
