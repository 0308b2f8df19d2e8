/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of one element, and of two, by number: what devices that compute
 * many operators in one kernel switch on, and what programs of ai.quern.Chain
 * are written in (runtime/ops/chain.h). The lists and the enumeration are plain
 * C and C++, for device code too; numbers mean nothing outside one build.
 */
#ifndef QN_OPS_POINTWISE_H
#define QN_OPS_POINTWISE_H

/* name, ONNX operator; a and b are what its attributes say */
#define QN_PW_UNARY_LIST(X)                                                    \
    X(relu, "Relu")                                                            \
    X(sigmoid, "Sigmoid")                                                      \
    X(tanh, "Tanh")                                                            \
    X(hard_sigmoid, "HardSigmoid") /* a x + b, within [0, 1] */                \
    X(hard_swish, "HardSwish")                                                 \
    X(leaky_relu, "LeakyRelu") /* a x below 0 */                               \
    X(elu, "Elu")              /* a (exp(x) - 1) below 0 */                    \
    X(selu, "Selu")            /* b times elu */                               \
    X(celu, "Celu")            /* a (exp(x / a) - 1) below 0 */                \
    X(mish, "Mish")                                                            \
    X(gelu, "Gelu")                                                            \
    X(gelu_tanh, "Gelu")                                                       \
    X(swish, "Swish") /* x sigmoid(a x) */                                     \
    X(softplus, "Softplus")                                                    \
    X(softsign, "Softsign")                                                    \
    X(thresholded_relu, "ThresholdedRelu") /* x above a, else 0 */             \
    X(shrink, "Shrink")                    /* a: lambda, b: bias */            \
    X(clip, "Clip")                        /* a: low, b: high */               \
    X(abs, "Abs")                                                              \
    X(neg, "Neg")                                                              \
    X(sign, "Sign")                                                            \
    X(floor, "Floor")                                                          \
    X(ceil, "Ceil")                                                            \
    X(round, "Round")                                                          \
    X(sqrt, "Sqrt")                                                            \
    X(reciprocal, "Reciprocal")                                                \
    X(exp, "Exp")                                                              \
    X(log, "Log")                                                              \
    X(erf, "Erf")                                                              \
    X(sin, "Sin")                                                              \
    X(cos, "Cos")                                                              \
    X(tan, "Tan")                                                              \
    X(asin, "Asin")                                                            \
    X(acos, "Acos")                                                            \
    X(atan, "Atan")                                                            \
    X(sinh, "Sinh")                                                            \
    X(cosh, "Cosh")                                                            \
    X(asinh, "Asinh")                                                          \
    X(acosh, "Acosh")                                                          \
    X(atanh, "Atanh")

/* Of p and q, in the operator's order. */
#define QN_PW_BINARY_LIST(X)                                                   \
    X(add, "Add")                                                              \
    X(sub, "Sub")                                                              \
    X(mul, "Mul")                                                              \
    X(div, "Div")                                                              \
    X(max, "Max") /* NaN if either is */                                       \
    X(min, "Min")                                                              \
    X(prelu, "PRelu") /* p, below 0 times q */                                 \
    X(fmod, "Mod")    /* sign of the dividend */                               \
    X(pow, "Pow")

enum {
#define QN_PW_ENUM(name, op) QN_PW_##name,
    QN_PW_UNARY_LIST(QN_PW_ENUM) QN_PW_UNARY_COUNT,
    QN_PW_BEFORE_BINARY = QN_PW_UNARY_COUNT - 1,
    QN_PW_BINARY_LIST(QN_PW_ENUM) QN_PW_COUNT,
#undef QN_PW_ENUM
    /* Not of floats, hence not in chains: of integers and booleans. */
    QN_PW_not = QN_PW_COUNT,
    QN_PW_bitnot,
    QN_PW_mod, /* sign of the divisor */
    QN_PW_and,
    QN_PW_or,
    QN_PW_xor,
    QN_PW_shl,
    QN_PW_shr,
    /* The result is bool. */
    QN_PW_eq,
    QN_PW_lt,
    QN_PW_le,
    QN_PW_gt, /* le and lt the other way round, for devices that want it */
    QN_PW_ge
};

#endif
