/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers in double: plain sums. */
#include "runtime/cpu/rnn/rnn.h"

#include "runtime/base/half.h"

#include <math.h>
#include <string.h>

#define REAL double
#define FN(name) name##_f64
#define MATH(name) name
#include "runtime/cpu/rnn/act.h"

typedef struct run_f64 run_f64;
static void times_w_f64(const run_f64 *q, const double *const *rows, int64_t m,
                        double *out);
static void times_r_f64(const run_f64 *q, const double *h, double *out,
                        int64_t ld, bool third);

#include "runtime/cpu/rnn/run.h"

static double dot(const double *a, const double *b, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

static void times_w_f64(const run_f64 *q, const double *const *rows, int64_t m,
                        double *out)
{
    const qn_rnn *r = &q->p->r;
    const int64_t n = r->gates * r->hidden;
    const double *w = (const double *)q->k->in[1].data + q->d * n * r->inputs;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            out[i * n + j] = dot(rows[i], w + j * r->inputs, r->inputs) +
                             q->bias[j];
}

static void times_r_f64(const run_f64 *q, const double *h, double *out,
                        int64_t ld, bool third)
{
    const qn_rnn *r = &q->p->r;
    const int64_t n = r->hidden, early = qn_rnn_early(r);
    const double *w = (const double *)q->k->in[2].data +
                      (q->d * r->gates * n + (third ? early : 0)) * n;
    for (int64_t b = 0; b < r->batch; b++)
        for (int64_t j = 0; j < (third ? n : early); j++) {
            double *to = &out[b * ld + j];
            *to = dot(h + b * n, w + j * n, n) +
                  (third ? q->bias[3 * n + j] : *to);
        }
}

qn_status qn_rnn_run_f64(const qn_launch *k)
{
    const qn_rnn_plan *p = k->state;
    double *ws = k->workspace;
    run_f64 q = { .p = p, .k = k, .gates = ws + p->gates, .h = ws + p->h,
                  .c = ws + p->c, .bias = ws + p->bias, .extra = ws + p->extra,
                  .x = ws + p->x };
    layer_f64(&q);
    return QN_OK;
}
