/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, plans and runs on graphs built by hand: sharing of memory, known
 * values, control flow, shapes that depend on data, concurrency, budgets. */
#include "runtime/exec/session.h"
#include "tests/support/graph.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    qn_runtime *runtime;
    qn_session *session;
    qn_error err;
} fixture;

static void open_with(fixture *f, qn_graph *g, size_t budget,
                      const qn_session_options *options)
{
    qn_runtime_options ro = { .memory_budget = budget ? budget : 64u << 20,
                              .threads = 2 };
    memset(f, 0, sizeof *f);
    if (qn_runtime_new(&ro, &f->runtime, &f->err) != QN_OK)
        fail_msg("%s", f->err.text);
    if (qn_session_new(f->runtime, g, options, &f->session, &f->err) != QN_OK)
        fail_msg("%s", f->err.text);
}

static void close_all(fixture *f)
{
    qn_ledger_state state;
    qn_session_free(f->session);
    qn_pool_trim(qn_runtime_pool(f->runtime), 0);
    qn_ledger_read(qn_runtime_ledger(f->runtime), &state);
    assert_int_equal(state.charged, 0);
    qn_runtime_free(f->runtime);
}

static qn_tensor f32(int rank, const int64_t *dims, const float *data)
{
    qn_tensor t = { .dtype = QN_F32, .shape = qn_shape_make(rank, dims) };
    memcpy(&t.data, &data, sizeof data);
    return t;
}

static qn_plan *plan_for(fixture *f, const qn_tensor *inputs)
{
    qn_plan *plan;
    if (qn_session_plan(f->session, inputs, &plan, &f->err) != QN_OK)
        fail_msg("%s", f->err.text);
    return plan;
}

/* Run once on this thread; the caller releases the run. */
static qn_status run_once(fixture *f, const qn_tensor *inputs, qn_run *run)
{
    const qn_io *io;
    qn_plan *plan = plan_for(f, inputs);
    qn_run_init(run, f->session, plan);
    qn_plan_release(plan);
    qn_status st = qn_run_lease(run, NULL, NULL, &f->err);
    if (st != QN_OK)
        return st;
    for (uint32_t i = 0; i < qn_session_inputs(f->session, &io); i++) {
        qn_tensor in = qn_run_input(run, i);
        size_t bytes;
        if (!qn_present(&in))
            continue;
        assert_int_equal(qn_tensor_bytes(in.dtype, &in.shape, &bytes, NULL),
                         QN_OK);
        if (bytes)
            memcpy(in.data, inputs[i].data, bytes);
    }
    return qn_run_sync(run, &f->err);
}

static const int64_t d4[] = { 4 }, any1[] = { -1 };

/* x -> Neg -> Abs -> Sqrt -> y: one buffer, and that is the output's. */
static void test_chain_runs_in_the_output(void **state)
{
    fixture f;
    qn_run run;
    qn_plan_report r;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    tg_output(g, tg_op1(g, "Sqrt", tg_op1(g, "Abs", tg_op1(g, "Neg", x))), "y");
    tg_finish(g);
    open_with(&f, g, 0, NULL);
    float in[] = { 4, 9, 16, 25 };
    qn_tensor t = f32(1, d4, in);
    assert_int_equal(run_once(&f, &t, &run), QN_OK);
    qn_plan_read(run.plan, &r);
    assert_int_equal(r.arena_bytes, 0);
    const float *y = qn_run_output(&run, 0).data;
    for (int i = 0; i < 4; i++)
        assert_true(y[i] == (float)(i + 2));
    assert_true(in[0] == 4.0f); /* inputs are never written */
    qn_run_release(&run);
    close_all(&f);
}

/* A value that is an output and is read further on keeps its bytes. */
static void test_outputs_are_not_overwritten(void **state)
{
    fixture f;
    qn_run run;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id n = tg_op1(g, "Neg", x);
    tg_output(g, n, "n");
    tg_output(g, tg_op1(g, "Abs", n), "a");
    tg_output(g, n, "again");
    tg_output(g, x, "x_too");
    tg_finish(g);
    open_with(&f, g, 0, NULL);
    float in[] = { 1, -2, 3, -4 };
    qn_tensor t = f32(1, d4, in);
    assert_int_equal(run_once(&f, &t, &run), QN_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(((float *)qn_run_output(&run, 0).data)[i] == -in[i]);
        assert_true(((float *)qn_run_output(&run, 1).data)[i] ==
                    (in[i] < 0 ? -in[i] : in[i]));
        assert_true(((float *)qn_run_output(&run, 2).data)[i] == -in[i]);
        assert_true(((float *)qn_run_output(&run, 3).data)[i] == in[i]);
    }
    qn_run_release(&run);
    close_all(&f);
}

/* Reshape(x, Concat(Shape(x)[0:1], -1)) needs no launch at all. */
static void test_shape_arithmetic_vanishes(void **state)
{
    static const int64_t zero = 0, minus = -1;
    fixture f;
    qn_run run;
    qn_plan_report r;
    (void)state;
    qn_graph *g = tg_new(NULL);
    const int64_t any3[] = { -1, -1, -1 }, one[] = { 1 };
    qn_value_id x = tg_input(g, "x", QN_F32, 3, any3);
    qn_value_id n = tg_op2(g, "Gather", tg_op1(g, "Shape", x),
                           tg_const(g, QN_I64, 1, one, &zero));
    qn_value_id to = tg_op2(g, "Concat", n, tg_const(g, QN_I64, 1, one, &minus));
    tg_attr_int(g, to, "axis", 0);
    tg_output(g, tg_op1(g, "Neg", tg_op2(g, "Reshape", x, to)), "y");
    tg_finish(g);
    open_with(&f, g, 0, NULL);
    float in[12] = { 0 };
    qn_tensor t = f32(3, (int64_t[]){ 2, 3, 2 }, in);
    assert_int_equal(run_once(&f, &t, &run), QN_OK);
    qn_plan_read(run.plan, &r);
    assert_int_equal(r.launches, 1);
    qn_tensor y = qn_run_output(&run, 0);
    assert_int_equal(y.shape.rank, 2);
    assert_int_equal(y.shape.dims[1], 6);
    qn_run_release(&run);
    close_all(&f);
}

/* if (c) then [x] else -x reshaped to [2, 2]: ranks differ, c is data. */
static qn_graph *branching(void)
{
    static const int64_t two[] = { 2, 2 };
    const int64_t n2[] = { 2 };
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id sum = tg_op1(g, "ReduceSum", x);
    tg_attr_int(g, sum, "keepdims", 0);
    static const float zero = 0;
    qn_value_id c =
        tg_op2(g, "Greater", sum, tg_const(g, QN_F32, 0, NULL, &zero));
    qn_value_id y = tg_op1(g, "If", c);
    qn_graph *yes = tg_new(g), *no = tg_new(g);
    tg_output(yes, tg_capture(yes, x), "t");
    qn_value_id neg = tg_op1(no, "Neg", tg_capture(no, x));
    tg_output(no, tg_op2(no, "Reshape", neg, tg_const(no, QN_I64, 1, n2, two)),
              "e");
    tg_attr_graph(g, y, "then_branch", yes);
    tg_attr_graph(g, y, "else_branch", no);
    tg_output(g, tg_op1(g, "Abs", y), "y");
    tg_output(g, y, "raw");
    tg_finish(g);
    return g;
}

static void test_if_with_branches_of_different_rank(void **state)
{
    fixture f;
    qn_run run;
    (void)state;
    open_with(&f, branching(), 0, NULL);
    float in[2][4] = { { 1, -2, 3, 4 }, { 1, -2, -3, -4 } };
    for (int k = 0; k < 2; k++) {
        qn_tensor t = f32(1, d4, in[k]);
        assert_int_equal(run_once(&f, &t, &run), QN_OK);
        qn_tensor y = qn_run_output(&run, 0), raw = qn_run_output(&run, 1);
        assert_int_equal(y.shape.rank, k ? 2 : 1);
        assert_int_equal(raw.shape.rank, k ? 2 : 1);
        for (int i = 0; i < 4; i++) {
            float a = in[k][i] < 0 ? -in[k][i] : in[k][i];
            assert_true(((float *)y.data)[i] == a);
            assert_true(((float *)raw.data)[i] == (k ? -in[k][i] : in[k][i]));
        }
        qn_run_release(&run);
    }
    close_all(&f);
}

/* NonZero has a bound; what comes after it is planned at the bound. */
static void test_bounded_shapes(void **state)
{
    static const struct {
        float in[4];
        int64_t n;
    } rows[] = {
        { { 0, 0, 0, 0 }, 0 },
        { { 1, 0, 2, 0 }, 2 },
        { { 1, 2, 3, 4 }, 4 },
    };
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    qn_value_id nz = tg_op1(g, "NonZero", x);
    qn_value_id abs = tg_op1(g, "Neg", tg_op1(g, "Abs", tg_op1(g, "Neg", nz)));
    tg_output(g, abs, "y");
    tg_output(g, tg_op1(g, "Shape", nz), "shape");
    tg_finish(g);
    open_with(&f, g, 0, NULL);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        qn_run run;
        qn_tensor t = f32(1, d4, rows[r].in);
        if (run_once(&f, &t, &run) != QN_OK)
            fail_msg("row %zu: %s", r, f.err.text);
        qn_tensor y = qn_run_output(&run, 0), s = qn_run_output(&run, 1);
        assert_int_equal(y.shape.rank, 2);
        assert_int_equal(y.shape.dims[1], rows[r].n);
        assert_int_equal(((int64_t *)s.data)[1], rows[r].n);
        int64_t at = 0;
        for (int64_t i = 0; i < 4; i++)
            if (rows[r].in[i] != 0)
                assert_int_equal(((int64_t *)y.data)[at++], -i);
        qn_run_release(&run);
    }
    close_all(&f);
}

/* Expand to a shape that is computed from data: no bound, so SIDE memory. */
static void test_unbounded_shapes(void **state)
{
    fixture f;
    qn_run run;
    (void)state;
    qn_graph *g = tg_new(NULL);
    const int64_t any2[] = { -1, -1 }, one[] = { 1 };
    static const int64_t to1[] = { 1 };
    qn_value_id x = tg_input(g, "x", QN_F32, 2, any2);
    qn_value_id max = tg_op1(g, "ReduceMax", x);
    tg_attr_int(g, max, "keepdims", 0);
    qn_value_id n = tg_op1(g, "Cast", max);
    tg_attr_int(g, n, "to", QN_I64);
    n = tg_op2(g, "Reshape", n, tg_const(g, QN_I64, 1, one, to1));
    tg_output(g, tg_op1(g, "Neg", tg_op2(g, "Expand", max, n)), "y");
    tg_finish(g);
    qn_session_options options = { .dynamic_bytes = 1u << 20 };
    open_with(&f, g, 0, &options);
    for (float v = 1; v < 40; v += 13) {
        float in[] = { 0, v, 1, 0 };
        qn_tensor t = f32(2, (int64_t[]){ 2, 2 }, in);
        if (run_once(&f, &t, &run) != QN_OK)
            fail_msg("%s", f.err.text);
        qn_tensor y = qn_run_output(&run, 0);
        assert_int_equal(y.shape.dims[0], (int64_t)v);
        for (int64_t i = 0; i < (int64_t)v; i++)
            assert_true(((float *)y.data)[i] == -v);
        qn_run_release(&run);
    }
    /* what does not fit is refused with the numbers, and nothing is lost */
    float big[] = { 0, 1e6f, 1, 0 };
    qn_tensor t = f32(2, (int64_t[]){ 2, 2 }, big);
    assert_int_equal(run_once(&f, &t, &run), QN_NO_MEMORY);
    assert_non_null(strstr(f.err.text, "4000000"));
    assert_non_null(strstr(f.err.text, "dynamic_bytes"));
    qn_run_release(&run);
    close_all(&f);
}

static void test_errors_name_the_input(void **state)
{
    static const struct {
        qn_tensor t;
        qn_status want;
        const char *says;
    } rows[] = {
        { { .dtype = QN_I32, .shape = { 2, { 2, 3 } } }, QN_TYPE, "'x' is INT32" },
        { { .dtype = QN_F32, .shape = { 1, { 2 } } }, QN_SHAPE, "rank is 1" },
        { { .dtype = QN_F32, .shape = { 2, { 2, 4 } } }, QN_SHAPE, "axis 1" },
        { { .dtype = QN_F32, .shape = { 2, { INT64_MAX, 3 } } }, QN_SHAPE,
          "too many" },
        { { .dtype = QN_NONE }, QN_INVALID, "'x' is missing" },
    };
    fixture f;
    (void)state;
    qn_graph *g = tg_new(NULL);
    const int64_t dims[] = { -1, 3 };
    tg_output(g, tg_op1(g, "Neg", tg_input(g, "x", QN_F32, 2, dims)), "y");
    tg_finish(g);
    open_with(&f, g, 0, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_plan *plan;
        qn_status st = qn_session_plan(f.session, &rows[i].t, &plan, &f.err);
        if (st != rows[i].want || !strstr(f.err.text, rows[i].says))
            fail_msg("row %zu: %s, \"%s\"", i, qn_status_name(st), f.err.text);
    }
    close_all(&f);
}

static void test_never_fits_and_not_now(void **state)
{
    fixture f;
    qn_run a, b;
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1);
    tg_output(g, tg_op1(g, "Neg", x), "y");
    tg_finish(g);
    open_with(&f, g, 3u << 20, NULL);
    qn_tensor huge = { .dtype = QN_F32, .shape = { 1, { 1 << 20 } } };
    qn_plan *plan;
    assert_int_equal(qn_session_plan(f.session, &huge, &plan, &f.err),
                     QN_TOO_LARGE);
    assert_non_null(strstr(f.err.text, "3145728"));
    qn_tensor half = { .dtype = QN_F32, .shape = { 1, { 200000 } } };
    plan = plan_for(&f, &half);
    qn_run_init(&a, f.session, plan);
    qn_run_init(&b, f.session, plan);
    qn_plan_release(plan);
    assert_int_equal(qn_run_lease(&a, NULL, NULL, &f.err), QN_OK);
    assert_int_equal(qn_run_lease(&b, NULL, NULL, &f.err), QN_NO_MEMORY);
    qn_run_release(&a);
    assert_int_equal(qn_run_lease(&b, NULL, NULL, &f.err), QN_OK);
    qn_run_release(&b);
    close_all(&f);
}

/* ---- many at once: equal bits, planned or plain ---- */

static qn_graph *wide(void)
{
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 1, any1), v[8];
    for (int i = 0; i < 8; i++)
        v[i] = tg_op1(g, i % 2 ? "Sigmoid" : "Tanh", i ? v[i - 1] : x);
    qn_value_id sum = v[0];
    for (int i = 1; i < 8; i++)
        sum = tg_op2(g, i % 3 ? "Add" : "Mul", sum, v[i]);
    tg_output(g, sum, "y");
    tg_finish(g);
    return g;
}

enum { WIDE = 5000, THREADS = 4, RUNS = 25 };

typedef struct client {
    fixture *f;
    const qn_tensor *in;
    const float *want;
    int wrong;
    pthread_t thread;
} client;

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t open;
    bool done;
} gate;

static void on_done(qn_run *run, void *arg)
{
    gate *g = arg;
    (void)run;
    pthread_mutex_lock(&g->lock);
    g->done = true;
    pthread_cond_signal(&g->open);
    pthread_mutex_unlock(&g->lock);
}

static void *client_main(void *arg)
{
    client *c = arg;
    for (int i = 0; i < RUNS; i++) {
        qn_run run;
        qn_plan *plan;
        qn_error err = { 0 };
        gate g = { .done = false };
        pthread_mutex_init(&g.lock, NULL);
        pthread_cond_init(&g.open, NULL);
        if (qn_session_plan(c->f->session, c->in, &plan, &err) != QN_OK)
            return NULL;
        qn_run_init(&run, c->f->session, plan);
        qn_plan_release(plan);
        if (qn_run_lease(&run, NULL, NULL, &err) == QN_OK) {
            memcpy(qn_run_input(&run, 0).data, c->in->data, WIDE * sizeof(float));
            qn_run_start(&run, on_done, &g);
            pthread_mutex_lock(&g.lock);
            while (!g.done)
                pthread_cond_wait(&g.open, &g.lock);
            pthread_mutex_unlock(&g.lock);
            c->wrong += run.status != QN_OK ||
                        memcmp(qn_run_output(&run, 0).data, c->want,
                               WIDE * sizeof(float)) != 0;
        } else {
            c->wrong++;
        }
        qn_run_release(&run);
        pthread_cond_destroy(&g.open);
        pthread_mutex_destroy(&g.lock);
    }
    return NULL;
}

static void test_concurrent_runs_equal_a_lone_plain_one(void **state)
{
    static float in[WIDE], want[WIDE];
    fixture plain, f;
    qn_run run;
    client clients[THREADS];
    (void)state;
    for (int i = 0; i < WIDE; i++)
        in[i] = (float)((i * 7919) % 2000 - 1000) / 300.0f;
    const int64_t dims[] = { WIDE };
    qn_tensor t = f32(1, dims, in);
    qn_session_options options = { .no_reuse = true };
    open_with(&plain, wide(), 0, &options);
    assert_int_equal(run_once(&plain, &t, &run), QN_OK);
    memcpy(want, qn_run_output(&run, 0).data, sizeof want);
    qn_run_release(&run);
    close_all(&plain);
    open_with(&f, wide(), 0, NULL);
    for (int i = 0; i < THREADS; i++) {
        clients[i] = (client){ .f = &f, .in = &t, .want = want };
        assert_int_equal(pthread_create(&clients[i].thread, NULL, client_main,
                                        &clients[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(clients[i].thread, NULL);
        assert_int_equal(clients[i].wrong, 0);
    }
    qn_pool_state pool;
    qn_pool_read(qn_runtime_pool(f.runtime), &pool);
    assert_int_equal(pool.leases, 0);
    close_all(&f);
}

static void test_cancel_and_deadline(void **state)
{
    fixture f;
    qn_run run;
    (void)state;
    open_with(&f, wide(), 0, NULL);
    static float in[4];
    qn_tensor t = f32(1, d4, in);
    qn_plan *plan = plan_for(&f, &t);
    for (int k = 0; k < 2; k++) {
        qn_run_init(&run, f.session, plan);
        assert_int_equal(qn_run_lease(&run, NULL, NULL, &f.err), QN_OK);
        memcpy(qn_run_input(&run, 0).data, in, sizeof in);
        if (k)
            qn_run_cancel(&run);
        else
            run.deadline_ns = 1;
        assert_int_equal(qn_run_sync(&run, &f.err),
                         k ? QN_CANCELLED : QN_DEADLINE);
        qn_run_release(&run);
    }
    qn_plan_release(plan);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_runs_in_the_output),
        cmocka_unit_test(test_outputs_are_not_overwritten),
        cmocka_unit_test(test_shape_arithmetic_vanishes),
        cmocka_unit_test(test_if_with_branches_of_different_rank),
        cmocka_unit_test(test_bounded_shapes),
        cmocka_unit_test(test_unbounded_shapes),
        cmocka_unit_test(test_errors_name_the_input),
        cmocka_unit_test(test_never_fits_and_not_now),
        cmocka_unit_test(test_concurrent_runs_equal_a_lone_plain_one),
        cmocka_unit_test(test_cancel_and_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
