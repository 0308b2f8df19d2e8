/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels: one operation on one device.
 *
 *   load:    pack_size / pack   constant inputs into the layout launch() wants
 *   plan:    prepare            workspace, precomputed state, for given shapes
 *   request: launch             cpu: computes, on a stream worker
 *                               accelerator: enqueues on k->queue and returns
 *
 * Families of the cpu lie in runtime/cpu/<family>.c and are listed in
 * runtime/cpu/registry.c; those of an accelerator in its plug-in. On an
 * accelerator tensors and workspace are device addresses, but for the inputs in
 * op->value_in and kernel->host_in: these are host memory, as on the cpu.
 */
#ifndef QN_EXEC_KERNEL_H
#define QN_EXEC_KERNEL_H

#include "runtime/base/string.h"
#include "runtime/graph/graph.h"

typedef struct qn_team qn_team; /* threads that share a launch's work */
typedef struct qn_accel qn_accel; /* an accelerator, runtime/device/accel.h */
typedef struct qn_queue qn_queue; /* one stream of an accelerator's lane */

/* How products of floats are computed where the device has a choice. */
typedef enum qn_precision {
    QN_PRECISION_FP32, /* exact: IEEE float, inputs as they are */
    QN_PRECISION_TF32, /* inputs rounded to 10 bits of mantissa, float sums */
    QN_PRECISION_FP16, /* inputs rounded to half, float sums */
    QN_PRECISION_BF16
} qn_precision;

typedef struct qn_prepare {
    const qn_node *node;
    uint32_t n_in, n_out;
    /* Physical shapes: for a node in NHWC order rank-4 tensors come as
     * [N, H, W, C]. `data` is set for constants that are kept unpacked and for
     * values known to the plan. */
    const qn_tensor *in, *out;
    const void *const *packed; /* [n_in] packed constants, NULL where none */
    int max_threads;   /* launch() sees thread numbers below this */
    qn_region *region; /* state is allocated here, and lives with the plan */
    qn_accel *accel;   /* NULL: cpu */
    qn_precision precision; /* what the session asked for */
    /* results */
    const void *state; /* handed to launch(); holds no pointer to tensors */
    size_t workspace;  /* bytes; 64-byte aligned, 256 on an accelerator;
                          contents undefined */
    /* Bit i: output i is filled with zero bytes before the launch, by whatever
     * the device does best; QN_CLEAR_WORKSPACE: the workspace. For kernels that
     * accumulate. */
    uint32_t clear;
} qn_prepare;

#define QN_CLEAR_WORKSPACE (UINT32_C(1) << 31)

typedef struct qn_launch {
    const qn_node *node;
    const void *state;
    uint32_t n_in, n_out;
    const qn_tensor *in; /* physical shapes, as in qn_prepare */
    qn_tensor *out; /* QN_OP_BOUNDED kernels write the actual shape here */
    const void *const *packed; /* [n_in], as in qn_prepare */
    void *workspace;
    qn_strings *strings;
    qn_team *team; /* NULL: this thread only */
    /* accelerators */
    qn_queue *queue;   /* where to enqueue */
    uint32_t step;     /* number of this launch, for faults of the data */
    /* For kernels with `finish`: 8 words of pinned host memory that launch()
     * makes the device write (qn_cuda_read()), and finish() reads. */
    int64_t *counts;
    qn_error *err;
} qn_launch;

typedef enum qn_kernel_flag {
    /* Applies node->act, and node->residual: the last input, with the shape
     * and order of output 0, is added before the activation. */
    QN_KERNEL_FUSES = 1 << 0,
    /* Runs nodes whose order is QN_ORDER_NHWC. Elementwise operators need no
     * flag: they get physical shapes and do as always. */
    QN_KERNEL_NHWC = 1 << 1,
    /* Products on accelerators, of f32, f16 and bf16: applies node->bias, and
     * node->residual as above. */
    QN_KERNEL_ADDS = 1 << 2,
} qn_kernel_flag;

typedef struct qn_kernel {
    const char *domain, *name;
    uint16_t since, until; /* opsets, as in qn_op */
    uint32_t flags;
    /* Extra condition on types and attributes; NULL: whatever qn_op allows. */
    bool (*supports)(const qn_node *node, uint32_t n_in, const qn_dtype *in);
    /* Bytes that constant input i takes packed; 0: keep it as it is. `in` has
     * dtypes, and shapes of constants only (rank -1 elsewhere). */
    size_t (*pack_size)(const qn_node *node, uint32_t n_in,
                        const qn_tensor *in, uint32_t i);
    /* Packs in[i].data (plain order) into dst[pack_size]. 64-byte aligned. */
    qn_status (*pack)(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                      uint32_t i, void *dst, qn_error *err);
    qn_status (*prepare)(qn_prepare *p, qn_error *err); /* NULL: none needed */
    qn_status (*launch)(const qn_launch *k);
    /* Accelerators only. Bit i: input i is read on the host, by launch() or
     * prepare(), as those of op->value_in always are. */
    uint32_t host_in;
    /* Accelerators only, for QN_OP_BOUNDED operators: called on the host when
     * what launch() enqueued has ended; sets the actual shapes in out[]. NULL:
     * the bound is the shape. */
    qn_status (*finish)(const qn_launch *k);
} qn_kernel;

typedef struct qn_kernel_table {
    const qn_kernel *rows;
    size_t n;
} qn_kernel_table;

#define QN_KERNEL_TABLE(symbol, array)                                         \
    const qn_kernel_table symbol = { array, sizeof array / sizeof array[0] }

/* The cpu kernel for a node whose op and element types are set; NULL if none. */
const qn_kernel *qn_cpu_kernel_find(const qn_node *node, uint32_t n_in,
                                    const qn_dtype *in);

/* ---- inside launch() ---- */

/* One piece of a parallel loop: items [begin, end), on thread number `thread`
 * of [0, max_threads). No two pieces run on one number at once. */
typedef void (*qn_piece_fn)(void *arg, int64_t begin, int64_t end, int thread);

/*
 * Run items [0, n) in pieces of at least `grain`, on this thread and idle ones
 * of the team; returns when all are done. Pieces must not depend on each other,
 * and an item's result must not depend on the piece it falls into: that is what
 * keeps answers equal on any thread count. Choose grain so that a piece takes
 * about 20 us or more: smaller loops run on the caller alone.
 */
void qn_parallel(qn_team *team, int64_t n, int64_t grain, qn_piece_fn fn,
                 void *arg);

/* Report a fault of the data (an index out of range ...). Pieces of a parallel
 * loop must not call this: let them note the lowest bad item, and report it
 * after the loop, so that the message does not depend on the schedule. */
qn_status qn_launch_fail(const qn_launch *k, qn_status status, const char *fmt,
                         ...) QN_PRINTF(3, 4);

#endif
