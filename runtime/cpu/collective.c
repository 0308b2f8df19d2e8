/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives between ranks that share the host's memory. A stretch of all
 * ranks' inputs is reduced in rank order, in registers and first-level cache,
 * then stored wherever it belongs; so bits depend on the ranks alone, not on
 * pieces, threads or queues. Half types are summed as float, rounded once.
 */
#include "runtime/ops/collective.h"

#include "runtime/cpu/convert.h"
#include "runtime/cpu/tables.h"

#include <string.h>

enum { STRETCH = 1024, GRAIN = 1 << 13, COPY_GRAIN = 1 << 16 };

typedef struct job {
    const qn_launch *k;
    qn_collective_node c;
    uint32_t tensor; /* of each rank, at hand */
    qn_dtype dtype;
    size_t size;    /* of an element */
    int64_t share;  /* elements of a rank: of its input to a gather, of its output
                       from a scatter */
} job;

static const char *input(const job *j, uint32_t rank)
{
    return j->k->in[rank * j->c.tensors + j->tensor].data;
}

static char *output(const job *j, uint32_t rank)
{
    return j->k->out[rank * j->c.tensors + j->tensor].data;
}

/* ---- reducing ---- */

typedef void (*reduce_fn)(void *acc, const void *x, int64_t n);

#define LOOP(name, type, expression)                                           \
    static void name(void *acc, const void *other, int64_t n)                  \
    {                                                                          \
        type *restrict a = acc;                                                \
        const type *restrict x = other;                                        \
        for (int64_t i = 0; i < n; i++)                                        \
            a[i] = (type)(expression);                                         \
    }

#define FLOAT_LOOPS(t, type)                                                   \
    LOOP(sum_##t, type, a[i] + x[i])                                           \
    LOOP(prod_##t, type, a[i] * x[i])                                          \
    LOOP(min_##t, type, a[i] < x[i] || x[i] != x[i] ? a[i] : x[i])             \
    LOOP(max_##t, type, a[i] > x[i] || x[i] != x[i] ? a[i] : x[i])

/* In a type of 32 bits or more, or small ones would be multiplied as int. */
#define UNSIGNED_LOOPS(t, type, wide)                                          \
    LOOP(sum_##t, type, (wide)a[i] + x[i])                                     \
    LOOP(prod_##t, type, (wide)a[i] * x[i])                                    \
    ORDER_LOOPS(t, type)
#define ORDER_LOOPS(t, type)                                                   \
    LOOP(min_##t, type, a[i] < x[i] ? a[i] : x[i])                             \
    LOOP(max_##t, type, a[i] > x[i] ? a[i] : x[i])

FLOAT_LOOPS(f32, float)
FLOAT_LOOPS(f64, double)
UNSIGNED_LOOPS(u8, uint8_t, uint32_t)
UNSIGNED_LOOPS(u16, uint16_t, uint32_t)
UNSIGNED_LOOPS(u32, uint32_t, uint32_t)
UNSIGNED_LOOPS(u64, uint64_t, uint64_t)
ORDER_LOOPS(i8, int8_t)
ORDER_LOOPS(i16, int16_t)
ORDER_LOOPS(i32, int32_t)
ORDER_LOOPS(i64, int64_t)

#define DIVIDE(name, type)                                                     \
    static void name(void *acc, int64_t ranks, int64_t n)                      \
    {                                                                          \
        type *a = acc;                                                         \
        for (int64_t i = 0; i < n; i++)                                        \
            a[i] = (type)(a[i] / (type)ranks);                                 \
    }

DIVIDE(div_f32, float)
DIVIDE(div_f64, double)
DIVIDE(div_u8, uint8_t)
DIVIDE(div_u16, uint16_t)
DIVIDE(div_u32, uint32_t)
DIVIDE(div_u64, uint64_t)
DIVIDE(div_i8, int8_t)
DIVIDE(div_i16, int16_t)
DIVIDE(div_i32, int32_t)
DIVIDE(div_i64, int64_t)

/* Sums and products of two's complement are those of the unsigned type. */
static const struct {
    qn_dtype computed; /* NONE: in the type itself */
    reduce_fn sum, prod, min, max;
    void (*divide)(void *acc, int64_t ranks, int64_t n);
} types[QN_DTYPE_COUNT] = {
    [QN_F32] = { QN_NONE, sum_f32, prod_f32, min_f32, max_f32, div_f32 },
    [QN_F64] = { QN_NONE, sum_f64, prod_f64, min_f64, max_f64, div_f64 },
    [QN_F16] = { QN_F32, sum_f32, prod_f32, min_f32, max_f32, div_f32 },
    [QN_BF16] = { QN_F32, sum_f32, prod_f32, min_f32, max_f32, div_f32 },
    [QN_U8] = { QN_NONE, sum_u8, prod_u8, min_u8, max_u8, div_u8 },
    [QN_U16] = { QN_NONE, sum_u16, prod_u16, min_u16, max_u16, div_u16 },
    [QN_U32] = { QN_NONE, sum_u32, prod_u32, min_u32, max_u32, div_u32 },
    [QN_U64] = { QN_NONE, sum_u64, prod_u64, min_u64, max_u64, div_u64 },
    [QN_I8] = { QN_NONE, sum_u8, prod_u8, min_i8, max_i8, div_i8 },
    [QN_I16] = { QN_NONE, sum_u16, prod_u16, min_i16, max_i16, div_i16 },
    [QN_I32] = { QN_NONE, sum_u32, prod_u32, min_i32, max_i32, div_i32 },
    [QN_I64] = { QN_NONE, sum_u64, prod_u64, min_i64, max_i64, div_i64 },
};

static reduce_fn loop_of(const job *j)
{
    switch (j->c.reduction) {
    case QN_REDUCE_PROD:
        return types[j->dtype].prod;
    case QN_REDUCE_MIN:
        return types[j->dtype].min;
    case QN_REDUCE_MAX:
        return types[j->dtype].max;
    case QN_REDUCE_SUM:
    case QN_REDUCE_AVG:
        break;
    }
    return types[j->dtype].sum;
}

/* Elements [at, at + n) of all ranks, reduced into acc in the tensors' type. */
static void reduce(const job *j, int64_t at, int64_t n, void *acc, void *spare)
{
    qn_dtype computed = types[j->dtype].computed;
    reduce_fn loop = loop_of(j);
    for (uint32_t r = 0; r < j->c.ranks; r++) {
        const void *x = input(j, r) + (size_t)at * j->size;
        void *to = r ? spare : acc;
        if (computed != QN_NONE)
            qn_convert(j->dtype, x, computed, to, n, NULL);
        else if (!r)
            memcpy(acc, x, (size_t)n * j->size);
        if (r)
            loop(acc, computed != QN_NONE ? spare : x, n);
    }
    if (j->c.reduction == QN_REDUCE_AVG)
        types[j->dtype].divide(acc, j->c.ranks, n);
    if (computed != QN_NONE) {
        qn_convert(computed, acc, j->dtype, spare, n, NULL);
        memcpy(acc, spare, (size_t)n * j->size);
    }
}

static void reduce_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    bool scatter = j->c.kind == QN_REDUCE_SCATTER;
    double acc[STRETCH], spare[STRETCH]; /* of the widest type */
    (void)thread;
    for (int64_t at = begin, n; at < end; at += n) {
        uint32_t owner = scatter ? (uint32_t)(at / j->share) : 0;
        n = end - at < STRETCH ? end - at : STRETCH;
        if (scatter && n > (owner + 1) * j->share - at)
            n = (owner + 1) * j->share - at;
        reduce(j, at, n, acc, spare);
        size_t bytes = (size_t)n * j->size;
        if (scatter)
            memcpy(output(j, owner) + (size_t)(at - owner * j->share) * j->size,
                   acc, bytes);
        for (uint32_t r = 0; !scatter && r < j->c.ranks; r++)
            memcpy(output(j, r) + (size_t)at * j->size, acc, bytes);
    }
}

/* ---- moving ---- */

/* Bytes of what every rank gets: of all ranks' inputs, or of the root's. */
static void move_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    int64_t share = j->share * (int64_t)j->size;
    (void)thread;
    for (int64_t at = begin, n; at < end; at += n) {
        uint32_t from = j->c.root;
        int64_t start = 0;
        if (j->c.kind == QN_ALL_GATHER) {
            from = (uint32_t)(at / share);
            start = from * share;
        }
        n = start + share < end ? start + share - at : end - at;
        for (uint32_t r = 0; r < j->c.ranks; r++)
            memcpy(output(j, r) + at, input(j, from) + (at - start), (size_t)n);
    }
}

static qn_status launch_collective(const qn_launch *k)
{
    job j = { .k = k };
    qn_status st = qn_collective_read(k->node, &j.c, k->err);
    if (st != QN_OK)
        return st;
    if (j.c.ranks == 1)
        j.c.root = 0; /* of a part that runs alone */
    for (j.tensor = 0; j.tensor < j.c.tensors; j.tensor++) {
        const qn_tensor *in = &k->in[j.tensor], *out = &k->out[j.tensor];
        j.dtype = in->dtype;
        j.size = qn_dtype_size(j.dtype);
        j.share = qn_count(j.c.kind == QN_REDUCE_SCATTER ? out : in);
        if (j.c.kind == QN_ALL_REDUCE || j.c.kind == QN_REDUCE_SCATTER)
            qn_parallel(k->team, qn_count(in), GRAIN, reduce_piece, &j);
        else
            qn_parallel(k->team, qn_count(out) * (int64_t)j.size, COPY_GRAIN,
                        move_piece, &j);
    }
    return QN_OK;
}

#define ROW(op)                                                                \
    { .domain = "ai.quern", .name = op, .since = 1, .until = 1,                \
      .launch = launch_collective }

static const qn_kernel rows[] = { ROW("AllReduce"), ROW("AllGather"),
                                  ROW("ReduceScatter"), ROW("Broadcast") };

QN_KERNEL_TABLE(qn_cpu_collective, rows);
