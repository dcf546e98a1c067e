@triton.jit
def sum_add(x_ptr, out_ptr):
    gdc_wait()
    part = tl.program_id(0) % 8
    first = part*8192
    room = open_room()
    row = tl.program_id(0) // 8
    together = tl.num_programs(0) // 8
    slots = open_slots(256)
    lane = tl.arange(0, 256)*4
    for number in range(8):
        at = number % 8 * 1024 + lane
        later = (row + (number // 8)*together)
        copy_vector(slots + number*4096, x_ptr + (first + at) + 65536*later, (later < 4096))
        end_copies()
    all_open()
    for turn in range(tl.cdiv(4096 - row, together)):
        x = (row + turn*together)
        acc2 = tl.full([4, 256], 0.0, tl.float32)
        for r_start in tl.static_range(0, 8192, 1024):
            r = (first + r_start + tl.arange(0, 4)[:, None] + lane[None, :])
            await_copies(7 - r_start // 1024)
            slot = slots + r_start // 1024*4096
            t1 = held_float32(slot)
            t3 = combine_sum(acc2, t1)
            acc2 = t3
        t4 = tl.sum(acc2, None)
        side = room + turn % 2 * 40
        expect(side + 0, 32)
        send_32(side + 8, side + 0, t4.to(tl.int32, bitcast=True))
        wait(side + 0, turn // 2 % 2)
        t5 = received_32(side + 8).to(tl.float32, bitcast=True)
        t6 = tl.sum(t5, None)
        for r_start in tl.static_range(0, 8192, 1024):
            r = (first + r_start + tl.arange(0, 4)[:, None] + lane[None, :])
            slot = slots + r_start // 1024*4096
            t7 = held_float32(slot)
            t8 = tl.div_rn(t7, t6)
            tl.store(out_ptr + r + 65536*x, t8)
            at = (r_start // 1024 + 8) % 8 * 1024 + lane
            later = (row + (turn + (r_start // 1024 + 8) // 8)*together)
            copy_vector(slot, x_ptr + (first + at) + 65536*later, (later < 4096))
            end_copies()
    gdc_launch_dependents()
