/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Same input, same bits: kernels on a team of threads against the same kernels
 * on this thread alone. Tensors are large enough to be split.
 */
#include "runtime/device/device.h"
#include "tests/support/rows.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 4, MAX_OUT = 2, GUARD = 64 << 10, POISON = 0xa5 };

static const struct {
    const char *op;
    int opset;
    const char *attrs;
    const char *in[3];
    uint32_t n_out;
} rows[] = {
    { "MaxPool",
      12,
      "kernel_shape=[3,3] pads=[1,1,1,1]",
      { "f32 4,32,40,40" },
      1 },
    { "MaxPool", 12, "kernel_shape=[3,3]", { "f32 2,16,20,20" }, 2 },
    { "AveragePool",
      11,
      "kernel_shape=[5,4] pads=[1,1,1,1]",
      { "f32 2,32,40,40" },
      1 },
    { "AveragePool", 11, "kernel_shape=[3,3,3]", { "f32 2,9,12,12,12" }, 1 },
    { "GlobalAveragePool", 1, "", { "f32 8,200,20,20" }, 1 },
    { "LayerNormalization",
      17,
      "",
      { "f32 500,768", "f32 768", "f32 768" },
      1 },
    { "InstanceNormalization",
      6,
      "",
      { "f32 4,64,900", "f32 64", "f32 64" },
      1 },
    { "LRN", 13, "size=5", { "f32 2,32,40,40" }, 1 },
    { "Softmax", 13, "axis=-1", { "f32 400,500" }, 1 },
    { "LogSoftmax", 13, "axis=1", { "f32 8,40,1000" }, 1 },
    { "ReduceSum", 11, "axes=[1]", { "f32 300,2000" }, 1 },
    { "ReduceMean", 11, "axes=[0]", { "f32 300,2000" }, 1 },
    { "ReduceLogSumExp", 11, "axes=[1]", { "f32 300,900" }, 1 },
    { "ReduceProd", 11, "axes=[1]", { "f64 300,900" }, 1 },
    { "ArgMax", 13, "axis=1", { "f32 4,50,2000" }, 1 },
    { "ArgMin", 13, "axis=-1", { "f32 300,2000" }, 1 },
    { "TopK", 11, "axis=0", { "f32 300,500", "i64 1: 40" }, 2 },
    { "NonMaxSuppression",
      11,
      "",
      { "f32 4,900,4", "f32 4,9,900", "i64 1: 200" },
      1 },
};

static void *room(test_node *t, const qn_tensor *out)
{
    void *p = qn_region_alloc(&t->region, (size_t)qn_count(out) + 1,
                              qn_dtype_size(out->dtype));
    assert_non_null(p);
    return p;
}

static void run_with(test_node *t, const qn_kernel *kernel, int max_threads,
                     qn_team *team, qn_tensor *out)
{
    const void *packed[TEST_MAX_ARGS] = { NULL };
    qn_prepare p = { .node = &t->node,
                     .n_in = t->node.n_in,
                     .n_out = t->node.n_out,
                     .in = t->in,
                     .out = out,
                     .packed = packed,
                     .max_threads = max_threads,
                     .region = &t->region };
    if (kernel->prepare)
        assert_int_equal(kernel->prepare(&p, &t->err), QN_OK);
    unsigned char *workspace =
        qn_region_alloc(&t->region, p.workspace + GUARD, 1);
    assert_non_null(workspace);
    memset(workspace + p.workspace, POISON, GUARD);
    qn_launch k = { .node = &t->node,
                    .state = p.state,
                    .n_in = t->node.n_in,
                    .n_out = t->node.n_out,
                    .in = t->in,
                    .out = out,
                    .packed = packed,
                    .workspace = workspace,
                    .team = team,
                    .err = &t->err };
    assert_int_equal(kernel->launch(&k), QN_OK);
    for (size_t i = 0; i < GUARD; i++)
        if (workspace[p.workspace + i] != POISON)
            fail_msg("%s wrote %zu bytes behind its workspace of %zu",
                     t->node.op_name, i, p.workspace);
}

static void run_row(size_t row, qn_device *device)
{
    test_node t;
    const qn_kernel *kernel;
    qn_tensor alone[MAX_OUT], shared[MAX_OUT];
    uint32_t n_in = 0;
    while (n_in < 3 && rows[row].in[n_in])
        n_in++;
    test_node_init(&t, rows[row].op, rows[row].opset, n_in, rows[row].n_out);
    test_node_attrs(&t, rows[row].attrs);
    for (uint32_t i = 0; i < n_in; i++)
        t.in[i] = test_row_tensor(&t.region, rows[row].in[i]);
    assert_int_equal(qn_eval_infer(&t.node, t.in, alone, &t.err), QN_OK);
    assert_int_equal(qn_eval_kernel(&t.node, t.in, &kernel, &t.err), QN_OK);
    for (uint32_t k = 0; k < rows[row].n_out; k++) {
        shared[k] = alone[k];
        alone[k].data = room(&t, &alone[k]);
        shared[k].data = room(&t, &shared[k]);
    }
    run_with(&t, kernel, 1, NULL, alone);
    run_with(&t, kernel, device->ops->max_threads(device),
             qn_cpu_device_team(device), shared);
    for (uint32_t k = 0; k < rows[row].n_out; k++) {
        size_t bytes =
            (size_t)qn_count(&alone[k]) * qn_dtype_size(alone[k].dtype);
        if (!qn_shape_equal(&alone[k].shape, &shared[k].shape) ||
            memcmp(alone[k].data, shared[k].data, bytes))
            fail_msg("row %zu %s %s: output %u differs on %d threads", row,
                     rows[row].op, rows[row].attrs, k, THREADS);
    }
    test_node_release(&t);
}

static void test_same_bits_on_a_team(void **state)
{
    qn_device *device;
    qn_error err = { 0 };
    (void)state;
    assert_int_equal(qn_cpu_device_new(THREADS, &device, &err), QN_OK);
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++)
        run_row(row, device);
    device->ops->free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_on_a_team),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
