/* SPDX-License-Identifier: Apache-2.0 */
/* The operator families. One line here and one file brings a new one. */
#ifndef QN_OPS_TABLES_H
#define QN_OPS_TABLES_H

#include "runtime/ops/op.h"

#define QN_OP_FAMILIES(X) \
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
    X(norm) \
    X(softmax) \
    X(reduce) \
    X(select) \
    X(control) \
    X(order) \
    X(attention) \
    X(chain) \
    X(collective)

#define QN_OP_FAMILY_DECL(family) extern const qn_op_table qn_ops_##family;
QN_OP_FAMILIES(QN_OP_FAMILY_DECL)
#undef QN_OP_FAMILY_DECL

#endif
