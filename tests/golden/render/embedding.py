# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def embedding_mul(weight_ptr, ids_ptr, out_ptr):
    gdc_wait()
    x = (tl.program_id(0)*256 + tl.arange(0, 256))
    i1 = x % 32
    i2 = x // 32
    t3 = tl.load(ids_ptr + i2)
    t4 = t3 < tl.full([], 0, tl.int64)
    t5 = t3 + tl.full([], 100, tl.int64)
    t6 = tl.where(t4, t5, t3)
    t7 = tl.minimum(t6, tl.full([], 99, tl.int64), propagate_nan=tl.PropagateNan.ALL)
    t8 = tl.maximum(t7, tl.full([], 0, tl.int64), propagate_nan=tl.PropagateNan.ALL)
    t9 = tl.load(weight_ptr + i1 + 32*t8)
    t10 = t9 * 2.0
    tl.store(out_ptr + x, t10)
    gdc_launch_dependents()
