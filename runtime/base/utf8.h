/* SPDX-License-Identifier: Apache-2.0 */
/* Well-formed UTF-8 (RFC 3629): shortest forms only, no surrogates. */
#ifndef QN_BASE_UTF8_H
#define QN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the UTF-8 sequence at p (1 to 4), 0 if it is not valid: overlong
 * forms, surrogates and code points past U+10FFFF are not. */
unsigned qn_utf8_length(const char *p, const char *end);
bool qn_utf8_valid(const char *bytes, size_t len);

#endif
