// template: kernel_loop.c.jinja

AOT_INLINE void sum_run(const aot_call *call, int64_t first, int64_t last, char *scratch) {
    const float *const x_ptr = (const float *)(uintptr_t)call->cells[call->slots[0]];
    float *const out_ptr = (float *)(uintptr_t)call->cells[call->slots[1]];
    for (int64_t item = first; item < last; item++) {
        const int64_t x = item;
        double acc1[16];
        for (int lane = 0; lane < 16; lane++) acc1[lane] = 0.0;
        {
            int64_t r_block = 0;
            for (; r_block + 16 <= 1000; r_block += 16) {
                #pragma omp simd
                for (int lane = 0; lane < 16; lane++) {
                    const int64_t r = r_block + lane;
                    const float t2 = x_ptr[r + 1000*x];
                    {
                        const double a0 = acc1[lane], b0 = t2;
                        acc1[lane] = aot_add_float64(a0, b0);
                    }
                }
            }
            for (int lane = 0; lane < 1000 - r_block; lane++) {
                const int64_t r = r_block + lane;
                const float t2 = x_ptr[r + 1000*x];
                {
                    const double a0 = acc1[lane], b0 = t2;
                    acc1[lane] = aot_add_float64(a0, b0);
                }
            }
        }
        #pragma omp simd
        for (int lane = 0; lane < 8; lane++) {
            {
                const double a0 = acc1[lane], b0 = acc1[lane + 8];
                acc1[lane] = aot_add_float64(a0, b0);
            }
        }
        #pragma omp simd
        for (int lane = 0; lane < 4; lane++) {
            {
                const double a0 = acc1[lane], b0 = acc1[lane + 4];
                acc1[lane] = aot_add_float64(a0, b0);
            }
        }
        #pragma omp simd
        for (int lane = 0; lane < 2; lane++) {
            {
                const double a0 = acc1[lane], b0 = acc1[lane + 2];
                acc1[lane] = aot_add_float64(a0, b0);
            }
        }
        #pragma omp simd
        for (int lane = 0; lane < 1; lane++) {
            {
                const double a0 = acc1[lane], b0 = acc1[lane + 1];
                acc1[lane] = aot_add_float64(a0, b0);
            }
        }
        const float t3 = acc1[0];
        out_ptr[x] = t3;
    }
    (void)scratch;
}
