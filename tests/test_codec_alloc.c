/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The n-th allocation fails, for every n, while a body is scanned and an answer
 * grows: QN_NO_MEMORY comes back and nothing is leaked. Then the same for
 * Jansson's own allocations. Its lexer takes some of those failures for bad
 * tokens and others (2.14: a string buffer that cannot grow) for success, so
 * there only leaks and missing reasons count.
 */
#include "server/codec/codec.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static long countdown = -1; /* calls until one fails; negative: none does */
static long blocks;         /* that are alive */

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

void __wrap_free(void *p)
{
    blocks -= p != NULL;
    __real_free(p);
}

static void *jansson_malloc(size_t size)
{
    return __wrap_calloc(1, size);
}

static void fail_each(qn_status (*fn)(qn_error *err), bool exact)
{
    long n = 0;

    for (;; n++) {
        qn_error err = { 0 };
        long before = blocks;

        countdown = n;
        qn_status st = fn(&err);
        bool through = countdown >= 0;
        countdown = -1;
        if (blocks != before)
            fail_msg("allocation %ld: %ld blocks are left", n, blocks - before);
        if (through) {
            assert_int_equal(st, QN_OK);
            break;
        }
        if (exact ? st != QN_NO_MEMORY : st != QN_OK && st != QN_FORMAT &&
                                             st != QN_NO_MEMORY)
            fail_msg("allocation %ld: %s", n, qn_status_name(st));
        if (st != QN_OK && !err.text[0])
            fail_msg("allocation %ld: %s \"%s\"", n, qn_status_name(st),
                     err.text);
    }
    assert_true(n > 0);
}

static qn_status scan(qn_error *err)
{
    static const char body[] =
        "{\"id\":\"a longer identifier than fits\",\"parameters\":{\"a\":[1,2,"
        "{\"b\":\"c\"}],\"r\":0.5,\"big\":123456789012},\"inputs\":[{\"name\":"
        "\"x\",\"shape\":[2],\"datatype\":\"FP32\",\"data\":[1,2]},{\"name\":"
        "\"y\",\"shape\":[1],\"datatype\":\"BYTES\",\"data\":[\"t\"]}],\"output"
        "s\":[{\"name\":\"o\",\"parameters\":{\"binary_data\":true}}],\"more\":"
        "[null,true]}";
    qn_region region = { 0 };
    qn_scan out;
    qn_status st = qn_scan_body(body, sizeof body - 1, NULL, &region, &out, err);

    qn_region_release(&region);
    return st;
}

static qn_status object(qn_error *err)
{
    static const char body[] = "{\"parameters\":{\"config\":\"{}\",\"n\":[1]}}";
    qn_region region = { 0 };
    qn_params out;
    qn_status st = qn_scan_object(body, sizeof body - 1, NULL, &region, &out,
                                  err);

    qn_region_release(&region);
    return st;
}

static qn_status answer(qn_error *err)
{
    static uint8_t values[4000];
    qn_reply_output output = {
        "y", { QN_U8, qn_shape_make(1, (int64_t[]){ 4000 }), values }, false
    };
    qn_reply reply = { .model_name = "m", .n_outputs = 1, .outputs = &output };
    qn_sink sink = qn_sink_heap();
    qn_status st = qn_reply_write(&sink, &reply, NULL, err);

    qn_free(sink.data);
    return st;
}

static void test_each_allocation(void **state)
{
    (void)state;
    fail_each(scan, true);
    fail_each(object, true);
    fail_each(answer, true);
}

static void test_each_allocation_of_jansson(void **state)
{
    (void)state;
    json_set_alloc_funcs(jansson_malloc, __wrap_free);
    fail_each(scan, false);
    fail_each(object, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation),
        cmocka_unit_test(test_each_allocation_of_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
