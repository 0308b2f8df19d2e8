/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The matrix product against a scalar chain of fused multiply-adds, bit for
 * bit: every instruction set of this machine, and the 12 x 32 shape of the
 * widest one written in plain C.
 */
#include "runtime/cpu/gemm/gemm.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define QN_ISA plain16
#define QN_VEC_QUADS 4
#define QN_GEMM_MR 12
#include "runtime/cpu/simd/gemm.c"

static const struct {
    const char *name;
    qn_isa level;
    const qn_gemm_isa *isa;
    bool fused;
} sets[] = {
#ifdef __FP_FAST_FMAF
    { "base", QN_ISA_BASE, &qn_gemm_kernels_base, true },
    { "plain16", QN_ISA_BASE, &qn_gemm_kernels_plain16, true },
#else
    { "base", QN_ISA_BASE, &qn_gemm_kernels_base, false },
    { "plain16", QN_ISA_BASE, &qn_gemm_kernels_plain16, false },
#endif
#ifdef __x86_64__
    { "avx2", QN_ISA_AVX2, &qn_gemm_kernels_avx2, true },
    { "avx512", QN_ISA_AVX512, &qn_gemm_kernels_avx512, true },
#endif
};
enum { SETS = sizeof sets / sizeof sets[0] };

static bool absent(size_t s)
{
    return sets[s].level > qn_isa_best();
}

static float *floats(size_t n, uint32_t seed)
{
    float *p = aligned_alloc(64, (n * sizeof *p + 127) & ~(size_t)63);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)((int)(seed >> 9 & 0xffff) - 32768) * 0x1p-15f;
    }
    return p;
}

static float step(bool fused, float a, float b, float c)
{
    if (fused)
        return fmaf(a, b, c);
    volatile float product = a * b;
    return product + c;
}

typedef struct problem {
    int64_t m, n, k;
    qn_gemm_end end;
} problem;

/* One element by the definition. */
static float element(bool fused, const problem *p, const float *a, const float *b,
                     int64_t i, int64_t j)
{
    float s = 0;
    for (int64_t k = 0; k < p->k; k++)
        s = step(fused, a[i * p->k + k], b[k * p->n + j], s);
    if (p->end.scale)
        s *= p->end.alpha;
    if (p->end.bias)
        s += p->end.bias[j];
    if (p->end.row_bias)
        s += p->end.row_bias[i];
    if (p->end.residual)
        s += p->end.residual[(size_t)i * p->end.ldr + (size_t)j];
    if (p->end.act == QN_ACT_RELU)
        s = s < 0 ? 0 : s;
    if (p->end.act == QN_ACT_CLIP)
        s = fminf(fmaxf(s, p->end.act_a), p->end.act_b);
    if (p->end.act == QN_ACT_LEAKY)
        s = s < 0 ? p->end.act_a * s : s;
    return s;
}

static void same(const char *what, size_t set, const problem *p, const float *got,
                 size_t ldc, const float *a, const float *b)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float g = got[(size_t)i * ldc + (size_t)j];
            float w = element(sets[set].fused, p, a, b, i, j);
            if (memcmp(&g, &w, sizeof g))
                fail_msg("%s %s %lldx%lldx%lld at (%lld, %lld): %.9g, "
                         "expected %.9g", what, sets[set].name, (long long)p->m,
                         (long long)p->n, (long long)p->k, (long long)i,
                         (long long)j, (double)g, (double)w);
        }
    for (int64_t i = 0; i < p->m; i++)
        for (size_t j = (size_t)p->n; j < ldc; j++)
            if (got[(size_t)i * ldc + j] != 77.0f)
                fail_msg("%s %s: wrote past column %lld", what, sets[set].name,
                         (long long)p->n);
}

static void view(const void *arg, int64_t batch, qn_gemm_view *out)
{
    (void)batch;
    *out = *(const qn_gemm_view *)arg;
}

typedef struct made_arg {
    qn_gemm_view v; /* first: view() takes it */
    qn_gemm_source src;
} made_arg;

static void fill(const void *arg, int64_t batch, int64_t k0, int64_t k1,
                 int64_t n0, int n, int width, float *dst)
{
    (void)batch;
    qn_gemm_pack_panel(&((const made_arg *)arg)->src, k0, k1, n0, n, width, dst);
}

static void fresh(float *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        c[i] = 77.0f;
}

/* All ways through the code for one problem. */
static void check(size_t set, problem p)
{
    const qn_gemm_isa *isa = sets[set].isa;
    const size_t m = (size_t)p.m, n = (size_t)p.n, k = (size_t)p.k, ldc = n + 3;
    float *a = floats(m * k, 1), *b = floats(k * n, 2), *c = floats(m * ldc, 3);
    float *r = floats(m * n, 4), *bias = floats(n, 5), *rows = floats(m, 6);
    size_t packed = 0;
    if (p.end.ldr)
        p.end.ldr = n, p.end.residual = r;
    if (p.end.bias)
        p.end.bias = bias;
    if (p.end.row_bias)
        p.end.row_bias = rows;
    assert_true(qn_gemm_packed_floats(isa, p.k, p.n, &packed));
    float *pb = floats(packed, 0);
    qn_gemm_source src = { .data = b, .dtype = QN_F32, .s_inner = p.n,
                           .s_n = 1 };
    qn_gemm_pack(isa, &src, p.k, p.n, pb);
    fresh(c, m * ldc);
    qn_gemm_run(NULL, isa, p.m, p.n, p.k, a, k, pb, c, ldc, &p.end);
    same("packed", set, &p, c, ldc, a, b);

    float *ws = floats(qn_gemm_made_floats(isa, p.m, p.n, p.k), 0);
    made_arg arg = { .v = { .a = a, .lda = k, .c = c, .ldc = ldc, .end = p.end },
                     .src = src };
    fresh(c, m * ldc);
    qn_gemm_run_made(NULL, &(qn_gemm_made){
        .isa = isa, .batches = 1, .m = p.m, .n = p.n, .k = p.k, .view = view,
        .fill = fill, .arg = &arg, .workspace = ws });
    same("made", set, &p, c, ldc, a, b);
    free(a), free(b), free(c), free(r), free(bias), free(rows), free(pb);
    free(ws);
}

static void test_shapes(void **state)
{
    static const int64_t sizes[] = { 1, 2, 3, 5, 8, 13, 16, 17, 31, 48 };
    (void)state;
    for (size_t s = 0; s < SETS; s++) {
        if (absent(s))
            continue;
        for (int64_t m = 1; m <= 27; m++)
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
                check(s, (problem){ .m = m, .n = sizes[i], .k = 7 });
        check(s, (problem){ .m = 1, .n = 300, .k = 33 });
        check(s, (problem){ .m = 2, .n = 300, .k = 33 });
        check(s, (problem){ .m = 250, .n = 40, .k = 5 });
        check(s, (problem){ .m = 3, .n = 5, .k = 0 });
        check(s, (problem){ .m = 200, .n = 17, .k = 1300 }); /* several passes of K */
        check(s, (problem){ .m = 1, .n = 129, .k = 1000 });
    }
}

static void test_ends(void **state)
{
    static const float on[1];
    static const qn_gemm_end ends[] = {
        { .scale = true, .alpha = 0.37f },
        { .bias = on },
        { .row_bias = on },
        { .ldr = 1 },
        { .act = QN_ACT_RELU },
        { .act = QN_ACT_CLIP, .act_a = -0.25f, .act_b = 0.5f },
        { .act = QN_ACT_LEAKY, .act_a = 0.1f },
        { .scale = true, .alpha = -2, .bias = on, .row_bias = on, .ldr = 1,
          .act = QN_ACT_LEAKY, .act_a = 0.5f },
    };
    (void)state;
    for (size_t s = 0; s < SETS; s++)
        for (size_t e = 0; !absent(s) && e < sizeof ends / sizeof ends[0]; e++) {
            check(s, (problem){ 14, 70, 9, ends[e] });
            check(s, (problem){ 1, 70, 9, ends[e] });
            check(s, (problem){ 203, 20, 900, ends[e] });
        }
}

/* NaN in a sum survives the clamp, as it survives Relu alone. */
static void test_clamp_keeps_nan(void **state)
{
    (void)state;
    for (size_t s = 0; s < SETS; s++) {
        if (absent(s))
            continue;
        float a[1] = { NAN }, b[40], c[1] = { 0 };
        qn_gemm_end end = { .act = QN_ACT_RELU };
        for (int i = 0; i < 40; i++)
            b[i] = 1;
        qn_gemm_run(NULL, sets[s].isa, 1, 1, 1, a, 1, b, c, 1, &end);
        if (!isnan(c[0]))
            fail_msg("%s: %g", sets[s].name, (double)c[0]);
    }
}

/* Taps: row pointers per tap, cut into passes of K at taps. */
static void test_taps(void **state)
{
    enum { M = 29, N = 37, TAPS = 9, DEPTH = 100, PIXELS = 50 };
    (void)state;
    float *x = floats(PIXELS * DEPTH, 1), *b = floats(TAPS * DEPTH * N, 2);
    float *a = floats(M * TAPS * DEPTH, 0), *c = floats(M * N, 0);
    const float *rows[TAPS * M];
    for (size_t t = 0; t < TAPS; t++)
        for (size_t i = 0; i < M; i++) {
            rows[t * M + i] = x + (i * 7 + t * 3) % PIXELS * DEPTH;
            memcpy(a + (i * TAPS + t) * DEPTH, rows[t * M + i],
                   DEPTH * sizeof *a);
        }
    for (size_t s = 0; s < SETS; s++) {
        if (absent(s))
            continue;
        const qn_gemm_isa *isa = sets[s].isa;
        problem p = { .m = M, .n = N, .k = TAPS * DEPTH };
        size_t packed = 0;
        assert_true(qn_gemm_packed_floats(isa, p.k, N, &packed));
        float *pb = floats(packed, 0);
        qn_gemm_source src = { .data = b, .dtype = QN_F32, .s_inner = N,
                               .s_n = 1 };
        qn_gemm_pack(isa, &src, p.k, N, pb);
        qn_gemm_run_block(&(qn_gemm_block){
            .isa = isa, .rows = rows, .step = M, .taps = TAPS, .depth = DEPTH,
            .m = M, .n = N, .p0 = 0,
            .p1 = (N + 2 * isa->vec - 1) / (2 * isa->vec), .b = pb, .c = c,
            .ldc = N, .end = &p.end });
        same("taps", s, &p, c, N, a, b);
        free(pb);
    }
    free(x), free(a), free(b), free(c);
}

static const struct {
    size_t kh, kw, stride, dilation;
    int64_t pixels;
} windows[] = {
    { 3, 3, 1, 1, 11 }, { 3, 3, 2, 1, 9 }, { 5, 5, 1, 1, 6 }, { 2, 5, 2, 1, 5 },
    { 3, 3, 1, 2, 5 },  { 1, 1, 1, 1, 7 }, { 2, 4, 3, 2, 6 },
};

static float window(size_t set, size_t i, const float *const *rows, size_t cols,
                    const float *w, size_t p, size_t n, size_t k)
{
    float y = 0;
    for (size_t r = 0; r < windows[i].kh; r++)
        for (size_t t = 0; t < windows[i].kw; t++)
            y = step(sets[set].fused,
                     rows[r * cols + p * windows[i].stride +
                          t * windows[i].dilation][k],
                     w[(r * windows[i].kw + t) * n + k], y);
    return y;
}

static void check_depthwise(size_t set, size_t i, size_t n)
{
    enum { MAX = 30, MAX_N = 50 };
    const size_t cols = (size_t)(windows[i].pixels - 1) * windows[i].stride +
                        (windows[i].kw - 1) * windows[i].dilation + 1;
    const size_t pixels = (size_t)windows[i].pixels;
    float *x = floats(5 * MAX * MAX_N, 1), *w = floats(25 * MAX_N, 2);
    float *bias = floats(MAX_N, 3), *res = floats(MAX * MAX_N, 4);
    const float *rows[5 * MAX];
    float c[MAX * MAX_N];
    for (size_t r = 0; r < windows[i].kh * cols; r++)
        rows[r] = x + r * n;
    sets[set].isa->depthwise(&(qn_depthwise){
        .a = rows, .a_step = cols, .kh = windows[i].kh, .kw = windows[i].kw,
        .stride = windows[i].stride, .dilation = windows[i].dilation, .w = w,
        .channels = n, .c = c, .ldc = n, .bias = bias, .residual = res,
        .ldr = n, .clamp = true, .low = -0.5f, .high = 1,
        .pixels = windows[i].pixels });
    for (size_t p = 0; p < pixels; p++)
        for (size_t k = 0; k < n; k++) {
            float y = window(set, i, rows, cols, w, p, n, k);
            y = y + bias[k];
            y = y + res[p * n + k];
            y = fminf(1, fmaxf(-0.5f, y));
            if (memcmp(&y, &c[p * n + k], sizeof y))
                fail_msg("%s: window %zu, %zu channels, pixel %zu channel %zu: "
                         "%.9g, expected %.9g", sets[set].name, i, n, p, k,
                         (double)c[p * n + k], (double)y);
        }
    free(x), free(w), free(bias), free(res);
}

static void test_depthwise(void **state)
{
    static const size_t channels[] = { 1, 4, 7, 8, 16, 19, 33, 50 };
    (void)state;
    for (size_t s = 0; s < SETS; s++)
        for (size_t i = 0; !absent(s) && i < sizeof windows / sizeof *windows;
             i++)
            for (size_t n = 0; n < sizeof channels / sizeof *channels; n++)
                check_depthwise(s, i, channels[n]);
}

static void test_axpy(void **state)
{
    (void)state;
    float *x = floats(200, 1);
    for (size_t s = 0; s < SETS; s++)
        for (size_t n = 0; !absent(s) && n < 40; n++)
            for (size_t by = 1; by < 4; by++) {
                float y[41], w = 0.3f;
                fresh(y, 41);
                sets[s].isa->axpy(y, x, by, w, n, true);
                sets[s].isa->axpy(y, x + 1, by, w, n, false);
                for (size_t i = 0; i < n; i++) {
                    float want = step(sets[s].fused, w, x[i * by], 0);
                    want = step(sets[s].fused, w, x[i * by + 1], want);
                    if (memcmp(&want, &y[i], sizeof want))
                        fail_msg("%s: n %zu step %zu index %zu", sets[s].name,
                                 n, by, i);
                }
                if (y[n] != 77.0f)
                    fail_msg("%s: wrote past n %zu", sets[s].name, n);
            }
    free(x);
}

static void test_half_source(void **state)
{
    static const uint16_t h[] = { 0x3c00, 0x4000, 0xc200, 0x3800 };
    static const uint16_t bf[] = { 0x3f80, 0x4000, 0xc040, 0x3f00 };
    static const float want[] = { 1, 2, -3, 0.5f };
    (void)state;
    for (int which = 0; which < 2; which++) {
        qn_gemm_source src = { .data = which ? bf : h,
                               .dtype = which ? QN_BF16 : QN_F16, .s_inner = 2,
                               .s_n = 1 };
        float dst[6];
        qn_gemm_pack_panel(&src, 0, 2, 0, 2, 3, dst);
        for (int i = 0; i < 6; i++)
            assert_true(dst[i] == (i % 3 == 2 ? 0 : want[i / 3 * 2 + i % 3]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_clamp_keeps_nan),
        cmocka_unit_test(test_taps),
        cmocka_unit_test(test_depthwise),
        cmocka_unit_test(test_axpy),
        cmocka_unit_test(test_half_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
