/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/move.h"

#include "tests/support/nhwc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const qn_dtype test_move_types[TEST_MOVE_TYPES] = { QN_U8, QN_I16, QN_F32,
                                                      QN_I64, QN_C128 };

uint8_t *move_pattern(void)
{
    uint8_t *p = malloc(MAX_BYTES);
    uint32_t x = 12345;
    assert_non_null(p);
    for (size_t i = 0; i < MAX_BYTES; i++) {
        x = x * 1664525u + 1013904223u;
        p[i] = (uint8_t)(x >> 24);
    }
    return p;
}

void test_move_run(test_node *t, const char *what, size_t row)
{
    if (test_node_run(t) != QN_OK)
        fail_msg("%s row %zu: %s", what, row, t->err.text);
}

void test_move_refused(test_node *t, const char *what, qn_status want,
                           const char *says)
{
    qn_status st = test_node_run(t);
    if (st != want || !strstr(t->err.text, says))
        fail_msg("%s: status %s, \"%s\"", what, qn_status_name(st), t->err.text);
    test_node_release(t);
}

void test_move_nhwc(test_node *t, const char *what, size_t row)
{
    qn_tensor out[TEST_MAX_ARGS];
    if (test_nhwc_run(&t->node, t->in, out, &t->region, &t->err) != QN_OK)
        fail_msg("%s row %zu channels-last: %s", what, row, t->err.text);
    for (uint32_t i = 0; i < t->node.n_out; i++) {
        size_t bytes = (size_t)qn_count(&t->out[i]) *
                       qn_dtype_size(t->out[i].dtype);
        if (bytes && memcmp(out[i].data, t->out[i].data, bytes))
            fail_msg("%s row %zu output %u: channels-last differs", what, row, i);
    }
}

void test_unravel(const qn_shape *s, int64_t at, int64_t idx[QN_MAX_RANK])
{
    for (int d = s->rank - 1; d >= 0; d--) {
        idx[d] = at % s->dims[d];
        at /= s->dims[d];
    }
}

static int64_t ravel(const qn_shape *s, const int64_t idx[QN_MAX_RANK])
{
    int64_t at = 0;
    for (int d = 0; d < s->rank; d++)
        at = at * s->dims[d] + idx[d];
    return at;
}

void test_move_element(const test_node *t, int64_t o, const void *want,
                           const char *what, size_t row)
{
    size_t size = qn_dtype_size(t->out[0].dtype);
    if (memcmp((const char *)t->out[0].data + (size_t)o * size, want, size))
        fail_msg("%s row %zu: element %lld differs", what, row, (long long)o);
}

const char *move_element(const qn_tensor *t, const int64_t *idx)
{
    return (const char *)t->data +
           (size_t)ravel(&t->shape, idx) * qn_dtype_size(t->dtype);
}
