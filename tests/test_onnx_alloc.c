/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails, for every n, while a model is read, a repository
 * scanned, a tensor file read: QN_NO_MEMORY comes back and nothing is leaked.
 * Linked with --wrap for the three calls that runtime/base/alloc.c makes.
 */
#include "models/model.h"
#include "models/repository.h"
#include "tests/support/pb.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static long countdown = -1; /* calls until one fails; negative: none does */
static long blocks;         /* of ours that are alive */

void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void __real_free(void *p);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void __wrap_free(void *p);

static bool fails(void)
{
    return countdown >= 0 && countdown-- == 0;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = fails() ? NULL : __real_calloc(n, size);
    blocks += p != NULL;
    return p;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *p = fails() ? NULL : __real_realloc(old, size);
    blocks += !old && p;
    return p;
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
    void *p = fails() ? NULL : __real_aligned_alloc(align, size);
    blocks += p != NULL;
    return p;
}

/* Counts what other allocators made as well: compare only over a stretch in
 * which those balance. */
void __wrap_free(void *p)
{
    blocks -= p != NULL;
    __real_free(p);
}

/* Runs `fn` with the n-th allocation failing until it gets through. */
static void fail_each(qn_status (*fn)(qn_error *err))
{
    long n = 0;

    for (;; n++) {
        qn_error err = { 0 };
        countdown = n;
        qn_status st = fn(&err);
        bool through = countdown >= 0;
        countdown = -1;
        if (through) {
            assert_int_equal(st, QN_OK);
            break;
        }
        if (st != QN_NO_MEMORY || !err.text[0])
            fail_msg("allocation %ld: %s \"%s\"", n, qn_status_name(st),
                     err.text);
    }
    assert_true(n > 2);
}

static pb model;

/* An If with captures, a function, strings, a sparse tensor: many kinds of
 * allocation, and large enough for several blocks of the region. */
static void make_model(void)
{
    static const int64_t two = 2;
    pb g = { 0 }, yes = { 0 }, no = { 0 }, f = { 0 };
    pb names = pb_tensor("names", 8, 1, &two);

    pb_bytes(&names, PB_TENSOR_STRING, "a", 1);
    pb_bytes(&names, PB_TENSOR_STRING, "bc", 2);
    pb_put(&g, PB_GRAPH_INITIALIZER, &names);
    pb_add_floats(&g, "w", 2, (const float[]){ 1, 2 });
    pb_add_input(&g, "x", 1, "N,2");
    pb_add_input(&g, "c", 9, "");
    pb_add_node(&yes, "Add", "", "x,w", "t");
    pb_add_output(&yes, "t", 1, NULL);
    pb_add_output(&no, "x", 1, NULL);
    pb node = pb_node("If", "if", "c", "y0");
    pb_add_graph_attr(&node, "then_branch", &yes);
    pb_add_graph_attr(&node, "else_branch", &no);
    pb_put(&g, PB_GRAPH_NODE, &node);
    for (int i = 0; i < 100; i++) {
        char in[16], out[16];
        snprintf(in, sizeof in, "y%d", i);
        snprintf(out, sizeof out, "y%d", i + 1);
        node = pb_node("F", "call", in, out);
        pb_text(&node, PB_NODE_DOMAIN, "local");
        pb_put(&g, PB_GRAPH_NODE, &node);
    }
    pb_add_output(&g, "y100", 1, "N,2");
    pb_add_output(&g, "names", 8, "2");
    model = pb_model(8, 13, &g);
    pb_text(&f, 1, "F");
    pb_text(&f, 10, "local");
    pb_text(&f, 4, "a");
    pb_text(&f, 5, "b");
    node = pb_node("Identity", "", "a", "b");
    pb_put(&f, 7, &node);
    pb_put(&model, PB_MODEL_FUNCTION, &f);
}

static qn_status parse(qn_error *err)
{
    qn_model_file *file;
    qn_graph *graph;
    long before = blocks;
    qn_status st = qn_model_parse(model.data, model.n, &file, &graph, err);

    if (st == QN_OK) {
        qn_graph_free(graph);
        qn_model_close(file);
    }
    if (blocks != before)
        fail_msg("%ld blocks are left", blocks - before);
    return st;
}

static void test_parse(void **state)
{
    (void)state;
    make_model();
    fail_each(parse);
    pb_free(&model);
}

static qn_status config(qn_error *err)
{
    static const char text[] = "{\"versions\": [1, 2], \"required\": true}";
    qn_region region = { 0 };
    qn_model_config c;
    qn_status st = qn_model_config_parse(text, strlen(text), &region, &c, err);

    qn_region_release(&region);
    return st;
}

static void test_config(void **state)
{
    qn_error err = { 0 };

    (void)state;
    countdown = 0; /* the only call of ours; Jansson has its own */
    assert_int_equal(config(&err), QN_NO_MEMORY);
    countdown = -1;
    assert_int_equal(config(&err), QN_OK);
}

static char tensor_path[] = "/tmp/quern-alloc-XXXXXX";

static qn_status read_tensor(qn_error *err)
{
    qn_tensor_file t;
    long before = blocks;
    qn_status st = qn_tensor_pb_read(tensor_path, &t, err);

    qn_tensor_file_release(&t);
    if (blocks != before)
        fail_msg("%ld blocks are left", blocks - before);
    return st;
}

static void test_tensor(void **state)
{
    qn_tensor t = { QN_F32, { 1, { 2 } }, (float[]){ 1, 2 } };
    qn_error err = { 0 };
    int fd = mkstemp(tensor_path);

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(qn_tensor_pb_write(tensor_path, "t", &t, NULL, &err),
                     QN_OK);
    fail_each(read_tensor);
    unlink(tensor_path);
}

static char folder[] = "/tmp/quern-alloc-XXXXXX";

static qn_status scan(qn_error *err)
{
    qn_repository r;
    qn_status st = qn_repository_scan(folder, &r, err);

    if (st == QN_OK)
        assert_int_equal(r.n, 20);
    else
        assert_int_equal(r.n, 0);
    qn_repository_release(&r);
    return st;
}

/* Twenty models, so that every list grows; none of them is whole. */
static void test_scan(void **state)
{
    char path[64];

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/m%d", folder, i);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    fail_each(scan);
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/m%d", folder, i);
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_tensor),
        cmocka_unit_test(test_scan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
