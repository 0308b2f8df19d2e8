/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random graphs, each run in five ways:
 *
 *   oracle   node by node on the graph as it was built
 *   plain    no passes, no reuse of memory        = oracle (matrix products
 *   planned  no passes                            = plain    within tolerance)
 *   apart    passes, no reuse                     ~ oracle
 *   full     passes and reuse; alone, and several at once      = apart
 *
 * "=" is bit for bit. Leases are filled with 0xff before the start, so that a
 * read of bytes that nobody wrote shows as NaN, and what lies behind the
 * arena, the outputs and the SIDE heap has to keep that filling. Inputs keep
 * their bytes, and the ledger goes back to where it was.
 *
 *   QN_GRAPHS=5000 QN_SEED=1 build/tests/test_random_graphs
 */
#include "runtime/exec/launch.h"
#include "runtime/exec/session.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DEFAULT_GRAPHS = 400, POISON = 0xff, AT_ONCE = 3, HEAP = 1 << 20 };

typedef struct answer {
    qn_status status;
    qn_error err;
    qn_tensor out[RG_OUTPUTS];
} answer;

typedef struct bench {
    qn_runtime *runtime;
    uint64_t seed;
    const char *what;
    int set;
    uint32_t streams;
    int several; /* runs on more than one queue */
} bench;

static size_t bytes_of(const qn_tensor *t)
{
    size_t bytes = 0;
    assert_int_equal(qn_tensor_bytes(t->dtype, &t->shape, &bytes, NULL), QN_OK);
    return bytes;
}

static void report(const bench *b, const char *fmt, ...) QN_PRINTF(2, 3);

static void dump(const bench *b)
{
    rg r;
    qn_region region = { 0 };
    qn_tensor out[RG_OUTPUTS];
    qn_error err = { 0 };
    rg_build(&r, b->seed);
    if (rg_oracle(r.main.g, r.inputs[b->set], out, &region, NULL, stderr,
                  &err) != QN_OK)
        fprintf(stderr, "  oracle: %s\n", err.text);
    qn_region_release(&region);
    qn_graph_free(r.main.g);
    rg_release(&r);
}

static void report(const bench *b, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "QN_SEED=%llu (%s, input set %d): %s\n",
            (unsigned long long)b->seed, b->what, b->set, text);
    dump(b);
    fail_msg("seed %llu: %s", (unsigned long long)b->seed, text);
}

/* ---- one run in a session ---- */

static bool all_poison(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)p[i] != POISON)
            return false;
    return true;
}

static void poison_part(qn_run *run, qn_run_part part)
{
    const qn_lease_part *p = &run->lease.parts[part];
    if (p->data)
        memset(p->data, POISON, p->charged);
}

static void poison(qn_run *run)
{
    const qn_lease_part *side = &run->lease.parts[QN_PART_SIDE];
    const qn_exec *e = run->exec;
    poison_part(run, QN_PART_ARENA);
    poison_part(run, QN_PART_IN);
    poison_part(run, QN_PART_OUT);
    /* the heap begins with the head of its only block */
    char *from = e->heap.base + (e->heap.bytes ? 64 : 0);
    memset(from, POISON, (size_t)((char *)side->data + side->charged - from));
}

static bool tail_kept(const qn_run *run, qn_run_part part, size_t used)
{
    const qn_lease_part *p = &run->lease.parts[part];
    return !p->data || all_poison((char *)p->data + used, p->charged - used);
}

static void check_guards(const bench *b, const qn_run *run)
{
    qn_plan_report r;
    size_t end = 0;
    qn_plan_read(run->plan, &r);
    if (!tail_kept(run, QN_PART_ARENA, r.arena_bytes))
        report(b, "bytes behind the arena were written");
    if (!tail_kept(run, QN_PART_SIDE, r.side_bytes))
        report(b, "bytes behind the SIDE memory were written");
    const char *out = run->lease.parts[QN_PART_OUT].data;
    for (uint32_t i = 0; i <= r.n_outputs && out; i++) {
        size_t next = i < r.n_outputs ? run->plan->out_offsets[i]
                                      : run->lease.parts[QN_PART_OUT].charged;
        if (!all_poison(out + end, next - end))
            report(b, "bytes before output %u were written", i);
        if (i < r.n_outputs) {
            const qn_pvalue *v = &run->plan->values[run->plan->out_values[i]];
            /* a dynamic one has its bound, or lies elsewhere */
            end = i + 1 < r.n_outputs && v->dynamic != QN_NOT_DYNAMIC
                      ? run->plan->out_offsets[i + 1]
                      : v->dynamic != QN_NOT_DYNAMIC ? run->plan->out_bytes
                                                     : next + bytes_of(&v->t);
        }
    }
}

static void copy_answer(const qn_run *run, uint32_t n, qn_region *region,
                        answer *a)
{
    a->status = run->status;
    a->err = run->error;
    for (uint32_t i = 0; run->status == QN_OK && i < n; i++) {
        qn_tensor t = qn_run_output(run, i);
        size_t bytes = bytes_of(&t);
        a->out[i] = t;
        a->out[i].data = qn_region_alloc(region, bytes + 1, 1);
        assert_non_null(a->out[i].data);
        if (bytes)
            memcpy(a->out[i].data, t.data, bytes);
    }
}

typedef struct flight {
    qn_run run;
    pthread_mutex_t lock;
    pthread_cond_t landed;
    bool done;
    char *in_before;
    size_t in_bytes;
} flight;

static void on_done(qn_run *run, void *arg)
{
    flight *f = arg;
    (void)run;
    pthread_mutex_lock(&f->lock);
    f->done = true;
    pthread_cond_signal(&f->landed);
    pthread_mutex_unlock(&f->lock);
}

/* False: there is no plan, or no memory; says so in `a`. */
static bool prepare(qn_session *s, const qn_tensor *inputs, flight *f, answer *a,
                    qn_region *region)
{
    qn_plan *plan;
    const qn_io *io;
    a->status = qn_session_plan(s, inputs, &plan, &a->err);
    if (a->status != QN_OK)
        return false;
    qn_run_init(&f->run, s, plan);
    qn_plan_release(plan);
    a->status = qn_run_lease(&f->run, NULL, NULL, &a->err);
    if (a->status != QN_OK) {
        qn_run_release(&f->run);
        return false;
    }
    poison(&f->run);
    for (uint32_t i = 0; i < qn_session_inputs(s, &io); i++) {
        qn_tensor in = qn_run_input(&f->run, i);
        size_t bytes = qn_present(&in) ? bytes_of(&in) : 0;
        assert_int_equal(qn_present(&in), qn_present(&inputs[i]));
        if (bytes)
            memcpy(in.data, inputs[i].data, bytes);
    }
    const qn_lease_part *in = &f->run.lease.parts[QN_PART_IN];
    f->in_bytes = in->charged;
    f->in_before = qn_region_alloc(region, in->charged + 1, 1);
    assert_non_null(f->in_before);
    if (in->data)
        memcpy(f->in_before, in->data, in->charged);
    return true;
}

static void land(const bench *b, flight *f, uint32_t n_out, answer *a,
                 qn_region *region)
{
    const char *in = f->run.lease.parts[QN_PART_IN].data;
    copy_answer(&f->run, n_out, region, a);
    if (in && memcmp(in, f->in_before, f->in_bytes) != 0)
        report(b, "inputs were written");
    check_guards(b, &f->run);
    qn_run_release(&f->run);
}

static void run_alone(const bench *b, qn_session *s, const qn_tensor *inputs,
                      uint32_t n_out, answer *a, qn_region *region)
{
    flight f = { .done = false };
    if (!prepare(s, inputs, &f, a, region))
        return;
    (void)qn_run_sync(&f.run, &a->err);
    land(b, &f, n_out, a, region);
}

/* ---- comparing ---- */

static bool close_to(const qn_tensor *x, const qn_tensor *y, double scale,
                     int64_t *at)
{
    const float *a = x->data, *b = y->data;
    for (*at = 0; *at < qn_count(x); ++*at) {
        double p = (double)a[*at], q = (double)b[*at];
        if (isnan(p) && isnan(q))
            continue;
        if (!(p == q) && !(fabs(p - q) <= 1e-4 * (fabs(q) + scale)))
            return false;
    }
    return true;
}

static void compare(const bench *b, const rg *r, const answer *want,
                    const answer *got, double scale, bool loosely)
{
    if (got->status != want->status)
        report(b, "status %s \"%s\", expected %s \"%s\"",
               qn_status_name(got->status), got->err.text,
               qn_status_name(want->status), want->err.text);
    for (uint32_t i = 0; want->status == QN_OK && i < r->n_outputs; i++) {
        const qn_tensor *x = &want->out[i], *y = &got->out[i];
        char wanted[QN_SHAPE_TEXT], shape[QN_SHAPE_TEXT];
        int64_t at = 0;
        if (x->dtype != y->dtype || !qn_shape_equal(&x->shape, &y->shape))
            report(b, "output %u is %s %s, expected %s %s", i,
                   qn_dtype_name(y->dtype), qn_shape_text(&y->shape, shape),
                   qn_dtype_name(x->dtype), qn_shape_text(&x->shape, wanted));
        if (loosely && r->inexact[i] && x->dtype == QN_F32) {
            if (!close_to(x, y, scale, &at))
                report(b, "output %u, element %lld: %.9g, expected %.9g", i,
                       (long long)at, (double)((float *)y->data)[at],
                       (double)((float *)x->data)[at]);
            continue;
        }
        size_t bytes = bytes_of(x);
        while (at < (int64_t)bytes &&
               ((char *)x->data)[at] == ((char *)y->data)[at])
            at++;
        if (at < (int64_t)bytes)
            report(b, "output %u differs at byte %lld", i, (long long)at);
    }
}

/* ---- a graph ---- */

static qn_session *open_session(const bench *b, bool no_passes, bool no_reuse)
{
    rg r;
    qn_session *s;
    qn_error err = { 0 };
    qn_session_options options = { .no_passes = no_passes,
                                   .no_reuse = no_reuse,
                                   .streams = b->streams,
                                   .dynamic_bytes = HEAP };
    rg_build(&r, b->seed);
    qn_status st = qn_session_new(b->runtime, r.main.g, &options, &s, &err);
    rg_release(&r);
    if (st != QN_OK)
        report(b, "no session: %s", err.text);
    return s;
}

static void run_session(bench *b, const char *what, bool no_passes,
                        bool no_reuse, const rg *r, answer *answers,
                        qn_region *region)
{
    b->what = what;
    qn_session *s = open_session(b, no_passes, no_reuse);
    for (b->set = 0; b->set < RG_SETS; b->set++)
        run_alone(b, s, r->inputs[b->set], r->n_outputs, &answers[b->set],
                  region);
    qn_session_free(s);
}

static void run_together(bench *b, const rg *r, const answer *want,
                         qn_region *region)
{
    flight f[AT_ONCE] = { { .done = false } };
    answer a[AT_ONCE] = { { .status = QN_OK } };
    bool flies[AT_ONCE];
    b->what = "together, on several queues";
    b->streams = 1 + (uint32_t)(b->seed % 4);
    qn_session *s = open_session(b, false, false);
    b->streams = 0;
    for (int i = 0; i < AT_ONCE; i++) {
        flies[i] = prepare(s, r->inputs[i], &f[i], &a[i], region);
        b->several += flies[i] && f[i].run.plan->n_queues > 1;
        pthread_mutex_init(&f[i].lock, NULL);
        pthread_cond_init(&f[i].landed, NULL);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (flies[i])
            qn_run_start(&f[i].run, on_done, &f[i]);
    for (int i = 0; i < AT_ONCE; i++) {
        pthread_mutex_lock(&f[i].lock);
        while (flies[i] && !f[i].done)
            pthread_cond_wait(&f[i].landed, &f[i].lock);
        pthread_mutex_unlock(&f[i].lock);
        pthread_mutex_destroy(&f[i].lock);
        pthread_cond_destroy(&f[i].landed);
        b->set = i;
        if (flies[i])
            land(b, &f[i], r->n_outputs, &a[i], region);
    }
    for (b->set = 0; b->set < AT_ONCE; b->set++)
        compare(b, r, &want[b->set], &a[b->set], 1, false);
    qn_session_free(s);
}

typedef struct counts {
    int graphs, refused;
} counts;

static void check_ledger(const bench *b)
{
    qn_ledger_state state;
    qn_pool_trim(qn_runtime_pool(b->runtime), 0);
    qn_ledger_read(qn_runtime_ledger(b->runtime), &state);
    if (state.charged)
        report(b, "%zu bytes stay charged", state.charged);
}

static void one_graph(bench *b, counts *c)
{
    rg r;
    qn_region region = { 0 };
    answer oracle[RG_SETS], plain[RG_SETS], planned[RG_SETS], apart[RG_SETS],
        full[RG_SETS];
    double scale[RG_SETS] = { 1, 1, 1 };
    rg_build(&r, b->seed);
    b->what = "oracle";
    for (b->set = 0; b->set < RG_SETS; b->set++) {
        answer *a = &oracle[b->set];
        *a = (answer){ .status = QN_OK };
        a->status = rg_oracle(r.main.g, r.inputs[b->set], a->out, &region,
                              &scale[b->set], NULL, &a->err);
        c->refused += a->status != QN_OK;
    }
    b->set = 0;
    if (oracle[0].status != QN_OK)
        report(b, "the oracle refuses the graph: %s", oracle[0].err.text);
    memset(plain, 0, sizeof plain);
    memset(planned, 0, sizeof planned);
    memset(apart, 0, sizeof apart);
    memset(full, 0, sizeof full);
    run_session(b, "plain", true, true, &r, plain, &region);
    run_session(b, "planned", true, false, &r, planned, &region);
    run_session(b, "apart", false, true, &r, apart, &region);
    run_session(b, "full", false, false, &r, full, &region);
    for (b->set = 0; b->set < RG_SETS; b->set++) {
        /* where the oracle meets an error a session may have left that node
         * out, because nobody needed its result */
        bool ran = oracle[b->set].status == QN_OK;
        b->what = "plain";
        if (ran)
            compare(b, &r, &oracle[b->set], &plain[b->set], scale[b->set], true);
        b->what = "planned";
        compare(b, &r, &plain[b->set], &planned[b->set], 1, false);
        b->what = "apart";
        if (ran)
            compare(b, &r, &oracle[b->set], &apart[b->set], scale[b->set], true);
        b->what = "full";
        compare(b, &r, &apart[b->set], &full[b->set], 1, false);
    }
    run_together(b, &r, full, &region);
    check_ledger(b);
    qn_graph_free(r.main.g);
    rg_release(&r);
    qn_region_release(&region);
    c->graphs++;
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_random_graphs(void **state)
{
    qn_runtime_options options = { .memory_budget = 256u << 20, .threads = 2 };
    bench b = { .seed = 0 };
    qn_error err = { 0 };
    counts c = { 0, 0 };
    uint64_t n = number("QN_GRAPHS", getenv("QN_SEED") ? 1 : DEFAULT_GRAPHS);
    uint64_t first = number("QN_SEED", 1);
    (void)state;
    if (qn_runtime_new(&options, &b.runtime, &err) != QN_OK)
        fail_msg("%s", err.text);
    for (b.seed = first; b.seed < first + n; b.seed++)
        one_graph(&b, &c);
    qn_runtime_free(b.runtime);
    /* input sets whose shapes do not go together are the exception */
    assert_true(c.refused * 4 <= c.graphs * RG_SETS);
    assert_true(c.graphs < 100 || b.several * 10 > c.graphs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
