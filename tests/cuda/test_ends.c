/* SPDX-License-Identifier: Apache-2.0 */
/* Where enqueueing fails in the middle of a run, the run still gives nothing back
 * before the device is through: the driver dies where it touches memory that was
 * unmapped. */
#include "runtime/exec/queues.h"
#include "runtime/exec/session_impl.h"
#include "tests/cuda/support/executor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { OUT_OF_MEMORY = 2, DELAY_US = 3000, DEPTH = 1, MOST = 400, HANGS_S = 60 };

/* Fails call number n of api in a run; false when there are fewer. */
static bool run_with_failure(qn_runtime *rt, qn_session *s, const char *api,
                             uint64_t n, const answer *good)
{
    const test_emu *emu = executor_emu();
    qn_region region = { 0 };
    qn_tensor in = model_input(MODEL_INCEPTION, 0, &region);
    answer a;
    emu->reset_counts();
    emu->fail_at(api, n, OUT_OF_MEMORY);
    executor_run(s, &in, 1, NULL, &a);
    bool more = emu->count(api) >= n;
    emu->fail_none();
    /* the card's first: giving pinned memory back waits for all devices */
    qn_pool_trim(qn_runtime_accel_pool(rt, 0), 0);
    qn_pool_trim(qn_runtime_pool(rt), 0);
    if (!more)
        assert_null(answer_differs(good, &a));
    else if (a.status != QN_OK)
        assert_int_equal(a.status, QN_NO_MEMORY);
    answer_free(&a);
    qn_region_release(&region);
    return more;
}

static void test_nothing_early(void **state)
{
    static const char *const apis[] = { "cuEventRecord", "cuStreamWaitEvent",
                                        "cuMemcpyDtoHAsync" };
    (void)state;
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 1 });
    qn_session *s = executor_session(
        rt, model_build(MODEL_INCEPTION, DEPTH),
        &(qn_session_options){ .streams = 4, .no_graphs = true }, NULL);
    qn_region region = { 0 };
    qn_tensor in = model_input(MODEL_INCEPTION, 0, &region);
    answer good;
    executor_run(s, &in, 1, NULL, &good);
    assert_int_equal(good.status, QN_OK);
    executor_emu()->delays(1, DELAY_US);
    for (size_t i = 0; i < sizeof apis / sizeof *apis; i++) {
        uint64_t n = 1;
        while (n < MOST && run_with_failure(rt, s, apis[i], n, &good))
            n++;
        assert_in_range(n, 3, MOST - 1);
    }
    executor_emu()->delays(0, 0);
    answer_free(&good);
    qn_region_release(&region);
    qn_session_free(s);
    assert_int_equal(executor_charged(rt), 0);
    assert_int_equal(executor_charged_device(rt), 0);
    qn_runtime_free(rt);
}

static qn_status refuse_stream(qn_device *device, qn_stream **out, qn_error *err)
{
    (void)device;
    *out = NULL;
    return qn_fail(err, QN_NO_MEMORY, "no memory for a stream");
}

/* Without a stream of the host's workers a run ends before it has begun; the
 * card's lane is there for the next one. */
static void test_lane_comes_back(void **state)
{
    enum { MOST_LANES = 512 };
    static qn_lane *taken[MOST_LANES];
    (void)state;
    qn_runtime *rt = executor_runtime(&(qn_runtime_options){ .lanes = 1 });
    qn_session *s = executor_session(rt, model_build(MODEL_INCEPTION, DEPTH),
                                     &(qn_session_options){ .streams = 1 },
                                     NULL);
    qn_region region = { 0 };
    qn_tensor in = model_input(MODEL_INCEPTION, 0, &region);
    qn_plan *plan;
    answer a;
    uint32_t n = 0;
    assert_int_equal(qn_session_plan(s, &in, &plan, NULL), QN_OK);
    while (n < MOST_LANES && rt->lanes)
        taken[n++] = qn_lane_take(rt, NULL);
    struct qn_device_ops refusing = *rt->cpu->ops;
    const struct qn_device_ops *ops = rt->cpu->ops;
    refusing.stream_new = refuse_stream;
    rt->cpu->ops = &refusing;
    executor_run_plan(s, plan, &in, 1, NULL, &a);
    rt->cpu->ops = ops;
    assert_int_equal(a.status, QN_NO_MEMORY);
    while (n > 0)
        qn_lane_give(rt, taken[--n]);
    alarm(HANGS_S); /* it would wait for the lane for ever */
    executor_run_plan(s, plan, &in, 1, NULL, &a);
    alarm(0);
    assert_int_equal(a.status, QN_OK);
    answer_free(&a);
    qn_plan_release(plan);
    qn_region_release(&region);
    qn_session_free(s);
    qn_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_early),
        cmocka_unit_test(test_lane_comes_back),
    };
    return cmocka_run_group_tests(tests, executor_setup, executor_teardown);
}
