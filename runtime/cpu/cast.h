/* SPDX-License-Identifier: Apache-2.0 */
/* Cast's strings: numbers as text and back. */
#ifndef QN_CPU_CAST_H
#define QN_CPU_CAST_H

#include "runtime/cpu/convert.h"
#include "runtime/exec/kernel.h"

enum { QN_CAST_TEXT = 32 }; /* longest: -1.7976931348623157e+308 */

/*
 * One element as text; returns its length. Integers in decimal, booleans as
 * True and False, floats by the fewest digits that give the same number back in
 * their own type: plain from 1e-4 to below 1e16 and with a fraction always
 * ("300.0"), else like "1.5e-07"; inf, -inf, nan.
 */
size_t qn_cast_print(qn_dtype from, const void *element,
                     char text[QN_CAST_TEXT]);

/*
 * Text, all of it, into one element. A decimal number with an optional sign,
 * fraction and exponent; for floats also inf and nan in any case; for booleans
 * also true and false. Integers take the part before the point and must fit.
 *
 * Errors, with the text quoted: QN_INVALID not a number, QN_RANGE too large.
 */
QN_NODISCARD qn_status qn_cast_parse(const char *s, size_t len, qn_dtype to,
                                     void *element, const qn_convert_how *how,
                                     qn_error *err);

#endif
