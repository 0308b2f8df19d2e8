/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ArgMax and ArgMin over the middle axis of [outer, n, inner]. Ties: the first
 * position, or the last with select_last_index. NaN beats every number, as in
 * NumPy. One copy of the loops per element type.
 */
#include "runtime/cpu/simd/argmax.h"
#include "runtime/base/half.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/simd/span.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/reduce.h"

enum { COLS = 64, WIDE_COLS = 512 };

typedef struct arg_job {
    const void *x;
    int64_t *y;
    int64_t outer, n, inner;
    bool min, last;
    void (*fn)(const struct arg_job *j, int64_t outer, int64_t from,
               int64_t cols);
    const qn_span_table *span;
} arg_job;

/* better: v replaces best. The comparison `test` is > or >=. */
#define SCAN(LOAD, ISNAN, test)                                              \
    for (int64_t i = 1; i < j->n; i++) {                                     \
        const T *row = x + i * j->inner;                                     \
        for (int64_t c = 0; c < cols; c++) {                                 \
            const A v = LOAD(row[c]);                                        \
            const int better =                                               \
                (v test best[c]) | (ISNAN(v) & (j->last | !ISNAN(best[c]))); \
            best[c] = better ? v : best[c];                                  \
            at[c] = better ? i : at[c];                                      \
        }                                                                    \
    }

#define IS_NAN(v) ((v) != (v))
#define NEVER(v)  0
#define SAME(v)   (v)

#define DEFINE_ARG(name, ELEMENT, WIDE, LOAD, ISNAN)                   \
    static void name(const arg_job *j, int64_t outer, int64_t from,    \
                     int64_t cols)                                     \
    {                                                                  \
        typedef ELEMENT T;                                             \
        typedef WIDE A;                                                \
        const T *x = (const T *)j->x + outer * j->n * j->inner + from; \
        A best[COLS];                                                  \
        int64_t at[COLS];                                              \
        for (int64_t c = 0; c < cols; c++) {                           \
            best[c] = LOAD(x[c]);                                      \
            at[c] = 0;                                                 \
        }                                                              \
        if (j->min && j->last)                                         \
            SCAN(LOAD, ISNAN, <=)                                      \
        else if (j->min)                                               \
            SCAN(LOAD, ISNAN, <)                                       \
        else if (j->last)                                              \
            SCAN(LOAD, ISNAN, >=)                                      \
        else                                                           \
            SCAN(LOAD, ISNAN, >)                                       \
        for (int64_t c = 0; c < cols; c++)                             \
            j->y[outer * j->inner + from + c] = at[c];                 \
    }

DEFINE_ARG(arg_f32, float, float, SAME, IS_NAN)
DEFINE_ARG(arg_f64, double, double, SAME, IS_NAN)
DEFINE_ARG(arg_f16, uint16_t, float, qn_f16_to_f32, IS_NAN)
DEFINE_ARG(arg_bf16, uint16_t, float, qn_bf16_to_f32, IS_NAN)
DEFINE_ARG(arg_i8, int8_t, int8_t, SAME, NEVER)
DEFINE_ARG(arg_i16, int16_t, int16_t, SAME, NEVER)
DEFINE_ARG(arg_i32, int32_t, int32_t, SAME, NEVER)
DEFINE_ARG(arg_i64, int64_t, int64_t, SAME, NEVER)
DEFINE_ARG(arg_u8, uint8_t, uint8_t, SAME, NEVER)
DEFINE_ARG(arg_u16, uint16_t, uint16_t, SAME, NEVER)
DEFINE_ARG(arg_u32, uint32_t, uint32_t, SAME, NEVER)
DEFINE_ARG(arg_u64, uint64_t, uint64_t, SAME, NEVER)

/* items: outer x blocks of columns */
static void arg_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const arg_job *j = arg;
    int64_t blocks = (j->inner + COLS - 1) / COLS;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t from = item % blocks * COLS;
        j->fn(j, item / blocks, from,
              j->inner - from < COLS ? j->inner - from : COLS);
    }
}

/* Contiguous float rows: the value by vectors, then where it is. */
static void float_rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const arg_job *j = arg;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        const float *x = (const float *)j->x + row * j->n;
        float m = j->min ? j->span->min(x, j->n) : j->span->max(x, j->n);
        int64_t i = j->last ? j->n - 1 : 0, step = j->last ? -1 : 1;
        while (x[i] != m && !(m != m && x[i] != x[i]))
            i += step;
        j->y[row] = i;
    }
}

/* items: outer x blocks of columns; rows are counted in 32 bits */
static void float_columns_piece(void *arg, int64_t begin, int64_t end,
                                int thread)
{
    const arg_job *j = arg;
    qn_argmax_fn row = qn_argmax_pick()->row[j->min][j->last];
    int64_t blocks = (j->inner + WIDE_COLS - 1) / WIDE_COLS;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t outer = item / blocks, from = item % blocks * WIDE_COLS;
        int64_t cols =
            j->inner - from < WIDE_COLS ? j->inner - from : WIDE_COLS;
        const float *x = (const float *)j->x + outer * j->n * j->inner + from;
        int64_t *y = j->y + outer * j->inner + from;
        float best[WIDE_COLS];
        int32_t at[WIDE_COLS];
        for (int64_t c = 0; c < cols; c++) {
            best[c] = x[c];
            at[c] = 0;
        }
        for (int64_t i = 1; i < j->n; i++)
            row(best, at, x + i * j->inner, (int32_t)i, cols);
        for (int64_t c = 0; c < cols; c++)
            y[c] = at[c];
    }
}

static qn_status arg_launch(const qn_launch *k)
{
    static void (*const by_type[QN_DTYPE_COUNT])(const arg_job *, int64_t,
                                                 int64_t, int64_t) = {
        [QN_F32] = arg_f32,   [QN_F64] = arg_f64, [QN_F16] = arg_f16,
        [QN_BF16] = arg_bf16, [QN_I8] = arg_i8,   [QN_I16] = arg_i16,
        [QN_I32] = arg_i32,   [QN_I64] = arg_i64, [QN_U8] = arg_u8,
        [QN_U16] = arg_u16,   [QN_U32] = arg_u32, [QN_U64] = arg_u64,
    };
    const qn_shape *s = &k->in[0].shape;
    int axis;
    qn_status st = qn_arg_axis(k->node, s, &axis, k->err);
    if (st != QN_OK)
        return st;
    arg_job j = { .x = k->in[0].data,
                  .y = k->out[0].data,
                  .min =
                      k->node->op_name[3] == 'M' && k->node->op_name[4] == 'i',
                  .last = qn_node_int(k->node, "select_last_index", 0) != 0,
                  .fn = by_type[k->in[0].dtype],
                  .span = qn_span_pick() };
    j.outer = qn_shape_product(s, 0, axis);
    j.n = s->rank ? s->dims[axis] : 1;
    j.inner = s->rank ? qn_shape_product(s, axis + 1, s->rank) : 1;
    if (j.n == 0)
        return QN_OK; /* shape inference saw to it that nothing is wanted */
    if (j.inner == 1 && k->in[0].dtype == QN_F32) {
        qn_parallel(k->team, j.outer, qn_grain(15 + (double)j.n * 0.5),
                    float_rows_piece, &j);
        return QN_OK;
    }
    bool wide = k->in[0].dtype == QN_F32 && j.n <= INT32_MAX;
    int64_t cols = wide ? WIDE_COLS : COLS;
    double ns = (double)j.n * (double)(j.inner < cols ? j.inner : cols);
    qn_parallel(k->team, j.outer * ((j.inner + cols - 1) / cols),
                qn_grain(10 + ns * (wide ? 0.3 : 1)),
                wide ? float_columns_piece : arg_piece, &j);
    return QN_OK;
}

#define ROW(op)                                                      \
    {                                                                \
        .domain = "", .name = op, .since = 1, .until = QN_OPSET_MAX, \
        .launch = arg_launch                                         \
    }

static const qn_kernel kernels[] = { ROW("ArgMax"), ROW("ArgMin") };

QN_KERNEL_TABLE(qn_cpu_argmax, kernels);
