/* SPDX-License-Identifier: Apache-2.0 */
/* Values made out of nothing: dimensions, one value everywhere, a range; and
 * Dropout's in training mode. */
#include "runtime/cuda/kernels/shape.h"

#include "runtime/cuda/kernels/unit.h"

QN_KERNEL(qn_words, qn_words_args, a)
{
    int64_t i = qn_global_index();
    if (i < a.n)
        a.dst[i] = a.words[i];
}

/* ---- fill ---- */

template <typename T> QN_DEVICE void fill(const qn_fill_args &a, T v)
{
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads())
        ((T *)a.dst)[i] = v;
}

QN_KERNEL(qn_fill, qn_fill_args, a)
{
    qn_unit16 v = { 0, 0 };
    for (int i = 0; i < 8; i++) {
        v.a |= (uint64_t)a.value[i] << (8 * i);
        v.b |= (uint64_t)a.value[i + 8] << (8 * i);
    }
    switch (a.unit) {
    case 1: fill(a, (uint8_t)v.a); break;
    case 2: fill(a, (uint16_t)v.a); break;
    case 4: fill(a, (uint32_t)v.a); break;
    case 8: fill(a, v.a); break;
    default: fill(a, v); break;
    }
    int64_t i = qn_global_index();
    if (i < a.tail)
        ((uint8_t *)a.dst)[a.n * a.unit + i] = a.value[i];
}

/* ---- Range ---- */

template <typename T> QN_DEVICE void range_of_floats(const qn_range_args &a)
{
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads())
        qn_store((T *)a.dst, i,
                 __dadd_rn(a.start, __dmul_rn((double)i, a.delta)));
}

template <typename T> QN_DEVICE void range_of_ints(const qn_range_args &a)
{
    for (int64_t i = qn_global_index(); i < a.n; i += qn_global_threads())
        ((T *)a.dst)[i] = (T)(a.first + (uint64_t)i * a.step);
}

QN_KERNEL(qn_range, qn_range_args, a)
{
    switch (a.dtype) { /* qn_dtype */
    case 1: range_of_floats<float>(a); break;
    case 10: range_of_floats<qn_half>(a); break;
    case 11: range_of_floats<double>(a); break;
    case 16: range_of_floats<qn_bf16>(a); break;
    case 5: range_of_ints<int16_t>(a); break;
    case 6: range_of_ints<int32_t>(a); break;
    default: range_of_ints<int64_t>(a); break;
    }
}

/* ---- Dropout ---- */

/*
 * MT19937, as on the cpu: numbers depend on the seed and an element's position
 * only. One block: word i of the next state needs words i, i + 1 and i + 397,
 * so that 227 words at once depend on nothing of their own round.
 *
 * M. Matsumoto, T. Nishimura: Mersenne Twister, ACM TOMACS 8 (1998).
 */
enum { MT_N = 624, MT_M = 397, MT_ROUND = MT_N - MT_M };

QN_DEVICE void next_state(uint32_t *s)
{
    for (int from = 0; from < MT_N; from += MT_ROUND) {
        int i = from + (int)threadIdx.x;
        bool mine = (int)threadIdx.x < MT_ROUND && i < MT_N;
        uint32_t v = 0;
        if (mine) {
            uint32_t y =
                (s[i] & 0x80000000u) | (s[(i + 1) % MT_N] & 0x7fffffffu);
            v = s[(i + MT_M) % MT_N] ^ (y >> 1) ^ ((y & 1u) ? 0x9908b0dfu : 0);
        }
        __syncthreads();
        if (mine)
            s[i] = v;
        __syncthreads();
    }
}

QN_DEVICE uint32_t temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

template <typename T>
QN_DEVICE void scale_kept(const qn_dropout_args &a, int64_t i, bool keep)
{
    double v = keep ? (double)qn_load((const T *)a.src, i) * a.scale : 0.0;
    qn_store((T *)a.dst, i, v);
}

QN_DEVICE void drop_one(const qn_dropout_args &a, int64_t i, bool keep)
{
    if (a.mask)
        a.mask[i] = keep;
    if (!a.dst)
        return;
    switch (a.dtype) {
    case 1: scale_kept<float>(a, i, keep); break;
    case 10: scale_kept<qn_half>(a, i, keep); break;
    case 11: scale_kept<double>(a, i, keep); break;
    default: scale_kept<qn_bf16>(a, i, keep); break;
    }
}

QN_KERNEL_BOUNDS(qn_dropout, QN_DROP_THREADS, qn_dropout_args, a)
{
    QN_SHARED(uint32_t, s, MT_N);
    if (threadIdx.x == 0) {
        s[0] = a.seed;
        for (uint32_t i = 1; i < MT_N; i++)
            s[i] = 1812433253u * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
    }
    __syncthreads();
    for (int64_t base = 0; base < a.n; base += MT_N / 2) {
        next_state(s);
        for (int i = (int)threadIdx.x; i < MT_N / 2; i += QN_DROP_THREADS) {
            uint32_t high = temper(s[2 * i]) >> 5;
            uint32_t low = temper(s[2 * i + 1]) >> 6;
            double u = (high * 67108864.0 + low) / 9007199254740992.0;
            if (base + i < a.n)
                drop_one(a, base + i, u >= a.ratio);
        }
        __syncthreads();
    }
}
