/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot-product attention without the matrix of scores (Dao and others,
 * FlashAttention, 2022): a block takes 64 queries of one head and walks the
 * keys 64 at a time (32 where rows are longer than 64). Softmax is kept online:
 * with a larger maximum, the sum and the result so far are scaled down.
 *
 *   shared   Q [64][depth]   K, then V [keys][depth]   P [64][keys], all float
 *   thread   4 queries (t / 16) x every 16th key, 4 queries x columns of y
 *
 * The 16 threads of a query are half a warp: maxima, sums and P need no
 * barrier. Rows are padded by four floats, so that 16-byte reads of eight
 * neighbouring rows hit different banks. Products and sums are in float; half
 * and bfloat16 come here on cards before sm_80, see attention_mma.cu.
 */
#include "runtime/cuda/kernels/attention.h"

#include "runtime/cuda/kernels/number.h"

enum { ROWS = QN_ATTENTION_ROWS, LANES = 16, EACH = 4 };

/* Rows [first, first + rows) of src [n, width] to shared, zeros around. */
template <class N, int DEPTH>
QN_DEVICE void load_rows(float *to, const typename N::M *src, int64_t first,
                         int rows, int64_t n, int width)
{
    enum { each = qn_vec<typename N::M>::N, packs = DEPTH / each };
    bool aligned = width % each == 0 && qn_aligned16(src);
    for (int p = (int)threadIdx.x; p < rows * packs;
         p += QN_ATTENTION_THREADS) {
        int row = p / packs, d = p % packs * each;
        float v[each];
        const typename N::M *from = src + (first + row) * width + d;
        if (first + row < n && d < width && aligned) {
            qn_get_pack<N>(from, v);
        } else {
#pragma unroll
            for (int i = 0; i < each; i++)
                v[i] = first + row < n && d + i < width ? N::get(from[i]) : 0;
        }
#pragma unroll
        for (int i = 0; i < each; i++)
            to[row * QN_ATTENTION_PITCH(DEPTH) + d + i] = v[i];
    }
}

QN_DEVICE float4 four(const float *p)
{
    return *reinterpret_cast<const float4 *>(p);
}

QN_DEVICE float dot(float4 a, float4 b, float s)
{
    s += a.x * b.x;
    s += a.y * b.y;
    s += a.z * b.z;
    s += a.w * b.w;
    return s;
}

/* Over the 16 threads of a query. */
template <class Op> QN_DEVICE float over_row(float v, Op op)
{
#pragma unroll
    for (int lanes = LANES / 2; lanes; lanes /= 2)
        v = op(v, qn_shuffle_xor(v, lanes));
    return v;
}

template <class N, int DEPTH>
QN_DEVICE void attend(const struct qn_attention_args &a, int64_t head,
                      int64_t first)
{
    typedef typename N::M M;
    enum {
        KEYS = QN_ATTENTION_KEYS(DEPTH),
        PITCH = QN_ATTENTION_PITCH(DEPTH),
        P_PITCH = QN_ATTENTION_PITCH(KEYS),
        COLS = KEYS / LANES, /* keys of a thread */
        OUT = DEPTH / LANES  /* columns of y of a thread */
    };
    QN_SHARED_DYNAMIC(float, q);
    float *kv = q + ROWS * PITCH, *p = kv + KEYS * PITCH;
    int ty = (int)threadIdx.x / LANES, tx = (int)threadIdx.x % LANES;
    int64_t group = head / a.per_group;
    const M *keys = (const M *)a.k + group * a.keys * a.depth;
    const M *values = (const M *)a.v + group * a.keys * a.values;
    const M *mask = (const M *)a.mask;
    if (mask)
        mask += head / a.heads_batch * a.mask_stride[0] +
                head % a.heads_batch * a.mask_stride[1];
    float max[EACH], sum[EACH], y[EACH][OUT];
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        max[r] = -INFINITY;
        sum[r] = 0;
#pragma unroll
        for (int c = 0; c < OUT; c++)
            y[r][c] = 0;
    }
    load_rows<N, DEPTH>(q, (const M *)a.q + head * a.queries * a.depth, first,
                        ROWS, a.queries, a.depth);
    /* keys from here on nobody in the block sees */
    int64_t end = a.keys, shift = a.keys - a.queries;
    if (a.causal && first + ROWS + shift < end)
        end = first + ROWS + shift;
    for (int64_t at = 0; at < end; at += KEYS) {
        __syncthreads();
        load_rows<N, DEPTH>(kv, keys, at, KEYS, a.keys, a.depth);
        __syncthreads();
        float s[EACH][COLS];
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int c = 0; c < COLS; c++)
                s[r][c] = 0;
#pragma unroll 2
        for (int d = 0; d < DEPTH; d += 4) {
            float4 qd[EACH];
#pragma unroll
            for (int r = 0; r < EACH; r++)
                qd[r] = four(q + (ty * EACH + r) * PITCH + d);
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                float4 kd = four(kv + (tx + c * LANES) * PITCH + d);
#pragma unroll
                for (int r = 0; r < EACH; r++)
                    s[r][c] = dot(qd[r], kd, s[r][c]);
            }
        }
#pragma unroll
        for (int r = 0; r < EACH; r++) {
            int64_t i = first + ty * EACH + r;
            float most = max[r];
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                int64_t j = at + tx + c * LANES;
                bool seen = i < a.queries && j < a.keys &&
                            (!a.causal || j <= i + shift);
                float v = s[r][c] * a.scale;
                if (mask && seen)
                    v += N::get(mask[i * a.mask_stride[2] +
                                     j * a.mask_stride[3]]);
                s[r][c] = seen ? v : -INFINITY;
                most = s[r][c] > most ? s[r][c] : most;
            }
            most = over_row(most, qn_op_max());
            float part = 0;
#pragma unroll
            for (int c = 0; c < COLS; c++) {
                float e = s[r][c] == -INFINITY ? 0 : expf(s[r][c] - most);
                part += e;
                p[(ty * EACH + r) * P_PITCH + tx + c * LANES] = e;
            }
            float old = most > max[r] ? expf(max[r] - most) : 1.0f;
            max[r] = most;
            sum[r] = sum[r] * old + over_row(part, qn_op_sum());
#pragma unroll
            for (int c = 0; c < OUT; c++)
                y[r][c] *= old;
        }
        __syncthreads();
        load_rows<N, DEPTH>(kv, values, at, KEYS, a.keys, a.values);
        __syncthreads();
#pragma unroll 2
        for (int j = 0; j < KEYS; j++) {
            float w[EACH];
#pragma unroll
            for (int r = 0; r < EACH; r++)
                w[r] = p[(ty * EACH + r) * P_PITCH + j];
            float v[OUT];
            if (OUT >= 4) {
#pragma unroll
                for (int c = 0; c + 3 < OUT; c += 4) {
                    float4 f = four(kv + j * PITCH + tx * 4 + c * LANES);
                    v[c] = f.x;
                    v[c + 1] = f.y;
                    v[c + 2] = f.z;
                    v[c + 3] = f.w;
                }
            } else {
#pragma unroll
                for (int c = 0; c < OUT; c++)
                    v[c] = kv[j * PITCH + tx * OUT + c];
            }
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int c = 0; c < OUT; c++)
                    y[r][c] += w[r] * v[c];
        }
    }
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        int64_t i = first + ty * EACH + r;
        /* no keys at all: a sum of nothing */
        float by = a.keys ? 1 / sum[r] : 0;
#pragma unroll
        for (int c = 0; c < OUT; c++) {
            int e = OUT >= 4 ? tx * 4 + c / 4 * 4 * LANES + c % 4
                             : tx * OUT + c;
            if (i < a.queries && e < a.values)
                ((M *)a.y)[(head * a.queries + i) * a.values + e] =
                    N::put(y[r][c] * by);
        }
    }
}

template <class N, int DEPTH>
QN_DEVICE void blocks(const struct qn_attention_args &a)
{
    int64_t tiles = (a.queries + ROWS - 1) / ROWS;
    for (int64_t b = blockIdx.x; b < tiles * a.heads; b += gridDim.x) {
        attend<N, DEPTH>(a, b / tiles, b % tiles * ROWS);
        __syncthreads();
    }
}

#define DEFINE(name)                                                           \
    QN_KERNEL_BOUNDS(attention_32_##name, QN_ATTENTION_THREADS,                \
                     struct qn_attention_args, a)                              \
    {                                                                          \
        blocks<qn_num_##name, 32>(a);                                          \
    }                                                                          \
    QN_KERNEL_BOUNDS(attention_64_##name, QN_ATTENTION_THREADS,                \
                     struct qn_attention_args, a)                              \
    {                                                                          \
        blocks<qn_num_##name, 64>(a);                                          \
    }                                                                          \
    QN_KERNEL_BOUNDS(attention_128_##name, QN_ATTENTION_THREADS,               \
                     struct qn_attention_args, a)                              \
    {                                                                          \
        blocks<qn_num_##name, 128>(a);                                         \
    }

DEFINE(f32)
DEFINE(f16)
DEFINE(bf16)
