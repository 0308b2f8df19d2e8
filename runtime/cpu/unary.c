/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unary operators: which loop an operator takes, and how tensors of other types
 * get there. 16-bit floats are computed in binary32, in stretches that stay in
 * the first cache, and rounded once.
 */
#include "runtime/cpu/unary.h"

#include "runtime/cpu/convert.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { STRETCH = 1024 };

typedef struct job {
    qn_dtype dtype;
    const char *x;
    char *y;
    qn_vec_unary_fn f32;
    qn_unary_f64_fn f64;
    double a, b;
} job;

static void piece_f32(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    const float *x = (const void *)j->x;
    float *y = (void *)j->y;
    (void)thread;
    j->f32(x + begin, y + begin, end - begin, (float)j->a, (float)j->b);
}

static void piece_f64(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    const double *x = (const void *)j->x;
    double *y = (void *)j->y;
    (void)thread;
    j->f64(x + begin, y + begin, end - begin, j->a, j->b);
}

static void piece_half(void *arg, int64_t begin, int64_t end, int thread)
{
    const job *j = arg;
    float f[STRETCH];
    (void)thread;
    for (int64_t i = begin; i < end; i += STRETCH) {
        int64_t n = end - i < STRETCH ? end - i : STRETCH;
        qn_convert(j->dtype, j->x + 2 * i, QN_F32, f, n, NULL);
        j->f32(f, f, n, (float)j->a, (float)j->b);
        qn_convert(QN_F32, f, j->dtype, j->y + 2 * i, n, NULL);
    }
}

/* Floats of all widths; `grain` for binary32 in vectors. */
static qn_status run_float(const qn_launch *k, int op, int64_t grain, double a,
                           double b)
{
    const qn_tensor *x = &k->in[0];
    const qn_vec_unary_table *vec = QN_ISA_PICK(qn_vec_unary, qn_isa_level());
    job j = { .dtype = x->dtype, .x = x->data, .y = k->out[0].data, .a = a,
              .b = b, .f64 = qn_unary_f64[op],
              .f32 = op < QN_VEC_UNARY_COUNT ? vec->fn[op]
                                             : qn_unary_libm_f32[op] };
    qn_piece_fn fn = x->dtype == QN_F32   ? piece_f32
                     : x->dtype == QN_F64 ? piece_f64
                                          : piece_half;
    qn_parallel(k->team, qn_count(x), x->dtype == QN_F32 ? grain : 4096, fn,
                &j);
    return QN_OK;
}

static bool is_float(const qn_launch *k)
{
    return qn_dtypes_has(QN_TYPES_FLOAT, k->in[0].dtype);
}

/* ---- operators whose attributes are two numbers at most ---- */

enum {
    CHEAP = 1 << 16, /* a pass over memory */
    DEAR = 1 << 14,  /* some 20 operations an element */
    LIBM = 1 << 12
};

/* operator, loop, grain, attribute a, its default, attribute b, its default */
#define SIMPLE(X)                                                              \
    X(Relu, QN_VEC_relu, CHEAP, "", 0, "", 0)                                  \
    X(Sigmoid, QN_VEC_sigmoid, DEAR, "", 0, "", 0)                             \
    X(Tanh, QN_VEC_tanh, DEAR, "", 0, "", 0)                                   \
    X(HardSigmoid, QN_VEC_hard_sigmoid, CHEAP, "alpha", 0.2f, "beta", 0.5f)    \
    X(HardSwish, QN_VEC_hard_swish, CHEAP, "", 0, "", 0)                       \
    X(LeakyRelu, QN_VEC_leaky_relu, CHEAP, "alpha", 0.01f, "", 0)              \
    X(Elu, QN_VEC_elu, DEAR, "alpha", 1, "", 0)                                \
    X(Celu, QN_VEC_celu, DEAR, "alpha", 1, "", 0)                              \
    X(Mish, QN_VEC_mish, DEAR, "", 0, "", 0)                                   \
    X(Swish, QN_VEC_swish, DEAR, "alpha", 1, "", 0)                            \
    X(Softplus, QN_VEC_softplus, DEAR, "", 0, "", 0)                           \
    X(Softsign, QN_VEC_softsign, CHEAP, "", 0, "", 0)                          \
    X(ThresholdedRelu, QN_VEC_thresholded_relu, CHEAP, "alpha", 1, "", 0)      \
    X(Shrink, QN_VEC_shrink, CHEAP, "lambd", 0.5f, "bias", 0)                  \
    X(Abs, QN_VEC_abs, CHEAP, "", 0, "", 0)                                    \
    X(Neg, QN_VEC_neg, CHEAP, "", 0, "", 0)                                    \
    X(Sign, QN_VEC_sign, CHEAP, "", 0, "", 0)                                  \
    X(Floor, QN_VEC_floor, CHEAP, "", 0, "", 0)                                \
    X(Ceil, QN_VEC_ceil, CHEAP, "", 0, "", 0)                                  \
    X(Round, QN_VEC_round, CHEAP, "", 0, "", 0)                                \
    X(Sqrt, QN_VEC_sqrt, CHEAP, "", 0, "", 0)                                  \
    X(Reciprocal, QN_VEC_reciprocal, CHEAP, "", 0, "", 0)                      \
    X(Exp, QN_VEC_exp, DEAR, "", 0, "", 0)                                     \
    X(Log, QN_VEC_log, DEAR, "", 0, "", 0)                                     \
    X(Erf, QN_VEC_erf, DEAR, "", 0, "", 0)                                     \
    X(Sin, QN_LIBM_sin, LIBM, "", 0, "", 0)                                    \
    X(Cos, QN_LIBM_cos, LIBM, "", 0, "", 0)                                    \
    X(Tan, QN_LIBM_tan, LIBM, "", 0, "", 0)                                    \
    X(Asin, QN_LIBM_asin, LIBM, "", 0, "", 0)                                  \
    X(Acos, QN_LIBM_acos, LIBM, "", 0, "", 0)                                  \
    X(Atan, QN_LIBM_atan, LIBM, "", 0, "", 0)                                  \
    X(Sinh, QN_LIBM_sinh, LIBM, "", 0, "", 0)                                  \
    X(Cosh, QN_LIBM_cosh, LIBM, "", 0, "", 0)                                  \
    X(Asinh, QN_LIBM_asinh, LIBM, "", 0, "", 0)                                \
    X(Acosh, QN_LIBM_acosh, LIBM, "", 0, "", 0)                                \
    X(Atanh, QN_LIBM_atanh, LIBM, "", 0, "", 0)                                \
    X(Not, QN_INT_not, CHEAP, "", 0, "", 0)                                    \
    X(BitwiseNot, QN_INT_bitnot, CHEAP, "", 0, "", 0)

static qn_status run(const qn_launch *k, int op, int64_t grain,
                     const char *name_a, float a, const char *name_b, float b)
{
    if (*name_a)
        a = qn_node_float(k->node, name_a, a);
    if (*name_b)
        b = qn_node_float(k->node, name_b, b);
    return is_float(k) ? run_float(k, op, grain, (double)a, (double)b)
                       : qn_unary_int(k, op, &a, &b);
}

#define LAUNCH(op, id, grain, name_a, a, name_b, b)                            \
    static qn_status launch_##op(const qn_launch *k)                           \
    {                                                                          \
        return run(k, id, grain, name_a, a, name_b, b);                        \
    }
SIMPLE(LAUNCH)

/* ---- the others ---- */

static qn_status launch_Selu(const qn_launch *k)
{
    bool old = k->node->opset < 6;
    float alpha = qn_node_float(k->node, "alpha", old ? 1.6732f : 1.67326319f);
    float gamma = qn_node_float(k->node, "gamma", old ? 1.0507f : 1.05070102f);
    return run_float(k, QN_VEC_selu, DEAR, (double)alpha, (double)gamma);
}

static qn_status launch_Gelu(const qn_launch *k)
{
    bool tanh_form =
        !strcmp(qn_node_string(k->node, "approximate", "none"), "tanh");
    return run_float(k, tanh_form ? QN_VEC_gelu_tanh : QN_VEC_gelu, DEAR, 0, 0);
}

/* A bound of Clip: input i if present, else `otherwise`. */
static double bound(const qn_launch *k, uint32_t i, double otherwise)
{
    double v = otherwise;
    if (i < k->n_in && qn_present(&k->in[i]))
        qn_convert(k->in[i].dtype, k->in[i].data, QN_F64, &v, 1, NULL);
    return v;
}

static qn_status clip_int(const qn_launch *k)
{
    static const int64_t least[] = {
        [QN_I8] = INT8_MIN,
        [QN_I16] = INT16_MIN,
        [QN_I32] = INT32_MIN,
        [QN_I64] = INT64_MIN,
        [QN_U64] = 0,
    };
    qn_dtype t = k->in[0].dtype;
    /* all bits set, less the sign bit where there is one */
    uint64_t most = least[t] ? (uint64_t)-(least[t] + 1) : UINT64_MAX;
    _Alignas(8) unsigned char low[8], high[8];
    qn_convert(QN_I64, &least[t], t, low, 1, NULL);
    qn_convert(QN_U64, &most, t, high, 1, NULL);
    bool has_low = k->n_in > 1 && qn_present(&k->in[1]);
    bool has_high = k->n_in > 2 && qn_present(&k->in[2]);
    return qn_unary_int(k, QN_VEC_clip, has_low ? k->in[1].data : low,
                        has_high ? k->in[2].data : high);
}

static qn_status launch_Clip(const qn_launch *k)
{
    double low = -INFINITY, high = INFINITY;
    if (!is_float(k))
        return clip_int(k);
    if (k->node->opset >= 11) {
        low = bound(k, 1, low);
        high = bound(k, 2, high);
    } else {
        /* from 6 to 10 the defaults are the largest numbers of binary32 */
        double limit = k->node->opset >= 6 ? FLT_MAX : INFINITY;
        low = (double)qn_node_float(k->node, "min", (float)-limit);
        high = (double)qn_node_float(k->node, "max", (float)limit);
    }
    return run_float(k, QN_VEC_clip, CHEAP, low, high);
}

/* ---- predicates ---- */

typedef struct test {
    qn_dtype dtype;
    const char *x;
    uint8_t *y;
    bool nan, positive, negative; /* what counts */
} test;

static void piece_test(void *arg, int64_t begin, int64_t end, int thread)
{
    const test *t = arg;
    size_t size = qn_dtype_size(t->dtype);
    double d[STRETCH];
    (void)thread;
    for (int64_t i = begin; i < end; i += STRETCH) {
        int64_t n = end - i < STRETCH ? end - i : STRETCH;
        qn_convert(t->dtype, t->x + (size_t)i * size, QN_F64, d, n, NULL);
        for (int64_t m = 0; m < n; m++)
            t->y[i + m] = (t->nan && d[m] != d[m]) ||
                          (t->positive && d[m] == (double)INFINITY) ||
                          (t->negative && d[m] == -(double)INFINITY);
    }
}

static qn_status run_test(const qn_launch *k, bool nan, bool positive,
                          bool negative)
{
    test t = { k->in[0].dtype, k->in[0].data, k->out[0].data,
               nan, positive, negative };
    qn_parallel(k->team, qn_count(&k->in[0]), DEAR, piece_test, &t);
    return QN_OK;
}

static qn_status launch_IsNaN(const qn_launch *k)
{
    return run_test(k, true, false, false);
}

static qn_status launch_IsInf(const qn_launch *k)
{
    return run_test(k, false, qn_node_int(k->node, "detect_positive", 1) != 0,
                    qn_node_int(k->node, "detect_negative", 1) != 0);
}

#define OTHERS(X) X(Selu, ) X(Gelu, ) X(Clip, ) X(IsNaN, ) X(IsInf, )

static const qn_kernel rows[] = {
#define ROW(op, ...)                                                           \
    { .name = #op, .domain = "", .since = 1, .until = UINT16_MAX,              \
      .launch = launch_##op },
    SIMPLE(ROW) OTHERS(ROW)
#undef ROW
};

QN_KERNEL_TABLE(qn_cpu_unary, rows);
