# template: kernel_horizontal.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


# template: loop_function.py.jinja
@triton.jit
def exp(x_ptr, out_ptr, program):
    x = (program*256 + tl.arange(0, 256))
    x_mask = x < 1000
    t1 = tl.load(x_ptr + x, mask=x_mask, other=0)
    t2 = libdevice.exp(t1)
    tl.store(out_ptr + x, t2, mask=x_mask)


# template: loop_function.py.jinja
@triton.jit
def sin(y_ptr, out_ptr, program):
    x = (program*256 + tl.arange(0, 256))
    x_mask = x < 700
    t1 = tl.load(y_ptr + x, mask=x_mask, other=0)
    t2 = libdevice.sin(t1)
    tl.store(out_ptr + x, t2, mask=x_mask)


@triton.jit
def exp_and_1_more(p0, p1, p2, p3):
    gdc_wait()
    program = tl.program_id(0)
    if program < 4:
        exp(p0, p1, program)
    else:
        sin(p2, p3, program - 4)
    gdc_launch_dependents()
