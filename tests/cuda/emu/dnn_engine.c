/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcudnn.so.9: engines and heuristics.
 *
 * The engines differ as the real ones do where a client must look: some round
 * floats to TF32 or half, some add in any order, some want a workspace, some
 * are proposed by the heuristics and then refuse the plan. */
#include "tests/cuda/emu/dnn.h"

#include <stdlib.h>
#include <string.h>

/* Layout and types, alike for the tensor-core engines. */
static cudnnStatus_t tensor_core(const struct qn_dnn_graph *g, bool nhwc)
{
    const struct qn_dnn_tensor *all[] = { &g->x, &g->w, &g->y,
                                          g->has_z ? &g->z : &g->x,
                                          g->has_bias ? &g->bias : &g->x };
    if (g->x.type == CUDNN_DATA_DOUBLE)
        return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
    if (!(nhwc ? g->nhwc : g->nchw) || !g->packed)
        return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
    int64_t step = 16 / (int64_t)qn_dnn_size(g->x.type);
    if (g->x.dim[1] / g->groups % step != 0 ||
        g->y.dim[1] / g->groups % step != 0)
        return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->align < 16)
            return CUDNN_STATUS_NOT_SUPPORTED;
    return CUDNN_STATUS_SUCCESS;
}

static bool winograd(const struct qn_dnn_graph *g)
{
    for (int i = 0; i < g->spatial; i++)
        if (g->w.dim[i + 2] != 3 || g->stride[i] != 1 || g->dilation[i] != 1)
            return false;
    return g->spatial == 2 && g->groups == 1 && !g->backward && g->packed &&
           g->nchw && g->x.type == CUDNN_DATA_FLOAT;
}

cudnnStatus_t qn_dnn_engine_takes(const struct qn_dnn_graph *g, int engine)
{
    if (g->refused != CUDNN_STATUS_SUCCESS)
        return g->refused;
    if (engine != QN_DNN_FUSION && !g->fixed_pattern)
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    if (engine != QN_DNN_DIRECT && engine != QN_DNN_TENSOR_NHWC &&
        g->groups > 1)
        return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    switch (engine) {
    case QN_DNN_TENSOR_NHWC:
        if (g->groups > 1 && g->x.type != CUDNN_DATA_HALF)
            return CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE;
        return tensor_core(g, true);
    case QN_DNN_TENSOR_NCHW:
        return g->nhwc && !g->nchw ? CUDNN_STATUS_NOT_SUPPORTED_LAYOUT
                                   : tensor_core(g, false);
    case QN_DNN_DOWN_CONVERT:
        return g->x.type != CUDNN_DATA_FLOAT
                   ? CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE
                   : tensor_core(g, g->nhwc);
    case QN_DNN_WINOGRAD:
        return winograd(g) ? CUDNN_STATUS_SUCCESS
                           : CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
    case QN_DNN_ATOMICS:
        return g->x.type == CUDNN_DATA_FLOAT && g->n_steps == 0
                   ? CUDNN_STATUS_SUCCESS
                   : CUDNN_STATUS_NOT_SUPPORTED;
    case QN_DNN_DIRECT:
        if (g->x.type == CUDNN_DATA_DOUBLE && (!g->nchw || g->n_steps))
            return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
        return CUDNN_STATUS_SUCCESS;
    case QN_DNN_FUSION:
        if (g->n_steps == 0)
            return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
        return tensor_core(g, true);
    default:
        return CUDNN_STATUS_NOT_SUPPORTED;
    }
}

static int64_t round_up(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

int64_t qn_dnn_workspace(const struct qn_dnn_graph *g, int engine)
{
    int64_t size = (int64_t)qn_dnn_size(g->x.type);
    int64_t x = qn_dnn_extent(&g->x), w = qn_dnn_extent(&g->w),
            y = qn_dnn_extent(&g->y);
    switch (engine) {
    case QN_DNN_TENSOR_NCHW:
        return round_up(x * size) + round_up(w * size) + round_up(y * size);
    case QN_DNN_DOWN_CONVERT:
        return round_up(2 * x) + round_up(2 * w);
    case QN_DNN_WINOGRAD: /* transformed filters, 4 x 4 for 3 x 3 */
        return round_up(64 * g->w.dim[0] * g->w.dim[1]);
    case QN_DNN_ATOMICS:
        return round_up(4 * y);
    default:
        return 0;
    }
}

static const struct {
    int n;
    cudnnBackendNumericalNote_t of[2];
} notes[QN_DNN_ENGINES] = {
    [QN_DNN_TENSOR_NHWC] = { 1, { CUDNN_NUMERICAL_NOTE_TENSOR_CORE } },
    [QN_DNN_TENSOR_NCHW] = { 1, { CUDNN_NUMERICAL_NOTE_TENSOR_CORE } },
    [QN_DNN_DOWN_CONVERT] = { 2,
                              { CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
                                CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS } },
    [QN_DNN_WINOGRAD] = { 2,
                          { CUDNN_NUMERICAL_NOTE_WINOGRAD,
                            CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 } },
    [QN_DNN_ATOMICS] = { 1, { CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC } },
    [QN_DNN_FUSION] = { 1, { CUDNN_NUMERICAL_NOTE_TENSOR_CORE } },
};

/* What a mode proposes, best first. As the real ones, modes A and B look at
 * patterns and layouts, not at alignments and channel counts: a plan of the
 * first configuration may fail, and the client must try the next. */
static int propose(const struct qn_dnn_graph *g, int mode, int *out)
{
    static const int fast[] = { QN_DNN_TENSOR_NHWC,  QN_DNN_TENSOR_NCHW,
                                QN_DNN_FUSION,       QN_DNN_WINOGRAD,
                                QN_DNN_DOWN_CONVERT, QN_DNN_ATOMICS,
                                QN_DNN_DIRECT };
    static const int slow[] = { QN_DNN_FUSION,      QN_DNN_TENSOR_NHWC,
                                QN_DNN_WINOGRAD,    QN_DNN_TENSOR_NCHW,
                                QN_DNN_DIRECT,      QN_DNN_ATOMICS,
                                QN_DNN_DOWN_CONVERT };
    static const int fallback[] = { QN_DNN_DIRECT };
    const int *from = mode == CUDNN_HEUR_MODE_B          ? slow
                      : mode == CUDNN_HEUR_MODE_FALLBACK ? fallback
                                                         : fast;
    int n_from = mode == CUDNN_HEUR_MODE_FALLBACK ? 1 : QN_DNN_ENGINES, n = 0;
    for (int i = 0; i < n_from; i++) {
        cudnnStatus_t st = qn_dnn_engine_takes(g, from[i]);
        bool late = (from[i] == QN_DNN_TENSOR_NHWC && g->nhwc) ||
                    (from[i] == QN_DNN_TENSOR_NCHW && g->nchw);
        late = late && g->fixed_pattern &&
               g->refused == CUDNN_STATUS_SUCCESS &&
               (st == CUDNN_STATUS_NOT_SUPPORTED_SHAPE ||
                st == CUDNN_STATUS_NOT_SUPPORTED);
        if (st == CUDNN_STATUS_SUCCESS || late)
            out[n++] = from[i];
    }
    return n;
}

static const struct qn_dnn_graph *graph_of(const struct qn_dnn_desc *d,
                                           cudnnBackendAttributeName_t name)
{
    return qn_dnn_ref(d, name, 0)->derived;
}

static const struct qn_dnn_graph *graph_of_config(const struct qn_dnn_desc *d,
                                                  int *engine)
{
    const struct qn_dnn_desc *e =
        qn_dnn_ref(d, CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    *engine = (int)qn_dnn_int(e, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    return graph_of(e, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

cudnnStatus_t qn_dnn_finalize_engine(struct qn_dnn_desc *d)
{
    int64_t index = qn_dnn_int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
    if (index < 0 || index >= QN_DNN_ENGINES)
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "engine: index %lld of %d", (long long)index,
                           (int)QN_DNN_ENGINES);
    const struct qn_dnn_graph *g =
        graph_of(d, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
    return g->refused == CUDNN_STATUS_SUCCESS
               ? CUDNN_STATUS_SUCCESS
               : qn_dnn_fail(g->refused, "engine: the graph is refused");
}

cudnnStatus_t qn_dnn_finalize_config(struct qn_dnn_desc *d)
{
    (void)d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t qn_dnn_finalize_heuristic(struct qn_dnn_desc *d)
{
    const struct qn_dnn_graph *g =
        graph_of(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    if (g->refused != CUDNN_STATUS_SUCCESS)
        return qn_dnn_fail(g->refused, "heuristic: no engine for the graph");
    int engines[QN_DNN_ENGINES];
    if (!propose(g, qn_dnn_enum(d, CUDNN_ATTR_ENGINEHEUR_MODE), engines))
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                           "heuristic: no engine for the graph");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t qn_dnn_finalize_plan(struct qn_dnn_desc *d)
{
    int engine;
    const struct qn_dnn_graph *g = graph_of_config(
        qn_dnn_ref(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0), &engine);
    cudnnStatus_t st = qn_dnn_engine_takes(g, engine);
    if (st != CUDNN_STATUS_SUCCESS)
        return qn_dnn_fail(st, "plan: engine %d does not take the graph",
                           engine);
    qn_dnn_handle_current(
        qn_dnn_pointer(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, 0),
        "cudnnBackendFinalize of a plan");
    /* Code is loaded here: it needs memory, and no capture may be going on. */
    CUdeviceptr code;
    if (cuMemAlloc(&code, 256) != CUDA_SUCCESS ||
        cuMemFree(code) != CUDA_SUCCESS)
        return qn_dnn_fail(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                           "plan: loading code");
    return CUDNN_STATUS_SUCCESS;
}

/* Fill descriptors that the client created and did not touch. */
static struct qn_dnn_desc *blank(void *array, int64_t i,
                                 cudnnBackendDescriptorType_t type)
{
    struct qn_dnn_desc *d = qn_dnn_desc_of(
        ((cudnnBackendDescriptor_t *)array)[i], "cudnnBackendGetAttribute");
    return d && d->kind->type == type && !d->finalized ? d : NULL;
}

static cudnnStatus_t fill_engine(struct qn_dnn_desc *out,
                                 struct qn_dnn_desc *graph, int64_t index)
{
    cudnnStatus_t st = qn_dnn_put(out, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    if (st == CUDNN_STATUS_SUCCESS)
        st = qn_dnn_put(out, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                        1, &index);
    out->finalized = st == CUDNN_STATUS_SUCCESS;
    return st;
}

static cudnnStatus_t fill_config(struct qn_dnn_desc *out,
                                 struct qn_dnn_desc *graph, int engine)
{
    cudnnBackendDescriptor_t made;
    cudnnStatus_t st =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &made);
    if (st != CUDNN_STATUS_SUCCESS)
        return st;
    st = fill_engine(made, graph, engine);
    if (st == CUDNN_STATUS_SUCCESS)
        st = qn_dnn_put(out, CUDNN_ATTR_ENGINECFG_ENGINE,
                        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &made);
    out->finalized = st == CUDNN_STATUS_SUCCESS;
    cudnnBackendDestroyDescriptor(made); /* the configuration's now */
    return st;
}

static cudnnStatus_t get_results(const struct qn_dnn_desc *d,
                                 int64_t requested, int64_t *count, void *out)
{
    struct qn_dnn_desc *graph =
        qn_dnn_ref(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    int engines[QN_DNN_ENGINES];
    int n = propose(graph->derived, qn_dnn_enum(d, CUDNN_ATTR_ENGINEHEUR_MODE),
                    engines);
    for (int64_t i = 0; i < n && i < requested; i++) {
        struct qn_dnn_desc *to =
            blank(out, i, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        if (!to)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                               "results: element %lld is no new configuration",
                               (long long)i);
        cudnnStatus_t st = fill_config(to, graph, engines[i]);
        if (st != CUDNN_STATUS_SUCCESS)
            return st;
    }
    *count = n;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t get_engine(const struct qn_dnn_desc *d, int64_t requested,
                                int64_t *count, void *out)
{
    const struct qn_dnn_desc *from =
        qn_dnn_ref(d, CUDNN_ATTR_ENGINECFG_ENGINE, 0);
    *count = 1;
    if (requested == 0)
        return CUDNN_STATUS_SUCCESS;
    struct qn_dnn_desc *to = blank(out, 0, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    if (!to)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                           "configuration: the element is no new engine");
    return fill_engine(to,
                       qn_dnn_ref(from, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, 0),
                       qn_dnn_int(from, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0));
}

static cudnnStatus_t get_int(int64_t value, int64_t requested, int64_t *count,
                             void *out)
{
    *count = 1;
    if (requested > 0)
        memcpy(out, &value, sizeof value);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t qn_dnn_get_computed(const struct qn_dnn_desc *d,
                                  cudnnBackendAttributeName_t name,
                                  int64_t requested, int64_t *count, void *out)
{
    int engine;
    const struct qn_dnn_graph *g;
    switch (name) {
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
        g = d->derived;
        return get_int(g->refused == CUDNN_STATUS_SUCCESS ? QN_DNN_ENGINES : 0,
                       requested, count, out);
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        return get_results(d, requested, count, out);
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        return get_engine(d, requested, count, out);
    case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
        g = graph_of_config(d, &engine);
        return get_int(qn_dnn_workspace(g, engine), requested, count, out);
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        g = graph_of_config(
            qn_dnn_ref(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0), &engine);
        return get_int(qn_dnn_workspace(g, engine), requested, count, out);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
        engine = (int)qn_dnn_int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
        *count = notes[engine].n;
        for (int64_t i = 0; i < *count && i < requested; i++)
            ((cudnnBackendNumericalNote_t *)out)[i] = notes[engine].of[i];
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
        engine = (int)qn_dnn_int(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
        *count = engine == QN_DNN_FUSION;
        if (*count && requested > 0)
            *(cudnnBackendBehaviorNote_t *)out =
                CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
        return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_KNOB_INFO:
        *count = 0;
        return CUDNN_STATUS_SUCCESS;
    default:
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "attribute %d cannot be read here", (int)name);
    }
}
