/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs (tests/support/random_graph.h) on the emulated device, each in
 * four ways, every input set:
 *
 *   plain    no passes, no reuse of memory, one stream     ~ oracle
 *   planned  no passes, one stream                         = plain
 *   apart    passes, no reuse, one stream                  ~ oracle
 *   full     passes, reuse, 1 to 4 streams, graphs, several runs at once under
 *            random delays                                 = apart
 *
 * "=" is bit for bit. The oracle runs node by node on the cpu, whose functions
 * round otherwise: what it says of floats holds within a tolerance. An account
 * of what was executed has no race, and the ledgers go back to where they were.
 *
 *   QN_GRAPHS=2000 QN_SEED=1 build/tests/cuda/test_random_device
 */
#include "tests/cuda/support/executor.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEFAULT_GRAPHS = 150, CLIENTS = 3, ROUNDS = 4 };

typedef struct bench {
    qn_runtime *rt;
    uint64_t seed;
    rg r;
    qn_session *session;
    account account;
    bool accounted;
    const answer *want; /* [RG_SETS] of concurrent runs */
    atomic_int wrong;
    char text[512];
} bench;

typedef struct totals {
    int graphs, refused, several, captured;
    size_t launches, waits;
} totals;

static qn_session *open_session(bench *b, qn_session_options o)
{
    rg r;
    qn_session *s;
    qn_error err = { 0 };
    o.n_accels = 1;
    o.dynamic_bytes = 1 << 20;
    o.trace = b->accounted ? &b->account.trace : NULL;
    rg_build(&r, b->seed);
    qn_status st = qn_session_new(b->rt, r.main.g, &o, &s, &err);
    rg_release(&r);
    if (st != QN_OK)
        fail_msg("QN_SEED=%llu: no session: %s", (unsigned long long)b->seed,
                 err.text);
    return s;
}

static void run_sets(bench *b, qn_session_options o, answer *out)
{
    qn_session *s = open_session(b, o);
    for (int i = 0; i < RG_SETS; i++)
        executor_run(s, b->r.inputs[i], b->r.n_inputs, NULL, &out[i]);
    qn_session_free(s);
}

static void same(const bench *b, const char *what, const answer *want,
                 const answer *got)
{
    for (int i = 0; i < RG_SETS; i++) {
        const char *differs = answer_differs(&want[i], &got[i]);
        if (differs)
            fail_msg("QN_SEED=%llu, %s, input set %d: %s",
                     (unsigned long long)b->seed, what, i, differs);
    }
}

/* ---- against the oracle ---- */

static double at(const qn_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case QN_F32:
        return (double)((const float *)t->data)[i];
    case QN_I64:
        return (double)((const int64_t *)t->data)[i];
    case QN_BOOL:
        return ((const uint8_t *)t->data)[i];
    default:
        fail_msg("an output is %s", qn_dtype_name(t->dtype));
        return 0;
    }
}

static bool close_to(double want, double got, double scale)
{
    return (isnan(want) && isnan(got)) || want == got ||
           fabs(want - got) <= 1e-4 * (fabs(want) + scale);
}

/* NULL, or what is too far off. */
static const char *far_off(const bench *b, const qn_tensor *want,
                           double scale, const answer *got)
{
    static char text[256];
    for (uint32_t i = 0; i < b->r.n_outputs; i++) {
        const qn_tensor *x = &want[i], *y = &got->out[i];
        char a[QN_SHAPE_TEXT];
        if (x->dtype != y->dtype || !qn_shape_equal(&x->shape, &y->shape)) {
            snprintf(text, sizeof text, "output %u is %.150s", i,
                     qn_shape_text(&y->shape, a));
            return text;
        }
        for (int64_t k = 0; k < qn_count(x); k++)
            if (!close_to(at(x, k), at(y, k), scale)) {
                snprintf(text, sizeof text,
                         "output %u (%s), element %lld: %.9g, expected %.9g", i,
                         qn_dtype_name(x->dtype), (long long)k, at(y, k),
                         at(x, k));
                return text;
            }
    }
    return NULL;
}

static void check_oracle(bench *b, const char *what, const answer *got,
                         totals *t)
{
    for (int i = 0; i < RG_SETS; i++) {
        qn_region region = { 0 };
        qn_tensor out[RG_OUTPUTS];
        qn_error err = { 0 };
        double scale = 1;
        qn_status st = rg_oracle(b->r.main.g, b->r.inputs[i], out, &region,
                                 &scale, NULL, &err);
        const char *differs = NULL;
        if (st != QN_OK)
            t->refused++; /* a session may have left that node out */
        else if (got[i].status != QN_OK)
            differs = got[i].err.text;
        else
            differs = far_off(b, out, scale, &got[i]);
        if (differs)
            fail_msg("QN_SEED=%llu, %s, input set %d: %s",
                     (unsigned long long)b->seed, what, i, differs);
        qn_region_release(&region);
    }
}

/* ---- several at once ---- */

static void client(void *arg, int number)
{
    bench *b = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int set = (number + i) % RG_SETS;
        answer got;
        executor_run(b->session, b->r.inputs[set], b->r.n_inputs, &b->account,
                     &got);
        const char *differs = answer_differs(&b->want[set], &got);
        if (differs && atomic_fetch_add(&b->wrong, 1) == 0)
            snprintf(b->text, sizeof b->text, "input set %d: %.480s", set,
                     differs);
        answer_free(&got);
    }
}

static void run_full(bench *b, const answer *want, totals *t)
{
    account_report report;
    qn_session_options o = { .streams = 1 + (uint32_t)(b->seed % 4) };
    b->accounted = true;
    b->want = want;
    account_open(&b->account, executor_emu());
    b->session = open_session(b, o);
    executor_emu()->delays(b->seed, b->seed % 3 ? 30 : 0);
    executor_emu()->reset_counts();
    account_restart(&b->account);
    executor_clients(CLIENTS, client, b);
    bool clean = account_check(&b->account, &report);
    executor_emu()->delays(0, 0);
    t->captured += executor_emu()->count("graph") > 0;
    qn_session_free(b->session);
    account_close(&b->account);
    b->accounted = false;
    if (b->wrong || !clean)
        fail_msg("QN_SEED=%llu, full, %u streams: %d wrong: %s; %zu races: %s",
                 (unsigned long long)b->seed, o.streams, b->wrong, b->text,
                 report.races, report.text);
    t->launches += report.launches;
    t->waits += report.waits;
    t->several += report.waits > 0;
}

static void one_graph(qn_runtime *rt, uint64_t seed, totals *t)
{
    bench *b = calloc(1, sizeof *b);
    answer plain[RG_SETS], planned[RG_SETS], apart[RG_SETS];
    assert_non_null(b);
    b->rt = rt;
    b->seed = seed;
    rg_build(&b->r, seed);
    run_sets(b, (qn_session_options){ .no_passes = true, .no_reuse = true,
                                      .no_graphs = true, .streams = 1 },
             plain);
    run_sets(b, (qn_session_options){ .no_passes = true, .no_graphs = true,
                                      .streams = 1 },
             planned);
    run_sets(b, (qn_session_options){ .no_reuse = true, .no_graphs = true,
                                      .streams = 1 },
             apart);
    check_oracle(b, "plain", plain, t);
    same(b, "planned", plain, planned);
    check_oracle(b, "apart", apart, t);
    run_full(b, apart, t);
    if (executor_charged(rt) || executor_charged_device(rt))
        fail_msg("QN_SEED=%llu: %zu bytes of the host, %zu of the device stay "
                 "charged",
                 (unsigned long long)seed, executor_charged(rt),
                 executor_charged_device(rt));
    for (int i = 0; i < RG_SETS; i++) {
        answer_free(&plain[i]);
        answer_free(&planned[i]);
        answer_free(&apart[i]);
    }
    qn_graph_free(b->r.main.g);
    rg_release(&b->r);
    free(b);
    t->graphs++;
}

static void test_random_graphs(void **state)
{
    totals t = { 0 };
    (void)state;
    uint64_t n = executor_number("QN_GRAPHS",
                                 getenv("QN_SEED") ? 1 : DEFAULT_GRAPHS);
    uint64_t first = executor_number("QN_SEED", 1);
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 2 });
    for (uint64_t seed = first; seed < first + n; seed++)
        one_graph(rt, seed, &t);
    qn_runtime_free(rt);
    printf("# %d graphs: %zu launches, %zu waits; %d with waits, %d captured\n",
           t.graphs, t.launches, t.waits, t.several, t.captured);
    assert_true(t.refused * 4 <= t.graphs * RG_SETS * 2);
    assert_true(n < 100 || (t.several > 10 && t.captured > 10));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, executor_setup, executor_teardown);
}
