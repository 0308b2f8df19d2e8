/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy in memory, for bodies of type application/x-npy. Versions 1 to 3;
 * either byte order; Fortran order is turned into row-major. Bool, integers,
 * f2, f4 and f8: others, and BF16 on the way out, are QN_UNSUPPORTED with the
 * type in the text.
 */
#ifndef QN_CODEC_NPY_H
#define QN_CODEC_NPY_H

#include "runtime/base/shape.h"
#include "server/codec/json.h"

typedef struct qn_npy {
    qn_dtype dtype;
    qn_shape shape;
    bool fortran; /* first index fastest */
    bool swapped; /* big-endian */
    const unsigned char *data;
    size_t bytes;
} qn_npy;

/* Read the header and check that exactly the shape's bytes follow. `out`
 * borrows from `bytes`. Errors: QN_FORMAT, QN_SHAPE, QN_TOO_LARGE,
 * QN_UNSUPPORTED. */
QN_NODISCARD qn_status qn_npy_open(const void *bytes, size_t len, qn_npy *out,
                                   qn_error *err);
/* All elements, row-major and in host order, to `out`, which has npy->dtype and
 * npy->shape (QN_TYPE, QN_SHAPE otherwise). Bool bytes become 0 or 1. */
QN_NODISCARD qn_status qn_npy_decode(const qn_npy *npy, const qn_tensor *out,
                                     qn_error *err);
/* Bytes that qn_npy_write() appends, exactly. */
QN_NODISCARD qn_status qn_npy_bytes(const qn_tensor *tensor, size_t *bytes,
                                    qn_error *err);
QN_NODISCARD qn_status qn_npy_write(qn_sink *sink, const qn_tensor *tensor,
                                    qn_error *err);

#endif
