/* SPDX-License-Identifier: Apache-2.0 */
/* Is an answer the expected one? The rule of numpy.allclose. */
#ifndef QN_SERVER_CLI_COMPARE_H
#define QN_SERVER_CLI_COMPARE_H

#include "runtime/base/shape.h"
#include "runtime/base/string.h"

typedef struct qn_tolerance {
    double rtol, atol;
} qn_tolerance;

/*
 * Element type and shape are exact. Numbers: |got - want| <= atol + rtol *
 * |want|, in binary64; NaN equals NaN, an infinity equals itself. Booleans and
 * strings are exact. QN_TYPE, QN_SHAPE, or QN_INVALID with the index of the
 * first difference, both numbers, and how many elements differ.
 */
QN_NODISCARD qn_status qn_compare(const qn_tensor *got,
                                  const qn_strings *got_strings,
                                  const qn_tensor *want,
                                  const qn_strings *want_strings,
                                  qn_tolerance tolerance, qn_error *err);

/* Element i as a number; complex types: its real (part 0) or imaginary part.
 * `data` may be unaligned. */
double qn_element(const qn_tensor *t, int64_t i, int part);

#endif
