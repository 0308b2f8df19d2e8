/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes and tensors. A shape is a value, copied freely: rank, then dimensions
 * outermost first. A tensor is a view: it never owns its bytes.
 */
#ifndef QN_BASE_SHAPE_H
#define QN_BASE_SHAPE_H

#include "runtime/base/dtype.h"
#include "runtime/base/status.h"

/* Real models stay at 6 and below; a graph that needs more is refused. */
enum { QN_MAX_RANK = 10 };

typedef struct qn_shape {
    int32_t rank;              /* 0 (a scalar) to QN_MAX_RANK */
    int64_t dims[QN_MAX_RANK]; /* >= 0, outermost first */
} qn_shape;

/*
 * A dense row-major view. `data` is NULL where only type and shape are known.
 * An absent optional tensor has dtype QN_NONE. Element (i0, i1, ...) lies at
 * index (i0 * dims[1] + i1) * dims[2] + ...
 *
 * A string element is a qn_string (runtime/base/string.h), never a pointer.
 */
typedef struct qn_tensor {
    qn_dtype dtype;
    qn_shape shape;
    void *data;
} qn_tensor;

enum { QN_SHAPE_TEXT = 160 };

/* Elements; false when the product does not fit (a zero dimension makes it 0
 * only if the product of the others fits too). */
bool qn_shape_count(const qn_shape *shape, int64_t *count);
/* Elements of dimensions [from, to). Only for shapes already accepted by
 * qn_shape_count(): does not check. */
int64_t qn_shape_product(const qn_shape *shape, int from, int to);
bool qn_shape_equal(const qn_shape *a, const qn_shape *b);
/* "[1, 3, 224, 224]"; returns buf. */
const char *qn_shape_text(const qn_shape *shape, char buf[QN_SHAPE_TEXT]);
/* Shape from its dimensions: qn_shape_make(2, (int64_t[]){3, 4}). */
qn_shape qn_shape_make(int rank, const int64_t *dims);

/* NumPy broadcasting of two shapes; QN_SHAPE names both shapes and the axis. */
QN_NODISCARD qn_status qn_shape_broadcast(const qn_shape *a, const qn_shape *b,
                                          qn_shape *out, qn_error *err);

/* Axis in [-rank, rank-1] made non-negative; QN_RANGE otherwise. */
QN_NODISCARD qn_status qn_axis(int64_t axis, int rank, int *out, qn_error *err);

/* Bytes of shape x dtype in memory; QN_TOO_LARGE with the shape in the text. */
QN_NODISCARD qn_status qn_tensor_bytes(qn_dtype dtype, const qn_shape *shape,
                                       size_t *bytes, qn_error *err);

/* Elements of an accepted tensor. */
static inline int64_t qn_count(const qn_tensor *t)
{
    return qn_shape_product(&t->shape, 0, t->shape.rank);
}

static inline bool qn_present(const qn_tensor *t)
{
    return t->dtype != QN_NONE;
}

#endif
