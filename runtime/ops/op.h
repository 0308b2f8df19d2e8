/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators, device-independent: what an operation takes, which element types
 * it allows, what its outputs are. One row per operator version. Families lie
 * in runtime/ops/<family>.c and are listed in runtime/ops/registry.c.
 */
#ifndef QN_OPS_OP_H
#define QN_OPS_OP_H

#include "runtime/graph/graph.h"

enum { QN_OP_TYPED = 6, QN_VARIADIC = 255 };

typedef enum qn_op_flag {
    /* Output 0 has the bytes of input 0 in the same order: no launch, the
     * planner gives both one address. (Reshape, Identity ...) */
    QN_OP_VIEW = 1 << 0,
    /* Output shapes depend on data; infer() gives the upper bound (every
     * dimension at its largest), launch() sets the actual shape. */
    QN_OP_BOUNDED = 1 << 1,
    /* Has child graphs and is run by the executor itself. (If) */
    QN_OP_CONTROL = 1 << 2,
    /* Two runs may differ: never folded. */
    QN_OP_RANDOM = 1 << 3,
    /* All inputs share one element type (the variable T of the spec). */
    QN_OP_SAME_TYPE = 1 << 4,
    /* Position-independent: every output element depends only on the elements
     * at its own (broadcast) position. Lets layout passes go through. */
    QN_OP_ELEMENTWISE = 1 << 5,
    /* Exchanges data between the parts of a split model: runs on a queue of its
     * own, on contiguous blocks. (ai.quern AllReduce ...) */
    QN_OP_COLLECTIVE = 1 << 6
} qn_op_flag;

/* What infer() sees. All shapes are exact, or bounds. */
typedef struct qn_infer {
    const qn_node *node;
    uint32_t n_in, n_out;
    /* [n_in] dtype QN_NONE if absent. `data` is set where the value is known,
     * which is certain for the inputs in op->value_in. */
    const qn_tensor *in;
    /* [n_out] dtype is set; write the shape of each present output. */
    qn_tensor *out;
} qn_infer;

typedef struct qn_op {
    const char *domain, *name;
    /* Holds for opsets since..until; a later version has a row of its own. */
    uint16_t since, until;
    uint8_t min_in, max_in; /* max QN_VARIADIC: any number */
    uint8_t min_out, max_out;
    uint32_t flags;
    /* Bit i: the shape depends on the values of input i. */
    uint32_t value_in;
    /* Bit i: output 0 may overwrite input i, if that has the output's shape and
     * element size: element k of the input is read only before, or while,
     * element k of the output is written. */
    uint32_t inplace;
    /* Element types allowed for input i; inputs past the last non-zero entry
     * take that one. 0 in entry 0: no check. */
    qn_dtypes types[QN_OP_TYPED];
    /* Output element types from input ones. NULL: all as input 0. */
    qn_status (*out_types)(const qn_node *node, uint32_t n_in,
                           const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                           qn_error *err);
    /* Checks attributes once, at load. NULL: nothing to check. */
    qn_status (*check)(const qn_node *node, qn_error *err);
    /* Output shapes. NULL: all as input 0. Must reject what launch() cannot
     * do: kernels trust accepted shapes. Multiplies with checks. */
    qn_status (*infer)(const qn_infer *in, qn_error *err);
} qn_op;

/* The row for an opset; NULL if unknown. `*known` (may be NULL) says whether
 * the name exists at any opset. */
const qn_op *qn_op_find(const char *domain, const char *name, int opset,
                        bool *known);

/* Highest opset of the ONNX domain that the tables cover. */
enum { QN_OPSET_MAX = 28 };

/* ---- shared rules ---- */

/* All outputs BOOL. */
qn_status qn_types_bool(const qn_node *node, uint32_t n_in, const qn_dtype *in,
                        uint32_t n_out, qn_dtype *out, qn_error *err);
/* All outputs INT64. */
qn_status qn_types_i64(const qn_node *node, uint32_t n_in, const qn_dtype *in,
                       uint32_t n_out, qn_dtype *out, qn_error *err);
/* Output 0 as input 0, the rest INT64 (TopK, MaxPool ...). */
qn_status qn_types_same_i64(const qn_node *node, uint32_t n_in,
                            const qn_dtype *in, uint32_t n_out, qn_dtype *out,
                            qn_error *err);
/* All present inputs broadcast together into output 0. */
qn_status qn_infer_broadcast(const qn_infer *in, qn_error *err);

/* Read input i, an INT32 or INT64 tensor whose value is known, into
 * out[0..*n), at most `cap`; a scalar counts as one element. */
QN_NODISCARD qn_status qn_infer_ints(const qn_infer *in, uint32_t i,
                                     int64_t *out, size_t cap, size_t *n,
                                     qn_error *err);

/* A family's rows. */
typedef struct qn_op_table {
    const qn_op *rows;
    size_t n;
} qn_op_table;

#define QN_OP_TABLE(symbol, array)                                             \
    const qn_op_table symbol = { array, sizeof array / sizeof array[0] }

#endif
