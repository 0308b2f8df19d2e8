/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ai.quern.Chain: up to 16 elementwise operations in one pass over memory. No
 * model has it; a fusion pass makes it of operators that follow one another.
 *
 *   input 0     the running value at the start; its shape is the output's
 *   input 1..7  operands of steps; each broadcasts to input 0's shape
 *   output 0    the running value at the end
 *
 * All of one type: float32, float16 or bfloat16. After each step the running
 * value is rounded to that type, so that a chain's answer has the same bits as
 * its operators had one by one. Attributes, for n steps:
 *
 *   steps    ints [n][4]    function (QN_PW_*), qn_chain_kind, input number,
 *                           1 if the operand is on the left
 *   numbers  floats [n][2]  of one operand: its parameters a and b (pointwise.h);
 *                           of two with QN_CHAIN_CONST: the operand, and 0
 */
#ifndef QN_OPS_CHAIN_H
#define QN_OPS_CHAIN_H

#include "runtime/graph/graph.h"
#include "runtime/ops/pointwise.h"

enum { QN_CHAIN_STEPS = 16, QN_CHAIN_INPUTS = 8 };

typedef enum qn_chain_kind {
    QN_CHAIN_UNARY,
    QN_CHAIN_CONST, /* the operand is a number */
    QN_CHAIN_INPUT  /* ... an input; 0 is allowed: x sigmoid(x) */
} qn_chain_kind;

typedef struct qn_chain_step {
    int op; /* QN_PW_* */
    qn_chain_kind kind;
    uint32_t input;
    bool left; /* f(operand, value), else f(value, operand) */
    float a, b;
} qn_chain_step;

typedef struct qn_chain {
    uint32_t n;
    qn_chain_step steps[QN_CHAIN_STEPS];
} qn_chain;

/* The program of a node. QN_INVALID names the step and what is wrong with it. */
QN_NODISCARD qn_status qn_chain_read(const qn_node *node, qn_chain *out,
                                     qn_error *err);

/* ---- which function a node of the ONNX domain is ---- */

typedef struct qn_pointwise {
    int op; /* QN_PW_*; relu to pow: chains may have it */
    float a, b;
} qn_pointwise;

/* An operator of one tensor; false if it is none. node->op is set. Clip from
 * opset 11 on: a and b are infinite, bounds are up to its further inputs. */
bool qn_pointwise_unary(const qn_node *node, qn_pointwise *out);
/* An operator of two tensors; false if it is none. Max and Min only with two
 * inputs, Sum as Add. */
bool qn_pointwise_binary(const qn_node *node, qn_pointwise *out);

#endif
