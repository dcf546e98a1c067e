# template: kernel_matmul.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def linear_relu(x_ptr, weight_ptr, bias_ptr, out_ptr):
    gdc_wait()
    m_tiles = tl.cdiv(128, 32)
    n_tiles = tl.cdiv(512, 32)
    tile = tl.program_id(0)
    first_m = tile // (8 * n_tiles) * 8
    rows = tl.minimum(m_tiles - first_m, 8)
    tile = tile % (8 * n_tiles)
    m_start = (first_m + tile % rows) * 32
    n_start = (tile // rows) * 32
    m = (m_start + tl.arange(0, 32))[:, None]
    n = (n_start + tl.arange(0, 32))[None, :]
    t3 = tl.load(bias_ptr + n).to(tl.float32)
    acc = tl.zeros([32, 32], tl.float32)
    for k_start in range(0, 256, 256):
        k = k_start + tl.arange(0, 256)
        k_row = k[None, :]
        k_column = k[:, None]
        t1 = tl.load(x_ptr + 256*m + k_row)
        t2 = tl.load(weight_ptr + 256*n + k_column)
        acc = tl.dot(t1, t2, acc)
    t4 = acc + t3
    t5 = tl.maximum(t4, 0.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + 512*m + n, t5.to(tl.bfloat16))
    gdc_launch_dependents()
