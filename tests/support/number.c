/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

qn_decimal test_read_all(const char *text)
{
    size_t len = strlen(text);
    qn_decimal d;
    const char *end = qn_decimal_read(text, text + len, &d);

    if (end != text + len || d.len != len)
        fail_msg("\"%.60s\": read %td of %zu bytes", text,
                 end ? end - text : (ptrdiff_t)-1, len);
    return d;
}

size_t test_text_of(char buf[QN_PRINT_MAX + 1], char *end)
{
    *end = 0;
    return (size_t)(end - buf);
}

int test_significant(const char *text)
{
    int n = 0, last = 0;

    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9' || (!n && *text == '0'))
            continue;
        n++;
        if (*text != '0')
            last = n;
    }
    return last;
}
