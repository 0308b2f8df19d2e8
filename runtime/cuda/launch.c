/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels enqueue with, inside launch(): runtime/cuda/kernel.h. */
#include "runtime/cuda/lane.h"

#include "runtime/base/checked.h"

const qn_cuda_limits *qn_cuda_limits_of(const qn_accel *accel)
{
    return &((const qn_cuda_device *)(uintptr_t)accel)->limits;
}

qn_cuda_grid qn_cuda_grid_stride(const qn_accel *accel, int64_t n, int each,
                                 int threads, int waves)
{
    const qn_cuda_limits *l = qn_cuda_limits_of(accel);
    int64_t per_block = (int64_t)threads * each;
    int64_t blocks = n > 0 ? (n - 1) / per_block + 1 : 0;
    int per_sm = l->max_threads_sm / threads;
    int64_t most = (int64_t)l->multiprocessors * (per_sm > 0 ? per_sm : 1) *
                   (waves > 0 ? waves : 1);
    if (blocks > most)
        blocks = most;
    return (qn_cuda_grid){ .grid = { (uint32_t)blocks, 1, 1 },
                           .block = { (uint32_t)threads, 1, 1 } };
}

/* The result of one call inside launch(), with the node in front of the text. */
static qn_status told(const qn_launch *k, CUresult r, const char *what,
                      const char *name)
{
    char node[QN_NODE_TEXT];
    qn_cuda_device *d = qn_cuda_queue_device(k->queue);
    if (r == CUDA_SUCCESS)
        return QN_OK;
    qn_status st = qn_cuda_check(d, r, k->err, "%s %s", what, name);
    qn_error_prefix(k->err, "%s", qn_node_text(k->node, node));
    return st;
}

qn_status qn_cuda_launch(const qn_launch *k, const qn_cuda_fn *fn,
                         const qn_cuda_grid *g, const void *args)
{
    qn_cuda_device *d = qn_cuda_queue_device(k->queue);
    uint32_t grid[3], block[3];
    void *params[1];
    if (!g->grid[0]) /* no blocks */
        return QN_OK;
    for (int i = 0; i < 3; i++) {
        grid[i] = g->grid[i] ? g->grid[i] : 1;
        block[i] = g->block[i] ? g->block[i] : 1;
    }
    qn_status st = qn_cuda_enter(d, k->err);
    if (st != QN_OK)
        return st;
    params[0] = (void *)(uintptr_t)args;
    CUresult r = d->cu.launch(qn_cuda_fn_handle(fn), grid[0], grid[1], grid[2],
                              block[0], block[1], block[2], g->shared,
                              k->queue->stream, params, NULL);
    if (r == CUDA_SUCCESS)
        qn_cuda_count(k->queue);
    return told(k, r, "launching", qn_cuda_fn_name(fn));
}

qn_status qn_cuda_copy(const qn_launch *k, void *dst, const void *src,
                       size_t bytes)
{
    qn_cuda_device *d = qn_cuda_queue_device(k->queue);
    qn_status st = qn_cuda_enter(d, k->err);
    if (st != QN_OK || !bytes)
        return st;
    return told(k,
                d->cu.copy_on_device(qn_cuda_address(dst), qn_cuda_address(src),
                                     bytes, k->queue->stream),
                "copying", "on the device");
}

qn_status qn_cuda_fill(const qn_launch *k, void *dst, int byte, size_t bytes)
{
    qn_cuda_device *d = qn_cuda_queue_device(k->queue);
    qn_status st = qn_cuda_enter(d, k->err);
    if (st != QN_OK || !bytes)
        return st;
    return told(k,
                d->cu.fill8(qn_cuda_address(dst), (unsigned char)byte, bytes,
                            k->queue->stream),
                "filling", "memory");
}

qn_status qn_cuda_read(const qn_launch *k, const void *src, unsigned words)
{
    qn_cuda_device *d = qn_cuda_queue_device(k->queue);
    qn_status st = qn_cuda_enter(d, k->err);
    if (st != QN_OK || !words)
        return st;
    return told(k,
                d->cu.copy_from_device(k->counts, qn_cuda_address(src),
                                       words * sizeof *k->counts,
                                       k->queue->stream),
                "reading", "counts");
}

struct qn_fault_args qn_cuda_fault(const qn_launch *k)
{
    return (struct qn_fault_args){
        .word = qn_cuda_pointer(k->queue->lane->fault), .step = k->step };
}
