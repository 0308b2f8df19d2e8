/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape, Size, ConstantOfShape, Range and Dropout. Constant has no row: what it
 * holds lies on the host, and is a constant before anything runs.
 */
#include "runtime/cuda/kernels/shape.h"

#include "runtime/base/half.h"
#include "runtime/cuda/strided.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

enum { THREADS = 256, WAVES = 8 };

typedef struct shape_state {
    const qn_accel *accel;
    const qn_cuda_fn *fn, *fill;
    unsigned char value[16]; /* ConstantOfShape */
} shape_state;

static bool no_strings(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node;
    return n_in == 0 || in[0] != QN_STRING;
}

static qn_status prepare(qn_prepare *p, const char *function, shape_state **out,
                         qn_error *err)
{
    shape_state *s = qn_region_alloc(p->region, 1, sizeof *s);
    *out = s;
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->accel = p->accel;
    p->state = s;
    qn_status st = qn_cuda_find(p->accel, "shape", function, &s->fn, err);
    if (st == QN_OK)
        st = qn_cuda_find(p->accel, "shape", "qn_fill", &s->fill, err);
    return st;
}

/* ---- Shape, Size ---- */

static qn_status prepare_words(qn_prepare *p, qn_error *err)
{
    shape_state *s;
    return prepare(p, "qn_words", &s, err);
}

static qn_status launch_words(const qn_launch *k, struct qn_words_args *a)
{
    const shape_state *s = k->state;
    qn_cuda_grid g = { .grid = { 1 }, .block = { 32 } };
    a->dst = k->out[0].data;
    return a->n ? qn_cuda_launch(k, s->fn, &g, a) : QN_OK;
}

static qn_status launch_shape(const qn_launch *k)
{
    struct qn_words_args a = { 0 };
    int first, last;
    qn_shape_range(k->node, k->in[0].shape.rank, &first, &last);
    for (int d = first; d < last; d++)
        a.words[a.n++] = k->in[0].shape.dims[d];
    return launch_words(k, &a);
}

static qn_status launch_size(const qn_launch *k)
{
    struct qn_words_args a = { .n = 1, .words = { qn_count(&k->in[0]) } };
    return launch_words(k, &a);
}

/* ---- ConstantOfShape ---- */

/* All of [dst, dst + bytes) with elements of `size` bytes. */
static qn_status fill(const qn_launch *k, void *dst, size_t bytes,
                      const void *value, size_t size)
{
    const shape_state *s = k->state;
    struct qn_fill_args a = { .dst = dst };
    bool same = true;
    if (!bytes)
        return QN_OK;
    for (size_t i = 0; i < sizeof a.value; i++) {
        a.value[i] = ((const unsigned char *)value)[i % size];
        same = same && a.value[i] == a.value[0];
    }
    if (same)
        return qn_cuda_fill(k, dst, a.value[0], bytes);
    a.unit = (uint32_t)qn_align_of((uintptr_t)dst, 16);
    a.n = (int64_t)(bytes / a.unit);
    a.tail = (uint32_t)(bytes % a.unit);
    qn_cuda_grid g = qn_cuda_grid_stride(s->accel, a.n ? a.n : 1, 1, THREADS,
                                         WAVES);
    return qn_cuda_launch(k, s->fill, &g, &a);
}

static qn_status prepare_fill(qn_prepare *p, qn_error *err)
{
    const qn_attr *a = qn_node_attr(p->node, "value");
    shape_state *s;
    qn_status st = prepare(p, "qn_fill", &s, err);
    if (st == QN_OK && a)
        st = qn_const_read(a->tensor, s->value, err);
    return st;
}

static qn_status launch_fill(const qn_launch *k)
{
    const shape_state *s = k->state;
    size_t size = qn_dtype_size(k->out[0].dtype);
    return fill(k, k->out[0].data, (size_t)qn_count(&k->out[0]) * size,
                s->value, size);
}

/* ---- Range ---- */

static qn_status prepare_range(qn_prepare *p, qn_error *err)
{
    shape_state *s;
    return prepare(p, "qn_range", &s, err);
}

/* Inputs 0 and 2 lie on the host. */
static qn_status launch_range(const qn_launch *k)
{
    const shape_state *s = k->state;
    struct qn_range_args a = { .dst = k->out[0].data, .n = qn_count(&k->out[0]),
                               .dtype = (uint32_t)k->out[0].dtype };
    const qn_infer in = { .node = k->node, .n_in = k->n_in, .in = k->in };
    qn_status st = qn_read_scalar(&in, 0, &a.start, k->err);
    if (st == QN_OK)
        st = qn_read_scalar(&in, 2, &a.delta, k->err);
    if (st != QN_OK || !a.n)
        return st;
    if (k->out[0].dtype == QN_I64) { /* which a double does not hold */
        memcpy(&a.first, k->in[0].data, sizeof a.first);
        memcpy(&a.step, k->in[2].data, sizeof a.step);
    } else if (k->out[0].dtype == QN_I32 || k->out[0].dtype == QN_I16) {
        a.first = (uint64_t)(int64_t)a.start;
        a.step = (uint64_t)(int64_t)a.delta;
    }
    qn_cuda_grid g = qn_cuda_grid_stride(s->accel, a.n, 1, THREADS, WAVES);
    return qn_cuda_launch(k, s->fn, &g, &a);
}

/* ---- Dropout; ratio and training mode are read on the host ---- */

static qn_status prepare_dropout(qn_prepare *p, qn_error *err)
{
    shape_state *s;
    return prepare(p, "qn_dropout", &s, err);
}

static qn_status keep_all(const qn_launch *k)
{
    static const struct {
        qn_dtype dtype;
        uint64_t one; /* little-endian bits */
    } ones[] = {
        { QN_BOOL, 1 },
        { QN_F16, 0x3c00 },
        { QN_F32, 0x3f800000 },
        { QN_F64, 0x3ff0000000000000 },
    };
    size_t n = (size_t)qn_count(&k->in[0]);
    size_t bytes = n * qn_dtype_size(k->in[0].dtype);
    qn_status st = QN_OK;
    if (bytes && k->out[0].data && k->out[0].data != k->in[0].data)
        st = qn_cuda_copy(k, k->out[0].data, k->in[0].data, bytes);
    if (st != QN_OK || k->n_out < 2 || !k->out[1].data)
        return st;
    for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
        size_t size = qn_dtype_size(ones[i].dtype);
        if (ones[i].dtype == k->out[1].dtype)
            return fill(k, k->out[1].data, n * size, &ones[i].one, size);
    }
    return QN_OK;
}

static qn_status launch_dropout(const qn_launch *k)
{
    const shape_state *s = k->state;
    double ratio = 0.5;
    bool training = k->n_in > 2 && qn_present(&k->in[2]) &&
                    qn_count(&k->in[2]) == 1 && *(const uint8_t *)k->in[2].data;
    if (training && qn_present(&k->in[1])) {
        qn_status st = qn_read_scalar(
            &(qn_infer){ .node = k->node, .n_in = k->n_in, .in = k->in }, 1,
            &ratio, k->err);
        if (st != QN_OK)
            return st;
    }
    if (!training)
        return keep_all(k);
    if (!(ratio >= 0.0 && ratio < 1.0))
        return qn_launch_fail(k, QN_RANGE, "ratio %g is outside [0, 1)", ratio);
    if (ratio == 0.0)
        return keep_all(k);
    struct qn_dropout_args a = {
        .src = k->in[0].data, .dst = k->out[0].data,
        .mask = k->n_out > 1 ? k->out[1].data : NULL, .n = qn_count(&k->in[0]),
        .ratio = ratio, .scale = 1.0 / (1.0 - ratio),
        .dtype = (uint32_t)k->in[0].dtype,
        .seed = (uint32_t)qn_node_int(k->node, "seed", 0)
    };
    qn_cuda_grid g = { .grid = { 1 }, .block = { QN_DROP_THREADS } };
    return a.n ? qn_cuda_launch(k, s->fn, &g, &a) : QN_OK;
}

static bool supports_dropout(const qn_node *node, uint32_t n_in,
                             const qn_dtype *in)
{
    (void)node, (void)n_in;
    return qn_dtypes_has(QN_TYPES_FLOAT, in[0]);
}

#define ROW(NAME, PREPARE, LAUNCH)                                             \
    { .domain = "", .name = NAME, .since = 1, .until = QN_OPSET_MAX,           \
      .supports = no_strings, .prepare = PREPARE, .launch = LAUNCH }

static const qn_kernel rows[] = {
    ROW("Shape", prepare_words, launch_shape),
    ROW("Size", prepare_words, launch_size),
    ROW("ConstantOfShape", prepare_fill, launch_fill),
    ROW("Range", prepare_range, launch_range),
    { .domain = "", .name = "Dropout", .since = 1, .until = QN_OPSET_MAX,
      .supports = supports_dropout, .prepare = prepare_dropout,
      .launch = launch_dropout, .host_in = 1u << 1 | 1u << 2 },
};

QN_KERNEL_TABLE(qn_cuda_shape, rows);
