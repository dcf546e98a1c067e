# template: kernel_matmul.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def conv2d(input_ptr, weight_ptr, out_ptr):
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
    i3 = m // 56
    i8 = m % 56
    acc = tl.zeros([64, 32], tl.float32)
    for k_start in range(0, 576, 128):
        k = k_start + tl.arange(0, 128)
        k_row = k[None, :]
        k_column = k[:, None]
        k_row_mask = k_row < 576
        k_column_mask = k_column < 576
        i1 = k_row // 3
        i2 = i1 % 3
        t4 = tl.cast(i2 + i3 - 1, tl.int64)
        t5 = t4 >= tl.full([], 0, tl.int64)
        t6 = t4 < tl.full([], 56, tl.int64)
        t7 = t5 & t6
        i9 = k_row % 3
        t10 = tl.cast(i8 + i9 - 1, tl.int64)
        t11 = t10 >= tl.full([], 0, tl.int64)
        t12 = t7 & t11
        t13 = t10 < tl.full([], 56, tl.int64)
        t14 = t12 & t13
        i15 = k_row // 9
        t16 = tl.load(input_ptr + 56*i2 + m + i9 + 3136*i15 - 57, mask=k_row_mask & t14, other=0).to(tl.float32)
        t17 = tl.where(t14, t16, 0.0)
        t18 = (tl.where(k_row_mask, t17, 0.0)).to(tl.bfloat16)
        t19 = tl.load(weight_ptr + 576*n + k_column, mask=k_column_mask, other=0)
        acc = tl.dot(t18, t19, acc)
    tl.store(out_ptr + m + 3136*n, acc.to(tl.bfloat16))
    gdc_launch_dependents()
