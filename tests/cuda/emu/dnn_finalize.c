/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcudnn.so.9: what a descriptor must hold to be finalized.
 * That required attributes are set was checked before. */
#include "tests/cuda/emu/dnn.h"

#include <math.h>

size_t qn_dnn_size(cudnnDataType_t type)
{
    switch (type) {
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        return 2;
    case CUDNN_DATA_FLOAT:
        return 4;
    case CUDNN_DATA_DOUBLE:
        return 8;
    default:
        return 0;
    }
}

static bool flag(const struct qn_dnn_desc *d, cudnnBackendAttributeName_t name)
{
    const struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    return s->set && *(const unsigned char *)s->data;
}

struct qn_dnn_tensor qn_dnn_tensor_of(const struct qn_dnn_desc *d)
{
    struct qn_dnn_tensor t = {
        .uid = qn_dnn_int(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, 0),
        .align = qn_dnn_int(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0),
        .type = (cudnnDataType_t)qn_dnn_enum(d, CUDNN_ATTR_TENSOR_DATA_TYPE),
        .dims = (int)qn_dnn_count(d, CUDNN_ATTR_TENSOR_DIMENSIONS),
        .is_virtual = flag(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL),
    };
    for (int i = 0; i < t.dims; i++) {
        t.dim[i] = qn_dnn_int(d, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        t.stride[i] = qn_dnn_int(d, CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    return t;
}

int64_t qn_dnn_extent(const struct qn_dnn_tensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < t->dims; i++)
        last += (t->dim[i] - 1) * t->stride[i];
    return last + 1;
}

cudnnStatus_t qn_dnn_finalize_tensor(struct qn_dnn_desc *d)
{
    int64_t dims = qn_dnn_count(d, CUDNN_ATTR_TENSOR_DIMENSIONS);
    if (qn_dnn_count(d, CUDNN_ATTR_TENSOR_STRIDES) != dims)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "tensor: %lld dimensions, %lld strides",
                           (long long)dims,
                           (long long)qn_dnn_count(d,
                                                   CUDNN_ATTR_TENSOR_STRIDES));
    struct qn_dnn_tensor t = qn_dnn_tensor_of(d);
    int64_t extent = 1;
    for (int i = 0; i < t.dims; i++) {
        if (t.dim[i] <= 0 || t.stride[i] <= 0)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                               "tensor: dimension %d is %lld by stride %lld", i,
                               (long long)t.dim[i], (long long)t.stride[i]);
        int64_t step;
        if (__builtin_mul_overflow(t.dim[i] - 1, t.stride[i], &step) ||
            __builtin_add_overflow(extent, step, &extent) ||
            extent > INT64_MAX / 16)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor: too large");
    }
    size_t size = qn_dnn_size(t.type);
    if (t.align <= 0 || (t.align & (t.align - 1)) != 0 ||
        (size && t.align % (int64_t)size != 0))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "tensor: alignment %lld",
                           (long long)t.align);
    if (qn_dnn_count(d, CUDNN_ATTR_TENSOR_VECTOR_COUNT) &&
        qn_dnn_int(d, CUDNN_ATTR_TENSOR_VECTOR_COUNT, 0) != 1)
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "tensor: vectors are not emulated");
    if (flag(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE))
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "tensor: values in place of pointers");
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t qn_dnn_finalize_convolution(struct qn_dnn_desc *d)
{
    static const struct {
        cudnnBackendAttributeName_t name;
        int64_t least;
    } lists[] = { { CUDNN_ATTR_CONVOLUTION_DILATIONS, 1 },
                  { CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, 1 },
                  { CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, 0 },
                  { CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, 0 } };
    int64_t spatial = qn_dnn_int(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
    if (spatial < 1 || spatial > QN_DNN_SPATIAL)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "convolution: %lld spatial dimensions",
                           (long long)spatial);
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        int64_t n = qn_dnn_count(d, lists[l].name);
        if (n != spatial)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                               "convolution: attribute %d has %lld elements "
                               "for %lld spatial dimensions",
                               (int)lists[l].name, (long long)n,
                               (long long)spatial);
        for (int64_t i = 0; i < n; i++) {
            int64_t v = qn_dnn_int(d, lists[l].name, i);
            if (v < lists[l].least || v > INT32_MAX)
                return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                                   "convolution: attribute %d is %lld",
                                   (int)lists[l].name, (long long)v);
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

/* x, w and y of a convolution y = x * w must fit together. */
static cudnnStatus_t check_shapes(const struct qn_dnn_desc *conv,
                                  const struct qn_dnn_tensor *x,
                                  const struct qn_dnn_tensor *w,
                                  const struct qn_dnn_tensor *y)
{
    int spatial = (int)qn_dnn_int(conv, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
    if (x->dims != spatial + 2 || w->dims != spatial + 2 ||
        y->dims != spatial + 2)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                           "convolution: %d, %d and %d dimensions for %d "
                           "spatial ones",
                           x->dims, w->dims, y->dims, spatial);
    if (x->dim[1] % w->dim[1] != 0 ||
        w->dim[0] % (x->dim[1] / w->dim[1]) != 0 || y->dim[0] != x->dim[0] ||
        y->dim[1] != w->dim[0])
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                           "convolution: batch or channels differ");
    for (int i = 0; i < spatial; i++) {
        int64_t window =
            (w->dim[i + 2] - 1) *
                qn_dnn_int(conv, CUDNN_ATTR_CONVOLUTION_DILATIONS, i) +
            1;
        int64_t padded =
            x->dim[i + 2] +
            qn_dnn_int(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i) +
            qn_dnn_int(conv, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i);
        int64_t stride =
            qn_dnn_int(conv, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i);
        if (padded < window || y->dim[i + 2] != (padded - window) / stride + 1)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                               "convolution: spatial dimension %d of the "
                               "output is %lld",
                               i, (long long)y->dim[i + 2]);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Scales are doubles exactly where the data are. */
static bool scale_type_ok(const struct qn_dnn_desc *d,
                          cudnnBackendAttributeName_t name,
                          cudnnDataType_t data)
{
    const struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    return !s->set ||
           (s->type == CUDNN_TYPE_DOUBLE) == (data == CUDNN_DATA_DOUBLE);
}

static cudnnStatus_t finalize_operation(
    struct qn_dnn_desc *d, cudnnBackendAttributeName_t alpha,
    cudnnBackendAttributeName_t beta, cudnnBackendAttributeName_t conv,
    cudnnBackendAttributeName_t in, cudnnBackendAttributeName_t filter,
    cudnnBackendAttributeName_t out)
{
    struct qn_dnn_tensor x = qn_dnn_tensor_of(qn_dnn_ref(d, in, 0));
    struct qn_dnn_tensor w = qn_dnn_tensor_of(qn_dnn_ref(d, filter, 0));
    struct qn_dnn_tensor y = qn_dnn_tensor_of(qn_dnn_ref(d, out, 0));
    if (!scale_type_ok(d, alpha, x.type) || !scale_type_ok(d, beta, x.type))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                           "convolution: type of alpha or beta");
    if (x.uid == w.uid || x.uid == y.uid || w.uid == y.uid)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                           "convolution: two tensors with one unique id");
    return check_shapes(qn_dnn_ref(d, conv, 0), &x, &w, &y);
}

cudnnStatus_t qn_dnn_finalize_forward(struct qn_dnn_desc *d)
{
    return finalize_operation(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
}

cudnnStatus_t qn_dnn_finalize_backward(struct qn_dnn_desc *d)
{
    return finalize_operation(d,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY);
}

/* Modes with two inputs, with one, or (0) not emulated. */
static int inputs(cudnnPointwiseMode_t mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
    case CUDNN_POINTWISE_MUL:
        return 2;
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_RELU_FWD:
    case CUDNN_POINTWISE_TANH_FWD:
    case CUDNN_POINTWISE_SIGMOID_FWD:
    case CUDNN_POINTWISE_ELU_FWD:
    case CUDNN_POINTWISE_GELU_FWD:
    case CUDNN_POINTWISE_SOFTPLUS_FWD:
    case CUDNN_POINTWISE_SWISH_FWD:
    case CUDNN_POINTWISE_GELU_APPROX_TANH_FWD:
        return 1;
    default:
        return 0;
    }
}

cudnnStatus_t qn_dnn_finalize_pointwise(struct qn_dnn_desc *d)
{
    int mode = qn_dnn_enum(d, CUDNN_ATTR_POINTWISE_MODE);
    if (!inputs((cudnnPointwiseMode_t)mode))
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "pointwise mode %d is not emulated", mode);
    double lower = qn_dnn_real(d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0);
    double upper = qn_dnn_real(d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP,
                               (double)INFINITY);
    if (!(lower <= upper))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "pointwise: lower clip %g, upper clip %g", lower,
                           upper);
    return CUDNN_STATUS_SUCCESS;
}

/* b may have 1 where y has more. */
static bool broadcasts(const struct qn_dnn_tensor *b,
                       const struct qn_dnn_tensor *y)
{
    if (b->dims != y->dims)
        return false;
    for (int i = 0; i < y->dims; i++)
        if (b->dim[i] != y->dim[i] && b->dim[i] != 1)
            return false;
    return true;
}

cudnnStatus_t qn_dnn_finalize_op_pointwise(struct qn_dnn_desc *d)
{
    const struct qn_dnn_desc *pw =
        qn_dnn_ref(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, 0);
    int n = inputs(
        (cudnnPointwiseMode_t)qn_dnn_enum(pw, CUDNN_ATTR_POINTWISE_MODE));
    int64_t has_b = qn_dnn_count(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    if (n != 1 + (int)has_b)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "pointwise: mode has %d inputs, %lld given", n,
                           (long long)has_b + 1);
    struct qn_dnn_tensor x = qn_dnn_tensor_of(
        qn_dnn_ref(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, 0));
    struct qn_dnn_tensor y = qn_dnn_tensor_of(
        qn_dnn_ref(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, 0));
    if (!broadcasts(&x, &y))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                           "pointwise: X does not broadcast to Y");
    if (has_b) {
        struct qn_dnn_tensor b = qn_dnn_tensor_of(
            qn_dnn_ref(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, 0));
        if (!broadcasts(&b, &y))
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                               "pointwise: B does not broadcast to Y");
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t qn_dnn_finalize_pack(struct qn_dnn_desc *d)
{
    int64_t n = qn_dnn_count(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    if (qn_dnn_count(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS) != n)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "variant pack: as many pointers as unique ids");
    for (int64_t i = 0; i < n; i++) {
        if (!qn_dnn_pointer(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i))
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                               "variant pack: pointer %lld is NULL",
                               (long long)i);
        for (int64_t j = 0; j < i; j++)
            if (qn_dnn_int(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) ==
                qn_dnn_int(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, j))
                return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                                   "variant pack: unique id %lld twice",
                                   (long long)qn_dnn_int(
                                       d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                       i));
    }
    return CUDNN_STATUS_SUCCESS;
}
