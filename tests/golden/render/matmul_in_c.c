// template: kernel_matmul.c.jinja

AOT_INLINE void linear_relu_tile(
    const aot_call *call, int64_t batch, int64_t v_first, int64_t v_end, int64_t s_first,
    int64_t s_end, const float *packed, float *tile, float *turned, float *rows,
    const int64_t width, const int64_t most_rows, aot_matmul_kernel *const (*kernels)[AOT_MOST_ROWS]) {
    const float *const bias_ptr = (const float *)(uintptr_t)call->cells[call->slots[0]];
    float *const out_ptr = (float *)(uintptr_t)call->cells[call->slots[1]];
    const float *const weight_panels_ptr = (const float *)(uintptr_t)call->cells[call->slots[2]];
    const float *const x_ptr = (const float *)(uintptr_t)call->cells[call->slots[3]];


    const int64_t k_extent = 256, pitch = AOT_PANEL_WIDTH;
    const int64_t most = k_extent <= AOT_SHALLOW ? most_rows : AOT_TILE_ROWS;
    for (int64_t first = s_first, end; first < s_end; first = end) {
        end = first + aot_height(s_end - first, most);
        for (int64_t at = 0; k_extent == 0 && at < (end - first) * AOT_TILE_COLUMNS; ++at)
            tile[at] = 0;
        for (int64_t k_first = 0; k_first < k_extent; k_first += AOT_DEPTH) {
            const int64_t i4 = v_first % 32;
            const int64_t i5 = v_first / 32;

            const float *panels = &weight_panels_ptr[i4 + 8192*i5 + 32*k_first];
            const int64_t depth = aot_min(AOT_DEPTH, k_extent - k_first);
            for (int64_t s = first, height; s < end; s += height) {
                height = aot_height(end - s, most_rows);

                const void *left = &x_ptr[256*s + k_first];
                const int64_t stride = 256;
                for (int64_t v = v_first; v < v_end; v += width) {
                    const int64_t panel = (v - v_first) / pitch * pitch, place = v - v_first - panel;
                    const float *here = panels + panel * k_extent + place;
                    const float *next = v + width < v_end ? here + pitch * k_extent : panels + depth * pitch;
                    kernels[v_end - v > width / 2][height - 1](
                        depth, left, stride, here, pitch, next,
                        tile + (s - first) * AOT_TILE_COLUMNS + v - v_first, k_first % AOT_LONG > 0);
                }
            }
            aot_add_up(tile, turned, end - first, v_end - v_first, k_first, k_extent);
        }


        for (int64_t s = first; s < end; ++s) {
            const float *restrict sums = tile + (s - first) * AOT_TILE_COLUMNS;

            #pragma omp simd
            for (int64_t at = 0; at < v_end - v_first; ++at) {
                const int64_t v = v_first + at;
                const float sum = sums[at];
                const float t1 = bias_ptr[v];
                const float t2 = sum + t1;
                const float t3 = t2 < 0 ? 0 : t2;
                out_ptr[512*s + v] = t3;


            }
        }

    }
}
