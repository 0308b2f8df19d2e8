/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Building an execution plan of cuDNN, from the bottom up:
 *
 *   tensors ─ operations ─ graph ─ heuristic ─ configurations ─ engine, plan
 *
 * Descriptors are made, given attributes, finalized, and only then used by
 * another; a descriptor keeps what it needs of those it was given, so all but
 * the plan and its configuration go at the end. The heuristic proposes
 * configurations, fastest first; the first whose engine keeps the rules, whose
 * plan can be built, and whose workspace is within the limit, is taken.
 */
#include "runtime/cuda/dnn_internal.h"

enum {
    MOST = 24,    /* descriptors of a graph */
    ASKED = 16,   /* configurations of one mode */
    ALIGNED = 16
};

typedef struct builder {
    const qn_cuda_dnn *dnn;
    const qn_cuda_dnn_conv *p;
    cudnnStatus_t st; /* the first failure; later calls do nothing */
    cudnnBackendDescriptor_t made[MOST];
    int n_made;
    cudnnBackendDescriptor_t ops[4];
    int n_ops;
    int64_t id; /* next virtual tensor */
} builder;

/* ---- descriptors ---- */

static cudnnBackendDescriptor_t make(builder *b,
                                     cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    if (b->st != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (b->n_made == MOST) {
        b->st = CUDNN_STATUS_INTERNAL_ERROR;
        return NULL;
    }
    b->st = b->dnn->new(type, &d);
    if (b->st != CUDNN_STATUS_SUCCESS)
        return NULL;
    return b->made[b->n_made++] = d;
}

static void set(builder *b, cudnnBackendDescriptor_t d,
                cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
    if (b->st == CUDNN_STATUS_SUCCESS)
        b->st = b->dnn->set(d, name, type, n, value);
}

static void set_descriptor(builder *b, cudnnBackendDescriptor_t d,
                           cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(builder *b, cudnnBackendDescriptor_t d)
{
    if (b->st == CUDNN_STATUS_SUCCESS)
        b->st = b->dnn->finalize(d);
}

static cudnnDataType_t type_of(const builder *b)
{
    return b->p->dtype == QN_F16    ? CUDNN_DATA_HALF
           : b->p->dtype == QN_BF16 ? CUDNN_DATA_BFLOAT16
                                    : CUDNN_DATA_FLOAT;
}

/* Row-major; a virtual tensor is a value inside the graph, held in float. */
static cudnnBackendDescriptor_t tensor(builder *b, int64_t id,
                                       const int64_t *dims, bool is_virtual)
{
    const int64_t rank = b->p->rank, align = ALIGNED;
    const cudnnDataType_t type = is_virtual ? CUDNN_DATA_FLOAT : type_of(b);
    int64_t strides[QN_CUDA_DNN_DIMS], run = 1;
    for (int64_t i = rank - 1; i >= 0; i--) {
        strides[i] = run;
        run *= dims[i];
    }
    cudnnBackendDescriptor_t d = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, rank, dims);
    set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, rank, strides);
    set(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    finish(b, d);
    return d;
}

static cudnnBackendDescriptor_t convolution(builder *b)
{
    const int64_t n = b->p->rank - 2;
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    cudnnBackendDescriptor_t d = make(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(b, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
    set(b, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1,
        &mode);
    set(b, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &n);
    set(b, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n,
        b->p->pad);
    set(b, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n,
        b->p->pad);
    set(b, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n,
        b->p->stride);
    set(b, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n,
        b->p->dilation);
    finish(b, d);
    return d;
}

/* ---- operations ---- */

static void operation(builder *b, cudnnBackendDescriptor_t op)
{
    finish(b, op);
    if (b->st == CUDNN_STATUS_SUCCESS)
        b->ops[b->n_ops++] = op;
}

static void forward(builder *b, cudnnBackendDescriptor_t x,
                    cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y)
{
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t conv = convolution(b);
    cudnnBackendDescriptor_t op =
        make(b, CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                   conv);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y);
    set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT,
        1, &one);
    set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT,
        1, &zero);
    operation(b, op);
}

/* A transposed convolution is what training calls the gradient of the input: our
 * x is its dy, our y its dx, and the weights lie as they do in ONNX. */
static void backward(builder *b, cudnnBackendDescriptor_t x,
                     cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y)
{
    const float one = 1, zero = 0;
    cudnnBackendDescriptor_t conv = convolution(b);
    cudnnBackendDescriptor_t op =
        make(b, CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                   conv);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, x);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, y);
    set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_TYPE_FLOAT, 1, &one);
    set(b, op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_TYPE_FLOAT,
        1, &zero);
    operation(b, op);
}

/* `second` NULL: a function of one operand. */
static void pointwise(builder *b, cudnnPointwiseMode_t mode,
                      cudnnBackendDescriptor_t x,
                      cudnnBackendDescriptor_t second,
                      cudnnBackendDescriptor_t y)
{
    const cudnnDataType_t math = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t what = make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(b, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(b, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &math);
    finish(b, what);
    cudnnBackendDescriptor_t op =
        make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (second)
        set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, second);
    set_descriptor(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    operation(b, op);
}

/* Where step i of `steps` writes: y after the last, else a virtual tensor. */
static cudnnBackendDescriptor_t target(builder *b, int i, int steps)
{
    return i == steps ? tensor(b, QN_DNN_Y, b->p->y, false)
                      : tensor(b, b->id++, b->p->y, true);
}

static cudnnBackendDescriptor_t graph(builder *b)
{
    const qn_cuda_dnn_conv *p = b->p;
    const int steps = 1 + (p->residual != 0) + (p->bias != 0) + (p->relu != 0);
    const int64_t per_channel[QN_CUDA_DNN_DIMS] = { 1, p->y[1], 1, 1, 1 };
    cudnnBackendDescriptor_t x = tensor(b, QN_DNN_X, p->x, false);
    cudnnBackendDescriptor_t w = tensor(b, QN_DNN_W, p->w, false);
    int step = 1;
    cudnnBackendDescriptor_t at = target(b, step, steps), to;

    (p->transposed ? backward : forward)(b, x, w, at);
    /* the order that the library's own fused kernels know */
    if (p->residual) {
        to = target(b, ++step, steps);
        pointwise(b, CUDNN_POINTWISE_ADD, at,
                  tensor(b, QN_DNN_RESIDUAL, p->y, false), to);
        at = to;
    }
    if (p->bias) {
        to = target(b, ++step, steps);
        pointwise(b, CUDNN_POINTWISE_ADD, at,
                  tensor(b, QN_DNN_BIAS, per_channel, false), to);
        at = to;
    }
    if (p->relu) {
        to = target(b, ++step, steps);
        pointwise(b, CUDNN_POINTWISE_RELU_FWD, at, NULL, to);
    }
    cudnnBackendDescriptor_t g =
        make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(b, g, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1,
        &b->dnn->handle);
    set(b, g, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        b->n_ops, b->ops);
    finish(b, g);
    return g;
}

/* ---- choosing ---- */

static bool allowed(const qn_cuda_dnn_conv *p,
                    const cudnnBackendNumericalNote_t *notes, int64_t n)
{
    const bool exact = p->dtype == QN_F32 && !p->tf32;
    for (int64_t i = 0; i < n; i++)
        switch (notes[i]) {
        case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
            return false;
        case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        case CUDNN_NUMERICAL_NOTE_FFT:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
            if (exact)
                return false;
            break;
        default:
            break;
        }
    return true;
}

/* *index: cuDNN's number for the engine, which the log names. */
static bool engine_allowed(const qn_cuda_dnn *dnn, const qn_cuda_dnn_conv *p,
                           cudnnBackendDescriptor_t config, int64_t *index)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine = NULL;
    int64_t n = 0;
    bool ok = false;
    if (dnn->new(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) !=
        CUDNN_STATUS_SUCCESS)
        return false;
    if (dnn->get(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) ==
            CUDNN_STATUS_SUCCESS &&
        dnn->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                 CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
                 notes) == CUDNN_STATUS_SUCCESS)
        ok = allowed(p, notes, n);
    if (!ok || dnn->get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                        CUDNN_TYPE_INT64, 1, &n,
                        index) != CUDNN_STATUS_SUCCESS)
        *index = -1;
    dnn->free(engine);
    return ok;
}

/* The plan of a configuration into p; false: not with this one. */
static bool try_config(const qn_cuda_dnn *dnn, cudnnBackendDescriptor_t config,
                       size_t limit, qn_cuda_dnn_plan *p)
{
    cudnnBackendDescriptor_t plan = NULL;
    int64_t bytes = 0, n = 0;
    p->tried++;
    if (!engine_allowed(dnn, &p->problem, config, &p->engine) ||
        dnn->new(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
            CUDNN_STATUS_SUCCESS)
        return false;
    if (dnn->set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                 &dnn->handle) == CUDNN_STATUS_SUCCESS &&
        dnn->set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) ==
            CUDNN_STATUS_SUCCESS &&
        dnn->finalize(plan) == CUDNN_STATUS_SUCCESS &&
        dnn->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                 CUDNN_TYPE_INT64, 1, &n, &bytes) == CUDNN_STATUS_SUCCESS &&
        bytes >= 0 && (uint64_t)bytes <= limit) {
        p->plan = plan;
        p->workspace = (size_t)bytes;
        return true;
    }
    dnn->free(plan);
    return false;
}

static cudnnStatus_t ask(const qn_cuda_dnn *dnn, cudnnBackendDescriptor_t g,
                         cudnnBackendHeurMode_t mode,
                         cudnnBackendDescriptor_t heur,
                         cudnnBackendDescriptor_t *configs, int64_t *n)
{
    *n = 0;
    cudnnStatus_t st = dnn->set(heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g);
    if (st == CUDNN_STATUS_SUCCESS)
        st = dnn->set(heur, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                      &mode);
    if (st == CUDNN_STATUS_SUCCESS)
        st = dnn->finalize(heur);
    if (st == CUDNN_STATUS_SUCCESS)
        st = dnn->get(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                      CUDNN_TYPE_BACKEND_DESCRIPTOR, ASKED, n, configs);
    if (*n > ASKED)
        *n = ASKED;
    return st;
}

/* The first good configuration of a mode; that the heuristic knows none is no
 * error. */
static void search(const qn_cuda_dnn *dnn, cudnnBackendDescriptor_t g,
                   cudnnBackendHeurMode_t mode, size_t limit,
                   qn_cuda_dnn_plan *p)
{
    cudnnBackendDescriptor_t heur = NULL, configs[ASKED] = { NULL };
    int64_t n = 0;
    int made = 0;
    if (dnn->new(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heur) !=
        CUDNN_STATUS_SUCCESS)
        return;
    while (made < ASKED && dnn->new(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                    &configs[made]) == CUDNN_STATUS_SUCCESS)
        made++;
    if (made == ASKED &&
        ask(dnn, g, mode, heur, configs, &n) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < n && !p->plan; i++)
            if (try_config(dnn, configs[i], limit, p)) {
                p->config = configs[i];
                configs[i] = NULL; /* p's now */
            }
    for (int i = 0; i < made; i++)
        if (configs[i])
            dnn->free(configs[i]);
    dnn->free(heur);
}

qn_status qn_cuda_dnn_build(qn_cuda_dnn *dnn, qn_cuda_dnn_plan *p, size_t limit,
                            qn_error *err)
{
    builder b = { .dnn = dnn, .p = &p->problem, .id = QN_DNN_VIRTUAL };
    qn_status st = QN_OK;
    cudnnBackendDescriptor_t g = graph(&b);
    if (b.st == CUDNN_STATUS_SUCCESS) {
        search(dnn, g, CUDNN_HEUR_MODE_A, limit, p);
        if (!p->plan)
            search(dnn, g, CUDNN_HEUR_MODE_FALLBACK, limit, p);
    } else if (b.st == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED) {
        st = qn_cuda_dnn_fail(dnn, b.st, "describing a convolution to cuDNN",
                              err);
    }
    /* any other failure: cuDNN does not want this problem */
    while (b.n_made)
        dnn->free(b.made[--b.n_made]);
    return st;
}
