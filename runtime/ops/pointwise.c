/* SPDX-License-Identifier: Apache-2.0 */
/* From operators to functions by number; the attributes' defaults by opset. */
#include "runtime/ops/chain.h"
#include "runtime/ops/op.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Attributes that are not plain numbers with one default have no row here. */
static const struct {
    const char *op;
    int fn;
    const char *name_a;
    float a;
    const char *name_b;
    float b;
} unary[] = {
    { "Relu", QN_PW_relu, NULL, 0, NULL, 0 },
    { "Sigmoid", QN_PW_sigmoid, NULL, 0, NULL, 0 },
    { "Tanh", QN_PW_tanh, NULL, 0, NULL, 0 },
    { "HardSigmoid", QN_PW_hard_sigmoid, "alpha", 0.2f, "beta", 0.5f },
    { "HardSwish", QN_PW_hard_swish, NULL, 0, NULL, 0 },
    { "LeakyRelu", QN_PW_leaky_relu, "alpha", 0.01f, NULL, 0 },
    { "Elu", QN_PW_elu, "alpha", 1, NULL, 0 },
    { "Celu", QN_PW_celu, "alpha", 1, NULL, 0 },
    { "Mish", QN_PW_mish, NULL, 0, NULL, 0 },
    { "Swish", QN_PW_swish, "alpha", 1, NULL, 0 },
    { "Softplus", QN_PW_softplus, NULL, 0, NULL, 0 },
    { "Softsign", QN_PW_softsign, NULL, 0, NULL, 0 },
    { "ThresholdedRelu", QN_PW_thresholded_relu, "alpha", 1, NULL, 0 },
    { "Shrink", QN_PW_shrink, "lambd", 0.5f, "bias", 0 },
    { "Abs", QN_PW_abs, NULL, 0, NULL, 0 },
    { "Neg", QN_PW_neg, NULL, 0, NULL, 0 },
    { "Sign", QN_PW_sign, NULL, 0, NULL, 0 },
    { "Floor", QN_PW_floor, NULL, 0, NULL, 0 },
    { "Ceil", QN_PW_ceil, NULL, 0, NULL, 0 },
    { "Round", QN_PW_round, NULL, 0, NULL, 0 },
    { "Sqrt", QN_PW_sqrt, NULL, 0, NULL, 0 },
    { "Reciprocal", QN_PW_reciprocal, NULL, 0, NULL, 0 },
    { "Exp", QN_PW_exp, NULL, 0, NULL, 0 },
    { "Log", QN_PW_log, NULL, 0, NULL, 0 },
    { "Erf", QN_PW_erf, NULL, 0, NULL, 0 },
    { "Sin", QN_PW_sin, NULL, 0, NULL, 0 },
    { "Cos", QN_PW_cos, NULL, 0, NULL, 0 },
    { "Tan", QN_PW_tan, NULL, 0, NULL, 0 },
    { "Asin", QN_PW_asin, NULL, 0, NULL, 0 },
    { "Acos", QN_PW_acos, NULL, 0, NULL, 0 },
    { "Atan", QN_PW_atan, NULL, 0, NULL, 0 },
    { "Sinh", QN_PW_sinh, NULL, 0, NULL, 0 },
    { "Cosh", QN_PW_cosh, NULL, 0, NULL, 0 },
    { "Asinh", QN_PW_asinh, NULL, 0, NULL, 0 },
    { "Acosh", QN_PW_acosh, NULL, 0, NULL, 0 },
    { "Atanh", QN_PW_atanh, NULL, 0, NULL, 0 },
    { "Not", QN_PW_not, NULL, 0, NULL, 0 },
    { "BitwiseNot", QN_PW_bitnot, NULL, 0, NULL, 0 },
};

static void selu(const qn_node *node, qn_pointwise *out)
{
    bool old = node->opset < 6;
    out->op = QN_PW_selu;
    out->a = qn_node_float(node, "alpha", old ? 1.6732f : 1.67326319f);
    out->b = qn_node_float(node, "gamma", old ? 1.0507f : 1.05070102f);
}

static void clip(const qn_node *node, qn_pointwise *out)
{
    /* from 6 to 10 the defaults are the largest numbers of binary32 */
    float most = node->opset >= 6 && node->opset < 11 ? FLT_MAX : INFINITY;
    out->op = QN_PW_clip;
    out->a = -most;
    out->b = most;
    if (node->opset < 11) {
        out->a = qn_node_float(node, "min", -most);
        out->b = qn_node_float(node, "max", most);
    }
}

bool qn_pointwise_unary(const qn_node *node, qn_pointwise *out)
{
    const char *name = node->op->name;
    *out = (qn_pointwise){ 0 };
    if (*node->op->domain)
        return false;
    if (!strcmp(name, "Selu")) {
        selu(node, out);
        return true;
    }
    if (!strcmp(name, "Clip")) {
        clip(node, out);
        return true;
    }
    if (!strcmp(name, "Gelu")) {
        const char *how = qn_node_string(node, "approximate", "none");
        out->op = strcmp(how, "tanh") ? QN_PW_gelu : QN_PW_gelu_tanh;
        return true;
    }
    for (size_t i = 0; i < sizeof unary / sizeof unary[0]; i++) {
        if (strcmp(unary[i].op, name))
            continue;
        out->op = unary[i].fn;
        out->a = unary[i].a;
        out->b = unary[i].b;
        if (unary[i].name_a)
            out->a = qn_node_float(node, unary[i].name_a, out->a);
        if (unary[i].name_b)
            out->b = qn_node_float(node, unary[i].name_b, out->b);
        return true;
    }
    return false;
}

static const struct {
    const char *op;
    int fn;
} binary[] = {
    { "Add", QN_PW_add },        { "Sub", QN_PW_sub },
    { "Mul", QN_PW_mul },        { "Div", QN_PW_div },
    { "Max", QN_PW_max },        { "Min", QN_PW_min },
    { "Sum", QN_PW_add },        { "PRelu", QN_PW_prelu },
    { "Pow", QN_PW_pow },        { "And", QN_PW_and },
    { "Or", QN_PW_or },          { "Xor", QN_PW_xor },
    { "BitwiseAnd", QN_PW_and }, { "BitwiseOr", QN_PW_or },
    { "BitwiseXor", QN_PW_xor }, { "Equal", QN_PW_eq },
    { "Less", QN_PW_lt },        { "LessOrEqual", QN_PW_le },
    { "Greater", QN_PW_gt },     { "GreaterOrEqual", QN_PW_ge },
};

bool qn_pointwise_binary(const qn_node *node, qn_pointwise *out)
{
    const char *name = node->op->name;
    *out = (qn_pointwise){ 0 };
    if (*node->op->domain || node->n_in != 2)
        return false;
    if (!strcmp(name, "Mod")) {
        out->op = qn_node_int(node, "fmod", 0) ? QN_PW_fmod : QN_PW_mod;
        return true;
    }
    if (!strcmp(name, "BitShift")) {
        const char *way = qn_node_string(node, "direction", "");
        out->op = strcmp(way, "LEFT") ? QN_PW_shr : QN_PW_shl;
        return true;
    }
    for (size_t i = 0; i < sizeof binary / sizeof binary[0]; i++)
        if (!strcmp(binary[i].op, name)) {
            out->op = binary[i].fn;
            return true;
        }
    return false;
}
