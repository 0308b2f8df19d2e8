/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcuda.so.1 behind a table of typed pointers.
 *
 * Opened by name, so that nothing of CUDA is needed to start. cuda.h renames
 * most functions by macro (cuMemFree is cuMemFree_v2); the table takes each
 * function's type and its name in the library from what the macro gives, so the
 * two cannot differ. A build against the emulation of tests/cuda differs in
 * nothing: that library has the same name.
 */
#ifndef QN_CUDA_DRIVER_H
#define QN_CUDA_DRIVER_H

#include "runtime/base/status.h"

#include <cuda.h>

/* field, function as cuda.h calls it */
#define QN_CUDA_DRIVER_LIST(X)                                                 \
    X(init, cuInit)                                                            \
    X(driver_version, cuDriverGetVersion)                                      \
    X(error_name, cuGetErrorName)                                              \
    X(error_text, cuGetErrorString)                                            \
    X(device_count, cuDeviceGetCount)                                          \
    X(device_get, cuDeviceGet)                                                 \
    X(device_name, cuDeviceGetName)                                            \
    X(device_attribute, cuDeviceGetAttribute)                                  \
    X(device_memory, cuDeviceTotalMem)                                         \
    X(primary_flags, cuDevicePrimaryCtxSetFlags)                               \
    X(primary_retain, cuDevicePrimaryCtxRetain)                                \
    X(primary_release, cuDevicePrimaryCtxRelease)                              \
    X(context_set, cuCtxSetCurrent)                                            \
    X(stream_priorities, cuCtxGetStreamPriorityRange)                          \
    X(mem_info, cuMemGetInfo)                                                  \
    X(mem_alloc, cuMemAlloc)                                                   \
    X(mem_free, cuMemFree)                                                     \
    X(host_alloc, cuMemHostAlloc)                                              \
    X(host_free, cuMemFreeHost)                                                \
    X(address_reserve, cuMemAddressReserve)                                    \
    X(address_free, cuMemAddressFree)                                          \
    X(granularity, cuMemGetAllocationGranularity)                              \
    X(handle_create, cuMemCreate)                                              \
    X(handle_release, cuMemRelease)                                            \
    X(handle_map, cuMemMap)                                                    \
    X(handle_unmap, cuMemUnmap)                                                \
    X(access_set, cuMemSetAccess)                                              \
    X(copy_to_device, cuMemcpyHtoDAsync)                                       \
    X(copy_from_device, cuMemcpyDtoHAsync)                                     \
    X(copy_on_device, cuMemcpyDtoDAsync)                                       \
    X(copy_peer, cuMemcpyPeerAsync)                                            \
    X(fill8, cuMemsetD8Async)                                                  \
    X(stream_new, cuStreamCreateWithPriority)                                  \
    X(stream_free, cuStreamDestroy)                                            \
    X(stream_sync, cuStreamSynchronize)                                        \
    X(stream_query, cuStreamQuery)                                             \
    X(stream_wait, cuStreamWaitEvent)                                          \
    X(event_new, cuEventCreate)                                                \
    X(event_free, cuEventDestroy)                                              \
    X(event_record, cuEventRecord)                                             \
    X(event_query, cuEventQuery)                                               \
    X(event_sync, cuEventSynchronize)                                          \
    X(module_load, cuModuleLoadData)                                           \
    X(module_unload, cuModuleUnload)                                           \
    X(module_function, cuModuleGetFunction)                                    \
    X(function_set, cuFuncSetAttribute)                                        \
    X(launch, cuLaunchKernel)                                                  \
    X(capture_begin, cuStreamBeginCapture)                                     \
    X(capture_end, cuStreamEndCapture)                                         \
    X(graph_free, cuGraphDestroy)                                              \
    X(graph_instantiate, cuGraphInstantiate)                                   \
    X(exec_upload, cuGraphUpload)                                              \
    X(exec_launch, cuGraphLaunch)                                              \
    X(exec_free, cuGraphExecDestroy)

typedef struct qn_cuda_driver {
    void *library;
    int version; /* 13000: CUDA 13.0, what the driver can do */
#define QN_CUDA_DRIVER_FIELD(field, function) __typeof__(&function) field;
    QN_CUDA_DRIVER_LIST(QN_CUDA_DRIVER_FIELD)
#undef QN_CUDA_DRIVER_FIELD
} qn_cuda_driver;

/**
 * Open the library, look every function up, initialise the driver and count its
 * devices. Any thread; blocking, up to a second where a driver is.
 *
 *   out      close it with qn_cuda_driver_close(), also when this fails
 *   devices  at least 1 on QN_OK
 *
 * Errors: QN_NOT_FOUND    no library, or no device
 *         QN_UNSUPPORTED  the driver is older than the CUDA of this build
 *         QN_DEVICE       the driver does not start; its own words
 */
QN_NODISCARD qn_status qn_cuda_driver_open(qn_cuda_driver *out, int *devices,
                                           qn_error *err);
/* The library stays mapped: a driver that has run cannot be unloaded. */
void qn_cuda_driver_close(qn_cuda_driver *driver);

/* dlopen, and dlsym of several functions into fields of a table: for the driver
 * and for the libraries beside it. */
typedef struct qn_cuda_symbol {
    const char *name;
    size_t field; /* offset of the pointer */
} qn_cuda_symbol;

/* "libx.so.1", kept mapped for good. QN_NOT_FOUND with the loader's text. */
QN_NODISCARD qn_status qn_cuda_library_open(const char *name, void **out,
                                            qn_error *err);
/* QN_UNSUPPORTED names the first function that is missing. */
QN_NODISCARD qn_status qn_cuda_library_bind(void *library, const char *name,
                                            const qn_cuda_symbol *symbols,
                                            size_t n, void *table,
                                            qn_error *err);
void qn_cuda_library_close(void *library);

/* The name that a macro of a header gives to a function. */
#define QN_CUDA_NAME_(function) #function
#define QN_CUDA_NAME(function) QN_CUDA_NAME_(function)

#endif
