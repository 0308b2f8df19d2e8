/* SPDX-License-Identifier: Apache-2.0 */
/* B into panels. Runs once per constant weight at load, and per panel where B
 * is computed: plain rows are then copied a panel wide at a time. */
#include "runtime/cpu/gemm/gemm.h"

#include "runtime/base/checked.h"
#include "runtime/base/half.h"

int qn_gemm_panel_width(const qn_gemm_isa *isa, int64_t n, int64_t panel)
{
    int64_t left = n - panel * 2 * isa->vec;
    return left > isa->vec ? 2 * isa->vec : isa->vec;
}

bool qn_gemm_packed_floats(const qn_gemm_isa *isa, int64_t k, int64_t n,
                           size_t *floats)
{
    size_t wide;
    return qn_align_size((size_t)n, (size_t)isa->vec, &wide) &&
           qn_mul_size(wide, (size_t)k, floats) && *floats < SIZE_MAX / 8;
}

static void pack_row(const qn_gemm_source *src, int64_t at, int n, float *dst)
{
    if (src->dtype == QN_F32) {
        const float *p = (const float *)src->data + at;
        /* whole panels: a copy of constant size, not a call */
        if (src->s_n == 1 && n == 16)
            memcpy(dst, p, 16 * sizeof *dst);
        else if (src->s_n == 1 && n == 32)
            memcpy(dst, p, 32 * sizeof *dst);
        else if (src->s_n == 1)
            memcpy(dst, p, (size_t)n * sizeof *dst);
        else
            for (int j = 0; j < n; j++)
                dst[j] = p[j * src->s_n];
        return;
    }
    const uint16_t *p = (const uint16_t *)src->data + at;
    for (int j = 0; j < n; j++) {
        uint16_t h = p[j * src->s_n];
        dst[j] = src->dtype == QN_F16 ? qn_f16_to_f32(h) : qn_bf16_to_f32(h);
    }
}

void qn_gemm_pack_panel(const qn_gemm_source *src, int64_t k0, int64_t k1,
                        int64_t n0, int n, int width, float *dst)
{
    for (int64_t k = k0; k < k1; k++) {
        int64_t at = n0 * src->s_n;
        if (src->inner_k)
            at += k / src->inner_k * src->s_outer +
                  k % src->inner_k * src->s_inner;
        else
            at += k * src->s_inner;
        pack_row(src, at, n, dst);
        for (int j = n; j < width; j++)
            dst[j] = 0;
        dst += width;
    }
}

void qn_gemm_pack(const qn_gemm_isa *isa, const qn_gemm_source *src, int64_t k,
                  int64_t n, float *dst)
{
    int64_t nr = 2 * isa->vec;
    for (int64_t p = 0; p * nr < n; p++) {
        int64_t left = n - p * nr;
        qn_gemm_pack_panel(src, 0, k, p * nr, (int)(left < nr ? left : nr),
                           qn_gemm_panel_width(isa, n, p), dst + p * nr * k);
    }
}
