/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/support/fill.h"

#include "runtime/base/half.h"
#include "tests/support/rows.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const double odd_floats[] = {
    NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-42, -1e-42, 65519, 65520, -70000,
    2147483648.0, -2147483904.0, 9.3e18, -9.3e18, 4294967296.0, 1e30, 448, 464,
    -57344, 61440, 0.0009765625, 1.5e-8, 255.5, -128.75
};
enum { ODD = sizeof odd_floats / sizeof odd_floats[0], EVERY = 7 };

static void put_float(qn_dtype t, double v, char *at)
{
    float f = (float)v;
    uint16_t h = t == QN_F16 ? qn_f64_to_f16(v) : qn_f64_to_bf16(v);
    if (t == QN_F64)
        memcpy(at, &v, 8);
    else if (t == QN_F32)
        memcpy(at, &f, 4);
    else
        memcpy(at, &h, 2);
}

static double real(int64_t k, fill_kind kind)
{
    double v = test_filler(k);
    if (kind == FILL_POSITIVE)
        return fabs(v) * 2 + 0.5;
    if (kind == FILL_ANY && k % EVERY == EVERY - 1)
        return odd_floats[k / EVERY % ODD];
    return kind == FILL_NONZERO && v == 0 ? 1.25 : v;
}

/* The low bytes of v, made an element: narrow types lie sign-extended. */
static void put_int(qn_dtype t, int64_t v, char *at)
{
    unsigned bits = qn_dtype_file_bits(t);
    if (t == QN_BOOL)
        v &= 1;
    else if (t == QN_I4 || t == QN_I2)
        v = ((v & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1));
    else if (bits < 8)
        v &= (1 << bits) - 1;
    memcpy(at, &v, qn_dtype_size(t));
}

static int64_t integer(qn_dtype t, int64_t k, fill_kind kind)
{
    static const int64_t odd[] = {
        INT64_MIN, INT64_MAX, -1,         0,           INT32_MIN,
        INT32_MAX, 127,       128,        255,         32767,
        -32768,    65535,     0x1fffffff, 1ll << 53,   (1ll << 53) + 1,
        -(1ll << 53) - 1,     (1ll << 62) + 12345,     1 << 24,
        (1 << 24) + 1
    };
    int64_t v = (int64_t)(4 * test_filler(k));
    if (kind == FILL_POSITIVE)
        return (v < 0 ? -v : v) % 6 + 1;
    if (kind == FILL_ANY && k % EVERY == EVERY - 1)
        v = odd[k / EVERY % (int64_t)(sizeof odd / sizeof odd[0])];
    if (qn_dtypes_has(QN_TYPES_UNSIGNED, t) && k % EVERY != EVERY - 1)
        v += 11;
    return kind == FILL_NONZERO && v == 0 ? 3 : v;
}

void test_fill(test_node *t, uint32_t i, qn_dtype dtype, int rank,
               const int64_t *dims, fill_kind kind)
{
    size_t size = qn_dtype_size(dtype);
    test_node_input(t, i, dtype, rank, dims, NULL);
    int64_t n = qn_count(&t->in[i]);
    char *at = qn_region_alloc(&t->region, (size_t)n + 1, size);
    assert_non_null(at);
    t->in[i].data = at;
    for (int64_t k = 0; k < n; k++, at += size) {
        int64_t at_k = k + 5 * (int64_t)i;
        uint64_t mixed = (uint64_t)at_k * 0x9e3779b97f4a7c15u;
        if (qn_dtypes_has(QN_TYPES_FLOAT, dtype) && kind != FILL_BITS)
            put_float(dtype, real(at_k, kind), at);
        else if (qn_dtypes_has(QN_TYPES_COMPLEX, dtype))
            memcpy(at, (uint64_t[]){ mixed, ~mixed }, size);
        else if (kind == FILL_BITS || (qn_dtype_file_bits(dtype) <= 8 &&
                                       dtype != QN_U8 && dtype != QN_I8))
            put_int(dtype, size == 1 ? at_k * 37 : (int64_t)mixed, at);
        else
            put_int(dtype, integer(dtype, at_k, kind), at);
    }
}

const char *test_label(char *buf, const char *op, qn_dtype dtype, size_t row)
{
    snprintf(buf, 160, "%s of %s, row %zu", op, qn_dtype_name(dtype), row);
    return buf;
}
