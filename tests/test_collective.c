/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives as operators: shapes, what is refused, and the cpu's kernel against
 * a loop over elements. */
#include "runtime/base/half.h"
#include "runtime/ops/op.h"
#include "tests/support/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 3, COUNT = 6000 }; /* several pieces; divisible by 1, 2, 3 */

/* ---- values ---- */

static void put(qn_dtype t, void *p, int64_t i, double v)
{
    switch (t) {
#define CASE(name, type)                                                       \
    case QN_##name:                                                            \
        ((type *)p)[i] = (type)v;                                              \
        break;
        CASE(F32, float) CASE(F64, double)
        CASE(U8, uint8_t) CASE(U16, uint16_t)
        CASE(U32, uint32_t) CASE(U64, uint64_t)
        CASE(I8, int8_t) CASE(I16, int16_t)
        CASE(I32, int32_t) CASE(I64, int64_t)
        CASE(BOOL, uint8_t)
#undef CASE
    case QN_F16:
        ((uint16_t *)p)[i] = qn_f32_to_f16((float)v);
        break;
    case QN_BF16:
        ((uint16_t *)p)[i] = qn_f32_to_bf16((float)v);
        break;
    default:
        fail_msg("no %s here", qn_dtype_name(t));
    }
}

static double at(const qn_tensor *t, int64_t i)
{
    switch (t->dtype) {
#define CASE(name, type)                                                       \
    case QN_##name:                                                            \
        return (double)((const type *)t->data)[i];
        CASE(F32, float) CASE(F64, double)
        CASE(U8, uint8_t) CASE(U16, uint16_t)
        CASE(U32, uint32_t) CASE(U64, uint64_t)
        CASE(I8, int8_t) CASE(I16, int16_t)
        CASE(I32, int32_t) CASE(I64, int64_t)
        CASE(BOOL, uint8_t)
#undef CASE
    case QN_F16:
        return (double)qn_f16_to_f32(((const uint16_t *)t->data)[i]);
    case QN_BF16:
        return (double)qn_bf16_to_f32(((const uint16_t *)t->data)[i]);
    default:
        return NAN;
    }
}

/* What the type makes of a number: integers wrap. */
static double stored(qn_dtype t, double v)
{
    static uint64_t room[1];
    qn_tensor one = { .dtype = t, .data = room };
    int64_t whole = (int64_t)v;
    switch (t) {
    case QN_U8:
        return (double)(uint8_t)whole;
    case QN_U16:
        return (double)(uint16_t)whole;
    case QN_I8:
        return (double)(int8_t)whole;
    case QN_I16:
        return (double)(int16_t)whole;
    default:
        put(t, room, 0, v);
        return at(&one, 0);
    }
}

static bool is_float(qn_dtype t)
{
    return (QN_TYPES_FLOAT >> t & 1) != 0;
}

static const char *const reductions[] = { "sum", "prod", "min", "max", "avg" };
static const char *const kinds[] = { "ai.quern.AllReduce", "ai.quern.AllGather",
                                     "ai.quern.ReduceScatter",
                                     "ai.quern.Broadcast" };

static double combine(int op, double a, double b)
{
    return op == 1   ? a * b
           : op == 2 ? (a < b ? a : b)
           : op == 3 ? (a > b ? a : b)
                     : a + b;
}

/* Element i of all ranks' tensor k, reduced in rank order. */
static double reduced(const test_node *t, uint32_t ranks, uint32_t tensors,
                      uint32_t k, int op, int64_t i)
{
    qn_dtype dtype = t->in[k].dtype;
    double v = at(&t->in[k], i);
    for (uint32_t r = 1; r < ranks; r++) {
        v = combine(op, v, at(&t->in[r * tensors + k], i));
        v = is_float(dtype) && dtype != QN_F64 ? (double)(float)v
            : dtype == QN_F64 ? v : stored(dtype, v);
    }
    if (op == 4)
        v = is_float(dtype) ? (dtype == QN_F64 ? v / ranks
                                               : (double)((float)v /
                                                          (float)ranks))
                            : (double)((int64_t)v / (int64_t)ranks);
    return stored(dtype, v);
}

static double wanted(const test_node *t, int kind, uint32_t ranks,
                     uint32_t tensors, int op, uint32_t root, uint32_t rank,
                     uint32_t k, int64_t i)
{
    int64_t n = qn_count(&t->in[k]);
    switch (kind) {
    case 1:
        return at(&t->in[(uint32_t)(i / n) * tensors + k], i % n);
    case 2:
        return reduced(t, ranks, tensors, k, op, i + rank * (n / ranks));
    case 3:
        return at(&t->in[root * tensors + k], i);
    default:
        return reduced(t, ranks, tensors, k, op, i);
    }
}

static void run_case(int kind, qn_dtype dtype, uint32_t ranks, uint32_t tensors,
                     int op, uint32_t root)
{
    test_node t;
    uint32_t n = ranks * tensors;
    test_node_init(&t, kinds[kind], 1, n, n);
    test_node_int(&t, "ranks", ranks);
    if (kind == 0 || kind == 2)
        test_node_string(&t, "op", reductions[op]);
    if (kind == 3)
        test_node_int(&t, "root", root);
    for (uint32_t i = 0; i < n; i++) {
        /* tensors of a rank differ in size; one is empty */
        int64_t k = i % tensors;
        const int64_t dims[] = { k == 2 ? 0 : 6 * (k + 1), k ? 7 : COUNT / 6 };
        test_node_input(&t, i, dtype, 2, dims, NULL);
        int64_t count = qn_count(&t.in[i]);
        t.in[i].data = qn_region_alloc(&t.region, (size_t)count + 1,
                                       qn_dtype_size(dtype));
        assert_non_null(t.in[i].data);
        for (int64_t e = 0; e < count; e++)
            put(dtype, t.in[i].data, e,
                dtype == QN_BOOL ? (double)((e + i) % 3 == 0)
                                 : (double)((e * 7 + i * 13) % 23) -
                                       (QN_TYPES_UNSIGNED >> dtype & 1 ? 0
                                                                       : 11));
    }
    if (test_node_run(&t) != QN_OK)
        fail_msg("%s of %s: %s", kinds[kind], qn_dtype_name(dtype), t.err.text);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = i / tensors, k = i % tensors;
        int64_t count = qn_count(&t.out[i]), sent = qn_count(&t.in[i]);
        assert_int_equal(t.out[i].dtype, dtype);
        assert_int_equal(count, kind == 1   ? sent * ranks
                                : kind == 2 ? sent / ranks : sent);
        for (int64_t e = 0; e < count; e++) {
            double want = wanted(&t, kind, ranks, tensors, op, root, rank, k, e);
            double got = at(&t.out[i], e);
            if (got < want || got > want)
                fail_msg("%s %s %s, %u ranks: output %u, element %d is %g, not "
                         "%g", kinds[kind], kind == 1 ? "" : reductions[op],
                         qn_dtype_name(dtype), ranks, i, (int)e, got, want);
        }
    }
    test_node_release(&t);
}

static const qn_dtype numbers[] = { QN_F32, QN_F64, QN_F16, QN_BF16,
                                    QN_U8,  QN_U16, QN_U32, QN_U64,
                                    QN_I8,  QN_I16, QN_I32, QN_I64 };

static void test_reductions(void **state)
{
    (void)state;
    for (size_t d = 0; d < sizeof numbers / sizeof numbers[0]; d++)
        for (uint32_t ranks = 1; ranks <= MOST; ranks++)
            for (int op = 0; op < 5; op++) {
                run_case(0, numbers[d], ranks, 1, op, 0);
                run_case(2, numbers[d], ranks, 3, op, 0);
            }
}

static void test_moves(void **state)
{
    static const qn_dtype types[] = { QN_F32, QN_BOOL, QN_U16, QN_F64 };
    (void)state;
    for (size_t d = 0; d < sizeof types / sizeof types[0]; d++)
        for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
            run_case(1, types[d], ranks, 3, 0, 0);
            for (uint32_t root = 0; root < ranks; root++)
                run_case(3, types[d], ranks, 3, 0, root);
        }
}

/* As in NCCL: a NaN loses. Sums of half types are rounded once. */
static void test_special(void **state)
{
    static const float a[] = { NAN, 1, NAN, INFINITY },
                       b[] = { 2, NAN, NAN, -INFINITY };
    static const float least[] = { 2, 1, NAN, -INFINITY };
    static const float most[] = { 2, 1, NAN, INFINITY };
    const int64_t dims[] = { 4 };
    (void)state;
    for (int op = 0; op < 2; op++) {
        test_node t;
        test_node_init(&t, "ai.quern.AllReduce", 1, 2, 2);
        test_node_int(&t, "ranks", 2);
        test_node_string(&t, "op", op ? "max" : "min");
        test_node_input(&t, 0, QN_F32, 1, dims, a);
        test_node_input(&t, 1, QN_F32, 1, dims, b);
        assert_int_equal(test_node_run(&t), QN_OK);
        test_node_expect_f32(&t, 0, 1, dims, op ? most : least, 0, 0);
        test_node_expect_f32(&t, 1, 1, dims, op ? most : least, 0, 0);
        test_node_release(&t);
    }
    const int64_t one[] = { 1 };
    /* 2048 + 1 + 1 in half: rounded at each step it would stay 2048 */
    const uint16_t x[] = { qn_f32_to_f16(2048), qn_f32_to_f16(1) };
    const uint16_t want = qn_f32_to_f16(2050);
    test_node t;
    test_node_init(&t, "ai.quern.AllReduce", 1, 3, 3);
    test_node_int(&t, "ranks", 3);
    for (uint32_t i = 0; i < 3; i++)
        test_node_input(&t, i, QN_F16, 1, one, &x[i > 0]);
    assert_int_equal(test_node_run(&t), QN_OK);
    test_node_expect(&t, 2, QN_F16, 1, one, &want);
    test_node_release(&t);
}

/* ---- what is refused ---- */

static const struct {
    const char *op;
    int64_t ranks; /* 0: no attribute */
    const char *attr, *text;
    int64_t number;
    uint32_t n_in, n_out;
    int64_t rows[4]; /* of each input, by 2; -1: a scalar */
    qn_status status;
    const char *says; /* NULL: it is fine */
} refused[] = {
    { "AllReduce", 2, NULL, NULL, 0, 4, 4, { 3, 4, 3, 4 }, QN_OK, NULL },
    { "AllReduce", 0, NULL, NULL, 0, 2, 2, { 3, 4 }, QN_OK, NULL },
    { "AllReduce", 2, NULL, NULL, 0, 4, 4, { 3, 4, 3, 5 }, QN_SHAPE,
      "tensor 1 is float [5, 2] on rank 1, but float [4, 2] on rank 0" },
    { "AllReduce", 2, NULL, NULL, 0, 3, 3, { 3, 3, 3 }, QN_FORMAT,
      "3 inputs and 3 outputs" },
    { "AllReduce", 2, NULL, NULL, 0, 4, 2, { 3, 3, 3, 3 }, QN_FORMAT,
      "4 inputs and 2 outputs" },
    { "AllReduce", -1, NULL, NULL, 0, 1, 1, { 3 }, QN_INVALID,
      "ranks is -1, 1 to 8 expected" },
    { "AllReduce", 9, NULL, NULL, 0, 1, 1, { 3 }, QN_INVALID, "ranks is 9" },
    { "AllReduce", 1, "op", "mean", 0, 1, 1, { 3 }, QN_INVALID,
      "op is \"mean\"" },
    { "Broadcast", 2, "root", NULL, 2, 2, 2, { 3, 3 }, QN_INVALID,
      "root is 2, there are 2 ranks" },
    { "Broadcast", 0, "root", NULL, 7, 1, 1, { 3 }, QN_OK, NULL },
    { "Broadcast", 0, "root", NULL, -1, 1, 1, { 3 }, QN_INVALID, "root is -1" },
    { "AllGather", 2, "axis", NULL, 1, 2, 2, { 3, 3 }, QN_UNSUPPORTED,
      "axis is 1; only axis 0" },
    { "ReduceScatter", 2, "axis", NULL, -2, 2, 2, { 3, 3 }, QN_UNSUPPORTED,
      "axis is -2" },
    { "ReduceScatter", 2, NULL, NULL, 0, 2, 2, { 3, 3 }, QN_SHAPE,
      "axis 0 of [3, 2] cannot be split over 2 ranks" },
    { "AllGather", 2, NULL, NULL, 0, 2, 2, { -1, -1 }, QN_SHAPE,
      "a scalar has no axis 0" },
    { "AllReduce", 2, NULL, NULL, 0, 2, 2, { -1, -1 }, QN_OK, NULL },
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        test_node t;
        char op[64];
        snprintf(op, sizeof op, "ai.quern.%s", refused[i].op);
        test_node_init(&t, op, 1, refused[i].n_in, refused[i].n_out);
        if (refused[i].ranks)
            test_node_int(&t, "ranks", refused[i].ranks);
        if (refused[i].text)
            test_node_string(&t, refused[i].attr, refused[i].text);
        else if (refused[i].attr)
            test_node_int(&t, refused[i].attr, refused[i].number);
        for (uint32_t k = 0; k < refused[i].n_in; k++) {
            const int64_t dims[] = { refused[i].rows[k], 2 };
            test_node_input(&t, k, QN_F32, dims[0] < 0 ? 0 : 2, dims, NULL);
            t.out[k].dtype = QN_F32;
        }
        qn_status st = t.node.op->check(&t.node, &t.err);
        if (st == QN_OK)
            st = t.node.op->infer(&(qn_infer){ .node = &t.node,
                                               .n_in = refused[i].n_in,
                                               .n_out = refused[i].n_out,
                                               .in = t.in, .out = t.out },
                                  &t.err);
        if (st != refused[i].status ||
            (refused[i].says && !strstr(t.err.text, refused[i].says)))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), t.err.text);
        test_node_release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_moves),
        cmocka_unit_test(test_special),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
