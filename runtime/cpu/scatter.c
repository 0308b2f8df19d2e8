/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scatter, ScatterElements, ScatterND: copy the data, then write or reduce the
 * updates in their order, on one thread: with equal indices the last one wins
 * and sums keep their order, so the answer never depends on a schedule. Indices
 * are checked before anything is written.
 *
 * Min and max give NaN where either side is NaN; on bool, add and max are "or",
 * mul and min are "and". 16-bit floats are reduced in binary32.
 */
#include "runtime/base/half.h"
#include "runtime/cpu/strided.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

typedef enum reduction { NONE, ADD, MUL, MAX, MIN } reduction;

/* dst[i] = dst[i] (op) src[i] for i < n */
typedef void (*reduce_fn)(reduction op, const void *src, void *dst, int64_t n);

#define AS_IS(v) (v)
/* `wide` holds sums and products without undefined overflow */
#define REDUCE(name, type, wide, from, to)                                     \
    static void reduce_##name(reduction op, const void *src, void *dst,        \
                              int64_t n)                                       \
    {                                                                          \
        const type *s = src;                                                   \
        type *d = dst;                                                         \
        for (int64_t i = 0; i < n; i++) {                                      \
            wide a = (wide)from(d[i]), b = (wide)from(s[i]);                   \
            bool pick = op == MAX ? from(s[i]) > from(d[i])                    \
                                  : from(s[i]) < from(d[i]);                   \
            wide r = op == ADD   ? (wide)(a + b)                               \
                     : op == MUL ? (wide)(a * b)                               \
                     : pick || b != b ? b                                      \
                                      : a;                                     \
            d[i] = (type)to(r);                                                \
        }                                                                      \
    }

REDUCE(F32, float, float, AS_IS, AS_IS)
REDUCE(F64, double, double, AS_IS, AS_IS)
REDUCE(F16, uint16_t, float, qn_f16_to_f32, qn_f32_to_f16)
REDUCE(BF16, uint16_t, float, qn_bf16_to_f32, qn_f32_to_bf16)
REDUCE(I8, int8_t, uint32_t, AS_IS, AS_IS)
REDUCE(I16, int16_t, uint32_t, AS_IS, AS_IS)
REDUCE(I32, int32_t, uint32_t, AS_IS, AS_IS)
REDUCE(I64, int64_t, uint64_t, AS_IS, AS_IS)
REDUCE(U8, uint8_t, uint32_t, AS_IS, AS_IS)
REDUCE(U16, uint16_t, uint32_t, AS_IS, AS_IS)
REDUCE(U32, uint32_t, uint32_t, AS_IS, AS_IS)
REDUCE(U64, uint64_t, uint64_t, AS_IS, AS_IS)

static void reduce_BOOL(reduction op, const void *src, void *dst, int64_t n)
{
    const uint8_t *s = src;
    uint8_t *d = dst;
    for (int64_t i = 0; i < n; i++)
        d[i] = op == ADD || op == MAX ? d[i] || s[i] : d[i] && s[i];
}

static reduce_fn reducer(qn_dtype dtype)
{
    switch (dtype) {
#define CASE(name)                                                             \
    case QN_##name:                                                            \
        return reduce_##name;
        CASE(F32)
        CASE(F64)
        CASE(F16)
        CASE(BF16)
        CASE(I8)
        CASE(I16)
        CASE(I32)
        CASE(I64)
        CASE(U8)
        CASE(U16)
        CASE(U32)
        CASE(U64)
        CASE(BOOL)
#undef CASE
    default:
        return NULL;
    }
}

static reduction reduction_of(const qn_node *node)
{
    static const char *const names[] = { "none", "add", "mul", "max", "min" };
    const char *name = qn_node_string(node, "reduction", "none");
    for (int i = 1; i < 5; i++)
        if (!strcmp(name, names[i]))
            return (reduction)i;
    return NONE;
}

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)n_in;
    return reduction_of(node) == NONE || reducer(in[0]);
}

static int64_t index_at(const qn_tensor *t, int64_t i)
{
    return t->dtype == QN_I32 ? ((const int32_t *)t->data)[i]
                              : ((const int64_t *)t->data)[i];
}

static qn_status bad_index(const qn_launch *k, int64_t i, int64_t value,
                           int64_t dim, int axis)
{
    qn_status st = qn_launch_fail(
        k, QN_RANGE, "index %lld at position %lld is outside [%lld, %lld] of "
        "axis %d", (long long)value, (long long)i, (long long)-dim,
        (long long)(dim - 1), axis);
    qn_error_index(k->err, i);
    return st;
}

static void copy_data(const qn_launch *k)
{
    size_t bytes = (size_t)qn_count(&k->in[0]) *
                   qn_dtype_size(k->in[0].dtype);
    if (bytes && k->out[0].data != k->in[0].data)
        memcpy(k->out[0].data, k->in[0].data, bytes);
}

static qn_status launch_elements(const qn_launch *k)
{
    const qn_shape *data = &k->in[0].shape, *index = &k->in[1].shape;
    int64_t axis = qn_node_int(k->node, "axis", 0), n = qn_count(&k->in[1]);
    int at = (int)(axis < 0 ? axis + data->rank : axis);
    int64_t dim = data->dims[at], strides[QN_MAX_RANK];
    size_t size = qn_dtype_size(k->in[0].dtype);
    const char *src = k->in[2].data;
    char *dst = k->out[0].data;
    reduction op = reduction_of(k->node);
    reduce_fn reduce = reducer(k->in[0].dtype);

    for (int64_t i = 0; i < n; i++) {
        int64_t v = index_at(&k->in[1], i);
        if (v < -dim || v >= dim)
            return bad_index(k, i, v, dim, at);
    }
    copy_data(k);
    qn_strides(data, strides);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, to = 0, v = index_at(&k->in[1], i);
        for (int d = index->rank - 1; d >= 0; d--) {
            if (d != at)
                to += rest % index->dims[d] * strides[d];
            rest /= index->dims[d];
        }
        to += (v < 0 ? v + dim : v) * strides[at];
        if (op == NONE)
            memcpy(dst + (size_t)to * size, src + (size_t)i * size, size);
        else
            reduce(op, src + (size_t)i * size, dst + (size_t)to * size, 1);
    }
    return QN_OK;
}

static qn_status launch_nd(const qn_launch *k)
{
    const qn_shape *data = &k->in[0].shape, *index = &k->in[1].shape;
    const int64_t *tuples = k->in[1].data;
    int depth = (int)index->dims[index->rank - 1];
    int64_t n = qn_shape_product(index, 0, index->rank - 1);
    int64_t run = qn_shape_product(data, depth, data->rank);
    int64_t strides[QN_MAX_RANK];
    size_t size = qn_dtype_size(k->in[0].dtype);
    const char *src = k->in[2].data;
    char *dst = k->out[0].data;
    reduction op = reduction_of(k->node);
    reduce_fn reduce = reducer(k->in[0].dtype);

    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < depth; d++) {
            int64_t v = tuples[i * depth + d];
            if (v < -data->dims[d] || v >= data->dims[d])
                return bad_index(k, i * depth + d, v, data->dims[d], d);
        }
    copy_data(k);
    qn_strides(data, strides);
    for (int64_t i = 0; run && i < n; i++) {
        int64_t to = 0;
        for (int d = 0; d < depth; d++) {
            int64_t v = tuples[i * depth + d];
            to += (v < 0 ? v + data->dims[d] : v) * strides[d];
        }
        const char *from = src + (size_t)(i * run) * size;
        if (op == NONE)
            memcpy(dst + (size_t)to * size, from, (size_t)run * size);
        else
            reduce(op, from, dst + (size_t)to * size, run);
    }
    return QN_OK;
}

#define ROW(NAME, SINCE, UNTIL, LAUNCH)                                        \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL,              \
      .supports = supports, .launch = LAUNCH }

static const qn_kernel rows[] = {
    ROW("Scatter", 9, 10, launch_elements),
    ROW("ScatterElements", 11, QN_OPSET_MAX, launch_elements),
    ROW("ScatterND", 11, QN_OPSET_MAX, launch_nd),
};

QN_KERNEL_TABLE(qn_cpu_scatter, rows);
