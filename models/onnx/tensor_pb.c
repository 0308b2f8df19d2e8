/* SPDX-License-Identifier: Apache-2.0 */
/* One TensorProto as a file of its own: test inputs and outputs. */
#include "models/onnx/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { DIMS = 1, DATA_TYPE = 2, STRING_DATA = 6, NAME = 8, RAW_DATA = 9 };

void qn_tensor_file_release(qn_tensor_file *file)
{
    qn_free(file->name);
    qn_free(file->tensor.data);
    qn_free(file->strings);
    memset(file, 0, sizeof *file);
}

/* Everything out of the mapping, which goes. */
static qn_status copy_out(const qn_const *c, qn_span name, qn_tensor_file *out,
                          qn_error *err)
{
    out->tensor.dtype = c->dtype;
    out->tensor.shape = c->shape;
    out->tensor.data = qn_calloc(1, c->bytes);
    out->name = qn_calloc(1, name.len + 1);
    out->strings = qn_calloc(1, c->string_bytes + 1);
    if (!out->tensor.data || !out->name || !out->strings)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a tensor of %zu "
                       "bytes", c->bytes);
    if (name.len)
        memcpy(out->name, name.s, name.len);
    if (c->string_bytes)
        memcpy(out->strings, c->strings, c->string_bytes);
    out->string_bytes = c->string_bytes;
    return qn_const_read(c, out->tensor.data, err);
}

qn_status qn_tensor_pb_read(const char *path, qn_tensor_file *out,
                            qn_error *err)
{
    qn_error own = { 0 };
    qn_region region = { 0 };
    qn_model_file file = { 0 };
    qn_reader r = { .file = &file, .region = &region,
                    .err = err ? err : &own };
    const qn_const *c;
    const uint8_t *bytes = NULL;
    size_t len;
    qn_span name = { 0 };

    memset(out, 0, sizeof *out);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return qn_fail(err, errno == ENOENT ? QN_NOT_FOUND : QN_IO,
                       "%.400s: %s", path, strerror(errno));
    qn_status st = qn_onnx_map(fd, path, &bytes, &len, r.err);
    if (st != QN_OK)
        return st;
    st = qn_onnx_tensor(&r, qn_wire_make(bytes ? bytes : (const uint8_t *)"",
                                         len), &name, &c);
    if (st == QN_OK)
        st = copy_out(c, name, out, r.err);
    if (bytes)
        munmap((void *)(uintptr_t)bytes, len);
    qn_region_release(&region);
    qn_region_release(&r.scratch);
    if (st != QN_OK) {
        qn_tensor_file_release(out);
        qn_error_prefix(r.err, "%.200s", path);
    }
    return st;
}

/* ---- writing ---- */

static void put_varint(FILE *f, uint64_t v)
{
    while (v > 127) {
        fputc((int)(v & 127u) | 128, f);
        v >>= 7;
    }
    fputc((int)v, f);
}

static void put_number(FILE *f, uint32_t field, uint64_t v)
{
    put_varint(f, (uint64_t)field << 3 | QN_WIRE_VARINT);
    put_varint(f, v);
}

static void put_head(FILE *f, uint32_t field, size_t len)
{
    put_varint(f, (uint64_t)field << 3 | QN_WIRE_LEN);
    put_varint(f, len);
}

static void put_bytes(FILE *f, uint32_t field, const void *p, size_t n)
{
    put_head(f, field, n);
    if (n)
        fwrite(p, 1, n, f);
}

/* Types below a byte: several elements to a byte, low bits first. */
static void put_small(FILE *f, const uint8_t *p, size_t n, unsigned bits)
{
    size_t per = 8 / bits;
    unsigned mask = (1u << bits) - 1;

    put_head(f, RAW_DATA, n / per + (n % per != 0));
    for (size_t i = 0; i < n; i += per) {
        unsigned byte = 0;
        for (size_t k = 0; k < per && i + k < n; k++)
            byte |= (p[i + k] & mask) << (k * bits);
        fputc((int)byte, f);
    }
}

static void put_strings(FILE *f, const qn_tensor *t, const qn_strings *strings)
{
    const char *elems = t->data;

    for (size_t i = 0; i < (size_t)qn_count(t); i++) {
        qn_string s;
        memcpy(&s, elems + i * sizeof s, sizeof s);
        put_bytes(f, STRING_DATA, qn_string_bytes(strings, s), (size_t)s.len);
    }
}

qn_status qn_tensor_pb_write(const char *path, const char *name,
                             const qn_tensor *tensor,
                             const qn_strings *strings, qn_error *err)
{
    size_t bytes;
    unsigned bits = qn_dtype_file_bits(tensor->dtype);
    qn_status st = qn_tensor_bytes(tensor->dtype, &tensor->shape, &bytes, err);

    if (st != QN_OK)
        return st;
    FILE *f = fopen(path, "wbe");
    if (!f)
        return qn_fail(err, QN_IO, "%.400s: %s", path, strerror(errno));
    for (int i = 0; i < tensor->shape.rank; i++)
        put_number(f, DIMS, (uint64_t)tensor->shape.dims[i]);
    put_number(f, DATA_TYPE, (uint64_t)tensor->dtype);
    if (name && name[0])
        put_bytes(f, NAME, name, strlen(name));
    if (tensor->dtype == QN_STRING)
        put_strings(f, tensor, strings);
    else if (bits < 8)
        put_small(f, tensor->data, bytes, bits);
    else
        put_bytes(f, RAW_DATA, tensor->data, bytes);
    int failed = ferror(f);
    if (fclose(f) != 0 || failed)
        return qn_fail(err, QN_IO, "%.400s: cannot write %zu bytes", path,
                       bytes);
    return QN_OK;
}
