/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scaled dot-product attention of half and bfloat16 on tensor cores: the
 * algorithm of attention.cu in products of 16 x 8 x 16 (mma.sync, sm_80 on).
 *
 *   block   4 warps, 64 queries of one head; a warp has 16 of them
 *   step    64 keys: K as [64][depth] in shared memory, V as [32][depth] words
 *           that hold a value of two neighbouring keys each
 *
 * Lane 4 g + t holds of a product's operands (PTX ISA, "mma.m16n8k16"):
 *
 *   A  rows g, g + 8        columns 2 t, 2 t + 1, and 8 more
 *   B  rows 2 t, 2 t + 1, and 8 more        column g
 *   C  rows g, g + 8        columns 2 t, 2 t + 1
 *
 * so what comes out of one product as C goes into the next as A. Rows are padded
 * by 8 elements (K) or words (V): the 32 words of an operand lie in 32 banks.
 * Probabilities are rounded to the element type; sums are in float.
 */
#include "runtime/cuda/kernels/attention.h"

#include "runtime/cuda/kernels/number.h"

enum { THREADS = QN_ATTENTION_MMA_THREADS, ROWS = 64, KEYS = 64 };

template <class N> QN_DEVICE uint32_t two(float low, float high)
{
    return (uint32_t)N::put(low).bits | (uint32_t)N::put(high).bits << 16;
}

/* ---- c += a b ---- */

#if defined __CUDACC__

template <class N>
QN_DEVICE void product(float *c, const uint32_t *a, uint32_t b0, uint32_t b1);

#if __CUDA_ARCH__ >= 800
#define MMA(name, type)                                                        \
    template <>                                                                \
    QN_DEVICE void product<qn_num_##name>(float *c, const uint32_t *a,         \
                                          uint32_t b0, uint32_t b1)            \
    {                                                                          \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type             \
            ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "              \
            "{%0, %1, %2, %3};"                                                \
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));   \
    }
#else /* never launched: attention.c asks for the capability */
#define MMA(name, type)                                                        \
    template <>                                                                \
    QN_DEVICE void product<qn_num_##name>(float *, const uint32_t *, uint32_t, \
                                          uint32_t)                            \
    {                                                                          \
    }
#endif
MMA(f16, "f16")
MMA(bf16, "bf16")

#else

/* By the table above, from the lanes that hold the operands. */
template <class N> static float element(uint32_t word, int high)
{
    typename N::M m = { (uint16_t)(high ? word >> 16 : word) };
    return N::get(m);
}

template <class N>
static void product(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    int lane = (int)threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    for (int k = 0; k < 8; k++) { /* pairs of the inner dimension */
        int far = k >= 4, from = k & 3;
        uint32_t row[2], column[2];
        for (int i = 0; i < 2; i++) {
            row[i] = __shfl_sync(0xffffffffu, a[i + 2 * far], 4 * g + from);
            column[i] = __shfl_sync(0xffffffffu, far ? b1 : b0,
                                    4 * (2 * t + i) + from);
        }
        for (int i = 0; i < 4; i++)
            for (int high = 0; high < 2; high++)
                c[i] += element<N>(row[i / 2], high) *
                        element<N>(column[i % 2], high);
    }
}

#endif

/* ---- tiles ---- */

/* 16 bytes of a row, zeros outside of [n, width]. */
template <class N>
QN_DEVICE qn_vec<typename N::M> piece(const typename N::M *src, int64_t row,
                                      int d, int64_t n, int width, bool aligned)
{
    qn_vec<typename N::M> v;
    const typename N::M *from = src + row * width + d;
    if (row < n && d < width && aligned)
        return qn_vec_load(from);
#pragma unroll
    for (int i = 0; i < 8; i++)
        v.v[i] = row < n && d + i < width ? from[i] : N::put(0.0f);
    return v;
}

template <class N, int DEPTH>
QN_DEVICE void load_keys(typename N::M *to, const typename N::M *src,
                         int64_t first, int64_t n, int width)
{
    bool aligned = width % 8 == 0 && qn_aligned16(src);
    for (int p = (int)threadIdx.x; p < KEYS * (DEPTH / 8); p += THREADS) {
        int row = p / (DEPTH / 8), d = p % (DEPTH / 8) * 8;
        qn_vec_store(to + row * (DEPTH + 8) + d,
                     piece<N>(src, first + row, d, n, width, aligned));
    }
}

template <class N, int DEPTH>
QN_DEVICE void load_values(uint32_t *to, const typename N::M *src,
                           int64_t first, int64_t n, int width)
{
    bool aligned = width % 8 == 0 && qn_aligned16(src);
    for (int p = (int)threadIdx.x; p < KEYS / 2 * (DEPTH / 8); p += THREADS) {
        int pair = p / (DEPTH / 8), d = p % (DEPTH / 8) * 8;
        int64_t row = first + 2 * pair;
        qn_vec<typename N::M> low = piece<N>(src, row, d, n, width, aligned);
        qn_vec<typename N::M> high =
            piece<N>(src, row + 1, d, n, width, aligned);
        qn_vec<uint32_t> words[2];
#pragma unroll
        for (int i = 0; i < 8; i++)
            words[i / 4].v[i % 4] =
                (uint32_t)low.v[i].bits | (uint32_t)high.v[i].bits << 16;
        qn_vec_store(to + pair * (DEPTH + 8) + d, words[0]);
        qn_vec_store(to + pair * (DEPTH + 8) + d + 4, words[1]);
    }
}

/* Elements d, d + 1 of a query. */
template <class N>
QN_DEVICE uint32_t query_word(const struct qn_attention_args &a,
                              const typename N::M *q, int64_t i, int d)
{
    float v[2];
    for (int j = 0; j < 2; j++)
        v[j] = i < a.queries && d + j < a.depth
                   ? N::get(q[i * a.depth + d + j])
                   : 0;
    return two<N>(v[0], v[1]);
}

/* Over the four lanes of a row. */
template <class Op> QN_DEVICE float over_row(float v, Op op)
{
    v = op(v, qn_shuffle_xor(v, 1));
    return op(v, qn_shuffle_xor(v, 2));
}

/* Scores of keys `at` on, scaled and masked: -inf where nobody looks. */
template <class N>
QN_DEVICE void finish_scores(const struct qn_attention_args &a,
                             const typename N::M *mask, int64_t row,
                             int64_t at, int t, float (*s)[4])
{
    int64_t shift = a.keys - a.queries;
#pragma unroll
    for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            int64_t i = row + e / 2 * 8, j = at + n * 8 + t * 2 + e % 2;
            bool seen = i < a.queries && j < a.keys &&
                        (!a.causal || j <= i + shift);
            float v = s[n][e] * a.scale;
            if (mask && seen)
                v += N::get(
                    mask[i * a.mask_stride[2] + j * a.mask_stride[3]]);
            s[n][e] = seen ? v : -INFINITY;
        }
}

template <class N, int DEPTH>
QN_DEVICE void attend(const struct qn_attention_args &a, int64_t head,
                      int64_t first, typename N::M *ks, uint32_t *vs)
{
    typedef typename N::M M;
    enum { PITCH = DEPTH + 8, TILES = DEPTH / 8, STEPS = DEPTH / 16 };
    int lane = (int)threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    int64_t row = first + (int)threadIdx.x / 32 * 16 + g;
    int64_t group = head / a.per_group;
    const M *q = (const M *)a.q + head * a.queries * a.depth;
    const M *keys = (const M *)a.k + group * a.keys * a.depth;
    const M *values = (const M *)a.v + group * a.keys * a.values;
    const M *mask = (const M *)a.mask;
    if (mask)
        mask += head / a.heads_batch * a.mask_stride[0] +
                head % a.heads_batch * a.mask_stride[1];
    uint32_t qs[STEPS][4];
    float y[TILES][4], max[2] = { -INFINITY, -INFINITY }, sum[2] = { 0, 0 };
#pragma unroll
    for (int k = 0; k < STEPS; k++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            qs[k][i] = query_word<N>(a, q, row + i % 2 * 8,
                                     k * 16 + t * 2 + i / 2 * 8);
#pragma unroll
    for (int n = 0; n < TILES; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            y[n][e] = 0;
    /* keys from here on nobody in the block sees */
    int64_t end = a.keys;
    if (a.causal && first + ROWS + a.keys - a.queries < end)
        end = first + ROWS + a.keys - a.queries;
    for (int64_t at = 0; at < end; at += KEYS) {
        float s[KEYS / 8][4];
        __syncthreads();
        load_keys<N, DEPTH>(ks, keys, at, a.keys, a.depth);
        load_values<N, DEPTH>(vs, values, at, a.keys, a.values);
        __syncthreads();
#pragma unroll
        for (int n = 0; n < KEYS / 8; n++) {
            s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
            const uint32_t *k32 = reinterpret_cast<const uint32_t *>(
                ks + (n * 8 + g) * PITCH + t * 2);
#pragma unroll
            for (int k = 0; k < STEPS; k++)
                product<N>(s[n], qs[k], k32[k * 8], k32[k * 8 + 4]);
        }
        finish_scores<N>(a, mask, row, at, t, s);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float most = max[r], part = 0;
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++)
                    most = s[n][e] > most ? s[n][e] : most;
            most = over_row(most, qn_op_max());
#pragma unroll
            for (int n = 0; n < KEYS / 8; n++)
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; e++) {
                    s[n][e] =
                        s[n][e] == -INFINITY ? 0 : expf(s[n][e] - most);
                    part += s[n][e];
                }
            float old = most > max[r] ? expf(max[r] - most) : 1.0f;
            max[r] = most;
            sum[r] = sum[r] * old + over_row(part, qn_op_sum());
#pragma unroll
            for (int n = 0; n < TILES; n++) {
                y[n][2 * r] *= old;
                y[n][2 * r + 1] *= old;
            }
        }
#pragma unroll
        for (int k = 0; k < KEYS / 16; k++) {
            uint32_t p[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *from = &s[2 * k + i / 2][i % 2 * 2];
                p[i] = two<N>(from[0], from[1]);
            }
            const uint32_t *v = vs + (k * 8 + t) * PITCH + g;
#pragma unroll
            for (int n = 0; n < TILES; n++)
                product<N>(y[n], p, v[n * 8], v[n * 8 + 4 * PITCH]);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int64_t i = row + r * 8;
        /* no keys at all: a sum of nothing */
        float by = a.keys ? 1 / sum[r] : 0;
        M *to = (M *)a.y + (head * a.queries + i) * a.values;
#pragma unroll
        for (int n = 0; n < TILES; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                int at = n * 8 + t * 2 + e;
                if (i < a.queries && at < a.values)
                    to[at] = N::put(y[n][2 * r + e] * by);
            }
    }
}

template <class N, int DEPTH>
QN_DEVICE void blocks(const struct qn_attention_args &a)
{
    QN_SHARED(qn_vec<typename N::M>, ks, KEYS * (DEPTH + 8) / 8);
    QN_SHARED(qn_vec<uint32_t>, vs, KEYS / 2 * (DEPTH + 8) / 4);
    int64_t tiles = (a.queries + ROWS - 1) / ROWS;
    for (int64_t b = blockIdx.x; b < tiles * a.heads; b += gridDim.x) {
        attend<N, DEPTH>(a, b / tiles, b % tiles * ROWS,
                         reinterpret_cast<typename N::M *>(ks),
                         reinterpret_cast<uint32_t *>(vs));
        __syncthreads();
    }
}

#define DEFINE(name)                                                           \
    QN_KERNEL_BOUNDS(attention_mma_32_##name, QN_ATTENTION_MMA_THREADS,        \
                     struct qn_attention_args, a)                              \
    {                                                                          \
        blocks<qn_num_##name, 32>(a);                                          \
    }                                                                          \
    QN_KERNEL_BOUNDS(attention_mma_64_##name, QN_ATTENTION_MMA_THREADS,        \
                     struct qn_attention_args, a)                              \
    {                                                                          \
        blocks<qn_num_##name, 64>(a);                                          \
    }                                                                          \
    QN_KERNEL_BOUNDS(attention_mma_128_##name, QN_ATTENTION_MMA_THREADS,       \
                     struct qn_attention_args, a)                              \
    {                                                                          \
        blocks<qn_num_##name, 128>(a);                                         \
    }

DEFINE(f16)
DEFINE(bf16)
