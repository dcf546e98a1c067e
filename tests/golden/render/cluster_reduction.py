# template: kernel_loop.py.jinja
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


# template: device_packed.py.jinja
@triton.jit
def opaque(x):
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], x.dtype, is_pure=False, pack=2)


# template: device_cluster_reduction.py.jinja
@triton.jit
def open_mailbox():
    return tl.inline_asm_elementwise("""{
        .shared .align 16 .b8 mailbox[40];
        .reg .pred is_first;
        .reg .b32 thread;
        mov.u32 $0, mailbox;
        mov.u32 thread, %tid.x;
        setp.eq.u32 is_first, thread, 0;
        @is_first mbarrier.init.shared::cta.b64 [$0 + 0], 1;
        @is_first fence.mbarrier_init.release.cluster;
        barrier.cluster.arrive.release.aligned;
    }""", "=r,r", [0], tl.int32, is_pure=False, pack=1)


# template: device_monoids.py.jinja
@triton.jit
def combine_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# template: device_cluster_reduction.py.jinja
@triton.jit
def cluster_wait():
    tl.inline_asm_elementwise(
        "barrier.cluster.wait.acquire.aligned; mov.u32 $0, $1;",
        "=r,r", [0], tl.int32, is_pure=False, pack=1
    )


# template: device_cluster_reduction.py.jinja
@triton.jit
def mbarrier_expect(ready, bytes):
    tl.inline_asm_elementwise("""{
        .reg .pred is_first;
        .reg .b32 thread;
        mov.u32 thread, %tid.x;
        setp.eq.u32 is_first, thread, 0;
        @is_first mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1], $2;
        mov.u32 $0, 0;
    }""", "=r,r,r", [ready, bytes], tl.int32, is_pure=False, pack=1)


# template: device_cluster_reduction.py.jinja
@triton.jit
def mbarrier_wait(ready, parity):
    tl.inline_asm_elementwise("""{
        .reg .pred is_over;
    again:
        mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 is_over, [$1], $2;
        @!is_over bra again;
        mov.u32 $0, 0;
    }""", "=r,r,r", [ready, parity], tl.int32, is_pure=False, pack=1)


# template: device_cluster_reduction.py.jinja
@triton.jit
def send_32(place, ready, word):  # a thread writes to each program
    tl.inline_asm_elementwise("""{
        .reg .pred is_sender;
        .reg .b32 program, rank, there, counter;
        mov.u32 program, %tid.x;
        setp.lt.u32 is_sender, program, 8;
        mov.u32 rank, %cluster_ctarank;
        mad.lo.u32 there, rank, 4, $1;
        @is_sender mapa.shared::cluster.u32 there, there, program;
        @is_sender mapa.shared::cluster.u32 counter, $2, program;
        @is_sender st.async.shared::cluster.mbarrier::complete_tx::bytes.b32
            [there], $3, [counter];
        mov.u32 $0, 0;
    }""", "=r,r,r,r", [place, ready, word], tl.int32, is_pure=False, pack=1)


# template: device_cluster_reduction.py.jinja
@triton.jit
def receive_32(place):
    places = place + tl.arange(0, 8) * 4
    return tl.inline_asm_elementwise(
        "ld.shared.b32 $0, [$1];", "=r,r",
        [places], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def amax_sub(x_ptr, out_ptr):
    gdc_wait()
    x = (tl.program_id(0) // 8)
    part = tl.program_id(0) % 8
    first = part*8200
    r = first + tl.arange(0, 16384)
    r_mask = tl.arange(0, 16384) < 8200
    mailbox = open_mailbox()
    t1 = tl.load(x_ptr + r + 65600*x, mask=r_mask, other=0)
    t2 = opaque(t1).to(tl.float32)
    t3 = tl.where(r_mask, t2, float("-inf"))
    t4 = tl.reduce(t3, 0, combine_max)
    cluster_wait()
    mbarrier_expect(mailbox + 0, 32)
    send_32(mailbox + 8, mailbox + 0, t4.to(tl.int32, bitcast=True))
    mbarrier_wait(mailbox + 0, 0)
    t5 = receive_32(mailbox + 8).to(tl.float32, bitcast=True)
    t6 = tl.reduce(t5, 0, combine_max)
    t7 = opaque(t1).to(tl.float32)
    t8 = t7 - t6
    tl.store(out_ptr + r + 65600*x, t8.to(tl.bfloat16), mask=r_mask)
    gdc_launch_dependents()
