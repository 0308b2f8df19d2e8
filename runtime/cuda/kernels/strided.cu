/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between strided views; runtime/cuda/strided.c chooses among them. */
#include "runtime/cuda/kernels/strided.h"

#include "runtime/cuda/kernels/unit.h"

template <bool WIDE>
QN_DEVICE void locate(const qn_strided_dims &d, int64_t i, int64_t *in,
                              int64_t *out)
{
    QN_ONE_BY_ONE
    for (int k = 0; k < d.rank; k++) {
        int64_t at;
        i = qn_split_index<WIDE>(d.div[k], i, &at);
        *in += at * d.in[k];
        *out += at * d.out[k];
    }
}

/* ---- units ---- */

template <bool WIDE> struct move_unit {
    const qn_strided_args &a;
    template <typename T> __device__ T *one(int64_t i, T *v) const
    {
        int64_t in = 0, out = 0;
        locate<WIDE>(a.d, i, &in, &out);
        *v = ((const T *)a.src)[in];
        return (T *)a.dst + out;
    }
};

QN_KERNEL(qn_strided_units, qn_strided_args, a)
{
    if (a.wide)
        qn_move_units(a.unit, a.n, move_unit<true>{ a });
    else
        qn_move_units(a.unit, a.n, move_unit<false>{ a });
}

/* ---- vectors ---- */

template <typename T, bool WIDE>
QN_DEVICE void gather_vectors(const qn_strided_args &a)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < a.n; i += step) {
        int64_t in = 0, out = 0;
        locate<WIDE>(a.d, i, &in, &out);
        const T *src = (const T *)a.src + in;
        union {
            T e[16 / sizeof(T)];
            qn_unit16 v;
        } u;
QN_UNROLL
        for (int j = 0; j < (int)(16 / sizeof(T)); j++)
            u.e[j] = src[j * a.step];
        ((qn_unit16 *)a.dst)[out] = u.v;
    }
}

template <bool WIDE> QN_DEVICE void vectors(const qn_strided_args &a)
{
    switch (a.unit) {
    case 1: gather_vectors<uint8_t, WIDE>(a); break;
    case 2: gather_vectors<uint16_t, WIDE>(a); break;
    default: gather_vectors<uint32_t, WIDE>(a); break;
    }
}

QN_KERNEL(qn_strided_vectors, qn_strided_args, a)
{
    if (a.wide)
        vectors<true>(a);
    else
        vectors<false>(a);
}

/* ---- tiles ---- */

/* Word j of the PACK columns that PACK words hold as rows of E. */
template <typename E, typename W, int PACK> struct turn {
    __device__ static W column(const W *rows, int j)
    {
        const int bits = 8 * (int)sizeof(E);
        W v = 0;
QN_UNROLL
        for (int i = 0; i < PACK; i++)
            v |= (W)(E)(rows[i] >> (j * bits)) << (i * bits);
        return v;
    }
};

template <typename E, typename W> struct turn<E, W, 1> {
    __device__ static W column(const W *rows, int)
    {
        return rows[0];
    }
};

/*
 * A tile is LANES * PACK elements square; a word holds PACK of them. Loads run
 * along m, stores along n: PACK words of as many rows are turned into PACK
 * words of as many columns. Rows of shared memory are one word longer, which
 * keeps lanes that read down a column in different banks.
 */
template <typename E, typename W, int PACK>
QN_DEVICE void copy_tile(const E *src, E *dst, const qn_tile_args &a,
                                 int64_t m0, int64_t n0, W *tile)
{
    const int pitch = QN_TILE_LANES + 1, x = (int)threadIdx.x;
    const int64_t m = m0 + x * PACK, n = n0 + x * PACK;
QN_UNROLL
    for (int r = (int)threadIdx.y; r < QN_TILE_LANES * PACK; r += QN_TILE_ROWS)
        if (m < a.m && n0 + r < a.n)
            tile[r * pitch + x] = *(const W *)(src + m + (n0 + r) * a.in_n);
    __syncthreads();
QN_UNROLL
    for (int c = (int)threadIdx.y; c < QN_TILE_LANES; c += QN_TILE_ROWS) {
        W rows[PACK];
        if (n >= a.n || m0 + c * PACK >= a.m)
            continue;
QN_UNROLL
        for (int i = 0; i < PACK; i++)
            rows[i] = tile[(x * PACK + i) * pitch + c];
QN_UNROLL
        for (int j = 0; j < PACK; j++)
            *(W *)(dst + (m0 + c * PACK + j) * a.out_m + n) =
                turn<E, W, PACK>::column(rows, j);
    }
    __syncthreads();
}

template <typename E, typename W, int PACK>
QN_DEVICE void copy_tiles(const qn_tile_args &a, void *shared)
{
    const int64_t side = QN_TILE_LANES * PACK;
    for (int64_t t = blockIdx.x; t < a.tiles; t += gridDim.x) {
        int64_t column, row, in = 0, out = 0;
        int64_t rest = qn_split_index<false>(a.tiles_n, t, &column);
        rest = qn_split_index<false>(a.tiles_m, rest, &row);
        locate<false>(a.d, rest, &in, &out);
        copy_tile<E, W, PACK>((const E *)a.src + in, (E *)a.dst + out, a,
                              row * side, column * side, (W *)shared);
    }
}

QN_KERNEL(qn_strided_tiles, qn_tile_args, a)
{
    /* 32 rows of 33 words of 16 bytes, or 128 of 33 of 4 bytes */
    QN_SHARED(qn_unit16, tile, 32 * 33);
    switch (a.unit * 8 + a.pack) {
    case 1 * 8 + 4: copy_tiles<uint8_t, uint32_t, 4>(a, tile); break;
    case 1 * 8 + 1: copy_tiles<uint8_t, uint8_t, 1>(a, tile); break;
    case 2 * 8 + 2: copy_tiles<uint16_t, uint32_t, 2>(a, tile); break;
    case 2 * 8 + 1: copy_tiles<uint16_t, uint16_t, 1>(a, tile); break;
    case 4 * 8 + 1: copy_tiles<uint32_t, uint32_t, 1>(a, tile); break;
    case 8 * 8 + 1: copy_tiles<uint64_t, uint64_t, 1>(a, tile); break;
    default: copy_tiles<qn_unit16, qn_unit16, 1>(a, tile); break;
    }
}
