/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcublasLt.so.13: what is supported, and by which algorithms.
 *
 * Supported is what the type table of cublasLtMatmul() in NVIDIA's manual
 * lists for real floating-point types: nothing more. With 64-bit compute only
 * the default epilogue exists; a bias runs along the rows of D, and only where
 * D is in column order; emulated compute types need a newer card. */
#include "tests/cuda/emu/blas.h"
#include "tests/cuda/emu/emu.h"

#include <string.h>

size_t qn_blas_size(uint32_t type)
{
    switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_32F:
        return 4;
    case CUDA_R_64F:
        return 8;
    default:
        return 0;
    }
}

uint32_t qn_blas_align(const void *address, uint32_t most)
{
    uint32_t align = most;
    while (align > 1 && (uintptr_t)address % align != 0)
        align /= 2;
    return align;
}

/* Rows of the manual's table. `same`: C and D have the type of A and B;
 * `wide`: they may be 32-bit floats instead. */
static const struct {
    int32_t compute, scale;
    uint32_t in;
    bool wide, epilogues;
} supported[] = {
    { CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, false, true },
    { CUBLAS_COMPUTE_16F_PEDANTIC, CUDA_R_16F, CUDA_R_16F, false, true },
    { CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, true, true },
    { CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, true, true },
    { CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, false, true },
    { CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, true, true },
    { CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16F, true, true },
    { CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_32F, false, true },
    { CUBLAS_COMPUTE_32F_FAST_16F, CUDA_R_32F, CUDA_R_32F, false, true },
    { CUBLAS_COMPUTE_32F_FAST_16BF, CUDA_R_32F, CUDA_R_32F, false, true },
    { CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, false, true },
    { CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, false, false },
    { CUBLAS_COMPUTE_64F_PEDANTIC, CUDA_R_64F, CUDA_R_64F, false, false },
};

static bool types_ok(const struct qn_blas_product *p)
{
    uint32_t in = p->a.type, out = p->d.type;
    if (p->b.type != in || p->c.type != out)
        return false;
    for (size_t i = 0; i < sizeof supported / sizeof supported[0]; i++)
        if (supported[i].compute == p->op.compute &&
            supported[i].scale == p->op.scale && supported[i].in == in &&
            (out == in || (supported[i].wide && out == CUDA_R_32F)))
            return supported[i].epilogues ||
                   p->op.epilogue == CUBLASLT_EPILOGUE_DEFAULT;
    return false;
}

static bool epilogue_ok(uint32_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
           epilogue == CUBLASLT_EPILOGUE_RELU ||
           epilogue == CUBLASLT_EPILOGUE_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_RELU_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_GELU ||
           epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
}

static bool operation_ok(int32_t t)
{
    return t == CUBLAS_OP_N || t == CUBLAS_OP_T || t == CUBLAS_OP_C;
}

/* What is wrong with one layout on its own. */
static cublasStatus_t layout_check(const struct qn_blas_layout *l)
{
    if (l->order != CUBLASLT_ORDER_COL && l->order != CUBLASLT_ORDER_ROW)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (l->mode != CUBLASLT_BATCH_MODE_STRIDED)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (l->rows == 0 || l->cols == 0 || l->rows > INT32_MAX ||
        l->cols > INT32_MAX)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    uint64_t least = l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols;
    if (l->ld < 0 || (uint64_t)l->ld < least)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (l->batch < 1 || l->batch_stride < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t qn_blas_product_of(cublasLtMatmulDesc_t desc,
                                  cublasLtMatrixLayout_t a,
                                  cublasLtMatrixLayout_t b,
                                  cublasLtMatrixLayout_t c,
                                  cublasLtMatrixLayout_t d,
                                  struct qn_blas_product *out)
{
    const struct qn_blas_layout *from[4] = {
        qn_blas_layout_of(a), qn_blas_layout_of(b), qn_blas_layout_of(c),
        qn_blas_layout_of(d)
    };
    const struct qn_blas_desc *op = qn_blas_desc_of(desc);
    if (!op)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++) {
        if (!from[i])
            return CUBLAS_STATUS_INVALID_VALUE;
        cublasStatus_t st = layout_check(from[i]);
        if (st != CUBLAS_STATUS_SUCCESS)
            return st;
    }
    struct qn_blas_product p = { .a = *from[0], .b = *from[1], .c = *from[2],
                                 .d = *from[3], .op = *op };
    if (!operation_ok(op->trans_a) || !operation_ok(op->trans_b))
        return CUBLAS_STATUS_INVALID_VALUE;
    bool ta = op->trans_a != CUBLAS_OP_N, tb = op->trans_b != CUBLAS_OP_N;
    p.m = ta ? p.a.cols : p.a.rows;
    p.k = ta ? p.a.rows : p.a.cols;
    p.n = tb ? p.b.rows : p.b.cols;
    if ((tb ? p.b.cols : p.b.rows) != p.k || p.d.rows != p.m ||
        p.d.cols != p.n || p.c.rows != p.m || p.c.cols != p.n)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p.a.batch != p.d.batch || p.b.batch != p.d.batch ||
        p.c.batch != p.d.batch)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (p.d.batch > 1 && p.d.batch_stride == 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    p.bias_type = op->bias_type < 0 ? p.d.type : (uint32_t)op->bias_type;
    bool bias = op->epilogue & CUBLASLT_EPILOGUE_BIAS;
    if (op->foreign || op->trans_c != CUBLAS_OP_N ||
        op->fill != CUBLAS_FILL_MODE_FULL ||
        op->pointer_mode != CUBLASLT_POINTER_MODE_HOST ||
        p.c.order != p.d.order || !epilogue_ok(op->epilogue) || !types_ok(&p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (bias && (p.bias_type != p.d.type || p.d.order != CUBLASLT_ORDER_COL))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (bias && (op->bias_stride < 0 ||
                 (op->bias_stride > 0 && (uint64_t)op->bias_stride < p.m)))
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = p;
    return CUBLAS_STATUS_SUCCESS;
}

size_t qn_blas_workspace(const struct qn_blas_product *p, uint32_t kind)
{
    enum { SEMAPHORES = 4096 };
    switch (kind) {
    case QN_BLAS_TENSOR:
        return SEMAPHORES;
    case QN_BLAS_SPLIT:
        return SEMAPHORES +
               2 * sizeof(float) * p->m * p->n * (size_t)p->d.batch;
    default:
        return 0;
    }
}

uint64_t qn_blas_traits(const struct qn_blas_product *p)
{
    const uint64_t parts[] = {
        (uint64_t)p->op.compute, (uint64_t)p->op.scale,
        (uint64_t)p->op.trans_a, (uint64_t)p->op.trans_b,
        p->op.epilogue,          p->a.type,
        p->d.type,               (uint64_t)p->a.order,
        (uint64_t)p->b.order,    (uint64_t)p->d.order,
        p->d.batch > 1,          p->bias_type,
    };
    uint64_t hash = 1469598103934665603ull; /* FNV-1a, by word */
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        hash = (hash ^ parts[i]) * 1099511628211ull;
    return hash;
}

bool qn_blas_runs(const struct qn_blas_product *p, uint32_t kind,
                  const uint32_t align[4], uint32_t bias_align)
{
    const struct qn_blas_layout *l[4] = { &p->a, &p->b, &p->c, &p->d };
    bool bias = p->op.epilogue & CUBLASLT_EPILOGUE_BIAS;
    for (int i = 0; i < 4; i++) {
        size_t size = qn_blas_size(l[i]->type);
        if (align[i] < size)
            return false;
        if (kind == QN_BLAS_PLAIN)
            continue;
        if (align[i] < 16 || (uint64_t)l[i]->ld * size % 16 != 0 ||
            (l[i]->batch > 1 && (uint64_t)l[i]->batch_stride * size % 16 != 0))
            return false;
    }
    if (bias && bias_align < (kind == QN_BLAS_PLAIN
                                  ? qn_blas_size(p->bias_type)
                                  : 16))
        return false;
    if (kind == QN_BLAS_SPLIT)
        return p->k >= 64 && p->a.type != CUDA_R_64F &&
               p->op.compute != CUBLAS_COMPUTE_16F &&
               p->op.compute != CUBLAS_COMPUTE_16F_PEDANTIC;
    return kind == QN_BLAS_TENSOR || kind == QN_BLAS_PLAIN;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested,
    cublasLtMatmulHeuristicResult_t results[], int *returned)
{
    int fail = qn_emu_fail("cublasLtMatmulAlgoGetHeuristic");
    if (fail)
        return (cublasStatus_t)fail;
    if (returned)
        *returned = 0;
    if (!qn_blas_handle_ok(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const struct qn_blas_pref *pref = qn_blas_pref_of(preference);
    if (requested <= 0 || !results || !returned || !pref)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct qn_blas_product p;
    cublasStatus_t st = qn_blas_product_of(desc, a, b, c, d, &p);
    if (st != CUBLAS_STATUS_SUCCESS)
        return st;
    if (pref->search != CUBLASLT_SEARCH_BEST_FIT)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    /* A long sum over few outputs is split first. */
    bool deep = p.k >= 4 * (p.m > p.n ? p.m : p.n);
    const uint32_t order[] = { deep ? QN_BLAS_SPLIT : QN_BLAS_TENSOR,
                               deep ? QN_BLAS_TENSOR : QN_BLAS_SPLIT,
                               QN_BLAS_PLAIN };
    /* NULL promises nothing about the pointer to come; the real library takes
     * its alignment from the value too. */
    uint32_t bias_align =
        p.op.bias ? qn_blas_align(p.op.bias, 16) : (uint32_t)16;
    int n = 0;
    for (size_t i = 0; i < 3 && n < requested; i++) {
        size_t workspace = qn_blas_workspace(&p, order[i]);
        if (workspace > pref->workspace ||
            !qn_blas_runs(&p, order[i], pref->align, bias_align))
            continue;
        if (order[i] == QN_BLAS_SPLIT &&
            !(pref->reduction & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE))
            continue;
        struct qn_blas_algo algo = { .magic = QN_BLAS_ALGO,
                                     .traits = qn_blas_traits(&p),
                                     .bias_align = bias_align,
                                     .kind = order[i] };
        memcpy(algo.align, pref->align, sizeof algo.align);
        _Static_assert(sizeof algo <= sizeof results[n].algo, "algo fits");
        memset(&results[n], 0, sizeof results[n]);
        memcpy(&results[n].algo, &algo, sizeof algo);
        results[n].workspaceSize = workspace;
        results[n].state = CUBLAS_STATUS_SUCCESS;
        results[n].wavesCount = 1.0f;
        n++;
    }
    *returned = n;
    return n > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static bool algo_read(const cublasLtMatmulAlgo_t *from,
                      struct qn_blas_algo *out)
{
    if (!from)
        return false;
    memcpy(out, from, sizeof *out);
    return out->magic == QN_BLAS_ALGO;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle,
                                       cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *from,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    if (!qn_blas_handle_ok(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    struct qn_blas_algo algo;
    struct qn_blas_product p;
    if (!algo_read(from, &algo) || !result)
        return CUBLAS_STATUS_INVALID_VALUE;
    cublasStatus_t st = qn_blas_product_of(desc, a, b, c, d, &p);
    if (st != CUBLAS_STATUS_SUCCESS)
        return st;
    if (algo.traits != qn_blas_traits(&p))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!qn_blas_runs(&p, algo.kind, algo.align, algo.bias_align))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    result->workspaceSize = qn_blas_workspace(&p, algo.kind);
    result->wavesCount = 1.0f;
    result->state = CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *from,
                                     cublasLtMatmulAlgoConfigAttributes_t attr,
                                     void *buf, size_t bytes, size_t *written)
{
    struct qn_blas_algo algo;
    if (!algo_read(from, &algo))
        return CUBLAS_STATUS_INVALID_VALUE;
    bool split = algo.kind == QN_BLAS_SPLIT;
    uint32_t value;
    switch (attr) {
    case CUBLASLT_ALGO_CONFIG_ID:
        value = algo.kind;
        break;
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
        value = split ? 2 : 1;
        break;
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
        value = split ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                      : CUBLASLT_REDUCTION_SCHEME_NONE;
        break;
    default:
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (bytes == 0 ? !written : !buf || bytes != sizeof value)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes)
        memcpy(buf, &value, sizeof value);
    if (written)
        *written = sizeof value;
    return CUBLAS_STATUS_SUCCESS;
}
