/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Once a plan and a lane exist, a request makes no heap call of ours between
 * its lease and done(). Linked with --wrap for all of the heap's calls, so
 * those of the C library itself are not counted.
 */
#include "runtime/exec/session.h"
#include "tests/support/graph.h"
#include "tests/support/random_graph.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static atomic_bool counting;
static atomic_long calls;

#define WRAP(ret, name, params, args)                                          \
    ret __real_##name params;                                                  \
    ret __wrap_##name params;                                                  \
    ret __wrap_##name params                                                   \
    {                                                                          \
        if (counting)                                                          \
            calls++;                                                           \
        return __real_##name args;                                             \
    }

WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t align, size_t n), (align, n))
WRAP(int, posix_memalign, (void **p, size_t align, size_t n), (p, align, n))

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
    if (counting && p)
        calls++;
    __real_free(p);
}

typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t open;
    bool done;
} gate;

static void on_done(qn_run *run, void *arg)
{
    gate *g = arg;
    (void)run;
    counting = false;
    pthread_mutex_lock(&g->lock);
    g->done = true;
    pthread_cond_signal(&g->open);
    pthread_mutex_unlock(&g->lock);
}

/* One request on a worker; the heap calls from its lease to its completion. */
static long request(qn_session *s, const qn_tensor *inputs, qn_error *err)
{
    gate g = { .done = false };
    qn_plan *plan;
    qn_run run;
    const qn_io *io;
    if (qn_session_plan(s, inputs, &plan, err) != QN_OK)
        fail_msg("%s", err->text);
    qn_run_init(&run, s, plan);
    qn_plan_release(plan);
    pthread_mutex_init(&g.lock, NULL);
    pthread_cond_init(&g.open, NULL);
    uint32_t n = qn_session_inputs(s, &io);
    calls = 0;
    counting = true;
    if (qn_run_lease(&run, NULL, NULL, err) != QN_OK)
        fail_msg("%s", err->text);
    for (uint32_t i = 0; i < n; i++) {
        qn_tensor in = qn_run_input(&run, i);
        size_t bytes = 0;
        if (qn_present(&in) &&
            qn_tensor_bytes(in.dtype, &in.shape, &bytes, NULL) == QN_OK && bytes)
            memcpy(in.data, inputs[i].data, bytes);
    }
    qn_run_start(&run, on_done, &g);
    pthread_mutex_lock(&g.lock);
    while (!g.done)
        pthread_cond_wait(&g.open, &g.lock);
    pthread_mutex_unlock(&g.lock);
    if (run.status != QN_OK)
        fail_msg("%s", run.error.text);
    qn_run_release(&run);
    pthread_cond_destroy(&g.open);
    pthread_mutex_destroy(&g.lock);
    return calls;
}

static void expect_none(const char *name, qn_graph *g, const qn_tensor *inputs)
{
    qn_runtime_options ro = { .memory_budget = 256u << 20, .threads = 2 };
    qn_session_options so = { .dynamic_bytes = 1 << 20 };
    qn_runtime *rt;
    qn_session *s = NULL;
    qn_error err = { 0 };
    if (qn_runtime_new(&ro, &rt, &err) != QN_OK ||
        qn_session_new(rt, g, &so, &s, &err) != QN_OK)
        fail_msg("%s: %s", name, err.text);
    (void)request(s, inputs, &err); /* warms up: a lane, the pool's ranges */
    for (int i = 0; i < 3; i++) {
        long n = request(s, inputs, &err);
        if (n)
            fail_msg("%s: %ld heap calls in a request", name, n);
    }
    qn_session_free(s);
    qn_runtime_free(rt);
}

static float data[1 << 16];

static qn_tensor tensor(int rank, const int64_t *dims)
{
    return (qn_tensor){ .dtype = QN_F32, .shape = qn_shape_make(rank, dims),
                        .data = data };
}

static void test_convolutions(void **state)
{
    const int64_t w1[] = { 16, 3, 3, 3 }, w2[] = { 16, 16, 3, 3 },
                  x[] = { 2, 3, 32, 32 };
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id v = tg_input(g, "x", QN_F32, 4, x);
    v = tg_op2(g, "Conv", v, tg_const(g, QN_F32, 4, w1, data));
    v = tg_op1(g, "Relu", v);
    qn_value_id y = tg_op2(g, "Conv", v, tg_const(g, QN_F32, 4, w2, data));
    v = tg_op1(g, "GlobalAveragePool", tg_op1(g, "Relu", y));
    tg_output(g, tg_op1(g, "Softmax", tg_op1(g, "Flatten", v)), "y");
    tg_finish(g);
    qn_tensor t = tensor(4, x);
    expect_none("convolutions", g, &t);
}

static void test_products(void **state)
{
    const int64_t w[] = { 64, 96 }, x[] = { -1, 7, 64 }, d[] = { 3, 7, 64 },
                  b[] = { 96 };
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id v = tg_input(g, "x", QN_F32, 3, x);
    v = tg_op2(g, "MatMul", v, tg_const(g, QN_F32, 2, w, data));
    v = tg_op2(g, "Add", v, tg_const(g, QN_F32, 1, b, data));
    qn_value_id t = tg_op1(g, "Transpose", v);
    tg_output(g, tg_op1(g, "Tanh", t), "y");
    tg_finish(g);
    qn_tensor in = tensor(3, d);
    expect_none("products", g, &in);
}

static void test_branches(void **state)
{
    const int64_t any[] = { -1, -1 }, d[] = { 3, 5 };
    static const float zero = 0;
    (void)state;
    for (int k = 0; k < 2; k++) {
        qn_graph *g = tg_new(NULL);
        qn_value_id x = tg_input(g, "x", QN_F32, 2, any);
        qn_value_id sum = tg_op1(g, "ReduceSum", x);
        tg_attr_int(g, sum, "keepdims", 0);
        qn_value_id zeros = tg_const(g, QN_F32, 0, NULL, &zero);
        qn_value_id y = tg_op1(g, "If", k ? tg_op2(g, "Less", sum, zeros)
                                          : tg_op2(g, "Equal", sum, zeros));
        qn_graph *yes = tg_new(g), *no = tg_new(g);
        tg_output(yes, tg_op1(yes, "Transpose", tg_capture(yes, x)), "t");
        tg_output(no, tg_capture(no, x), "e");
        tg_attr_graph(g, y, "then_branch", yes);
        tg_attr_graph(g, y, "else_branch", no);
        tg_output(g, tg_op1(g, "Softmax", y), "y");
        tg_finish(g);
        qn_tensor t = tensor(2, d);
        expect_none("branches", g, &t);
    }
}

static void test_unknown_shapes(void **state)
{
    const int64_t any[] = { -1, -1 }, d[] = { 30, 5 };
    (void)state;
    qn_graph *g = tg_new(NULL);
    qn_value_id x = tg_input(g, "x", QN_F32, 2, any);
    qn_value_id nz = tg_op1(g, "NonZero", tg_op1(g, "Cos", x));
    tg_output(g, tg_op1(g, "Transpose", tg_op1(g, "Abs", nz)), "y");
    qn_value_id to = tg_op1(g, "Abs", tg_op1(g, "Shape", nz));
    tg_output(g, tg_op2(g, "Expand", tg_op1(g, "ReduceMax", x), to), "z");
    tg_finish(g);
    qn_tensor t = tensor(2, d);
    expect_none("unknown shapes", g, &t);
}

/* Anything, by the generator of random graphs. */
static void test_random(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        rg r;
        char name[32];
        rg_build(&r, seed);
        snprintf(name, sizeof name, "seed %d", (int)seed);
        expect_none(name, r.main.g, r.inputs[0]);
        rg_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_branches),
        cmocka_unit_test(test_unknown_shapes),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
