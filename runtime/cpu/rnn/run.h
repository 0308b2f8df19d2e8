/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recurrence, for REAL float or double; FN(name) makes names. The including
 * file gives, before:
 *
 *     FN(act)      an activation on n elements
 *     FN(times_w)  out[m][gates H] = rows W^T + bias
 *     FN(times_r)  out[m][ld] += h R^T, the early gates; or, for GRU's third,
 *                  out[m][H] = h R^T + bias
 */

typedef struct FN(run) {
    const qn_rnn_plan *p;
    const qn_launch *k;
    int d; /* direction */
    REAL *gates, *h, *c, *bias, *extra, *x;
} FN(run);

static REAL FN(get)(const qn_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case QN_F32:
        return (REAL)((const float *)t->data)[i];
    case QN_F64:
        return (REAL)((const double *)t->data)[i];
    case QN_F16:
        return (REAL)qn_f16_to_f32(((const uint16_t *)t->data)[i]);
    default:
        return (REAL)qn_bf16_to_f32(((const uint16_t *)t->data)[i]);
    }
}

/* out[at + i] = x[i] */
static void FN(put)(const qn_tensor *out, int64_t at, const REAL *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        switch (out->dtype) {
        case QN_F32:
            ((float *)out->data)[at + i] = (float)x[i];
            break;
        case QN_F64:
            ((double *)out->data)[at + i] = (double)x[i];
            break;
        case QN_F16:
            ((uint16_t *)out->data)[at + i] = qn_f32_to_f16((float)x[i]);
            break;
        default:
            ((uint16_t *)out->data)[at + i] = qn_f32_to_bf16((float)x[i]);
            break;
        }
}

static const qn_tensor *FN(input)(const qn_launch *k, uint32_t i)
{
    return k->n_in > i && qn_present(&k->in[i]) ? &k->in[i] : NULL;
}

static int64_t FN(length)(const qn_launch *k, const qn_rnn *r, int64_t b)
{
    const qn_tensor *lens = FN(input)(k, QN_RNN_LENS);
    return lens ? ((const int32_t *)lens->data)[b] : r->steps;
}

/* [directions, batch, hidden] or batch first: element 0 of (d, b) */
static int64_t FN(state_at)(const qn_rnn *r, int d, int64_t b)
{
    return (r->batch_first ? b * r->directions + d : d * r->batch + b) *
           r->hidden;
}

/* Which time a batch row is at in step s; -1 beyond its end. */
static int64_t FN(time)(const FN(run) *q, int64_t s, int64_t b)
{
    const qn_rnn *r = &q->p->r;
    int64_t len = FN(length)(q->k, r, b);
    if (s >= len)
        return -1;
    return q->d || r->reverse ? len - 1 - s : s;
}

static void FN(clip_act)(const FN(run) *q, int which, REAL *x)
{
    const qn_rnn *r = &q->p->r;
    const REAL limit = (REAL)r->clip;
    if (limit > 0)
        for (int64_t i = 0; i < r->hidden; i++)
            x[i] = x[i] > limit ? limit : x[i] < -limit ? -limit : x[i];
    FN(act)(q->p, &r->fn[q->d][which], x, r->hidden);
}

/* Bias of the gates: W's and R's together, but for GRU's third gate where R's
 * is kept apart, in the last H. */
static void FN(start)(FN(run) *q)
{
    const qn_rnn *r = &q->p->r;
    const int64_t h = r->hidden, all = r->gates * h;
    const int64_t apart = r->kind == QN_GRU && r->linear_before_reset ? 2 * h
                                                                      : all;
    const qn_tensor *b = FN(input)(q->k, 3), *h0 = FN(input)(q->k, QN_RNN_H0);
    const qn_tensor *c0 = r->kind == QN_LSTM ? FN(input)(q->k, QN_RNN_C0) : NULL;
    for (int64_t i = 0; i < all; i++) {
        REAL w = b ? FN(get)(b, q->d * 2 * all + i) : 0;
        REAL rec = b ? FN(get)(b, (q->d * 2 + 1) * all + i) : 0;
        q->bias[i] = i < apart ? w + rec : w;
        if (i >= all - h)
            q->bias[i + h] = i < apart ? 0 : rec;
    }
    for (int64_t n = 0; n < r->batch; n++)
        for (int64_t i = 0; i < h; i++) {
            int64_t at = FN(state_at)(r, q->d, n) + i;
            q->h[n * h + i] = h0 ? FN(get)(h0, at) : 0;
            if (r->kind == QN_LSTM)
                q->c[n * h + i] = c0 ? FN(get)(c0, at) : 0;
        }
}

/* gates = X W^T + bias for steps [s0, s1). */
static void FN(project)(FN(run) *q, int64_t s0, int64_t s1)
{
    const qn_rnn *r = &q->p->r;
    const qn_tensor *x = &q->k->in[0];
    const REAL *rows[QN_GEMM_MAX_ROWS];
    REAL *out = q->gates;
    const int64_t all = (s1 - s0) * r->batch, ld = r->gates * r->hidden;
    for (int64_t i0 = 0; i0 < all; i0 += QN_GEMM_MAX_ROWS) {
        int64_t n = all - i0 < QN_GEMM_MAX_ROWS ? all - i0 : QN_GEMM_MAX_ROWS;
        for (int64_t i = 0; i < n; i++) {
            int64_t b = (i0 + i) % r->batch;
            int64_t t = FN(time)(q, s0 + (i0 + i) / r->batch, b);
            t = t < 0 ? 0 : t; /* any row: not looked at later */
            int64_t at = (r->batch_first ? b * r->steps + t
                                         : t * r->batch + b) * r->inputs;
            if (sizeof(REAL) == qn_dtype_size(x->dtype)) {
                rows[i] = (const REAL *)x->data + at;
                continue;
            }
            REAL *copy = q->x + i * r->inputs;
            for (int64_t j = 0; j < r->inputs; j++)
                copy[j] = FN(get)(x, at + j);
            rows[i] = copy;
        }
        FN(times_w)(q, rows, n, out + i0 * ld);
    }
}

static void FN(lstm_cell)(const FN(run) *q, REAL *g, REAL *h, REAL *c, REAL *tmp)
{
    const qn_rnn *r = &q->p->r;
    const qn_tensor *p = FN(input)(q->k, QN_RNN_P);
    const int64_t n = r->hidden, at = q->d * 3 * n;
    REAL *in = g, *out = g + n, *forget = g + 2 * n, *cell = g + 3 * n;
    if (p)
        for (int64_t i = 0; i < n; i++) {
            in[i] += FN(get)(p, at + i) * c[i];
            forget[i] += FN(get)(p, at + 2 * n + i) * c[i];
        }
    FN(clip_act)(q, 0, in);
    if (r->input_forget)
        for (int64_t i = 0; i < n; i++)
            forget[i] = 1 - in[i];
    else
        FN(clip_act)(q, 0, forget);
    FN(clip_act)(q, 1, cell);
    for (int64_t i = 0; i < n; i++) {
        c[i] = forget[i] * c[i] + in[i] * cell[i];
        tmp[i] = c[i];
        if (p)
            out[i] += FN(get)(p, at + n + i) * c[i];
    }
    FN(clip_act)(q, 0, out);
    /* ONNX Runtime clips what enters the gates, and not the cell's state */
    FN(act)(q->p, &r->fn[q->d][2], tmp, n);
    for (int64_t i = 0; i < n; i++)
        h[i] = out[i] * tmp[i];
}

/* Update and reset gates of all rows, and what the third gate takes from h. */
static void FN(gru_early)(FN(run) *q, REAL *g)
{
    const qn_rnn *r = &q->p->r;
    const int64_t n = r->hidden, ld = 3 * n;
    for (int64_t b = 0; b < r->batch; b++, g += ld) {
        FN(clip_act)(q, 0, g);
        FN(clip_act)(q, 0, g + n);
        REAL *reset = q->c + b * n; /* r h; GRU has no c */
        for (int64_t i = 0; i < n && !r->linear_before_reset; i++)
            reset[i] = g[n + i] * q->h[b * n + i];
    }
    FN(times_r)(q, r->linear_before_reset ? q->h : q->c, q->extra, n, true);
}

static void FN(gru_cell)(const FN(run) *q, REAL *g, REAL *h, const REAL *rec)
{
    const qn_rnn *r = &q->p->r;
    const int64_t n = r->hidden;
    const REAL *update = g, *reset = g + n;
    REAL *next = g + 2 * n;
    for (int64_t i = 0; i < n; i++)
        next[i] += r->linear_before_reset ? reset[i] * rec[i] : rec[i];
    FN(clip_act)(q, 1, next);
    for (int64_t i = 0; i < n; i++)
        h[i] = (1 - update[i]) * next[i] + update[i] * h[i];
}

static void FN(step)(FN(run) *q, int64_t s, REAL *g)
{
    const qn_rnn *r = &q->p->r;
    const int64_t n = r->hidden, ld = r->gates * n;
    const qn_tensor *y = q->k->n_out && q->k->out[0].data ? &q->k->out[0] : NULL;
    FN(times_r)(q, q->h, g, ld, false);
    if (r->kind == QN_GRU)
        FN(gru_early)(q, g);
    for (int64_t b = 0; b < r->batch; b++) {
        const int64_t t = FN(time)(q, s, b);
        REAL *own = g + b * ld, *h = q->h + b * n;
        if (t >= 0) {
            if (r->kind == QN_LSTM) {
                FN(lstm_cell)(q, own, h, q->c + b * n, q->extra);
            } else if (r->kind == QN_GRU) {
                FN(gru_cell)(q, own, h, q->extra + b * n);
            } else {
                FN(clip_act)(q, 0, own);
                memcpy(h, own, (size_t)n * sizeof *h);
            }
        }
        if (!y)
            continue;
        /* beyond its end a row is zero: own is free by now */
        if (t < 0)
            memset(own, 0, (size_t)n * sizeof *own);
        int64_t at = t < 0 ? s : t;
        at = r->batch_first
                 ? ((b * r->steps + at) * r->directions + q->d) * n
                 : ((at * r->directions + q->d) * r->batch + b) * n;
        FN(put)(y, at, t < 0 ? own : h, n);
    }
}

static void FN(finish)(const FN(run) *q)
{
    const qn_rnn *r = &q->p->r;
    for (uint32_t i = 1; i < q->k->n_out; i++) {
        const qn_tensor *out = &q->k->out[i];
        const REAL *from = i == 1 ? q->h : q->c;
        for (int64_t b = 0; out->data && b < r->batch; b++)
            FN(put)(out, FN(state_at)(r, q->d, b), from + b * r->hidden,
                    r->hidden);
    }
}

static void FN(layer)(FN(run) *q)
{
    const qn_rnn *r = &q->p->r;
    const int64_t ld = r->gates * r->hidden;
    for (q->d = 0; q->d < r->directions; q->d++) {
        FN(start)(q);
        for (int64_t s0 = 0; s0 < r->steps; s0 += q->p->chunk) {
            int64_t s1 = s0 + q->p->chunk < r->steps ? s0 + q->p->chunk
                                                     : r->steps;
            FN(project)(q, s0, s1);
            for (int64_t s = s0; s < s1; s++)
                FN(step)(q, s, q->gates + (s - s0) * r->batch * ld);
        }
        FN(finish)(q);
    }
}
