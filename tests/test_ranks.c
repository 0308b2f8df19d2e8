/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models that are split over ranks: what is refused when they are merged, that
 * random cuts give the bits of the uncut model, where blocks lie, and what waits
 * for what.
 *
 *   QN_GRAPHS=2000 QN_SEED=1 build/tests/test_ranks
 */
#include "runtime/exec/session.h"
#include "runtime/graph/ranks.h"
#include "runtime/ops/collective.h"
#include "runtime/ops/op.h"
#include "runtime/plan/plan.h"
#include "tests/support/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GRAPHS = 60, GUARD = 512 };

static qn_runtime *runtime;
static const int64_t d4[] = { 4 };

static qn_status merge(qn_graph **parts, uint32_t n, qn_graph **out,
                       qn_error *err)
{
    memset(err, 0, sizeof *err);
    return qn_graph_merge(parts, n, out, err);
}

/* ---- merging ---- */

/* What one rank's file is made of, one letter an item:
 *   r g b   AllReduce, AllGather, Broadcast        2   AllReduce of two tensors
 *   m       AllReduce by max    R    Broadcast from 1    I   AllReduce of int64
 *   -       Neg                 i    a collective in a body of If
 *   x X t   input x of [4], of [5], of int64; z: input z; D E: defaults of x
 *   y o     output y, output o
 */
static qn_graph *part(const char *items)
{
    static const float ones[] = { 1, 1, 1, 1 }, twos[] = { 2, 2, 2, 2 };
    const int64_t d5[] = { 5 };
    qn_graph *g = tg_new(NULL);
    qn_value_id v = QN_NO_VALUE, pair[2], out[2];
    for (const char *p = items; *p; p++)
        switch (*p) {
        case 'x':
            v = tg_input(g, "x", QN_F32, 1, d4);
            break;
        case 'X':
            v = tg_input(g, "x", QN_F32, 1, d5);
            break;
        case 't':
            v = tg_input(g, "x", QN_I64, 1, d4);
            break;
        case 'z':
            v = tg_input(g, "z", QN_F32, 1, d4);
            break;
        case 'D':
        case 'E':
            v = tg_input(g, "x", QN_F32, 1, d4);
            g->values[v].data =
                g->values[tg_const(g, QN_F32, 1, d4, *p == 'D' ? ones : twos)]
                    .data;
            break;
        case 'r':
            v = tg_collective1(g, "AllReduce", v);
            break;
        case 'g':
            v = tg_collective1(g, "AllGather", v);
            break;
        case 'b':
            v = tg_collective1(g, "Broadcast", v);
            break;
        case 'm':
            tg_collective(g, "AllReduce", "op", "max", 0, 1, &v, out);
            v = out[0];
            break;
        case 'R':
            tg_collective(g, "Broadcast", "root", NULL, 1, 1, &v, out);
            v = out[0];
            break;
        case '2':
            pair[0] = pair[1] = v;
            tg_collective(g, "AllReduce", NULL, NULL, 0, 2, pair, out);
            v = tg_op2(g, "Add", out[0], out[1]);
            break;
        case '-':
            v = tg_op1(g, "Neg", v);
            break;
        case 'i': {
            static const uint8_t yes = 1;
            qn_graph *a = tg_new(g), *b = tg_new(g);
            qn_value_id c = tg_op1(g, "If", tg_const(g, QN_BOOL, 0, NULL, &yes));
            tg_output(a, tg_collective1(a, "AllReduce", tg_capture(a, v)), "a");
            tg_output(b, tg_op1(b, "Neg", tg_capture(b, v)), "b");
            tg_attr_graph(g, c, "then_branch", a);
            tg_attr_graph(g, c, "else_branch", b);
            v = c;
            break;
        }
        case 'y':
            tg_output(g, v, "y");
            break;
        default:
            tg_output(g, v, "o");
        }
    tg_finish(g);
    return g;
}

static const struct {
    const char *parts[3];
    const char *says; /* NULL: it is fine */
    uint32_t nodes, inputs, outputs;
} merges[] = {
    { { "xry", "xry" }, NULL, 1, 1, 1 },
    { { "x-r-y", "x-r-y", "x-r--y" }, NULL, 5, 1, 1 }, /* dead ends are cut */
    { { "x-r-y", "x-r-o" }, NULL, 5, 1, 2 },
    { { "xr-y", "zr-y" }, NULL, 2, 2, 1 },
    { { "xr2by", "xr2by" }, NULL, 5, 1, 1 },
    { { "Dry", "Dry" }, NULL, 1, 1, 1 },
    { { "xr-y", "xr-by" }, "rank 1: ai.quern.Broadcast (opset 1) node #2 of "
      "rank 1 has no counterpart: rank 0 has fewer", 0, 0, 0 },
    { { "xrry", "xry" }, "rank 0: ai.quern.AllReduce (opset 1) node #1 has no "
      "counterpart: rank 1 has fewer collectives", 0, 0, 0 },
    { { "xry", "xry", "xmy" }, "node #0 of rank 2 are at one place among their "
      "rank's collectives, but their attributes differ", 0, 0, 0 },
    { { "xby", "xRy" }, "their attributes differ", 0, 0, 0 },
    { { "xry", "xgy" }, "they are not the same operator", 0, 0, 0 },
    { { "xry", "x2y" }, "they have not the same number of tensors", 0, 0, 0 },
    { { "xry", "try" }, "input 'x' of rank 1 has another type or other "
      "dimensions", 0, 0, 0 },
    { { "xry", "Xry" }, "input 'x' of rank 1 has another type or other "
      "dimensions", 0, 0, 0 },
    { { "Dry", "Ery" }, "input 'x' of rank 1 has another default", 0, 0, 0 },
    { { "xry", "Dry" }, "input 'x' of rank 1 has another default", 0, 0, 0 },
    { { "xziry", "xry" }, "rank 0: ai.quern.AllReduce (opset 1) node #0 is in "
      "the body of another node", 0, 0, 0 },
    { { "xry", "xriy" }, "rank 1: ai.quern.AllReduce (opset 1) node #0 is in "
      "the body of another node", 0, 0, 0 },
};

static void test_merge(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        qn_graph *parts[3], *g;
        qn_error err;
        uint32_t n = 0;
        for (; n < 3 && merges[i].parts[n]; n++)
            parts[n] = part(merges[i].parts[n]);
        qn_status st = merge(parts, n, &g, &err);
        if ((st == QN_OK) != !merges[i].says ||
            (merges[i].says && !strstr(err.text, merges[i].says)))
            fail_msg("row %zu: %s \"%s\"", i, qn_status_name(st), err.text);
        if (st != QN_OK) {
            assert_null(g);
            continue;
        }
        assert_int_equal(g->n_nodes, merges[i].nodes);
        assert_int_equal(g->n_inputs, merges[i].inputs);
        assert_int_equal(g->n_outputs, merges[i].outputs);
        assert_int_equal(g->n_ranks, n);
        qn_graph_free(g);
    }
}

static void test_merge_counts(void **state)
{
    qn_graph *parts[QN_GRAPH_RANKS + 1], *g;
    qn_error err;
    (void)state;
    assert_int_equal(merge(parts, 0, &g, &err), QN_INVALID);
    for (uint32_t i = 0; i <= QN_GRAPH_RANKS; i++)
        parts[i] = part("xry");
    assert_int_equal(merge(parts, QN_GRAPH_RANKS + 1, &g, &err), QN_INVALID);
    assert_non_null(strstr(err.text, "a model of 9 ranks, 1 to 8"));
    parts[0] = part("x-r-y");
    assert_int_equal(merge(parts, 1, &g, &err), QN_OK);
    assert_int_equal(g->n_nodes, 3);
    qn_graph_free(g);
    /* what a rank does not read it takes part in all the same */
    parts[0] = part("xr");
    parts[1] = part("xry");
    assert_int_equal(merge(parts, 2, &g, &err), QN_OK);
    assert_int_equal(g->n_nodes, 1);
    assert_int_equal(g->nodes[0]->n_out, 2);
    qn_graph_free(g);
}

/* Rank after rank between collectives; nodes know their rank. */
static void test_order(void **state)
{
    static const char *const names[] = { "Neg", "Neg", "AllReduce", "Neg",
                                         "Neg", "Neg" };
    static const uint8_t ranks[] = { 0, 1, 0, 0, 0, 1 };
    qn_graph *parts[] = { part("x-r--y"), part("x-r-o") }, *g;
    qn_error err;
    (void)state;
    assert_int_equal(merge(parts, 2, &g, &err), QN_OK);
    assert_int_equal(g->n_nodes, 6);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        assert_string_equal(g->nodes[i]->op_name, names[i]);
        assert_int_equal(g->nodes[i]->rank, ranks[i]);
    }
    assert_int_equal(qn_node_int(g->nodes[2], "ranks", 0), 2);
    qn_graph_free(g);
}

/* ---- running ---- */

static qn_session *open_session(qn_graph *g, const qn_session_options *o)
{
    qn_session *s;
    qn_error err = { 0 };
    if (qn_session_new(runtime, g, o, &s, &err) != QN_OK)
        fail_msg("%s", err.text);
    return s;
}

static qn_plan *plan_of(qn_session *s, int rank, const int64_t *dims)
{
    qn_plan *plan;
    qn_error err = { 0 };
    qn_tensor in = { .dtype = QN_F32, .shape = qn_shape_make(rank, dims) };
    if (qn_session_plan(s, &in, &plan, &err) != QN_OK)
        fail_msg("%s", err.text);
    return plan;
}

static void run(qn_session *s, qn_plan *plan, const float *x, size_t n,
                float *y)
{
    qn_run r;
    qn_error err = { 0 };
    qn_run_init(&r, s, plan);
    if (qn_run_lease(&r, NULL, NULL, &err) != QN_OK)
        fail_msg("%s", err.text);
    /* what nobody wrote shows as NaN */
    if (r.lease.parts[QN_PART_ARENA].data)
        memset(r.lease.parts[QN_PART_ARENA].data, 0xff,
               r.lease.parts[QN_PART_ARENA].bytes);
    memcpy(qn_run_input(&r, 0).data, x, n * sizeof *x);
    if (qn_run_sync(&r, &err) != QN_OK)
        fail_msg("%s", err.text);
    memcpy(y, qn_run_output(&r, 0).data, n * sizeof *y);
    qn_run_release(&r);
}

static size_t charged(void)
{
    qn_ledger_state state;
    qn_pool_trim(qn_runtime_pool(runtime), 0);
    qn_ledger_read(qn_runtime_ledger(runtime), &state);
    return state.charged;
}

/* Nothing that lives during the launch touches a block or its guards, but what
 * is in it; and that fills it. */
static void check_block(const qn_plan_report *r, uint32_t launch,
                        const qn_plan_block *b)
{
    size_t inside = 0;
    assert_int_equal(b->guard, GUARD);
    assert_true(b->offset >= GUARD);
    assert_true(b->offset + b->bytes + GUARD <= r->arena_bytes);
    for (uint32_t i = 0; i < r->n_values; i++) {
        const qn_plan_value *v = &r->values[i];
        if (v->first > launch || v->last < launch)
            continue;
        if (v->offset >= b->offset &&
            v->offset + v->bytes <= b->offset + b->bytes)
            inside += v->bytes;
        else if (v->offset < b->offset + b->bytes + GUARD &&
                 v->offset + v->bytes + GUARD > b->offset)
            fail_msg("'%s' at %zu, %zu bytes, is in the guard of %zu, %zu bytes",
                     v->name, v->offset, v->bytes, b->offset, b->bytes);
    }
    /* members start aligned: between two of them lie less than 64 bytes */
    if (inside > b->bytes || inside + 64 * 3 <= b->bytes)
        fail_msg("%zu bytes in a block of %zu", inside, b->bytes);
}

static uint32_t check_blocks(const qn_plan *plan, uint32_t ranks)
{
    qn_plan_report r;
    qn_plan_read(plan, &r);
    for (uint32_t i = 0; i < r.n_collectives; i++) {
        const qn_plan_collective *c = &r.collectives[i];
        assert_int_equal(c->ranks, ranks);
        assert_int_equal(c->n_blocks, 2 * ranks);
        for (uint32_t k = 0; k < c->n_blocks; k++) {
            assert_int_equal(c->blocks[k].rank, k / 2);
            assert_int_equal(c->blocks[k].output, k % 2);
            check_block(&r, c->launch, &c->blocks[k]);
        }
    }
    return r.n_collectives;
}

static const qn_session_options how[] = {
    { .streams = 1 },
    { .streams = 0 },
    { .streams = 4, .no_passes = true },
    { .streams = 2, .no_reuse = true },
};

static void test_random_cuts(void **state)
{
    const int64_t dims[] = { SPLIT_ROWS, SPLIT_WIDTH };
    const char *many = getenv("QN_GRAPHS"), *first = getenv("QN_SEED");
    uint64_t from = first ? strtoull(first, NULL, 10) : 1;
    uint64_t graphs = many ? strtoull(many, NULL, 10) : GRAPHS;
    uint32_t blocks = 0;
    (void)state;
    for (uint64_t seed = from; seed < from + graphs; seed++) {
        split s;
        float want[SPLIT_ROWS * SPLIT_WIDTH], got[SPLIT_ROWS * SPLIT_WIDTH];
        size_t n = sizeof s.x / sizeof s.x[0];
        qn_error err;
        qn_graph *g;
        split_build(&s, (uint32_t)(2 + seed % 3), seed);
        qn_session *session = open_session(s.whole, &how[0]);
        qn_plan *plan = plan_of(session, 2, dims);
        run(session, plan, s.x, n, want);
        qn_plan_release(plan);
        qn_session_free(session);
        if (merge(s.parts, s.ranks, &g, &err) != QN_OK)
            fail_msg("QN_SEED=%llu: %s", (unsigned long long)seed, err.text);
        session = open_session(g, &how[seed / 3 % 4]);
        plan = plan_of(session, 2, dims);
        blocks += check_blocks(plan, s.ranks);
        for (int again = 0; again < 3; again++) {
            memset(got, 0xff, sizeof got);
            run(session, plan, s.x, n, got);
            if (memcmp(got, want, sizeof got) != 0)
                fail_msg("QN_SEED=%llu: another answer",
                         (unsigned long long)seed);
        }
        qn_plan_release(plan);
        qn_session_free(session);
        split_release(&s);
        assert_int_equal(charged(), 0);
    }
    assert_true(blocks >= graphs); /* there was something to see */
}

/* ---- what a plan looks like ---- */

static qn_session *open_parts(qn_graph **parts, uint32_t n, uint32_t streams)
{
    qn_error err;
    qn_graph *g;
    if (merge(parts, n, &g, &err) != QN_OK)
        fail_msg("%s", err.text);
    return open_session(g, &(qn_session_options){ .streams = streams });
}

static const qn_step *step_of(const qn_plan *plan, const char *op, int rank)
{
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].node &&
            !strcmp(plan->steps[i].node->op_name, op) &&
            plan->steps[i].node->rank == rank)
            return &plan->steps[i];
    fail_msg("no %s of rank %d in the plan", op, rank);
    return NULL;
}

/* Steps of its queue up to and with this one. */
static uint32_t number_of(const qn_plan *plan, const qn_step *s)
{
    uint32_t n = 0;
    for (const qn_step *p = plan->steps; p <= s; p++)
        n += p->queue == s->queue;
    return n;
}

/* How many of the step's waits are for that one. */
static uint32_t waits_for(const qn_plan *plan, const qn_step *s,
                          const qn_step *on)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < s->n_waits; k++) {
        const qn_plan_record *r = &plan->records[s->waits[k]];
        n += r->queue == on->queue && r->given >= number_of(plan, on);
    }
    return n;
}

/*
 * Rank by rank Neg, AllReduce, then Abs of the result; Sqrt of Neg and a Floor
 * of that do not need it. The collective waits for both Neg; of the ranks' two
 * queues it is the first reader that waits for the collective, not before.
 */
static void test_waits(void **state)
{
    qn_graph *parts[2];
    (void)state;
    for (int r = 0; r < 2; r++) {
        qn_graph *g = parts[r] = tg_new(NULL);
        qn_value_id x = tg_input(g, "x", QN_F32, 1, d4);
        qn_value_id n = tg_op1(g, "Neg", x);
        qn_value_id sum = tg_collective1(g, "AllReduce", n);
        qn_value_id apart = tg_op1(g, "Floor", tg_op1(g, "Sqrt", n));
        qn_value_id late = tg_op1(g, "Abs", sum);
        tg_output(g, late, r ? "a1" : "a0");
        tg_output(g, tg_op2(g, "Add", apart, tg_op1(g, "Exp", late)),
                  r ? "b1" : "b0");
        tg_finish(g);
    }
    qn_session *s = open_parts(parts, 2, 0);
    qn_plan *plan = plan_of(s, 1, d4);
    const qn_step *all = step_of(plan, "AllReduce", 0);
    assert_int_equal(plan->n_queues, 3); /* of 2 ranks, and of collectives */
    for (uint32_t i = 0; i < plan->n_steps; i++)
        assert_true((plan->steps[i].queue == all->queue) ==
                    (&plan->steps[i] == all));
    uint32_t met = 0, inputs = 0;
    for (int r = 0; r < 2; r++) {
        const qn_step *late = step_of(plan, "Abs", r);
        inputs += waits_for(plan, all, step_of(plan, "Neg", r));
        met += waits_for(plan, late, all);
        assert_int_equal(waits_for(plan, step_of(plan, "Sqrt", r), all), 0);
        assert_int_equal(waits_for(plan, step_of(plan, "Floor", r), all), 0);
        assert_int_equal(waits_for(plan, step_of(plan, "Exp", r), all), 0);
    }
    assert_int_equal(inputs, 2);
    assert_int_equal(met, 2);
    qn_plan_release(plan);
    qn_session_free(s);
    assert_int_equal(charged(), 0);
}

static uint32_t copies(const qn_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        n += plan->steps[i].kind == QN_STEP_COPY;
    return n;
}

static const struct {
    const char *parts[2];
    uint32_t copies;
} copied[] = {
    /* what was computed for the collective lies in its block */
    { { "x-r-y", "x-r-y" }, 0 },
    /* inputs do not, nor outputs */
    { { "xr-y", "xr-y" }, 2 },
    { { "x-ry", "x-ry" }, 1 },
    { { "x-yr-o", "x-yr-o" }, 1 },
    /* a block's value in another block; twice the same value */
    { { "x-rr-y", "x-rr-y" }, 2 },
    { { "x-2y", "x-2y" }, 2 },
};

static void test_copies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++) {
        qn_graph *parts[] = { part(copied[i].parts[0]),
                              part(copied[i].parts[1]) };
        qn_session *s = open_parts(parts, 2, 0);
        qn_plan *plan = plan_of(s, 1, d4);
        if (copies(plan) != copied[i].copies)
            fail_msg("row %zu: %u copies, not %u", i, copies(plan),
                     copied[i].copies);
        assert_true(check_blocks(plan, 2) > 0);
        qn_plan_release(plan);
        qn_session_free(s);
    }
}

/* Shapes that do not fit are found by the plan, with both ranks'. */
static void test_shapes_differ(void **state)
{
    qn_graph *parts[2];
    qn_plan *plan;
    qn_error err = { 0 };
    qn_tensor in = { .dtype = QN_F32, .shape = qn_shape_make(1, d4) };
    (void)state;
    for (int r = 0; r < 2; r++) {
        qn_graph *g = parts[r] = tg_new(NULL);
        qn_value_id x = tg_input(g, "x", QN_F32, 1, d4);
        if (r)
            x = tg_op2(g, "Concat", x, x);
        if (r)
            tg_attr_int(g, x, "axis", 0);
        tg_output(g, tg_collective1(g, "AllReduce", x), "y");
        tg_finish(g);
    }
    qn_session *s = open_parts(parts, 2, 0);
    assert_int_equal(qn_session_plan(s, &in, &plan, &err), QN_SHAPE);
    assert_non_null(strstr(err.text, "AllReduce"));
    assert_non_null(strstr(err.text, "[8] on rank 1, but float [4] on rank 0"));
    qn_session_free(s);
    assert_int_equal(charged(), 0);
}

/* A rank runs slower than another, fails, or its shapes depend on data. */
static void test_data_dependent(void **state)
{
    float x[] = { 3, 0, 1, 2 }, y[4];
    qn_graph *parts[2];
    (void)state;
    for (int r = 0; r < 2; r++) {
        qn_graph *g = parts[r] = tg_new(NULL);
        static const int64_t flat[] = { -1 };
        const int64_t one[] = { 1 };
        qn_value_id v = tg_input(g, "x", QN_F32, 1, d4);
        v = tg_op1(g, "NonZero", v);
        v = tg_op2(g, "Reshape", v, tg_const(g, QN_I64, 1, one, flat));
        v = tg_collective1(g, "AllReduce", v);
        v = tg_op1(g, "Cast", v);
        tg_attr_int(g, v, "to", QN_F32);
        tg_output(g, v, "y");
        tg_finish(g);
    }
    qn_session *s = open_parts(parts, 2, 0);
    qn_plan *plan = plan_of(s, 1, d4);
    qn_run r;
    qn_error err = { 0 };
    qn_run_init(&r, s, plan);
    assert_int_equal(qn_run_lease(&r, NULL, NULL, &err), QN_OK);
    memcpy(qn_run_input(&r, 0).data, x, sizeof x);
    if (qn_run_sync(&r, &err) != QN_OK)
        fail_msg("%s", err.text);
    qn_tensor out = qn_run_output(&r, 0);
    assert_int_equal(out.shape.dims[0], 3);
    memcpy(y, out.data, 3 * sizeof *y);
    assert_true(y[0] < 1 && y[1] > 3 && y[1] < 5 && y[2] > 5); /* 0 4 6 */
    qn_run_release(&r);
    qn_plan_release(plan);
    qn_session_free(s);
    assert_int_equal(charged(), 0);
}

/* An index that is out of range on one rank ends the run on all. */
static void test_one_rank_fails(void **state)
{
    static const int64_t bad[] = { 7 };
    const int64_t one[] = { 1 };
    float x[4] = { 0, 1, 2, 3 };
    qn_graph *parts[2];
    (void)state;
    for (int r = 0; r < 2; r++) {
        qn_graph *g = parts[r] = tg_new(NULL);
        qn_value_id v = tg_op1(g, "Neg", tg_input(g, "x", QN_F32, 1, d4));
        if (r) {
            qn_value_id i = tg_op1(g, "Cast", v);
            tg_attr_int(g, i, "to", QN_I64);
            i = tg_op2(g, "Sub", i, tg_const(g, QN_I64, 1, one, bad));
            v = tg_op2(g, "Gather", v, i);
        }
        tg_output(g, tg_op1(g, "Abs", tg_collective1(g, "AllReduce", v)), "y");
        tg_finish(g);
    }
    qn_session *s = open_parts(parts, 2, 0);
    qn_plan *plan = plan_of(s, 1, d4);
    qn_error err = { 0 };
    qn_run r;
    qn_run_init(&r, s, plan);
    assert_int_equal(qn_run_lease(&r, NULL, NULL, &err), QN_OK);
    memcpy(qn_run_input(&r, 0).data, x, sizeof x);
    assert_int_not_equal(qn_run_sync(&r, &err), QN_OK);
    assert_non_null(strstr(err.text, "Gather"));
    qn_run_release(&r);
    qn_plan_release(plan);
    qn_session_free(s);
    assert_int_equal(charged(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_merge_counts),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_random_cuts),
        cmocka_unit_test(test_waits),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_shapes_differ),
        cmocka_unit_test(test_data_dependent),
        cmocka_unit_test(test_one_rank_fails),
    };
    qn_runtime_options options = { .memory_budget = 64u << 20, .threads = 2 };
    qn_error err = { 0 };
    if (qn_runtime_new(&options, &runtime, &err) != QN_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qn_runtime_free(runtime);
    return failed;
}
