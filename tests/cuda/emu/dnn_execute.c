/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcudnn.so.9: one execution of a plan.
 *
 * Beside what the real library refuses, the call checks what a card would not
 * tell: ranges and overlaps. The workspace is overwritten with NaN first, so
 * that a plan that lends it to somebody else is found out. */
#include "tests/cuda/emu/dnn.h"
#include "tests/cuda/emu/emu.h"

#include <string.h>

struct call {
    struct qn_dnn_graph graph;
    int engine;
    const char *x, *w, *bias, *z;
    char *y, *workspace;
    size_t workspace_bytes;
};

static void run(void *arg)
{
    struct call *c = arg;
    if (c->workspace_bytes)
        memset(c->workspace, 0xff, c->workspace_bytes);
    if (!qn_dnn_convolve(&c->graph, c->engine, c->x, c->w, c->bias, c->z,
                         c->y))
        qn_emu_report("cudnnBackendExecute: no host memory to emulate with");
}

struct area {
    const char *name;
    const struct qn_dnn_tensor *tensor;
    char *at;
    size_t bytes;
};

static bool overlap(const char *a, size_t na, const char *b, size_t nb)
{
    uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;
    return na && nb && x < y + nb && y < x + na;
}

/* The pointer for a tensor, checked. */
static cudnnStatus_t find(const struct qn_dnn_desc *pack, struct area *area)
{
    const struct qn_dnn_tensor *t = area->tensor;
    int64_t n = qn_dnn_count(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    for (int64_t i = 0; i < n; i++)
        if (qn_dnn_int(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) == t->uid)
            area->at = qn_dnn_pointer(
                pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    if (!area->at)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "execute: no pointer for %s, unique id %lld",
                           area->name, (long long)t->uid);
    if ((uintptr_t)area->at % (uintptr_t)t->align != 0)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                           "execute: %s at %p, its descriptor says %lld bytes",
                           area->name, (void *)area->at, (long long)t->align);
    area->bytes = (size_t)qn_dnn_extent(t) * qn_dnn_size(t->type);
    if (!qn_emu_device_range(area->at, area->bytes))
        qn_emu_report("cudnnBackendExecute: %s at %p, %zu bytes, is not "
                      "device memory",
                      area->name, (void *)area->at, area->bytes);
    return CUDNN_STATUS_SUCCESS;
}

/* areas[0] is the output. The residual may be the output's own memory where
 * both are laid out alike: each element is read before it is written. For one
 * image of one pixel it looks like a bias and is taken for one. */
static void check_overlaps(const struct area *areas, size_t n,
                           const struct call *c)
{
    for (size_t i = 0; i < n; i++) {
        if (overlap(c->workspace, c->workspace_bytes, areas[i].at,
                    areas[i].bytes))
            qn_emu_report("cudnnBackendExecute: the workspace overlaps %s",
                          areas[i].name);
        const struct qn_dnn_tensor *a = areas[i].tensor, *y = areas[0].tensor;
        bool in_place = (a == &c->graph.z || a == &c->graph.bias) &&
                        areas[i].at == areas[0].at &&
                        memcmp(a->dim, y->dim, sizeof y->dim) == 0 &&
                        memcmp(a->stride, y->stride, sizeof y->stride) == 0;
        if (i > 0 && !in_place &&
            overlap(areas[0].at, areas[0].bytes, areas[i].at, areas[i].bytes))
            qn_emu_report("cudnnBackendExecute: the output overlaps %s",
                          areas[i].name);
    }
}

static cudnnStatus_t prepare(const struct qn_dnn_desc *plan,
                             const struct qn_dnn_desc *pack, struct call *c)
{
    const struct qn_dnn_desc *engine = qn_dnn_ref(
        qn_dnn_ref(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0),
        CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    c->engine = (int)qn_dnn_int(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    c->graph = *(const struct qn_dnn_graph *)qn_dnn_ref(
                    engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0)
                    ->derived;
    struct area areas[5] = { { "the output", &c->graph.y, NULL, 0 },
                             { "the input", &c->graph.x, NULL, 0 },
                             { "the filter", &c->graph.w, NULL, 0 } };
    size_t n = 3;
    if (c->graph.has_bias)
        areas[n++] = (struct area){ "the bias", &c->graph.bias, NULL, 0 };
    if (c->graph.has_z)
        areas[n++] = (struct area){ "the residual", &c->graph.z, NULL, 0 };
    for (size_t i = 0; i < n; i++) {
        cudnnStatus_t st = find(pack, &areas[i]);
        if (st != CUDNN_STATUS_SUCCESS)
            return st;
        if (areas[i].tensor == &c->graph.bias)
            c->bias = areas[i].at;
        if (areas[i].tensor == &c->graph.z)
            c->z = areas[i].at;
    }
    if (qn_dnn_count(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS) != (int64_t)n)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "execute: the pack has %lld tensors, the graph %zu",
                           (long long)qn_dnn_count(
                               pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                           n);
    c->y = areas[0].at;
    c->x = areas[1].at;
    c->w = areas[2].at;
    c->workspace_bytes = (size_t)qn_dnn_workspace(&c->graph, c->engine);
    c->workspace = qn_dnn_pointer(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, 0);
    if (c->workspace_bytes && !c->workspace)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "execute: the plan needs a workspace");
    if (c->workspace_bytes &&
        (!qn_emu_device_range(c->workspace, c->workspace_bytes) ||
         (uintptr_t)c->workspace % 128 != 0))
        qn_emu_report("cudnnBackendExecute: workspace at %p; the plan needs "
                      "%zu bytes of device memory, 128-byte aligned",
                      (void *)c->workspace, c->workspace_bytes);
    check_overlaps(areas, n, c);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t p,
                                  cudnnBackendDescriptor_t q)
{
    int fail = qn_emu_fail("cudnnBackendExecute");
    if (fail)
        return qn_dnn_fail((cudnnStatus_t)fail, "injected");
    if (!qn_dnn_handle_ok(h))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "execute: no handle");
    const struct qn_dnn_desc *plan = qn_dnn_desc_of(p, "cudnnBackendExecute");
    const struct qn_dnn_desc *pack = qn_dnn_desc_of(q, "cudnnBackendExecute");
    if (!plan || !pack)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "execute: no plan or no variant pack");
    if (plan->kind->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
        pack->kind->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                           "execute: %s and %s", plan->kind->name,
                           pack->kind->name);
    if (!plan->finalized || !pack->finalized)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                           "execute: plan or pack is not finalized");
    if (!qn_dnn_handle_enter(h, "cudnnBackendExecute"))
        return CUDNN_STATUS_BAD_PARAM;
    qn_dnn_handle_current(h, "cudnnBackendExecute");
    struct call c;
    memset(&c, 0, sizeof c);
    cudnnStatus_t st = prepare(plan, pack, &c);
    if (st == CUDNN_STATUS_SUCCESS &&
        qn_emu_enqueue(qn_dnn_handle_stream(h), run, &c, sizeof c,
                       c.graph.backward ? "dnn.transposed" : "dnn.convolution"))
        st = qn_dnn_fail(CUDNN_STATUS_EXECUTION_FAILED, "execute: no launch");
    qn_dnn_handle_leave(h);
    return st;
}
