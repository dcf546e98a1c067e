# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


# template: device_scatter.py.jinja
@triton.jit
def scatter_sum(pointer, offset, value, mask):
    address = pointer + tl.where(mask, offset, 0)
    tl.atomic_add(address, value, mask=mask, sem="relaxed")


@triton.jit
def index_add(y_ptr, n_ptr, out_ptr):
    gdc_wait()
    x = (tl.program_id(0)*256 + tl.arange(0, 256))
    x_mask = x < 160
    t1 = tl.load(y_ptr + x, mask=x_mask, other=0)
    i2 = x // 32
    t3 = tl.load(n_ptr + i2, mask=x_mask, other=0)
    t4 = t3 < tl.full([], 0, tl.int64)
    t5 = t3 >= tl.full([], 100, tl.int64)
    t6 = t4 | t5
    t7 = tl.where(t6, tl.full([], 100, tl.int64), t3)
    t8 = (t7 < 100)
    i9 = x % 32
    scatter_sum(out_ptr, i9 + 32*t7, t1, x_mask & t8)
    gdc_launch_dependents()
