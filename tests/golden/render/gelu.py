# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def to_copy_add_gelu(x_ptr, y_ptr, out_ptr):
    gdc_wait()
    x = (tl.program_id(0)*256 + tl.arange(0, 256))
    x_mask = x < 35
    t1 = tl.load(x_ptr + x, mask=x_mask, other=0)
    i2 = x % 7
    t3 = tl.load(y_ptr + i2, mask=x_mask, other=0).to(tl.float32)
    t4 = t1 + t3
    t5 = tl.div_rn(t4, 1.0 + libdevice.exp(t4 * (-1.5957691216057308 - 0.07135481627260025 * t4 * t4)))
    tl.store(out_ptr + x, t5, mask=x_mask)
    gdc_launch_dependents()
