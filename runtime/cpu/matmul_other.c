/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of double and of integers: plain loops, a strip of columns at a
 * time, so that the compiler vectorises along the row. One chain per element
 * over ascending k here too. Integers wrap, as unsigned arithmetic does; their
 * alpha and beta have to be whole numbers.
 */
#include "runtime/cpu/matmul.h"

#include <math.h>

enum { STRIP = 256 };

typedef struct other_run {
    const qn_product *p;
    const qn_launch *k;
    int64_t strips;
} other_run;

static int64_t c_index(const qn_product *p, int64_t i, int64_t j)
{
    return (p->c_rows > 1 ? i * p->c_cols : 0) + (p->c_cols > 1 ? j : 0);
}

/* `via` converts alpha and beta: through int64 for the unsigned types, so
 * that -1 wraps as it should. */
#define OTHER(name, type, via)                                                 \
    static void strip_##name(const other_run *r, int64_t batch, int64_t i,     \
                             int64_t n0, int64_t n)                            \
    {                                                                          \
        const qn_product *p = r->p;                                            \
        const type *a = r->k->in[0].data, *b = r->k->in[1].data;               \
        const type *c0 = p->c_cols ? r->k->in[2].data : NULL;                  \
        type *out = r->k->out[0].data, acc[STRIP] = { 0 };                     \
        const type alpha = (type)(via)p->alpha, beta = (type)(via)p->beta;     \
        const int64_t a_step = p->trans_a ? p->m : 1;                          \
        int64_t ia, ib;                                                        \
        qn_product_batch(p, batch, &ia, &ib);                                  \
        a += ia * p->m * p->k + i * (p->trans_a ? 1 : p->k);                   \
        b += ib * p->k * p->n + n0 * (p->trans_b ? p->k : 1);                  \
        for (int64_t k = 0; k < p->k; k++) {                                   \
            const type x = a[k * a_step];                                      \
            if (p->trans_b)                                                    \
                for (int64_t j = 0; j < n; j++)                                \
                    acc[j] += x * b[j * p->k + k];                             \
            else                                                               \
                for (int64_t j = 0; j < n; j++)                                \
                    acc[j] += x * b[k * p->n + j];                             \
        }                                                                      \
        out += (batch * p->m + i) * p->n + n0;                                 \
        for (int64_t j = 0; j < n; j++) {                                      \
            out[j] = alpha * acc[j];                                           \
            if (c0)                                                            \
                out[j] += beta * c0[c_index(p, i, n0 + j)];                    \
        }                                                                      \
    }                                                                          \
    static void piece_##name(void *arg, int64_t begin, int64_t end,            \
                             int thread)                                       \
    {                                                                          \
        const other_run *r = arg;                                              \
        const qn_product *p = r->p;                                            \
        (void)thread;                                                          \
        for (int64_t item = begin; item < end; item++) {                       \
            int64_t row = item / r->strips, n0 = item % r->strips * STRIP;     \
            int64_t n = p->n - n0 < STRIP ? p->n - n0 : STRIP;                 \
            strip_##name(r, row / p->m, row % p->m, n0, n);                    \
        }                                                                      \
    }

OTHER(f64, double, double)
OTHER(u32, uint32_t, int64_t)
OTHER(u64, uint64_t, int64_t)

static bool whole(float x)
{
    return x == floorf(x) && x > -0x1p24f && x < 0x1p24f;
}

qn_status qn_product_prepare_other(qn_prepare *q, qn_error *err)
{
    qn_product *p = qn_region_alloc(q->region, 1, sizeof *p);
    if (!p)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a product");
    qn_product_make(p, q->node, q->n_in, q->in);
    if (q->in[0].dtype != QN_F64 && !(whole(p->alpha) && whole(p->beta)))
        return qn_fail(err, QN_UNSUPPORTED, "alpha %g and beta %g with %s: "
                       "only whole numbers", (double)p->alpha, (double)p->beta,
                       qn_dtype_name(q->in[0].dtype));
    q->state = p;
    return QN_OK;
}

qn_status qn_product_launch_other(const qn_launch *k)
{
    const qn_product *p = k->state;
    other_run r = { .p = p, .k = k, .strips = (p->n + STRIP - 1) / STRIP };
    const int64_t grain = 1 + 65536 / ((p->k + 1) * STRIP);
    qn_piece_fn fn = piece_f64;
    switch (k->in[0].dtype) {
    case QN_I32:
    case QN_U32:
        fn = piece_u32;
        break;
    case QN_I64:
    case QN_U64:
        fn = piece_u64;
        break;
    default:
        break;
    }
    qn_parallel(k->team, p->batches * p->m * r.strips, grain, fn, &r);
    return QN_OK;
}
