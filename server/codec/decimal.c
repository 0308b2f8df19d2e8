/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole numbers of up to 4096 bits. Needed are at most 771 digits (2562 bits)
 * against a 64-bit mantissa times 5^1114 (2587 bits), each shifted by less than
 * 1100 bits: a double's midpoints have no more than 767 significant digits, so
 * what follows the 770th only matters as "not zero".
 */
#include "server/codec/decimal.h"

#include "server/codec/wide.h"

#include <assert.h>
#include <string.h>

enum { LIMBS = 64, MAX_DIGITS = 770 };

typedef struct big {
    int n; /* limbs in use, lowest first */
    uint64_t limb[LIMBS];
} big;

static void push(big *b, uint64_t limb)
{
    if (!limb)
        return;
    assert(b->n < LIMBS);
    if (b->n < LIMBS)
        b->limb[b->n++] = limb;
}

/* b = b * factor + add */
static void multiply_add(big *b, uint64_t factor, uint64_t add)
{
    uint64_t carry = add;

    for (int i = 0; i < b->n; i++) {
        qn_u128 t = (qn_u128)b->limb[i] * factor + carry;
        b->limb[i] = (uint64_t)t;
        carry = (uint64_t)(t >> 64);
    }
    push(b, carry);
}

static void multiply_five(big *b, int64_t power)
{
    for (; power >= 27; power -= 27)
        multiply_add(b, 7450580596923828125u, 0); /* 5^27 */
    for (; power > 0; power--)
        multiply_add(b, 5, 0);
}

static void shift_left(big *b, int64_t bits)
{
    int limbs = (int)(bits / 64), rest = (int)(bits % 64);

    if (!b->n)
        return;
    if (rest)
        multiply_add(b, (uint64_t)1 << rest, 0);
    assert(b->n + limbs <= LIMBS);
    if (!limbs || b->n + limbs > LIMBS)
        return;
    memmove(b->limb + limbs, b->limb, (size_t)b->n * sizeof b->limb[0]);
    memset(b->limb, 0, (size_t)limbs * sizeof b->limb[0]);
    b->n += limbs;
}

static int compare(const big *a, const big *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (int i = a->n; i-- > 0;)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

/* The significant digits of the text; returns the power of ten to scale by. */
static int64_t read_digits(const qn_decimal *d, big *out)
{
    const char *p = d->text, *end = d->text + d->len;
    uint64_t piece = 0, scale = 1; /* digits not yet in `out`, 10^their number */
    int taken = 0;
    bool rest = false;

    for (; p < end && *p != 'e' && *p != 'E' && !rest; p++) {
        unsigned digit = (unsigned)(*p - '0');

        if (digit > 9 || (!taken && !digit))
            continue; /* sign, point, leading zeros */
        if (taken == MAX_DIGITS) {
            rest = digit != 0;
            continue;
        }
        piece = piece * 10 + digit;
        scale *= 10;
        taken++;
        if (scale == 10000000000000000000u) {
            multiply_add(out, scale, piece);
            piece = 0;
            scale = 1;
        }
    }
    multiply_add(out, scale, piece);
    if (rest)
        multiply_add(out, 10, 1);
    return d->exponent - (taken - 19) - rest;
}

int qn_decimal_compare(const qn_decimal *d, uint64_t mantissa, int exponent)
{
    big left = { 0 }, right = { 0 };
    int64_t tens = d->exponent, low;

    if (d->more)
        tens = read_digits(d, &left);
    else
        push(&left, d->digits);
    push(&right, mantissa);
    /* left * 10^tens against right * 2^exponent */
    if (tens > 0)
        multiply_five(&left, tens);
    else
        multiply_five(&right, -tens);
    low = tens < exponent ? tens : exponent;
    shift_left(&left, tens - low);
    shift_left(&right, exponent - low);
    return compare(&left, &right);
}
