/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcublasLt.so.13: descriptors.
 *
 * Attributes are rows of tables: number, offset, bytes. A call whose size is
 * not exactly that of the attribute is refused, as by the real library; types
 * of attributes come from the comments of cublasLt.h. */
#include "tests/cuda/emu/blas.h"
#include "tests/cuda/emu/emu.h"

#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct qn_blas_layout) <=
                   sizeof(cublasLtMatrixLayoutOpaque_t),
               "a layout fits");
_Static_assert(sizeof(struct qn_blas_desc) <=
                   sizeof(cublasLtMatmulDescOpaque_t),
               "a descriptor fits");
_Static_assert(sizeof(struct qn_blas_pref) <=
                   sizeof(cublasLtMatmulPreferenceOpaque_t),
               "a preference fits");

struct attribute {
    int name;
    size_t offset, bytes;
};
#define ROW(name, type, field)                                                 \
    {                                                                          \
        name, offsetof(type, field), sizeof(((type *)0)->field)                \
    }

static const struct attribute layout_rows[] = {
    ROW(CUBLASLT_MATRIX_LAYOUT_TYPE, struct qn_blas_layout, type),
    ROW(CUBLASLT_MATRIX_LAYOUT_ORDER, struct qn_blas_layout, order),
    ROW(CUBLASLT_MATRIX_LAYOUT_ROWS, struct qn_blas_layout, rows),
    ROW(CUBLASLT_MATRIX_LAYOUT_COLS, struct qn_blas_layout, cols),
    ROW(CUBLASLT_MATRIX_LAYOUT_LD, struct qn_blas_layout, ld),
    ROW(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, struct qn_blas_layout, batch),
    ROW(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, struct qn_blas_layout,
        batch_stride),
    ROW(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, struct qn_blas_layout, mode),
};

static const struct attribute desc_rows[] = {
    ROW(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, struct qn_blas_desc, compute),
    ROW(CUBLASLT_MATMUL_DESC_SCALE_TYPE, struct qn_blas_desc, scale),
    ROW(CUBLASLT_MATMUL_DESC_POINTER_MODE, struct qn_blas_desc, pointer_mode),
    ROW(CUBLASLT_MATMUL_DESC_TRANSA, struct qn_blas_desc, trans_a),
    ROW(CUBLASLT_MATMUL_DESC_TRANSB, struct qn_blas_desc, trans_b),
    ROW(CUBLASLT_MATMUL_DESC_TRANSC, struct qn_blas_desc, trans_c),
    ROW(CUBLASLT_MATMUL_DESC_FILL_MODE, struct qn_blas_desc, fill),
    ROW(CUBLASLT_MATMUL_DESC_EPILOGUE, struct qn_blas_desc, epilogue),
    ROW(CUBLASLT_MATMUL_DESC_BIAS_POINTER, struct qn_blas_desc, bias),
    ROW(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, struct qn_blas_desc,
        bias_stride),
    ROW(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, struct qn_blas_desc, bias_type),
    ROW(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, struct qn_blas_desc, sm_count),
};

static const struct attribute pref_rows[] = {
    ROW(CUBLASLT_MATMUL_PREF_SEARCH_MODE, struct qn_blas_pref, search),
    ROW(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, struct qn_blas_pref,
        workspace),
    ROW(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, struct qn_blas_pref,
        reduction),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, struct qn_blas_pref,
        align[0]),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, struct qn_blas_pref,
        align[1]),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, struct qn_blas_pref,
        align[2]),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, struct qn_blas_pref,
        align[3]),
    ROW(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, struct qn_blas_pref, waves),
    ROW(CUBLASLT_MATMUL_PREF_IMPL_MASK, struct qn_blas_pref, impl),
};
#define ROWS(table) table, sizeof(table) / sizeof(table)[0]

static const struct attribute *row_of(const struct attribute *rows, size_t n,
                                      int name)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].name == name)
            return &rows[i];
    return NULL;
}

static cublasStatus_t set(const struct attribute *rows, size_t n, void *base,
                          int name, const void *buf, size_t bytes)
{
    const struct attribute *row = row_of(rows, n, name);
    if (!base || !buf || !row || bytes != row->bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((char *)base + row->offset, buf, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(const struct attribute *rows, size_t n,
                          const void *base, int name, void *buf, size_t bytes,
                          size_t *written)
{
    const struct attribute *row = row_of(rows, n, name);
    if (!base || !row)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes == 0) {
        if (!written)
            return CUBLAS_STATUS_INVALID_VALUE;
        *written = row->bytes;
        return CUBLAS_STATUS_SUCCESS;
    }
    if (!buf || bytes != row->bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(buf, (const char *)base + row->offset, bytes);
    if (written)
        *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* --- layouts */

/* The opaque structs are arrays of uint64_t; read and written as ours. */
static struct qn_blas_layout *layout_at(cublasLtMatrixLayout_t p)
{
    struct qn_blas_layout *l = (void *)p;
    return l && l->magic == QN_BLAS_LAYOUT ? l : NULL;
}

const struct qn_blas_layout *qn_blas_layout_of(cublasLtMatrixLayout_t p)
{
    return layout_at(p);
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout,
                                                 size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t cols,
                                                 int64_t ld)
{
    if (!layout)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (size < sizeof *layout)
        return CUBLAS_STATUS_ALLOC_FAILED;
    struct qn_blas_layout *l = (void *)layout;
    memset(layout, 0, sizeof *layout);
    *l = (struct qn_blas_layout){ .magic = QN_BLAS_LAYOUT,
                                  .type = (uint32_t)type,
                                  .rows = rows,
                                  .cols = cols,
                                  .ld = ld,
                                  .order = CUBLASLT_ORDER_COL,
                                  .batch = 1 };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    int fail = qn_emu_fail("cublasLtMatrixLayoutCreate");
    if (fail)
        return (cublasStatus_t)fail;
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = malloc(sizeof **out);
    if (!*out)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cublasLtMatrixLayoutInit_internal(*out, sizeof **out, type, rows,
                                             cols, ld);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    struct qn_blas_layout *l = layout_at(layout);
    if (!l)
        return layout ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
    l->magic = 0;
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attr,
                                 const void *buf, size_t bytes)
{
    return set(ROWS(layout_rows), layout_at(layout), (int)attr, buf, bytes);
}

cublasStatus_t
cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t attr,
                                 void *buf, size_t bytes, size_t *written)
{
    return get(ROWS(layout_rows), layout_at(layout), (int)attr, buf, bytes,
               written);
}

/* --- operations */

static struct qn_blas_desc *desc_at(cublasLtMatmulDesc_t p)
{
    struct qn_blas_desc *d = (void *)p;
    return d && d->magic == QN_BLAS_DESC ? d : NULL;
}

const struct qn_blas_desc *qn_blas_desc_of(cublasLtMatmulDesc_t p)
{
    return desc_at(p);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc,
                                               size_t size,
                                               cublasComputeType_t compute,
                                               cudaDataType_t scale)
{
    if (!desc)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (size < sizeof *desc)
        return CUBLAS_STATUS_ALLOC_FAILED;
    struct qn_blas_desc *d = (void *)desc;
    memset(desc, 0, sizeof *desc);
    *d = (struct qn_blas_desc){ .magic = QN_BLAS_DESC,
                                .compute = (int32_t)compute,
                                .scale = (int32_t)scale,
                                .fill = CUBLAS_FILL_MODE_FULL,
                                .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                .bias_type = -1 };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    int fail = qn_emu_fail("cublasLtMatmulDescCreate");
    if (fail)
        return (cublasStatus_t)fail;
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = malloc(sizeof **out);
    if (!*out)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cublasLtMatmulDescInit_internal(*out, sizeof **out, compute, scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    struct qn_blas_desc *d = desc_at(desc);
    if (!d)
        return desc ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
    d->magic = 0;
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attr,
                               const void *buf, size_t bytes)
{
    struct qn_blas_desc *d = desc_at(desc);
    if (!row_of(ROWS(desc_rows), (int)attr) && d && buf) {
        /* Scales, auxiliary outputs, emulation: such a product is refused. */
        d->foreign = true;
        return CUBLAS_STATUS_SUCCESS;
    }
    return set(ROWS(desc_rows), d, (int)attr, buf, bytes);
}

cublasStatus_t
cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                               cublasLtMatmulDescAttributes_t attr, void *buf,
                               size_t bytes, size_t *written)
{
    return get(ROWS(desc_rows), desc_at(desc), (int)attr, buf, bytes, written);
}

/* --- preferences */

static struct qn_blas_pref *pref_at(cublasLtMatmulPreference_t p)
{
    struct qn_blas_pref *q = (void *)p;
    return q && q->magic == QN_BLAS_PREF ? q : NULL;
}

const struct qn_blas_pref *qn_blas_pref_of(cublasLtMatmulPreference_t p)
{
    return pref_at(p);
}

cublasStatus_t
cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t pref,
                                      size_t size)
{
    if (!pref)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (size < sizeof *pref)
        return CUBLAS_STATUS_ALLOC_FAILED;
    struct qn_blas_pref *p = (void *)pref;
    memset(pref, 0, sizeof *pref);
    *p = (struct qn_blas_pref){ .magic = QN_BLAS_PREF,
                                .impl = UINT64_MAX,
                                .align = { 256, 256, 256, 256 },
                                .reduction = CUBLASLT_REDUCTION_SCHEME_MASK,
                                .search = CUBLASLT_SEARCH_BEST_FIT };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    int fail = qn_emu_fail("cublasLtMatmulPreferenceCreate");
    if (fail)
        return (cublasStatus_t)fail;
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = malloc(sizeof **out);
    if (!*out)
        return CUBLAS_STATUS_ALLOC_FAILED;
    return cublasLtMatmulPreferenceInit_internal(*out, sizeof **out);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    struct qn_blas_pref *p = pref_at(pref);
    if (!p)
        return pref ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
    p->magic = 0;
    free(pref);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t pref,
    cublasLtMatmulPreferenceAttributes_t attr, const void *buf, size_t bytes)
{
    return set(ROWS(pref_rows), pref_at(pref), (int)attr, buf, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(
    cublasLtMatmulPreference_t pref,
    cublasLtMatmulPreferenceAttributes_t attr, void *buf, size_t bytes,
    size_t *written)
{
    return get(ROWS(pref_rows), pref_at(pref), (int)attr, buf, bytes, written);
}
