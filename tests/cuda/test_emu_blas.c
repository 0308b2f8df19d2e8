/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in of cuBLASLt against triple loops in double, and what it must
 * refuse. */
#include "tests/cuda/emu/client.h"

#include <cublasLt.h>
#include <math.h>

#define FUNCTIONS(X)                                                           \
    X(create, cublasLtCreate)                                                  \
    X(destroy, cublasLtDestroy)                                                \
    X(version, cublasLtGetVersion)                                             \
    X(desc_new, cublasLtMatmulDescCreate)                                      \
    X(desc_free, cublasLtMatmulDescDestroy)                                    \
    X(desc_set, cublasLtMatmulDescSetAttribute)                                \
    X(desc_get, cublasLtMatmulDescGetAttribute)                                \
    X(layout_new, cublasLtMatrixLayoutCreate)                                  \
    X(layout_init, cublasLtMatrixLayoutInit_internal)                          \
    X(layout_free, cublasLtMatrixLayoutDestroy)                                \
    X(layout_set, cublasLtMatrixLayoutSetAttribute)                            \
    X(pref_new, cublasLtMatmulPreferenceCreate)                                \
    X(pref_free, cublasLtMatmulPreferenceDestroy)                              \
    X(pref_set, cublasLtMatmulPreferenceSetAttribute)                          \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                               \
    X(matmul, cublasLtMatmul)

static struct {
    FUNCTIONS(CLIENT_FIELD)
} fn;
static cublasLtHandle_t handle;

enum { WORKSPACE = 1 << 20, MOST = 8 };

/* One product; 0 means the default. Strides of batches in elements. */
struct row {
    const char *name;
    cublasComputeType_t compute;
    cudaDataType_t in, out;
    int m, n, k, batch;
    int ta, tb;
    int a_row, b_row, d_row; /* row order */
    int pad;                 /* added to leading dimensions */
    int shared_b;            /* batch stride 0 */
    uint32_t epilogue;
    double alpha, beta;
    int c_is_d;
    double tolerance;
};

static size_t size_of(cudaDataType_t t)
{
    return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : 2;
}

/* Values are multiples of 1/64 below 2: exact in each type but bfloat16, whose
 * 8 bits hold them too (7 bits behind the point at most 1). */
static void put(cudaDataType_t t, void *base, size_t i, double v)
{
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, 4);
    uint16_t h = (uint16_t)(u >> 16); /* bfloat16 */
    if (t == CUDA_R_16F)
        h = u & 0x7fffffffu ? (uint16_t)((u >> 16 & 0x8000u) |
                                         ((u >> 13 & 0x3ffffu) - (112u << 10)))
                            : 0;
    if (t == CUDA_R_64F)
        memcpy((char *)base + 8 * i, &v, 8);
    else if (t == CUDA_R_32F)
        memcpy((char *)base + 4 * i, &f, 4);
    else
        memcpy((char *)base + 2 * i, &h, 2);
}

static double take(cudaDataType_t t, const void *base, size_t i)
{
    double d;
    float f;
    uint16_t h;
    if (t == CUDA_R_64F) {
        memcpy(&d, (const char *)base + 8 * i, 8);
        return d;
    }
    if (t == CUDA_R_32F) {
        memcpy(&f, (const char *)base + 4 * i, 4);
        return (double)f;
    }
    memcpy(&h, (const char *)base + 2 * i, 2);
    if (t == CUDA_R_16F) {
        int e = h >> 10 & 31, sign = h >> 15;
        double v = e ? ldexp(1024 + (h & 1023), e - 25)
                     : ldexp(h & 1023, -24);
        return sign ? -v : v;
    }
    uint32_t u = (uint32_t)h << 16;
    memcpy(&f, &u, 4);
    return (double)f;
}

struct matrix {
    cudaDataType_t type;
    size_t rows, cols, ld, stride, count;
    int row_order;
    void *host, *device;
    cublasLtMatrixLayout_t layout;
};

static size_t at(const struct matrix *m, size_t b, size_t i, size_t j)
{
    return b * m->stride + (m->row_order ? i * m->ld + j : j * m->ld + i);
}

static void matrix_new(struct matrix *m, cudaDataType_t type, int rows,
                       int cols, int row_order, int pad, int batch, int shared,
                       uint64_t *seed)
{
    memset(m, 0, sizeof *m);
    m->type = type;
    m->rows = (size_t)rows;
    m->cols = (size_t)cols;
    m->row_order = row_order;
    m->ld = (size_t)((row_order ? cols : rows) + pad);
    size_t one = m->ld * (row_order ? m->rows : m->cols);
    m->stride = shared ? 0 : one + (size_t)pad;
    m->count = one + (size_t)(batch - 1) * m->stride;
    m->host = calloc(m->count, size_of(type));
    assert_non_null(m->host);
    for (size_t i = 0; i < m->count; i++)
        put(type, m->host, i, client_value(seed));
    m->device = client_buffer(m->host, m->count * size_of(type));
    assert_int_equal(fn.layout_new(&m->layout, type, m->rows, m->cols,
                                   (int64_t)m->ld),
                     CUBLAS_STATUS_SUCCESS);
    int32_t order = row_order ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    int32_t count = batch;
    int64_t stride = (int64_t)m->stride;
    fn.layout_set(m->layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, 4);
    fn.layout_set(m->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, 4);
    assert_int_equal(
        fn.layout_set(m->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                      &stride, 8),
        CUBLAS_STATUS_SUCCESS);
}

static void matrix_free(struct matrix *m)
{
    free(m->host);
    client_release(m->device);
    assert_int_equal(fn.layout_free(m->layout), CUBLAS_STATUS_SUCCESS);
}

static cublasLtMatmulDesc_t desc_of(const struct row *r, const void *bias)
{
    cublasLtMatmulDesc_t d;
    cudaDataType_t scale = r->compute == CUBLAS_COMPUTE_64F   ? CUDA_R_64F
                           : r->compute == CUBLAS_COMPUTE_16F ? CUDA_R_16F
                                                              : CUDA_R_32F;
    int32_t ta = r->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    int32_t tb = r->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    uint32_t e = r->epilogue ? r->epilogue : (uint32_t)CUBLASLT_EPILOGUE_DEFAULT;
    assert_int_equal(fn.desc_new(&d, r->compute, scale),
                     CUBLAS_STATUS_SUCCESS);
    fn.desc_set(d, CUBLASLT_MATMUL_DESC_TRANSA, &ta, 4);
    fn.desc_set(d, CUBLASLT_MATMUL_DESC_TRANSB, &tb, 4);
    fn.desc_set(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &e, 4);
    assert_int_equal(
        fn.desc_set(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, 8),
        CUBLAS_STATUS_SUCCESS);
    return d;
}

static cublasLtMatmulPreference_t pref_of(uint64_t workspace, uint32_t align)
{
    cublasLtMatmulPreference_t p;
    assert_int_equal(fn.pref_new(&p), CUBLAS_STATUS_SUCCESS);
    fn.pref_set(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8);
    fn.pref_set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align, 4);
    fn.pref_set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align, 4);
    fn.pref_set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align, 4);
    assert_int_equal(
        fn.pref_set(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align, 4),
        CUBLAS_STATUS_SUCCESS);
    return p;
}

static double activation(uint32_t e, double v)
{
    if (e & CUBLASLT_EPILOGUE_RELU)
        return v > 0 ? v : 0;
    if (e & CUBLASLT_EPILOGUE_GELU)
        return v / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (v + .044715 * v * v * v)));
    return v;
}

static void compare(const struct row *r, const struct matrix *a,
                    const struct matrix *b, const struct matrix *c,
                    const struct matrix *d, const void *bias, int algo)
{
    for (size_t x = 0; x < (size_t)r->batch; x++)
        for (size_t i = 0; i < d->rows; i++)
            for (size_t j = 0; j < d->cols; j++) {
                double want = 0;
                for (size_t l = 0; l < (size_t)r->k; l++)
                    want += take(a->type, a->host,
                                 r->ta ? at(a, x, l, i) : at(a, x, i, l)) *
                            take(b->type, b->host,
                                 r->tb ? at(b, x, j, l) : at(b, x, l, j));
                want *= r->alpha;
                if (r->beta != 0)
                    want += r->beta * take(c->type, c->host, at(c, x, i, j));
                if (r->epilogue & CUBLASLT_EPILOGUE_BIAS)
                    want += take(d->type, bias, i);
                want = activation(r->epilogue, want);
                double got = take(d->type, d->host, at(d, x, i, j));
                if (!(fabs(got - want) <=
                      r->tolerance * (1 + fabs(want))))
                    fail_msg("%s, algorithm %d, [%zu][%zu, %zu]: %g, not %g",
                             r->name, algo, x, i, j, got, want);
            }
}

#define F32 CUDA_R_32F
#define F16 CUDA_R_16F
#define B16 CUDA_R_16BF
#define F64 CUDA_R_64F
static const struct row rows[] = {
    { "plain", CUBLAS_COMPUTE_32F, F32, F32, 5, 7, 9, 1, .alpha = 1,
      .tolerance = 1e-6 },
    { "aligned, deep", CUBLAS_COMPUTE_32F, F32, F32, 8, 20, 160, 1, .alpha = 1,
      .tolerance = 1e-5 },
    { "transposed", CUBLAS_COMPUTE_32F, F32, F32, 13, 17, 11, 1, .ta = 1,
      .tb = 1, .pad = 3, .alpha = 0.5, .tolerance = 1e-6 },
    { "row order", CUBLAS_COMPUTE_32F, F32, F32, 6, 33, 4, 1, .a_row = 1,
      .b_row = 1, .d_row = 1, .pad = 1, .alpha = 1, .beta = 2,
      .tolerance = 1e-6 },
    { "mixed orders", CUBLAS_COMPUTE_32F, F32, F32, 6, 18, 5, 2, .a_row = 1,
      .tb = 1, .alpha = 1, .beta = -1, .tolerance = 1e-6 },
    { "batch, one b", CUBLAS_COMPUTE_32F, F32, F32, 12, 8, 8, 3, .shared_b = 1,
      .alpha = 1, .tolerance = 1e-6 },
    { "in place", CUBLAS_COMPUTE_32F, F32, F32, 12, 8, 8, 2, .alpha = 1,
      .beta = 1, .c_is_d = 1, .tolerance = 1e-6 },
    { "bias", CUBLAS_COMPUTE_32F, F32, F32, 12, 9, 8, 2,
      .epilogue = CUBLASLT_EPILOGUE_BIAS, .alpha = 1, .tolerance = 1e-6 },
    { "relu bias", CUBLAS_COMPUTE_32F, F32, F32, 12, 9, 8, 1,
      .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS, .alpha = 1, .beta = 1,
      .tolerance = 1e-6 },
    { "relu", CUBLAS_COMPUTE_32F, F32, F32, 12, 9, 8, 1, .d_row = 1,
      .epilogue = CUBLASLT_EPILOGUE_RELU, .alpha = 1, .tolerance = 1e-6 },
    { "gelu", CUBLAS_COMPUTE_32F, F32, F32, 4, 9, 8, 1,
      .epilogue = CUBLASLT_EPILOGUE_GELU, .alpha = 1, .tolerance = 1e-6 },
    { "gelu bias, half", CUBLAS_COMPUTE_32F, F16, F16, 8, 9, 8, 1,
      .epilogue = CUBLASLT_EPILOGUE_GELU_BIAS, .alpha = 1,
      .tolerance = 1e-3 },
    { "half", CUBLAS_COMPUTE_32F, F16, F16, 16, 16, 64, 2, .alpha = 1,
      .tolerance = 1e-3 },
    { "half to float", CUBLAS_COMPUTE_32F, F16, F32, 16, 16, 64, 1, .ta = 1,
      .alpha = 1, .beta = 1, .tolerance = 1e-6 },
    { "half, half sums", CUBLAS_COMPUTE_16F, F16, F16, 9, 5, 7, 1, .alpha = 0.5,
      .tolerance = 1e-3 },
    { "bfloat16", CUBLAS_COMPUTE_32F, B16, B16, 16, 15, 8, 1, .alpha = 1,
      .beta = 1, .tolerance = 1e-2 },
    { "bfloat16 to float", CUBLAS_COMPUTE_32F, B16, F32, 16, 15, 8, 1,
      .alpha = 1, .tolerance = 1e-6 },
    { "tf32 of exact values", CUBLAS_COMPUTE_32F_FAST_TF32, F32, F32, 16, 15, 8,
      1, .alpha = 1, .tolerance = 1e-6 },
    { "double", CUBLAS_COMPUTE_64F, F64, F64, 7, 6, 5, 2, .tb = 1, .alpha = 3,
      .beta = 1, .tolerance = 1e-14 },
};

/* Half of a scale, where the scale type is half. */
static void scale(const struct row *r, double v, void *out)
{
    put(r->compute == CUBLAS_COMPUTE_64F   ? F64
        : r->compute == CUBLAS_COMPUTE_16F ? F16
                                           : F32,
        out, 0, v);
}

/* Every algorithm that the heuristic offers. */
static void run_row(const struct row *r)
{
    uint64_t seed = 1;
    struct matrix a, b, c, d;
    matrix_new(&a, r->in, r->ta ? r->k : r->m, r->ta ? r->m : r->k, r->a_row,
               r->pad, r->batch, 0, &seed);
    matrix_new(&b, r->in, r->tb ? r->n : r->k, r->tb ? r->k : r->n, r->b_row,
               r->pad, r->batch, r->shared_b, &seed);
    matrix_new(&c, r->out, r->m, r->n, r->d_row, r->pad, r->batch, 0, &seed);
    matrix_new(&d, r->out, r->m, r->n, r->d_row, r->pad, r->batch, 0, &seed);
    void *bias = calloc((size_t)r->m, 8);
    for (int i = 0; i < r->m; i++)
        put(r->out, bias, (size_t)i, client_value(&seed));
    void *bias_device = client_buffer(bias, (size_t)r->m * size_of(r->out));
    void *workspace = client_buffer(NULL, WORKSPACE);
    cublasLtMatmulDesc_t desc = desc_of(r, bias_device);
    CUstream stream;
    assert_int_equal(cu.stream_new(&stream, CU_STREAM_NON_BLOCKING), 0);
    double alpha = 0, beta = 0;
    scale(r, r->alpha, &alpha);
    scale(r, r->beta, &beta);
    int all = 0;
    const uint32_t aligns[] = { 16, (uint32_t)size_of(r->out) };
    for (size_t k = 0; k < 2; k++) {
        cublasLtMatmulPreference_t pref = pref_of(WORKSPACE, aligns[k]);
        cublasLtMatmulHeuristicResult_t found[MOST];
        int n = 0;
        cublasStatus_t st =
            fn.heuristic(handle, desc, a.layout, b.layout, c.layout, d.layout,
                         pref, MOST, found, &n);
        if (st != CUBLAS_STATUS_SUCCESS)
            fail_msg("%s: heuristic says %d", r->name, (int)st);
        for (int i = 0; i < n; i++, all++) {
            void *c_at = r->c_is_d ? d.device : c.device;
            /* the output as it was, and rubbish in the workspace */
            cu.to_device((CUdeviceptr)(uintptr_t)d.device,
                         r->c_is_d ? c.host : d.host,
                         d.count * size_of(r->out));
            st = fn.matmul(handle, desc, &alpha, a.device, a.layout, b.device,
                           b.layout, &beta, c_at, c.layout, d.device, d.layout,
                           &found[i].algo, workspace, found[i].workspaceSize,
                           stream);
            if (st != CUBLAS_STATUS_SUCCESS)
                fail_msg("%s: matmul says %d", r->name, (int)st);
            assert_int_equal(cu.sync(stream), CUDA_SUCCESS);
            void *before = malloc(d.count * size_of(r->out));
            assert_non_null(before);
            memcpy(before, d.host, d.count * size_of(r->out));
            client_read(d.host, d.device, d.count * size_of(r->out));
            compare(r, &a, &b, &c, &d, bias, i);
            memcpy(d.host, before, d.count * size_of(r->out));
            free(before);
        }
        fn.pref_free(pref);
    }
    if (all < 2)
        fail_msg("%s: only %d algorithms", r->name, all);
    fn.desc_free(desc);
    cu.stream_free(stream);
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
    matrix_free(&d);
    free(bias);
    client_release(bias_device);
    client_release(workspace);
}

static void test_products(void **state)
{
    (void)state;
    uint64_t before = cu.count("cublasLtMatmul");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        run_row(&rows[i]);
    assert_true(cu.count("cublasLtMatmul") >=
                before + 2 * sizeof rows / sizeof rows[0]);
    assert_true(cu.count("blas.matmul") > 0);
}

/* 1 + 2^-11 is 1 with 10 bits behind the point; it is not for plain floats. */
static void test_tf32_rounds(void **state)
{
    (void)state;
    static const cublasComputeType_t computes[] = {
        CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F
    };
    for (int i = 0; i < 2; i++) {
        struct row r = { "tf32", computes[i], F32, F32, 1, 1, 1, 1,
                         .alpha = 1 };
        float one = 1, zero = 0, v = 1 + 0x1p-12f, got;
        void *a = client_buffer(&v, 4), *b = client_buffer(&one, 4);
        void *d = client_buffer(NULL, 4);
        cublasLtMatmulDesc_t desc = desc_of(&r, NULL);
        cublasLtMatrixLayoutOpaque_t l;
        fn.layout_init(&l, sizeof l, F32, 1, 1, 1);
        assert_int_equal(fn.matmul(handle, desc, &one, a, &l, b, &l, &zero, d,
                                   &l, d, &l, NULL, NULL, 0, NULL),
                         CUBLAS_STATUS_SUCCESS);
        assert_int_equal(cu.sync(NULL), CUDA_SUCCESS);
        client_read(&got, d, 4);
        assert_true(got == (i ? v : 1.0f));
        client_release(a);
        client_release(b);
        client_release(d);
        fn.desc_free(desc);
    }
}

/* --- refusals */

static const struct {
    struct row row;
    int wrong_k, ld_less;
    cublasStatus_t want;
} refused[] = {
    { { "double, gelu", CUBLAS_COMPUTE_64F, F64, F64, 4, 4, 4, 1,
        .epilogue = CUBLASLT_EPILOGUE_GELU },
      0, 0, CUBLAS_STATUS_NOT_SUPPORTED },
    { { "double, relu", CUBLAS_COMPUTE_64F, F64, F64, 4, 4, 4, 1,
        .epilogue = CUBLASLT_EPILOGUE_RELU },
      0, 0, CUBLAS_STATUS_NOT_SUPPORTED },
    { { "float sums of doubles", CUBLAS_COMPUTE_32F, F64, F64, 4, 4, 4, 1,
        .alpha = 1 }, 0,
      0, CUBLAS_STATUS_NOT_SUPPORTED },
    { { "float to half", CUBLAS_COMPUTE_32F, F32, F16, 4, 4, 4, 1,
        .alpha = 1 }, 0, 0,
      CUBLAS_STATUS_NOT_SUPPORTED },
    { { "tf32 of halves", CUBLAS_COMPUTE_32F_FAST_TF32, F16, F16, 4, 4, 4, 1,
        .alpha = 1 },
      0, 0, CUBLAS_STATUS_NOT_SUPPORTED },
    { { "half sums to float", CUBLAS_COMPUTE_16F, F16, F32, 4, 4, 4, 1,
        .alpha = 1 }, 0, 0,
      CUBLAS_STATUS_NOT_SUPPORTED },
    { { "bias in row order", CUBLAS_COMPUTE_32F, F32, F32, 4, 4, 4, 1,
        .d_row = 1, .epilogue = CUBLASLT_EPILOGUE_BIAS },
      0, 0, CUBLAS_STATUS_NOT_SUPPORTED },
    { { "auxiliary output", CUBLAS_COMPUTE_32F, F32, F32, 4, 4, 4, 1,
        .epilogue = CUBLASLT_EPILOGUE_GELU_AUX },
      0, 0, CUBLAS_STATUS_NOT_SUPPORTED },
    { { "inner dimensions", CUBLAS_COMPUTE_32F, F32, F32, 4, 4, 4, 1,
        .alpha = 1 }, 1, 0,
      CUBLAS_STATUS_INVALID_VALUE },
    { { "leading dimension", CUBLAS_COMPUTE_32F, F32, F32, 4, 4, 4, 1,
        .alpha = 1 }, 0, 1,
      CUBLAS_STATUS_INVALID_VALUE },
};

static void test_refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const struct row *r = &refused[i].row;
        cublasLtMatrixLayoutOpaque_t a, b, d;
        fn.layout_init(&a, sizeof a, r->in, 4,
                       (uint64_t)(4 + refused[i].wrong_k),
                       4 - refused[i].ld_less);
        fn.layout_init(&b, sizeof b, r->in, 4, 4, 4);
        fn.layout_init(&d, sizeof d, r->out, 4, 4, 4);
        int32_t order = r->d_row ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
        fn.layout_set(&d, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, 4);
        cublasLtMatmulDesc_t desc = desc_of(r, NULL);
        cublasLtMatmulPreference_t pref = pref_of(WORKSPACE, 16);
        cublasLtMatmulHeuristicResult_t found[MOST];
        int n = 1;
        cublasStatus_t st = fn.heuristic(handle, desc, &a, &b, &d, &d, pref,
                                         MOST, found, &n);
        if (st != refused[i].want || n != 0)
            fail_msg("%s: status %d, %d algorithms", r->name, (int)st, n);
        fn.desc_free(desc);
        fn.pref_free(pref);
    }
}

static void test_attributes(void **state)
{
    (void)state;
    struct row r = { "attributes", CUBLAS_COMPUTE_32F, F32, F32, 1, 1, 1, 1,
        .alpha = 1 };
    cublasLtMatmulDesc_t desc = desc_of(&r, NULL);
    int64_t wide = CUBLAS_OP_T;
    int32_t got = 7;
    size_t written = 0;
    /* the size must be that of the attribute */
    assert_int_equal(fn.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &wide, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(fn.desc_get(desc, CUBLASLT_MATMUL_DESC_TRANSA, &got, 4,
                                 &written),
                     CUBLAS_STATUS_SUCCESS);
    assert_int_equal(got, CUBLAS_OP_N);
    assert_int_equal(written, 4);
    fn.desc_free(desc);
    cublasLtMatrixLayoutOpaque_t l;
    assert_int_equal(fn.layout_init(&l, sizeof l - 8, F32, 1, 1, 1),
                     CUBLAS_STATUS_ALLOC_FAILED);
    assert_int_equal(fn.version(), CUBLAS_VERSION);
}

/* What the preference leaves: workspace, alignment, split sums. */
static void test_preferences(void **state)
{
    (void)state;
    struct row r = { "preferences", CUBLAS_COMPUTE_32F, F32, F32, 4, 4, 256, 1,
                     .alpha = 1 };
    static const struct {
        uint64_t workspace;
        uint32_t align, schemes;
        int want;
    } cases[] = { { WORKSPACE, 16, CUBLASLT_REDUCTION_SCHEME_MASK, 3 },
                  { WORKSPACE, 16, CUBLASLT_REDUCTION_SCHEME_NONE, 2 },
                  { WORKSPACE, 4, CUBLASLT_REDUCTION_SCHEME_MASK, 1 },
                  { 0, 256, CUBLASLT_REDUCTION_SCHEME_MASK, 1 },
                  { WORKSPACE, 2, CUBLASLT_REDUCTION_SCHEME_MASK, 0 } };
    cublasLtMatrixLayoutOpaque_t a, b, d;
    fn.layout_init(&a, sizeof a, F32, 4, 256, 4);
    fn.layout_init(&b, sizeof b, F32, 256, 4, 256);
    fn.layout_init(&d, sizeof d, F32, 4, 4, 4);
    cublasLtMatmulDesc_t desc = desc_of(&r, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cublasLtMatmulPreference_t pref =
            pref_of(cases[i].workspace, cases[i].align);
        fn.pref_set(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                    &cases[i].schemes, 4);
        cublasLtMatmulHeuristicResult_t found[MOST];
        int n = 0;
        cublasStatus_t st = fn.heuristic(handle, desc, &a, &b, &d, &d, pref,
                                         MOST, found, &n);
        assert_int_equal(n, cases[i].want);
        assert_int_equal(st, n ? CUBLAS_STATUS_SUCCESS
                               : CUBLAS_STATUS_NOT_SUPPORTED);
        for (int k = 0; k < n; k++)
            assert_true(found[k].workspaceSize <= cases[i].workspace);
        fn.pref_free(pref);
    }
    fn.desc_free(desc);
}

/* An algorithm of one product in another. */
static void test_foreign_algorithm(void **state)
{
    (void)state;
    struct row r = { "foreign", CUBLAS_COMPUTE_32F, F32, F32, 4, 4, 4, 1,
        .alpha = 1 };
    struct row other = r;
    other.epilogue = CUBLASLT_EPILOGUE_RELU;
    cublasLtMatrixLayoutOpaque_t l;
    fn.layout_init(&l, sizeof l, F32, 4, 4, 4);
    cublasLtMatmulDesc_t desc = desc_of(&r, NULL);
    cublasLtMatmulDesc_t desc_other = desc_of(&other, NULL);
    cublasLtMatmulPreference_t pref = pref_of(0, 4);
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    assert_int_equal(fn.heuristic(handle, desc, &l, &l, &l, &l, pref, 1, &found,
                                  &n),
                     CUBLAS_STATUS_SUCCESS);
    void *m = client_buffer(NULL, 3 * 256);
    char *at_b = (char *)m + 256, *at_d = (char *)m + 512;
    float one = 1, zero = 0;
    assert_int_equal(fn.matmul(handle, desc_other, &one, m, &l, at_b, &l, &zero,
                               at_d, &l, at_d, &l, &found.algo, NULL, 0, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    /* C is needed where beta is not 0 */
    assert_int_equal(fn.matmul(handle, desc, &one, m, &l, at_b, &l, &one, NULL,
                               &l, at_d, &l, &found.algo, NULL, 0, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    cu.fail_at("cublasLtMatmul", 1, CUBLAS_STATUS_EXECUTION_FAILED);
    assert_int_equal(fn.matmul(handle, desc, &one, m, &l, at_b, &l, &zero, at_d,
                               &l, at_d, &l, &found.algo, NULL, 0, NULL),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    client_release(m);
    fn.desc_free(desc);
    fn.desc_free(desc_other);
    fn.pref_free(pref);
}

/* A captured product runs at each launch, not before. No handle is made while
 * a capture goes on: that takes memory. */
static void test_capture(void **state)
{
    (void)state;
    struct row r = { "capture", CUBLAS_COMPUTE_32F, F32, F32, 1, 1, 1, 1,
                     .alpha = 1 };
    float one = 1, two = 2, got = 0;
    void *a = client_buffer(&two, 4), *b = client_buffer(&two, 4);
    void *d = client_buffer(&one, 4);
    cublasLtMatmulDesc_t desc = desc_of(&r, NULL);
    cublasLtMatrixLayoutOpaque_t l;
    CUstream stream;
    fn.layout_init(&l, sizeof l, F32, 1, 1, 1);
    assert_int_equal(cu.stream_new(&stream, CU_STREAM_NON_BLOCKING), 0);
    assert_int_equal(
        cu.capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
    assert_int_equal(fn.matmul(handle, desc, &one, a, &l, b, &l, &one, d, &l, d,
                               &l, NULL, NULL, 0, stream),
                     CUBLAS_STATUS_SUCCESS);
    CUgraphExec exec = client_captured(stream);
    client_read(&got, d, 4);
    assert_true(got == 1.0f);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(cu.launch(exec, stream), CUDA_SUCCESS);
        assert_int_equal(cu.sync(stream), CUDA_SUCCESS);
        client_read(&got, d, 4);
        assert_true(got == (float)(1 + 4 * i));
    }
    cu.exec_free(exec);
    cublasLtHandle_t h = NULL;
    CUgraph graph = NULL;
    assert_int_equal(
        cu.capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), 0);
    assert_int_equal(fn.create(&h), CUBLAS_STATUS_ALLOC_FAILED);
    assert_true(cu.captured(stream, &graph) != CUDA_SUCCESS);
    cu.stream_free(stream);
    fn.desc_free(desc);
    client_release(a);
    client_release(b);
    client_release(d);
}

/* --- violations */

/* 4 x 4 in one buffer of 256-byte places; shifts in bytes. */
static void violate(int place_a, int place_d, int shift_a, size_t workspace,
                    int outside, uint32_t align)
{
    struct row r = { "violation", CUBLAS_COMPUTE_32F, F32, F32, 4, 4, 4, 1,
        .alpha = 1 };
    cublasLtMatrixLayoutOpaque_t l;
    fn.layout_init(&l, sizeof l, F32, 4, 4, 4);
    cublasLtMatmulDesc_t desc = desc_of(&r, NULL);
    cublasLtMatmulPreference_t pref = pref_of(WORKSPACE, align);
    cublasLtMatmulHeuristicResult_t found;
    int n = 0;
    if (fn.heuristic(handle, desc, &l, &l, &l, &l, pref, 1, &found, &n) !=
        CUBLAS_STATUS_SUCCESS)
        return;
    char *m = client_buffer(NULL, 4 * 256);
    static float host[16];
    void *w = client_buffer(NULL, WORKSPACE);
    float one = 1, zero = 0;
    (void)fn.matmul(handle, desc, &one,
                    outside ? (char *)host : m + 256 * place_a + shift_a, &l,
                    m + 256, &l, &zero, m + 256 * place_d, &l,
                    m + 256 * place_d, &l, &found.algo, w, workspace, NULL);
}

static void report_workspace(void)
{
    violate(0, 2, 0, 256, 0, 16);
}

static void report_alignment(void)
{
    violate(0, 2, 4, WORKSPACE, 0, 16);
}

static void report_overlap(void)
{
    violate(2, 2, 16, WORKSPACE, 0, 16);
}

static void report_host(void)
{
    violate(0, 2, 0, WORKSPACE, 1, 4);
}

static void report_context(void)
{
    cu.set_current(NULL);
    cublasLtHandle_t h;
    (void)fn.create(&h);
}

static const struct client_report reports[] = {
    { "workspace", "workspace of 256 bytes", report_workspace },
    { "alignment", "16-byte alignment", report_alignment },
    { "overlap", "D overlaps A", report_overlap },
    { "host memory", "is not device memory", report_host },
    { "context", "no current context", report_context },
};

static void test_reports(void **state)
{
    (void)state;
    client_reports_test(reports, sizeof reports / sizeof reports[0]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_tf32_rounds),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_preferences),
        cmocka_unit_test(test_foreign_algorithm),
        cmocka_unit_test(test_capture),
        cmocka_unit_test(test_reports),
    };
    client_start("1");
    void *library = client_open("libcublasLt.so.13");
    FUNCTIONS(CLIENT_BIND)
    if (fn.create(&handle) != CUBLAS_STATUS_SUCCESS)
        return 1;
    client_reports_enter(argc, argv, reports,
                         sizeof reports / sizeof reports[0]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return fn.destroy(handle) != CUBLAS_STATUS_SUCCESS || failed;
}
