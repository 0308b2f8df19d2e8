/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic on sizes that came from outside. Every helper returns false, and
 * leaves *out alone, where the exact result does not fit.
 */
#ifndef QN_BASE_CHECKED_H
#define QN_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool qn_mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool qn_add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool qn_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

static inline bool qn_add_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t r;
    if (__builtin_add_overflow(a, b, &r))
        return false;
    *out = r;
    return true;
}

/* Round up to a power-of-two alignment. */
static inline bool qn_align_size(size_t n, size_t align, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(n, align - 1, &r))
        return false;
    *out = r & ~(align - 1);
    return true;
}

#endif
