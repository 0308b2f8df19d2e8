/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLASLt and cuDNN: opened with a device, by name, functions in tables.
 *
 * Each keeps what it has (library, functions, handle) behind device->blas and
 * device->dnn, and says its version in device->blas_version and dnn_version. All
 * are blocking; the context is current. close() is called after every lane is
 * gone, also when open() failed or was never called.
 */
#ifndef QN_CUDA_LIBS_H
#define QN_CUDA_LIBS_H

#include "runtime/cuda/lane.h"

/* Are the libraries there? Does not start them. QN_NOT_FOUND names the first
 * that is missing, QN_UNSUPPORTED one that is too old. */
QN_NODISCARD qn_status qn_cuda_libs_probe(qn_error *err);

QN_NODISCARD qn_status qn_cuda_blas_open(qn_cuda_device *device, qn_error *err);
void qn_cuda_blas_close(qn_cuda_device *device);

QN_NODISCARD qn_status qn_cuda_dnn_open(qn_cuda_device *device, qn_error *err);
void qn_cuda_dnn_close(qn_cuda_device *device);

/* Called for each queue of a new lane, and when the lane goes. */
QN_NODISCARD qn_status qn_cuda_dnn_queue_open(qn_queue *queue, qn_error *err);
void qn_cuda_dnn_queue_close(qn_queue *queue);
/*
 * What to return when a call of a library fails inside launch(): QN_DEVICE_LOST,
 * and the device is dead, if the context is beyond use (libraries say only that
 * something failed, so the driver is asked); else QN_DEVICE, "<library>: <what>"
 * with the node in front.
 */
qn_status qn_cuda_library_failed(const qn_launch *k, const char *library,
                                 const char *what);

#endif
