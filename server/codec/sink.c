/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/alloc.h"
#include "runtime/base/checked.h"
#include "server/codec/json.h"

#include <string.h>

qn_sink qn_sink_fixed(char *data, size_t cap)
{
    return (qn_sink){ .data = data, .cap = cap };
}

static qn_status grow(qn_sink *sink, size_t more, qn_error *err)
{
    size_t need, cap = sink->cap ? sink->cap : 512;

    if (!qn_add_size(sink->len, more, &need) || need > SIZE_MAX / 2)
        return qn_fail(err, QN_TOO_LARGE, "a text of %zu bytes is too long",
                       more);
    while (cap < need)
        cap *= 2;
    char *data = qn_realloc(sink->data, cap, 1);
    if (!data)
        return qn_fail(err, QN_NO_MEMORY, "no %zu bytes for an answer", cap);
    sink->data = data;
    sink->cap = cap;
    return QN_OK;
}

qn_sink qn_sink_heap(void)
{
    return (qn_sink){ .room = grow };
}

qn_status qn_sink_room(qn_sink *sink, size_t more, qn_error *err)
{
    if (more <= sink->cap - sink->len)
        return QN_OK;
    if (sink->room)
        return sink->room(sink, more, err);
    return qn_fail(err, QN_TOO_LARGE,
                   "an answer of more than %zu bytes does not fit its buffer",
                   sink->cap);
}

qn_status qn_sink_put(qn_sink *sink, const void *bytes, size_t len,
                      qn_error *err)
{
    const char *from = bytes;

    /* in pieces, so that a draining sink may be smaller than what is put */
    while (len) {
        size_t room = sink->cap - sink->len;

        if (!room) {
            size_t more = sink->room && len > 65536 ? 65536 : len;
            qn_status st = qn_sink_room(sink, more, err);
            if (st != QN_OK)
                return st;
            continue;
        }
        if (!sink->room && room < len)
            return qn_sink_room(sink, len, err);
        if (room > len)
            room = len;
        memcpy(sink->data + sink->len, from, room);
        sink->len += room;
        from += room;
        len -= room;
    }
    return QN_OK;
}
