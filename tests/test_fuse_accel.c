/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes that fuse launches of accelerators, on an accelerator that is the
 * process itself (support/accel.h): answers with and without them, and against
 * the cpu's; what was fused, and what must not be.
 */
#include "runtime/plan/plan.h"
#include "tests/support/accel.h"
#include "tests/support/fusion.h"
#include "tests/support/graph.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 150, GRAPHS = 150 };

static qn_accel *accel;
static qn_runtime *runtime;
static const qn_dtype types[] = { QN_F32, QN_F16, QN_BF16 };
enum { TYPES = sizeof types / sizeof types[0] };

static void check_empty(void)
{
    qn_ledger_state state;
    qn_pool_trim(qn_runtime_pool(runtime), 0);
    qn_ledger_read(qn_runtime_ledger(runtime), &state);
    assert_int_equal(state.charged, 0);
    qn_pool_trim(qn_runtime_accel_pool(runtime, 0), 0);
    qn_ledger_read(qn_runtime_accel_ledger(runtime, 0), &state);
    assert_int_equal(state.charged, 0);
}

/* Chains have the bits of their operators one by one. */
static void test_chains_keep_bits(void **state)
{
    uint32_t chains = 0, steps = 0, longest = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        qn_dtype dtype = types[seed % TYPES];
        fusion_answer cpu, plain, fused;
        char what[32];
        snprintf(what, sizeof what, "seed %d", (int)seed);
        fusion_run(runtime, fusion_elementwise, &seed, dtype, false, false,
                   &cpu);
        fusion_run(runtime, fusion_elementwise, &seed, dtype, true, true,
                   &plain);
        fusion_run(runtime, fusion_elementwise, &seed, dtype, true, false,
                   &fused);
        fusion_same_bits(&plain, &fused, what);
        fusion_same_bits(&cpu, &fused, what);
        assert_int_equal(cpu.fused.chains, 0);
        assert_int_equal(plain.fused.saved, 0);
        assert_int_equal(fused.fused.saved,
                         fused.fused.chain_steps - fused.fused.chains);
        assert_int_equal(plain.launches - fused.launches, fused.fused.saved);
        chains += fused.fused.chains;
        steps += fused.fused.chain_steps;
        if (fused.fused.chains == 1 && fused.fused.chain_steps > longest)
            longest = fused.fused.chain_steps;
        fusion_release(&cpu);
        fusion_release(&plain);
        fusion_release(&fused);
    }
    assert_true(chains > SEEDS);
    assert_true(steps > 3 * chains);
    assert_true(longest >= 8);
    check_empty();
}

static void test_attention(void **state)
{
    (void)state;
    for (size_t r = 0; r < fusion_n_attentions; r++)
        for (size_t t = 0; t < TYPES; t++) {
            const fusion_attention *a = &fusion_attentions[r];
            double tolerance = types[t] == QN_F32   ? 1e-5
                               : types[t] == QN_F16 ? 4e-3 : 3e-2;
            fusion_answer cpu, fused;
            fusion_run(runtime, fusion_attend, a, types[t], false, false, &cpu);
            fusion_run(runtime, fusion_attend, a, types[t], true, false,
                       &fused);
            fusion_close(&cpu, &fused, tolerance, tolerance, a->what);
            if (fused.fused.attention != a->found)
                fail_msg("%s: %u launches of Attention, expected %u", a->what,
                         fused.fused.attention, a->found);
            assert_int_equal(cpu.fused.attention, 0);
            fusion_release(&cpu);
            fusion_release(&fused);
        }
    check_empty();
}

static void test_layer(void **state)
{
    (void)state;
    fusion_answer cpu, plain, fused;
    fusion_run(runtime, fusion_block, NULL, QN_F32, false, false, &cpu);
    fusion_run(runtime, fusion_block, NULL, QN_F32, true, true, &plain);
    fusion_run(runtime, fusion_block, NULL, QN_F32, true, false, &fused);
    fusion_close(&cpu, &plain, 0, 0, "a layer, unfused");
    fusion_close(&cpu, &fused, 1e-4, 1e-5, "a layer");
    assert_int_equal(fused.fused.attention, 1);
    /* two normalisations of two chains each, the first of which the residual
     * before it is part of, and a Gelu with the bias before it */
    assert_true(fused.fused.chains >= 5);
    assert_int_equal(plain.launches - fused.launches, fused.fused.saved);
    fusion_release(&cpu);
    fusion_release(&plain);
    fusion_release(&fused);
    check_empty();
}

/* ---- what chains have to keep to ---- */

static const int64_t d4[] = { 4 };

/* More steps and more operands than a chain can have. */
static void long_one(fusion_model *m, const void *arg)
{
    qn_value_id x = fusion_input(m, 1, d4);
    (void)arg;
    for (int i = 0; i < 20; i++)
        x = tg_op1(m->g, i % 2 ? "Neg" : "Sigmoid", x);
    tg_output(m->g, x, "y");
}

static void wide_one(fusion_model *m, const void *arg)
{
    qn_value_id x = fusion_input(m, 1, d4);
    (void)arg;
    for (int i = 0; i < 10; i++)
        x = tg_op2(m->g, "Add", x, fusion_weights(m, 1, d4, 2));
    tg_output(m->g, x, "y");
}

/* The second operand is worked out behind the first step. */
static void late_operand(fusion_model *m, const void *arg)
{
    static const int64_t square[] = { 4, 4 };
    qn_value_id x = fusion_input(m, 2, square), y = tg_op1(m->g, "Relu", x);
    qn_value_id late = tg_op2(m->g, "MatMul", x, x);
    (void)arg;
    y = tg_op1(m->g, "Neg", tg_op2(m->g, "Sub", late, y));
    tg_output(m->g, tg_op1(m->g, "Exp", y), "y");
}

/* The value in between is an output; x sigmoid(x) reads its first input twice. */
static void read_in_between(fusion_model *m, const void *arg)
{
    qn_value_id x = fusion_input(m, 1, d4);
    (void)arg;
    qn_value_id y = tg_op1(m->g, "Neg", tg_op1(m->g, "Abs", x));
    tg_output(m->g, y, "y");
    tg_output(m->g, tg_op2(m->g, "Mul", y, tg_op1(m->g, "Sigmoid", y)), "z");
}

/* A broadcast makes the running value larger. */
static void growing(fusion_model *m, const void *arg)
{
    static const int64_t row[] = { 1, 4 }, column[] = { 4, 1 };
    qn_value_id x = fusion_input(m, 2, row), c = fusion_input(m, 2, column);
    (void)arg;
    x = tg_op1(m->g, "Abs", tg_op1(m->g, "Neg", x));
    x = tg_op2(m->g, "Add", x, c);
    tg_output(m->g, tg_op1(m->g, "Exp", tg_op1(m->g, "Neg", x)), "y");
}

/* Operators of values that are found when the request runs. */
static void branches(fusion_model *m, const void *arg)
{
    static const int64_t axes[] = { 0 };
    static const int64_t one[] = { 1 };
    (void)arg;
    qn_value_id x = fusion_input(m, 1, d4);
    qn_value_id a = tg_op1(m->g, "Neg", x);
    qn_value_id sum = tg_op2(m->g, "ReduceSum", x,
                             tg_const(m->g, QN_I64, 1, one, axes));
    qn_value_id c = tg_op2(m->g, "Less", sum, fusion_number(m, 100));
    qn_graph *yes = tg_new(m->g), *no = tg_new(m->g);
    qn_value_id p = tg_capture(yes, a), q = tg_capture(no, a);
    tg_output(yes, tg_op1(yes, "Exp", tg_op1(yes, "Abs", p)), "p");
    tg_output(no, tg_op1(no, "Abs", q), "q");
    qn_value_id y = tg_op1(m->g, "If", c);
    tg_attr_graph(m->g, y, "then_branch", yes);
    tg_attr_graph(m->g, y, "else_branch", no);
    tg_output(m->g, tg_op1(m->g, "Neg", tg_op1(m->g, "Sqrt", y)), "y");
}

static void test_limits_of_chains(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        fusion_build build;
        uint32_t chains, steps;
    } rows[] = {
        { "20 steps", long_one, 2, 20 },       /* 16 and 4 */
        { "10 operands", wide_one, 2, 10 },    /* 7 and 3 */
        { "late operand", late_operand, 1, 4 },
        { "read in between", read_in_between, 2, 4 },
        { "growing", growing, 2, 4 },
        { "branches", branches, 2, 4 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        fusion_answer cpu, fused;
        fusion_run(runtime, rows[r].build, NULL, QN_F32, false, false, &cpu);
        fusion_run(runtime, rows[r].build, NULL, QN_F32, true, false, &fused);
        fusion_close(&cpu, &fused, 1e-6, 1e-6, rows[r].what);
        if (fused.fused.chains != rows[r].chains ||
            fused.fused.chain_steps != rows[r].steps)
            fail_msg("%s: %u chains of %u steps, expected %u of %u",
                     rows[r].what, fused.fused.chains, fused.fused.chain_steps,
                     rows[r].chains, rows[r].steps);
        fusion_release(&cpu);
        fusion_release(&fused);
    }
    check_empty();
}

/* ---- random graphs of all kinds ---- */

static qn_session *session_of(uint64_t seed, bool on_accel)
{
    rg r;
    qn_session *s;
    qn_error err = { 0 };
    qn_session_options o = { .n_accels = on_accel, .dynamic_bytes = 1 << 20 };
    rg_build(&r, seed);
    if (qn_session_new(runtime, r.main.g, &o, &s, &err) != QN_OK)
        fail_msg("seed %d: %s", (int)seed, err.text);
    rg_release(&r);
    return s;
}

/* QN_OK: *run is there, to be released. */
static qn_status run_one(qn_session *s, const rg *r, qn_run *run,
                         qn_plan_fused *fused)
{
    const qn_io *io;
    qn_plan *plan;
    qn_plan_report report;
    qn_error err = { 0 };
    qn_status st = qn_session_plan(s, r->inputs[0], &plan, &err);
    if (st != QN_OK)
        return st;
    qn_plan_read(plan, &report);
    *fused = report.fused;
    qn_run_init(run, s, plan);
    qn_plan_release(plan);
    st = qn_run_lease(run, NULL, NULL, &err);
    for (uint32_t i = 0; st == QN_OK && i < qn_session_inputs(s, &io); i++) {
        qn_tensor t = qn_run_input(run, i);
        size_t bytes = 0;
        if (qn_present(&t) &&
            qn_tensor_bytes(t.dtype, &t.shape, &bytes, &err) == QN_OK && bytes)
            memcpy(t.data, r->inputs[0][i].data, bytes);
    }
    if (st == QN_OK)
        st = qn_run_sync(run, &err);
    if (st != QN_OK)
        qn_run_release(run);
    return st;
}

static void compare(uint64_t seed, const rg *r, const qn_run *a,
                    const qn_run *b)
{
    for (uint32_t i = 0; i < r->n_outputs; i++) {
        qn_tensor x = qn_run_output(a, i), y = qn_run_output(b, i);
        size_t bytes = 0;
        assert_int_equal(x.dtype, y.dtype);
        assert_true(qn_shape_equal(&x.shape, &y.shape));
        assert_int_equal(qn_tensor_bytes(x.dtype, &x.shape, &bytes, NULL),
                         QN_OK);
        const float *p = x.data, *q = y.data;
        bool same = !bytes || x.dtype == QN_STRING || !memcmp(p, q, bytes);
        for (int64_t k = 0; !same && r->inexact[i] && x.dtype == QN_F32; k++) {
            same = k == qn_count(&x);
            if (same || (isnan(p[k]) && isnan(q[k])) || p[k] == q[k])
                continue;
            if (!(fabsf(p[k] - q[k]) <= 1e-4f * (fabsf(q[k]) + 100)))
                break;
        }
        if (!same)
            fail_msg("seed %d: output %u differs", (int)seed, i);
    }
}

static void test_random_graphs(void **state)
{
    uint32_t ran = 0, fused = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        rg r;
        qn_run a, b;
        qn_plan_fused f, on_cpu;
        rg_build(&r, seed);
        qn_session *cpu = session_of(seed, false);
        qn_session *own = session_of(seed, true);
        qn_status want = run_one(cpu, &r, &a, &on_cpu);
        qn_status got = run_one(own, &r, &b, &f);
        if (want != got)
            fail_msg("seed %d: %s, expected %s", (int)seed, qn_status_name(got),
                     qn_status_name(want));
        if (want == QN_OK) {
            compare(seed, &r, &a, &b);
            qn_run_release(&a);
            qn_run_release(&b);
            ran++;
            fused += f.chains > 0;
        }
        qn_session_free(cpu);
        qn_session_free(own);
        qn_graph_free(r.main.g);
        rg_release(&r);
    }
    assert_true(ran > GRAPHS / 2);
    assert_true(fused > 0);
    check_empty();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chains_keep_bits),
        cmocka_unit_test(test_limits_of_chains),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_layer),
        cmocka_unit_test(test_random_graphs),
    };
    qn_error err = { 0 };
    accel = test_accel_new();
    qn_runtime_options options = { .memory_budget = 256u << 20, .threads = 2,
                                   .accels = &accel, .n_accels = 1 };
    if (qn_runtime_new(&options, &runtime, &err) != QN_OK) {
        printf("no runtime: %s\n", err.text);
        return 1;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    qn_runtime_free(runtime);
    test_accel_free(accel);
    return failed;
}
