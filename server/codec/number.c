/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading numbers.
 *
 * Three ways to a double, the cheapest that is exact: one multiplication or
 * division of doubles when both operands are exact (W. Clinger, "How to read
 * floating point numbers accurately", 1990); a 128-bit product with a power of
 * five (D. Lemire, "Number Parsing at a Gigabyte per Second", 2021; N. Mushtak
 * and D. Lemire, "Fast Number Parsing Without Fallback", 2022, prove that 19
 * digits need nothing else); and, for longer digit strings that straddle a
 * midpoint, a comparison of whole numbers.
 *
 * Narrower types are rounded from that double. It differs from the text by less
 * than half a unit in its last place, so the second rounding can only go wrong
 * where the double lies exactly on a midpoint of the narrow type: there, and
 * only there, the text is compared with the midpoint.
 */
#include "server/codec/number.h"

#include "runtime/base/half.h"
#include "server/codec/decimal.h"
#include "server/codec/powers.h"
#include "server/codec/wide.h"

#include <float.h>
#include <string.h>

/* ---- text to digits and exponent ---- */

static uint64_t load_le(const char *p)
{
    uint64_t w;

    memcpy(&w, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    return w;
}

/* Eight digits as bytes 0 to 9, the first one lowest, to their value. */
static uint64_t eight_digits(uint64_t v)
{
    v = v * 10 + (v >> 8); /* pairs, in every other byte */
    return ((v & 0x000000ff000000ffu) * 0x000f424000000064u +
            ((v >> 16) & 0x000000ff000000ffu) * 0x0000271000000001u) >> 32;
}

/* Append the run of digits at p to *value (which may wrap: the caller counts
 * the digits). Up to eight at a time while eight bytes can be loaded: how many
 * there are then costs no branch that could be mispredicted. */
static inline const char *read_run(const char *p, const char *end, uint64_t *value)
{
    static const uint32_t tens[] = { 1,      10,      100,      1000,    10000,
                                     100000, 1000000, 10000000, 100000000 };
    uint64_t w = *value;

    while (end - p >= 8) {
        uint64_t v = load_le(p) ^ 0x3030303030303030u;
        uint64_t other = ((v + 0x7676767676767676u) | v) & 0x8080808080808080u;
        unsigned n = other ? (unsigned)__builtin_ctzll(other) / 8 : 8;

        /* the n digits go to the high end, zeros come before; two shifts, as
         * one of 64 bits is not defined */
        w = w * tens[n] + eight_digits(v << (32 - 4 * n) << (32 - 4 * n));
        p += n;
        if (n < 8) {
            *value = w;
            return p;
        }
    }
    for (; p < end && (unsigned char)(*p - '0') <= 9; p++)
        w = w * 10 + (unsigned)(*p - '0');
    *value = w;
    return p;
}

/* More than 19 digits were read: keep the first 19 significant ones. */
static void keep_nineteen(const char *p, const char *end, qn_decimal *out)
{
    uint64_t digits = 0;
    int64_t dropped = 0;
    int taken = 0;

    out->more = false;
    for (; p < end; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (digit > 9)
            continue; /* the point */
        if (taken < 19) {
            digits = digits * 10 + digit;
            taken += digits != 0;
        } else {
            dropped++;
            out->more |= digit != 0;
        }
    }
    out->digits = digits;
    out->exponent += dropped;
}

static const char *read_exponent(const char *p, const char *end, int64_t *out)
{
    bool negative = false;
    int64_t e = 0;
    const char *first;

    if (p < end && (*p == '-' || *p == '+'))
        negative = *p++ == '-';
    for (first = p; p < end && (unsigned char)(*p - '0') <= 9; p++)
        if (e < (int64_t)1 << 48) /* far beyond any length of text */
            e = e * 10 + (*p - '0');
    *out += negative ? -e : e;
    return p == first ? NULL : p;
}

const char *qn_decimal_read(const char *p, const char *end, qn_decimal *out)
{
    const char *digits, *stop;
    uint64_t value = 0;
    ptrdiff_t count;

    out->text = p;
    out->negative = p < end && *p == '-';
    p += out->negative;
    digits = p;
    p = read_run(p, end, &value);
    count = p - digits;
    if (!count || (*digits == '0' && count > 1))
        return NULL;
    out->exponent = 0;
    if (p < end && *p == '.') {
        const char *fraction = ++p;

        p = read_run(p, end, &value);
        if (p == fraction)
            return NULL;
        out->exponent = fraction - p;
        count += p - fraction;
    }
    stop = p;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p = read_exponent(p + 1, end, &out->exponent);
        if (!p)
            return NULL;
    }
    out->digits = value;
    out->more = false;
    if (count > 19)
        keep_nineteen(digits, stop, out);
    out->len = (size_t)(p - out->text);
    return p;
}

/* ---- to binary ---- */

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

/* Bits of the double nearest to w * 10^q. */
static uint64_t scale(uint64_t w, int64_t q)
{
    static const uint64_t infinite = (uint64_t)0x7ff << 52;
    qn_u128 product;
    uint64_t high, low, mantissa;
    int zeros, top, shift;
    int64_t exponent;

    if (!w || q < QN_POWERS_FIRST)
        return 0;
    if (q > 308)
        return infinite;
    const uint64_t *power = qn_powers_of_five[q - QN_POWERS_FIRST];
    zeros = __builtin_clzll(w);
    w <<= zeros;
    product = (qn_u128)w * power[0];
    /* the low half only matters if the bits below the mantissa are all ones */
    if (((uint64_t)(product >> 64) & 0x1ff) == 0x1ff)
        product += (uint64_t)(((qn_u128)w * power[1]) >> 64);
    high = (uint64_t)(product >> 64);
    low = (uint64_t)product;
    top = (int)(high >> 63);
    shift = top + 9; /* leaves 53 bits and one to round by */
    mantissa = high >> shift;
    /* floor(q * log2(10)) + 63 is the exponent of the product's top bit */
    exponent = ((217706 * q) >> 16) + 63 + top - zeros + 1023;
    if (exponent <= 0) {
        /* subnormal: no product of 19 digits ties here */
        if (exponent <= -63)
            return 0;
        mantissa >>= 1 - exponent;
        mantissa = (mantissa + (mantissa & 1)) >> 1;
        return mantissa; /* 2^52 is the first normal number, as it should */
    }
    /* An exact tie: possible only where 5^|q| fits; even means down here. */
    if (low <= 1 && q >= -4 && q <= 23 && (mantissa & 3) == 1 &&
        mantissa << shift == high)
        mantissa--;
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa >> 53) {
        mantissa >>= 1;
        exponent++;
    }
    if (exponent >= 0x7ff)
        return infinite;
    return (mantissa & (((uint64_t)1 << 52) - 1)) | (uint64_t)exponent << 52;
}

/* |d| for digits that were cut off. */
static uint64_t scale_long(const qn_decimal *d)
{
    uint64_t u = scale(d->digits, d->exponent);
    uint64_t mantissa = u & (((uint64_t)1 << 52) - 1);
    int exponent = (int)(u >> 52);

    if (u == scale(d->digits + 1, d->exponent))
        return u;
    /* between two neighbours: where is their midpoint? */
    if (exponent)
        mantissa |= (uint64_t)1 << 52;
    else
        exponent = 1;
    int side = qn_decimal_compare(d, 2 * mantissa + 1, exponent - 1076);
    return u + (side > 0 || (side == 0 && (u & 1)));
}

static double magnitude(const qn_decimal *d)
{
    static const double tens[] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,
                                   1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
                                   1e18, 1e19, 1e20, 1e21, 1e22 };

#if FLT_EVAL_METHOD == 0
    if (d->digits <= (uint64_t)1 << 53 && d->exponent >= -22 &&
        d->exponent <= 22 && !d->more) {
        double v = (double)d->digits;
        return d->exponent < 0 ? v / tens[-d->exponent] : v * tens[d->exponent];
    }
#endif
    return bits_f64(d->more ? scale_long(d) : scale(d->digits, d->exponent));
}

double qn_decimal_f64(const qn_decimal *d)
{
    double v = magnitude(d);

    return d->negative ? -v : v;
}

/* A binary type: bits after the point, exponent of its smallest normal number,
 * bits of its largest finite one. */
typedef struct format {
    int mantissa, lowest;
    uint32_t largest;
} format;

/* Bits of the nearest value, without sign, to the text of `d` whose nearest
 * double is v >= 0; more than format->largest on overflow. */
static uint32_t narrow(const qn_decimal *d, double v, const format *to)
{
    uint64_t u = f64_bits(v), m, kept, rest, half;
    int e = (int)(u >> 52) - 1023, shift = 52 - to->mantissa;
    bool up;

    if (e >= 128) /* past every type here, infinity too */
        return UINT32_MAX;
    if (e < to->lowest)
        shift += to->lowest - e;
    if (shift > 53) /* below half of the smallest value; subnormal doubles too */
        return 0;
    m = (u & (((uint64_t)1 << 52) - 1)) | (uint64_t)1 << 52;
    kept = m >> shift;
    half = (uint64_t)1 << (shift - 1);
    rest = m & (2 * half - 1);
    up = rest > half;
    if (rest == half) {
        int side = qn_decimal_compare(d, m, e - 52);
        up = side > 0 || (side == 0 && (kept & 1));
    }
    kept += up;
    if (e > to->lowest)
        kept += (uint64_t)(e - to->lowest) << to->mantissa;
    return (uint32_t)kept;
}

float qn_decimal_f32(const qn_decimal *d)
{
    static const format single = { 23, -126, 0x7f7fffff };
    double v = magnitude(d);
    uint32_t u;

    /* not on a midpoint, nor where more than 29 bits are cut off? */
    if ((f64_bits(v) & 0x1fffffff) != 0x10000000 &&
        ((v >= (double)FLT_MIN && v <= (double)FLT_MAX) || v == 0)) {
        float f = (float)v;
        return d->negative ? -f : f;
    }
    u = narrow(d, v, &single);
    if (u > single.largest)
        u = 0x7f800000;
    return qn_bits_f32(u | (uint32_t)d->negative << 31);
}

/* FP8_E8M0: powers of two from 2^-127, no sign and no zero. The nearest one,
 * on a tie the one with the even exponent field. */
static bool power_of_two(const qn_decimal *d, double v, uint16_t *bits)
{
    uint64_t u = f64_bits(v), fraction = u & (((uint64_t)1 << 52) - 1);
    uint64_t half = (uint64_t)1 << 51;
    int field = (int)(u >> 52) - 1023 + 127;

    if (d->negative || field < -1 || field > 254)
        return false;
    int side = fraction < half ? -1 : fraction > half;
    if (!side)
        side = qn_decimal_compare(d, fraction | (uint64_t)1 << 52,
                                  field - 127 - 52);
    field += side > 0 || (side == 0 && (field & 1));
    *bits = (uint16_t)field;
    return field >= 0 && field <= 254;
}

bool qn_decimal_small(const qn_decimal *d, qn_dtype dtype, uint16_t *bits)
{
    double v = magnitude(d);
    format to;
    unsigned sign;
    uint32_t u;

    switch (dtype) {
    case QN_F16:
        to = (format){ 10, -14, 0x7bff };
        sign = 15;
        break;
    case QN_BF16:
        to = (format){ 7, -126, 0x7f7f };
        sign = 15;
        break;
    case QN_F8E4M3FN:
        to = (format){ 3, -6, 0x7e };
        sign = 7;
        break;
    case QN_F8E4M3FNUZ:
        to = (format){ 3, -7, 0x7f };
        sign = 7;
        break;
    case QN_F8E5M2:
        to = (format){ 2, -14, 0x7b };
        sign = 7;
        break;
    case QN_F8E5M2FNUZ:
        to = (format){ 2, -15, 0x7f };
        sign = 7;
        break;
    case QN_F4E2M1:
        to = (format){ 1, 0, 0x7 };
        sign = 3;
        break;
    case QN_F8E8M0:
        return power_of_two(d, v, bits);
    default:
        return false;
    }
    u = narrow(d, v, &to);
    if (u > to.largest)
        return false;
    /* the FNUZ types have no minus zero: that pattern is their NaN */
    if (d->negative &&
        (u || (dtype != QN_F8E4M3FNUZ && dtype != QN_F8E5M2FNUZ)))
        u |= (uint32_t)1 << sign;
    *bits = (uint16_t)u;
    return true;
}

/* ---- to integers ---- */

/* The units digit that did not fit in the first 19, and what follows it. */
static unsigned twentieth(const qn_decimal *d, bool *rest)
{
    const char *p = d->text, *end = d->text + d->len;
    unsigned units = 0;
    int taken = 0;

    *rest = false;
    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (digit > 9 || (!taken && !digit))
            continue;
        taken++;
        if (taken == 20)
            units = digit;
        else if (taken > 20)
            *rest |= digit != 0;
    }
    return units;
}

static qn_decimal_fit whole(const qn_decimal *d, uint64_t *out)
{
    uint64_t v = d->digits;
    int64_t e = d->exponent;

    *out = v;
    if (!v || (!e && !d->more))
        return QN_FITS;
    if (d->more) {
        bool rest;
        unsigned units;

        if (e <= 0)
            return QN_FRACTION;
        if (e > 1)
            return QN_OUTSIDE;
        units = twentieth(d, &rest);
        if (rest)
            return QN_FRACTION;
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, units, &v))
            return QN_OUTSIDE;
    }
    for (e = d->more ? 0 : e; e > 0; e--)
        if (__builtin_mul_overflow(v, 10u, &v))
            return QN_OUTSIDE;
    for (; e < 0; e++) {
        if (v % 10)
            return QN_FRACTION;
        v /= 10;
    }
    *out = v;
    return QN_FITS;
}

qn_decimal_fit qn_decimal_i64(const qn_decimal *d, int64_t *out)
{
    uint64_t v;
    qn_decimal_fit fit = whole(d, &v);

    if (fit != QN_FITS)
        return fit;
    if (v > (uint64_t)INT64_MAX + d->negative)
        return QN_OUTSIDE;
    *out = d->negative ? (int64_t)(0 - v) : (int64_t)v;
    return QN_FITS;
}

qn_decimal_fit qn_decimal_u64(const qn_decimal *d, uint64_t *out)
{
    uint64_t v;
    qn_decimal_fit fit = whole(d, &v);

    if (fit == QN_FITS && d->negative && v)
        return QN_OUTSIDE;
    if (fit == QN_FITS)
        *out = v;
    return fit;
}
