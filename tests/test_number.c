/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers against the C library in the C locale, which rounds correctly.
 *
 * QUERN_EXHAUSTIVE=1 reads back every one of the 2^32 FP32 values and tries
 * 200 times as many random texts (about ten minutes).
 */
#include "runtime/base/half.h"
#include "tests/support/number.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int exhaustive(void)
{
    const char *s = getenv("QUERN_EXHAUSTIVE");

    return s && *s && *s != '0';
}

static uint64_t next_random(uint64_t *seed)
{
    uint64_t z = (*seed += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double bits_f64(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static uint64_t f64_bits(double d)
{
    uint64_t u;
    memcpy(&u, &d, sizeof u);
    return u;
}

static void check_text(const char *text)
{
    qn_decimal d = test_read_all(text);
    double want = strtod(text, NULL), got = qn_decimal_f64(&d);
    float want32 = strtof(text, NULL), got32 = qn_decimal_f32(&d);

    if (f64_bits(want) != f64_bits(got))
        fail_msg("\"%.80s\": %a, should be %a", text, got, want);
    if (qn_f32_bits(want32) != qn_f32_bits(got32))
        fail_msg("\"%.80s\": %a as FP32, should be %a", text, (double)got32,
                 (double)want32);
}

static void test_reads_hard_cases(void **state)
{
    static const char *const texts[] = {
        "0", "-0", "0.0", "-0.0e5", "1", "-1", "0e999999999999999999999999",
        "0.1", "0.3", "1e22", "1e23", "9007199254740993",
        "9007199254740992", "9007199254740991.5", "1.7976931348623157e308",
        "1.7976931348623158e308", "1.7976931348623159e308", "1e309", "1e400",
        "179769313486231580793728971405303415079934132710037826936173778980444"
        "968292764750946649017977587207096330286416692887910946555547851940402"
        "630657488671505820681908902000708383676273854845817711531764475730270"
        "069855571366959622842914819860834936475292719074168444365510704342711"
        "559699508093042880",
        "4.9406564584124654e-324", "2.4703282292062327e-324",
        "2.4703282292062328e-324", "2.4703282292062327208e-324",
        "2.47032822920623272088284396434110686182e-324", "1e-325", "1e-400",
        "2.2250738585072011e-308", "2.2250738585072012e-308",
        "2.2250738585072014e-308", "2.225073858507201136057409796709131975934"
        "819546351645648023426109724822222021076945516529523908135087914149158"
        "913039621106870086438694594645527657207407820621743379988141063267329"
        "253552286881372149012981122451451889849057222307285255133155755015914"
        "397476397983411801999323962548289017107081850690630666655994938275772"
        "572015763062690663332647565300009245888316433037779791869612049497390"
        "377829704905051080609940730262937128958950003583799967207254304360284"
        "078895771796150945516748243471030702609144621572289880258182545180325"
        "707018860872113128079512233426288368622321503775666622503982534335974"
        "568884423900265498198385487948292206894721689831099698365846814022854"
        "243330660339850886445804001034933970427567186443383770486037861622771"
        "738545623065874679014086723327636718751234567890123456789012345678901"
        "e-308",
        "7.2057594037927933e16", "7.2057594037927932999999999999e16",
        "7.205759403792793200001e16", "9214843084008499", "0.500000000000000166"
        "533453693773481063544750213623046875", "30078505129381147446200",
        "16777217", "16777217.0000000000000000000000000000000000001",
        "16777216.99999999999999999999999999999", "33554431", "33554435",
        "3.4028234663852886e38", "3.4028235677973366e38",
        "3.40282356779733661637539395458142568447e38",
        "3.4028235677973366163753939545814256845e38",
        "340282356779733661637539395458142568447.9999999",
        "340282356779733661637539395458142568448", "3.4028236e38",
        "1.401298464324817e-45", "7.006492321624085e-46",
        "7.0064923216240853546186479164495e-46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895"
        "541342930300743319094181060791015624999999999999999999e-46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895"
        "541342930300743319094181060791015625e-46",
        "7.00649232162408535461864791644958065640130970938257885878534141944895"
        "5413429303007433190941810607910156250000000000000000001e-46",
        "1.1754943508222875e-38", "1.17549428e-38", "1.1754942e-38",
        "1.00000017881393421514957253748434595763683319091796875",
        "1.00000017881393432617187499",
        "1.00000017881393432617187500000000000000000000000000000000000000001",
        "0.000000000000000000000000000000000000000000000000000000000000000001",
        "123456789012345678901234567890123456789012345678901234567890e-40",
        "100000000000000000000000000000000000000000000000000e-50",
        "1e0000000000000000000000000000000000000001", "1E+2", "1E-2", "1e+00",
        "12345678901234567890", "18446744073709551615", "18446744073709551616",
        "9999999999999999999", "10000000000000000000", "0.99999999999999999999",
        "8.5e-45", "1e-45", "1.4e-45", "12345678", "1234567.8", "0.12345678",
        "0.123456789", "0.1234567890123456", "0.12345678901234567",
        "1.000000000000000000000000000000000000000000000000000000000000000001",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char negative[1200];
        check_text(texts[i]);
        if (texts[i][0] != '-') {
            snprintf(negative, sizeof negative, "-%s", texts[i]);
            check_text(negative);
        }
    }
}

static void test_reads_random_texts(void **state)
{
    uint64_t seed = 1;
    int rounds = exhaustive() ? 20000000 : 20000;
    char text[1400];

    (void)state;
    for (int i = 0; i < rounds; i++) {
        uint64_t r = next_random(&seed);

        switch (i % 6) {
        case 0: /* up to 19 digits, any exponent */
            snprintf(text, sizeof text, "%" PRIu64 "e%d",
                     next_random(&seed) >> (r % 64),
                     (int)(r >> 32) % 660 - 330);
            break;
        case 1: /* a double in full */
            snprintf(text, sizeof text, "%.*e", (int)(r % 25),
                     bits_f64(next_random(&seed) & ~((uint64_t)1 << 62)));
            break;
        case 2: /* the exact midpoint of two floats, or a hair beside it */
        {
            uint32_t u = (uint32_t)(r % 0x7f7fffff);
            double mid = ((double)qn_bits_f32(u) +
                          (double)qn_bits_f32(u + 1)) / 2;
            int n = snprintf(text, sizeof text, "%.160e", mid);
            char *e = strchr(text, 'e');
            if (n > 0 && e && r >> 33 & 1)
                e[-1] = (char)('1' + (r >> 34) % 9);
            break;
        }
        case 3: /* the exact midpoint of two doubles */
        {
            uint64_t u = next_random(&seed) % (((uint64_t)0x7fe << 52));
            long double mid = ((long double)bits_f64(u) +
                               (long double)bits_f64(u + 1)) / 2;
            snprintf(text, sizeof text, "%.800Le", mid);
            if (r & 1)
                strchr(text, 'e')[-1] = '1';
            break;
        }
        case 4: /* what people send */
            snprintf(text, sizeof text, "%.*f", (int)(r % 12),
                     ((double)(int64_t)next_random(&seed)) / 9.3e17);
            break;
        default:
            snprintf(text, sizeof text, "0.%0*d%" PRIu64 "%" PRIu64,
                     (int)(r % 40) + 1, 0, next_random(&seed),
                     next_random(&seed));
        }
        if (!strpbrk(text, "ni"))
            check_text(text);
    }
}

static void test_refuses_what_is_no_number(void **state)
{
    static const char *const texts[] = {
        "", "-", "+1", ".5", "-.5", "01", "-01", "00", "1.", "1.e5", "1e",
        "1e+", "1e-", "e5", "NaN", "Infinity", "- 1", "--1", "\"1\"",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        qn_decimal d;
        const char *end = texts[i] + strlen(texts[i]);
        if (qn_decimal_read(texts[i], end, &d))
            fail_msg("\"%s\" was read as a number", texts[i]);
    }
    /* stops before what does not belong to it */
    static const struct { const char *text; size_t len; } parts[] = {
        { "1,2", 1 }, { "1.5]", 3 }, { "2 ", 1 }, { "1.5.5", 3 },
        { "0x10", 1 }, { "1e5e5", 3 }, { "12345678z", 8 },
        { "0.123456789012\xff", 14 },
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        qn_decimal d;
        const char *p = parts[i].text;
        const char *end = qn_decimal_read(p, p + strlen(p), &d);
        if (end != p + parts[i].len)
            fail_msg("\"%s\": stopped at %td", p, end ? end - p : -1);
    }
}

static void test_reads_integers(void **state)
{
    static const struct {
        const char *text;
        qn_decimal_fit fit_i, fit_u;
        int64_t i;
        uint64_t u;
    } rows[] = {
        { "0", QN_FITS, QN_FITS, 0, 0 },
        { "-0", QN_FITS, QN_FITS, 0, 0 },
        { "-0.0", QN_FITS, QN_FITS, 0, 0 },
        { "0e99999999999999999999", QN_FITS, QN_FITS, 0, 0 },
        { "7", QN_FITS, QN_FITS, 7, 7 },
        { "2.0", QN_FITS, QN_FITS, 2, 2 },
        { "1e2", QN_FITS, QN_FITS, 100, 100 },
        { "1.5e1", QN_FITS, QN_FITS, 15, 15 },
        { "2500e-2", QN_FITS, QN_FITS, 25, 25 },
        { "1.5", QN_FRACTION, QN_FRACTION, 0, 0 },
        { "1e-1", QN_FRACTION, QN_FRACTION, 0, 0 },
        { "1e-99999999999999999", QN_FRACTION, QN_FRACTION, 0, 0 },
        { "-5", QN_FITS, QN_OUTSIDE, -5, 0 },
        { "9223372036854775807", QN_FITS, QN_FITS, INT64_MAX, INT64_MAX },
        { "9223372036854775807.000", QN_FITS, QN_FITS, INT64_MAX, INT64_MAX },
        { "9223372036854775808", QN_OUTSIDE, QN_FITS, 0,
          (uint64_t)INT64_MAX + 1 },
        { "-9223372036854775808", QN_FITS, QN_OUTSIDE, INT64_MIN, 0 },
        { "-9223372036854775809", QN_OUTSIDE, QN_OUTSIDE, 0, 0 },
        { "18446744073709551615", QN_OUTSIDE, QN_FITS, 0, UINT64_MAX },
        { "18446744073709551615.0", QN_OUTSIDE, QN_FITS, 0, UINT64_MAX },
        { "1844674407370955161.5e1", QN_OUTSIDE, QN_FITS, 0, UINT64_MAX },
        { "18446744073709551615.5", QN_FRACTION, QN_FRACTION, 0, 0 },
        { "18446744073709551616", QN_OUTSIDE, QN_OUTSIDE, 0, 0 },
        { "10000000000000000000", QN_OUTSIDE, QN_FITS, 0,
          10000000000000000000u },
        { "1e19", QN_OUTSIDE, QN_FITS, 0, 10000000000000000000u },
        { "1e20", QN_OUTSIDE, QN_OUTSIDE, 0, 0 },
        { "1e999999999999999", QN_OUTSIDE, QN_OUTSIDE, 0, 0 },
        { "123456789012345678901234567890", QN_OUTSIDE, QN_OUTSIDE, 0, 0 },
        { "0.00000000000000000000000000005", QN_FRACTION, QN_FRACTION, 0, 0 },
        { "1.00000000000000000000000000000", QN_FITS, QN_FITS, 1, 1 },
        { "1.00000000000000000000000000001", QN_FRACTION, QN_FRACTION, 0, 0 },
    };
    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        qn_decimal d = test_read_all(rows[k].text);
        int64_t i = 0;
        uint64_t u = 0;
        qn_decimal_fit fi = qn_decimal_i64(&d, &i), fu = qn_decimal_u64(&d, &u);

        if (fi != rows[k].fit_i || (fi == QN_FITS && i != rows[k].i))
            fail_msg("%s as INT64: %d, %" PRId64, rows[k].text, (int)fi, i);
        if (fu != rows[k].fit_u || (fu == QN_FITS && u != rows[k].u))
            fail_msg("%s as UINT64: %d, %" PRIu64, rows[k].text, (int)fu, u);
    }
}

static void test_prints_in_shape(void **state)
{
    static const struct { float v; const char *text; } singles[] = {
        { 0.0f, "0.0" }, { -0.0f, "-0.0" }, { 1.0f, "1.0" }, { 1.5f, "1.5" },
        { 0.1f, "0.1" }, { 1e-7f, "1e-07" }, { FLT_MAX, "3.4028235e+38" },
        { -FLT_MAX, "-3.4028235e+38" }, { FLT_MIN, "1.1754944e-38" },
        { 0x1p-149f, "1e-45" }, { 16777216.0f, "16777216.0" },
        { 16777215.0f, "16777215.0" }, { 1e8f, "100000000.0" },
        { 1e9f, "1e+09" }, { 123456789.0f, "123456790.0" },
        { 0.0001f, "0.0001" }, { 0.00012345679f, "0.00012345679" },
        { 0.00001f, "1e-05" }, { 255.0f, "255.0" }, { 3.14159274f, "3.1415927" },
        { 1.17549435e-38f, "1.1754944e-38" }, { 2.0e-3f, "0.002" },
        { 9.8f, "9.8" }, { 8388608.5f, "8388608.0" }, { 0x1p-148f, "3e-45" },
        { 33554432.0f, "33554432.0" }, { 1e10f, "1e+10" },
        { 8.589973e9f, "8.589974e+09" },
    };
    static const struct { double v; const char *text; } doubles[] = {
        { 0.0, "0.0" }, { -0.0, "-0.0" }, { 0.1, "0.1" }, { 0.3, "0.3" },
        { 1e15, "1000000000000000.0" }, { 1e16, "1e+16" },
        { 9007199254740993.0, "9007199254740992.0" }, { 5e-324, "5e-324" },
        { DBL_MAX, "1.7976931348623157e+308" }, { 1e-5, "1e-05" },
        { 2.2250738585072014e-308, "2.2250738585072014e-308" },
        { 1e100, "1e+100" }, { 2e-44, "2e-44" }, { 123.456, "123.456" },
        { 1e23, "1e+23" }, { 9.5e-3, "0.0095" }, { 1.0 / 3, "0.3333333333333333" },
        { 2.0 / 3 * 1e15, "666666666666666.6" },
        { -0.00012345678901234567, "-0.00012345678901234567" },
    };
    char buf[QN_PRINT_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++) {
        test_text_of(buf, qn_print_f32(buf, singles[i].v));
        if (strcmp(buf, singles[i].text))
            fail_msg("FP32 %a: \"%s\", should be \"%s\"", (double)singles[i].v,
                     buf, singles[i].text);
    }
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++) {
        test_text_of(buf, qn_print_f64(buf, doubles[i].v));
        if (strcmp(buf, doubles[i].text))
            fail_msg("FP64 %a: \"%s\", should be \"%s\"", doubles[i].v, buf,
                     doubles[i].text);
    }
    static const struct { int64_t v; const char *text; } ints[] = {
        { 0, "0" }, { 9, "9" }, { 10, "10" }, { 99, "99" }, { 100, "100" },
        { -1, "-1" }, { INT64_MAX, "9223372036854775807" },
        { INT64_MIN, "-9223372036854775808" }, { 1234567, "1234567" },
    };
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        test_text_of(buf, qn_print_i64(buf, ints[i].v));
        assert_string_equal(buf, ints[i].text);
    }
    for (uint64_t v = 1, n = 1; n < 20; v *= 10, n++) {
        char want[32];
        for (int near = -1; near <= 1; near++) {
            snprintf(want, sizeof want, "%" PRIu64, v + (uint64_t)near);
            test_text_of(buf, qn_print_u64(buf, v + (uint64_t)near));
            assert_string_equal(buf, want);
        }
    }
    test_text_of(buf, qn_print_u64(buf, UINT64_MAX));
    assert_string_equal(buf, "18446744073709551615");
}

static void check_f32(uint32_t u, int deep)
{
    char buf[QN_PRINT_MAX + 1], other[64];
    float v = qn_bits_f32(u);
    size_t len = test_text_of(buf, qn_print_f32(buf, v));
    qn_decimal d = test_read_all(buf);

    if (qn_f32_bits(qn_decimal_f32(&d)) != u)
        fail_msg("FP32 %08x: printed as %s", u, buf);
    if (len > 15)
        fail_msg("FP32 %08x: %s has %zu characters", u, buf, len);
    if (!deep || v == 0)
        return;
    /* fewer digits do not read back; as many are not closer */
    int n = test_significant(buf);
    if (strtof(buf, NULL) != v)
        fail_msg("FP32 %08x: strtof(%s) differs", u, buf);
    for (int k = n > 1 ? n - 2 : 0; k < n; k++) {
        snprintf(other, sizeof other, "%.*e", k, (double)v);
        if (k < n - 1 && strtof(other, NULL) == v)
            fail_msg("FP32 %08x: %s is longer than %s", u, buf, other);
    }
    if (strtof(other, NULL) == v &&
        fabs(strtod(buf, NULL) - (double)v) >
            fabs(strtod(other, NULL) - (double)v))
        fail_msg("FP32 %08x: %s is not as close as %s", u, buf, other);
}

static void test_f32_read_back(void **state)
{
    uint64_t seed = 2;

    (void)state;
    /* every exponent, with mantissas at and beside the corners */
    for (uint32_t exponent = 0; exponent < 255; exponent++)
        for (uint32_t bit = 0; bit <= 23; bit++)
            for (uint32_t near = 0; near < 5; near++) {
                uint32_t m = (((uint32_t)1 << bit) + near - 2) & 0x7fffff;
                check_f32(exponent << 23 | m, bit % 4 == 0);
                check_f32((exponent << 23 | m) | 0x80000000u, 0);
            }
    for (int i = 0; i < 100000; i++) {
        uint32_t u = (uint32_t)next_random(&seed);
        if ((u & 0x7f800000) != 0x7f800000)
            check_f32(u, i % 16 == 0);
    }
    if (exhaustive())
        for (uint32_t u = 0; u < 0x7f800000; u++)
            check_f32(u, 0);
}

static void test_f64_read_back(void **state)
{
    uint64_t seed = 3;
    int rounds = exhaustive() ? 40000000 : 25000;
    char buf[QN_PRINT_MAX + 1], other[64];

    (void)state;
    for (int i = 0; i < rounds; i++) {
        uint64_t u = next_random(&seed);
        if (i % 4 == 1)
            u = (u & ~(((uint64_t)1 << 52) - 1)) |
                ((((uint64_t)1 << (u % 53)) - (u >> 40 & 1)) &
                 (((uint64_t)1 << 52) - 1));
        if (i % 4 == 2)
            u = f64_bits((double)(int64_t)u / 1e12);
        if ((u >> 52 & 0x7ff) == 0x7ff)
            continue;
        double v = bits_f64(u);
        size_t len = test_text_of(buf, qn_print_f64(buf, v));
        qn_decimal d = test_read_all(buf);
        int n = test_significant(buf);
        if (f64_bits(qn_decimal_f64(&d)) != u || len > 24)
            fail_msg("FP64 %016" PRIx64 ": printed as %s", u, buf);
        if (n > 1) {
            snprintf(other, sizeof other, "%.*e", n - 2, v);
            if (strtod(other, NULL) == v)
                fail_msg("FP64 %016" PRIx64 ": %s is longer than %s", u, buf,
                         other);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_hard_cases),
        cmocka_unit_test(test_reads_random_texts),
        cmocka_unit_test(test_refuses_what_is_no_number),
        cmocka_unit_test(test_reads_integers),
        cmocka_unit_test(test_prints_in_shape),
        cmocka_unit_test(test_f32_read_back),
        cmocka_unit_test(test_f64_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
