/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/node.h"

#include "runtime/ops/op.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

void test_node_init(test_node *t, const char *op, int opset, uint32_t n_in,
                    uint32_t n_out)
{
    static qn_value_id ids[TEST_MAX_ARGS];
    memset(t, 0, sizeof *t);
    t->node = (qn_node){ .name = "n", .domain = "", .op_name = op,
                         .opset = opset, .n_in = n_in, .n_out = n_out,
                         .in = ids, .out = ids, .attrs = t->attrs };
    const char *dot = strrchr(op, '.');
    if (dot) {
        t->node.domain =
            qn_region_strndup(&t->region, op, (size_t)(dot - op));
        assert_non_null(t->node.domain);
        t->node.op_name = dot + 1;
    }
    t->node.op = qn_op_find(t->node.domain, t->node.op_name, opset, NULL);
    if (!t->node.op)
        fail_msg("no operator %s at opset %d", op, opset);
}

static qn_attr *add(test_node *t, const char *name, qn_attr_kind kind)
{
    qn_attr *a = &t->attrs[t->node.n_attrs++];
    a->name = name;
    a->kind = kind;
    return a;
}

void test_node_int(test_node *t, const char *name, int64_t value)
{
    add(t, name, QN_ATTR_INT)->i = value;
}

void test_node_float(test_node *t, const char *name, float value)
{
    add(t, name, QN_ATTR_FLOAT)->f = value;
}

void test_node_string(test_node *t, const char *name, const char *value)
{
    add(t, name, QN_ATTR_STRING)->s = (qn_text){ value, strlen(value) };
}

void test_node_ints(test_node *t, const char *name, size_t n,
                    const int64_t *values)
{
    qn_attr *a = add(t, name, QN_ATTR_INTS);
    a->n = n;
    a->ints = values;
}

void test_node_floats(test_node *t, const char *name, size_t n,
                      const float *values)
{
    qn_attr *a = add(t, name, QN_ATTR_FLOATS);
    a->n = n;
    a->floats = values;
}

void test_node_input(test_node *t, uint32_t i, qn_dtype dtype, int rank,
                     const int64_t *dims, const void *data)
{
    t->in[i].dtype = dtype;
    t->in[i].shape = qn_shape_make(rank, dims);
    memcpy(&t->in[i].data, &data, sizeof data);
}

qn_status test_node_run(test_node *t)
{
    if (t->node.op->check) {
        qn_status st = t->node.op->check(&t->node, &t->err);
        if (st != QN_OK)
            return st;
    }
    return qn_eval_node(&t->node, t->in, t->out, &t->strings, &t->region,
                        &t->err);
}

static void expect_shape(const test_node *t, uint32_t i, qn_dtype dtype,
                         int rank, const int64_t *dims)
{
    char got[QN_SHAPE_TEXT], text[QN_SHAPE_TEXT];
    qn_shape want = qn_shape_make(rank, dims);
    if (t->out[i].dtype != dtype || !qn_shape_equal(&t->out[i].shape, &want))
        fail_msg("%s output %u: %s %s, expected %s %s", t->node.op_name, i,
                 qn_dtype_name(t->out[i].dtype),
                 qn_shape_text(&t->out[i].shape, got), qn_dtype_name(dtype),
                 qn_shape_text(&want, text));
}

void test_node_expect_f32(const test_node *t, uint32_t i, int rank,
                          const int64_t *dims, const float *want, double rtol,
                          double atol)
{
    expect_shape(t, i, QN_F32, rank, dims);
    const float *got = t->out[i].data;
    for (int64_t k = 0; k < qn_count(&t->out[i]); k++) {
        double g = (double)got[k], w = (double)want[k];
        if (isnan(g) && isnan(w))
            continue;
        if (!(g == w || fabs(g - w) <= atol + rtol * fabs(w)))
            fail_msg("%s output %u index %lld: %.9g, expected %.9g",
                     t->node.op_name, i, (long long)k, g, w);
    }
}

void test_node_expect(const test_node *t, uint32_t i, qn_dtype dtype, int rank,
                      const int64_t *dims, const void *want)
{
    expect_shape(t, i, dtype, rank, dims);
    size_t size = qn_dtype_size(dtype);
    const char *g = t->out[i].data, *w = want;
    for (size_t k = 0; k < (size_t)qn_count(&t->out[i]); k++)
        if (memcmp(g + k * size, w + k * size, size))
            fail_msg("%s output %u differs at index %zu", t->node.op_name, i, k);
}

void test_node_release(test_node *t)
{
    qn_region_release(&t->region);
}
