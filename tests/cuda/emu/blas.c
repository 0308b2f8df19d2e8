/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libcublasLt.so.13: the handle. */
#include "tests/cuda/emu/blas.h"
#include "tests/cuda/emu/emu.h"

#include <stdatomic.h>
#include <stdlib.h>

/* No context is made current by this library, unlike the real one, which
 * would quietly take the primary context of device 0: the client uses several
 * devices and must say which. */
struct cublasLtContext {
    _Atomic uint64_t magic;
    CUcontext context;
    CUdeviceptr memory; /* as the real one takes some */
};
enum { HANDLE_BYTES = 64 << 10 };
#define HANDLE 0x71626c68616e646cull

bool qn_blas_handle_ok(cublasLtHandle_t h)
{
    return h && atomic_load(&h->magic) == HANDLE;
}

void qn_blas_handle_current(cublasLtHandle_t h, const char *api)
{
    CUcontext context = NULL;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != h->context)
        qn_emu_report("%s: the current context is not that of the handle", api);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    int fail = qn_emu_fail("cublasLtCreate");
    if (fail)
        return (cublasStatus_t)fail;
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = NULL;
    CUcontext context = NULL;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!context) {
        qn_emu_report("cublasLtCreate: no current context");
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    cublasLtHandle_t h = calloc(1, sizeof *h);
    if (!h)
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (cuMemAlloc(&h->memory, HANDLE_BYTES) != CUDA_SUCCESS) {
        free(h);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    h->context = context;
    atomic_init(&h->magic, HANDLE);
    *out = h;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    (void)qn_emu_fail("cublasLtDestroy");
    if (!qn_blas_handle_ok(h))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    qn_blas_handle_current(h, "cublasLtDestroy");
    (void)cuMemFree(h->memory);
    atomic_store(&h->magic, 0);
    free(h);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDA_VERSION;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value)
{
    static const int parts[] = { CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR,
                                 CUBLAS_VER_PATCH };
    if (!value || (unsigned)type >= sizeof parts / sizeof parts[0])
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = parts[type];
    return CUBLAS_STATUS_SUCCESS;
}

/* The cache only saves time; any capacity gives the same answers. */
static _Atomic size_t capacity = 8192;

cublasStatus_t cublasLtHeuristicsCacheGetCapacity(size_t *out)
{
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = atomic_load(&capacity);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtHeuristicsCacheSetCapacity(size_t entries)
{
    atomic_store(&capacity, entries);
    return CUBLAS_STATUS_SUCCESS;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} names[] = {
    { CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success" },
    { CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED",
      "the library was not initialized" },
    { CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED",
      "the resource allocation failed" },
    { CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
      "an invalid value was used as an argument" },
    { CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
      "an absent device architectural feature is required" },
    { CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR",
      "an access to GPU memory space failed" },
    { CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED",
      "the function failed to launch on the GPU" },
    { CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR",
      "an internal operation failed" },
    { CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
      "the functionality is not supported" },
    { CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR",
      "the license is missing or invalid" },
};

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].status == status)
            return names[i].name;
    return "CUBLAS_STATUS_UNKNOWN";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].status == status)
            return names[i].text;
    return "unknown status";
}
