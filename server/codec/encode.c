/* SPDX-License-Identifier: Apache-2.0 */
#include "server/codec/encode.h"

#include "runtime/base/alloc.h"
#include "runtime/base/checked.h"
#include "runtime/base/half.h"
#include "server/codec/lex.h"
#include "server/codec/number.h"

#include <math.h>
#include <string.h>

/* ---- one element ---- */

typedef char *(*print_fn)(char *p, const unsigned char *from, qn_dtype dtype,
                          bool tokens);

/* `sign` < 0, 0 or > 0: -Infinity, NaN, Infinity */
static char *put_special(char *p, int sign, bool tokens)
{
    const char *word = sign < 0 ? "-Infinity" : sign ? "Infinity" : "NaN";
    size_t len = strlen(word);

    if (!tokens)
        *p++ = '"';
    memcpy(p, word, len);
    p += len;
    if (!tokens)
        *p++ = '"';
    return p;
}

static char *print_f32(char *p, const unsigned char *from, qn_dtype dtype,
                       bool tokens)
{
    float v;

    (void)dtype;
    memcpy(&v, from, sizeof v);
    if (!isfinite(v))
        return put_special(p, isnan(v) ? 0 : v < 0 ? -1 : 1, tokens);
    return qn_print_f32(p, v);
}

static char *print_f64(char *p, const unsigned char *from, qn_dtype dtype,
                       bool tokens)
{
    double v;

    (void)dtype;
    memcpy(&v, from, sizeof v);
    if (!isfinite(v))
        return put_special(p, isnan(v) ? 0 : v < 0 ? -1 : 1, tokens);
    return qn_print_f64(p, v);
}

/* Floats of 16 bits and less: is the pattern finite, and if not, what? */
static bool small_special(qn_dtype dtype, unsigned bits, int *sign)
{
    unsigned all_ones = dtype == QN_F16 ? 0x7c00 : dtype == QN_BF16 ? 0x7f80
                                                                    : 0x7c;

    *sign = 0;
    switch (dtype) {
    case QN_F16:
    case QN_BF16:
    case QN_F8E5M2:
        if ((bits & all_ones) != all_ones)
            return false;
        if ((bits & (dtype == QN_F8E5M2 ? 0x7f : 0x7fff)) == all_ones)
            *sign = bits >> (dtype == QN_F8E5M2 ? 7 : 15) ? -1 : 1;
        return true;
    case QN_F8E4M3FN:
        return (bits & 0x7f) == 0x7f;
    case QN_F8E4M3FNUZ:
    case QN_F8E5M2FNUZ:
        return bits == 0x80;
    case QN_F8E8M0:
        return bits == 0xff;
    default:
        return false;
    }
}

static char *print_small(char *p, const unsigned char *from, qn_dtype dtype,
                         bool tokens)
{
    uint16_t bits = 0;
    int sign;

    memcpy(&bits, from, qn_dtype_size(dtype)); /* little-endian: see raw.c */
    if (small_special(dtype, bits, &sign))
        return put_special(p, sign, tokens);
    return qn_print_small(p, dtype, bits);
}

static char *print_bool(char *p, const unsigned char *from, qn_dtype dtype,
                        bool tokens)
{
    size_t len = *from ? 4 : 5;

    (void)dtype, (void)tokens;
    memcpy(p, *from ? "true" : "false", len);
    return p + len;
}

static char *print_signed(char *p, const unsigned char *from, qn_dtype dtype,
                          bool tokens)
{
    int64_t v = 0;
    size_t size = qn_dtype_size(dtype);

    (void)tokens;
    memcpy(&v, from, size);
    v = (int64_t)((uint64_t)v << (64 - 8 * size)) >> (64 - 8 * size);
    return qn_print_i64(p, v);
}

static char *print_unsigned(char *p, const unsigned char *from, qn_dtype dtype,
                            bool tokens)
{
    uint64_t v = 0;

    (void)tokens;
    memcpy(&v, from, qn_dtype_size(dtype));
    return qn_print_u64(p, v);
}

/* type, function, characters of the longest value (tests hold them to it) */
static const struct form {
    qn_dtype dtype;
    print_fn print;
    unsigned longest;
} forms[] = {
    { QN_F32, print_f32, 15 },
    { QN_F64, print_f64, 24 },
    { QN_F16, print_small, 11 },
    { QN_BF16, print_small, 12 },
    { QN_F8E4M3FN, print_small, 6 },
    { QN_F8E4M3FNUZ, print_small, 6 },
    { QN_F8E5M2, print_small, 11 },
    { QN_F8E5M2FNUZ, print_small, 8 },
    { QN_F8E8M0, print_small, 11 },
    { QN_F4E2M1, print_small, 4 },
    { QN_BOOL, print_bool, 5 },
    { QN_I2, print_signed, 2 },
    { QN_I4, print_signed, 2 },
    { QN_I8, print_signed, 4 },
    { QN_I16, print_signed, 6 },
    { QN_I32, print_signed, 11 },
    { QN_I64, print_signed, 20 },
    { QN_U2, print_unsigned, 1 },
    { QN_U4, print_unsigned, 2 },
    { QN_U8, print_unsigned, 3 },
    { QN_U16, print_unsigned, 5 },
    { QN_U32, print_unsigned, 10 },
    { QN_U64, print_unsigned, 20 },
};

static const struct form *find_form(qn_dtype dtype)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].dtype == dtype)
            return &forms[i];
    return NULL;
}

static qn_status no_form(qn_dtype dtype, qn_error *err)
{
    return qn_fail(err, QN_UNSUPPORTED, "%s tensors have no JSON form here",
                   qn_dtype_wire(dtype));
}

/* ---- strings ---- */

static qn_status put_string(qn_sink *sink, const char *bytes, size_t len,
                            qn_error *err)
{
    enum { CHUNK = 3072 }; /* of bytes; a multiple of three */
    qn_status st;

    if (qn_utf8_valid(bytes, len)) {
        qn_json json;

        qn_json_init(&json, sink);
        qn_json_text(&json, NULL, bytes, len);
        return qn_json_finish(&json, err);
    }
    st = qn_sink_put(sink, "{\"b64\":\"", 8, err);
    while (st == QN_OK && len) {
        size_t n = len < CHUNK ? len : CHUNK;
        size_t out = (n + 2) / 3 * 4;

        st = qn_sink_room(sink, out, err);
        if (st != QN_OK)
            break;
        qn_lex_base64((const unsigned char *)bytes, n, sink->data + sink->len);
        sink->len += out;
        bytes += n;
        len -= n;
    }
    return st == QN_OK ? qn_sink_put(sink, "\"}", 2, err) : st;
}

static bool string_bound(const char *bytes, size_t len, size_t *out)
{
    size_t n = 2;

    if (!qn_utf8_valid(bytes, len)) {
        n = len / 3 + 1;
        return qn_mul_size(n, 4, &n) && qn_add_size(n, 10, out);
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)bytes[i];

        n += c < 0x20 ? 6 : c == '"' || c == '\\' ? 2 : 1;
    }
    *out = n;
    return true;
}

/* ---- arrays ---- */

typedef struct writer {
    qn_sink *sink;
    const qn_tensor *tensor;
    const qn_strings *strings;
    const struct form *form; /* NULL: strings */
    bool tokens;
    qn_error *err;
} writer;

/* Elements [from, from + n) with commas between them. */
static qn_status put_run(writer *w, size_t from, size_t n)
{
    size_t size = qn_dtype_size(w->tensor->dtype), end = from + n;
    const unsigned char *data = w->tensor->data;
    qn_status st;

    if (!w->form) {
        const qn_string *text = w->tensor->data;

        for (size_t i = from; i < end; i++) {
            st = i > from ? qn_sink_put(w->sink, ",", 1, w->err) : QN_OK;
            if (st == QN_OK)
                st = put_string(w->sink, qn_string_bytes(w->strings, text[i]),
                                (size_t)text[i].len, w->err);
            if (st != QN_OK)
                return st;
        }
        return QN_OK;
    }
    for (size_t i = from; i < end;) {
        size_t stop = end - i > 128 ? i + 128 : end;
        char *p;

        /* print functions may touch QN_PRINT_MAX bytes past the text */
        st = qn_sink_room(w->sink,
                          (stop - i) * (w->form->longest + 1) + QN_PRINT_MAX,
                          w->err);
        if (st != QN_OK)
            return st;
        p = w->sink->data + w->sink->len;
        for (; i < stop; i++) {
            if (i > from)
                *p++ = ',';
            p = w->form->print(p, data + i * size, w->tensor->dtype, w->tokens);
        }
        w->sink->len = (size_t)(p - w->sink->data);
    }
    return QN_OK;
}

/* The list at `depth` whose first element is `from`. At most QN_MAX_RANK deep. */
static qn_status put_list(writer *w, int depth, size_t from)
{
    const qn_shape *shape = &w->tensor->shape;
    size_t n = (size_t)shape->dims[depth];
    size_t step = (size_t)qn_shape_product(shape, depth + 1, shape->rank);
    qn_status st = qn_sink_put(w->sink, "[", 1, w->err);

    if (st == QN_OK && depth + 1 == shape->rank)
        st = put_run(w, from, n);
    else
        for (size_t i = 0; i < n && st == QN_OK; i++) {
            if (i)
                st = qn_sink_put(w->sink, ",", 1, w->err);
            if (st == QN_OK)
                st = put_list(w, depth + 1, from + i * step);
        }
    return st == QN_OK ? qn_sink_put(w->sink, "]", 1, w->err) : st;
}

qn_status qn_encode_values(qn_sink *sink, const qn_tensor *tensor,
                           const qn_strings *strings,
                           const qn_encode_options *options, qn_error *err)
{
    writer w = { sink, tensor, strings, find_form(tensor->dtype),
                 options && options->nan_tokens, err };
    bool nested = options && options->nested;
    qn_status st;

    if (!w.form && tensor->dtype != QN_STRING)
        return no_form(tensor->dtype, err);
    if (nested)
        return tensor->shape.rank ? put_list(&w, 0, 0) : put_run(&w, 0, 1);
    st = qn_sink_put(sink, "[", 1, err);
    if (st == QN_OK)
        st = put_run(&w, 0, (size_t)qn_count(tensor));
    return st == QN_OK ? qn_sink_put(sink, "]", 1, err) : st;
}

qn_status qn_encode_bound(const qn_tensor *tensor, const qn_strings *strings,
                          const qn_encode_options *options, size_t *bytes,
                          qn_error *err)
{
    const struct form *form = find_form(tensor->dtype);
    size_t n = (size_t)qn_count(tensor), lists = 1, brackets = 0, total = 0;
    bool fits = true;

    *bytes = 0;
    if (!form && tensor->dtype != QN_STRING)
        return no_form(tensor->dtype, err);
    if (form) {
        fits = qn_mul_size(n, form->longest + 1, &total);
    } else {
        const qn_string *text = tensor->data;

        for (size_t i = 0; i < n && fits; i++) {
            size_t one;

            fits = string_bound(qn_string_bytes(strings, text[i]),
                                (size_t)text[i].len, &one) &&
                   qn_add_size(total, one + 1, &total);
        }
    }
    /* each list has two brackets and a comma */
    for (int i = 0; options && options->nested && i < tensor->shape.rank && fits;
         i++)
        fits = qn_add_size(brackets, lists, &brackets) &&
               qn_mul_size(lists, (size_t)tensor->shape.dims[i], &lists);
    fits = fits && qn_mul_size(brackets, 3, &brackets) &&
           qn_add_size(total, brackets, &total) &&
           qn_add_size(total, 2 + QN_PRINT_MAX, &total);
    if (!fits)
        return qn_fail(err, QN_TOO_LARGE, "the text of %zu elements of %s "
                                          "exceeds all memory",
                       n, qn_dtype_wire(tensor->dtype));
    *bytes = total;
    return QN_OK;
}

/* ---- the whole answer ---- */

static bool add_text(size_t *total, const char *text)
{
    size_t n;

    return !text || (qn_mul_size(strlen(text), 6, &n) &&
                     qn_add_size(n, 32, &n) && qn_add_size(*total, n, total));
}

qn_status qn_reply_bound(const qn_reply *reply, size_t *bytes, qn_error *err)
{
    size_t total = 64;
    bool fits = add_text(&total, reply->model_name) &&
                add_text(&total, reply->model_version) &&
                add_text(&total, reply->id);

    *bytes = 0;
    for (uint32_t i = 0; i < reply->n_outputs && fits; i++) {
        const qn_reply_output *o = &reply->outputs[i];
        size_t one;
        qn_status st =
            o->binary
                ? qn_encode_raw_bytes(&o->tensor, reply->strings, &one, err)
                : qn_encode_bound(&o->tensor, reply->strings, &reply->options,
                                  &one, err);

        if (st != QN_OK)
            return qn_error_prefix(err, "output '%s'", o->name), st;
        fits = add_text(&total, o->name) && qn_add_size(total, one, &total) &&
               qn_add_size(total, 160 + 21 * (size_t)o->tensor.shape.rank,
                           &total);
    }
    if (!fits)
        return qn_fail(err, QN_TOO_LARGE, "the answer exceeds all memory");
    *bytes = total;
    return QN_OK;
}

static void put_output(qn_json *json, const qn_reply *reply,
                       const qn_reply_output *o)
{
    qn_json_object(json, NULL);
    qn_json_string(json, "name", o->name);
    qn_json_string(json, "datatype", qn_dtype_wire(o->tensor.dtype));
    qn_json_ints(json, "shape", o->tensor.shape.dims,
                 (size_t)o->tensor.shape.rank);
    if (o->binary) {
        size_t bytes = 0;

        if (json->status == QN_OK)
            json->status = qn_encode_raw_bytes(&o->tensor, reply->strings,
                                               &bytes, &json->error);
        qn_json_object(json, "parameters");
        qn_json_uint(json, "binary_data_size", bytes);
        qn_json_end(json);
    } else {
        qn_json_raw(json, "data", "", 0);
        if (json->status == QN_OK)
            json->status =
                qn_encode_values(json->sink, &o->tensor, reply->strings,
                                 &reply->options, &json->error);
    }
    qn_json_end(json);
}

qn_status qn_reply_write(qn_sink *sink, const qn_reply *reply,
                         size_t *json_bytes, qn_error *err)
{
    size_t start = sink->len;
    qn_json json;
    qn_status st;

    qn_json_init(&json, sink);
    qn_json_object(&json, NULL);
    if (reply->model_name)
        qn_json_string(&json, "model_name", reply->model_name);
    if (reply->model_version)
        qn_json_string(&json, "model_version", reply->model_version);
    if (reply->id)
        qn_json_string(&json, "id", reply->id);
    qn_json_array(&json, "outputs");
    for (uint32_t i = 0; i < reply->n_outputs; i++)
        put_output(&json, reply, &reply->outputs[i]);
    qn_json_end(&json);
    qn_json_end(&json);
    st = qn_json_finish(&json, err);
    if (json_bytes)
        *json_bytes = sink->len - start;
    for (uint32_t i = 0; i < reply->n_outputs && st == QN_OK; i++)
        if (reply->outputs[i].binary)
            st = qn_encode_raw(sink, &reply->outputs[i].tensor, reply->strings,
                               err);
    return st;
}
