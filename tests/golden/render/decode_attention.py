# template: kernel_attention.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, scaled_dot_product_attention_parts_ptr, scaled_dot_product_attention_arrived_ptr, out_ptr):
    gdc_wait()
    splits = 32
    split = tl.program_id(0) % splits
    number = tl.program_id(0) // splits
    batch_head = number % (2)
    first_i = number // (2) * 16
    g0 = batch_head // 2
    g1 = batch_head % 2
    i = (first_i + tl.arange(0, 16))[:, None]
    d_row = tl.arange(0, 64)[None, :]
    d_column = tl.arange(0, 64)[:, None]
    e = tl.arange(0, 64)[None, :]
    i_mask = i < 2
    top = tl.full([16, 1], float("-inf"), tl.float32)
    weight = tl.zeros([16, 64], tl.float32)
    acc = tl.zeros([16, 64], tl.float32)
    j_first = 0
    j_end = 2048
    steps = tl.cdiv(j_end - j_first, 64)
    share, rest = steps // splits, steps % splits  # the first programs have one more
    j_first += (split * share + tl.minimum(split, rest)) * 64
    j_end = tl.minimum(j_first + (share + (split < rest).to(tl.int32)) * 64, j_end)
    for j_start in range(j_first, j_end, 64):
        j = (j_start + tl.arange(0, 64))[None, :]
        j_column = (j_start + tl.arange(0, 64))[:, None]
        d_step = d_row + tl.multiple_of(tl.minimum(j_start, 0), 16)  # the same in each step
        t1 = tl.load(q_ptr + 128*g1 + 64*i + d_step, mask=i_mask, other=0)
        t2 = tl.load(k_ptr + 131072*g1 + 64*j + d_column)
        logits = tl.dot(t1, t2)
        new_top = tl.maximum(top, tl.max(logits, 1)[:, None] * 0.18033688011112042)
        base = tl.where(new_top == float("-inf"), 0.0, new_top)
        probability = tl.exp2(logits * 0.18033688011112042 - base)
        shrink = tl.exp2(top - base)
        weight = weight * shrink + probability
        t3 = tl.load(v_ptr + 131072*g1 + e + 64*j_column)
        acc = tl.dot(probability.to(tl.bfloat16), t3, acc * shrink)
        top = new_top
    weight = tl.sum(weight, 1)[:, None]
    gdc_launch_dependents()
    stored = tl.arange(0, 16)[:, None]
    place = scaled_dot_product_attention_parts_ptr + (number * splits + split) * 128 + stored * 64 + e
    statistics = scaled_dot_product_attention_parts_ptr + 33792 + (number * splits + split) * 4 + stored
    tl.store(place, acc, mask=stored < 2)
    tl.store(statistics, top, mask=stored < 2)
    tl.store(statistics + 2, weight, mask=stored < 2)
    tl.debug_barrier()
    if tl.atomic_add(scaled_dot_product_attention_arrived_ptr + number, 1, sem="acq_rel") == splits - 1:
        part = tl.arange(0, 64)[:, None, None]
        part_row = tl.arange(0, 2)[None, :, None]
        part_e = tl.arange(0, 64)[None, None, :]
        whole_top = tl.full([1, 2, 1], float("-inf"), tl.float32)
        whole_weight = tl.zeros([1, 2, 1], tl.float32)
        whole = tl.zeros([1, 2, 64], tl.float32)
        for first in range(0, splits, 64):
            known = first + part < splits
            at = number * splits + first + part
            statistic = scaled_dot_product_attention_parts_ptr + 33792 + at * 4 + part_row
            tops = tl.load(statistic, mask=known, other=float("-inf"), cache_modifier=".cg")
            weights = tl.load(statistic + 2, mask=known, other=0, cache_modifier=".cg")
            values = tl.load(scaled_dot_product_attention_parts_ptr + at * 128 + part_row * 64 + part_e, mask=known, other=0, cache_modifier=".cg")
            new_whole_top = tl.maximum(whole_top, tl.max(tops, 0, keep_dims=True))
            whole_base = tl.where(new_whole_top == float("-inf"), 0.0, new_whole_top)
            share_of_part = tl.exp2(tops - whole_base)
            whole_shrink = tl.exp2(whole_top - whole_base)
            whole_weight = whole_weight * whole_shrink + tl.sum(weights * share_of_part, 0, keep_dims=True)
            whole = whole * whole_shrink + tl.sum(values * share_of_part, 0, keep_dims=True)
            whole_top = new_whole_top
        whole = tl.reshape(whole / tl.where(whole_weight == 0.0, 1.0, whole_weight), [2, 64])
        row = (first_i + tl.arange(0, 2))[:, None]
        tl.store(out_ptr + 256*g0 + 128*g1 + 64*row + e, whole.to(tl.bfloat16))
        tl.store(scaled_dot_product_attention_arrived_ptr + number, 0)
