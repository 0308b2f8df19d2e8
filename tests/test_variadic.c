/* SPDX-License-Identifier: Apache-2.0 */
/* Max, Min, Sum, Mean of one to many operands, and Where. */
#include "tests/support/node.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define V(...) (const int64_t[]){ __VA_ARGS__ }

static void run(test_node *n, const char *what)
{
    if (test_node_run(n) != QN_OK)
        fail_msg("%s: %s", what, n->err.text);
}

/* One, two, and three operands; the third broadcasts down the columns. */
static void test_counts(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        float want[3][6];
    } rows[] = {
        { "Max",
          { { 1, -2, NAN, 4, 5, 6 },
            { 3, 3, NAN, 4, 5, 6 },
            { 3.5f, 3.5f, NAN, 4, 5, 6 } } },
        { "Min",
          { { 1, -2, NAN, 4, 5, 6 },
            { 1, -2, NAN, 3, 3, 3 },
            { 1, -2, NAN, 2, 2, 2 } } },
        { "Sum",
          { { 1, -2, NAN, 4, 5, 6 },
            { 4, 1, NAN, 7, 8, 9 },
            { 7.5f, 4.5f, NAN, 9, 10, 11 } } },
        { "Mean",
          { { 1, -2, NAN, 4, 5, 6 },
            { 2, 0.5f, NAN, 3.5f, 4, 4.5f },
            { 2.5f, 1.5f, NAN, 3, 10 / 3.0f, 11 / 3.0f } } },
    };
    const float a[] = { 1, -2, NAN, 4, 5, 6 }, b = 3, c[] = { 3.5f, 2 };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (uint32_t count = 1; count <= 3; count++) {
            test_node n = { 0 };
            test_node_init(&n, rows[r].op, 13, count, 1);
            test_node_input(&n, 0, QN_F32, 2, V(2, 3), a);
            if (count > 1)
                test_node_input(&n, 1, QN_F32, 0, NULL, &b);
            if (count > 2)
                test_node_input(&n, 2, QN_F32, 2, V(2, 1), c);
            run(&n, rows[r].op);
            test_node_expect_f32(&n, 0, 2, V(2, 3), rows[r].want[count - 1],
                                 1e-6, 0);
            test_node_release(&n);
        }
}

/* NaN wins from either side, in a vector's body and its tail. */
static void test_nan(void **state)
{
    (void)state;
    const char *ops[] = { "Max", "Min" };
    float a[37], b[37], want[2][37];
    for (int i = 0; i < 37; i++) {
        a[i] = i % 3 == 1 ? NAN : (float)i;
        b[i] = i % 3 == 2 ? NAN : 20;
        want[0][i] = i % 3 ? NAN : i > 20 ? (float)i : 20;
        want[1][i] = i % 3 ? NAN : i > 20 ? 20 : (float)i;
    }
    for (int op = 0; op < 2; op++)
        for (uint32_t count = 2; count <= 3; count++) {
            test_node n = { 0 };
            test_node_init(&n, ops[op], 8, count, 1);
            test_node_input(&n, 0, QN_F32, 1, V(37), a);
            test_node_input(&n, 1, QN_F32, 1, V(37), b);
            test_node_input(&n, 2, QN_F32, 1, V(37), b);
            run(&n, ops[op]);
            test_node_expect_f32(&n, 0, 1, V(37), want[op], 0, 0);
            test_node_release(&n);
        }
}

/* 1 + 2^-11 + 2^-11 in float16: rounded once it is 1 + 2^-10. */
static void test_half_sum_rounds_once(void **state)
{
    (void)state;
    const uint16_t one = 0x3c00, tiny = 0x1000, want = 0x3c01;
    test_node n = { 0 };
    test_node_init(&n, "Sum", 13, 3, 1);
    test_node_input(&n, 0, QN_F16, 0, NULL, &one);
    test_node_input(&n, 1, QN_F16, 0, NULL, &tiny);
    test_node_input(&n, 2, QN_F16, 0, NULL, &tiny);
    run(&n, "Sum");
    test_node_expect(&n, 0, QN_F16, 0, NULL, &want);
    test_node_release(&n);
}

/* Over several stretches, with every operand in another shape. */
static void test_long(void **state)
{
    (void)state;
    enum { ROWS = 3, COLUMNS = 1500 };
    static int64_t a[ROWS * COLUMNS], b[COLUMNS], want[ROWS * COLUMNS];
    const int64_t c[ROWS] = { -5, 700, 100000 };
    for (int i = 0; i < ROWS * COLUMNS; i++)
        a[i] = i * 7919 % 2003;
    for (int i = 0; i < COLUMNS; i++)
        b[i] = i * 31 % 1009;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int64_t m = a[i] > b[i % COLUMNS] ? a[i] : b[i % COLUMNS];
        want[i] = m > c[i / COLUMNS] ? m : c[i / COLUMNS];
    }
    test_node n = { 0 };
    test_node_init(&n, "Max", 12, 3, 1);
    test_node_input(&n, 0, QN_I64, 2, V(ROWS, COLUMNS), a);
    test_node_input(&n, 1, QN_I64, 1, V(COLUMNS), b);
    test_node_input(&n, 2, QN_I64, 2, V(ROWS, 1), c);
    run(&n, "Max");
    test_node_expect(&n, 0, QN_I64, 2, V(ROWS, COLUMNS), want);
    test_node_release(&n);
}

/* ---- Where ---- */

static const struct {
    int rank[3];
    int64_t dims[3][3]; /* condition, then the two sides */
} shapes[] = {
    { { 1, 1, 1 }, { { 12 }, { 12 }, { 12 } } },
    { { 2, 2, 2 }, { { 3, 4 }, { 3, 1 }, { 4, 0 } } },
    { { 2, 0, 2 }, { { 3, 4 }, { 0 }, { 3, 4 } } },
    { { 2, 2, 0 }, { { 3, 4 }, { 3, 4 }, { 0 } } },
    { { 2, 0, 0 }, { { 3, 4 }, { 0 }, { 0 } } },
    { { 2, 2, 0 }, { { 3, 1 }, { 3, 4 }, { 0 } } },
    { { 0, 2, 2 }, { { 0 }, { 3, 4 }, { 3, 4 } } },
    { { 3, 3, 3 }, { { 2, 1, 2 }, { 1, 3, 2 }, { 2, 3, 1 } } },
    { { 1, 1, 1 }, { { 1 }, { 0 }, { 1 } } }, /* an empty side */
};

static int64_t index_of(int rank, const int64_t *dims, const qn_shape *out,
                        int64_t flat)
{
    int64_t at = 0, step = 1;
    for (int i = out->rank - 1; i >= 0; i--) {
        int k = i - (out->rank - rank);
        if (k >= 0) {
            at += dims[k] == 1 ? 0 : flat % out->dims[i] * step;
            step *= dims[k];
        }
        flat /= out->dims[i];
    }
    return at;
}

static void check_where(size_t r, qn_dtype dtype)
{
    enum { N = 12 };
    size_t size = qn_dtype_size(dtype);
    uint8_t c[N];
    unsigned char a[N * 16], b[N * 16];
    int rank[3];
    for (int i = 0; i < N; i++)
        c[i] = i % 3 != 0;
    for (int i = 0; i < N * 16; i++) {
        a[i] = (unsigned char)i;
        b[i] = (unsigned char)(255 - i);
    }
    test_node n = { 0 };
    test_node_init(&n, "Where", 16, 3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        /* row 1's last operand: [4] */
        rank[i] = r == 1 && i == 2 ? 1 : shapes[r].rank[i];
        test_node_input(&n, i, i ? dtype : QN_BOOL, rank[i], shapes[r].dims[i],
                        i == 0   ? (void *)c
                        : i == 1 ? (void *)a
                                 : (void *)b);
    }
    if (test_node_run(&n) != QN_OK)
        fail_msg("row %zu of %s: %s", r, qn_dtype_name(dtype), n.err.text);
    const qn_shape *out = &n.out[0].shape;
    for (int64_t i = 0; i < qn_count(&n.out[0]); i++) {
        int64_t at[3];
        for (int k = 0; k < 3; k++)
            at[k] = index_of(rank[k], shapes[r].dims[k], out, i);
        const unsigned char *want = c[at[0]] ? a + (size_t)at[1] * size
                                             : b + (size_t)at[2] * size;
        if (memcmp((char *)n.out[0].data + (size_t)i * size, want, size))
            fail_msg("row %zu of %s differs at %lld", r, qn_dtype_name(dtype),
                     (long long)i);
    }
    test_node_release(&n);
}

static void test_where(void **state)
{
    (void)state;
    static const qn_dtype types[] = { QN_BOOL, QN_F16, QN_F32, QN_I64,
                                      QN_C128 };
    for (size_t r = 0; r < sizeof shapes / sizeof shapes[0]; r++)
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
            check_where(r, types[t]);
}

static void test_rejects(void **state)
{
    (void)state;
    const float x[] = { 1, 2, 3 };
    const uint8_t c = 1;
    test_node n = { 0 };
    test_node_init(&n, "Sum", 6, 2, 1);
    test_node_input(&n, 0, QN_F32, 1, V(3), x);
    test_node_input(&n, 1, QN_F32, 1, V(1), x);
    assert_int_equal(test_node_run(&n), QN_SHAPE);
    assert_non_null(strstr(n.err.text, "input 1 has shape [1]"));
    test_node_release(&n);

    n = (test_node){ 0 };
    test_node_init(&n, "Where", 9, 3, 1);
    test_node_input(&n, 0, QN_BOOL, 0, NULL, &c);
    test_node_input(&n, 1, QN_F32, 1, V(3), x);
    test_node_input(&n, 2, QN_I32, 1, V(3), x);
    assert_int_equal(test_node_run(&n), QN_TYPE);
    assert_non_null(strstr(n.err.text, "input 2 is int32"));
    test_node_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_nan),
        cmocka_unit_test(test_half_sum_rounds_once),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_rejects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
