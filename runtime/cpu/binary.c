/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary operators: rows of a broadcast, and the loop that an operator takes on
 * each. 16-bit floats are computed in binary32 and rounded once.
 */
#include "runtime/cpu/binary.h"

#include "runtime/cpu/convert.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/binary.h"
#include "runtime/ops/op.h"

#include <string.h>

enum {
    STRETCH = 1024,
    CHEAP = 1 << 16, /* a pass over memory */
    DEAR = 1 << 13   /* divisions, remainders, conversions */
};

qn_binary_fn qn_binary_loop(int op, qn_dtype dtype, qn_vec_mode mode)
{
    if (op >= QN_BIN_eq)
        return (int)dtype < QN_VEC_TYPES
                   ? QN_ISA_PICK(qn_vec_compare, qn_isa_level())
                         ->fn[op - QN_BIN_eq][dtype][mode]
                   : NULL;
    if (dtype == QN_F32 && op < QN_VEC_BINARY_COUNT)
        return QN_ISA_PICK(qn_vec_binary, qn_isa_level())->fn[op][mode];
    if (dtype == QN_F32 || dtype == QN_F64)
        return qn_binary_loop_float(op, dtype, mode);
    return qn_binary_loop_int(op, dtype, mode);
}

typedef struct job {
    qn_bcast bcast;
    qn_vec_mode mode;
    qn_binary_fn fn;
    qn_dtype in, out; /* 16-bit floats: as the tensors have them */
    size_t in_size, out_size;
    const char *a, *b;
    char *y;
    _Atomic int64_t fault; /* lowest output index with a zero divisor */
} job;

void qn_binary_note(_Atomic int64_t *fault, int64_t at)
{
    int64_t seen = atomic_load(fault);
    while (at < seen && !atomic_compare_exchange_weak(fault, &seen, at))
        ;
}

static void row_plain(void *arg, const int64_t *from, int64_t at, int64_t n)
{
    job *j = arg;
    int64_t done = j->fn(j->a + (size_t)from[0] * j->in_size,
                         j->b + (size_t)from[1] * j->in_size,
                         j->y + (size_t)at * j->out_size, n);
    if (done < n)
        qn_binary_note(&j->fault, at + done);
}

static void row_half(void *arg, const int64_t *from, int64_t at, int64_t n)
{
    job *j = arg;
    int64_t step_a = j->mode != QN_VEC_SV, step_b = j->mode != QN_VEC_VS;
    float a[STRETCH], b[STRETCH];
    for (int64_t i = 0; i < n; i += STRETCH) {
        int64_t m = n - i < STRETCH ? n - i : STRETCH;
        char *y = j->y + (size_t)(at + i) * j->out_size;
        qn_convert(j->in, j->a + 2 * (from[0] + i * step_a), QN_F32, a,
                   step_a ? m : 1, NULL);
        qn_convert(j->in, j->b + 2 * (from[1] + i * step_b), QN_F32, b,
                   step_b ? m : 1, NULL);
        if (j->out == QN_BOOL) {
            j->fn(a, b, y, m);
            continue;
        }
        /* the result goes over an operand that is as long */
        float *f = step_a ? a : b;
        j->fn(a, b, f, m);
        qn_convert(QN_F32, f, j->out, y, m, NULL);
    }
}

static void piece_plain(void *arg, int64_t begin, int64_t end, int thread)
{
    job *j = arg;
    (void)thread;
    qn_bcast_walk(&j->bcast, begin, end, row_plain, j);
}

static void piece_half(void *arg, int64_t begin, int64_t end, int thread)
{
    job *j = arg;
    (void)thread;
    qn_bcast_walk(&j->bcast, begin, end, row_half, j);
}

qn_status qn_binary_broadcast(const qn_launch *k, bool exchange, qn_bcast *out)
{
    qn_shape rhs = k->in[1].shape;
    if (k->node->op->until < 7) {
        qn_status st = qn_binary_rhs(k->node, &k->in[0].shape,
                                     &k->in[1].shape, &rhs, k->err);
        if (st != QN_OK)
            return st;
    }
    const qn_shape *plain[] = { &k->in[0].shape, &rhs };
    const qn_shape *turned[] = { &rhs, &k->in[0].shape };
    qn_bcast_init(out, &k->out[0].shape, 2, exchange ? turned : plain);
    return QN_OK;
}

qn_status qn_binary_fault(const qn_launch *k, int64_t at)
{
    qn_status st = qn_launch_fail(k, QN_RANGE,
                                  "output index %lld divides by zero",
                                  (long long)at);
    qn_error_index(k->err, at);
    return st;
}

/* f(b, a) instead of f(a, b) if `exchange`. */
static qn_status run(const qn_launch *k, int op, bool exchange, int64_t grain)
{
    qn_dtype in = k->in[0].dtype, out = k->out[0].dtype;
    bool half = in == QN_F16 || in == QN_BF16;
    job j = { .in = in,
              .out = out,
              .in_size = qn_dtype_size(in),
              .out_size = qn_dtype_size(out),
              .a = k->in[exchange].data,
              .b = k->in[!exchange].data,
              .y = k->out[0].data,
              .fault = INT64_MAX };
    qn_status st = qn_binary_broadcast(k, exchange, &j.bcast);
    if (st != QN_OK)
        return st;
    j.mode = qn_binary_mode(&j.bcast);
    j.fn = qn_binary_loop(op, half ? QN_F32 : in, j.mode);
    if (!j.fn)
        return qn_launch_fail(k, QN_INTERNAL, "no loop for %s",
                              qn_dtype_name(in));
    qn_parallel(k->team, j.bcast.total, half ? DEAR : grain,
                half ? piece_half : piece_plain, &j);
    if (j.fault < INT64_MAX)
        return qn_binary_fault(k, j.fault);
    return QN_OK;
}

qn_status qn_binary_run(const qn_launch *k, int op)
{
    return run(k, op, false, CHEAP);
}

/* ---- strings ---- */

typedef struct texts {
    const qn_strings *heaps;
    const qn_string *a, *b;
    uint8_t *y;
    int64_t step_a, step_b;
} texts;

static void row_texts(void *arg, const int64_t *from, int64_t at, int64_t n)
{
    const texts *t = arg;
    for (int64_t i = 0; i < n; i++) {
        qn_string p = t->a[from[0] + i * t->step_a];
        qn_string q = t->b[from[1] + i * t->step_b];
        t->y[at + i] = p.len == q.len &&
                       (p.where == q.where ||
                        !memcmp(qn_string_bytes(t->heaps, p),
                                qn_string_bytes(t->heaps, q), p.len));
    }
}

static qn_status equal_texts(const qn_launch *k)
{
    qn_bcast b;
    qn_status st = qn_binary_broadcast(k, false, &b);
    if (st != QN_OK)
        return st;
    texts t = { k->strings,      k->in[0].data,       k->in[1].data,
                k->out[0].data,  qn_bcast_step(&b, 0), qn_bcast_step(&b, 1) };
    qn_bcast_walk(&b, 0, b.total, row_texts, &t);
    return QN_OK;
}

/* ---- operators ---- */

#define SIMPLE(X)                                                              \
    X(Add, QN_VEC2_add, CHEAP)                                                 \
    X(Sub, QN_VEC2_sub, CHEAP)                                                 \
    X(Mul, QN_VEC2_mul, CHEAP)                                                 \
    X(PRelu, QN_VEC2_prelu, CHEAP)                                             \
    X(And, QN_BIN_and, CHEAP)                                                  \
    X(Or, QN_BIN_or, CHEAP)                                                    \
    X(Xor, QN_BIN_xor, CHEAP)                                                  \
    X(BitwiseAnd, QN_BIN_and, CHEAP)                                           \
    X(BitwiseOr, QN_BIN_or, CHEAP)                                             \
    X(BitwiseXor, QN_BIN_xor, CHEAP)                                           \
    X(Less, QN_BIN_lt, CHEAP)                                                  \
    X(LessOrEqual, QN_BIN_le, CHEAP)

#define LAUNCH(op, id, grain)                                                  \
    static qn_status launch_##op(const qn_launch *k)                           \
    {                                                                          \
        return run(k, id, false, grain);                        \
    }
SIMPLE(LAUNCH)

static qn_status launch_Div(const qn_launch *k)
{
    bool integer = qn_dtypes_has(QN_TYPES_INT, k->in[0].dtype);
    return run(k, QN_VEC2_div, false, integer ? DEAR : CHEAP);
}

static qn_status launch_Mod(const qn_launch *k)
{
    int op = qn_node_int(k->node, "fmod", 0) ? QN_BIN_fmod : QN_BIN_mod;
    return run(k, op, false, DEAR);
}

static qn_status launch_BitShift(const qn_launch *k)
{
    bool left = !strcmp(qn_node_string(k->node, "direction", ""), "LEFT");
    return run(k, left ? QN_BIN_shl : QN_BIN_shr, false, CHEAP);
}

static qn_status launch_Equal(const qn_launch *k)
{
    if (k->in[0].dtype == QN_STRING)
        return equal_texts(k);
    return run(k, QN_BIN_eq, false, CHEAP);
}

static qn_status launch_Greater(const qn_launch *k)
{
    return run(k, QN_BIN_lt, true, CHEAP);
}

static qn_status launch_GreaterOrEqual(const qn_launch *k)
{
    return run(k, QN_BIN_le, true, CHEAP);
}

static qn_status launch_Pow(const qn_launch *k)
{
    return qn_binary_pow(k);
}

#define OTHERS(X)                                                              \
    X(Div, )                                                                   \
    X(Mod, )                                                                   \
    X(BitShift, )                                                              \
    X(Equal, )                                                                 \
    X(Greater, )                                                               \
    X(GreaterOrEqual, )                                                        \
    X(Pow, )

static const qn_kernel rows[] = {
#define ROW(op, ...)                                                           \
    { .name = #op, .domain = "", .since = 1, .until = UINT16_MAX,              \
      .launch = launch_##op },
    SIMPLE(ROW) OTHERS(ROW)
#undef ROW
};

QN_KERNEL_TABLE(qn_cpu_binary, rows);
