/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the stand-in for cuDNN: its graph API, for convolutions.
 *
 *   dnn.c           handle, version, error texts
 *   dnn_desc.c      descriptors: attributes in tables, set, get, destroy
 *   dnn_finalize.c  what each kind of descriptor must hold to be finalized
 *   dnn_graph.c     an operation graph becomes one convolution and its steps
 *   dnn_engine.c    engines: which graphs they take, notes, workspaces, order
 *   dnn_execute.c   checks of one execution
 *   dnn_conv.c      arithmetic
 *
 * Tensors are N, C, spatial...; filters K, C / groups, spatial...; the order in
 * memory is in the strides, counted in elements. */
#ifndef QN_TESTS_CUDA_EMU_DNN_H
#define QN_TESTS_CUDA_EMU_DNN_H

#include <cuda.h>
#include <cudnn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_DNN_ATTRIBUTES 10
#define QN_DNN_SPATIAL    3

struct qn_dnn_slot {
    bool set;
    cudnnBackendAttributeType_t type;
    int64_t count;
    void *data; /* count elements of type; descriptors are counted references */
};

struct qn_dnn_desc;
struct qn_dnn_attribute {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type, other; /* other: also legal, or type */
    int64_t least, most;                     /* elements */
    enum { QN_DNN_REQUIRED, QN_DNN_OPTIONAL, QN_DNN_READ_ONLY } access;
    /* for CUDNN_TYPE_BACKEND_DESCRIPTOR; -1: several kinds, checked later */
    int kind;
};

struct qn_dnn_kind {
    cudnnBackendDescriptorType_t type;
    const char *name;
    const struct qn_dnn_attribute *attributes;
    size_t n_attributes;
    cudnnStatus_t (*finalize)(struct qn_dnn_desc *d);
};

/* What cudnnBackendDescriptor_t points to. */
struct qn_dnn_desc {
    uint64_t magic;
    const struct qn_dnn_kind *kind;
    bool finalized;
    atomic_int references; /* the client's, and those of other descriptors */
    struct qn_dnn_slot slots[QN_DNN_ATTRIBUTES]; /* as kind->attributes */
    void *derived; /* graph: struct qn_dnn_graph; else NULL; freed with it */
};

struct qn_dnn_tensor {
    int64_t uid, align;
    cudnnDataType_t type;
    int dims;
    int64_t dim[CUDNN_DIM_MAX], stride[CUDNN_DIM_MAX];
    bool is_virtual;
};

/* v = alpha1 * v + alpha2 * operand, or v = act(alpha1 * v) */
struct qn_dnn_step {
    cudnnPointwiseMode_t mode;
    double alpha1, alpha2;
    double lower, upper, slope, elu, softplus, swish;
    bool reads_bias, reads_z;
};

/* One convolution and the steps after it. Passed by value to the stream. */
struct qn_dnn_graph {
    bool backward; /* x is dY, y is dX */
    cudnnConvolutionMode_t mode;
    cudnnDataType_t compute;
    int spatial;
    int64_t pre[QN_DNN_SPATIAL], post[QN_DNN_SPATIAL];
    int64_t stride[QN_DNN_SPATIAL], dilation[QN_DNN_SPATIAL];
    int64_t groups;
    double alpha, beta;
    struct qn_dnn_tensor x, w, y, bias, z;
    bool has_bias, has_z;
    int n_steps;
    struct qn_dnn_step steps[3];
    bool fixed_pattern; /* [z] [bias] [ReLU or identity]: precompiled kernels */
    bool nchw, nhwc;    /* layouts that all tensors are in; both is possible */
    bool packed;
    cudnnStatus_t refused; /* by every engine; SUCCESS: engines decide */
};

enum qn_dnn_engine {
    QN_DNN_TENSOR_NHWC,  /* TF32 for floats */
    QN_DNN_TENSOR_NCHW,  /* the same after transposing into the workspace */
    QN_DNN_DOWN_CONVERT, /* floats are rounded to half first */
    QN_DNN_WINOGRAD,
    QN_DNN_ATOMICS, /* sums in any order */
    QN_DNN_DIRECT,  /* everything but free fusion; exact; no workspace */
    QN_DNN_FUSION,  /* compiled at run time; any chain of steps; TF32 */
    QN_DNN_ENGINES
};

/** The descriptor if p is one that lives; else reports it and gives NULL. */
struct qn_dnn_desc *qn_dnn_desc_of(cudnnBackendDescriptor_t p,
                                   const char *api);

/** Its slot for an attribute that the kind has; NULL where it has not. */
struct qn_dnn_slot *qn_dnn_slot_of(const struct qn_dnn_desc *d,
                                   cudnnBackendAttributeName_t name);

/** Elements set, 0 where not set. */
int64_t qn_dnn_count(const struct qn_dnn_desc *d,
                     cudnnBackendAttributeName_t name);

/** Element i of an attribute that is set (asserted). */
int64_t qn_dnn_int(const struct qn_dnn_desc *d,
                   cudnnBackendAttributeName_t name, int64_t i);
int qn_dnn_enum(const struct qn_dnn_desc *d, cudnnBackendAttributeName_t name);
struct qn_dnn_desc *qn_dnn_ref(const struct qn_dnn_desc *d,
                               cudnnBackendAttributeName_t name, int64_t i);
void *qn_dnn_pointer(const struct qn_dnn_desc *d,
                     cudnnBackendAttributeName_t name, int64_t i);

/** A float or double attribute; `otherwise` where not set. */
double qn_dnn_real(const struct qn_dnn_desc *d,
                   cudnnBackendAttributeName_t name, double otherwise);

/** Set an attribute from inside: no access check. 0 or INTERNAL_ERROR. */
cudnnStatus_t qn_dnn_put(struct qn_dnn_desc *d,
                         cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count,
                         const void *elements);

/** The kind for a descriptor type; NULL for one that is not emulated. */
const struct qn_dnn_kind *qn_dnn_kind_of(cudnnBackendDescriptorType_t type);

/* Finalizers, by kind: dnn_finalize.c, dnn_graph.c, dnn_engine.c. */
cudnnStatus_t qn_dnn_finalize_tensor(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_convolution(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_forward(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_backward(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_pointwise(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_op_pointwise(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_graph(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_engine(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_config(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_heuristic(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_plan(struct qn_dnn_desc *d);
cudnnStatus_t qn_dnn_finalize_pack(struct qn_dnn_desc *d);

/** Bytes of an element; 0 for a type that is not emulated. */
size_t qn_dnn_size(cudnnDataType_t type);

/** A finalized tensor descriptor, decoded. */
struct qn_dnn_tensor qn_dnn_tensor_of(const struct qn_dnn_desc *d);

/** Elements from the first to behind the last. */
int64_t qn_dnn_extent(const struct qn_dnn_tensor *t);

/** SUCCESS, or why the engine does not take the graph. */
cudnnStatus_t qn_dnn_engine_takes(const struct qn_dnn_graph *g, int engine);

/** Bytes of workspace of an engine that takes the graph. */
int64_t qn_dnn_workspace(const struct qn_dnn_graph *g, int engine);

/** Computed attributes of engines, configurations, heuristics and plans. */
cudnnStatus_t qn_dnn_get_computed(const struct qn_dnn_desc *d,
                                  cudnnBackendAttributeName_t name,
                                  int64_t requested, int64_t *count,
                                  void *out);

/** Whether h is a handle that lives. */
bool qn_dnn_handle_ok(cudnnHandle_t h);
/** For one call at a time; false, and a report, where two threads use it. */
bool qn_dnn_handle_enter(cudnnHandle_t h, const char *api);
void qn_dnn_handle_leave(cudnnHandle_t h);
/** Reports a handle whose context is not the calling thread's. */
void qn_dnn_handle_current(cudnnHandle_t h, const char *api);
CUstream qn_dnn_handle_stream(cudnnHandle_t h);

/** Sets the calling thread's last error text; returns status. */
__attribute__((format(printf, 2, 3))) cudnnStatus_t
qn_dnn_fail(cudnnStatus_t status, const char *format, ...);

/**
 * The convolution and its steps over memory, in order of reduction
 * (window, channel), accumulated in float (double where compute is double).
 * Element addresses are strides of the graph's tensors.
 *
 * Returns false where host memory is short.
 */
bool qn_dnn_convolve(const struct qn_dnn_graph *g, int engine, const char *x,
                     const char *w, const char *bias, const char *z, char *y);

#endif /* QN_TESTS_CUDA_EMU_DNN_H */
