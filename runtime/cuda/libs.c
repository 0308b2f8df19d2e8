/* SPDX-License-Identifier: Apache-2.0 */
/* What cuBLASLt and cuDNN have in common; they are used in blas.c and dnn.c. */
#include "runtime/cuda/libs.h"

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

qn_status qn_cuda_library_failed(const qn_launch *k, const char *library,
                                 const char *what)
{
    qn_cuda_device *d = qn_cuda_queue_device(k->queue);
    CUresult r = d->cu.stream_query(k->queue->stream);
    if (qn_cuda_classify(r) == QN_CUDA_POISON)
        return qn_cuda_check(d, r, k->err, "%s", library);
    return qn_launch_fail(k, QN_DEVICE, "%s: %s", library, what);
}
