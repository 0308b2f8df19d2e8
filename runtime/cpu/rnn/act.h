/* SPDX-License-Identifier: Apache-2.0 */
/* Activations of recurrent layers on n elements, for REAL float or double;
 * MATH(tanh) names the function of that type. Float's two common ones are the
 * vectorised ones of runtime/cpu/simd/. */

static REAL FN(act_one)(const qn_rnn_fn *f, REAL x)
{
    const REAL a = (REAL)f->alpha, b = (REAL)f->beta;
    switch (f->act) {
    case QN_RNN_AFFINE:
        return a * x + b;
    case QN_RNN_RELU:
        return x < 0 ? 0 : x;
    case QN_RNN_LEAKY:
        return x < 0 ? a * x : x;
    case QN_RNN_THRESHOLDED:
        return x >= a ? x : 0;
    case QN_RNN_TANH:
        return MATH(tanh)(x);
    case QN_RNN_SCALED_TANH:
        return a * MATH(tanh)(b * x);
    case QN_RNN_SIGMOID:
        return 1 / (1 + MATH(exp)(-x));
    case QN_RNN_HARD_SIGMOID:
        x = a * x + b;
        return x < 0 ? 0 : x > 1 ? 1 : x;
    case QN_RNN_ELU:
        return x < 0 ? a * MATH(expm1)(x) : x;
    case QN_RNN_SOFTSIGN:
        return x / (1 + MATH(fabs)(x));
    case QN_RNN_SOFTPLUS:
        /* log(1 + e^x) without overflow */
        return (x > 0 ? x : 0) + MATH(log1p)(MATH(exp)(-MATH(fabs)(x)));
    }
    return x;
}

static void FN(act)(const qn_rnn_plan *p, const qn_rnn_fn *f, REAL *x, int64_t n)
{
    void *any = x;
    if (sizeof(REAL) == sizeof(float) && f->act == QN_RNN_SIGMOID)
        p->isa->act(QN_ACT_SIGMOID, 0, 0, any, (size_t)n);
    else if (sizeof(REAL) == sizeof(float) && f->act == QN_RNN_TANH)
        p->isa->act(QN_ACT_TANH, 0, 0, any, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++)
            x[i] = FN(act_one)(f, x[i]);
}
