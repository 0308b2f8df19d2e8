/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in's face: one exported function. */
#include "runtime/cuda/images.h"
#include "runtime/cuda/libs.h"

/* by the makefile: "quern 0.1.0, cuda 13.0" */
#ifndef QN_CUDA_BUILD_TEXT
#define QN_CUDA_BUILD_TEXT "quern"
#endif

/* The driver first: without one, or without a card, the large libraries are
 * never opened. */
static int count(qn_error *err)
{
    qn_cuda_driver cu;
    int devices = 0;
    qn_status st = qn_cuda_driver_open(&cu, &devices, err);
    qn_cuda_driver_close(&cu);
    if (st == QN_OK)
        st = qn_cuda_libs_probe(err);
    return st == QN_OK ? devices : 0;
}

static const qn_plugin plugin = {
    .name = "cuda",
    .version = QN_CUDA_BUILD_TEXT ", " QN_CUDA_ARCH_TEXT,
    .count = count,
    .open = qn_cuda_open,
};

__attribute__((visibility("default"))) const qn_plugin *
qn_plugin_query(uint32_t abi);

const qn_plugin *qn_plugin_query(uint32_t abi)
{
    return abi == QN_PLUGIN_ABI ? &plugin : NULL;
}
