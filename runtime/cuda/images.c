/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/images.h"

#include "runtime/cuda/tables.h"

/* The assembler reads what nvcc made; the makefile says where that is. */
#ifndef QN_CUDA_IMAGE_DIR
#define QN_CUDA_IMAGE_DIR "build/cuda"
#endif

#define IMAGE(family)                                                          \
    __asm__(".pushsection .rodata\n.balign 64\n.hidden qn_cuda_image_" #family \
            "\nqn_cuda_image_" #family                                         \
            ":\n.incbin \"" QN_CUDA_IMAGE_DIR "/" #family                      \
            ".fatbin\"\n.popsection\n");                                       \
    extern const char qn_cuda_image_##family[];
QN_CUDA_IMAGES(IMAGE)
#undef IMAGE

static const qn_cuda_image images[] = {
#define ROW(family) { #family, qn_cuda_image_##family },
    QN_CUDA_IMAGES(ROW)
#undef ROW
    { NULL, NULL }
};

const qn_cuda_image *qn_cuda_images(size_t *n)
{
    *n = sizeof images / sizeof images[0] - 1;
    return images;
}
