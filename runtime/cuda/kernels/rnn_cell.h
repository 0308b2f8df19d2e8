/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of rnn.cu do per element: where it lies, which time it is,
 * activations, cells. */
#ifndef QN_CUDA_KERNELS_RNN_CELL_H
#define QN_CUDA_KERNELS_RNN_CELL_H

#include "runtime/cuda/kernels/device.h"
#include "runtime/cuda/kernels/rnn.h"

#ifdef __cplusplus

typedef struct qn_rnn_args rnn;

enum { RNN, GRU, LSTM };

/* ---- reading ---- */

template <class S> QN_DEVICE S get(const rnn &a, const void *p, int64_t i)
{
    if (a.dtype == 1)
        return (S)qn_load((const qn_half *)p, i);
    if (a.dtype == 2)
        return (S)qn_load((const qn_bf16 *)p, i);
    return ((const S *)p)[i];
}

template <class S> QN_DEVICE void put(const rnn &a, void *p, int64_t i, S v)
{
    if (a.dtype == 1)
        qn_store((qn_half *)p, i, v);
    else if (a.dtype == 2)
        qn_store((qn_bf16 *)p, i, v);
    else
        ((S *)p)[i] = v;
}

/* Steps that row b has, whatever the data say. */
QN_DEVICE int64_t length(const rnn &a, int64_t b)
{
    if (!a.lens)
        return a.steps;
    const int64_t n = a.lens[b];
    return n < 0 ? 0 : n > a.steps ? a.steps : n;
}

/* Which time row b is at in step s; -1 beyond its end. */
QN_DEVICE int64_t time_of(const rnn &a, int d, int64_t s, int64_t b)
{
    const int64_t n = length(a, b);
    if (s >= n)
        return -1;
    return d || a.reverse ? n - 1 - s : s;
}

/* Element 0 of (d, b) in h0, c0 and what comes out last. */
QN_DEVICE int64_t state_at(const rnn &a, int d, int64_t b)
{
    return (a.batch_first ? b * a.directions + d : d * a.batch + b) * a.hidden;
}

/* Element 0 of (time, d, b) in y. */
QN_DEVICE int64_t y_at(const rnn &a, int64_t time, int d, int64_t b)
{
    return (a.batch_first ? (b * a.steps + time) * a.directions + d
                          : (time * a.directions + d) * a.batch + b) * a.hidden;
}

/* Gate g of unit j: what x and the biases give. GRU's third keeps the bias of R
 * apart where it is inside of the product with the reset gate. */
template <class S, int G>
QN_DEVICE S input(const rnn &a, int64_t time, int d, int64_t b, int g, int64_t j)
{
    const int64_t row = a.batch_first ? b * a.steps + time
                                      : time * a.batch + b;
    const int64_t n = G * a.hidden, at = g * a.hidden + j;
    S x = ((const S *)a.gates)[(row * a.directions + d) * n + at];
    if (!a.bias)
        return x;
    S bias = get<S>(a, a.bias, 2 * d * n + at);
    if (!(G == 3 && g == 2 && a.linear_before_reset))
        bias += get<S>(a, a.bias, (2 * d + 1) * n + at);
    return x + bias;
}

/* ---- activations ---- */

QN_DEVICE float exp_of(float x)
{
    return expf(x);
}
QN_DEVICE double exp_of(double x)
{
    return exp(x);
}
QN_DEVICE float tanh_of(float x)
{
    return tanhf(x);
}
QN_DEVICE double tanh_of(double x)
{
    return tanh(x);
}
QN_DEVICE float expm1_of(float x)
{
    return expm1f(x);
}
QN_DEVICE double expm1_of(double x)
{
    return expm1(x);
}
QN_DEVICE float log1p_of(float x)
{
    return log1pf(x);
}
QN_DEVICE double log1p_of(double x)
{
    return log1p(x);
}

/* By the numbers of qn_rnn_act in runtime/ops/rnn.h. Called from many places,
 * so it is no inline function. */
template <class S>
#if defined __CUDACC__
__device__ __noinline__
#endif
S activated(int act, float alpha, float beta, S x)
{
    const S a = (S)alpha, b = (S)beta, size = x < 0 ? -x : x;
    switch (act) {
    case 0: /* Affine */
        return a * x + b;
    case 1: /* Relu */
        return x < 0 ? S(0) : x;
    case 2: /* LeakyRelu */
        return x < 0 ? a * x : x;
    case 3: /* ThresholdedRelu */
        return x >= a ? x : S(0);
    case 4: /* Tanh */
        return tanh_of(x);
    case 5: /* ScaledTanh */
        return a * tanh_of(b * x);
    case 6: /* Sigmoid */
        return 1 / (1 + exp_of(-x));
    case 7: /* HardSigmoid */
        x = a * x + b;
        return x < 0 ? S(0) : x > 1 ? S(1) : x;
    case 8: /* Elu */
        return x < 0 ? a * expm1_of(x) : x;
    case 9: /* Softsign */
        return x / (1 + size);
    case 10: /* Softplus: log(1 + e^x) without overflow */
        return (x > 0 ? x : S(0)) + log1p_of(exp_of(-size));
    default:
        return x;
    }
}

template <class S> QN_DEVICE S act(const rnn &a, int d, int which, S x)
{
    const struct qn_rnn_fn_args &f = a.fn[d][which];
    return activated<S>(f.act, f.alpha, f.beta, x);
}

template <class S> QN_DEVICE S clip_act(const rnn &a, int d, int which, S x)
{
    const S limit = (S)a.clip;
    if (limit > 0)
        x = x > limit ? limit : x < -limit ? -limit : x;
    return act(a, d, which, x);
}

/* ---- cells ---- */

/* The new h of unit j; *c in and out. */
template <class S>
QN_DEVICE S lstm_cell(const rnn &a, int d, int64_t j, S in, S out, S forget,
                      S cell, S *c)
{
    const int64_t n = a.hidden, at = d * 3 * n + j;
    if (a.peep) {
        in += get<S>(a, a.peep, at) * *c;
        forget += get<S>(a, a.peep, at + 2 * n) * *c;
    }
    in = clip_act(a, d, 0, in);
    forget = a.input_forget ? 1 - in : clip_act(a, d, 0, forget);
    cell = clip_act(a, d, 1, cell);
    *c = forget * *c + in * cell;
    if (a.peep)
        out += get<S>(a, a.peep, at + n) * *c;
    out = clip_act(a, d, 0, out);
    return out * act(a, d, 2, *c);
}

/* The part of GRU's third gate that comes from the state. */
template <class S>
QN_DEVICE S gru_recurrent(const rnn &a, int d, int64_t j, S reset, S sum)
{
    if (!a.linear_before_reset)
        return sum;
    if (a.bias)
        sum += get<S>(a, a.bias, (2 * d + 1) * 3 * a.hidden + 2 * a.hidden + j);
    return reset * sum;
}

template <class S> QN_DEVICE S gru_state(S update, S next, S h)
{
    return (1 - update) * next + update * h;
}

#endif

#endif
