/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.quern.Chain with the loops of the unary and binary families: a stretch of
 * the running value goes through all steps before the next one is read.
 */
#include "runtime/ops/chain.h"

#include "runtime/cpu/binary.h"
#include "runtime/cpu/convert.h"
#include "runtime/cpu/tables.h"
#include "runtime/cpu/unary.h"

enum { STRETCH = 1024, GRAIN = 1 << 13 };

typedef struct job {
    const qn_launch *k;
    qn_chain chain;
    qn_dtype dtype;
    qn_bcast from[QN_CHAIN_INPUTS]; /* of inputs that steps read */
} job;

/* A stretch of one step. */
typedef struct turn {
    const job *j;
    const qn_chain_step *step;
    float *value; /* output elements [start, ...) */
    int64_t start;
} turn;

static qn_vec_unary_fn unary_loop(int op)
{
    static const int to[QN_PW_UNARY_COUNT] = {
#define ENTRY(name) [QN_PW_##name] = QN_VEC_##name,
        QN_VEC_UNARY_LIST(ENTRY)
#undef ENTRY
#define ENTRY(name) [QN_PW_##name] = QN_LIBM_##name,
            QN_LIBM_LIST(ENTRY)
#undef ENTRY
    };
    return to[op] < QN_VEC_UNARY_COUNT
               ? QN_ISA_PICK(qn_vec_unary, qn_isa_level())->fn[to[op]]
               : qn_unary_libm_f32[to[op]];
}

static void apply_two(const qn_chain_step *s, float *value,
                      const float *operand, bool one, int64_t n)
{
    static const int to[QN_PW_COUNT] = {
#define ENTRY(name) [QN_PW_##name] = QN_VEC2_##name,
        QN_VEC_BINARY_LIST(ENTRY)
#undef ENTRY
        [QN_PW_fmod] = QN_BIN_fmod,
    };
    const float *p = s->left ? operand : value;
    const float *q = s->left ? value : operand;
    qn_vec_mode mode = !one ? QN_VEC_VV : s->left ? QN_VEC_SV : QN_VEC_VS;
    if (s->op == QN_PW_pow)
        qn_binary_pow_f32(p, mode != QN_VEC_SV, q, mode != QN_VEC_VS, value, n);
    else
        qn_binary_loop(to[s->op], QN_F32, mode)(p, q, value, n);
}

static void apply_row(void *arg, const int64_t *from, int64_t at, int64_t n)
{
    const turn *t = arg;
    const job *j = t->j;
    const char *x = j->k->in[t->step->input].data;
    bool one = qn_bcast_step(&j->from[t->step->input], 0) == 0;
    float operand[STRETCH];
    qn_convert(j->dtype, x + (size_t)from[0] * qn_dtype_size(j->dtype), QN_F32,
               operand, one ? 1 : n, NULL);
    apply_two(t->step, t->value + (at - t->start), operand, one, n);
}

static void round_to(qn_dtype dtype, float *value, int64_t n)
{
    uint16_t half[STRETCH];
    if (dtype == QN_F32)
        return;
    qn_convert(QN_F32, value, dtype, half, n, NULL);
    qn_convert(dtype, half, QN_F32, value, n, NULL);
}

static void piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    const char *x = j->k->in[0].data;
    char *y = j->k->out[0].data;
    size_t size = qn_dtype_size(j->dtype);
    float value[STRETCH];
    (void)thread;
    for (int64_t at = begin; at < end; at += STRETCH) {
        int64_t n = end - at < STRETCH ? end - at : STRETCH;
        qn_convert(j->dtype, x + (size_t)at * size, QN_F32, value, n, NULL);
        for (uint32_t i = 0; i < j->chain.n; i++) {
            const qn_chain_step *s = &j->chain.steps[i];
            turn t = { j, s, value, at };
            if (s->kind == QN_CHAIN_UNARY)
                unary_loop(s->op)(value, value, n, s->a, s->b);
            else if (s->kind == QN_CHAIN_CONST)
                apply_two(s, value, &s->a, true, n);
            else
                qn_bcast_walk(&j->from[s->input], at, at + n, apply_row, &t);
            round_to(j->dtype, value, n);
        }
        qn_convert(QN_F32, value, j->dtype, y + (size_t)at * size, n, NULL);
    }
}

static qn_status launch_chain(const qn_launch *k)
{
    job j = { .k = k, .dtype = k->in[0].dtype };
    qn_status st = qn_chain_read(k->node, &j.chain, k->err);
    if (st != QN_OK)
        return st;
    for (uint32_t i = 0; i < j.chain.n; i++) {
        qn_chain_step *s = &j.chain.steps[i];
        const qn_shape *shape = &k->in[s->input].shape;
        if (s->kind == QN_CHAIN_INPUT)
            qn_bcast_init(&j.from[s->input], &k->out[0].shape, 1, &shape);
        else if (s->kind == QN_CHAIN_CONST)
            round_to(j.dtype, &s->a, 1); /* as the tensor would have had it */
    }
    qn_parallel(k->team, qn_count(&k->out[0]), GRAIN, piece, &j);
    return QN_OK;
}

static const qn_kernel rows[] = {
    { .domain = "ai.quern", .name = "Chain", .since = 1, .until = 1,
      .launch = launch_chain },
};

QN_KERNEL_TABLE(qn_cpu_chain, rows);
