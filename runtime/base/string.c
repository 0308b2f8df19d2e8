/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/string.h"

#include <string.h>

qn_status qn_string_put(qn_strings *strings, const char *bytes, size_t len,
                        qn_string *out, qn_error *err)
{
    *out = (qn_string){ 0, 0 };
    if (!len)
        return QN_OK;
    if (!strings || !strings->base[QN_STRINGS_REQUEST] ||
        len > strings->limit - strings->used)
        return qn_fail(err, QN_NO_MEMORY,
                       "%zu more bytes of strings exceed the request's quota of "
                       "%zu (%zu used); raise dynamic_bytes in config.json",
                       len, strings ? strings->limit : 0,
                       strings ? strings->used : 0);
    memcpy(strings->base[QN_STRINGS_REQUEST] + strings->used, bytes, len);
    *out = qn_string_at(QN_STRINGS_REQUEST, strings->used, len);
    strings->used += len;
    return QN_OK;
}
