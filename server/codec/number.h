/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers from text and to text, exactly, and without the C locale.
 *
 * Reading: a decimal is split into its digits and exponent; a conversion then
 * rounds to nearest, ties to even. Printing: the shortest decimal that reads
 * back to the same value of the same type, the closest of those if several.
 */
#ifndef QN_CODEC_NUMBER_H
#define QN_CODEC_NUMBER_H

#include "runtime/base/dtype.h"

/*
 * value = (negative ? -1 : 1) * digits * 10^exponent, where `digits` holds the
 * first 19 significant digits. `more`: non-zero digits follow, so the value is
 * a little larger in magnitude, and the conversions go back to `text`.
 */
typedef struct qn_decimal {
    uint64_t digits;
    int64_t exponent;
    const char *text; /* first character, the sign included */
    size_t len;
    bool negative;
    bool more;
} qn_decimal;

/*
 * Read the JSON number at p; returns the first byte after it, NULL if there is
 * none (a leading zero, no digits after '.' or 'e', '+' in front, and words are
 * no numbers). Never reads at or past `end`. `text` points into the input.
 */
const char *qn_decimal_read(const char *p, const char *end, qn_decimal *out);

/* The nearest value; infinity past the type's range, never NaN. */
double qn_decimal_f64(const qn_decimal *d);
float qn_decimal_f32(const qn_decimal *d);
/* The bits of a float type of 16 bits or less, nearest. False on overflow:
 * past the largest finite value after rounding. */
bool qn_decimal_small(const qn_decimal *d, qn_dtype dtype, uint16_t *bits);

typedef enum qn_decimal_fit {
    QN_FITS,
    QN_FRACTION, /* not an integer */
    QN_OUTSIDE   /* an integer that the type cannot hold */
} qn_decimal_fit;

qn_decimal_fit qn_decimal_i64(const qn_decimal *d, int64_t *out);
qn_decimal_fit qn_decimal_u64(const qn_decimal *d, uint64_t *out);

/* Bytes that printing one number may write to; the text itself has 24 at most. */
enum { QN_PRINT_MAX = 48 };

/*
 * Print at p, where QN_PRINT_MAX bytes are free, no NUL; return the end. Finite values
 * only for the float functions. 1.0, 0.1, 1e-07, 3.4028235e+38, -0.0.
 */
char *qn_print_u64(char *p, uint64_t v);
char *qn_print_i64(char *p, int64_t v);
char *qn_print_f32(char *p, float v);
char *qn_print_f64(char *p, double v);
/* A finite value of a float type of 16 bits or less. */
char *qn_print_small(char *p, qn_dtype dtype, uint16_t bits);

#endif
