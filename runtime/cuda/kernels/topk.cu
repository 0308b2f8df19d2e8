/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TopK: a block per row. Each element becomes an unsigned key that orders like
 * its value (NaN above all, -0 as 0), turned round where the largest are
 * wanted; a tie goes to the lower index.
 *
 * A short row is sorted whole. Of a longer one the k-th entry is found first, by
 * its key's bytes from the top (each pass counts how often a byte occurs among
 * the elements that agree so far; then the same for the index, among equal
 * keys); what is not behind it, k entries, is gathered in any order and sorted.
 * Sorting is bitonic, in shared memory up to 2,048 entries.
 */
#include "runtime/cuda/kernels/topk.h"

#include "runtime/cuda/kernels/number.h"

/* ---- keys ---- */

template <class T> struct key_of;

QN_DEVICE uint64_t key_f32(float v)
{
    uint32_t u = v != v ? 0x7fc00000u : __float_as_uint(v + 0.0f);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

template <> struct key_of<float> {
    enum { bits = 32 };
    QN_INSIDE uint64_t get(float v)
    {
        return key_f32(v);
    }
};
template <> struct key_of<qn_half> {
    enum { bits = 32 };
    QN_INSIDE uint64_t get(qn_half v)
    {
        return key_f32(qn_widen(v));
    }
};
template <> struct key_of<qn_bf16> {
    enum { bits = 32 };
    QN_INSIDE uint64_t get(qn_bf16 v)
    {
        return key_f32(qn_widen(v));
    }
};
template <> struct key_of<double> {
    enum { bits = 64 };
    QN_INSIDE uint64_t get(double v)
    {
        uint64_t u = v != v ? (uint64_t)0x7ff8 << 48
                            : (uint64_t)__double_as_longlong(v + 0.0);
        return u >> 63 ? ~u : u | (uint64_t)1 << 63;
    }
};

#define KEY_INT(T, top, n)                                                     \
    template <> struct key_of<T> {                                             \
        enum { bits = n };                                                     \
        QN_INSIDE uint64_t get(T v)                                            \
        {                                                                      \
            return ((uint64_t)v ^ (uint64_t)(top)) &                           \
                   (~(uint64_t)0 >> (64 - n));                                 \
        }                                                                      \
    };
KEY_INT(int8_t, 1u << 7, 8)
KEY_INT(int16_t, 1u << 15, 16)
KEY_INT(int32_t, 1u << 31, 32)
KEY_INT(int64_t, (uint64_t)1 << 63, 64)
KEY_INT(uint8_t, 0, 8)
KEY_INT(uint16_t, 0, 16)
KEY_INT(uint32_t, 0, 32)
KEY_INT(uint64_t, 0, 64)

/* ---- sorting ---- */

QN_DEVICE bool behind(const qn_topk_entry &a, const qn_topk_entry &b)
{
    return a.key != b.key ? a.key > b.key
                          : (uint64_t)a.index > (uint64_t)b.index;
}

/* n: a power of two. All threads of the block; ends with a barrier. */
QN_DEVICE void sort(qn_topk_entry *e, int64_t n)
{
    __syncthreads();
    for (int64_t size = 2; size <= n; size *= 2)
        for (int64_t step = size / 2; step; step /= 2) {
            for (int64_t t = threadIdx.x; t < n / 2; t += blockDim.x) {
                int64_t i = (t & ~(step - 1)) * 2 | (t & (step - 1));
                qn_topk_entry a = e[i], b = e[i + step];
                if (behind(a, b) == ((i & size) == 0)) {
                    e[i] = b;
                    e[i + step] = a;
                }
            }
            __syncthreads();
        }
}

/* ---- selection ---- */

/* What is known of the k-th entry. */
struct cut {
    uint64_t key, key_mask; /* bits of its key found so far */
    uint64_t index, index_mask;
    int64_t left; /* how many of those that agree belong to the k */
    int64_t same; /* how many agree */
};

/* Counts of one byte among elements that agree with `c`, then the byte of the
 * k-th. `count`: [256] shared. */
template <class T>
QN_DEVICE void narrow(const struct qn_topk_args &a, const T *x, cut &c,
                      bool by_index, int shift, unsigned *count,
                      int64_t *shared)
{
    for (int i = (int)threadIdx.x; i < 256; i += (int)blockDim.x)
        count[i] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
        uint64_t key = (key_of<T>::get(x[i * a.inner]) ^ a.flip) &
                       (~(uint64_t)0 >> (64 - key_of<T>::bits));
        if ((key & c.key_mask) != c.key ||
            ((uint64_t)i & c.index_mask) != c.index)
            continue;
        atomicAdd(&count[((by_index ? (uint64_t)i : key) >> shift) & 255], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int64_t left = c.left;
        int byte = 0;
        for (; byte < 255 && left > (int64_t)count[byte]; byte++)
            left -= count[byte];
        shared[0] = byte;
        shared[1] = left;
        shared[2] = count[byte];
    }
    __syncthreads();
    uint64_t byte = (uint64_t)shared[0] << shift;
    c.left = shared[1];
    c.same = shared[2];
    (by_index ? c.index : c.key) |= byte;
    (by_index ? c.index_mask : c.key_mask) |= (uint64_t)255 << shift;
    __syncthreads();
}

template <class T>
QN_DEVICE cut find_cut(const struct qn_topk_args &a, const T *x,
                       unsigned *count, int64_t *shared)
{
    cut c = { 0, 0, 0, 0, a.k, a.n };
    for (int shift = key_of<T>::bits - 8; shift >= 0; shift -= 8)
        if (c.left < c.same)
            narrow<T>(a, x, c, false, shift, count, shared);
    int shift = 0;
    while (shift < 56 && (a.n - 1) >> (shift + 8))
        shift += 8;
    for (; shift >= 0; shift -= 8)
        if (c.left < c.same)
            narrow<T>(a, x, c, true, shift, count, shared);
    return c;
}

/* ---- rows ---- */

template <class T>
QN_DEVICE void row(const struct qn_topk_args &a, int64_t r, qn_topk_entry *e,
                   unsigned *count, int64_t *shared)
{
    int64_t column, outer = qn_fastdiv_divmod(&a.by_inner, r, &column);
    const T *x = (const T *)a.x + outer * a.n * a.inner + column;
    cut c = { 0, 0, 0, 0, a.k, a.k };
    if (a.select)
        c = find_cut<T>(a, x, count, shared);
    if (threadIdx.x == 0)
        count[0] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
        uint64_t key = (key_of<T>::get(x[i * a.inner]) ^ a.flip) &
                       (~(uint64_t)0 >> (64 - key_of<T>::bits));
        uint64_t high = key & c.key_mask;
        bool in = high < c.key ||
                  (high == c.key && ((uint64_t)i & c.index_mask) <= c.index);
        int64_t at = i;
        if (a.select && in)
            at = (int64_t)atomicAdd(&count[0], 1u);
        if (!a.select || (in && at < a.slots)) {
            e[at].key = key;
            e[at].index = i;
        }
    }
    for (int64_t i = (a.select ? a.k : a.n) + threadIdx.x; i < a.slots;
         i += blockDim.x) {
        e[i].key = ~(uint64_t)0;
        e[i].index = -1; /* behind all others */
    }
    sort(e, a.slots);
    T *values = (T *)a.values + outer * a.k * a.inner + column;
    int64_t *indices = a.indices + outer * a.k * a.inner + column;
    for (int64_t i = threadIdx.x; i < a.k; i += blockDim.x) {
        values[i * a.inner] = x[e[i].index * a.inner];
        indices[i * a.inner] = e[i].index;
    }
    __syncthreads();
}

template <class T> QN_DEVICE void topk(const struct qn_topk_args &a)
{
    QN_SHARED(qn_topk_entry, near, QN_TOPK_SHARED);
    QN_SHARED(unsigned, count, 256);
    QN_SHARED(int64_t, shared, 3);
    for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x)
        row<T>(a, r,
               a.slots <= QN_TOPK_SHARED ? near
                                         : a.entries + blockIdx.x * a.slots,
               count, shared);
}

#define DEFINE(name)                                                           \
    QN_KERNEL(topk_##name, struct qn_topk_args, a)                             \
    {                                                                          \
        topk<qn_num_##name::M>(a);                                             \
    }

QN_EACH_FLOAT(DEFINE)
QN_EACH_INT(DEFINE)
