/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bodies of type application/x-npy. Read them with qn_npy_open and
 * qn_npy_decode of models/npy.h: versions 1 to 3, either byte order, Fortran
 * order turned into row-major; numbers and bool.
 */
#ifndef QN_CODEC_NPY_H
#define QN_CODEC_NPY_H

#include "models/npy.h"
#include "server/codec/json.h"

/* Bytes that qn_npy_write() appends, exactly. QN_UNSUPPORTED for a type that
 * .npy has not: BF16, the 8 and 4 bit floats, strings. */
QN_NODISCARD qn_status qn_npy_bytes(const qn_tensor *tensor, size_t *bytes,
                                    qn_error *err);
QN_NODISCARD qn_status qn_npy_write(qn_sink *sink, const qn_tensor *tensor,
                                    qn_error *err);

#endif
