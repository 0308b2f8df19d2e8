/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel families of the CUDA device, and their images of device code. */
#ifndef QN_CUDA_TABLES_H
#define QN_CUDA_TABLES_H

#include "runtime/exec/kernel.h"

/* Rows; the first that fits wins, so order matters. */
#define QN_CUDA_FAMILIES(X)                                                   \
    X(matmul)                                                                 \
    X(conv)                                                                   \
    X(rnn)                                                                    \
    X(move)                                                                   \
    X(concat)                                                                 \
    X(pad)                                                                    \
    X(gather)                                                                 \
    X(scatter)                                                                \
    X(unary)                                                                  \
    X(binary)                                                                 \
    X(shape)                                                                  \
    X(nonzero)                                                                \
    X(resize)                                                                 \
    X(variadic)                                                               \
    X(cast)                                                                   \
    X(chain)                                                                  \
    X(softmax)                                                                \
    X(reduce)                                                                 \
    X(argmax)                                                                 \
    X(norm)                                                                   \
    X(layernorm)                                                              \
    X(lrn)                                                                    \
    X(pool)                                                                   \
    X(unpool)                                                                 \
    X(topk)                                                                   \
    X(nms)                                                                    \
    X(attention)

/* Families that have device code: kernels/<family>.cu. */
#define QN_CUDA_IMAGES(X)                                                     \
    X(matmul)                                                                 \
    X(conv)                                                                   \
    X(rnn)                                                                    \
    X(strided)                                                                \
    X(concat)                                                                 \
    X(pad)                                                                    \
    X(gather)                                                                 \
    X(scatter)                                                                \
    X(unary)                                                                  \
    X(binary)                                                                 \
    X(shape)                                                                  \
    X(nonzero)                                                                \
    X(resize)                                                                 \
    X(variadic)                                                               \
    X(cast)                                                                   \
    X(chain)                                                                  \
    X(softmax)                                                                \
    X(reduce)                                                                 \
    X(argmax)                                                                 \
    X(norm)                                                                   \
    X(layernorm)                                                              \
    X(lrn)                                                                    \
    X(pool)                                                                   \
    X(unpool)                                                                 \
    X(topk)                                                                   \
    X(nms)                                                                    \
    X(attention)                                                              \
    X(attention_mma)

#define QN_CUDA_FAMILY_DECL(family)                                            \
    extern const qn_kernel_table qn_cuda_##family;
QN_CUDA_FAMILIES(QN_CUDA_FAMILY_DECL)
#undef QN_CUDA_FAMILY_DECL

#endif
