/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MatMul and Gemm against sums in double, over shapes, types and attributes;
 * with B constant and not, which must agree bit for bit.
 */
#include "tests/support/node.h"
#include "tests/support/packed.h"

#include "runtime/base/half.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX = 70000 };

static uint32_t seed;

static double number(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (double)((int)(seed >> 20 & 63) - 32) / 8;
}

static double get(qn_dtype dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case QN_F32: return (double)((const float *)p)[i];
    case QN_F64: return ((const double *)p)[i];
    case QN_F16: return (double)qn_f16_to_f32(((const uint16_t *)p)[i]);
    case QN_BF16: return (double)qn_bf16_to_f32(((const uint16_t *)p)[i]);
    case QN_I32: return ((const int32_t *)p)[i];
    case QN_U32: return ((const uint32_t *)p)[i];
    case QN_I64: return (double)((const int64_t *)p)[i];
    default: return (double)((const uint64_t *)p)[i];
    }
}

static void *make(qn_dtype dtype, int64_t n)
{
    void *p = calloc((size_t)n + 1, 8);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        double x = number();
        switch (dtype) {
        case QN_F32: ((float *)p)[i] = (float)x; break;
        case QN_F64: ((double *)p)[i] = x; break;
        case QN_F16: ((uint16_t *)p)[i] = qn_f32_to_f16((float)x); break;
        case QN_BF16: ((uint16_t *)p)[i] = qn_f32_to_bf16((float)x); break;
        case QN_I32: ((int32_t *)p)[i] = (int32_t)x; break;
        case QN_U32: ((uint32_t *)p)[i] = (uint32_t)fabs(x); break;
        case QN_I64: ((int64_t *)p)[i] = (int64_t)x; break;
        default: ((uint64_t *)p)[i] = (uint64_t)fabs(x); break;
        }
    }
    return p;
}

static void expect(const char *what, const test_node *t, const double *want,
                   int64_t n)
{
    const qn_tensor *out = &t->out[0];
    if (qn_count(out) != n)
        fail_msg("%s: %lld elements, expected %lld", what,
                 (long long)qn_count(out), (long long)n);
    double tol = out->dtype == QN_BF16 ? 8e-3 : out->dtype == QN_F16 ? 1e-3
                 : out->dtype == QN_F32 ? 1e-5 : 0;
    for (int64_t i = 0; i < n; i++) {
        double g = get(out->dtype, out->data, i);
        if (!(fabs(g - want[i]) <= tol * (1 + fabs(want[i]))))
            fail_msg("%s %s at %lld: %.9g, expected %.9g", what,
                     qn_dtype_name(out->dtype), (long long)i, g, want[i]);
    }
}

/* run both ways; the outputs must have equal bits */
static void run_both(const char *what, test_node *t, const double *want,
                     int64_t n)
{
    qn_status st = test_node_run(t);
    if (st != QN_OK)
        fail_msg("%s: %s", what, t->err.text);
    expect(what, t, want, n);
    void *first = t->out[0].data;
    st = test_node_run_packed(t, 1 << 1);
    if (st != QN_OK)
        fail_msg("%s packed: %s", what, t->err.text);
    if (n && memcmp(first, t->out[0].data,
                    (size_t)n * qn_dtype_size(t->out[0].dtype)))
        fail_msg("%s: packed B gives other bits", what);
}

static const struct {
    const char *name;
    int ra, rb, ro;
    int64_t a[5], b[5], o[5];
} products[] = {
    { "2-D", 2, 2, 2, { 3, 5 }, { 5, 4 }, { 3, 4 } },
    { "row", 2, 2, 2, { 1, 70 }, { 70, 130 }, { 1, 130 } },
    { "two rows", 2, 2, 2, { 2, 70 }, { 70, 130 }, { 2, 130 } },
    { "deep", 2, 2, 2, { 7, 1100 }, { 1100, 33 }, { 7, 33 } },
    { "tall", 2, 2, 2, { 300, 9 }, { 9, 20 }, { 300, 20 } },
    { "deep and tall", 2, 2, 2, { 61, 1030 }, { 1030, 19 }, { 61, 19 } },
    { "vec vec", 1, 1, 0, { 6 }, { 6 }, { 0 } },
    { "vec mat", 1, 2, 1, { 6 }, { 6, 9 }, { 9 } },
    { "mat vec", 2, 1, 1, { 8, 6 }, { 6 }, { 8 } },
    { "batch x mat", 3, 2, 3, { 4, 3, 5 }, { 5, 2 }, { 4, 3, 2 } },
    { "mat x batch", 2, 3, 3, { 3, 5 }, { 4, 5, 2 }, { 4, 3, 2 } },
    { "batches", 3, 3, 3, { 4, 3, 5 }, { 4, 5, 2 }, { 4, 3, 2 } },
    { "broadcast", 4, 4, 4, { 2, 1, 3, 5 }, { 1, 4, 5, 6 }, { 2, 4, 3, 6 } },
    { "ranks 2 4", 3, 4, 4, { 4, 3, 5 }, { 2, 1, 5, 6 }, { 2, 4, 3, 6 } },
    { "ones before", 2, 4, 4, { 3, 5 }, { 1, 1, 5, 6 }, { 1, 1, 3, 6 } },
    { "vec batch", 1, 3, 2, { 5 }, { 2, 5, 3 }, { 2, 3 } },
    { "batch vec", 3, 1, 2, { 2, 3, 5 }, { 5 }, { 2, 3 } },
    { "K 0", 2, 2, 2, { 2, 0 }, { 0, 3 }, { 2, 3 } },
    { "M 0", 2, 2, 2, { 0, 4 }, { 4, 3 }, { 0, 3 } },
    { "N 0", 2, 2, 2, { 2, 4 }, { 4, 0 }, { 2, 0 } },
    { "no batch", 3, 3, 3, { 0, 2, 4 }, { 1, 4, 3 }, { 0, 2, 3 } },
};

static int64_t count(int rank, const int64_t *d)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= d[i];
    return n;
}

static void oracle(size_t row, qn_dtype dtype, const void *a, const void *b,
                   double *out)
{
    const int ra = products[row].ra, rb = products[row].rb;
    const int64_t *da = products[row].a, *db = products[row].b;
    const int ro = products[row].ro;
    int64_t full[5], k = da[ra - 1];
    int r = 0, wide = ro - (ra > 1) - (rb > 1);
    for (int i = 0; i < wide; i++)
        full[r++] = products[row].o[i];
    int64_t m = ra > 1 ? da[ra - 2] : 1, n = rb > 1 ? db[rb - 1] : 1;
    for (int64_t batch = 0; batch < count(wide, full); batch++) {
        int64_t ia = 0, ib = 0, rest = batch, run_a = 1, run_b = 1;
        for (int i = 0; i < wide; i++) {
            int64_t at = rest % full[wide - 1 - i];
            rest /= full[wide - 1 - i];
            if (ra - 3 - i >= 0) {
                ia += (da[ra - 3 - i] == 1 ? 0 : at) * run_a;
                run_a *= da[ra - 3 - i];
            }
            if (rb - 3 - i >= 0) {
                ib += (db[rb - 3 - i] == 1 ? 0 : at) * run_b;
                run_b *= db[rb - 3 - i];
            }
        }
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double s = 0;
                for (int64_t x = 0; x < k; x++)
                    s += get(dtype, a, (ia * m + i) * k + x) *
                         get(dtype, b, (ib * k + x) * n + j);
                out[(batch * m + i) * n + j] = s;
            }
    }
}

static void test_matmul(void **state)
{
    static const qn_dtype types[] = { QN_F32, QN_F64, QN_F16, QN_BF16,
                                      QN_I32, QN_I64 };
    static double want[MAX];
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        for (size_t d = 0; d < sizeof types / sizeof types[0]; d++) {
            test_node t;
            int64_t na = count(products[i].ra, products[i].a);
            int64_t nb = count(products[i].rb, products[i].b);
            seed = (uint32_t)i;
            void *a = make(types[d], na), *b = make(types[d], nb);
            test_node_init(&t, "MatMul", 13, 2, 1);
            test_node_input(&t, 0, types[d], products[i].ra, products[i].a, a);
            test_node_input(&t, 1, types[d], products[i].rb, products[i].b, b);
            oracle(i, types[d], a, b, want);
            run_both(products[i].name, &t, want,
                     count(products[i].ro, products[i].o));
            assert_int_equal(t.out[0].shape.rank, products[i].ro);
            test_node_release(&t);
            free(a), free(b);
        }
}

static void test_unsigned(void **state)
{
    (void)state;
    uint32_t a[2] = { 0xffffffffu, 3 }, b[2] = { 2, 5 }, want = 13;
    test_node t;
    test_node_init(&t, "MatMul", 9, 2, 1);
    test_node_input(&t, 0, QN_U32, 1, (int64_t[]){ 2 }, a);
    test_node_input(&t, 1, QN_U32, 1, (int64_t[]){ 2 }, b);
    assert_int_equal(test_node_run(&t), QN_OK);
    test_node_expect(&t, 0, QN_U32, 0, NULL, &want);
    test_node_release(&t);
}

static const struct {
    int64_t m, n, k;
    int trans_a, trans_b;
    float alpha, beta;
    int rc;
    int64_t c[2];
} gemms[] = {
    { 3, 4, 5, 0, 0, 1, 1, -1, { 0 } },
    { 3, 4, 5, 1, 0, 1, 1, 1, { 4 } },
    { 3, 4, 5, 0, 1, 1, 1, 1, { 4 } },
    { 3, 4, 5, 1, 1, 0.5f, 2, 1, { 4 } },
    { 3, 4, 5, 0, 0, 0.5f, 0.25f, 2, { 3, 4 } },
    { 3, 4, 5, 0, 0, 1, 1, 2, { 3, 4 } },
    { 3, 4, 5, 0, 0, 1, 1, 2, { 3, 1 } },
    { 3, 4, 5, 0, 0, 1, 2, 2, { 3, 1 } },
    { 3, 4, 5, 0, 0, 1, 1, 2, { 1, 4 } },
    { 3, 4, 5, 0, 0, 1, 1, 2, { 1, 1 } },
    { 3, 4, 5, 0, 0, 1, 0.5f, 1, { 1 } },
    { 3, 4, 5, 0, 0, 0, 1, 0, { 0 } },
    { 130, 33, 40, 1, 1, 2, 1, 2, { 130, 33 } },
    { 200, 18, 20, 1, 0, 1, 3, 2, { 200, 1 } },
    { 1, 1, 5, 0, 0, 1, 1, 1, { 1 } },
    { 4, 1, 5, 0, 0, 1, 1, 1, { 1 } },
    { 1, 4, 5, 0, 0, 1, 1, 2, { 1, 1 } },
    { 3, 4, 0, 0, 0, 1, 1, 1, { 4 } },
};

static void gemm(size_t i, qn_dtype dtype, bool residual, qn_act act)
{
    static double want[MAX];
    const int64_t m = gemms[i].m, n = gemms[i].n, k = gemms[i].k;
    const bool ta = gemms[i].trans_a, tb = gemms[i].trans_b;
    const int64_t nc = gemms[i].rc < 0 ? 0 : count(gemms[i].rc, gemms[i].c);
    char what[40];
    test_node t;

    snprintf(what, sizeof what, "gemm row %zu act %d", i, (int)act);
    seed = (uint32_t)i;
    void *a = make(dtype, m * k), *b = make(dtype, k * n), *c = make(dtype, nc);
    void *r = make(dtype, m * n);
    test_node_init(&t, "Gemm", 13, residual ? 4 : 3, 1);
    test_node_int(&t, "transA", ta);
    test_node_int(&t, "transB", tb);
    test_node_float(&t, "alpha", gemms[i].alpha);
    test_node_float(&t, "beta", gemms[i].beta);
    test_node_input(&t, 0, dtype, 2, ta ? (int64_t[]){ k, m }
                                        : (int64_t[]){ m, k }, a);
    test_node_input(&t, 1, dtype, 2, tb ? (int64_t[]){ n, k }
                                        : (int64_t[]){ k, n }, b);
    if (gemms[i].rc >= 0)
        test_node_input(&t, 2, dtype, gemms[i].rc, gemms[i].c, c);
    if (residual) {
        t.node.residual = true;
        test_node_input(&t, 3, dtype, 2, (int64_t[]){ m, n }, r);
    }
    t.node.act = act;
    t.node.act_a = 0.5f;
    for (int64_t y = 0; y < m; y++)
        for (int64_t x = 0; x < n; x++) {
            double s = 0;
            for (int64_t z = 0; z < k; z++)
                s += get(dtype, a, ta ? z * m + y : y * k + z) *
                     get(dtype, b, tb ? x * k + z : z * n + x);
            s *= (double)gemms[i].alpha;
            int64_t rows = gemms[i].rc == 2 ? gemms[i].c[0] : 1;
            int64_t cols = gemms[i].rc > 0 ? gemms[i].c[gemms[i].rc - 1] : 1;
            if (gemms[i].rc >= 0)
                s += (double)gemms[i].beta *
                     get(dtype, c, (rows > 1 ? y * cols : 0) +
                                       (cols > 1 ? x : 0));
            if (residual)
                s += get(dtype, r, y * n + x);
            if (act == QN_ACT_RELU)
                s = s < 0 ? 0 : s;
            if (act == QN_ACT_LEAKY)
                s = s < 0 ? s * 0.5 : s;
            want[y * n + x] = s;
        }
    run_both(what, &t, want, m * n);
    test_node_release(&t);
    free(a), free(b), free(c), free(r);
}

static void test_gemm(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++) {
        gemm(i, QN_F32, false, QN_ACT_NONE);
        gemm(i, QN_F32, false, QN_ACT_RELU);
        gemm(i, QN_F32, true, QN_ACT_LEAKY);
        gemm(i, QN_F32, true, QN_ACT_RELU);
        gemm(i, QN_F64, false, QN_ACT_NONE);
        gemm(i, QN_F16, false, QN_ACT_NONE);
        gemm(i, QN_BF16, false, QN_ACT_NONE);
        if (gemms[i].alpha == floorf(gemms[i].alpha) &&
            gemms[i].beta == floorf(gemms[i].beta))
            gemm(i, QN_I64, false, QN_ACT_NONE);
    }
}

/* A bias that the fusion pass gives to MatMul, and a residual in place. */
static void test_fused_matmul(void **state)
{
    float a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 1, 0, 0, 1, 1, 1 };
    float bias[2] = { 10, -20 }, res[4] = { 1, 2, 3, 4 };
    static const float want[4] = { 4 + 10 + 1, 0, 10 + 10 + 3, 0 };
    (void)state;
    for (int packed = 0; packed < 2; packed++) {
        test_node t;
        test_node_init(&t, "MatMul", 13, 4, 1);
        test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ 2, 3 }, a);
        test_node_input(&t, 1, QN_F32, 2, (int64_t[]){ 3, 2 }, b);
        test_node_input(&t, 2, QN_F32, 1, (int64_t[]){ 2 }, bias);
        test_node_input(&t, 3, QN_F32, 2, (int64_t[]){ 2, 2 }, res);
        t.node.residual = true;
        t.node.act = QN_ACT_RELU;
        assert_int_equal(packed ? test_node_run_packed(&t, 1 << 1)
                                : test_node_run(&t), QN_OK);
        test_node_expect_f32(&t, 0, 2, (int64_t[]){ 2, 2 }, want, 0, 0);
        test_node_release(&t);
    }
}

/* A row's bits do not depend on how many rows come with it. */
static void test_batch_invariant(void **state)
{
    enum { N = 77, K = 901, M = 64 };
    float *a = make(QN_F32, M * K), *b = make(QN_F32, K * N);
    float whole[M * N];
    (void)state;
    for (int i = 0; i < M * K; i++)
        a[i] *= 1.1f;
    for (int64_t m = M; m > 0; m = m > 20 ? m - 13 : m - 1)
        for (int packed = 0; packed < 2; packed++) {
            test_node t;
            test_node_init(&t, "MatMul", 13, 2, 1);
            test_node_input(&t, 0, QN_F32, 2, (int64_t[]){ m, K }, a);
            test_node_input(&t, 1, QN_F32, 2, (int64_t[]){ K, N }, b);
            assert_int_equal(packed ? test_node_run_packed(&t, 1 << 1)
                                    : test_node_run(&t), QN_OK);
            if (m == M && !packed)
                memcpy(whole, t.out[0].data, sizeof whole);
            if (memcmp(whole, t.out[0].data, (size_t)m * N * sizeof *whole))
                fail_msg("%lld rows, packed %d: other bits", (long long)m,
                         packed);
            test_node_release(&t);
        }
    free(a), free(b);
}

static const struct {
    const char *op;
    int ra, rb, rc;
    int64_t a[4], b[4], c[2];
    const char *says;
} bad[] = {
    { "MatMul", 2, 2, -1, { 2, 3 }, { 4, 5 }, { 0 }, "3 and 4 differ" },
    { "MatMul", 0, 2, -1, { 0 }, { 4, 5 }, { 0 }, "a scalar" },
    { "MatMul", 3, 3, -1, { 2, 3, 4 }, { 3, 4, 5 }, { 0 }, "[2]" },
    { "Gemm", 3, 2, -1, { 1, 2, 3 }, { 3, 4 }, { 0 }, "[1, 2, 3]" },
    { "Gemm", 2, 2, -1, { 2, 3 }, { 2, 3 }, { 0 }, "3 and 2 differ" },
    { "Gemm", 2, 2, 1, { 2, 3 }, { 3, 4 }, { 3 }, "[3], cannot" },
    { "Gemm", 2, 2, 2, { 2, 3 }, { 3, 4 }, { 3, 4 }, "[3, 4], cannot" },
};

static void test_rejects(void **state)
{
    static const float data[64];
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        test_node t;
        test_node_init(&t, bad[i].op, 13, bad[i].rc < 0 ? 2 : 3, 1);
        test_node_input(&t, 0, QN_F32, bad[i].ra, bad[i].a, data);
        test_node_input(&t, 1, QN_F32, bad[i].rb, bad[i].b, data);
        if (bad[i].rc >= 0)
            test_node_input(&t, 2, QN_F32, bad[i].rc, bad[i].c, data);
        if (test_node_run(&t) != QN_SHAPE || !strstr(t.err.text, bad[i].says))
            fail_msg("row %zu: \"%s\"", i, t.err.text);
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_unsigned),
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_fused_matmul),
        cmocka_unit_test(test_batch_invariant),
        cmocka_unit_test(test_rejects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
