/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/chain.h"

#include "runtime/base/half.h"
#include "runtime/ops/op.h"
#include "tests/support/rows.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#define ONE(f)          { .op = QN_PW_##f }
#define PAR(f, p, q)    { .op = QN_PW_##f, .a = (p), .b = (q) }
#define NUM(f, v)       { .op = QN_PW_##f, .kind = QN_CHAIN_CONST, .a = (v) }
#define NUM_L(f, v)                                                            \
    { .op = QN_PW_##f, .kind = QN_CHAIN_CONST, .left = true, .a = (v) }
#define TEN(f, i)       { .op = QN_PW_##f, .kind = QN_CHAIN_INPUT, .input = (i) }
#define TEN_L(f, i)                                                            \
    { .op = QN_PW_##f, .kind = QN_CHAIN_INPUT, .input = (i), .left = true }

const test_chain test_chains[] = {
    /* scale and shift of channels, activation */
    { { 4, { 2, 5, 3, 4 } }, 2, { { 3, { 5, 1, 1 } }, { 4, { 1, 5, 1, 1 } } },
      3, { TEN(mul, 1), TEN(add, 2), ONE(relu) } },
    /* bias along the last axis, and of the same shape */
    { { 3, { 2, 3, 8 } }, 2, { { 1, { 8 } }, { 3, { 2, 3, 8 } } },
      3, { TEN(add, 1), TEN_L(sub, 2), ONE(sigmoid) } },
    /* the exact Gelu as exporters write it */
    { { 2, { 37, 9 } }, 0, { { 0, { 0 } } },
      5, { NUM(div, 1.41421356f), ONE(erf), NUM(add, 1), TEN(mul, 0),
           NUM(mul, 0.5f) } },
    /* x sigmoid(x), odd length */
    { { 1, { 1031 } }, 0, { { 0, { 0 } } }, 2, { ONE(sigmoid), TEN(mul, 0) } },
    /* powers with each kind of exponent, on either side */
    { { 2, { 6, 16 } }, 1, { { 0, { 0 } } },
      6, { ONE(abs), NUM(pow, 0.5f), TEN(pow, 1), NUM(pow, 2), NUM(add, 0.25f),
           NUM_L(pow, 1.5f) } },
    { { 2, { 5, 12 } }, 1, { { 2, { 5, 12 } } },
      3, { ONE(abs), TEN(pow, 1), NUM(min, 100) } },
    { { 2, { 5, 12 } }, 1, { { 2, { 5, 1 } } },
      4, { TEN_L(max, 1), TEN(fmod, 1), TEN(prelu, 1), NUM_L(div, 1) } },
    /* parameters */
    { { 1, { 260 } }, 0, { { 0, { 0 } } },
      8, { PAR(hard_sigmoid, 0.25f, 0.5f), PAR(leaky_relu, 0.125f, 0),
           NUM(sub, 0.5f), PAR(elu, 2, 0), PAR(selu, 1.5f, 2),
           PAR(celu, 0.5f, 0), PAR(thresholded_relu, -2, 0),
           PAR(shrink, 0.25f, 0.125f) } },
    { { 1, { 260 } }, 0, { { 0, { 0 } } },
      6, { PAR(swish, 1.5f, 0), PAR(clip, -1, 2.5f), ONE(gelu_tanh), ONE(gelu),
           ONE(mish), ONE(softplus) } },
    /* rounding and elementary functions */
    { { 1, { 333 } }, 0, { { 0, { 0 } } },
      8, { NUM(mul, 1.25f), ONE(round), ONE(neg), NUM(div, 4), ONE(floor),
           NUM(add, 0.5f), ONE(ceil), ONE(sign) } },
    { { 1, { 333 } }, 0, { { 0, { 0 } } },
      6, { ONE(abs), ONE(sqrt), ONE(exp), ONE(log), NUM(add, 1),
           ONE(reciprocal) } },
    { { 1, { 65 } }, 0, { { 0, { 0 } } },
      9, { ONE(sin), ONE(cos), ONE(tan), ONE(atan), ONE(sinh), ONE(asinh),
           ONE(tanh), ONE(asin), ONE(cosh) } },
    { { 1, { 65 } }, 0, { { 0, { 0 } } },
      7, { ONE(abs), NUM(add, 1), ONE(acosh), ONE(tanh), ONE(atanh), ONE(acos),
           ONE(softsign) } },
    { { 1, { 128 } }, 0, { { 0, { 0 } } }, 2, { ONE(hard_swish), NUM(max, 0) } },
    /* operands that do not merge with the input's axes, sixteen steps */
    { { 5, { 2, 3, 2, 5, 4 } }, 3,
      { { 5, { 2, 1, 2, 1, 4 } }, { 5, { 1, 3, 1, 5, 1 } }, { 1, { 1 } } },
      16, { TEN(add, 1), TEN(mul, 2), TEN(sub, 3), NUM(mul, 0.5f), TEN(add, 1),
            TEN(mul, 2), TEN(sub, 3), NUM(mul, 0.5f), TEN_L(add, 1),
            TEN_L(mul, 2), TEN_L(sub, 3), NUM_L(mul, 0.5f), TEN(min, 1),
            TEN(max, 2), TEN_L(div, 3), ONE(tanh) } },
    /* a scalar, and nothing */
    { { 0, { 0 } }, 1, { { 0, { 0 } } }, 2, { TEN(add, 1), ONE(exp) } },
    { { 2, { 0, 3 } }, 1, { { 1, { 3 } } }, 2, { TEN(add, 1), ONE(exp) } },
    /* more than one block, channels last */
    { { 4, { 2, 31, 33, 8 } }, 1, { { 1, { 8 } } },
      3, { TEN(mul, 1), NUM(add, -0.25f), ONE(tanh) } },
    /* and a channel of odd size in the middle */
    { { 3, { 3, 7, 501 } }, 1, { { 2, { 7, 1 } } },
      2, { TEN(mul, 1), ONE(relu) } },
};
const size_t test_n_chains = sizeof test_chains / sizeof test_chains[0];

static void write_value(qn_dtype t, float v, void *data, int64_t i)
{
    uint16_t h = t == QN_F16 ? qn_f32_to_f16(v) : qn_f32_to_bf16(v);
    if (t == QN_F32)
        memcpy((char *)data + 4 * i, &v, 4);
    else
        memcpy((char *)data + 2 * i, &h, 2);
}

static void *room(qn_region *r, size_t size)
{
    void *p = qn_region_alloc(r, size + 1, 1);
    assert_non_null(p);
    return p;
}

static void fill(test_node *t, uint32_t i, const test_chain_dims *d,
                 qn_dtype dtype)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, -0.0f, 0.0f, 1e-30f,
                                 -200.0f, 88.0f };
    test_node_input(t, i, dtype, d->rank, d->dims, NULL);
    int64_t n = qn_count(&t->in[i]);
    t->in[i].data = room(&t->region, (size_t)n * qn_dtype_size(dtype));
    for (int64_t k = 0; k < n; k++)
        write_value(dtype,
                    k % 29 == 28 && !i ? odd[k / 29 % 8]
                                       : (float)test_filler(k + 7 * i),
                    t->in[i].data, k);
}

void test_chain_init(test_node *t, const test_chain *c, qn_dtype dtype,
                     test_chain_attrs *attrs)
{
    test_node_init(t, "Relu", 14, c->n_operands + 1, 1);
    t->node.domain = "ai.quern";
    t->node.op_name = "Chain";
    t->node.opset = 1;
    t->node.op = qn_op_find("ai.quern", "Chain", 1, NULL);
    assert_non_null(t->node.op);
    for (uint32_t i = 0; i < c->n; i++) {
        const qn_chain_step *s = &c->steps[i];
        attrs->steps[4 * i] = s->op;
        attrs->steps[4 * i + 1] = s->kind;
        attrs->steps[4 * i + 2] = s->input;
        attrs->steps[4 * i + 3] = s->left;
        attrs->numbers[2 * i] = s->a;
        attrs->numbers[2 * i + 1] = s->b;
    }
    test_node_ints(t, "steps", 4 * c->n, attrs->steps);
    test_node_floats(t, "numbers", 2 * c->n, attrs->numbers);
    fill(t, 0, &c->x, dtype);
    for (uint32_t i = 0; i < c->n_operands; i++)
        fill(t, i + 1, &c->operands[i], dtype);
}

/* ---- one by one ---- */

static const char *const names[QN_PW_COUNT] = {
#define ENTRY(name, op) [QN_PW_##name] = op,
    QN_PW_UNARY_LIST(ENTRY) QN_PW_BINARY_LIST(ENTRY)
#undef ENTRY
};

/* What the operator calls a and b. */
static const struct {
    const char *a, *b;
} parameters[QN_PW_UNARY_COUNT] = {
    [QN_PW_hard_sigmoid] = { "alpha", "beta" },
    [QN_PW_leaky_relu] = { "alpha", NULL },
    [QN_PW_elu] = { "alpha", NULL },
    [QN_PW_selu] = { "alpha", "gamma" },
    [QN_PW_celu] = { "alpha", NULL },
    [QN_PW_swish] = { "alpha", NULL },
    [QN_PW_thresholded_relu] = { "alpha", NULL },
    [QN_PW_shrink] = { "lambd", "bias" },
};

static void scalar(test_node *n, uint32_t i, qn_dtype dtype, float v)
{
    void *data = room(&n->region, 8);
    write_value(dtype, v, data, 0);
    test_node_input(n, i, dtype, 0, NULL, data);
}

static void single(test_node *n, const qn_chain_step *s, const qn_tensor *value,
                   const qn_tensor *inputs)
{
    bool two = s->kind != QN_CHAIN_UNARY;
    bool clip = s->op == QN_PW_clip;
    test_node_init(n, names[s->op], 28, two ? 2 : clip ? 3 : 1, 1);
    if (s->op == QN_PW_fmod)
        test_node_int(n, "fmod", 1);
    if (s->op == QN_PW_gelu_tanh)
        test_node_string(n, "approximate", "tanh");
    n->in[two && s->left] = *value;
    if (s->kind == QN_CHAIN_INPUT)
        n->in[!s->left] = inputs[s->input];
    else if (s->kind == QN_CHAIN_CONST)
        scalar(n, !s->left, value->dtype, s->a);
    if (two)
        return;
    if (clip) {
        scalar(n, 1, value->dtype, s->a);
        scalar(n, 2, value->dtype, s->b);
        return;
    }
    if (parameters[s->op].a)
        test_node_float(n, parameters[s->op].a, s->a);
    if (parameters[s->op].b)
        test_node_float(n, parameters[s->op].b, s->b);
}

void test_chain_singles(const test_node *t, const test_chain *c,
                        test_chain_run run, void *out)
{
    size_t bytes = (size_t)qn_count(&t->in[0]) *
                   qn_dtype_size(t->in[0].dtype);
    qn_region region = { 0 };
    qn_tensor value = t->in[0];
    value.data = room(&region, bytes);
    if (bytes)
        memcpy(value.data, t->in[0].data, bytes);
    for (uint32_t i = 0; i < c->n; i++) {
        test_node n;
        single(&n, &c->steps[i], &value, t->in);
        if (run(&n) != QN_OK)
            fail_msg("step %u, %s: %s", i, n.node.op_name, n.err.text);
        if (bytes)
            memcpy(value.data, n.out[0].data, bytes);
        test_node_release(&n);
    }
    if (bytes)
        memcpy(out, value.data, bytes);
    qn_region_release(&region);
}
