// template: kernel_loop.c.jinja
AOT_INLINE void to_copy_add_gelu_run(const aot_call *call, int64_t first, int64_t last, char *scratch) {
    const float *const x_ptr = (const float *)(uintptr_t)call->cells[call->slots[0]];
    const uint16_t *const y_ptr = (const uint16_t *)(uintptr_t)call->cells[call->slots[1]];
    float *const out_ptr = (float *)(uintptr_t)call->cells[call->slots[2]];
    first *= 64;
    last = aot_min(last * 64, 35);
    for (int64_t run = first; run < last;) {
        const int64_t start = run;
        const int64_t stop = last;
        #pragma omp simd
        for (int64_t x = start; x < stop; x++) {
            const float t1 = x_ptr[x];
            const int64_t i2 = x % 7;
            const float t3 = aot_float_of_bfloat16(y_ptr[i2]);
            const float t4 = t1 + t3;
            const float t5 = t4 * (float)0.5 * (aot_tanh_float32((t4 + t4 * t4 * t4 * (float)0.044715) * (float)0.7978845608028654) + 1);
            out_ptr[x] = t5;
        }
        run += stop - start;
    }
    (void)scratch;
}

AOT_VARIANTS(to_copy_add_gelu_run)

AOT_EXPORT int to_copy_add_gelu(aot_pool *pool, const uint64_t *cells, const int32_t *slots) {
    const aot_call here = {pool, cells, slots, NULL}, *const call = &here;
    const float *const x_ptr = (const float *)(uintptr_t)call->cells[call->slots[0]];
    const uint16_t *const y_ptr = (const uint16_t *)(uintptr_t)call->cells[call->slots[1]];
    float *const out_ptr = (float *)(uintptr_t)call->cells[call->slots[2]];
    return aot_parallel(call, (35 + 63) / 64, 85, 0, AOT_CHOSEN(to_copy_add_gelu_run));
}
