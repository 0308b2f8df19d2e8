/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's .npy files (NEP 1, versions 1.0 to 3.0): magic, header length, a
 * Python dict as text, then the elements. Read: b i u f c of every width, in
 * either byte order, C or Fortran order, and fixed-width strings (S, U), which
 * become UTF-8 without their padding. Written: version 1.0, C order.
 */
#include "models/npy.h"

#include "models/model.h"
#include "runtime/base/checked.h"
#include "runtime/base/half.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 1 << 20 };

typedef struct header {
    qn_npy npy;
    bool has_descr, has_order, has_shape;
} header;

static const struct {
    char kind;
    uint8_t width;
    qn_dtype dtype;
} types[] = {
    { 'b', 1, QN_BOOL }, { 'i', 1, QN_I8 },  { 'i', 2, QN_I16 },
    { 'i', 4, QN_I32 },  { 'i', 8, QN_I64 }, { 'u', 1, QN_U8 },
    { 'u', 2, QN_U16 },  { 'u', 4, QN_U32 }, { 'u', 8, QN_U64 },
    { 'f', 2, QN_F16 },  { 'f', 4, QN_F32 }, { 'f', 8, QN_F64 },
    { 'c', 8, QN_C64 },  { 'c', 16, QN_C128 },
};

/* ---- the dict ---- */

static const char *blanks(const char *s)
{
    while (*s == ' ' || *s == '\t' || *s == '\n')
        s++;
    return s;
}

/* A quoted text without escapes; NULL if there is none. */
static const char *quoted(const char *s, char *out, size_t size)
{
    char quote = *s;
    size_t n = 0;

    if (quote != '\'' && quote != '"')
        return NULL;
    for (s++; *s && *s != quote; s++) {
        if (n + 1 == size || *s == '\\')
            return NULL;
        out[n++] = *s;
    }
    out[n] = 0;
    return *s ? s + 1 : NULL;
}

static const char *number(const char *s, int64_t *out)
{
    int64_t v = 0;
    const char *from = s;

    for (; *s >= '0' && *s <= '9'; s++)
        if (!qn_mul_i64(v, 10, &v) || !qn_add_i64(v, *s - '0', &v))
            return NULL;
    if (s == from)
        return NULL;
    *out = v;
    return *s == 'L' ? s + 1 : s; /* files of Python 2 */
}

static const char *read_descr(const char *s, header *h)
{
    char text[32];
    int64_t n;

    s = quoted(s, text, sizeof text);
    if (!s || !text[0] || !strchr("<>|=", text[0]) || !text[1])
        return NULL;
    h->npy.kind = text[1];
    h->npy.swap = text[0] == '>';
    const char *end = number(text + 2, &n);
    if (!end || *end || n > INT32_MAX)
        return NULL;
    h->npy.width = (size_t)n * (h->npy.kind == 'U' ? 4 : 1);
    h->has_descr = true;
    return s;
}

static const char *read_order(const char *s, header *h)
{
    h->has_order = true;
    h->npy.fortran = !strncmp(s, "True", 4);
    if (h->npy.fortran)
        return s + 4;
    return !strncmp(s, "False", 5) ? s + 5 : NULL;
}

static const char *read_shape(const char *s, header *h)
{
    if (*s != '(')
        return NULL;
    s = blanks(s + 1);
    while (*s != ')') {
        if (h->npy.shape.rank == QN_MAX_RANK)
            return NULL;
        s = number(s, &h->npy.shape.dims[h->npy.shape.rank++]);
        if (!s)
            return NULL;
        s = blanks(s);
        if (*s == ',')
            s = blanks(s + 1);
        else if (*s != ')')
            return NULL;
    }
    h->has_shape = true;
    return s + 1;
}

static bool parse_dict(const char *s, header *h)
{
    char key[32];

    memset(h, 0, sizeof *h);
    s = blanks(s);
    if (*s != '{')
        return false;
    s = blanks(s + 1);
    while (*s != '}') {
        s = quoted(s, key, sizeof key);
        if (!s)
            return false;
        s = blanks(s);
        if (*s != ':')
            return false;
        s = blanks(s + 1);
        if (!strcmp(key, "descr") && !h->has_descr)
            s = read_descr(s, h);
        else if (!strcmp(key, "fortran_order") && !h->has_order)
            s = read_order(s, h);
        else if (!strcmp(key, "shape") && !h->has_shape)
            s = read_shape(s, h);
        else
            return false;
        if (!s)
            return false;
        s = blanks(s);
        if (*s == ',')
            s = blanks(s + 1);
        else if (*s != '}')
            return false;
    }
    return h->has_descr && h->has_order && h->has_shape;
}

/* ---- elements ---- */

/* Bytes of row-major element i in a file of column-major order. */
static size_t file_index(const qn_npy *h, size_t i)
{
    size_t at = 0, stride = 1, dims[QN_MAX_RANK];

    if (!h->fortran)
        return i;
    for (int d = h->shape.rank - 1; d >= 0; d--) {
        size_t n = (size_t)h->shape.dims[d];
        dims[d] = i % n;
        i /= n;
    }
    for (int d = 0; d < h->shape.rank; d++) {
        at += dims[d] * stride;
        stride *= (size_t)h->shape.dims[d];
    }
    return at;
}

static void copy_numbers(const qn_npy *h, const uint8_t *src, size_t n,
                         qn_dtype dtype, uint8_t *dst)
{
    /* byte order is that of each half of a complex number */
    size_t word = h->kind == 'c' ? h->width / 2 : h->width;

    if (!h->fortran && !h->swap && dtype != QN_BOOL) {
        if (n)
            memcpy(dst, src, n * h->width);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const uint8_t *from = src + file_index(h, i) * h->width;
        for (size_t b = 0; b < h->width; b++) {
            size_t in_word = b % word;
            size_t at = h->swap ? b - in_word + (word - 1 - in_word) : b;
            dst[i * h->width + b] = from[at];
        }
        if (dtype == QN_BOOL)
            dst[i] = dst[i] != 0;
    }
}

static uint32_t code_point(const qn_npy *h, const uint8_t *p)
{
    uint32_t v = 0;

    for (unsigned b = 0; b < 4; b++)
        v |= (uint32_t)p[h->swap ? 3 - b : b] << (8 * b);
    return v;
}

/* UTF-8 of a code point; what is none becomes U+FFFD. */
static size_t encode(uint32_t c, char *out)
{
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(uint8_t)(0x80 | (c & 63u));
        c >>= 6;
    }
    out[0] = (char)(uint8_t)(lead[n] | c);
    return n;
}

/* One element's text into `out`, at most `width` bytes long. */
static size_t copy_text(const qn_npy *h, const uint8_t *from, char *out)
{
    size_t unit = h->kind == 'U' ? 4 : 1, n = h->width / unit, at = 0;

    while (n && (unit == 4 ? code_point(h, from + 4 * (n - 1)) : from[n - 1]) ==
                    0)
        n--;
    if (unit == 1) {
        memcpy(out, from, n);
        return n;
    }
    for (size_t i = 0; i < n; i++)
        at += encode(code_point(h, from + 4 * i), out + at);
    return at;
}

static qn_status copy_strings(const qn_npy *h, const uint8_t *src, size_t n,
                              size_t bytes, qn_tensor_file *out, qn_error *err)
{
    qn_string *elems = out->tensor.data;

    out->strings = qn_calloc(1, bytes + 1);
    if (!out->strings)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %zu bytes of "
                       "strings", bytes);
    for (size_t i = 0; i < n && h->width; i++) {
        size_t len = copy_text(h, src + file_index(h, i) * h->width,
                               out->strings + out->string_bytes);
        if (len)
            elems[i] = qn_string_at(QN_STRINGS_STATIC, out->string_bytes, len);
        out->string_bytes += len;
    }
    return QN_OK;
}

/* ---- files ---- */

static qn_status read_whole(const char *path, uint8_t **out, size_t *len,
                            qn_error *err)
{
    FILE *f = fopen(path, "rbe");
    long size = -1;
    qn_status st = QN_OK;

    *out = NULL;
    if (!f)
        return qn_fail(err, errno == ENOENT ? QN_NOT_FOUND : QN_IO,
                       "%.400s: %s", path, strerror(errno));
    if (fseek(f, 0, SEEK_END) == 0)
        size = ftell(f);
    if (size < 0 || fseek(f, 0, SEEK_SET) != 0) {
        st = qn_fail(err, QN_IO, "%.400s: %s", path, strerror(errno));
        goto done;
    }
    *len = (size_t)size;
    *out = qn_calloc(1, *len + 1);
    if (!*out)
        st = qn_fail(err, QN_NO_MEMORY, "out of memory for %.400s (%zu bytes)",
                     path, *len);
    else if (fread(*out, 1, *len, f) != *len)
        st = qn_fail(err, QN_IO, "%.400s: cannot read %zu bytes", path, *len);
done:
    fclose(f);
    return st;
}

/* The header, and where the elements start. */
static qn_status read_header(const uint8_t *bytes, size_t len, header *h,
                             size_t *start, qn_error *err)
{
    size_t head, at;

    if (len < 10 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return qn_fail(err, QN_FORMAT, "not a .npy file");
    if (bytes[6] < 1 || bytes[6] > 3)
        return qn_fail(err, QN_UNSUPPORTED, ".npy version %u.%u", bytes[6],
                       bytes[7]);
    head = bytes[8] | (size_t)bytes[9] << 8;
    at = 10;
    if (bytes[6] > 1) {
        if (len < 12)
            return qn_fail(err, QN_FORMAT, "the file ends in the header");
        head |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
        at = 12;
    }
    if (head > len - at || head > MAX_HEADER)
        return qn_fail(err, QN_FORMAT, "a header of %zu bytes, the file has "
                       "%zu", head, len - at);
    char *dict = qn_calloc(1, head + 1);
    if (!dict)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a header");
    memcpy(dict, bytes + at, head);
    bool ok = parse_dict(dict, h);
    qn_free(dict);
    if (!ok)
        return qn_fail(err, QN_FORMAT, "a header that is not {'descr': ..., "
                       "'fortran_order': ..., 'shape': ...} of plain elements");
    *start = at + head;
    return QN_OK;
}

static qn_dtype dtype_of(const qn_npy *h)
{
    if (h->kind == 'S' || h->kind == 'U')
        return QN_STRING;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].kind == h->kind && types[i].width == h->width)
            return types[i].dtype;
    return QN_NONE;
}

qn_status qn_npy_open(const void *bytes, size_t len, qn_npy *out, qn_error *err)
{
    header h;
    size_t start = 0, memory, file;
    int64_t count;
    qn_status st;

    memset(out, 0, sizeof *out);
    st = read_header(bytes, len, &h, &start, err);
    if (st != QN_OK)
        return st;
    h.npy.dtype = dtype_of(&h.npy);
    if (h.npy.dtype == QN_NONE)
        return qn_fail(err, QN_UNSUPPORTED, "elements of kind '%c' with %zu "
                       "bytes", h.npy.kind, h.npy.width);
    st = qn_tensor_bytes(h.npy.dtype, &h.npy.shape, &memory, err);
    if (st != QN_OK)
        return st;
    if (!qn_shape_count(&h.npy.shape, &count) ||
        !qn_mul_size((size_t)count, h.npy.width, &file) || file != len - start)
        return qn_fail(err, QN_FORMAT, "%zu bytes of elements, the header "
                       "stands for %lld elements of %zu", len - start,
                       (long long)count, h.npy.width);
    h.npy.data = (const uint8_t *)bytes + start;
    h.npy.bytes = file;
    *out = h.npy;
    return QN_OK;
}

qn_status qn_npy_decode(const qn_npy *npy, const qn_tensor *out, qn_error *err)
{
    if (npy->dtype == QN_STRING)
        return qn_fail(err, QN_UNSUPPORTED, ".npy strings are read from files "
                       "only");
    if (out->dtype != npy->dtype)
        return qn_fail(err, QN_TYPE, "%s wanted, the .npy holds %s",
                       qn_dtype_wire(out->dtype), qn_dtype_wire(npy->dtype));
    if (!qn_shape_equal(&out->shape, &npy->shape)) {
        char want[QN_SHAPE_TEXT], got[QN_SHAPE_TEXT];
        return qn_fail(err, QN_SHAPE, "shape %s wanted, the .npy has %s",
                       qn_shape_text(&out->shape, want),
                       qn_shape_text(&npy->shape, got));
    }
    copy_numbers(npy, npy->data, (size_t)qn_count(out), npy->dtype, out->data);
    return QN_OK;
}

static qn_status decode(const uint8_t *bytes, size_t len, qn_tensor_file *out,
                        qn_error *err)
{
    qn_npy npy;
    size_t memory;
    qn_status st = qn_npy_open(bytes, len, &npy, err);

    if (st == QN_OK)
        st = qn_tensor_bytes(npy.dtype, &npy.shape, &memory, err);
    if (st != QN_OK)
        return st;
    out->tensor.dtype = npy.dtype;
    out->tensor.shape = npy.shape;
    out->tensor.data = qn_calloc(1, memory);
    out->name = qn_strdup("");
    if (!out->tensor.data || !out->name)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %zu bytes",
                       memory);
    if (npy.dtype == QN_STRING)
        return copy_strings(&npy, npy.data, (size_t)qn_count(&out->tensor),
                            npy.bytes, out, err);
    return qn_npy_decode(&npy, &out->tensor, err);
}

qn_status qn_tensor_npy_read(const char *path, qn_tensor_file *out,
                             qn_error *err)
{
    uint8_t *bytes = NULL;
    size_t len = 0;

    memset(out, 0, sizeof *out);
    qn_status st = read_whole(path, &bytes, &len, err);
    if (st == QN_OK) {
        st = decode(bytes, len, out, err);
        if (st != QN_OK)
            qn_error_prefix(err, "%.200s", path);
    }
    qn_free(bytes);
    if (st != QN_OK)
        qn_tensor_file_release(out);
    return st;
}

/* How a type is written: NULL if .npy has nothing for it. */
static const char *descr_of(qn_dtype dtype)
{
    static const char *const names[QN_DTYPE_COUNT] = {
        [QN_BOOL] = "|b1", [QN_I8] = "|i1",  [QN_I4] = "|i1",
        [QN_I2] = "|i1",   [QN_U8] = "|u1",  [QN_U4] = "|u1",
        [QN_U2] = "|u1",   [QN_I16] = "<i2", [QN_U16] = "<u2",
        [QN_I32] = "<i4",  [QN_U32] = "<u4", [QN_I64] = "<i8",
        [QN_U64] = "<u8",  [QN_F16] = "<f2", [QN_BF16] = "<f4",
        [QN_F32] = "<f4",  [QN_F64] = "<f8", [QN_C64] = "<c8",
        [QN_C128] = "<c16"
    };
    return qn_dtype_valid((int)dtype) ? names[dtype] : NULL;
}

/* The whole head, padded so that the elements start at a multiple of 64. */
static size_t make_head(const qn_tensor *t, const char *descr,
                        char out[QN_NPY_HEAD])
{
    int n = snprintf(out + 10, 502, "{'descr': '%s', 'fortran_order': False, "
                     "'shape': (", descr);
    size_t at = 10 + (size_t)n;

    for (int i = 0; i < t->shape.rank; i++)
        at += (size_t)snprintf(out + at, 512 - at, "%lld,",
                               (long long)t->shape.dims[i]);
    at += (size_t)snprintf(out + at, 512 - at, "), }");
    size_t end = (at + 1 + 63) / 64 * 64;
    memset(out + at, ' ', end - at);
    out[end - 1] = '\n';
    memcpy(out, "\x93NUMPY\x01\0", 8);
    out[8] = (char)(uint8_t)((end - 10) & 255u);
    out[9] = (char)(uint8_t)((end - 10) >> 8);
    return end;
}

qn_status qn_npy_head(const qn_tensor *tensor, char out[QN_NPY_HEAD],
                      size_t *len, qn_error *err)
{
    const char *descr = descr_of(tensor->dtype);

    *len = 0;
    if (!descr)
        return qn_fail(err, QN_UNSUPPORTED, ".npy has no elements of type %s",
                       qn_dtype_name(tensor->dtype));
    *len = make_head(tensor, descr, out);
    return QN_OK;
}

static void put_elements(FILE *f, const qn_tensor *t, size_t bytes)
{
    const uint16_t *half = t->data;

    if (t->dtype != QN_BF16) {
        if (bytes)
            fwrite(t->data, 1, bytes, f);
        return;
    }
    for (int64_t i = 0; i < qn_count(t); i++) {
        float v = qn_bf16_to_f32(half[i]);
        fwrite(&v, sizeof v, 1, f);
    }
}

qn_status qn_tensor_npy_write(const char *path, const qn_tensor *tensor,
                              qn_error *err)
{
    char head[QN_NPY_HEAD];
    size_t bytes, n;
    qn_status st = qn_tensor_bytes(tensor->dtype, &tensor->shape, &bytes, err);

    if (st == QN_OK)
        st = qn_npy_head(tensor, head, &n, err);
    if (st != QN_OK)
        return st;
    FILE *f = fopen(path, "wbe");
    if (!f)
        return qn_fail(err, QN_IO, "%.400s: %s", path, strerror(errno));
    fwrite(head, 1, n, f);
    put_elements(f, tensor, bytes);
    int failed = ferror(f);
    if (fclose(f) != 0 || failed)
        return qn_fail(err, QN_IO, "%.400s: cannot write %zu bytes", path,
                       bytes);
    return QN_OK;
}
