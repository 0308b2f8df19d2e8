/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN's functions and what the device keeps of it: dnn.c opens and runs,
 * dnn_plan.c builds. */
#ifndef QN_CUDA_DNN_INTERNAL_H
#define QN_CUDA_DNN_INTERNAL_H

#include "runtime/cuda/dnn.h"
#include "runtime/cuda/libs.h"

#include <cudnn_graph.h>

#define QN_CUDA_DNN_LIST(X)                                                    \
    X(version, cudnnGetVersion)                                                \
    X(text, cudnnGetErrorString)                                               \
    X(handle_new, cudnnCreate)                                                 \
    X(handle_free, cudnnDestroy)                                               \
    X(set_stream, cudnnSetStream)                                              \
    X(new, cudnnBackendCreateDescriptor)                                       \
    X(free, cudnnBackendDestroyDescriptor)                                     \
    X(set, cudnnBackendSetAttribute)                                           \
    X(get, cudnnBackendGetAttribute)                                           \
    X(finalize, cudnnBackendFinalize)                                          \
    X(execute, cudnnBackendExecute)

struct qn_cuda_dnn_plan {
    qn_cuda_dnn_conv problem;
    cudnnBackendDescriptor_t config, plan; /* NULL: there is no engine */
    size_t workspace;
    int64_t engine, tried; /* cuDNN's number; configurations looked at */
    pthread_mutex_t lock;  /* execution */
    struct qn_cuda_dnn_plan *next;
};

typedef struct qn_cuda_dnn {
    void *library;
#define QN_CUDA_DNN_FIELD(field, function) __typeof__(&function) field;
    QN_CUDA_DNN_LIST(QN_CUDA_DNN_FIELD)
#undef QN_CUDA_DNN_FIELD
    /* of building, guards what follows; held while a plan is built */
    pthread_mutex_t lock;
    cudnnHandle_t handle;
    qn_cuda_dnn_plan *plans; /* newest first; never removed */
    unsigned n_plans;
} qn_cuda_dnn;

/* Unique ids of a graph's tensors. */
enum {
    QN_DNN_X = 1, QN_DNN_W, QN_DNN_Y, QN_DNN_BIAS, QN_DNN_RESIDUAL,
    QN_DNN_VIRTUAL /* and up */
};

/* QN_NO_MEMORY or QN_DEVICE: "<what>: <cuDNN's text>". */
qn_status qn_cuda_dnn_fail(const qn_cuda_dnn *dnn, cudnnStatus_t st,
                           const char *what, qn_error *err);

/* Builds p->config and p->plan for p->problem; both stay NULL where no engine
 * will do. `limit`: bytes of workspace. Under dnn->lock. */
QN_NODISCARD qn_status qn_cuda_dnn_build(qn_cuda_dnn *dnn, qn_cuda_dnn_plan *p,
                                         size_t limit, qn_error *err);

#endif
