// template: kernel_matmul.c.jinja

AOT_INLINE void linear_relu_pack(
    const aot_call *call, int64_t batch, int64_t v_first, int64_t v_end, int64_t k_first,
    int64_t k_end, float *restrict panel, const int64_t width) {
    const float *const bias_ptr = (const float *)(uintptr_t)call->cells[call->slots[0]];
    float *const out_ptr = (float *)(uintptr_t)call->cells[call->slots[1]];
    const float *const x_ptr = (const float *)(uintptr_t)call->cells[call->slots[2]];
    const float *const weight_ptr = (const float *)(uintptr_t)call->cells[call->slots[3]];



    for (int64_t v = v_first; v < v_end; ++v) {

        for (int64_t k = k_first; k < k_end; ++k) {
            const float t4 = x_ptr[256*v + k];

            panel[k * width + v - v_first] = t4;
        }
    }
    for (int64_t k = k_first; k < k_end; ++k)
        for (int64_t at = v_end - v_first; at < width; ++at)
            panel[k * width + at] = 0;
}

AOT_INLINE void linear_relu_tile(
    const aot_call *call, int64_t batch, int64_t v_first, int64_t v_end, int64_t s_first,
    int64_t s_end, const float *panels, float *tile, float *turned, float *rows,
    const int64_t width, const int64_t unit, aot_matmul_kernel *const *kernels) {
    const float *const bias_ptr = (const float *)(uintptr_t)call->cells[call->slots[0]];
    float *const out_ptr = (float *)(uintptr_t)call->cells[call->slots[1]];
    const float *const x_ptr = (const float *)(uintptr_t)call->cells[call->slots[2]];
    const float *const weight_ptr = (const float *)(uintptr_t)call->cells[call->slots[3]];


    const int64_t k_extent = 256;
    for (int64_t k_first = 0; k_first < k_extent; k_first += AOT_DEPTH) {
        const int64_t depth = aot_min(AOT_DEPTH, k_extent - k_first);
        for (int64_t s = s_first, height; s < s_end; s += height) {
            const void *left = rows;
            int64_t stride = AOT_DEPTH;
            const int64_t units = aot_max(aot_min((s_end - s) / unit, 3), 1);
            height = units * unit;
            if (s + height <= s_end) {

                left = &weight_ptr[256*s + k_first];
                stride = 256;
            } else
                linear_relu_rows(
                    call, batch, s, aot_min(s + height, s_end), k_first, k_first + depth,
                    rows);
            for (int64_t v = v_first; v < v_end; v += width)
                kernels[units - 1](
                    depth, left, stride,
                    panels + (v - v_first) * k_extent + k_first * width,
                    tile + (s - s_first) * AOT_TILE_COLUMNS + v - v_first, k_first > 0);
        }
    }

    aot_turn(tile, turned, s_end - s_first, v_end - v_first);
    for (int64_t v = v_first; v < v_end; ++v) {
        const float *restrict sums = turned + (v - v_first) * AOT_TILE_ROWS;

        #pragma GCC ivdep
        for (int64_t at = 0; at < s_end - s_first; ++at) {
            const int64_t s = s_first + at;
            const float sum = sums[at];
            const float t1 = bias_ptr[s];
            const float t2 = sum + t1;
            const float t3 = t2 < 0 ? 0 : t2;
            out_ptr[512*v + s] = t3;


        }
    }
}
