import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def to_copy_add_gelu_4df58430(x_ptr, y_ptr, out_ptr):
    x = (tl.program_id(0)*256 + tl.arange(0, 256))
    x_mask = x < 35
    t1 = tl.load(x_ptr + x, mask=x_mask, other=0)
    i2 = x % 7
    t3 = tl.load(y_ptr + i2, mask=x_mask, other=0).to(tl.float32)
    t4 = t1 + t3
    t5 = t4 * 0.5
    t6 = t4 * t4
    t7 = t6 * t4
    t8 = t7 * 0.044715
    t9 = t4 + t8
    t10 = t9 * 0.7978845608028654
    t11 = libdevice.tanh(t10)
    t12 = t11 + 1.0
    t13 = t5 * t12
    tl.store(out_ptr + x, t13, mask=x_mask)
