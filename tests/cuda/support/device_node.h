/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One node on an accelerator, compared with the cpu: the harness of the parity
 * tests of kernel families. A family's test is a list of rows:
 *
 *   static const device_row rows[] = {
 *       { "Softmax", 13, "axis=1", { "f32 2,300,5" } },
 *       { "Softmax", 13, NULL, { "f16 7,1000" }, .in_place = true },
 *       { "Gather", 13, NULL, { "f32 5,3", "i64 2: 4 9" }, .faults = true },
 *   };
 *   ... device_rows_run(rows, sizeof rows / sizeof rows[0]);
 *
 *   int main(void)
 *   {
 *       ... return cmocka_run_group_tests(tests, device_setup, device_teardown);
 *   }
 *
 * A row's run does what the executor does: finds the kernel, packs, prepares,
 * clears, launches on a lane, reads the fault word, finishes. Every value has an
 * allocation of its own with guards on both sides, filled with 0xff: NaN to who
 * reads too far, and checked against who writes too far. Outputs and workspace
 * hold rubbish before the launch; inputs must be unchanged after it.
 */
#ifndef QN_TESTS_CUDA_DEVICE_NODE_H
#define QN_TESTS_CUDA_DEVICE_NODE_H

#include "runtime/device/accel.h"
#include "tests/support/rows.h"

/* Rows name what they need; the rest is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef struct device_options {
    /* |device - cpu| <= atol + rtol * |cpu|; both 0: by type, see
     * device_tolerance(). Integers and bool are equal in any case. */
    double rtol, atol;
    bool exact; /* same bytes, floats too (NaN as NaN) */
    /* Bit i: input i is a constant: packed if the kernel packs it, else
     * prepare() sees its address. */
    uint32_t constants;
    /* Values start this many elements behind an aligned address: as views do. */
    uint32_t shift;
    /* Output 0 lies where the first input that op->inplace allows does. */
    bool in_place;
    /* The node in channels-last order: rank-4 values lie as N, H, W, C. */
    bool nhwc;
    /* The cpu's kernel refuses the data; so must the device's. */
    bool faults;
    qn_precision precision;
    /* Not NULL: gets the bytes of the device's output 0. */
    void *result;
} device_options;

typedef struct device_row {
    const char *op;
    int opset;
    const char *attrs;
    const char *in[TEST_ROW_ARGS]; /* tests/support/rows.h; up to the first NULL */
    uint32_t n_out;                /* 0: one */
    /* as in device_options */
    double rtol, atol;
    bool exact, in_place, nhwc, faults;
    uint32_t constants, shift;
    qn_precision precision;
    bool no_kernel; /* stays on the cpu */
} device_row;

/* Group set-up and -down: opens cuda:0 and a lane. Where there is no device the
 * program ends with 77 (skipped) and says why. */
int device_setup(void **state);
int device_teardown(void **state);
qn_accel *device_accel(void);
qn_alane *device_lane(void);

/* Run every row on both; fail with its number, operator and attributes. */
void device_rows_run(const device_row *rows, size_t n);

/*
 * The same for a node of the caller's: t->in is set, t->out gets the cpu's
 * answer. Returns the kernel that ran. `name` stands in front of messages.
 */
const qn_kernel *device_node_run(test_node *t, const device_options *o,
                                 const char *name);

/* The tolerance by type: f64 1e-12, f32 1e-5, f16 and bf16 one unit in the last
 * place, others none. */
void device_tolerance(qn_dtype dtype, double *rtol, double *atol);

/* Waits until all that was enqueued on stream 0 of the lane has ended. */
qn_status device_drain(qn_accel *accel, qn_alane *lane);

#endif
