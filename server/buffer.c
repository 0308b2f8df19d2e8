/* SPDX-License-Identifier: Apache-2.0 */
#include "server/buffer.h"

#include <string.h>

qn_status qn_buffer_init(qn_pool *pool, qn_mem cls, size_t cap, qn_buffer *out,
                         qn_error *err)
{
    memset(out, 0, sizeof *out);
    out->lease.urgent = true;
    out->lease.parts[0] = (qn_lease_part){ .cls = cls, .bytes = cap ? cap : 1 };
    qn_status st = qn_pool_lease(pool, &out->lease, err);
    if (st != QN_OK) {
        memset(out, 0, sizeof *out);
        return st;
    }
    out->data = out->lease.parts[0].data;
    out->cap = out->lease.parts[0].charged;
    return QN_OK;
}

qn_status qn_buffer_grow(qn_pool *pool, qn_buffer *buffer, size_t cap,
                         qn_error *err)
{
    qn_buffer bigger;
    if (cap <= buffer->cap)
        return QN_OK;
    qn_status st = qn_buffer_init(pool, buffer->lease.parts[0].cls, cap,
                                  &bigger, err);
    if (st != QN_OK)
        return st;
    if (buffer->len)
        memcpy(bigger.data, buffer->data, buffer->len);
    bigger.len = buffer->len;
    qn_buffer_release(pool, buffer);
    *buffer = bigger;
    return QN_OK;
}

void qn_buffer_release(qn_pool *pool, qn_buffer *buffer)
{
    if (buffer->data)
        qn_pool_release(pool, &buffer->lease);
    memset(buffer, 0, sizeof *buffer);
}

qn_sink qn_buffer_sink(const qn_buffer *buffer)
{
    return qn_sink_fixed(buffer->data, buffer->cap);
}
