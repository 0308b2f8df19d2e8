/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/raw.h"

#include "runtime/base/checked.h"
#include "server/codec/encode.h"

#include <assert.h>
#include <string.h>

/* elements are copied as they lie in memory */
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "binary tensor data is little-endian");

static uint32_t read_length(const char *p)
{
    uint32_t n;

    memcpy(&n, p, 4);
    return n;
}

qn_status qn_raw_strings(const char *bytes, size_t len, int64_t count,
                         size_t *out, qn_error *err)
{
    size_t at = 0, sum = 0;

    *out = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t n = len - at < 4 ? 0 : read_length(bytes + at);

        if (len - at < 4 || n > len - at - 4) {
            qn_fail(err, QN_FORMAT,
                    "index %lld: the binary data ends inside an element (%zu "
                    "bytes left)",
                    (long long)i, len - at);
            qn_error_index(err, i);
            return QN_FORMAT;
        }
        at += 4 + (size_t)n;
        sum += n;
    }
    if (at != len)
        return qn_fail(err, QN_FORMAT,
                       "%zu bytes of binary data follow the last of %lld "
                       "elements",
                       len - at, (long long)count);
    *out = sum;
    return QN_OK;
}

static qn_status decode_strings(const qn_scan_data *data, const qn_tensor *out,
                                qn_strings *strings, qn_error *err)
{
    const char *p = data->text;
    qn_string *to = out->data;
    size_t sum;
    qn_status st = qn_raw_strings(p, data->len, data->count, &sum, err);

    for (int64_t i = 0; to && i < data->count && st == QN_OK; i++) {
        uint32_t n = read_length(p);

        st = qn_string_put(strings, p + 4, n, &to[i], err);
        p += 4 + (size_t)n;
    }
    return st;
}

static qn_status decode_bools(const qn_scan_data *data, qn_error *err)
{
    for (size_t i = 0; i < data->len; i++) {
        unsigned char v = (unsigned char)data->text[i];

        if (v > 1) {
            qn_fail(err, QN_RANGE, "index %zu: byte %u is no BOOL, 0 or 1", i,
                    (unsigned)v);
            qn_error_index(err, (int64_t)i);
            return QN_RANGE;
        }
    }
    return QN_OK;
}

static bool sign_extends(qn_dtype dtype)
{
    return dtype == QN_I4 || dtype == QN_I2;
}

static void unpack(const qn_scan_data *data, qn_dtype dtype, unsigned bits,
                   unsigned char *to)
{
    unsigned mask = (1u << bits) - 1, top = 1u << (bits - 1);

    for (int64_t i = 0; i < data->count; i++) {
        size_t bit = (size_t)i * bits;
        unsigned v = (unsigned)(unsigned char)data->text[bit / 8] >> bit % 8;

        v &= mask;
        if (sign_extends(dtype) && (v & top))
            v |= ~mask;
        to[i] = (unsigned char)v;
    }
}

qn_status qn_raw_decode(const qn_scan_data *data, const qn_tensor *out,
                        qn_strings *strings, qn_error *err)
{
    unsigned bits = qn_dtype_file_bits(out->dtype);
    size_t total;

    if (out->dtype == QN_STRING)
        return decode_strings(data, out, strings, err);
    if (!qn_mul_size((size_t)data->count, bits, &total) ||
        total / 8 + (total % 8 != 0) != data->len)
        return qn_fail(err, QN_SHAPE, "%zu bytes are not %lld elements of %s",
                       data->len, (long long)data->count,
                       qn_dtype_wire(out->dtype));
    if (out->dtype == QN_BOOL) {
        qn_status st = decode_bools(data, err);
        if (st != QN_OK)
            return st;
    }
    if (!out->data || !data->len)
        return QN_OK;
    if (bits < 8)
        unpack(data, out->dtype, bits, out->data);
    else
        memcpy(out->data, data->text, data->len);
    return QN_OK;
}

/* ---- out ---- */

qn_status qn_encode_raw_bytes(const qn_tensor *tensor,
                              const qn_strings *strings, size_t *bytes,
                              qn_error *err)
{
    size_t n = (size_t)qn_count(tensor), total = 0;

    (void)strings;
    *bytes = 0;
    if (tensor->dtype == QN_STRING) {
        const qn_string *from = tensor->data;

        for (size_t i = 0; i < n; i++) {
            if (from[i].len > UINT32_MAX)
                return qn_fail(err, QN_TOO_LARGE,
                               "index %zu: a string of %llu bytes, binary data "
                               "takes at most %lu",
                               i, (unsigned long long)from[i].len,
                               (unsigned long)UINT32_MAX);
            if (!qn_add_size(total, 4 + (size_t)from[i].len, &total))
                return qn_fail(err, QN_TOO_LARGE, "strings exceed memory");
        }
        *bytes = total;
        return QN_OK;
    }
    if (!qn_mul_size(n, qn_dtype_file_bits(tensor->dtype), &total))
        return qn_fail(err, QN_TOO_LARGE, "%zu elements exceed memory", n);
    *bytes = total / 8 + (total % 8 != 0);
    return QN_OK;
}

static qn_status encode_strings(qn_sink *sink, const qn_tensor *tensor,
                                const qn_strings *strings, qn_error *err)
{
    const qn_string *from = tensor->data;
    int64_t n = qn_count(tensor);
    qn_status st = QN_OK;

    for (int64_t i = 0; i < n && st == QN_OK; i++) {
        uint32_t len = (uint32_t)from[i].len;

        st = qn_sink_put(sink, &len, 4, err);
        if (st == QN_OK)
            st = qn_sink_put(sink, qn_string_bytes(strings, from[i]), len, err);
    }
    return st;
}

static qn_status pack(qn_sink *sink, const qn_tensor *tensor, unsigned bits,
                      qn_error *err)
{
    const unsigned char *from = tensor->data;
    int64_t n = qn_count(tensor), per_byte = 8 / bits;
    unsigned mask = (1u << bits) - 1;
    qn_status st = QN_OK;

    for (int64_t i = 0; i < n && st == QN_OK; i += per_byte) {
        unsigned v = 0;

        for (int64_t k = 0; k < per_byte && i + k < n; k++)
            v |= (from[i + k] & mask) << (unsigned)k * bits;
        st = qn_sink_put(sink, &(unsigned char){ (unsigned char)v }, 1, err);
    }
    return st;
}

qn_status qn_encode_raw(qn_sink *sink, const qn_tensor *tensor,
                        const qn_strings *strings, qn_error *err)
{
    unsigned bits = qn_dtype_file_bits(tensor->dtype);
    size_t bytes;
    qn_status st = qn_encode_raw_bytes(tensor, strings, &bytes, err);

    if (st != QN_OK || !bytes)
        return st;
    if (tensor->dtype == QN_STRING)
        return encode_strings(sink, tensor, strings, err);
    if (bits < 8)
        return pack(sink, tensor, bits, err);
    return qn_sink_put(sink, tensor->data, bytes, err);
}
