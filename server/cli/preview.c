/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/preview.h"

#include "server/cli/compare.h"

#include <stdio.h>
#include <string.h>

static int print_one(const qn_tensor *t, const qn_strings *strings, int64_t i,
                     char *buf, size_t size)
{
    if (t->dtype == QN_STRING) {
        qn_string s = ((const qn_string *)t->data)[i];
        return snprintf(buf, size, "\"%.*s\"", (int)(s.len > 40 ? 40 : s.len),
                        qn_string_bytes(strings, s));
    }
    if (t->dtype == QN_I64 || t->dtype == QN_U64) {
        int64_t v;
        memcpy(&v, (const char *)t->data + i * 8, sizeof v);
        return t->dtype == QN_I64
                   ? snprintf(buf, size, "%lld", (long long)v)
                   : snprintf(buf, size, "%llu", (unsigned long long)v);
    }
    if (t->dtype == QN_BOOL)
        return snprintf(buf, size, "%s",
                        qn_element(t, i, 0) != 0 ? "true" : "false");
    if (qn_dtypes_has(QN_TYPES_COMPLEX, t->dtype))
        return snprintf(buf, size, "%.7g%+.7gi", qn_element(t, i, 0),
                        qn_element(t, i, 1));
    if (qn_dtypes_has(QN_TYPES_INT, t->dtype))
        return snprintf(buf, size, "%.0f", qn_element(t, i, 0));
    return snprintf(buf, size, "%.7g", qn_element(t, i, 0));
}

const char *qn_preview(const qn_tensor *t, const qn_strings *strings, char *buf,
                       size_t size)
{
    int64_t n = qn_count(t);
    size_t len = 0;
    buf[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        char one[96];
        int k = print_one(t, strings, i, one, sizeof one);
        if (k < 0 || len + (size_t)k + 6 > size) {
            snprintf(buf + len, size - len, " ...");
            break;
        }
        len += (size_t)snprintf(buf + len, size - len, "%s%s", i ? " " : "",
                                one);
    }
    return buf;
}
