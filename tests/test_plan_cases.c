/* SPDX-License-Identifier: Apache-2.0 */
/* Corners of planning, each of which went wrong once: outputs that nobody reads,
 * defaults that nobody needs, views whose shape is data, branches that would
 * fail if they were taken. */
#include "runtime/exec/session.h"
#include "tests/support/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    qn_runtime *runtime;
    qn_session *session;
    qn_run run;
    qn_error err;
} fixture;

static void open_graph(fixture *f, qn_graph *g)
{
    qn_runtime_options options = { .memory_budget = 64u << 20, .threads = 2 };
    memset(f, 0, sizeof *f);
    tg_finish(g);
    if (qn_runtime_new(&options, &f->runtime, &f->err) != QN_OK ||
        qn_session_new(f->runtime, g, NULL, &f->session, &f->err) != QN_OK)
        fail_msg("%s", f->err.text);
}

static void close_graph(fixture *f)
{
    qn_ledger_state state;
    qn_session_free(f->session);
    qn_pool_trim(qn_runtime_pool(f->runtime), 0);
    qn_ledger_read(qn_runtime_ledger(f->runtime), &state);
    assert_int_equal(state.charged, 0);
    qn_runtime_free(f->runtime);
}

/* The caller releases f->run, also after an error. */
static qn_status run(fixture *f, const qn_tensor *inputs)
{
    const qn_io *io;
    qn_plan *plan;
    qn_status st = qn_session_plan(f->session, inputs, &plan, &f->err);
    memset(&f->run, 0, sizeof f->run);
    if (st != QN_OK)
        return st;
    qn_run_init(&f->run, f->session, plan);
    qn_plan_release(plan);
    st = qn_run_lease(&f->run, NULL, NULL, &f->err);
    if (st != QN_OK)
        return st;
    for (uint32_t i = 0; i < qn_session_inputs(f->session, &io); i++) {
        qn_tensor in = qn_run_input(&f->run, i);
        size_t bytes;
        assert_int_equal(qn_present(&in), qn_present(&inputs[i]));
        if (!qn_present(&in))
            continue;
        assert_int_equal(qn_tensor_bytes(in.dtype, &in.shape, &bytes, NULL),
                         QN_OK);
        if (bytes)
            memcpy(in.data, inputs[i].data, bytes);
    }
    return qn_run_sync(&f->run, &f->err);
}

static void expect_ok(fixture *f, const qn_tensor *inputs)
{
    if (run(f, inputs) != QN_OK)
        fail_msg("%s", f->err.text);
}

static qn_tensor floats(int rank, const int64_t *dims, const float *data)
{
    qn_tensor t = { .dtype = QN_F32, .shape = qn_shape_make(rank, dims) };
    memcpy(&t.data, &data, sizeof data);
    return t;
}

static void expect_shape(const qn_tensor *t, int rank, const int64_t *dims)
{
    qn_shape want = qn_shape_make(rank, dims);
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    if (!qn_shape_equal(&t->shape, &want))
        fail_msg("shape %s, expected %s", qn_shape_text(&t->shape, a),
                 qn_shape_text(&want, b));
}

static const int64_t any1[] = { -1 }, any2[] = { -1, -1 }, d4[] = { 4 },
                     d1[] = { 1 }, d0[] = { 0 };

/* Split's first output is not used: the second still is the second half. */
static void test_output_that_nobody_reads(void **state)
{
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value v = { .name = "half", .kind = QN_VALUE_NODE, .rank = -1 };
    qn_value_id second;
    qn_error err = { 0 };
    qn_node *node;
    assert_int_equal(qn_graph_add_value(g, &v, &second, &err), QN_OK);
    qn_value_id first;
    assert_int_equal(qn_graph_add_value(g, &v, &first, &err), QN_OK);
    assert_int_equal(qn_graph_add_node(g, 1, 2, 1, &node, &err), QN_OK);
    qn_attr two = { .name = "num_outputs", .kind = QN_ATTR_INT, .i = 2 };
    node->op_name = "Split";
    node->opset = 18;
    node->in[0] = x;
    node->out[0] = first;
    node->out[1] = second;
    node->attrs = &two;
    tg_output(g, tg_op1(g, "Neg", second), "y");
    open_graph(&f, g);
    const float in[] = { 1, 2, 3, 4 };
    qn_tensor t = floats(1, d4, in);
    expect_ok(&f, &t);
    const float *y = qn_run_output(&f.run, 0).data;
    assert_true(y[0] == -3 && y[1] == -4);
    qn_run_release(&f.run);
    close_graph(&f);
}

/* Reshape(x, to) where `to` has a default that only the plan reads. */
static void test_default_that_no_launch_reads(void **state)
{
    static const int64_t two[] = { 2, 2 }, d2[] = { 2 };
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id to = tg_input(g, "to", QN_I64, 1, any1);
    qn_const c = { .dtype = QN_I64, .shape = { 1, { 2 } }, .bytes = sizeof two,
                   .data = two };
    g->values[to].data = &c;
    /* x + 0 * Size(to): to's bytes are not looked at */
    qn_value_id n = tg_op1(g, "Cast", tg_op1(g, "Size", to));
    tg_attr_int(g, n, "to", QN_F32);
    tg_output(g, tg_op2(g, "Add", x, n), "y");
    open_graph(&f, g);
    const float in[] = { 1, 2, 3, 4 };
    qn_tensor t[] = { floats(1, d4, in), { 0 } };
    expect_ok(&f, t);
    assert_true(((float *)qn_run_output(&f.run, 0).data)[3] == 6);
    qn_run_release(&f.run);
    const int64_t three[] = { 1, 2, 3 };
    t[1] = (qn_tensor){ .dtype = QN_I64, .shape = qn_shape_make(1, d2) };
    memcpy(&t[1].data, &(const int64_t *){ three }, sizeof t[1].data);
    t[1].shape.dims[0] = 3;
    expect_ok(&f, t);
    assert_true(((float *)qn_run_output(&f.run, 0).data)[3] == 7);
    qn_run_release(&f.run);
    close_graph(&f);
}

/* Reshape(NonZero(x), [-1]) is an output: it has Reshape's shape. */
static void test_view_of_unknown_size_as_output(void **state)
{
    static const int64_t minus = -1;
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 2, any2);
    qn_value_id nz = tg_op1(g, "NonZero", x);
    tg_output(g, tg_op2(g, "Reshape", nz, tg_const(g, QN_I64, 1, d1, &minus)),
              "flat");
    tg_output(g, nz, "rows");
    open_graph(&f, g);
    const float in[] = { 0, 5, 6, 0 };
    qn_tensor t = floats(2, (int64_t[]){ 2, 2 }, in);
    expect_ok(&f, &t);
    qn_tensor flat = qn_run_output(&f.run, 0), rows = qn_run_output(&f.run, 1);
    static const int64_t want[] = { 0, 1, 1, 0 };
    expect_shape(&flat, 1, d4);
    expect_shape(&rows, 2, (int64_t[]){ 2, 2 });
    assert_memory_equal(flat.data, want, sizeof want);
    assert_memory_equal(rows.data, want, sizeof want);
    qn_run_release(&f.run);
    close_graph(&f);
}

/* Reshape(x, Cast(s)) with s from data, and x has no bytes at all. */
static void test_view_without_bytes(void **state)
{
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id s = tg_input(g, "s", QN_F32, 2, any2);
    qn_value_id sum = tg_op1(g, "ReduceMax", s);
    tg_attr_int(g, sum, "keepdims", 0);
    qn_value_id to = tg_op1(g, "Cast", tg_op2(g, "Mul", s, sum));
    tg_attr_int(g, to, "to", QN_I64);
    static const int64_t minus = -1;
    to = tg_op2(g, "Reshape", to, tg_const(g, QN_I64, 1, d1, &minus));
    tg_output(g, tg_op1(g, "Abs", tg_op2(g, "Reshape", x, to)), "y");
    open_graph(&f, g);
    const float shape[] = { 0, 1 };
    qn_tensor t[] = { floats(1, d0, NULL), floats(2, (int64_t[]){ 1, 2 }, shape) };
    expect_ok(&f, t);
    qn_tensor y = qn_run_output(&f.run, 0);
    /* a zero in Reshape's target copies the input's dimension */
    expect_shape(&y, 2, (int64_t[]){ 0, 1 });
    qn_run_release(&f.run);
    close_graph(&f);
}

/* if (sum(x) > 0) Transpose with a perm that does not fit, else x. */
static void test_branch_that_would_fail(void **state)
{
    static const float zero = 0;
    static const int64_t bad[] = { 3, 3 }, d2[] = { 2 };
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 2, any2);
    qn_value_id sum = tg_op1(g, "ReduceSum", x);
    tg_attr_int(g, sum, "keepdims", 0);
    qn_value_id y = tg_op1(
        g, "If", tg_op2(g, "Greater", sum, tg_const(g, QN_F32, 0, NULL, &zero)));
    qn_graph *yes = tg_new(g), *no = tg_new(g);
    tg_output(yes, tg_op2(yes, "Reshape", tg_capture(yes, x),
                          tg_const(yes, QN_I64, 1, d2, bad)), "t");
    tg_output(no, tg_op1(no, "Neg", tg_capture(no, x)), "e");
    tg_attr_graph(g, y, "then_branch", yes);
    tg_attr_graph(g, y, "else_branch", no);
    tg_output(g, y, "y");
    open_graph(&f, g);
    float in[] = { -1, -2, -3, -4 };
    qn_tensor t = floats(2, (int64_t[]){ 2, 2 }, in);
    expect_ok(&f, &t);
    assert_true(((float *)qn_run_output(&f.run, 0).data)[3] == 4);
    qn_run_release(&f.run);
    in[0] = 100;
    assert_int_equal(run(&f, &t), QN_SHAPE);
    assert_non_null(strstr(f.err.text, "Reshape"));
    qn_run_release(&f.run);
    close_graph(&f);
}

/* The condition has as many elements as x has non-zeros. */
static void test_condition_of_unknown_size(void **state)
{
    static const int64_t zero = 0;
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id c = tg_op2(g, "Greater", tg_op1(g, "NonZero", x),
                           tg_const(g, QN_I64, 0, NULL, &zero));
    qn_value_id y = tg_op1(g, "If", c);
    qn_graph *yes = tg_new(g), *no = tg_new(g);
    tg_output(yes, tg_capture(yes, x), "t");
    tg_output(no, tg_op1(no, "Neg", tg_capture(no, x)), "e");
    tg_attr_graph(g, y, "then_branch", yes);
    tg_attr_graph(g, y, "else_branch", no);
    tg_output(g, y, "y");
    open_graph(&f, g);
    static const struct {
        float in[4];
        qn_status want;
        float first;
    } rows[] = {
        { { 1, 0, 0, 0 }, QN_OK, -1 }, /* index 0 is not > 0 */
        { { 0, 7, 0, 0 }, QN_OK, 0 },
        { { 0, 0, 0, 0 }, QN_SHAPE, 0 },
        { { 1, 1, 0, 0 }, QN_SHAPE, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_tensor t = floats(1, d4, rows[i].in);
        qn_status st = run(&f, &t);
        if (st != rows[i].want)
            fail_msg("row %zu: %s %s", i, qn_status_name(st), f.err.text);
        if (st == QN_OK)
            assert_true(((float *)qn_run_output(&f.run, 0).data)[0] ==
                        rows[i].first);
        qn_run_release(&f.run);
    }
    close_graph(&f);
}

/* Twice as many Adds as could be computed if each did so twice, and a chain of
 * Negs deeper than a stack: both of constants too large to compute at once. */
static void test_long_chains_of_constants(void **state)
{
    enum { N = 20000 };
    static float ones[N];
    const int64_t dims[] = { N };
    fixture f;
    (void)state;
    for (int i = 0; i < N; i++)
        ones[i] = 1.0f;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id c = tg_const(g, QN_F32, 1, dims, ones);
    for (int i = 0; i < 100; i++)
        c = tg_op2(g, "Add", c, c);
    for (int i = 0; i < 3000; i++)
        c = tg_op1(g, "Neg", c);
    tg_output(g, tg_op2(g, "Mul", x, c), "y");
    open_graph(&f, g);
    qn_tensor t = floats(1, dims, ones);
    expect_ok(&f, &t);
    const float *y = qn_run_output(&f.run, 0).data;
    assert_true(y[0] == 0x1p100f && y[N - 1] == 0x1p100f);
    qn_run_release(&f.run);
    close_graph(&f);
}

/* Numbers with a fraction decide a branch: one plan for all of them. A plan for
 * each value of the integers that a shape is made of. */
static void test_what_is_in_the_key(void **state)
{
    static const float zero = 0;
    static const int64_t one = 1;
    fixture f;
    const qn_io *io;
    qn_plan *plans[8];
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, d4);
    qn_value_id n = tg_input(g, "n", QN_I64, 1, d1);
    qn_value_id sum = tg_op1(g, "ReduceSum", x);
    tg_attr_int(g, sum, "keepdims", 0);
    qn_value_id y = tg_op1(
        g, "If", tg_op2(g, "Greater", sum, tg_const(g, QN_F32, 0, NULL, &zero)));
    qn_graph *yes = tg_new(g), *no = tg_new(g);
    tg_output(yes, tg_capture(yes, x), "t");
    tg_output(no, tg_op1(no, "Neg", tg_capture(no, x)), "e");
    tg_attr_graph(g, y, "then_branch", yes);
    tg_attr_graph(g, y, "else_branch", no);
    tg_output(g, y, "y");
    qn_value_id to = tg_op2(g, "Add", n, tg_const(g, QN_I64, 1, d1, &one));
    tg_output(g, tg_op2(g, "Expand", sum, to), "z");
    open_graph(&f, g);
    assert_int_equal(qn_session_inputs(f.session, &io), 2);
    assert_false(io[0].value_in_key);
    assert_true(io[1].value_in_key);
    for (int i = 0; i < 6; i++) {
        float in[] = { (float)i - 2.5f, 1, 1, -2 };
        int64_t count = i % 2;
        qn_tensor t[] = { floats(1, d4, in),
                          { QN_I64, { 1, { 1 } }, &count } };
        expect_ok(&f, t);
        qn_tensor z = qn_run_output(&f.run, 1);
        expect_shape(&z, 1, &(int64_t){ count + 1 });
        assert_true(((float *)qn_run_output(&f.run, 0).data)[1] ==
                    (i < 3 ? -1 : 1));
        qn_run_release(&f.run);
    }
    size_t n_plans = qn_session_plans(f.session, plans, 8);
    assert_int_equal(n_plans, 2);
    for (size_t i = 0; i < n_plans; i++)
        qn_plan_release(plans[i]);
    close_graph(&f);
}

/* ConvTranspose keeps a table row for each of its strides' 10000 phases: more
 * than what is set aside at first for state that is prepared in a request. */
static void test_large_state_of_a_late_shape(void **state)
{
    static const int64_t strides[] = { 100, 100 }, w4[] = { 1, 1, 1, 1 };
    static const float two = 2;
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id to = tg_op1(g, "Cast", tg_input(g, "to", QN_F32, 1, d4));
    tg_attr_int(g, to, "to", QN_I64);
    qn_value_id y = tg_op2(g, "ConvTranspose", tg_op2(g, "Reshape", x, to),
                           tg_const(g, QN_F32, 4, w4, &two));
    qn_node *node = g->nodes[g->n_nodes - 1];
    qn_attr by = { .name = "strides", .kind = QN_ATTR_INTS, .n = 2,
                   .ints = strides };
    node->attrs = &by;
    node->n_attrs = 1;
    tg_output(g, y, "y");
    open_graph(&f, g);
    const float in[] = { 1, 2, 3, 4 }, shape[] = { 1, 1, 2, 2 };
    qn_tensor t[] = { floats(1, d4, in), floats(1, d4, shape) };
    expect_ok(&f, t);
    qn_tensor out = qn_run_output(&f.run, 0);
    expect_shape(&out, 4, (int64_t[]){ 1, 1, 101, 101 });
    const float *v = out.data;
    assert_true(v[0] == 2 && v[1] == 0 && v[100] == 4 && v[101 * 101 - 1] == 8);
    qn_run_release(&f.run);
    close_graph(&f);
}

/* If on data gives strings of an input, or of the model. */
static void test_branches_of_strings(void **state)
{
    static const float zero = 0;
    static const qn_string words[] = { { 0, 2 }, { 2, 3 } };
    const int64_t d2[] = { 2 };
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, d4);
    qn_value_id names = tg_input(g, "names", QN_STRING, 1, any1);
    qn_value_id sum = tg_op1(g, "ReduceSum", x);
    tg_attr_int(g, sum, "keepdims", 0);
    qn_value_id y = tg_op1(
        g, "If", tg_op2(g, "Greater", sum, tg_const(g, QN_F32, 0, NULL, &zero)));
    qn_graph *yes = tg_new(g), *no = tg_new(g);
    tg_output(yes, tg_capture(yes, names), "t");
    qn_const c = { .dtype = QN_STRING, .shape = { 1, { 2 } },
                   .bytes = sizeof words, .data = words, .strings = "nouis",
                   .string_bytes = 5 };
    qn_value_id fixed = tg_const(no, QN_STRING, 1, d2, words);
    no->values[fixed].data = &c;
    tg_output(no, fixed, "e");
    tg_attr_graph(g, y, "then_branch", yes);
    tg_attr_graph(g, y, "else_branch", no);
    tg_output(g, y, "y");
    open_graph(&f, g);
    for (int k = 0; k < 2; k++) {
        qn_plan *plan;
        const float in[] = { k ? 1.0f : -1.0f, 0, 0, 0 };
        const qn_tensor t[] = { floats(1, d4, in),
                                { QN_STRING, { 1, { 1 } }, NULL } };
        if (qn_session_plan(f.session, t, &plan, &f.err) != QN_OK)
            fail_msg("%s", f.err.text);
        qn_run_init(&f.run, f.session, plan);
        qn_plan_release(plan);
        f.run.string_bytes = 4;
        assert_int_equal(qn_run_lease(&f.run, NULL, NULL, &f.err), QN_OK);
        memcpy(qn_run_input(&f.run, 0).data, in, sizeof in);
        qn_string *name = qn_run_input(&f.run, 1).data;
        assert_int_equal(qn_string_put(&f.run.strings, "four", 4, name, &f.err),
                         QN_OK);
        if (qn_run_sync(&f.run, &f.err) != QN_OK)
            fail_msg("%s", f.err.text);
        qn_tensor out = qn_run_output(&f.run, 0);
        const qn_string *s = out.data;
        expect_shape(&out, 1, &(int64_t){ k ? 1 : 2 });
        const char *text = qn_string_bytes(&f.run.strings, s[k ? 0 : 1]);
        assert_memory_equal(text, k ? "four" : "uis", k ? 4 : 3);
        qn_run_release(&f.run);
    }
    close_graph(&f);
}

static void count_lease(qn_run *r, void *arg, qn_status status)
{
    (void)r;
    (void)status;
    ++*(int *)arg;
}

/* A run that waits for memory can be released: it leaves the queue. */
static void test_release_while_waiting(void **state)
{
    fixture f;
    qn_plan *plan;
    qn_run waiting;
    qn_pool_state pool;
    int leased = 0;
    (void)state;
    qn_graph *g = tg_new(NULL);
    tg_output(g, tg_op1(g, "Neg", tg_input(g, "x", QN_F32, 1, any1)), "y");
    open_graph(&f, g);
    /* 40 of the 64 MiB each */
    qn_tensor t = { .dtype = QN_F32, .shape = { 1, { 5 << 20 } } };
    if (qn_session_plan(f.session, &t, &plan, &f.err) != QN_OK)
        fail_msg("%s", f.err.text);
    qn_run_init(&f.run, f.session, plan);
    qn_run_init(&waiting, f.session, plan);
    qn_plan_release(plan);
    assert_int_equal(qn_run_lease(&f.run, NULL, NULL, &f.err), QN_OK);
    assert_int_equal(qn_run_lease(&waiting, count_lease, &leased, &f.err),
                     QN_NO_MEMORY);
    qn_run_release(&waiting);
    memset(&waiting, 0xff, sizeof waiting);
    qn_run_release(&f.run);
    assert_int_equal(leased, 0);
    qn_pool_read(qn_runtime_pool(f.runtime), &pool);
    assert_int_equal(pool.waiters, 0);
    assert_int_equal(pool.leases, 0);
    close_graph(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_that_nobody_reads),
        cmocka_unit_test(test_default_that_no_launch_reads),
        cmocka_unit_test(test_view_of_unknown_size_as_output),
        cmocka_unit_test(test_view_without_bytes),
        cmocka_unit_test(test_branch_that_would_fail),
        cmocka_unit_test(test_condition_of_unknown_size),
        cmocka_unit_test(test_long_chains_of_constants),
        cmocka_unit_test(test_what_is_in_the_key),
        cmocka_unit_test(test_large_state_of_a_late_shape),
        cmocka_unit_test(test_branches_of_strings),
        cmocka_unit_test(test_release_while_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
