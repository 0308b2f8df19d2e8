/* SPDX-License-Identifier: Apache-2.0 */
/* Shape, Size, Constant, ConstantOfShape, Range: small, or one fill. */
#include "runtime/base/half.h"
#include "runtime/cpu/strided.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

enum { PIECE_BYTES = 128 * 1024 };

static qn_status launch_shape(const qn_launch *k)
{
    int first, last;
    int64_t *out = k->out[0].data;
    qn_shape_range(k->node, k->in[0].shape.rank, &first, &last);
    for (int d = first; d < last; d++)
        out[d - first] = k->in[0].shape.dims[d];
    return QN_OK;
}

static qn_status launch_size(const qn_launch *k)
{
    *(int64_t *)k->out[0].data = qn_count(&k->in[0]);
    return QN_OK;
}

/* ---- Constant ---- */

/* Strings of a constant tensor count from the constant's own heap; here they
 * are made part of the request. */
static qn_status own_strings(const qn_launch *k, const qn_const *c)
{
    qn_string *s = k->out[0].data;
    int64_t n = qn_count(&k->out[0]);
    qn_strings from = { .base = { [QN_STRINGS_STATIC] = NULL } };
    memcpy(&from.base[QN_STRINGS_STATIC], &c->strings, sizeof c->strings);
    for (int64_t i = 0; i < n; i++) {
        const char *bytes = qn_string_bytes(&from, s[i]);
        qn_status st = qn_string_put(k->strings, bytes, (size_t)s[i].len, &s[i],
                                     k->err);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status put_texts(const qn_launch *k, const qn_text *texts, size_t n)
{
    qn_string *s = k->out[0].data;
    for (size_t i = 0; i < n; i++) {
        qn_status st = qn_string_put(k->strings, texts[i].s, texts[i].len, &s[i],
                                     k->err);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

static qn_status launch_constant(const qn_launch *k)
{
    const qn_attr *a = NULL;
    for (uint32_t i = 0; i < k->node->n_attrs; i++)
        if (strstr(k->node->attrs[i].name, "value"))
            a = &k->node->attrs[i];
    if (!a)
        return qn_launch_fail(k, QN_INVALID, "no attribute with a value");
    void *out = k->out[0].data;
    qn_status st = QN_OK;
    if (qn_count(&k->out[0]) == 0)
        return QN_OK;
    switch (a->kind) {
    case QN_ATTR_TENSOR:
        st = qn_const_read(a->tensor, out, k->err);
        if (st == QN_OK && a->tensor->dtype == QN_STRING)
            st = own_strings(k, a->tensor);
        return st;
    case QN_ATTR_INT:
        memcpy(out, &a->i, sizeof a->i);
        return QN_OK;
    case QN_ATTR_INTS:
        memcpy(out, a->ints, a->n * sizeof *a->ints);
        return QN_OK;
    case QN_ATTR_FLOAT:
        memcpy(out, &a->f, sizeof a->f);
        return QN_OK;
    case QN_ATTR_FLOATS:
        memcpy(out, a->floats, a->n * sizeof *a->floats);
        return QN_OK;
    case QN_ATTR_STRING:
        return put_texts(k, &a->s, 1);
    case QN_ATTR_STRINGS:
        return put_texts(k, a->strings, a->n);
    default:
        return qn_launch_fail(k, QN_INVALID, "attribute %.40s holds no tensor",
                              a->name);
    }
}

/* ---- ConstantOfShape ---- */

typedef struct fill_job {
    char value[16];
    size_t size;
    char *out;
} fill_job;

static void fill_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const fill_job *j = arg;
    (void)thread;
    qn_fill(j->out + (size_t)begin * j->size, j->value, j->size, end - begin);
}

static qn_status launch_fill(const qn_launch *k)
{
    const qn_attr *a = qn_node_attr(k->node, "value");
    fill_job j = { .size = qn_dtype_size(k->out[0].dtype),
                   .out = k->out[0].data };
    if (a) {
        qn_status st = qn_const_read(a->tensor, j.value, k->err);
        if (st != QN_OK)
            return st;
    }
    qn_parallel(k->team, qn_count(&k->out[0]), PIECE_BYTES / (int64_t)j.size,
                fill_piece, &j);
    return QN_OK;
}

/* ---- Range ---- */

/* start + i * delta; integers wrap only where the count says that they do not,
 * floats are rounded once, from binary64. */
static qn_status launch_range(const qn_launch *k)
{
    int64_t n = qn_count(&k->out[0]);
    switch (k->out[0].dtype) {
#define CASE(name, type, wide)                                                 \
    case QN_##name: {                                                          \
        wide start = (wide)*(const type *)k->in[0].data;                       \
        wide delta = (wide)*(const type *)k->in[2].data;                       \
        type *out = k->out[0].data;                                            \
        for (int64_t i = 0; i < n; i++)                                        \
            out[i] = (type)(start + (wide)i * delta);                          \
        return QN_OK;                                                          \
    }
        CASE(F32, float, double)
        CASE(F64, double, double)
        CASE(I16, int16_t, uint64_t)
        CASE(I32, int32_t, uint64_t)
        CASE(I64, int64_t, uint64_t)
#undef CASE
#define CASE(name, widen, narrow)                                              \
    case QN_##name: {                                                          \
        double start = (double)widen(*(const uint16_t *)k->in[0].data);        \
        double delta = (double)widen(*(const uint16_t *)k->in[2].data);        \
        uint16_t *out = k->out[0].data;                                        \
        for (int64_t i = 0; i < n; i++)                                        \
            out[i] = narrow(start + (double)i * delta);                        \
        return QN_OK;                                                          \
    }
        CASE(F16, qn_f16_to_f32, qn_f64_to_f16)
        CASE(BF16, qn_bf16_to_f32, qn_f64_to_bf16)
#undef CASE
    default:
        return qn_launch_fail(k, QN_UNSUPPORTED, "range of %s",
                              qn_dtype_name(k->out[0].dtype));
    }
}

#define ROW(NAME, LAUNCH)                                                      \
    { .domain = "", .name = NAME, .since = 1, .until = QN_OPSET_MAX,           \
      .launch = LAUNCH }

static const qn_kernel rows[] = {
    ROW("Shape", launch_shape),
    ROW("Size", launch_size),
    ROW("Constant", launch_constant),
    ROW("ConstantOfShape", launch_fill),
    ROW("Range", launch_range),
};

QN_KERNEL_TABLE(qn_cpu_shape, rows);
