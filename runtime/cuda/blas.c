/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt speaks of column-major matrices. A row-major matrix is the transpose
 * of the column-major one with the same bytes, so D = A B is asked for as
 * D' = B' A': its "A" is our B, its m is our n, and its bias, one value per row
 * of D', is ours, one per column.
 */
#include "runtime/cuda/blas.h"
#include "runtime/cuda/libs.h"

#include <cublasLt.h>

#include <stdio.h>
#include <string.h>

/* ---- the library ---- */

#define LIBRARY "libcublasLt.so.13"

/* the Init functions are what the header's inline ones call */
#define FUNCTIONS(X)                                                           \
    X(create, cublasLtCreate)                                                  \
    X(destroy, cublasLtDestroy)                                                \
    X(version, cublasLtGetVersion)                                             \
    X(text, cublasLtGetStatusString)                                           \
    X(desc_init, cublasLtMatmulDescInit_internal)                              \
    X(desc_set, cublasLtMatmulDescSetAttribute)                                \
    X(layout_init, cublasLtMatrixLayoutInit_internal)                          \
    X(layout_set, cublasLtMatrixLayoutSetAttribute)                            \
    X(pref_init, cublasLtMatmulPreferenceInit_internal)                        \
    X(pref_set, cublasLtMatmulPreferenceSetAttribute)                          \
    X(heuristic, cublasLtMatmulAlgoGetHeuristic)                               \
    X(matmul, cublasLtMatmul)

typedef struct blas {
    void *library;
    cublasLtHandle_t handle;
#define FIELD(field, function) __typeof__(&function) field;
    FUNCTIONS(FIELD)
#undef FIELD
} blas;

static const qn_cuda_symbol symbols[] = {
#define SYMBOL(field, function) { #function, offsetof(blas, field) },
    FUNCTIONS(SYMBOL)
#undef SYMBOL
};

static qn_status fail(const blas *lt, cublasStatus_t st, const char *what,
                      qn_error *err)
{
    return qn_fail(err, st == CUBLAS_STATUS_ALLOC_FAILED ? QN_NO_MEMORY
                                                          : QN_DEVICE,
                   "%s: %s", what, lt->text(st));
}

qn_status qn_cuda_blas_open(qn_cuda_device *device, qn_error *err)
{
    blas *lt = qn_calloc(1, sizeof *lt);
    if (!lt)
        return qn_fail(err, QN_NO_MEMORY, "no memory for cuBLASLt");
    device->blas = lt;
    qn_status st = qn_cuda_library_open(LIBRARY, &lt->library, err);
    if (st == QN_OK)
        st = qn_cuda_library_bind(lt->library, LIBRARY, symbols,
                                  sizeof symbols / sizeof symbols[0], lt, err);
    if (st != QN_OK)
        return st;
    cublasStatus_t rc = lt->create(&lt->handle);
    if (rc != CUBLAS_STATUS_SUCCESS) {
        lt->handle = NULL;
        return fail(lt, rc, "opening cuBLASLt", err);
    }
    /* 130002: 13.0.2 */
    const size_t v = lt->version();
    snprintf(device->blas_version, sizeof device->blas_version,
             "cuBLASLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return QN_OK;
}

void qn_cuda_blas_close(qn_cuda_device *device)
{
    blas *lt = device->blas;
    if (!lt)
        return;
    if (lt->handle)
        lt->destroy(lt->handle);
    qn_cuda_library_close(lt->library);
    qn_free(lt);
    device->blas = NULL;
}

/* ---- describing a product ---- */

enum {
    WORKSPACE_SM90 = 32 << 20, /* what the library's fast kernels ask for */
    WORKSPACE = 4 << 20,
    ALIGNED = 16, /* bytes: the widest access of its kernels */
    ASKED = 8
};

/* What a call hands over, all of it plain data. */
typedef struct call {
    cublasLtMatmulDescOpaque_t desc;
    cublasLtMatrixLayoutOpaque_t a, b, d; /* the library's A and B; C as D */
} call;

typedef struct setup {
    const blas *lt;
    cublasStatus_t st; /* first failure */
} setup;

static cudaDataType_t type_of(qn_dtype dtype)
{
    switch (dtype) {
    case QN_F64:
        return CUDA_R_64F;
    case QN_F16:
        return CUDA_R_16F;
    case QN_BF16:
        return CUDA_R_16BF;
    default:
        return CUDA_R_32F;
    }
}

static void layout(setup *s, cublasLtMatrixLayoutOpaque_t *out, qn_dtype dtype,
                   int64_t rows, int64_t cols, const qn_cuda_gemm *g,
                   int64_t step)
{
    const int32_t batches = (int32_t)g->batches;
    if (s->st == CUBLAS_STATUS_SUCCESS)
        s->st = s->lt->layout_init(
            out, sizeof *out, type_of(dtype), (uint64_t)rows, (uint64_t)cols,
            rows);
    if (s->st == CUBLAS_STATUS_SUCCESS && batches > 1)
        s->st = s->lt->layout_set(
            out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches);
    if (s->st == CUBLAS_STATUS_SUCCESS && batches > 1)
        s->st = s->lt->layout_set(
            out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
            sizeof step);
}

static void attribute(setup *s, call *c, cublasLtMatmulDescAttributes_t name,
                      const void *value, size_t bytes)
{
    if (s->st == CUBLAS_STATUS_SUCCESS)
        s->st = s->lt->desc_set(&c->desc, name, value, bytes);
}

static cublasStatus_t describe(const blas *lt, const qn_cuda_gemm *g,
                               const void *bias, call *c)
{
    setup s = { .lt = lt };
    const bool wide = g->in == QN_F64;
    const cublasComputeType_t compute =
        wide                           ? CUBLAS_COMPUTE_64F
        : g->tf32 && g->in == QN_F32   ? CUBLAS_COMPUTE_32F_FAST_TF32
                                       : CUBLAS_COMPUTE_32F;
    const int32_t yes = CUBLAS_OP_T, no = CUBLAS_OP_N;
    const uint32_t end = g->bias && g->relu ? CUBLASLT_EPILOGUE_RELU_BIAS
                         : g->bias          ? CUBLASLT_EPILOGUE_BIAS
                         : g->relu          ? CUBLASLT_EPILOGUE_RELU
                                            : CUBLASLT_EPILOGUE_DEFAULT;
    memset(c, 0, sizeof *c);
    s.st = lt->desc_init(
        &c->desc, sizeof c->desc, compute, wide ? CUDA_R_64F : CUDA_R_32F);
    attribute(&s, c, CUBLASLT_MATMUL_DESC_TRANSA, g->trans_b ? &yes : &no,
              sizeof yes);
    attribute(&s, c, CUBLASLT_MATMUL_DESC_TRANSB, g->trans_a ? &yes : &no,
              sizeof yes);
    attribute(&s, c, CUBLASLT_MATMUL_DESC_EPILOGUE, &end, sizeof end);
    if (g->bias)
        attribute(&s, c, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    /* stored [k, n] is column-major n x k; [n, k] is k x n */
    layout(&s, &c->a, g->in, g->trans_b ? g->k : g->n,
           g->trans_b ? g->n : g->k, g, g->step_b);
    layout(&s, &c->b, g->in, g->trans_a ? g->m : g->k,
           g->trans_a ? g->k : g->m, g, g->step_a);
    layout(&s, &c->d, g->out, g->n, g->m, g, g->step_d);
    return s.st;
}

/* ---- choosing ---- */

static cublasStatus_t prefer(const blas *lt, size_t workspace,
                             uint32_t align_in, uint32_t align_out,
                             cublasLtMatmulPreferenceOpaque_t *pref)
{
    const uint64_t most = workspace;
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } rows[] = {
        { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &align_in, 4 },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &align_in, 4 },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &align_out, 4 },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &align_out, 4 },
    };
    cublasStatus_t st = lt->pref_init(pref, sizeof *pref);
    for (size_t i = 0; st == CUBLAS_STATUS_SUCCESS &&
                       i < sizeof rows / sizeof rows[0]; i++)
        st = lt->pref_set(pref, rows[i].name, rows[i].value, rows[i].bytes);
    return st;
}

static bool nothing(cublasStatus_t st)
{
    return st == CUBLAS_STATUS_NOT_SUPPORTED ||
           st == CUBLAS_STATUS_INVALID_VALUE ||
           st == CUBLAS_STATUS_ARCH_MISMATCH;
}

static bool fits(const qn_cuda_gemm *g)
{
    const int64_t most = INT32_MAX;
    return g->m > 0 && g->n > 0 && g->k > 0 && g->batches > 0 && g->m <= most &&
           g->n <= most && g->k <= most && g->batches <= most;
}

/* For addresses on 16 bytes (i 0) or on elements (1). */
static qn_status choose(const blas *lt, const qn_cuda_gemm *g, int i,
                        size_t limit, qn_cuda_gemm_plan *out, qn_error *err)
{
    const uint32_t in = i ? (uint32_t)qn_dtype_size(g->in) : ALIGNED;
    const uint32_t to = i ? (uint32_t)qn_dtype_size(g->out) : ALIGNED;
    cublasLtMatmulPreferenceOpaque_t pref;
    cublasLtMatmulHeuristicResult_t found[ASKED];
    call c;
    int n = 0;
    /* the heuristic does not read the bias: it looks at its address */
    cublasStatus_t rc = describe(
        lt, g, g->bias ? (const void *)(uintptr_t)to : NULL, &c);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = prefer(lt, limit, in, to, &pref);
    if (rc == CUBLAS_STATUS_SUCCESS)
        rc = lt->heuristic(lt->handle, &c.desc, &c.a, &c.b, &c.d, &c.d, &pref,
                           ASKED, found, &n);
    if (nothing(rc))
        return QN_OK;
    if (rc != CUBLAS_STATUS_SUCCESS)
        return fail(lt, rc, "choosing an algorithm of cuBLASLt", err);
    for (int at = 0; at < n && !out->found[i]; at++) {
        if (found[at].state != CUBLAS_STATUS_SUCCESS ||
            found[at].workspaceSize > limit)
            continue;
        _Static_assert(sizeof out->algo[i] == sizeof found[at].algo,
                       "an algorithm is plain data of 64 bytes");
        memcpy(out->algo[i], &found[at].algo, sizeof out->algo[i]);
        out->found[i] = true;
        if (found[at].workspaceSize > out->workspace)
            out->workspace = found[at].workspaceSize;
    }
    return QN_OK;
}

qn_status qn_cuda_gemm_plan_make(qn_accel *accel, const qn_cuda_gemm *g,
                                 qn_cuda_gemm_plan *out, bool *ok, qn_error *err)
{
    qn_cuda_device *dev = qn_cuda_of(accel);
    const blas *lt = dev->blas;
    const size_t limit = qn_cuda_limits_of(accel)->capability == 90
                             ? WORKSPACE_SM90 : WORKSPACE;

    memset(out, 0, sizeof *out);
    out->g = *g;
    *ok = false;
    if (!fits(g))
        return QN_OK;
    qn_status st = qn_cuda_enter_blocking(dev, err);
    if (st != QN_OK)
        return st;
    for (int i = 0; st == QN_OK && i < 2; i++)
        st = choose(lt, g, i, limit, out, err);
    qn_cuda_gate_leave(dev);
    *ok = out->found[0] || out->found[1];
    return st;
}

/* ---- running ---- */

static int which(const qn_cuda_gemm_plan *p, const void *a, const void *b,
                 const void *c, const void *d, const void *bias)
{
    const uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c |
                          (uintptr_t)d | (uintptr_t)bias;
    if (p->found[0] && all % ALIGNED == 0)
        return 0;
    return p->found[1] ? 1 : -1;
}

bool qn_cuda_gemm_serves(const qn_cuda_gemm_plan *p, const void *a,
                         const void *b, const void *c, const void *d)
{
    return which(p, a, b, c, d, NULL) >= 0;
}

qn_status qn_cuda_gemm_run(const qn_launch *k, const qn_cuda_gemm_plan *p,
                           const void *a, const void *b, const void *c, void *d,
                           const void *bias, void *workspace)
{
    const qn_cuda_gemm *g = &p->g;
    qn_cuda_device *dev = qn_cuda_queue_device(k->queue);
    const blas *lt = dev->blas;
    const float alpha = (float)g->alpha, beta = (float)g->beta;
    const bool wide = g->in == QN_F64;
    const int i = which(p, a, b, c, d, bias);
    cublasLtMatmulAlgo_t algo;
    call desc;

    if (i < 0)
        return qn_launch_fail(k, QN_UNSUPPORTED, "cuBLASLt has no algorithm for "
                              "these addresses");
    qn_status entered = qn_cuda_enter(dev, k->err);
    if (entered != QN_OK)
        return entered;
    memcpy(&algo, p->algo[i], sizeof algo);
    cublasStatus_t st = describe(lt, g, bias, &desc);
    if (st == CUBLAS_STATUS_SUCCESS)
        st = lt->matmul(
            lt->handle, &desc.desc, wide ? (const void *)&g->alpha : &alpha, b,
            &desc.a, a, &desc.b, wide ? (const void *)&g->beta : &beta,
            c ? c : d, &desc.d, d, &desc.d, &algo, workspace, p->workspace,
            k->queue->stream);
    if (st == CUBLAS_STATUS_SUCCESS) {
        qn_cuda_count(k->queue);
        return QN_OK;
    }
    return qn_cuda_library_failed(k, "cuBLASLt", lt->text(st));
}
