/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Printing numbers.
 *
 * Floats follow R. Giulietti, "The Schubfach way to render doubles" (2021),
 * section numbers below are that paper's. A value v = c * 2^q has an interval
 * of reals that round to it; k is chosen so that 10^k is just below the
 * interval's width. Then at most one multiple of 10^(k+1) lies inside, and
 * taking off its trailing zeros gives the shortest decimal; failing that, the
 * multiple of 10^k nearest to v. All of it is done on 4v and the interval's
 * ends scaled by 10^-k, rounded to odd: two bits and a sticky one decide.
 *
 * The narrow types share the 64-bit version: the method never asks how many
 * bits c has.
 */
#include "server/codec/number.h"

#include "runtime/base/half.h"
#include "server/codec/powers.h"
#include "server/codec/wide.h"

#include <string.h>

static const char pairs[] =
    "00010203040506070809101112131415161718192021222324"
    "25262728293031323334353637383940414243444546474849"
    "50515253545556575859606162636465666768697071727374"
    "75767778798081828384858687888990919293949596979899";

static unsigned count_digits(uint64_t v)
{
    static const uint64_t tens[] = { 0,
                                     10,
                                     100,
                                     1000,
                                     10000,
                                     100000,
                                     1000000,
                                     10000000,
                                     100000000,
                                     1000000000,
                                     10000000000,
                                     100000000000,
                                     1000000000000,
                                     10000000000000,
                                     100000000000000,
                                     1000000000000000,
                                     10000000000000000,
                                     100000000000000000,
                                     1000000000000000000,
                                     10000000000000000000u };
    /* 1233 / 4096 is log10(2): off by one at most, upwards */
    unsigned n = ((64 - (unsigned)__builtin_clzll(v | 1)) * 1233) >> 12;

    return n + (v >= tens[n]);
}

/* Exactly n digits of v, leading zeros too. By fours: the divisions of one
 * block do not wait for those of the next. */
static inline void put_digits(char *p, uint64_t v, unsigned n)
{
    while (n >= 4) {
        uint64_t rest = v / 10000;
        uint32_t block = (uint32_t)(v - rest * 10000), high = block / 100;

        n -= 4;
        memcpy(p + n, pairs + 2 * high, 2);
        memcpy(p + n + 2, pairs + 2 * (block - 100 * high), 2);
        v = rest;
    }
    if (n >= 2) {
        n -= 2;
        memcpy(p + n, pairs + 2 * (v % 100), 2);
        v /= 100;
    }
    if (n)
        *p = (char)('0' + v % 10);
}

char *qn_print_u64(char *p, uint64_t v)
{
    unsigned n = v ? count_digits(v) : 1;

    put_digits(p, v, n);
    return p + n;
}

char *qn_print_i64(char *p, int64_t v)
{
    uint64_t u = (uint64_t)v;

    if (v < 0) {
        *p++ = '-';
        u = 0 - u;
    }
    return qn_print_u64(p, u);
}

/* ---- shortest digits ---- */

/* v = digits * 10^exponent, digits not a multiple of ten (or zero) */
typedef struct decimal {
    uint64_t digits;
    int exponent;
} decimal;

/* floor(log10(2^q)), floor(log10(3/4 * 2^q)), floor(log2(10^e)), section 8.1:
 * exact far beyond the exponents of a double. */
static int log10_of_two(int q)
{
    return (int)((q * INT64_C(661971961083)) >> 41);
}

static int log10_of_two_less(int q)
{
    return (int)((q * INT64_C(661971961083) - INT64_C(274743187321)) >> 41);
}

static int log2_of_ten(int e)
{
    return (int)((e * INT64_C(913124641741)) >> 38);
}

/* 10^k scaled to 126 bits, rounded down, plus one: the g of section 8.2. */
static qn_u128 scaled_ten(int k)
{
    const uint64_t *row = qn_powers_of_five[k - QN_POWERS_FIRST];
    qn_u128 v = (qn_u128)row[0] << 64 | row[1];

    if (k < 0)
        v--; /* the table rounds these up */
    return (v >> 2) + 1;
}

static decimal trimmed(uint64_t digits, int exponent)
{
    while (digits % 10 == 0) {
        digits /= 10;
        exponent++;
    }
    return (decimal){ digits, exponent };
}

/* vb, vbl, vbr: 4v and the interval's ends over 10^k, rounded to odd; `open`
 * is 1 where the ends do not belong to the interval (c odd). Section 9. */
static decimal choose(uint64_t vb, uint64_t vbl, uint64_t vbr, unsigned open,
                      int k)
{
    uint64_t s = vb >> 2, tens = s / 10 * 10;
    bool down = vbl + open <= tens << 2;
    bool up = ((tens + 10) << 2) + open <= vbr;
    uint64_t middle;

    if (down != up)
        return trimmed(down ? tens : tens + 10, k);
    down = vbl + open <= s << 2;
    up = ((s + 1) << 2) + open <= vbr;
    if (down != up)
        return trimmed(down ? s : s + 1, k);
    middle = 4 * s + 2;
    return trimmed(vb < middle || (vb == middle && !(s & 1)) ? s : s + 1, k);
}

static uint64_t round_odd_32(uint64_t g, uint64_t cp)
{
    uint64_t high = (uint64_t)(((qn_u128)g * cp) >> 64);

    return high >> 31 | ((high & 0x7fffffff) != 0);
}

/* For c below 2^24. `uneven`: the next smaller value is only half as far as
 * the next larger one (c is a power of two, the exponent not the lowest). */
static decimal shortest_32(uint32_t c, int q, bool uneven)
{
    int k = uneven ? log10_of_two_less(q) : log10_of_two(q);
    int h = q + log2_of_ten(-k) + 33;
    uint64_t g = (uint64_t)(scaled_ten(-k) >> 63) + 1;
    uint64_t cb = (uint64_t)c << 2;

    return choose(round_odd_32(g, cb << h),
                  round_odd_32(g, (cb - (uneven ? 1 : 2)) << h),
                  round_odd_32(g, (cb + 2) << h), c & 1, k);
}

static uint64_t round_odd_64(qn_u128 g, uint64_t cp)
{
    qn_u128 low = (qn_u128)(uint64_t)g * cp;
    qn_u128 high = (qn_u128)(uint64_t)(g >> 64) * cp +
                             (uint64_t)(low >> 64);
    uint64_t sticky = (uint64_t)high & INT64_MAX;

    return (uint64_t)(high >> 63) | (sticky != 0);
}

static decimal shortest_64(uint64_t c, int q, bool uneven)
{
    int k = uneven ? log10_of_two_less(q) : log10_of_two(q);
    int h = q + log2_of_ten(-k) + 2;
    qn_u128 g = scaled_ten(-k);
    uint64_t cb = c << 2;

    return choose(round_odd_64(g, cb << h),
                  round_odd_64(g, (cb - (uneven ? 1 : 2)) << h),
                  round_odd_64(g, (cb + 2) << h), c & 1, k);
}

/* ---- digits to text ---- */

/*
 * Positional from 0.0001 up to, but not including, 10^places; else with an
 * exponent of at least two digits, as Python prints it. `places` keeps the
 * longest text as long as the longest one with an exponent.
 *
 * Copies are of a fixed size, more than is needed, because those are single
 * moves: all of them stay within QN_PRINT_MAX.
 */
enum { PIECE = 17 };

static char *put_decimal(char *p, decimal d, int places)
{
    int n = (int)count_digits(d.digits), e = d.exponent + n - 1;
    char digits[48];

    put_digits(digits, d.digits, (unsigned)n);
    if (e >= 0 && e < places) {
        memcpy(p, digits, PIECE);
        if (d.exponent >= 0) {
            memset(p + n, '0', 16);
            p += n + d.exponent;
            memcpy(p, ".0", 2);
            return p + 2;
        }
        p[e + 1] = '.';
        memcpy(p + e + 2, digits + e + 1, PIECE);
        return p + n + 1;
    }
    if (e < 0 && e >= -4) {
        memcpy(p, "0.000", 5);
        p += 1 - e;
        memcpy(p, digits, PIECE);
        return p + n;
    }
    p[0] = digits[0];
    p[1] = '.';
    memcpy(p + 2, digits + 1, PIECE);
    p += n > 1 ? n + 1 : 1;
    *p++ = 'e';
    *p++ = e < 0 ? '-' : '+';
    e = e < 0 ? -e : e;
    if (e >= 100) {
        *p++ = (char)('0' + e / 100);
        e %= 100;
    }
    memcpy(p, pairs + 2 * e, 2);
    return p + 2;
}

enum { PLACES_32 = 9, PLACES_64 = 16 };

static char *put_zero(char *p)
{
    memcpy(p, "0.0", 3);
    return p + 3;
}

char *qn_print_f32(char *p, float v)
{
    uint32_t u = qn_f32_bits(v), c = u & 0x7fffff;
    int field = (int)(u >> 23 & 255);

    if (u >> 31)
        *p++ = '-';
    if (!field && !c)
        return put_zero(p);
    if (field)
        c |= 1u << 23;
    if (field >= 127 && field <= 150 &&
        !(c & ((1u << (150 - field)) - 1))) {
        /* an integer below 2^24 is its own shortest text */
        p = qn_print_u64(p, c >> (150 - field));
        memcpy(p, ".0", 2);
        return p + 2;
    }
    return put_decimal(p,
                       shortest_32(c, (field ? field : 1) - 150,
                                   c == 1u << 23 && field > 1),
                       PLACES_32);
}

char *qn_print_f64(char *p, double v)
{
    uint64_t u, c;
    int field;

    memcpy(&u, &v, sizeof u);
    c = u & (((uint64_t)1 << 52) - 1);
    field = (int)(u >> 52 & 0x7ff);
    if (u >> 63)
        *p++ = '-';
    if (!field && !c)
        return put_zero(p);
    if (field)
        c |= (uint64_t)1 << 52;
    if (field >= 1023 && field <= 1075 &&
        !(c & (((uint64_t)1 << (1075 - field)) - 1))) {
        p = qn_print_u64(p, c >> (1075 - field));
        memcpy(p, ".0", 2);
        return p + 2;
    }
    return put_decimal(p,
                       shortest_64(c, (field ? field : 1) - 1075,
                                   c == (uint64_t)1 << 52 && field > 1),
                       PLACES_64);
}

/* `mantissa` explicit bits, `exponent` bits, `lowest` the exponent of the
 * smallest normal number. */
static char *print_format(char *p, uint32_t bits, int mantissa, int exponent,
                          int lowest)
{
    uint32_t c = bits & ((1u << mantissa) - 1);
    int field = (int)(bits >> mantissa & ((1u << exponent) - 1));

    if (bits >> (mantissa + exponent) & 1)
        *p++ = '-';
    if (!field && !c)
        return put_zero(p);
    if (field)
        c |= 1u << mantissa;
    return put_decimal(p,
                       shortest_32(c, (field ? field - 1 : 0) + lowest -
                                          mantissa,
                                   c == 1u << mantissa && field > 1),
                       PLACES_32);
}

char *qn_print_small(char *p, qn_dtype dtype, uint16_t bits)
{
    switch (dtype) {
    case QN_F16:
        return print_format(p, bits, 10, 5, -14);
    case QN_BF16:
        return print_format(p, bits, 7, 8, -126);
    case QN_F8E4M3FN:
        return print_format(p, bits, 3, 4, -6);
    case QN_F8E4M3FNUZ:
        return print_format(p, bits, 3, 4, -7);
    case QN_F8E5M2:
        return print_format(p, bits, 2, 5, -14);
    case QN_F8E5M2FNUZ:
        return print_format(p, bits, 2, 5, -15);
    case QN_F4E2M1:
        return print_format(p, bits, 1, 2, 0);
    case QN_F8E8M0:
        /* 2^(bits - 127): c is 1 and the smaller neighbour is at half */
        return put_decimal(p, shortest_32(1, bits - 127, true), PLACES_32);
    default:
        return put_zero(p);
    }
}
