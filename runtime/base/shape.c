/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/shape.h"

#include "runtime/base/checked.h"

#include <stdio.h>
#include <string.h>

bool qn_shape_count(const qn_shape *shape, int64_t *count)
{
    int64_t n = 1, rest = 1;
    for (int i = 0; i < shape->rank; i++) {
        int64_t d = shape->dims[i];
        if (d < 0 || !qn_mul_i64(rest, d ? d : 1, &rest))
            return false;
        n = d ? n : 0;
    }
    *count = n ? rest : 0;
    return true;
}

int64_t qn_shape_product(const qn_shape *shape, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= shape->dims[i];
    return n;
}

bool qn_shape_equal(const qn_shape *a, const qn_shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

const char *qn_shape_text(const qn_shape *shape, char buf[QN_SHAPE_TEXT])
{
    size_t at = 0;
    buf[at++] = '[';
    for (int i = 0; i < shape->rank && at < QN_SHAPE_TEXT - 24; i++) {
        int n = snprintf(buf + at, QN_SHAPE_TEXT - at, "%s%lld", i ? ", " : "",
                         (long long)shape->dims[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    snprintf(buf + at, QN_SHAPE_TEXT - at, "]");
    return buf;
}

qn_shape qn_shape_make(int rank, const int64_t *dims)
{
    qn_shape s = { .rank = rank };
    for (int i = 0; i < rank && i < QN_MAX_RANK; i++)
        s.dims[i] = dims[i];
    return s;
}

qn_status qn_shape_broadcast(const qn_shape *a, const qn_shape *b,
                             qn_shape *out, qn_error *err)
{
    qn_shape r = { .rank = a->rank > b->rank ? a->rank : b->rank };
    for (int i = 0; i < r.rank; i++) {
        int ia = i - (r.rank - a->rank), ib = i - (r.rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dims[ia], db = ib < 0 ? 1 : b->dims[ib];
        if (da != db && da != 1 && db != 1) {
            char ta[QN_SHAPE_TEXT], tb[QN_SHAPE_TEXT];
            return qn_fail(err, QN_SHAPE,
                           "shapes %s and %s do not broadcast: axis %d has %lld "
                           "and %lld",
                           qn_shape_text(a, ta), qn_shape_text(b, tb), i,
                           (long long)da, (long long)db);
        }
        r.dims[i] = da == 1 ? db : da;
    }
    *out = r;
    return QN_OK;
}

qn_status qn_axis(int64_t axis, int rank, int *out, qn_error *err)
{
    if (axis < -(int64_t)rank || axis >= rank)
        return qn_fail(err, QN_RANGE, "axis %lld is outside [%d, %d]",
                       (long long)axis, -rank, rank - 1);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return QN_OK;
}

qn_status qn_tensor_bytes(qn_dtype dtype, const qn_shape *shape, size_t *bytes,
                          qn_error *err)
{
    int64_t count;
    size_t n;
    if (!qn_shape_count(shape, &count) ||
        !qn_mul_size((size_t)count, qn_dtype_size(dtype), &n) ||
        n > (size_t)INT64_MAX / 2) {
        char text[QN_SHAPE_TEXT];
        return qn_fail(err, QN_TOO_LARGE,
                       "a %s tensor of shape %s has more bytes than a machine "
                       "can address",
                       qn_dtype_name(dtype), qn_shape_text(shape, text));
    }
    *bytes = n;
    return QN_OK;
}
