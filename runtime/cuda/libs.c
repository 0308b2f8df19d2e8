/* SPDX-License-Identifier: Apache-2.0 */
/* Are the libraries there? They are used in blas.c and dnn.c. */
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
