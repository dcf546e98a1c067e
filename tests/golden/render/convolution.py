# template: kernel_matmul.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def conv2d(sigmoid_ptr, conv2d_weight_ptr, out_ptr):
    gdc_wait()
    m_tiles = tl.cdiv(3136, 64)
    n_tiles = tl.cdiv(64, 32)
    tile = tl.program_id(0)
    first_m = tile // (8 * n_tiles) * 8
    rows = tl.minimum(m_tiles - first_m, 8)
    tile = tile % (8 * n_tiles)
    m_start = (first_m + tile % rows) * 64
    n_start = (tile // rows) * 32
    m = (m_start + tl.arange(0, 64))[:, None]
    n = (n_start + tl.arange(0, 32))[None, :]
    k = tl.arange(0, 64)  # within a step
    k_row = k[None, :]
    k_column = k[:, None]
    i1 = m // 56
    i6 = m % 56
    acc = tl.zeros([64, 32], tl.float32)
    for k_step in range(0, 9):
        i2 = k_step // 3
        t3 = ((i1 + i2 - 1) >= 0)
        t4 = ((i1 + i2 - 1) < 56)
        t5 = t3 & t4
        i7 = k_step % 3
        t8 = ((i6 + i7 - 1) >= 0)
        t9 = t5 & t8
        t10 = ((i6 + i7 - 1) < 56)
        t11 = t9 & t10
        t12 = tl.load(sigmoid_ptr + 64*m + k_row + 64*i7 + 3584*i2 - 3648, mask=t11, other=0)
        t13 = tl.load(conv2d_weight_ptr + 576*n + k_column + 64*k_step)
        acc = tl.dot(t12, t13, acc)
    tl.store(out_ptr + m + 3136*n, acc.to(tl.bfloat16))
    gdc_launch_dependents()
