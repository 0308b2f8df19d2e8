/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/fault.h"

unsigned qn_fault_http(qn_status status)
{
    switch (status) {
    case QN_OK:
        return 200;
    case QN_INVALID:
    case QN_FORMAT:
    case QN_SHAPE:
    case QN_TYPE:
    case QN_RANGE:
    case QN_UNSUPPORTED:
    case QN_TOO_LARGE:
        return 400;
    case QN_NOT_FOUND:
        return 404;
    case QN_BUSY:
        return 429;
    case QN_CANCELLED:
        return 499;
    case QN_NOT_READY:
    case QN_NO_MEMORY:
    case QN_DEVICE_LOST:
        return 503;
    case QN_DEADLINE:
        return 504;
    case QN_IO:
    case QN_DEVICE:
    case QN_INTERNAL:
    case QN_STATUS_COUNT:
        break;
    }
    return 500;
}

static void detail(qn_json *json, bool *open, const char *key,
                   const char *value)
{
    if (!value[0])
        return;
    if (!*open)
        qn_json_object(json, "details");
    *open = true;
    qn_json_string(json, key, value);
}

qn_status qn_fault_write(qn_sink *sink, const qn_error *fault, qn_error *err)
{
    qn_json json;
    bool open = false;

    qn_json_init(&json, sink);
    qn_json_object(&json, NULL);
    qn_json_string(&json, "error",
                   fault->text[0] ? fault->text : "unknown error");
    qn_json_string(&json, "code", qn_status_name(fault->status));
    detail(&json, &open, "tensor", fault->tensor);
    if (fault->has_index) {
        if (!open)
            qn_json_object(&json, "details");
        open = true;
        qn_json_int(&json, "index", fault->index);
    }
    detail(&json, &open, "expected", fault->expected);
    detail(&json, &open, "got", fault->got);
    if (open)
        qn_json_end(&json);
    qn_json_end(&json);
    return qn_json_finish(&json, err);
}
