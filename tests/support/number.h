/* SPDX-License-Identifier: Apache-2.0 */
#ifndef QN_TESTS_SUPPORT_NUMBER_H
#define QN_TESTS_SUPPORT_NUMBER_H

#include "server/codec/number.h"

/* Read a text that must be a number from end to end. */
qn_decimal test_read_all(const char *text);
/* Put a NUL at the end of what was printed to buf; its length. */
size_t test_text_of(char buf[QN_PRINT_MAX + 1], char *end);
/* Significant digits of a printed number, without zeros at either end. */
int test_significant(const char *text);

#endif
