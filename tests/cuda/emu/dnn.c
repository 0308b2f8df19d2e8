/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcudnn.so.9: handle, version, error texts. */
#include "tests/cuda/emu/dnn.h"
#include "tests/cuda/emu/emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLE 0x71646e6e68616e64ull

struct cudnnContext {
    _Atomic uint64_t magic;
    atomic_bool busy;
    CUcontext context;
    CUdeviceptr memory; /* as the real one takes some */
    CUstream stream;
};
enum { HANDLE_BYTES = 64 << 10 };

static _Thread_local char last_error[512];

cudnnStatus_t qn_dnn_fail(cudnnStatus_t status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

bool qn_dnn_handle_ok(cudnnHandle_t h)
{
    return h && atomic_load(&h->magic) == HANDLE;
}

/* "cuDNN handles are not for several threads at a time" is a rule that real
 * hardware punishes rarely and never reports. */
bool qn_dnn_handle_enter(cudnnHandle_t h, const char *api)
{
    if (!atomic_exchange(&h->busy, true))
        return true;
    qn_emu_report("%s: the handle is in use by another thread", api);
    return false;
}

void qn_dnn_handle_leave(cudnnHandle_t h)
{
    atomic_store(&h->busy, false);
}

void qn_dnn_handle_current(cudnnHandle_t h, const char *api)
{
    CUcontext context = NULL;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != h->context)
        qn_emu_report("%s: the current context is not that of the handle", api);
}

CUstream qn_dnn_handle_stream(cudnnHandle_t h)
{
    return h->stream;
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    int fail = qn_emu_fail("cudnnCreate");
    if (fail)
        return qn_dnn_fail((cudnnStatus_t)fail, "cudnnCreate: injected");
    if (!out)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                           "cudnnCreate: handle is NULL");
    *out = NULL;
    CUcontext context = NULL;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return qn_dnn_fail(CUDNN_STATUS_NOT_INITIALIZED,
                           "cudnnCreate: no driver");
    if (!context) { /* the real one would take device 0 and say nothing */
        qn_emu_report("cudnnCreate: no current context");
        return qn_dnn_fail(CUDNN_STATUS_NOT_INITIALIZED,
                           "cudnnCreate: no current context");
    }
    cudnnHandle_t h = calloc(1, sizeof *h);
    if (!h)
        return qn_dnn_fail(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                           "cudnnCreate: no memory");
    if (cuMemAlloc(&h->memory, HANDLE_BYTES) != CUDA_SUCCESS) {
        free(h);
        return qn_dnn_fail(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                           "cudnnCreate: no device memory");
    }
    h->context = context;
    atomic_init(&h->magic, HANDLE);
    *out = h;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
    (void)qn_emu_fail("cudnnDestroy");
    if (!qn_dnn_handle_ok(h))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "cudnnDestroy: no handle");
    if (!qn_dnn_handle_enter(h, "cudnnDestroy"))
        return CUDNN_STATUS_BAD_PARAM;
    qn_dnn_handle_current(h, "cudnnDestroy");
    (void)cuMemFree(h->memory);
    atomic_store(&h->magic, 0);
    free(h);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t stream)
{
    int fail = qn_emu_fail("cudnnSetStream");
    if (fail)
        return qn_dnn_fail((cudnnStatus_t)fail, "cudnnSetStream: injected");
    if (!qn_dnn_handle_ok(h))
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "cudnnSetStream: no handle");
    if (!qn_dnn_handle_enter(h, "cudnnSetStream"))
        return CUDNN_STATUS_BAD_PARAM;
    CUcontext context = h->context;
    cudnnStatus_t st = CUDNN_STATUS_SUCCESS;
    if (stream && (cuStreamGetCtx(stream, &context) != CUDA_SUCCESS ||
                   context != h->context))
        st = qn_dnn_fail(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH,
                         "cudnnSetStream: the stream is of another context");
    else
        h->stream = stream;
    qn_dnn_handle_leave(h);
    return st;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t h, cudaStream_t *out)
{
    if (!qn_dnn_handle_ok(h) || !out)
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "cudnnGetStream: no handle");
    *out = h->stream;
    return CUDNN_STATUS_SUCCESS;
}

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

size_t cudnnGetCudartVersion(void)
{
    return CUDA_VERSION;
}

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int *value)
{
    static const int parts[] = { CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL };
    if (!value || (unsigned)type >= sizeof parts / sizeof parts[0])
        return qn_dnn_fail(CUDNN_STATUS_BAD_PARAM, "cudnnGetProperty: %d",
                           (int)type);
    *value = parts[type];
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGraphVersionCheck(void)
{
    return CUDNN_STATUS_SUCCESS;
}

#define NAME(status)                                                           \
    {                                                                          \
        status, #status                                                        \
    }
static const struct {
    cudnnStatus_t status;
    const char *name;
} names[] = {
    NAME(CUDNN_STATUS_SUCCESS),
    NAME(CUDNN_STATUS_NOT_INITIALIZED),
    NAME(CUDNN_STATUS_BAD_PARAM),
    NAME(CUDNN_STATUS_BAD_PARAM_NULL_POINTER),
    NAME(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER),
    NAME(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED),
    NAME(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND),
    NAME(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT),
    NAME(CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH),
    NAME(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH),
    NAME(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES),
    NAME(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE),
    NAME(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE),
    NAME(CUDNN_STATUS_NOT_SUPPORTED),
    NAME(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN),
    NAME(CUDNN_STATUS_NOT_SUPPORTED_SHAPE),
    NAME(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE),
    NAME(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT),
    NAME(CUDNN_STATUS_NOT_SUPPORTED_PADDING),
    NAME(CUDNN_STATUS_INTERNAL_ERROR),
    NAME(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED),
    NAME(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED),
    NAME(CUDNN_STATUS_EXECUTION_FAILED),
};

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].status == status)
            return names[i].name;
    return "CUDNN_UNKNOWN_STATUS";
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    if (!message || max_size == 0)
        return;
    snprintf(message, max_size, "%s", last_error);
    last_error[0] = 0;
}
