/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcudnn.so.9: descriptors.
 *
 * The tables follow NVIDIA's manual of the graph API: type and number of
 * elements of each attribute, which must be set, which can only be read. */
#include "tests/cuda/emu/dnn.h"
#include "tests/cuda/emu/emu.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC 0x71646e6e64657363ull
#define MANY  64

#define REF CUDNN_TYPE_BACKEND_DESCRIPTOR
#define I64 CUDNN_TYPE_INT64
#define TENSOR (int)CUDNN_BACKEND_TENSOR_DESCRIPTOR
#define ONE(name, type, access)                                                \
    {                                                                          \
        name, type, type, 1, 1, access, -1                                     \
    }
#define LIST(name, type, most, access)                                         \
    {                                                                          \
        name, type, type, 1, most, access, -1                                  \
    }
#define REAL(name, access)                                                     \
    {                                                                          \
        name, CUDNN_TYPE_FLOAT, CUDNN_TYPE_DOUBLE, 1, 1, access, -1            \
    }
#define LINK(name, kind, access)                                               \
    {                                                                          \
        name, REF, REF, 1, 1, access, kind                                     \
    }

static const struct qn_dnn_attribute tensor[] = {
    ONE(CUDNN_ATTR_TENSOR_UNIQUE_ID, I64, QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, I64, QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_TENSOR_DIMENSIONS, I64, CUDNN_DIM_MAX, QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_TENSOR_STRIDES, I64, CUDNN_DIM_MAX, QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_TENSOR_VECTOR_COUNT, I64, QN_DNN_OPTIONAL),
    ONE(CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, I64, QN_DNN_OPTIONAL),
    ONE(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, QN_DNN_OPTIONAL),
    ONE(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, QN_DNN_OPTIONAL),
};

static const struct qn_dnn_attribute convolution[] = {
    ONE(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
        QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
        QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_CONVOLUTION_DILATIONS, I64, CUDNN_DIM_MAX - 2,
         QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, I64, CUDNN_DIM_MAX - 2,
         QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, I64, CUDNN_DIM_MAX - 2,
         QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, I64, CUDNN_DIM_MAX - 2,
         QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, I64, QN_DNN_REQUIRED),
};

static const struct qn_dnn_attribute forward[] = {
    REAL(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, QN_DNN_REQUIRED),
    REAL(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, TENSOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, TENSOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, TENSOR, QN_DNN_REQUIRED),
};

static const struct qn_dnn_attribute backward[] = {
    REAL(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, QN_DNN_REQUIRED),
    REAL(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, TENSOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, TENSOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, TENSOR, QN_DNN_REQUIRED),
};

static const struct qn_dnn_attribute pointwise[] = {
    ONE(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, QN_DNN_REQUIRED),
    REAL(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, QN_DNN_OPTIONAL),
    REAL(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, QN_DNN_OPTIONAL),
    REAL(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, QN_DNN_OPTIONAL),
    REAL(CUDNN_ATTR_POINTWISE_ELU_ALPHA, QN_DNN_OPTIONAL),
    REAL(CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, QN_DNN_OPTIONAL),
    REAL(CUDNN_ATTR_POINTWISE_SWISH_BETA, QN_DNN_OPTIONAL),
};

static const struct qn_dnn_attribute op_pointwise[] = {
    LINK(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
         CUDNN_BACKEND_POINTWISE_DESCRIPTOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, TENSOR, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, TENSOR, QN_DNN_OPTIONAL),
    LINK(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, TENSOR, QN_DNN_REQUIRED),
    REAL(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, QN_DNN_OPTIONAL),
    REAL(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, QN_DNN_OPTIONAL),
};

static const struct qn_dnn_attribute graph[] = {
    ONE(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_OPERATIONGRAPH_OPS, REF, MANY, QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, I64, QN_DNN_READ_ONLY),
};

static const struct qn_dnn_attribute engine[] = {
    LINK(CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
         CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, I64, QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, MANY,
         QN_DNN_READ_ONLY),
    LIST(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, MANY,
         QN_DNN_READ_ONLY),
    LIST(CUDNN_ATTR_ENGINE_KNOB_INFO, REF, MANY, QN_DNN_READ_ONLY),
};

static const struct qn_dnn_attribute config[] = {
    LINK(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR,
         QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, I64, QN_DNN_READ_ONLY),
};

static const struct qn_dnn_attribute heuristic[] = {
    ONE(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
         CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_ENGINEHEUR_RESULTS, REF, MANY, QN_DNN_READ_ONLY),
};

static const struct qn_dnn_attribute plan[] = {
    ONE(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, QN_DNN_REQUIRED),
    LINK(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
         CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, I64, QN_DNN_READ_ONLY),
};

static const struct qn_dnn_attribute pack[] = {
    LIST(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, I64, MANY, QN_DNN_REQUIRED),
    LIST(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, MANY,
         QN_DNN_REQUIRED),
    ONE(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
        QN_DNN_REQUIRED),
};

#define KIND(type, rows, finalize)                                             \
    {                                                                          \
        type, #type, rows, sizeof(rows) / sizeof(rows)[0], finalize            \
    }
static const struct qn_dnn_kind kinds[] = {
    KIND(CUDNN_BACKEND_TENSOR_DESCRIPTOR, tensor, qn_dnn_finalize_tensor),
    KIND(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, convolution,
         qn_dnn_finalize_convolution),
    KIND(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, forward,
         qn_dnn_finalize_forward),
    KIND(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, backward,
         qn_dnn_finalize_backward),
    KIND(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, pointwise,
         qn_dnn_finalize_pointwise),
    KIND(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, op_pointwise,
         qn_dnn_finalize_op_pointwise),
    KIND(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, graph, qn_dnn_finalize_graph),
    KIND(CUDNN_BACKEND_ENGINE_DESCRIPTOR, engine, qn_dnn_finalize_engine),
    KIND(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, config, qn_dnn_finalize_config),
    KIND(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, heuristic,
         qn_dnn_finalize_heuristic),
    KIND(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan, qn_dnn_finalize_plan),
    KIND(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack, qn_dnn_finalize_pack),
};

const struct qn_dnn_kind *qn_dnn_kind_of(cudnnBackendDescriptorType_t type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].type == type)
            return &kinds[i];
    return NULL;
}

/* Bytes of an element in the arrays of the API. */
static size_t element(cudnnBackendAttributeType_t type)
{
    switch (type) {
    case CUDNN_TYPE_BOOLEAN:
        return sizeof(bool);
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
        return 8;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case REF:
        return sizeof(void *);
    default: /* floats and enumerations */
        return 4;
    }
}

struct qn_dnn_desc *qn_dnn_desc_of(cudnnBackendDescriptor_t p, const char *api)
{
    struct qn_dnn_desc *d = p;
    if (d && d->magic == MAGIC)
        return d;
    if (d)
        qn_emu_report("%s: %p is no descriptor, or is destroyed", api, p);
    return NULL;
}

struct qn_dnn_slot *qn_dnn_slot_of(const struct qn_dnn_desc *d,
                                   cudnnBackendAttributeName_t name)
{
    for (size_t i = 0; i < d->kind->n_attributes; i++)
        if (d->kind->attributes[i].name == name)
            return (struct qn_dnn_slot *)&d->slots[i];
    return NULL;
}

int64_t qn_dnn_count(const struct qn_dnn_desc *d,
                     cudnnBackendAttributeName_t name)
{
    const struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    return s && s->set ? s->count : 0;
}

static const void *at(const struct qn_dnn_desc *d,
                      cudnnBackendAttributeName_t name, int64_t i)
{
    const struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    assert(s && s->set && i < s->count);
    return (const char *)s->data + (size_t)i * element(s->type);
}

int64_t qn_dnn_int(const struct qn_dnn_desc *d,
                   cudnnBackendAttributeName_t name, int64_t i)
{
    return *(const int64_t *)at(d, name, i);
}

int qn_dnn_enum(const struct qn_dnn_desc *d, cudnnBackendAttributeName_t name)
{
    return *(const int *)at(d, name, 0);
}

void *qn_dnn_pointer(const struct qn_dnn_desc *d,
                     cudnnBackendAttributeName_t name, int64_t i)
{
    return *(void *const *)at(d, name, i);
}

struct qn_dnn_desc *qn_dnn_ref(const struct qn_dnn_desc *d,
                               cudnnBackendAttributeName_t name, int64_t i)
{
    return qn_dnn_pointer(d, name, i);
}

double qn_dnn_real(const struct qn_dnn_desc *d,
                   cudnnBackendAttributeName_t name, double otherwise)
{
    const struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    if (!s || !s->set)
        return otherwise;
    return s->type == CUDNN_TYPE_DOUBLE ? *(const double *)s->data
                                        : (double)*(const float *)s->data;
}

static void release(struct qn_dnn_desc *d)
{
    if (!d || atomic_fetch_sub(&d->references, 1) != 1)
        return;
    for (size_t i = 0; i < d->kind->n_attributes; i++) {
        struct qn_dnn_slot *s = &d->slots[i];
        if (s->set && s->type == REF)
            for (int64_t j = 0; j < s->count; j++)
                release(((struct qn_dnn_desc **)s->data)[j]);
        free(s->data);
    }
    free(d->derived);
    d->magic = 0;
    free(d);
}

cudnnStatus_t qn_dnn_put(struct qn_dnn_desc *d,
                         cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count,
                         const void *elements)
{
    struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    size_t bytes = (size_t)count * element(type);
    void *copy = malloc(bytes);
    if (!copy)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    memcpy(copy, elements, bytes);
    if (type == REF)
        for (int64_t i = 0; i < count; i++)
            atomic_fetch_add(&((struct qn_dnn_desc **)copy)[i]->references, 1);
    if (s->set && s->type == REF)
        for (int64_t i = 0; i < s->count; i++)
            release(((struct qn_dnn_desc **)s->data)[i]);
    free(s->data);
    *s = (struct qn_dnn_slot){ true, type, count, copy };
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    int fail = qn_emu_fail("cudnnBackendCreateDescriptor");
    if (fail)
        return qn_dnn_fail((cudnnStatus_t)fail, "injected");
    if (!out)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "cudnnBackendCreateDescriptor: out is NULL");
    *out = NULL;
    const struct qn_dnn_kind *kind = qn_dnn_kind_of(type);
    if (!kind)
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "descriptor type %d is not emulated", (int)type);
    struct qn_dnn_desc *d = calloc(1, sizeof *d);
    if (!d)
        return qn_dnn_fail(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                           "no memory");
    d->magic = MAGIC;
    d->kind = kind;
    atomic_init(&d->references, 1);
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t p)
{
    (void)qn_emu_fail("cudnnBackendDestroyDescriptor");
    struct qn_dnn_desc *d =
        qn_dnn_desc_of(p, "cudnnBackendDestroyDescriptor");
    if (!d)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "cudnnBackendDestroyDescriptor: no descriptor");
    release(d);
    return CUDNN_STATUS_SUCCESS;
}

/* Values of enumerations that no version knows. */
static bool known(cudnnBackendAttributeType_t type, const void *value)
{
    int v;
    switch (type) {
    case CUDNN_TYPE_DATA_TYPE:
        memcpy(&v, value, sizeof v);
        return v >= CUDNN_DATA_FLOAT && v <= CUDNN_DATA_COMPLEX_FP64;
    case CUDNN_TYPE_CONVOLUTION_MODE:
        memcpy(&v, value, sizeof v);
        return v == CUDNN_CONVOLUTION || v == CUDNN_CROSS_CORRELATION;
    case CUDNN_TYPE_HEUR_MODE:
        memcpy(&v, value, sizeof v);
        return v >= 0 && v < CUDNN_HEUR_MODES_COUNT;
    case CUDNN_TYPE_POINTWISE_MODE:
        memcpy(&v, value, sizeof v);
        return v >= 0 && v <= CUDNN_POINTWISE_BINARY_SELECT;
    case CUDNN_TYPE_BOOLEAN:
        return *(const unsigned char *)value <= 1;
    default:
        return true;
    }
}

static cudnnStatus_t check_elements(const struct qn_dnn_attribute *a,
                                    cudnnBackendAttributeType_t type,
                                    int64_t count, const void *elements)
{
    for (int64_t i = 0; i < count; i++) {
        const char *e = (const char *)elements + (size_t)i * element(type);
        if (!known(type, e))
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                               "attribute %d: no such value", (int)a->name);
        if (type == CUDNN_TYPE_HANDLE &&
            !qn_dnn_handle_ok(*(cudnnHandle_t const *)(const void *)e))
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                               "attribute %d: no handle", (int)a->name);
        if (type != REF)
            continue;
        struct qn_dnn_desc *d = qn_dnn_desc_of(
            *(cudnnBackendDescriptor_t const *)(const void *)e,
            "cudnnBackendSetAttribute");
        if (!d)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                               "attribute %d: element %lld is no descriptor",
                               (int)a->name, (long long)i);
        if (a->kind >= 0 && (int)d->kind->type != a->kind)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                               "attribute %d: %s", (int)a->name, d->kind->name);
        if (!d->finalized)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                               "attribute %d: %s is not finalized",
                               (int)a->name, d->kind->name);
    }
    return CUDNN_STATUS_SUCCESS;
}

static const struct qn_dnn_attribute *
attribute_of(const struct qn_dnn_desc *d, cudnnBackendAttributeName_t name)
{
    const struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    return s ? &d->kind->attributes[s - d->slots] : NULL;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t p,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t count, const void *elements)
{
    int fail = qn_emu_fail("cudnnBackendSetAttribute");
    if (fail)
        return qn_dnn_fail((cudnnStatus_t)fail, "injected");
    struct qn_dnn_desc *d = qn_dnn_desc_of(p, "cudnnBackendSetAttribute");
    if (!d)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "cudnnBackendSetAttribute: no descriptor");
    if (d->finalized)
        return qn_dnn_fail(CUDNN_STATUS_NOT_INITIALIZED,
                           "%s is finalized already", d->kind->name);
    const struct qn_dnn_attribute *a = attribute_of(d, name);
    if (!a)
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "%s: attribute %d is not emulated", d->kind->name,
                           (int)name);
    if (a->access == QN_DNN_READ_ONLY)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "%s: attribute %d is only read", d->kind->name,
                           (int)name);
    if (type != a->type && type != a->other)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                           "%s: attribute %d is of type %d, not %d",
                           d->kind->name, (int)name, (int)a->type, (int)type);
    if (count < a->least || count > a->most)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND,
                           "%s: attribute %d with %lld elements",
                           d->kind->name, (int)name, (long long)count);
    if (!elements)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "%s: attribute %d from NULL", d->kind->name,
                           (int)name);
    cudnnStatus_t st = check_elements(a, type, count, elements);
    return st == CUDNN_STATUS_SUCCESS ? qn_dnn_put(d, name, type, count, elements)
                                      : st;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const p,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type,
                                       int64_t requested, int64_t *count,
                                       void *elements)
{
    int fail = qn_emu_fail("cudnnBackendGetAttribute");
    if (fail)
        return qn_dnn_fail((cudnnStatus_t)fail, "injected");
    const struct qn_dnn_desc *d =
        qn_dnn_desc_of(p, "cudnnBackendGetAttribute");
    if (!d)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "cudnnBackendGetAttribute: no descriptor");
    if (!d->finalized)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                           "%s is not finalized", d->kind->name);
    const struct qn_dnn_attribute *a = attribute_of(d, name);
    if (!a)
        return qn_dnn_fail(CUDNN_STATUS_NOT_SUPPORTED,
                           "%s: attribute %d is not emulated", d->kind->name,
                           (int)name);
    const struct qn_dnn_slot *s = qn_dnn_slot_of(d, name);
    if (type != (s->set ? s->type : a->type))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
                           "%s: attribute %d is of type %d, not %d",
                           d->kind->name, (int)name, (int)a->type, (int)type);
    if (requested < 0 || (requested > 0 && !elements) ||
        (requested == 0 && !count))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "%s: attribute %d to NULL", d->kind->name,
                           (int)name);
    if (a->access == QN_DNN_READ_ONLY || type == REF) {
        int64_t n = 0;
        cudnnStatus_t st =
            qn_dnn_get_computed(d, name, requested, &n, elements);
        if (st == CUDNN_STATUS_SUCCESS && count)
            *count = n;
        return st;
    }
    if (!s->set)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                           "%s: attribute %d was never set", d->kind->name,
                           (int)name);
    int64_t n = requested < s->count ? requested : s->count;
    if (n > 0)
        memcpy(elements, s->data, (size_t)n * element(type));
    if (count)
        *count = s->count;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t p)
{
    int fail = qn_emu_fail("cudnnBackendFinalize");
    if (fail)
        return qn_dnn_fail((cudnnStatus_t)fail, "injected");
    struct qn_dnn_desc *d = qn_dnn_desc_of(p, "cudnnBackendFinalize");
    if (!d)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "cudnnBackendFinalize: no descriptor");
    if (d->finalized)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "%s is finalized already",
                           d->kind->name);
    for (size_t i = 0; i < d->kind->n_attributes; i++)
        if (d->kind->attributes[i].access == QN_DNN_REQUIRED &&
            !d->slots[i].set)
            return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM,
                               "%s: attribute %d is required", d->kind->name,
                               (int)d->kind->attributes[i].name);
    cudnnStatus_t st = d->kind->finalize(d);
    d->finalized = st == CUDNN_STATUS_SUCCESS;
    return st;
}
