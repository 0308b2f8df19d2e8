/* SPDX-License-Identifier: Apache-2.0 */
/* The device code that is embedded: one fat binary per family. */
#ifndef QN_CUDA_IMAGES_H
#define QN_CUDA_IMAGES_H

#include <stddef.h>

typedef struct qn_cuda_image {
    const char *family;
    const void *start; /* what cuModuleLoadData() takes */
} qn_cuda_image;

/* Static storage; the last one, number *n, has family NULL. */
const qn_cuda_image *qn_cuda_images(size_t *n);

#ifndef QN_CUDA_ARCH_TEXT /* by the makefile: "sm_75 sm_90" */
#define QN_CUDA_ARCH_TEXT "no architecture"
#endif

#endif
