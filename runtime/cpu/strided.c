/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop nest is reduced first: dimensions that continue each other are one,
 * and innermost elements that are contiguous in both views are one wider unit.
 * What is left decides the inner loop:
 *
 *   RUN    a long unit: memcpy, in pieces
 *   UNITS  short units at two strides; strides of 0 and 1 come out as fills and
 *          widening copies
 *   TILE   the output runs along one dimension, the input along another: tiles
 *          of 32 x 16 units, so that each cache line is used while it is there
 *
 * All other dimensions are counted by an odometer. Work is split over (odometer
 * position, block of the inner loop), by shape only.
 */
#include "runtime/cpu/strided.h"

#include <string.h>

enum {
    PIECE_BYTES = 128 * 1024, /* about 20 us of copying on one core */
    RUN_BYTES = 4096,         /* from here on one memcpy a unit is cheap */
    TILE_SIDE = 32,  /* rows of a piece */
    TILE_STRIP = 16, /* 64 bytes of 32-bit elements: one line of the output */
    TILE_MIN = 8 /* below, plain strided reads split better over threads */
};

typedef struct unit16 {
    uint64_t a, b;
} unit16;

typedef struct copy_job {
    int rank; /* odometer dimensions, innermost last; strides in bytes */
    int64_t dims[QN_STRIDED_RANK], in[QN_STRIDED_RANK], out[QN_STRIDED_RANK];
    size_t unit;
    int64_t n, in_n, out_n; /* inner loop: count, strides in bytes */
    int64_t m, in_m, out_m; /* TILE: the dimension along which input runs */
    int64_t block, blocks;  /* split of the inner loop */
    void (*inner)(const struct copy_job *j, const char *in, char *out,
                  int64_t from, int64_t to);
    const char *src;
    char *dst;
} copy_job;

void qn_strided_add(qn_strided *s, int64_t dim, int64_t in, int64_t out)
{
    int last = s->rank - 1;
    if (dim == 1)
        return;
    if (last >= 0 && dim > 0 && s->in[last] == in * dim &&
        s->out[last] == out * dim) {
        s->dims[last] *= dim;
        s->in[last] = in;
        s->out[last] = out;
        return;
    }
    s->dims[s->rank] = dim;
    s->in[s->rank] = in;
    s->out[s->rank] = out;
    s->rank++;
}

/* ---- inner loops; [from, to) counts bytes, units or tile rows ---- */

static void run_inner(const copy_job *j, const char *in, char *out,
                      int64_t from, int64_t to)
{
    (void)j;
    memcpy(out + from, in + from, (size_t)(to - from));
}

static void any_inner(const copy_job *j, const char *in, char *out,
                      int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        memcpy(out + i * j->out_n, in + i * j->in_n, j->unit);
}

/* memcpy of a constant size is one load or store, aligned or not */
#define FILL(type)                                                             \
    static inline void fill_##type(char *out, const char *value, int64_t n)    \
    {                                                                          \
        type v;                                                                \
        memcpy(&v, value, sizeof v);                                           \
        for (int64_t i = 0; i < n; i++)                                        \
            memcpy(out + i * (int64_t)sizeof v, &v, sizeof v);                 \
    }

FILL(uint8_t)
FILL(uint16_t)
FILL(uint32_t)
FILL(uint64_t)
FILL(unit16)

static void fill_few(char *out, const char *value, size_t size, int64_t n)
{
    switch (size) {
    case 1: fill_uint8_t(out, value, n); break;
    case 2: fill_uint16_t(out, value, n); break;
    case 4: fill_uint32_t(out, value, n); break;
    case 8: fill_uint64_t(out, value, n); break;
    default: fill_unit16(out, value, n); break;
    }
}

/* Long fills store a pattern of 64 bytes, whose period is an element. */
void qn_fill(void *out, const void *value, size_t size, int64_t n)
{
    char pattern[64], *at = out;
    const int64_t each = (int64_t)(sizeof pattern / size);
    if (n < 2 * each) {
        fill_few(at, value, size, n);
        return;
    }
    fill_few(pattern, value, size, each);
    for (; n >= each; n -= each, at += sizeof pattern)
        memcpy(at, pattern, sizeof pattern);
    fill_few(at, value, size, n);
}

#define UNITS(type)                                                            \
    static void units_##type(const copy_job *j, const char *in, char *out,     \
                             int64_t from, int64_t to)                         \
    {                                                                          \
        const int64_t a = j->in_n, b = j->out_n;                               \
        type v;                                                                \
        if (a == 0 && b == (int64_t)sizeof v) {                                \
            qn_fill(out + from * b, in, sizeof v, to - from);                  \
            return;                                                            \
        }                                                                      \
        for (int64_t i = from; i < to; i++) {                                  \
            memcpy(&v, in + i * a, sizeof v);                                  \
            memcpy(out + i * b, &v, sizeof v);                                 \
        }                                                                      \
    }

UNITS(uint8_t)
UNITS(uint16_t)
UNITS(uint32_t)
UNITS(uint64_t)
UNITS(unit16)

/* ---- tiles: out[m * out_m + n] = in[m + n * in_n] ---- */

#define MOVE(type)                                                             \
    static inline void move_##type(const copy_job *j, const char *in,          \
                                   char *out, int64_t m, int64_t n)            \
    {                                                                          \
        const int64_t size = (int64_t)sizeof(type);                            \
        memcpy(out + m * j->out_m + n * size, in + m * size + n * j->in_n,     \
               sizeof(type));                                                  \
    }

MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)
MOVE(unit16)

/* Squares that fit vector registers: rows are loaded along m, stored along n.
 * 4 x 4 of 32 bits, 2 x 2 of 64; for the other sizes a square is 1 x 1. */
typedef uint32_t vec32 __attribute__((vector_size(16)));
typedef uint64_t vec64 __attribute__((vector_size(16)));

static inline void square_uint32_t(const copy_job *j, const char *in, char *out,
                                   int64_t m, int64_t n)
{
    const char *s = in + m * 4 + n * j->in_n;
    char *d = out + m * j->out_m + n * 4;
    vec32 r[4];
    for (int i = 0; i < 4; i++)
        memcpy(&r[i], s + i * j->in_n, 16);
    vec32 a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    vec32 b = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    vec32 c = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    vec32 e = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(c, e, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(c, e, 2, 3, 6, 7);
    for (int i = 0; i < 4; i++)
        memcpy(d + i * j->out_m, &r[i], 16);
}

static inline void square_uint64_t(const copy_job *j, const char *in, char *out,
                                   int64_t m, int64_t n)
{
    const char *s = in + m * 8 + n * j->in_n;
    char *d = out + m * j->out_m + n * 8;
    vec64 r[2];
    memcpy(&r[0], s, 16);
    memcpy(&r[1], s + j->in_n, 16);
    vec64 a = __builtin_shufflevector(r[0], r[1], 0, 2);
    vec64 b = __builtin_shufflevector(r[0], r[1], 1, 3);
    memcpy(d, &a, 16);
    memcpy(d + j->out_m, &b, 16);
}

#define square_uint8_t move_uint8_t
#define square_uint16_t move_uint16_t
#define square_unit16 move_unit16

/* Strips of TILE_STRIP along n, because input rows may be a power of two apart
 * and then share few cache sets; squares inside; single moves at the edges. */
#define TILE(type, side)                                                       \
    static void tile_##type(const copy_job *j, const char *in, char *out,      \
                            int64_t from, int64_t to)                          \
    {                                                                          \
        const int64_t whole = from + (to - from) / side * side;                \
        if (j->n == 3) { /* pixels of three channels */                        \
            for (int64_t m = from; m < to; m++) {                              \
                move_##type(j, in, out, m, 0);                                 \
                move_##type(j, in, out, m, 1);                                 \
                move_##type(j, in, out, m, 2);                                 \
            }                                                                  \
            return;                                                            \
        }                                                                      \
        for (int64_t n0 = 0; n0 < j->n; n0 += TILE_STRIP) {                    \
            int64_t end = j->n - n0 < TILE_STRIP ? j->n : n0 + TILE_STRIP;     \
            int64_t n1 = n0 + (end - n0) / side * side;                        \
            for (int64_t m = from; m < whole; m += side) {                     \
                for (int64_t n = n0; n < n1; n += side)                        \
                    square_##type(j, in, out, m, n);                           \
                for (int64_t i = m; n1 < end && i < m + side; i++)             \
                    for (int64_t n = n1; n < end; n++)                         \
                        move_##type(j, in, out, i, n);                         \
            }                                                                  \
            for (int64_t m = whole; m < to; m++)                               \
                for (int64_t n = n0; n < end; n++)                             \
                    move_##type(j, in, out, m, n);                             \
        }                                                                      \
    }

TILE(uint8_t, 1)
TILE(uint16_t, 1)
TILE(uint32_t, 4)
TILE(uint64_t, 2)
TILE(unit16, 1)

static void choose_inner(copy_job *j, bool tile)
{
    switch (j->unit) {
    case 1: j->inner = tile ? tile_uint8_t : units_uint8_t; break;
    case 2: j->inner = tile ? tile_uint16_t : units_uint16_t; break;
    case 4: j->inner = tile ? tile_uint32_t : units_uint32_t; break;
    case 8: j->inner = tile ? tile_uint64_t : units_uint64_t; break;
    case 16: j->inner = tile ? tile_unit16 : units_unit16; break;
    default: j->inner = any_inner; break;
    }
}

static bool simple_unit(size_t unit)
{
    return unit <= 16 && (unit & (unit - 1)) == 0;
}

/* Take dimension d out of the odometer. */
static void take_dim(copy_job *j, int d, int64_t *n, int64_t *in, int64_t *out)
{
    *n = j->dims[d];
    *in = j->in[d];
    *out = j->out[d];
    for (j->rank--; d < j->rank; d++) {
        j->dims[d] = j->dims[d + 1];
        j->in[d] = j->in[d + 1];
        j->out[d] = j->out[d + 1];
    }
}

static void plan_inner(copy_job *j)
{
    int64_t unit = (int64_t)j->unit;
    if (j->rank == 0 || unit >= RUN_BYTES) {
        j->inner = run_inner;
        j->block = PIECE_BYTES;
        j->blocks = (unit + PIECE_BYTES - 1) / PIECE_BYTES;
        j->n = unit; /* bytes, for the last block */
        return;
    }
    /* the output should be written in order: its smallest stride innermost */
    int last = j->rank - 1;
    for (int d = 0; d < j->rank; d++)
        if (j->out[d] < j->out[last])
            last = d;
    take_dim(j, last, &j->n, &j->in_n, &j->out_n);
    if (simple_unit(j->unit) && j->out_n == unit && j->in_n != unit)
        for (int d = 0; d < j->rank; d++)
            if (j->in[d] == unit && j->dims[d] >= TILE_MIN) {
                take_dim(j, d, &j->m, &j->in_m, &j->out_m);
                choose_inner(j, true);
                j->block = TILE_SIDE;
                j->blocks = (j->m + TILE_SIDE - 1) / TILE_SIDE;
                return;
            }
    choose_inner(j, false);
    j->block = PIECE_BYTES / unit;
    j->blocks = (j->n + j->block - 1) / j->block;
}

static void copy_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const copy_job *j = arg;
    int64_t at[QN_STRIDED_RANK], rest = begin / j->blocks;
    int64_t block = begin % j->blocks, limit = j->m ? j->m : j->n;
    const char *in = j->src;
    char *out = j->dst;

    (void)thread;
    for (int d = j->rank - 1; d >= 0; d--) {
        at[d] = rest % j->dims[d];
        rest /= j->dims[d];
        in += at[d] * j->in[d];
        out += at[d] * j->out[d];
    }
    for (int64_t item = begin; item < end; item++) {
        int64_t from = block * j->block;
        int64_t to = limit - from < j->block ? limit : from + j->block;
        j->inner(j, in, out, from, to);
        if (++block < j->blocks)
            continue;
        block = 0;
        for (int d = j->rank - 1; d >= 0; d--) {
            in += j->in[d];
            out += j->out[d];
            if (++at[d] < j->dims[d])
                break;
            in -= j->dims[d] * j->in[d];
            out -= j->dims[d] * j->out[d];
            at[d] = 0;
        }
    }
}

void qn_strided_copy(qn_team *team, const qn_strided *s, size_t size,
                     const void *in, void *out)
{
    copy_job j = { .rank = s->rank, .unit = size, .src = in, .dst = out };
    int64_t items = 1;

    for (int d = 0; d < s->rank; d++) {
        if (s->dims[d] == 0)
            return;
        j.dims[d] = s->dims[d];
        j.in[d] = s->in[d] * (int64_t)size;
        j.out[d] = s->out[d] * (int64_t)size;
    }
    int last = j.rank - 1;
    if (last >= 0 && j.in[last] == (int64_t)size &&
        j.out[last] == (int64_t)size) {
        j.unit = size * (size_t)j.dims[last];
        j.rank--;
    }
    plan_inner(&j);
    for (int d = 0; d < j.rank; d++)
        items *= j.dims[d];
    items *= j.blocks;
    int64_t bytes = (int64_t)j.unit;
    if (j.inner != run_inner)
        bytes *= j.m ? j.n * TILE_SIDE : (j.n < j.block ? j.n : j.block);
    else if (bytes > PIECE_BYTES)
        bytes = PIECE_BYTES;
    qn_parallel(team, items, 1 + PIECE_BYTES / bytes, copy_piece, &j);
}
