/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel families of the cpu device. */
#ifndef QN_CPU_TABLES_H
#define QN_CPU_TABLES_H

#include "runtime/exec/kernel.h"

#define QN_CPU_FAMILIES(X) \
    X(unary) \
    X(binary) \
    X(variadic) \
    X(cast) \
    X(reshape) \
    X(shape) \
    X(move) \
    X(slice) \
    X(pad) \
    X(gather) \
    X(scatter) \
    X(resize) \
    X(matmul) \
    X(conv) \
    X(rnn) \
    X(pool) \
    X(unpool) \
    X(norm) \
    X(layernorm) \
    X(lrn) \
    X(softmax) \
    X(reduce) \
    X(argmax) \
    X(select) \
    X(nms) \
    X(order) \
    X(attention) \
    X(chain) \
    X(collective)

#define QN_CPU_FAMILY_DECL(family)                                             \
    extern const qn_kernel_table qn_cpu_##family;
QN_CPU_FAMILIES(QN_CPU_FAMILY_DECL)
#undef QN_CPU_FAMILY_DECL

#endif
