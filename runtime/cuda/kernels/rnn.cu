/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent layers, after x W' was made for all steps by one product.
 *
 *   rnn_start, rnn_end   state in and out of the workspace
 *   step_<kind>          one step: a warp has one hidden unit with all its gates,
 *                        for four rows of the batch; lanes share the sum over
 *                        the state, then one lane a row makes the cell
 *   layer_<kind>         all steps: a block has one direction and a few rows of
 *                        the batch, whose states nobody else needs; R lies in
 *                        shared memory, transposed
 *
 * Gates are in ONNX's order: i o f c, z r h. Kinds: rnn, gru, lstm.
 */
#include "runtime/cuda/kernels/rnn_cell.h"

/* ---- one step ---- */

/* sum[g][i] = sum over k of R[g0 + g][j][k] h[i][k], in all lanes. */
template <class S, class T, int G>
QN_DEVICE void dots(const T *r, int64_t plane, const S *h, int64_t n, int rows,
                    S sum[G][QN_RNN_ROWS])
{
    for (int64_t k = threadIdx.x % 32; k < n; k += 32) {
        S x[QN_RNN_ROWS];
        QN_UNROLL
        for (int i = 0; i < QN_RNN_ROWS; i++)
            x[i] = i < rows ? h[i * n + k] : S(0);
        QN_UNROLL
        for (int g = 0; g < G; g++) {
            const S w = (S)qn_load(r, g * plane + k);
            QN_UNROLL
            for (int i = 0; i < QN_RNN_ROWS; i++)
                sum[g][i] += w * x[i];
        }
    }
    QN_UNROLL
    for (int g = 0; g < G; g++)
        QN_UNROLL
        for (int i = 0; i < QN_RNN_ROWS; i++)
            sum[g][i] = qn_warp_reduce(sum[g][i], qn_op_sum());
}

/* The same for the type of the tensors; ROW: of gate g0, unit j. v[g]: the sum
 * of the row that this lane has. */
template <class S, int G>
QN_DEVICE void recurrent(const rnn &a, int64_t row, const S *h, int rows, S v[G])
{
    const int64_t n = a.hidden, plane = n * n;
    S sum[G][QN_RNN_ROWS];
    QN_UNROLL
    for (int g = 0; g < G; g++)
        QN_UNROLL
        for (int i = 0; i < QN_RNN_ROWS; i++)
            sum[g][i] = S(0);
    if (a.dtype == 1)
        dots<S, qn_half, G>((const qn_half *)a.r + row * n, plane, h, n, rows,
                            sum);
    else if (a.dtype == 2)
        dots<S, qn_bf16, G>((const qn_bf16 *)a.r + row * n, plane, h, n, rows,
                            sum);
    else
        dots<S, S, G>((const S *)a.r + row * n, plane, h, n, rows, sum);
    const int lane = (int)threadIdx.x % 32;
    QN_UNROLL
    for (int g = 0; g < G; g++) {
        v[g] = sum[g][0];
        QN_UNROLL
        for (int i = 1; i < QN_RNN_ROWS; i++)
            v[g] = lane == i ? sum[g][i] : v[g];
    }
}

/* What a warp has: unit j of rows b0 to b0 + rows. */
struct place {
    int d, rows;
    int64_t j, b0;
};

QN_DEVICE bool place_of(const rnn &a, int64_t warp, place *p)
{
    const int64_t chunks = (a.batch + QN_RNN_ROWS - 1) / QN_RNN_ROWS;
    if (warp >= a.directions * chunks * a.hidden)
        return false;
    p->j = warp % a.hidden;
    warp /= a.hidden;
    p->b0 = warp % chunks * QN_RNN_ROWS;
    p->d = (int)(warp / chunks);
    const int64_t left = a.batch - p->b0;
    p->rows = left < QN_RNN_ROWS ? (int)left : (int)QN_RNN_ROWS;
    return true;
}

template <class S>
QN_DEVICE void step_end(const rnn &a, int d, int64_t b, int64_t j, int64_t time,
                        S h)
{
    ((S *)a.h[(a.step + 1) & 1])[(d * a.batch + b) * a.hidden + j] = h;
    if (a.y)
        put<S>(a, a.y, y_at(a, time < 0 ? a.step : time, d, b) + j,
               time < 0 ? S(0) : h);
}

template <class S> QN_DEVICE void step_rnn(const rnn &a, const place &p)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t first = (p.d * a.batch + p.b0) * a.hidden;
    const S *h = (const S *)a.h[a.step & 1] + first;
    S v[1];
    recurrent<S, 1>(a, p.d * a.hidden + p.j, h, p.rows, v);
    if (lane >= p.rows)
        return;
    const int64_t b = p.b0 + lane, time = time_of(a, p.d, a.step, b);
    S to = h[lane * a.hidden + p.j];
    if (time >= 0)
        to = clip_act(a, p.d, 0, input<S, 1>(a, time, p.d, b, 0, p.j) + v[0]);
    step_end<S>(a, p.d, b, p.j, time, to);
}

template <class S> QN_DEVICE void step_lstm(const rnn &a, const place &p)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t first = (p.d * a.batch + p.b0) * a.hidden;
    const S *h = (const S *)a.h[a.step & 1] + first;
    S v[4];
    recurrent<S, 4>(a, p.d * 4 * a.hidden + p.j, h, p.rows, v);
    if (lane >= p.rows)
        return;
    const int64_t b = p.b0 + lane, time = time_of(a, p.d, a.step, b);
    const int64_t own = lane * a.hidden + p.j;
    S to = h[own];
    if (time >= 0) {
        S *c = (S *)a.c + first + own;
        QN_UNROLL
        for (int g = 0; g < 4; g++)
            v[g] = input<S, 4>(a, time, p.d, b, g, p.j) + v[g];
        to = lstm_cell(a, p.d, p.j, v[0], v[1], v[2], v[3], c);
    }
    step_end<S>(a, p.d, b, p.j, time, to);
}

/* All of GRU, or its first two gates: update to c, reset times state to rh. */
template <class S> QN_DEVICE void step_gru(const rnn &a, const place &p)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t first = (p.d * a.batch + p.b0) * a.hidden;
    const int64_t row = p.d * 3 * a.hidden + p.j;
    const S *h = (const S *)a.h[a.step & 1] + first;
    S v[3] = { S(0), S(0), S(0) };
    if (a.phase == 0)
        recurrent<S, 3>(a, row, h, p.rows, v);
    else
        recurrent<S, 2>(a, row, h, p.rows, v);
    if (lane >= p.rows)
        return;
    const int64_t b = p.b0 + lane, time = time_of(a, p.d, a.step, b);
    const int64_t own = lane * a.hidden + p.j;
    S to = h[own], update = S(0), reset = S(0);
    if (time >= 0) {
        update = clip_act(a, p.d, 0,
                          input<S, 3>(a, time, p.d, b, 0, p.j) + v[0]);
        reset = clip_act(a, p.d, 0,
                         input<S, 3>(a, time, p.d, b, 1, p.j) + v[1]);
    }
    if (a.phase == 1) {
        ((S *)a.c)[first + own] = update;
        ((S *)a.rh)[first + own] = reset * to;
        return;
    }
    if (time >= 0) {
        S next = input<S, 3>(a, time, p.d, b, 2, p.j) +
                 gru_recurrent(a, p.d, p.j, reset, v[2]);
        to = gru_state(update, clip_act(a, p.d, 1, next), to);
    }
    step_end<S>(a, p.d, b, p.j, time, to);
}

template <class S> QN_DEVICE void step_gru_third(const rnn &a, const place &p)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t first = (p.d * a.batch + p.b0) * a.hidden;
    S v[1];
    recurrent<S, 1>(a, (p.d * 3 + 2) * a.hidden + p.j, (const S *)a.rh + first,
                    p.rows, v);
    if (lane >= p.rows)
        return;
    const int64_t b = p.b0 + lane, time = time_of(a, p.d, a.step, b);
    const int64_t own = first + lane * a.hidden + p.j;
    S to = ((const S *)a.h[a.step & 1])[own];
    if (time >= 0) {
        S next = input<S, 3>(a, time, p.d, b, 2, p.j) + v[0];
        to = gru_state(((const S *)a.c)[own], clip_act(a, p.d, 1, next), to);
    }
    step_end<S>(a, p.d, b, p.j, time, to);
}

template <class S, int KIND> QN_DEVICE void step(const rnn &a)
{
    place p;
    if (!place_of(a, qn_global_index() / 32, &p))
        return;
    if (KIND == RNN)
        step_rnn<S>(a, p);
    else if (KIND == LSTM)
        step_lstm<S>(a, p);
    else if (a.phase == 2)
        step_gru_third<S>(a, p);
    else
        step_gru<S>(a, p);
}

/* ---- state in and out ---- */

template <class S> QN_DEVICE void check_lens(const rnn &a)
{
    if (!a.lens)
        return;
    for (int64_t b = qn_global_index(); b < a.batch; b += qn_global_threads())
        if (a.lens[b] < 0 || a.lens[b] > a.steps)
            qn_device_fault(a.fault, QN_DEVICE_FAULT_SIZE, a.lens[b], a.steps);
}

template <class S> QN_DEVICE void start(const rnn &a)
{
    const int64_t total = a.directions * a.batch * a.hidden;
    check_lens<S>(a);
    for (int64_t i = qn_global_index(); i < total; i += qn_global_threads()) {
        const int64_t j = i % a.hidden, b = i / a.hidden % a.batch;
        const int64_t at = state_at(a, (int)(i / a.hidden / a.batch), b) + j;
        ((S *)a.h[0])[i] = a.h0 ? get<S>(a, a.h0, at) : S(0);
        if (a.c)
            ((S *)a.c)[i] = a.c0 ? get<S>(a, a.c0, at) : S(0);
    }
}

template <class S> QN_DEVICE void end(const rnn &a)
{
    const int64_t total = a.directions * a.batch * a.hidden;
    for (int64_t i = qn_global_index(); i < total; i += qn_global_threads()) {
        const int64_t j = i % a.hidden, b = i / a.hidden % a.batch;
        const int64_t at = state_at(a, (int)(i / a.hidden / a.batch), b) + j;
        if (a.y_h)
            put<S>(a, a.y_h, at, ((const S *)a.h[a.steps & 1])[i]);
        if (a.y_c)
            put<S>(a, a.y_c, at, ((const S *)a.c)[i]);
    }
}

/* ---- a whole layer ---- */

/* Shared memory of a block, in this order; rows: of the batch. */
template <class S> struct block_memory {
    S *r;     /* [H][G H] */
    S *h;     /* [rows][H] */
    S *c;     /* [rows][H]: c of LSTM, reset times state of GRU */
    S *gates; /* [rows][G H] */
};

/* out[i][e] = sum over k of r[k][e] h[i][k], for e in [e0, e1). */
template <class S>
QN_DEVICE void block_dots(const block_memory<S> &m, const S *h, int n, int all,
                          int e0, int e1, int rows)
{
    for (int e = e0 + (int)threadIdx.x; e < e1; e += (int)blockDim.x)
        for (int i0 = 0; i0 < rows; i0 += 4) {
            S sum[4] = { S(0), S(0), S(0), S(0) };
            if (rows - i0 == 1) {
                for (int k = 0; k < n; k++)
                    sum[0] += m.r[k * all + e] * h[i0 * n + k];
            } else {
                for (int k = 0; k < n; k++) {
                    const S w = m.r[k * all + e];
                    QN_UNROLL
                    for (int i = 0; i < 4; i++)
                        sum[i] += w * (i0 + i < rows ? h[(i0 + i) * n + k]
                                                     : S(0));
                }
            }
            QN_UNROLL
            for (int i = 0; i < 4; i++)
                if (i0 + i < rows)
                    m.gates[(i0 + i) * all + e] = sum[i];
        }
}

/* Unit j of row i of the block, at the end of step s. */
template <class S, int KIND>
QN_DEVICE void block_cell(const rnn &a, const block_memory<S> &m, int d,
                          int64_t b0, int64_t s, int i, int j)
{
    const int n = (int)a.hidden;
    const int G = KIND == LSTM ? 4 : KIND == GRU ? 3 : 1;
    const int64_t b = b0 + i, time = time_of(a, d, s, b);
    const S *v = m.gates + i * G * n + j;
    S h = m.h[i * n + j];
    if (time >= 0) {
        if (KIND == RNN) {
            h = clip_act(a, d, 0, input<S, 1>(a, time, d, b, 0, j) + v[0]);
        } else if (KIND == LSTM) {
            h = lstm_cell(a, d, j, input<S, 4>(a, time, d, b, 0, j) + v[0],
                          input<S, 4>(a, time, d, b, 1, j) + v[n],
                          input<S, 4>(a, time, d, b, 2, j) + v[2 * n],
                          input<S, 4>(a, time, d, b, 3, j) + v[3 * n],
                          &m.c[i * n + j]);
        } else {
            /* v[0]: the update gate itself; v[n]: the reset gate */
            S next = input<S, 3>(a, time, d, b, 2, j) +
                     gru_recurrent(a, d, j, v[n], v[2 * n]);
            h = gru_state(v[0], clip_act(a, d, 1, next), h);
        }
        m.h[i * n + j] = h;
    }
    if (a.y)
        put<S>(a, a.y, y_at(a, time < 0 ? s : time, d, b) + j,
               time < 0 ? S(0) : h);
}

/* GRU's first two gates, finished; and what the third multiplies. */
template <class S>
QN_DEVICE void block_gru_early(const rnn &a, const block_memory<S> &m, int d,
                               int64_t b0, int64_t s, int i, int j)
{
    const int n = (int)a.hidden;
    const int64_t b = b0 + i, time = time_of(a, d, s, b);
    S *v = m.gates + i * 3 * n + j;
    S reset = S(0);
    if (time >= 0) {
        v[0] = clip_act(a, d, 0, input<S, 3>(a, time, d, b, 0, j) + v[0]);
        reset = clip_act(a, d, 0, input<S, 3>(a, time, d, b, 1, j) + v[n]);
        v[n] = reset;
    }
    m.c[i * n + j] = reset * m.h[i * n + j];
}

template <class S, int KIND> QN_DEVICE void layer(const rnn &a)
{
    QN_SHARED_DYNAMIC(S, shared);
    const int n = (int)a.hidden;
    const int G = KIND == LSTM ? 4 : KIND == GRU ? 3 : 1;
    const int all = G * n;
    const int64_t chunks = (a.batch + a.rows - 1) / a.rows;
    const int d = (int)(blockIdx.x / chunks);
    const int64_t b0 = blockIdx.x % chunks * a.rows, left = a.batch - b0;
    const int rows = left < a.rows ? (int)left : a.rows;
    block_memory<S> m;
    m.r = shared;
    m.h = m.r + n * all;
    m.c = m.h + a.rows * n;
    m.gates = m.c + a.rows * n;
    if (blockIdx.x == 0 && a.lens)
        for (int64_t b = threadIdx.x; b < a.batch; b += blockDim.x)
            if (a.lens[b] < 0 || a.lens[b] > a.steps)
                qn_device_fault(a.fault, QN_DEVICE_FAULT_SIZE, a.lens[b],
                                a.steps);
    for (int e = (int)threadIdx.x; e < all * n; e += (int)blockDim.x)
        m.r[e % n * all + e / n] = get<S>(a, a.r, (int64_t)d * all * n + e);
    for (int e = (int)threadIdx.x; e < rows * n; e += (int)blockDim.x) {
        const int64_t at = state_at(a, d, b0 + e / n) + e % n;
        m.h[e] = a.h0 ? get<S>(a, a.h0, at) : S(0);
        m.c[e] = a.c0 ? get<S>(a, a.c0, at) : S(0);
    }
    __syncthreads();
    for (int64_t s = 0; s < a.steps; s++) {
        const bool late = KIND == GRU && !a.linear_before_reset;
        block_dots(m, m.h, n, all, 0, late ? 2 * n : all, rows);
        __syncthreads();
        if (KIND == GRU) {
            for (int e = (int)threadIdx.x; e < rows * n; e += (int)blockDim.x)
                block_gru_early<S>(a, m, d, b0, s, e / n, e % n);
            __syncthreads();
        }
        if (late) {
            block_dots(m, m.c, n, all, 2 * n, all, rows);
            __syncthreads();
        }
        for (int e = (int)threadIdx.x; e < rows * n; e += (int)blockDim.x)
            block_cell<S, KIND>(a, m, d, b0, s, e / n, e % n);
        __syncthreads();
    }
    for (int e = (int)threadIdx.x; e < rows * n; e += (int)blockDim.x) {
        const int64_t at = state_at(a, d, b0 + e / n) + e % n;
        if (a.y_h)
            put<S>(a, a.y_h, at, m.h[e]);
        if (a.y_c)
            put<S>(a, a.y_c, at, m.c[e]);
    }
}

/* ---- the kernels ---- */

#define ENDS(name, type)                                                       \
    QN_KERNEL_BOUNDS(rnn_start_##name, 256, struct qn_rnn_args, a)             \
    {                                                                          \
        start<type>(a);                                                        \
    }                                                                          \
    QN_KERNEL_BOUNDS(rnn_end_##name, 256, struct qn_rnn_args, a)               \
    {                                                                          \
        end<type>(a);                                                          \
    }

/* Threads of a layer's block, and for double how many blocks a multiprocessor
 * has to hold: with one, ptxas takes the registers that GRU wants (117), where
 * it would stop at 64 and spill. */
#define LAYER_f32 QN_RNN_LAYER_THREADS
#if defined __CUDACC__
#define LAYER_f64 QN_RNN_LAYER_THREADS / 2, 1
#else
#define LAYER_f64 QN_RNN_LAYER_THREADS / 2
#endif

#define KIND(kind, number, name, type)                                         \
    QN_KERNEL_BOUNDS(step_##kind##_##name, QN_RNN_THREADS, struct qn_rnn_args, \
                     a)                                                        \
    {                                                                          \
        step<type, number>(a);                                                 \
    }                                                                          \
    QN_KERNEL_BOUNDS(layer_##kind##_##name, LAYER_##name, struct qn_rnn_args,  \
                     a)                                                        \
    {                                                                          \
        layer<type, number>(a);                                                \
    }

ENDS(f32, float)
ENDS(f64, double)
KIND(rnn, RNN, f32, float)
KIND(gru, GRU, f32, float)
KIND(lstm, LSTM, f32, float)
KIND(rnn, RNN, f64, double)
KIND(gru, GRU, f64, double)
KIND(lstm, LSTM, f64, double)
