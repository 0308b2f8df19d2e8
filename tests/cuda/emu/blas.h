/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stand-in for cuBLASLt: what lies in the opaque structs of the
 * real header, and the steps of a matmul.
 *
 *   blas.c         handle, version, names of status codes
 *   blas_desc.c    layouts, operation descriptors, preferences
 *   blas_algo.c    which products are supported, and by which algorithms
 *   blas_matmul.c  checks of one call, and its arithmetic on the stream
 */
#ifndef QN_TESTS_CUDA_EMU_BLAS_H
#define QN_TESTS_CUDA_EMU_BLAS_H

#include <cublasLt.h>
#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_BLAS_LAYOUT 0x71626c61796f7574ull
#define QN_BLAS_DESC   0x71626c6465736372ull
#define QN_BLAS_PREF   0x71626c7072656665ull
#define QN_BLAS_ALGO   0x71626c616c676fULL

/* In a cublasLtMatrixLayoutOpaque_t. Strides and ld in elements. */
struct qn_blas_layout {
    uint64_t magic;
    uint64_t rows, cols;
    int64_t ld, batch_stride;
    uint32_t type;
    int32_t order;
    int32_t batch;
    uint32_t mode;
};

/* In a cublasLtMatmulDescOpaque_t. */
struct qn_blas_desc {
    uint64_t magic;
    int32_t compute, scale;
    int32_t pointer_mode, trans_a, trans_b, trans_c, fill;
    uint32_t epilogue;
    const void *bias;
    int64_t bias_stride;
    int32_t bias_type; /* -1: the type of D */
    int32_t sm_count;
    bool foreign; /* an attribute was set that this stand-in does not have */
};

/* In a cublasLtMatmulPreferenceOpaque_t. */
struct qn_blas_pref {
    uint64_t magic;
    uint64_t workspace, impl;
    uint32_t align[4]; /* A, B, C, D in bytes */
    uint32_t reduction, search;
    float waves;
};

enum qn_blas_kind {
    QN_BLAS_TENSOR = 1, /* every address and stride a multiple of 16 bytes */
    QN_BLAS_SPLIT,      /* the same, and k in two halves through a workspace */
    QN_BLAS_PLAIN,      /* any element alignment, no workspace */
};

/* In a cublasLtMatmulAlgo_t: valid for every product with these traits. */
struct qn_blas_algo {
    uint64_t magic;
    uint64_t traits;
    uint32_t align[4]; /* what the preference promised for A, B, C, D */
    uint32_t bias_align;
    uint32_t kind;
};

/* One product, decoded and checked. Passed by value to the stream. */
struct qn_blas_product {
    struct qn_blas_layout a, b, c, d;
    struct qn_blas_desc op;
    uint64_t m, n, k;
    uint32_t bias_type;
};

/** NULL where *p was never initialised or is destroyed. */
const struct qn_blas_layout *qn_blas_layout_of(cublasLtMatrixLayout_t p);
const struct qn_blas_desc *qn_blas_desc_of(cublasLtMatmulDesc_t p);
const struct qn_blas_pref *qn_blas_pref_of(cublasLtMatmulPreference_t p);

/** A handle that cublasLtCreate gave and that is not destroyed yet. */
bool qn_blas_handle_ok(cublasLtHandle_t h);

/** Reports a handle whose context is not the calling thread's. */
void qn_blas_handle_current(cublasLtHandle_t h, const char *api);

/** Bytes of an element; 0 for a type that this stand-in does not have. */
size_t qn_blas_size(uint32_t type);

/**
 * Decode and check a product.
 *
 *   CUBLAS_STATUS_INVALID_VALUE  shapes, leading dimensions or batches that do
 *                                not fit together, descriptors not initialised
 *   CUBLAS_STATUS_NOT_SUPPORTED  types, orders or epilogues that the table of
 *                                cublasLtMatmul() in NVIDIA's manual leaves out
 */
cublasStatus_t qn_blas_product_of(cublasLtMatmulDesc_t desc,
                                  cublasLtMatrixLayout_t a,
                                  cublasLtMatrixLayout_t b,
                                  cublasLtMatrixLayout_t c,
                                  cublasLtMatrixLayout_t d,
                                  struct qn_blas_product *out);

/** Bytes of workspace that `kind` needs for the product. */
size_t qn_blas_workspace(const struct qn_blas_product *p, uint32_t kind);

/** What an algorithm depends on beside shapes: types, orders, transposes. */
uint64_t qn_blas_traits(const struct qn_blas_product *p);

/** Whether `kind` can run the product at all; alignments in bytes. */
bool qn_blas_runs(const struct qn_blas_product *p, uint32_t kind,
                  const uint32_t align[4], uint32_t bias_align);

/** The largest power of two, at most `most`, that divides the address. */
uint32_t qn_blas_align(const void *address, uint32_t most);

#endif /* QN_TESTS_CUDA_EMU_BLAS_H */
