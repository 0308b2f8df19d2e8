/* SPDX-License-Identifier: Apache-2.0 */
/* The example that is split over two ranks, from its files: the answer of the
 * whole network, its digest, and what is wrong with other sets of files. */
#include "models/ranks.h"
#include "runtime/exec/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define FOLDER "models/examples-split/mlp/"

enum { ROWS = 7, IN = 16, OUT = 6 };

static const char *const ranks[] = { FOLDER "1/rank0.onnx",
                                     FOLDER "1/rank1.onnx" };
static const char *const whole[] = { FOLDER "whole.onnx" };

static void answer(const char *const *paths, uint32_t n, uint32_t streams,
                   float y[ROWS * OUT])
{
    qn_model_files files;
    qn_graph *graph;
    qn_runtime *runtime;
    qn_session *session = NULL;
    qn_plan *plan = NULL;
    qn_run run;
    qn_ledger_state ledger;
    qn_error err = { 0 };
    qn_runtime_options ro = { .memory_budget = 64u << 20, .threads = 2 };
    qn_session_options so = { .streams = streams };
    const int64_t dims[] = { ROWS, IN };
    qn_tensor x = { .dtype = QN_F32, .shape = qn_shape_make(2, dims) };
    qn_status st = qn_runtime_new(&ro, &runtime, &err);
    if (st == QN_OK)
        st = qn_model_open_ranks(paths, n, &files, &graph, &err);
    if (st == QN_OK)
        st = qn_session_new(runtime, graph, &so, &session, &err);
    if (st == QN_OK) {
        qn_model_close_ranks(&files);
        st = qn_session_plan(session, &x, &plan, &err);
    }
    if (st != QN_OK)
        fail_msg("%s", err.text);
    qn_run_init(&run, session, plan);
    qn_plan_release(plan);
    assert_int_equal(qn_run_lease(&run, NULL, NULL, &err), QN_OK);
    float *in = qn_run_input(&run, 0).data;
    for (int i = 0; i < ROWS * IN; i++)
        in[i] = (float)(i * 37 % 29 - 14) / 8;
    assert_int_equal(qn_run_sync(&run, &err), QN_OK);
    memcpy(y, qn_run_output(&run, 0).data, ROWS * OUT * sizeof *y);
    qn_run_release(&run);
    qn_session_free(session);
    qn_pool_trim(qn_runtime_pool(runtime), 0);
    qn_ledger_read(qn_runtime_ledger(runtime), &ledger);
    assert_int_equal(ledger.charged, 0);
    qn_runtime_free(runtime);
}

static void test_answer(void **state)
{
    float want[ROWS * OUT], got[ROWS * OUT], again[ROWS * OUT];
    (void)state;
    answer(whole, 1, 0, want);
    answer(ranks, 2, 0, got);
    for (int i = 0; i < ROWS * OUT; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-6f))
            fail_msg("element %d: %g, whole %g", i, (double)got[i],
                     (double)want[i]);
    for (uint32_t streams = 1; streams <= 4; streams++) {
        answer(ranks, 2, streams, again);
        assert_memory_equal(again, got, sizeof got);
    }
}

static void test_files(void **state)
{
    static const char *const odd[] = { FOLDER "1/rank0.onnx",
                                       FOLDER "whole.onnx" };
    static const char *const gone[] = { FOLDER "1/rank0.onnx",
                                        FOLDER "1/rank7.onnx" };
    char one[QN_SHA256_TEXT], both[QN_SHA256_TEXT], turned[QN_SHA256_TEXT];
    const char *const back[] = { ranks[1], ranks[0] };
    qn_model_files files;
    qn_graph *g;
    qn_error err = { 0 };
    (void)state;
    assert_int_equal(qn_model_open_ranks(odd, 2, &files, &g, &err), QN_INVALID);
    assert_non_null(strstr(err.text, "node 'sum' has no counterpart: rank 1"));
    assert_null(g);
    assert_int_equal(files.n, 0);
    err = (qn_error){ 0 };
    assert_int_equal(qn_model_open_ranks(gone, 2, &files, &g, &err),
                     QN_NOT_FOUND);
    assert_non_null(strstr(err.text, "rank 1: "));
    assert_int_equal(qn_model_open_ranks(ranks, 0, &files, &g, &err),
                     QN_INVALID);
    assert_int_equal(qn_model_open_ranks(ranks, 2, &files, &g, &err), QN_OK);
    assert_int_equal(g->n_ranks, 2);
    assert_true(qn_model_ranks_bytes(&files) > 3000);
    assert_int_equal(qn_model_ranks_digest(&files, both, &err), QN_OK);
    qn_graph_free(g);
    qn_model_close_ranks(&files);
    assert_int_equal(qn_model_open_ranks(back, 2, &files, &g, &err), QN_OK);
    assert_int_equal(qn_model_ranks_digest(&files, turned, &err), QN_OK);
    qn_graph_free(g);
    qn_model_close_ranks(&files);
    assert_int_equal(qn_model_open_ranks(ranks, 1, &files, &g, &err), QN_OK);
    assert_int_equal(qn_model_ranks_digest(&files, one, &err), QN_OK);
    qn_graph_free(g);
    qn_model_close_ranks(&files);
    assert_string_not_equal(both, one);
    assert_string_not_equal(both, turned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
