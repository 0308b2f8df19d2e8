/* SPDX-License-Identifier: Apache-2.0 */
/* .npy in memory; files are read and written through models/model.h. */
#ifndef QN_MODELS_NPY_H
#define QN_MODELS_NPY_H

#include "runtime/base/shape.h"

typedef struct qn_npy {
    qn_dtype dtype;
    qn_shape shape;
    char kind;    /* b i u f c S U */
    size_t width; /* bytes of an element as stored */
    bool swap;    /* big-endian */
    bool fortran; /* first index fastest */
    const uint8_t *data;
    size_t bytes;
} qn_npy;

/*
 * Read the header, versions 1.0 to 3.0, and check that exactly the bytes of its
 * shape follow. `out` borrows from `bytes`.
 * Errors: QN_FORMAT; QN_UNSUPPORTED (a version, an element type);
 * QN_TOO_LARGE (a shape whose bytes overflow); QN_NO_MEMORY.
 */
QN_NODISCARD qn_status qn_npy_open(const void *bytes, size_t len, qn_npy *out,
                                   qn_error *err);

/*
 * All elements to out->data, row-major and in host order; Bool bytes become 0
 * or 1. Errors: QN_TYPE, QN_SHAPE unless `out` has the type and shape of `npy`;
 * QN_UNSUPPORTED for strings.
 */
QN_NODISCARD qn_status qn_npy_decode(const qn_npy *npy, const qn_tensor *out,
                                     qn_error *err);

/* The head of a version 1.0 file in C order, before the elements: its length is
 * a multiple of 64. QN_UNSUPPORTED where .npy has no such type; BF16 is said to
 * be float32, 4 and 2 bit integers 8 bit ones. */
enum { QN_NPY_HEAD = 512 };
QN_NODISCARD qn_status qn_npy_head(const qn_tensor *tensor,
                                   char out[QN_NPY_HEAD], size_t *len,
                                   qn_error *err);

#endif
