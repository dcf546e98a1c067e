// template: kernel_attention_gemv.c.jinja

AOT_INLINE void attention_heads(
    const aot_call *call, int64_t batch, int64_t heads, float *scratch,
    aot_dots_kernel *const *dots, aot_mix_kernel *mix) {
    float *const out_ptr = (float *)(uintptr_t)call->cells[call->slots[0]];
    const float *const q_ptr = (const float *)(uintptr_t)call->cells[call->slots[1]];
    const float *const k_ptr = (const float *)(uintptr_t)call->cells[call->slots[2]];
    const float *const v_ptr = (const float *)(uintptr_t)call->cells[call->slots[3]];

    const int64_t g0 = batch / 4 % 1;
    const int64_t g1 = batch % 4;

    const int64_t i_extent = 1, j_extent = 128;
    const int64_t d_extent = 64, e_extent = 64, k_first = 0;
    const int64_t count = heads * i_extent, e_tiles = aot_tiles(e_extent, AOT_TILE_COLUMNS);
    float *tile = scratch, *result = tile + count * AOT_TILE_COLUMNS;
    float *top = result + e_tiles * count * AOT_TILE_COLUMNS, *sum = top + count;
    float *shrink = sum + count, *rows = shrink + count;
    float *key_copy = rows + count * d_extent, *value_copy = key_copy + AOT_DOTS * d_extent;
    const aot_type_float32 *key;
    const aot_type_float32 *value;
    const void *columns[AOT_DOTS];
    int64_t key_stride = d_extent, value_stride = e_extent;
    memset(result, 0, sizeof(float) * (size_t)(e_tiles * count * AOT_TILE_COLUMNS));
    memset(sum, 0, sizeof(float) * (size_t)count);
    for (int64_t at = 0; at < count; ++at)
        top[at] = -INFINITY;
    for (int64_t head = 0; head < heads; ++head)
        attention_query(call, batch + head, 0, i_extent, 0, d_extent, rows + head * i_extent * d_extent);
    const int64_t j_stop = j_extent;
    for (int64_t j_first = 0; j_first < j_stop; j_first += AOT_TILE_COLUMNS) {
        const int64_t j_end = aot_min(j_stop, j_first + AOT_TILE_COLUMNS);
        memset(tile, 0, sizeof(float) * (size_t)(count * AOT_TILE_COLUMNS));
        for (int64_t j = j_first; j < j_end; j += AOT_DOTS) {
            {
                const int64_t s = j;
                const int64_t i4 = g1 / 2;

                key = &k_ptr[8192*i4 + 64*s + k_first];
                key_stride = 64;
            }

            for (int64_t at = 0; at < AOT_DOTS; ++at)  // past the end the last key stands in
                columns[at] = key + aot_min(at, j_end - 1 - j) * key_stride;
            for (int64_t s = 0; s < count; s += AOT_DOTS)
                dots[aot_min(count - s, AOT_DOTS) - 1](
                    d_extent, columns, rows + s * d_extent, d_extent,
                    tile + s * AOT_TILE_COLUMNS + j - j_first, AOT_TILE_COLUMNS);
        }
        for (int64_t head = 0; head < heads; ++head) {
            const int64_t s = head * i_extent;
            attention_weigh(
                call, batch + head, 0, i_extent, j_first, j_end, tile + s * AOT_TILE_COLUMNS, top + s,
                sum + s, shrink + s);
        }
        {
            const int64_t s = j_first;
            const int64_t i7 = g1 / 2;

            value = &v_ptr[8192*i7 + k_first + 64*s];
            value_stride = 64;
        }

        for (int64_t e = 0; e < e_extent; e += AOT_TILE_COLUMNS)
            for (int64_t at = 0; at < j_end - j_first; at += AOT_MIX_ROWS)
                for (int64_t s = 0; s < count; ++s)
                    mix(aot_min(AOT_MIX_ROWS, j_end - j_first - at), tile + s * AOT_TILE_COLUMNS + at,
                        value + at * value_stride + e, value_stride,
                        aot_min(e_extent - e, AOT_TILE_COLUMNS), at == 0 ? shrink[s] : 1.0f,
                        result + e * count + s * AOT_TILE_COLUMNS);
    }
    for (int64_t head = 0; head < heads; ++head) {
        const int64_t s = head * i_extent;
        attention_store(
            call, batch + head, 0, i_extent, result + s * AOT_TILE_COLUMNS, count, sum + s);
    }
}
