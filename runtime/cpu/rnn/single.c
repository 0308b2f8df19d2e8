/* SPDX-License-Identifier: Apache-2.0 */
/* Recurrent layers in float, on the packed product. */
#include "runtime/cpu/rnn/rnn.h"

#include "runtime/base/half.h"

#include <math.h>
#include <string.h>

#define REAL float
#define FN(name) name##_f32
#define MATH(name) name##f
#include "runtime/cpu/rnn/act.h"

typedef struct run_f32 run_f32;
static void times_w_f32(const run_f32 *q, const float *const *rows, int64_t m,
                        float *out);
static void times_r_f32(const run_f32 *q, const float *h, float *out, int64_t ld,
                        bool third);

#include "runtime/cpu/rnn/run.h"

static const float *weights(const run_f32 *q, uint32_t i)
{
    const qn_rnn_plan *p = q->p;
    const float *own = (const float *)q->k->workspace + (i == 1 ? p->w : p->rec);
    bool packed = i == 1 ? p->packed_w : p->packed_r;
    size_t floats = i == 1 ? p->w_floats : p->r_floats + p->rh_floats;
    return (packed ? (const float *)q->k->packed[i] : own) +
           floats * (size_t)q->d;
}

static void times_w_f32(const run_f32 *q, const float *const *rows, int64_t m,
                        float *out)
{
    const qn_rnn *r = &q->p->r;
    const int64_t n = r->gates * r->hidden;
    qn_gemm_run_rows(q->k->team, q->p->isa, rows, m, n, r->inputs, weights(q, 1),
                     out, (size_t)n, &(qn_gemm_end){ .bias = q->bias });
}

static void times_r_f32(const run_f32 *q, const float *h, float *out, int64_t ld,
                        bool third)
{
    const qn_rnn *r = &q->p->r;
    const float *w = weights(q, 2) + (third ? q->p->r_floats : 0);
    qn_gemm_end end = { 0 };
    if (third) {
        end.bias = q->bias + 3 * r->hidden;
    } else {
        end.residual = out;
        end.ldr = (size_t)ld;
    }
    qn_gemm_run(q->k->team, q->p->isa, r->batch,
                third ? r->hidden : qn_rnn_early(r), r->hidden, h,
                (size_t)r->hidden, w, out, (size_t)ld, &end);
}

qn_status qn_rnn_run_f32(const qn_launch *k)
{
    const qn_rnn_plan *p = k->state;
    float *ws = k->workspace;
    run_f32 q = { .p = p, .k = k, .gates = ws + p->gates, .h = ws + p->h,
                  .c = ws + p->c, .bias = ws + p->bias, .extra = ws + p->extra,
                  .x = ws + p->x };
    if (!p->packed_w)
        qn_rnn_pack(p, &k->in[1], 1, ws + p->w);
    if (!p->packed_r)
        qn_rnn_pack(p, &k->in[2], 2, ws + p->rec);
    layer_f32(&q);
    return QN_OK;
}
