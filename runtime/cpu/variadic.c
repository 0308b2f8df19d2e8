/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Max, Min, Sum and Mean of any number of operands, and Where.
 *
 * A stretch of the output is folded in a buffer over all operands, then stored:
 * 16-bit floats are rounded once, and the output may lie over any operand.
 */
#include "runtime/cpu/binary.h"
#include "runtime/cpu/convert.h"
#include "runtime/cpu/tables.h"

#include <string.h>

enum { STRETCH = 1024, GRAIN = 1 << 15 };

typedef struct fold {
    const qn_launch *k;
    qn_dtype dtype, wide; /* of the tensors; of the buffer */
    int op;
    bool mean;
} fold;

/* A stretch of one operand going into the buffer. */
typedef struct feed {
    const fold *f;
    const char *x;
    char *buffer; /* of output elements [start, ...) */
    int64_t start;
    bool first;
    qn_binary_fn vv, vs;
    bool scalar; /* rows are one element */
} feed;

static void feed_row(void *arg, const int64_t *from, int64_t at, int64_t n)
{
    const feed *d = arg;
    const fold *f = d->f;
    size_t size = qn_dtype_size(f->dtype), wide = qn_dtype_size(f->wide);
    const char *x = d->x + (size_t)from[0] * size;
    char *y = d->buffer + (size_t)(at - d->start) * wide;
    double scratch[STRETCH];

    if (f->wide != f->dtype) {
        qn_convert(f->dtype, x, f->wide, scratch, d->scalar ? 1 : n, NULL);
        x = (const char *)scratch;
    }
    if (!d->first) {
        (d->scalar ? d->vs : d->vv)(y, x, y, n);
    } else if (d->scalar) {
        for (int64_t i = 0; i < n; i++)
            memcpy(y + (size_t)i * wide, x, wide);
    } else {
        memcpy(y, x, (size_t)n * wide);
    }
}

static void piece_fold(void *arg, int64_t begin, int64_t end, int thread)
{
    const fold *f = arg;
    const qn_launch *k = f->k;
    const qn_shape *out = &k->out[0].shape;
    double buffer[STRETCH];
    char *y = k->out[0].data;
    qn_binary_fn div = qn_binary_loop(QN_VEC2_div, f->wide, QN_VEC_VS);
    (void)thread;

    for (int64_t at = begin; at < end; at += STRETCH) {
        int64_t n = end - at < STRETCH ? end - at : STRETCH;
        for (uint32_t i = 0; i < k->n_in; i++) {
            const qn_shape *shape = &k->in[i].shape;
            qn_bcast b;
            qn_bcast_init(&b, out, 1, &shape);
            feed d = { .f = f, .x = k->in[i].data, .buffer = (char *)buffer,
                       .start = at, .first = i == 0,
                       .vv = qn_binary_loop(f->op, f->wide, QN_VEC_VV),
                       .vs = qn_binary_loop(f->op, f->wide, QN_VEC_VS),
                       .scalar = qn_bcast_step(&b, 0) == 0 };
            qn_bcast_walk(&b, at, at + n, feed_row, &d);
        }
        if (f->mean) {
            double count = k->n_in;
            float count_f32 = (float)k->n_in;
            div(buffer, f->wide == QN_F64 ? (void *)&count : (void *)&count_f32,
                buffer, n);
        }
        qn_convert(f->wide, buffer, f->dtype,
                   y + (size_t)at * qn_dtype_size(f->dtype), n, NULL);
    }
}

static qn_status run_fold(const qn_launch *k, int op, bool mean)
{
    qn_dtype dtype = k->in[0].dtype;
    bool half = dtype == QN_F16 || dtype == QN_BF16;
    fold f = { k, dtype, half ? QN_F32 : dtype, op, mean };
    if (k->n_in == 2 && !mean)
        return qn_binary_run(k, op);
    if (!qn_binary_loop(op, f.wide, QN_VEC_VV))
        return qn_launch_fail(k, QN_INTERNAL, "no loop for %s",
                              qn_dtype_name(dtype));
    qn_parallel(k->team, qn_count(&k->out[0]), GRAIN, piece_fold, &f);
    return QN_OK;
}

static qn_status launch_Max(const qn_launch *k)
{
    return run_fold(k, QN_VEC2_max, false);
}

static qn_status launch_Min(const qn_launch *k)
{
    return run_fold(k, QN_VEC2_min, false);
}

static qn_status launch_Sum(const qn_launch *k)
{
    return run_fold(k, QN_VEC2_add, false);
}

static qn_status launch_Mean(const qn_launch *k)
{
    return run_fold(k, QN_VEC2_add, true);
}

/* ---- Where: elements are moved, so only their size counts ---- */

typedef struct wide16 {
    uint64_t part[2];
} wide16;

typedef struct pick {
    qn_bcast bcast;
    const uint8_t *c;
    const char *a, *b;
    char *y;
    size_t size;
} pick;

#define SELECT(T, name)                                                        \
    static void name(const uint8_t *c, const T *a, int64_t sa, const T *b,     \
                     int64_t sb, T *y, int64_t n)                              \
    {                                                                          \
        if (sa && sb) {                                                        \
            QN_INDEPENDENT                                                     \
            for (int64_t i = 0; i < n; i++) {                                  \
                T p = a[i], q = b[i];                                          \
                y[i] = c[i] ? p : q;                                           \
            }                                                                  \
        } else if (sa) {                                                       \
            T q = *b;                                                          \
            QN_INDEPENDENT                                                     \
            for (int64_t i = 0; i < n; i++) {                                  \
                T p = a[i];                                                    \
                y[i] = c[i] ? p : q;                                           \
            }                                                                  \
        } else if (sb) {                                                       \
            T p = *a;                                                          \
            QN_INDEPENDENT                                                     \
            for (int64_t i = 0; i < n; i++) {                                  \
                T q = b[i];                                                    \
                y[i] = c[i] ? p : q;                                           \
            }                                                                  \
        } else {                                                               \
            T p = *a, q = *b;                                                  \
            QN_INDEPENDENT                                                     \
            for (int64_t i = 0; i < n; i++)                                    \
                y[i] = c[i] ? p : q;                                           \
        }                                                                      \
    }

SELECT(uint8_t, select1)
SELECT(uint16_t, select2)
SELECT(uint32_t, select4)
SELECT(uint64_t, select8)
SELECT(wide16, select16)

static void fill(char *y, const char *x, size_t size, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(y + (size_t)i * size, x, size);
}

static void row_pick(void *arg, const int64_t *from, int64_t at, int64_t n)
{
    const pick *p = arg;
    int64_t sa = qn_bcast_step(&p->bcast, 1), sb = qn_bcast_step(&p->bcast, 2);
    const uint8_t *c = p->c + from[0];
    const void *a = p->a + (size_t)from[1] * p->size;
    const void *b = p->b + (size_t)from[2] * p->size;
    void *y = p->y + (size_t)at * p->size;

    if (!qn_bcast_step(&p->bcast, 0)) { /* all from one side */
        if (*c ? sa : sb)
            memmove(y, *c ? a : b, (size_t)n * p->size);
        else
            fill(y, *c ? a : b, p->size, n);
        return;
    }
    switch (p->size) {
    case 1:
        select1(c, a, sa, b, sb, y, n);
        break;
    case 2:
        select2(c, a, sa, b, sb, y, n);
        break;
    case 4:
        select4(c, a, sa, b, sb, y, n);
        break;
    case 8:
        select8(c, a, sa, b, sb, y, n);
        break;
    default:
        select16(c, a, sa, b, sb, y, n);
    }
}

static void piece_pick(void *arg, int64_t begin, int64_t end, int thread)
{
    pick *p = arg;
    (void)thread;
    qn_bcast_walk(&p->bcast, begin, end, row_pick, p);
}

static qn_status launch_Where(const qn_launch *k)
{
    pick p = { .c = k->in[0].data,
               .a = k->in[1].data,
               .b = k->in[2].data,
               .y = k->out[0].data,
               .size = qn_dtype_size(k->in[1].dtype) };
    const qn_shape *shapes[] = { &k->in[0].shape, &k->in[1].shape,
                                 &k->in[2].shape };
    qn_bcast_init(&p.bcast, &k->out[0].shape, 3, shapes);
    qn_parallel(k->team, p.bcast.total, GRAIN, piece_pick, &p);
    return QN_OK;
}

#define OPERATORS(X) X(Max, ) X(Min, ) X(Sum, ) X(Mean, ) X(Where, )

static const qn_kernel rows[] = {
#define ROW(op, ...)                                                           \
    { .name = #op, .domain = "", .since = 1, .until = UINT16_MAX,              \
      .launch = launch_##op },
    OPERATORS(ROW)
#undef ROW
};

QN_KERNEL_TABLE(qn_cpu_variadic, rows);
