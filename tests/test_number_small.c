/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 16 bits and less, all values of each type, against values computed
 * from the types' definitions. */
#include "tests/support/number.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Values of the types of 16 bits and less, from their definitions. */
static double small_value(qn_dtype dtype, unsigned bits)
{
    int mantissa, exponent, bias;

    switch (dtype) {
    case QN_F16:
        mantissa = 10, exponent = 5, bias = 15;
        break;
    case QN_BF16:
        mantissa = 7, exponent = 8, bias = 127;
        break;
    case QN_F8E4M3FN:
        mantissa = 3, exponent = 4, bias = 7;
        break;
    case QN_F8E4M3FNUZ:
        mantissa = 3, exponent = 4, bias = 8;
        break;
    case QN_F8E5M2:
        mantissa = 2, exponent = 5, bias = 15;
        break;
    case QN_F8E5M2FNUZ:
        mantissa = 2, exponent = 5, bias = 16;
        break;
    case QN_F4E2M1:
        mantissa = 1, exponent = 2, bias = 1;
        break;
    default:
        return ldexp(1, (int)bits - 127);
    }
    int field = (int)(bits >> mantissa & ((1u << exponent) - 1));
    int m = (int)(bits & ((1u << mantissa) - 1));
    double v = field ? ldexp(m + (1 << mantissa), field - bias - mantissa)
                     : ldexp(m, 1 - bias - mantissa);
    return bits >> (mantissa + exponent) & 1 ? -v : v;
}

static const struct small_type {
    qn_dtype dtype;
    unsigned finite; /* patterns 0 to this are finite and not negative */
    unsigned sign;   /* 0: has none */
    size_t longest;
} small_types[] = {
    { QN_F16, 0x7bff, 0x8000, 11 },    { QN_BF16, 0x7f7f, 0x8000, 12 },
    { QN_F8E4M3FN, 0x7e, 0x80, 6 },    { QN_F8E4M3FNUZ, 0x7f, 0x80, 6 },
    { QN_F8E5M2, 0x7b, 0x80, 8 },      { QN_F8E5M2FNUZ, 0x7f, 0x80, 8 },
    { QN_F4E2M1, 0x7, 0x8, 4 },        { QN_F8E8M0, 0xfe, 0, 11 },
};

static void test_small_floats_read_back(void **state)
{
    char buf[QN_PRINT_MAX + 1], other[64];

    (void)state;
    for (size_t t = 0; t < sizeof small_types / sizeof small_types[0]; t++) {
        const struct small_type *ty = &small_types[t];
        const char *name = qn_dtype_wire(ty->dtype);
        size_t longest = 0;
        int unsigned_zero = ty->dtype == QN_F8E4M3FNUZ ||
                            ty->dtype == QN_F8E5M2FNUZ;

        for (unsigned b = 0; b <= ty->finite; b++) {
            for (unsigned s = 0; s <= (ty->sign != 0); s++) {
                uint16_t bits = (uint16_t)(b | (s ? ty->sign : 0)), back = 1;
                if (s && !b && unsigned_zero)
                    continue;
                double v = small_value(ty->dtype, bits);
                size_t len = test_text_of(buf, qn_print_small(buf, ty->dtype, bits));
                qn_decimal d = test_read_all(buf);
                if (len > longest)
                    longest = len;
                if (!qn_decimal_small(&d, ty->dtype, &back) || back != bits)
                    fail_msg("%s %x: printed as %s, read as %x", name, bits,
                             buf, back);
                /* the value itself, in full, reads as its bits too */
                snprintf(other, sizeof other, "%.40e", v);
                d = test_read_all(other);
                if (!qn_decimal_small(&d, ty->dtype, &back) || back != bits)
                    fail_msg("%s %x: its value %s reads as %x", name, bits,
                             other, back);
                int n = test_significant(buf);
                if (n > 1) {
                    snprintf(other, sizeof other, "%.*e", n - 2, v);
                    d = test_read_all(other);
                    if (qn_decimal_small(&d, ty->dtype, &back) && back == bits)
                        fail_msg("%s %x: %s is longer than %s", name, bits, buf,
                                 other);
                }
            }
        }
        if (longest != ty->longest)
            fail_msg("%s: longest text %zu, the table says %zu", name, longest,
                     ty->longest);
    }
}

/* Midpoints go to the even neighbour, a hair beside them to the nearer one. */
static void test_small_floats_round(void **state)
{
    (void)state;
    for (size_t t = 0; t < sizeof small_types / sizeof small_types[0]; t++) {
        const struct small_type *ty = &small_types[t];
        char text[400];

        for (unsigned b = 0; b <= ty->finite; b++) {
            double v = small_value(ty->dtype, b);
            double w = small_value(ty->dtype, b + 1);
            if (ty->dtype == QN_F8E8M0)
                w = 2 * v;
            else if (b == ty->finite) /* as if the exponent went on */
                w = v + (v - small_value(ty->dtype, b - 1));
            double mid = (v + w) / 2;

            for (int side = -1; side <= 1; side++) {
                int n = snprintf(text, sizeof text, "%.300f", mid);
                unsigned want = side > 0 || (side == 0 && (b & 1)) ? b + 1 : b;
                uint16_t got = 0;
                if (side > 0)
                    snprintf(text + n, 2, "1");
                if (side < 0) { /* ...0000 to ...999: borrow */
                    char *p = text + n - 1;
                    for (; *p == '0' || *p == '.'; p--)
                        if (*p == '0')
                            *p = '9';
                    (*p)--;
                    if (text[0] == '0' && text[1] != '.')
                        memmove(text, text + 1, (size_t)n);
                }
                qn_decimal d = test_read_all(text);
                bool fits = qn_decimal_small(&d, ty->dtype, &got);
                if (fits != (want <= ty->finite) || (fits && got != want))
                    fail_msg("%s: %.30s... (midpoint above %x, side %d) gave "
                             "%x, should be %x",
                             qn_dtype_wire(ty->dtype), text, b, side,
                             fits ? got : 0xffffu, want);
            }
        }
    }
}

static void test_small_floats_edges(void **state)
{
    static const struct {
        qn_dtype dtype;
        const char *text;
        int bits; /* -1: does not fit */
    } rows[] = {
        { QN_F16, "65504", 0x7bff },
        { QN_F16, "65519.999999999999999999999999999999999999", 0x7bff },
        { QN_F16, "65520", -1 },
        { QN_F16, "-65520", -1 },
        { QN_F16, "1e400", -1 },
        { QN_F16, "1e-400", 0 },
        { QN_F16, "-1e-400", 0x8000 },
        { QN_F16, "2.9802322387695312e-08", 0 },
        { QN_F16, "2.98023223876953125e-08", 0 },
        { QN_F16, "2.980232238769531250000000000000000000001e-08", 1 },
        { QN_BF16, "3.3895313892515355e38", 0x7f7f },
        { QN_BF16, "3.4e38", -1 },
        { QN_BF16, "257", 0x4380 },
        { QN_BF16, "257.00000000000000000000000000000001", 0x4381 },
        { QN_BF16, "9.2e-41", 1 },
        { QN_F8E4M3FN, "448", 0x7e },
        { QN_F8E4M3FN, "464", 0x7e },
        { QN_F8E4M3FN, "464.1", -1 },
        { QN_F8E5M2, "57344", 0x7b },
        { QN_F8E5M2, "61440", -1 },
        { QN_F8E4M3FNUZ, "-0.0", 0 },
        { QN_F8E4M3FNUZ, "-1e-9", 0 },
        { QN_F8E5M2FNUZ, "-0", 0 },
        { QN_F4E2M1, "5", 6 },
        { QN_F4E2M1, "7", -1 },
        { QN_F4E2M1, "-0.25", 8 },
        { QN_F8E8M0, "0", -1 },
        { QN_F8E8M0, "-1", -1 },
        { QN_F8E8M0, "1", 127 },
        { QN_F8E8M0, "1e300", -1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_decimal d = test_read_all(rows[i].text);
        uint16_t bits = 0xdead;
        int got = qn_decimal_small(&d, rows[i].dtype, &bits) ? bits : -1;
        if (got != rows[i].bits)
            fail_msg("%s as %s: %x, should be %x", rows[i].text,
                     qn_dtype_wire(rows[i].dtype), (unsigned)got,
                     (unsigned)rows[i].bits);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_floats_read_back),
        cmocka_unit_test(test_small_floats_round),
        cmocka_unit_test(test_small_floats_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
