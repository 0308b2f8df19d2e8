/* SPDX-License-Identifier: Apache-2.0 */
/* Initializers: every encoding, sparse ones, external data. */
#include "tests/support/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A graph whose only output is the initializer. */
static pb const_model(pb *tensor, const char *name, int dtype)
{
    pb g = { 0 };

    pb_put(&g, PB_GRAPH_INITIALIZER, tensor);
    pb_add_output(&g, name, dtype, NULL);
    return pb_model(9, 13, &g);
}

static void packed(pb *t, uint32_t field, int n, const int64_t *values)
{
    pb list = { 0 };
    for (int i = 0; i < n; i++)
        pb_varint(&list, (uint64_t)values[i]);
    pb_put(t, field, &list);
}

static void expect_bytes(pb *tensor, int dtype, int rank, const void *want,
                         size_t bytes, const char *row)
{
    char got[64];
    loaded l;
    pb m = const_model(tensor, "t", dtype);

    must_load(&l, &m);
    const qn_const *c = find_value(l.graph, "t")->data;
    if ((int)c->dtype != dtype || c->shape.rank != rank || c->bytes != bytes)
        fail_msg("%s: dtype %d rank %d bytes %zu", row, (int)c->dtype,
                 (int)c->shape.rank, c->bytes);
    assert_true(bytes <= sizeof got);
    if (qn_const_read(c, got, &l.err) != QN_OK)
        fail_msg("%s: %s", row, l.err.text);
    if (bytes && memcmp(got, want, bytes))
        fail_msg("%s: wrong elements", row);
    unload(&l);
}

static void test_encodings(void **state)
{
    static const int64_t three[] = { 3 }, none[] = { 0, 5 };
    static const int64_t signs[] = { 1, -1, 300 };
    static const float f[] = { 1, -2, 0.5f };
    pb t;

    (void)state;
    t = pb_tensor("t", F32, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, f, sizeof f);
    expect_bytes(&t, F32, 1, f, sizeof f, "float raw");
    t = pb_tensor("t", F32, 1, three);
    pb_bytes(&t, 4, f, sizeof f);
    expect_bytes(&t, F32, 1, f, sizeof f, "float packed");
    t = pb_tensor("t", F32, 1, three);
    for (int i = 0; i < 3; i++)
        pb_float(&t, 4, f[i]);
    expect_bytes(&t, F32, 1, f, sizeof f, "float one by one");
    t = pb_tensor("t", F32, 1, three);
    pb_bytes(&t, 4, f, 8);
    pb_float(&t, 4, f[2]);
    expect_bytes(&t, F32, 1, f, sizeof f, "float packed and single");
    t = pb_tensor("t", F32, 2, none);
    expect_bytes(&t, F32, 2, NULL, 0, "no elements");
    t = pb_tensor("t", I32, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, signs);
    expect_bytes(&t, I32, 1, (const int32_t[]){ 1, -1, 300 }, 12, "int32");
    t = pb_tensor("t", I8, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, (const int64_t[]){ 1, -1, 127 });
    expect_bytes(&t, I8, 1, "\x01\xff\x7f", 3, "int8");
    t = pb_tensor("t", U8, 1, three);
    for (int i = 0; i < 3; i++)
        pb_int(&t, PB_TENSOR_INT32, 250 + i);
    expect_bytes(&t, U8, 1, "\xfa\xfb\xfc", 3, "uint8 one by one");
    t = pb_tensor("t", BOOL, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, (const int64_t[]){ 0, 1, 7 });
    expect_bytes(&t, BOOL, 1, "\0\1\1", 3, "bool numbers");
    t = pb_tensor("t", BOOL, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, "\0\xff\2", 3);
    expect_bytes(&t, BOOL, 1, "\0\1\1", 3, "bool raw, not 0 or 1");
    t = pb_tensor("t", F16, 1, three);
    packed(&t, PB_TENSOR_INT32, 3, (const int64_t[]){ 0x3c00, 0xc000, 0x7c00 });
    expect_bytes(&t, F16, 1, "\x00\x3c\x00\xc0\x00\x7c", 6, "float16");
    t = pb_tensor("t", I64, 1, three);
    packed(&t, PB_TENSOR_INT64, 3, (const int64_t[]){ INT64_MIN, -1, 1 });
    expect_bytes(&t, I64, 1, (const int64_t[]){ INT64_MIN, -1, 1 }, 24,
                 "int64");
    t = pb_tensor("t", U64, 0, NULL);
    packed(&t, 11, 1, (const int64_t[]){ -1 });
    expect_bytes(&t, U64, 0, (const uint64_t[]){ UINT64_MAX }, 8, "uint64");
    t = pb_tensor("t", F64, 0, NULL);
    pb_bytes(&t, 10, (const double[]){ 0.1 }, 8);
    expect_bytes(&t, F64, 0, (const double[]){ 0.1 }, 8, "double");
    t = pb_tensor("t", C64, 0, NULL);
    pb_bytes(&t, 4, f, 8);
    expect_bytes(&t, C64, 0, f, 8, "complex64");
    t = pb_tensor("t", U4, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, "\x21\x0f", 2);
    expect_bytes(&t, U4, 1, "\x01\x02\x0f", 3, "uint4 raw");
    t = pb_tensor("t", I4, 1, three);
    packed(&t, PB_TENSOR_INT32, 2, (const int64_t[]){ 0x81, 0x0f });
    expect_bytes(&t, I4, 1, "\x01\xf8\xff", 3, "int4 numbers");
    t = pb_tensor("t", I2, 1, three);
    pb_bytes(&t, PB_TENSOR_RAW, "\x39", 1);
    expect_bytes(&t, I2, 1, "\x01\xfe\xff", 3, "int2 raw");
}

static void test_strings(void **state)
{
    static const int64_t dims[] = { 2, 2 };
    static const struct {
        const char *s;
        size_t len;
    } want[] = { { "a\0b", 3 }, { "", 0 }, { "\xf0\x9f\x98\x80", 4 },
                 { "x", 1 } };
    pb t = pb_tensor("t", STR, 2, dims);
    loaded l;

    (void)state;
    for (int i = 0; i < 4; i++)
        pb_bytes(&t, PB_TENSOR_STRING, want[i].s, want[i].len);
    pb m = const_model(&t, "t", STR);
    must_load(&l, &m);
    const qn_const *c = find_value(l.graph, "t")->data;
    qn_string elems[4];
    char heap[64];
    assert_true(c->string_bytes <= sizeof heap);
    memcpy(heap, c->strings, c->string_bytes);
    qn_strings strings = { .base = { [QN_STRINGS_STATIC] = heap } };
    assert_int_equal(qn_const_read(c, elems, &l.err), QN_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(elems[i].len, want[i].len);
        assert_memory_equal(qn_string_bytes(&strings, elems[i]), want[i].s,
                            want[i].len);
    }
    unload(&l);
}

static pb sparse(const int64_t *indices, int rank2)
{
    static const int64_t dims[] = { 2, 3 }, two[] = { 2, 2 };
    pb s = { 0 }, i = pb_tensor("", I64, rank2 ? 2 : 1, two);
    pb v = pb_tensor("t", F32, 1, two);

    pb_bytes(&v, PB_TENSOR_RAW, (const float[]){ 5, 7 }, 8);
    packed(&i, PB_TENSOR_INT64, rank2 ? 4 : 2, indices);
    pb_put(&s, 1, &v);
    pb_put(&s, 2, &i);
    packed(&s, 3, 2, dims);
    return s;
}

static void test_sparse(void **state)
{
    static const struct {
        int rank2;
        int64_t indices[4];
        qn_status want;
    } rows[] = {
        { 0, { 1, 5 }, QN_OK },           { 1, { 0, 1, 1, 2 }, QN_OK },
        { 0, { 1, 6 }, QN_RANGE },        { 0, { 5, 1 }, QN_FORMAT },
        { 1, { 0, 3, 1, 2 }, QN_RANGE },  { 0, { -1, 2 }, QN_RANGE },
        { 0, { 1, 1 }, QN_FORMAT },
    };
    static const float want[] = { 0, 5, 0, 0, 0, 7 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb g = { 0 }, s = sparse(rows[i].indices, rows[i].rank2);
        float got[6];
        loaded l;
        pb_put(&g, PB_GRAPH_SPARSE, &s);
        pb_add_output(&g, "t", F32, NULL);
        pb m = pb_model(8, 13, &g);
        must_load(&l, &m);
        const qn_const *c = find_value(l.graph, "t")->data;
        assert_int_equal(c->bytes, sizeof got);
        qn_status st = qn_const_read(c, got, &l.err);
        if (st != rows[i].want ||
            (st == QN_OK && memcmp(got, want, sizeof want)))
            fail_msg("row %zu: %s", i, qn_status_name(st));
        unload(&l);
    }
}

/* Constant nodes become constants. */
static void test_constant_nodes(void **state)
{
    pb g = { 0 }, node = pb_node("Constant", "", "", "five");
    loaded l;

    (void)state;
    pb_add_int_attr(&node, "value_int", 5);
    pb_put(&g, PB_GRAPH_NODE, &node);
    pb_add_node(&g, "Identity", "", "five", "y");
    pb_add_output(&g, "y", I64, "");
    pb m = pb_model(8, 13, &g);
    must_load(&l, &m);
    assert_int_equal(l.graph->n_nodes, 1);
    const qn_const *c = find_value(l.graph, "five")->data;
    int64_t v;
    assert_int_equal(qn_const_read(c, &v, &l.err), QN_OK);
    assert_int_equal(v, 5);
    assert_int_equal(c->shape.rank, 0);
    unload(&l);
}

/* ---- external data ---- */

typedef struct folder {
    char path[64], model[96];
} folder;

static void put_file(const char *dir, const char *name, const void *p, size_t n)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static pb external_model(const char *location, const char *offset,
                         const char *length)
{
    static const int64_t dim = 2;
    const char *pairs[] = { "location", location, "offset", offset,
                            "length",   length };
    pb t = pb_tensor("t", F32, 1, &dim);

    for (int i = 0; i < 6; i += 2) {
        pb entry = { 0 };
        if (!pairs[i + 1])
            continue;
        pb_text(&entry, 1, pairs[i]);
        pb_text(&entry, 2, pairs[i + 1]);
        pb_put(&t, 13, &entry);
    }
    pb_int(&t, 14, 1);
    return const_model(&t, "t", F32);
}

static void test_external_data(void **state)
{
    static const struct {
        const char *location, *offset, *length;
        qn_status want;
        const char *says;
    } rows[] = {
        { "w.bin", "4", "8", QN_OK, "" },
        { "w.bin", "4", NULL, QN_OK, "" },
        { "sub/w.bin", "4", "8", QN_OK, "" },
        { "./w.bin", "4", "8", QN_OK, "" },
        { "inside", "4", "8", QN_OK, "" },
        { "w.bin", NULL, "8", QN_OK, "" },
        { "w.bin", "4", "9", QN_FORMAT, "the file has 12" },
        { "w.bin", "13", NULL, QN_FORMAT, "the file has 12" },
        { "w.bin", "18446744073709551615", "8", QN_FORMAT, "the file has 12" },
        { "w.bin", "18446744073709551616", "8", QN_FORMAT, "offset" },
        { "w.bin", "-4", "8", QN_FORMAT, "offset '-4'" },
        { "w.bin", "4", "4", QN_FORMAT, "4 bytes" },
        { "none.bin", "0", "8", QN_NOT_FOUND, "none.bin" },
        { "../w.bin", "0", "8", QN_INVALID, "not a path below" },
        { "sub/../../w.bin", "0", "8", QN_INVALID, "not a path below" },
        { "/etc/passwd", "0", "8", QN_INVALID, "not a path below" },
        { "", "0", "8", QN_INVALID, "not a path below" },
        { "sub//w.bin", "0", "8", QN_INVALID, "not a path below" },
        { "outside", "0", "8", QN_INVALID, "link out of" },
        { "away/passwd", "0", "8", QN_INVALID, "link out of" },
        { "sub", "0", "8", QN_IO,
          "external data 'sub' is not a regular file" },
    };
    static const float data[] = { 9, 1, 2 };
    char dir[] = "/tmp/quern-onnx-XXXXXX", path[96];

    (void)state;
    assert_non_null(mkdtemp(dir));
    put_file(dir, "w.bin", data, sizeof data);
    snprintf(path, sizeof path, "%s/sub", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    put_file(path, "w.bin", data, sizeof data);
    snprintf(path, sizeof path, "%s/inside", dir);
    assert_int_equal(symlink("sub/w.bin", path), 0);
    snprintf(path, sizeof path, "%s/outside", dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    snprintf(path, sizeof path, "%s/away", dir);
    assert_int_equal(symlink("/etc", path), 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pb m = external_model(rows[i].location, rows[i].offset, rows[i].length);
        qn_model_file *file;
        qn_graph *graph;
        qn_error err = { 0 };
        put_file(dir, "model.onnx", m.data, m.n);
        pb_free(&m);
        snprintf(path, sizeof path, "%s/model.onnx", dir);
        qn_status st = qn_model_open(path, &file, &graph, &err);
        if (st != rows[i].want || !strstr(err.text, rows[i].says))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), err.text);
        if (st != QN_OK)
            continue;
        float got[2], first = rows[i].offset ? 1.0f : 9.0f;
        const qn_const *c = find_value(graph, "t")->data;
        assert_int_equal(qn_const_read(c, got, &err), QN_OK);
        assert_true(got[0] == first);
        const char *name;
        char sum[QN_SHA256_TEXT];
        assert_int_equal(qn_model_digest(file, 1, &name, sum, &err), QN_OK);
        assert_non_null(strstr(name, "w.bin"));
        qn_graph_free(graph);
        qn_model_close(file);
    }
    static const char *const made[] = { "model.onnx", "away", "outside",
                                        "inside", "sub/w.bin", "w.bin" };
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, made[i]);
        assert_int_equal(unlink(path), 0);
    }
    snprintf(path, sizeof path, "%s/sub", dir);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_sparse),
        cmocka_unit_test(test_constant_nodes),
        cmocka_unit_test(test_external_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
