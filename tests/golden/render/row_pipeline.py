# template: kernel_loop.py.jinja
# template: device_row_pipeline.py.jinja
# template: device_cluster_reduction.py.jinja
# template: device_monoids.py.jinja
@triton.jit
def sum_add(x_ptr, out_ptr):
    gdc_wait()
    part = tl.program_id(0) % 8
    first = part*8192
    mailbox = open_mailbox()
    row = tl.program_id(0) // 8
    clusters = tl.num_programs(0) // 8
    ring = open_ring(256)
    lane = tl.arange(0, 256)*4
    for number in range(8):
        at = number % 8 * 1024 + lane
        next_row = (row + (number // 8)*clusters)
        async_copy(ring + number*4096, x_ptr + (first + at) + 65536*next_row, (next_row < 4096))
        async_commit_group()
    cluster_wait()
    for turn in range(tl.cdiv(4096 - row, clusters)):
        x = (row + turn*clusters)
        acc2 = tl.full([4, 256], 0.0, tl.float32)
        for r_start in tl.static_range(0, 8192, 1024):
            r = (first + r_start + tl.arange(0, 4)[:, None] + lane[None, :])
            async_wait_group(7 - r_start // 1024)
            slot = ring + r_start // 1024*4096
            t1 = load_shared_float32(slot)
            t3 = combine_sum(acc2, t1)
            acc2 = t3
        t4 = tl.sum(acc2, None)
        stage = mailbox + turn % 2 * 40
        mbarrier_expect(stage + 0, 32)
        send_32(stage + 8, stage + 0, t4.to(tl.int32, bitcast=True))
        mbarrier_wait(stage + 0, turn // 2 % 2)
        t5 = receive_32(stage + 8).to(tl.float32, bitcast=True)
        t6 = tl.sum(t5, None)
        for r_start in tl.static_range(0, 8192, 1024):
            r = (first + r_start + tl.arange(0, 4)[:, None] + lane[None, :])
            slot = ring + r_start // 1024*4096
            t7 = load_shared_float32(slot)
            t8 = tl.div_rn(t7, t6)
            tl.store(out_ptr + r + 65536*x, t8)
            at = (r_start // 1024 + 8) % 8 * 1024 + lane
            next_row = (row + (turn + (r_start // 1024 + 8) // 8)*clusters)
            async_copy(slot, x_ptr + (first + at) + 65536*next_row, (next_row < 4096))
            async_commit_group()
    gdc_launch_dependents()
