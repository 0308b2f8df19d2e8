/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/libs.h"

#include <cublasLt.h>
#include <cudnn.h>

#include <stdio.h>

static const char libblas[] = "libcublasLt.so.13", libdnn[] = "libcudnn.so.9";

qn_status qn_cuda_libs_probe(qn_error *err)
{
    static const char *const names[] = { libblas, libdnn };
    for (int i = 0; i < 2; i++) {
        void *library;
        qn_status st = qn_cuda_library_open(names[i], &library, err);
        qn_cuda_library_close(library); /* stays mapped: opening it is done */
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

/* ---- cuBLASLt ---- */

typedef struct blas {
    void *library;
    __typeof__(&cublasLtCreate) create;
    __typeof__(&cublasLtDestroy) destroy;
    __typeof__(&cublasLtGetVersion) version;
    cublasLtHandle_t handle;
} blas;

qn_status qn_cuda_blas_open(qn_cuda_device *device, qn_error *err)
{
    static const qn_cuda_symbol symbols[] = {
        { "cublasLtCreate", offsetof(blas, create) },
        { "cublasLtDestroy", offsetof(blas, destroy) },
        { "cublasLtGetVersion", offsetof(blas, version) },
    };
    blas *b = qn_calloc(1, sizeof *b);
    if (!b)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %s", libblas);
    device->blas = b;
    qn_status st = qn_cuda_library_open(libblas, &b->library, err);
    if (st == QN_OK)
        st = qn_cuda_library_bind(b->library, libblas, symbols,
                                  sizeof symbols / sizeof symbols[0], b, err);
    if (st != QN_OK)
        return st;
    cublasStatus_t r = b->create(&b->handle);
    if (r != CUBLAS_STATUS_SUCCESS) {
        b->handle = NULL;
        return qn_fail(err, QN_DEVICE, "%s: cublasLtCreate gives %d",
                       device->base.label, (int)r);
    }
    size_t v = b->version(); /* 130002: 13.0.2 */
    snprintf(device->blas_version, sizeof device->blas_version,
             "cuBLASLt %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return QN_OK;
}

void qn_cuda_blas_close(qn_cuda_device *device)
{
    blas *b = device->blas;
    if (!b)
        return;
    if (b->handle)
        (void)b->destroy(b->handle);
    qn_cuda_library_close(b->library);
    qn_free(b);
    device->blas = NULL;
}

/* ---- cuDNN ---- */

typedef struct dnn {
    void *library;
    __typeof__(&cudnnCreate) create;
    __typeof__(&cudnnDestroy) destroy;
    __typeof__(&cudnnSetStream) set_stream;
    __typeof__(&cudnnGetVersion) version;
} dnn;

qn_status qn_cuda_dnn_open(qn_cuda_device *device, qn_error *err)
{
    static const qn_cuda_symbol symbols[] = {
        { "cudnnCreate", offsetof(dnn, create) },
        { "cudnnDestroy", offsetof(dnn, destroy) },
        { "cudnnSetStream", offsetof(dnn, set_stream) },
        { "cudnnGetVersion", offsetof(dnn, version) },
    };
    dnn *n = qn_calloc(1, sizeof *n);
    if (!n)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %s", libdnn);
    device->dnn = n;
    qn_status st = qn_cuda_library_open(libdnn, &n->library, err);
    if (st == QN_OK)
        st = qn_cuda_library_bind(n->library, libdnn, symbols,
                                  sizeof symbols / sizeof symbols[0], n, err);
    if (st != QN_OK)
        return st;
    size_t v = n->version(); /* 91900: 9.19.0 */
    snprintf(device->dnn_version, sizeof device->dnn_version,
             "cuDNN %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return QN_OK;
}

void qn_cuda_dnn_close(qn_cuda_device *device)
{
    dnn *n = device->dnn;
    if (!n)
        return;
    qn_cuda_library_close(n->library);
    qn_free(n);
    device->dnn = NULL;
}

qn_status qn_cuda_dnn_queue_open(qn_queue *queue, qn_error *err)
{
    qn_cuda_device *d = qn_cuda_queue_device(queue);
    const dnn *n = d->dnn;
    cudnnHandle_t handle = NULL;
    if (queue->number == QN_ACCEL_STREAM_COMM) /* collectives only */
        return QN_OK;
    cudnnStatus_t r = n->create(&handle);
    if (r == CUDNN_STATUS_SUCCESS) {
        queue->dnn_handle = handle;
        r = n->set_stream(handle, (cudaStream_t)queue->stream);
    }
    if (r == CUDNN_STATUS_SUCCESS)
        return QN_OK;
    return qn_fail(err,
                   r == CUDNN_STATUS_ALLOC_FAILED ? QN_NO_MEMORY : QN_DEVICE,
                   "%s: making a cuDNN handle gives %d", d->base.label, (int)r);
}

void qn_cuda_dnn_queue_close(qn_queue *queue)
{
    const dnn *n = qn_cuda_queue_device(queue)->dnn;
    if (queue->dnn_handle)
        (void)n->destroy(queue->dnn_handle);
    queue->dnn_handle = NULL;
}
