# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


# template: device_look_back.py.jinja
@triton.jit
def fence():
    tl.inline_asm_elementwise(
        "fence.acq_rel.gpu; mov.u32 $0, $1;", "=r,r", [0], tl.int32, is_pure=False, pack=1
    )


# template: device_look_back.py.jinja
@triton.jit
def publish(ready, mask):
    tl.debug_barrier()
    tl.atomic_xchg(ready, 1, mask=mask, sem="release")


# template: device_look_back.py.jinja
@triton.jit
def wait(ready, mask):
    missing = 1
    while missing > 0:
        found = tl.load(ready, mask=mask, other=1, volatile=True)
        missing = tl.sum((found == 0).to(tl.int32), 0)
    fence()
    tl.debug_barrier()


# template: device_look_back.py.jinja
@triton.jit
def clear(ready, places):
    for start in range(0, places, 1024):
        place = start + tl.arange(0, 1024)
        tl.store(ready + place, 0, mask=place < places)


# template: device_monoids.py.jinja
@triton.jit
def combine_sum(a, b):
    return a + b


@triton.jit
def cumsum(cumsum_ready_ptr, cumsum_state0_ptr, x_ptr, out_ptr, cumsum_turn_ptr):
    gdc_wait()
    parts = tl.cdiv(65536, 8192)
    groups = tl.cdiv(parts, 256)
    turn = tl.atomic_add(cumsum_turn_ptr, 1, sem="relaxed")
    x = (turn % (16))
    part = (turn // (16))
    group = part // 256
    row = x*(parts + groups)
    lane = tl.arange(0, 256)
    before = tl.where(lane == 0, parts + group, group*256 + lane - 1)
    is_before = tl.where(lane == 0, group > 0, before < part)
    is_last = (part % 256 == 255) & (part + 1 < parts)
    r = part*8192 + tl.arange(0, 8192)
    t1 = tl.load(x_ptr + r + 65536*x)
    t2 = tl.reduce(t1, 0, combine_sum)
    tl.store(cumsum_state0_ptr + row + part, t2, mask=part < parts)
    publish(cumsum_ready_ptr + row + part, part < parts)
    t3 = tl.associative_scan(t1, 0, combine_sum)
    wait(cumsum_ready_ptr + row + before, is_before)
    t4 = tl.where(is_before, tl.load(cumsum_state0_ptr + row + before, mask=is_before, other=0, cache_modifier=".cg"), 0.0)
    t5 = tl.reduce(t4, 0, combine_sum)
    t6 = combine_sum(t5, t2)
    tl.store(cumsum_state0_ptr + row + parts + group + 1, t6, mask=is_last)
    publish(cumsum_ready_ptr + row + parts + group + 1, is_last)
    t7 = combine_sum(tl.broadcast_to(t5, [8192]), t3)
    tl.store(out_ptr + r + 65536*x, t7)
    tl.debug_barrier()
    if tl.atomic_add(cumsum_turn_ptr + 1, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        clear(cumsum_ready_ptr, (16)*(parts + groups))
        tl.store(cumsum_turn_ptr + tl.arange(0, 2), 0)
    gdc_launch_dependents()
