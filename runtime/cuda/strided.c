/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop nest is reduced first: loops are sorted by the output's stride,
 * those that continue each other in both views become one, and the innermost
 * run that is contiguous in both is cut into units of up to 16 bytes. What is
 * left decides:
 *
 *   COPY     nothing: one run
 *   TILES    the output runs along one loop, the input along another: squares
 * of shared memory, so that both sides see whole sectors VECTORS  the output
 * runs along a loop that the input strides over: 16 bytes are put together from
 * elements UNITS    the rest: rows of units, short strides
 *
 * Choices follow from shapes and from how addresses are aligned, never from
 * data.
 */
#include "runtime/cuda/strided.h"

#include <string.h>

enum {
    THREADS = 256,
    WAVES = 8,
    VECTOR = 16,
    TILE_MIN = 8,  /* below, half of a sector and most of a tile are idle */
    MANY = 1 << 20 /* units from which on a thread takes several */
};
#define INDEX_LIMIT ((int64_t)1 << 31) /* of qn_fastdiv32() */

size_t qn_align_of(uint64_t v, size_t limit)
{
    while (limit > 1 && v % limit)
        limit /= 2;
    return limit;
}

void qn_loops_add(qn_loops *l, int64_t dim, int64_t in, int64_t out)
{
    if (dim == 1)
        return;
    l->dims[l->rank] = dim;
    l->in[l->rank] = in;
    l->out[l->rank] = out;
    l->rank++;
}

/* Innermost first, neighbours merged; false if there is no element. */
static bool reduce(qn_loops *l)
{
    qn_loops s = { 0 };
    for (int i = 0; i < l->rank; i++) {
        int at = s.rank++;
        if (l->dims[i] == 0)
            return false;
        for (; at > 0 && s.out[at - 1] > l->out[i]; at--) {
            s.dims[at] = s.dims[at - 1];
            s.in[at] = s.in[at - 1];
            s.out[at] = s.out[at - 1];
        }
        s.dims[at] = l->dims[i];
        s.in[at] = l->in[i];
        s.out[at] = l->out[i];
    }
    *l = (qn_loops){ 0 };
    for (int i = 0; i < s.rank; i++) {
        int last = l->rank - 1;
        if (last >= 0 && s.in[i] == l->in[last] * l->dims[last] &&
            s.out[i] == l->out[last] * l->dims[last])
            l->dims[last] *= s.dims[i];
        else
            qn_loops_add(l, s.dims[i], s.in[i], s.out[i]);
    }
    return true;
}

/* Take loop d out. */
static void drop(qn_loops *l, int d)
{
    for (l->rank--; d < l->rank; d++) {
        l->dims[d] = l->dims[d + 1];
        l->in[d] = l->in[d + 1];
        l->out[d] = l->out[d + 1];
    }
}

/* Whether `by` divides all strides of loops from `first` on. */
static bool strides_divide(const qn_loops *l, int first, int64_t by, bool in)
{
    for (int d = first; d < l->rank; d++)
        if (l->out[d] % by || (in && l->in[d] % by))
            return false;
    return true;
}

/* Strides and innermost run in units instead of elements; returns their size.
 */
static size_t widen(qn_loops *l, size_t size, size_t align)
{
    if (l->rank == 0 || l->in[0] != 1 || l->out[0] != 1)
        return size;
    int64_t each = (int64_t)(align / size);
    for (; each > 1; each /= 2)
        if (l->dims[0] % each == 0 && strides_divide(l, 1, each, true))
            break;
    if (each <= 1)
        return size;
    l->dims[0] /= each;
    for (int d = 1; d < l->rank; d++) {
        l->in[d] /= each;
        l->out[d] /= each;
    }
    if (l->dims[0] == 1)
        drop(l, 0);
    return size * (size_t)each;
}

static void fill_dims(struct qn_strided_dims *to, const qn_loops *l)
{
    to->rank = l->rank;
    for (int d = 0; d < l->rank; d++) {
        to->dim[d] = l->dims[d];
        to->in[d] = l->in[d];
        to->out[d] = l->out[d];
        to->div[d] = qn_fastdiv_of(l->dims[d]);
    }
}

static int64_t product(const qn_loops *l)
{
    int64_t n = 1;
    for (int d = 0; d < l->rank; d++)
        n *= l->dims[d];
    return n;
}

/* The loop along which the input runs while the output runs along loop 0. */
static int tile_loop(const qn_loops *l)
{
    if (l->rank < 2 || l->out[0] != 1 || l->in[0] == 1 ||
        l->dims[0] < TILE_MIN || l->dims[0] >= INDEX_LIMIT)
        return -1;
    for (int d = 1; d < l->rank; d++)
        if (l->in[d] == 1 && l->dims[d] >= TILE_MIN &&
            l->dims[d] < INDEX_LIMIT)
            return d;
    return -1;
}

static bool plan_tiles(const qn_strided *s, const qn_loops *l, size_t unit,
                       size_t align, qn_strided_plan *p)
{
    int m = tile_loop(l);
    if (m < 0)
        return false;
    qn_loops rest = *l;
    struct qn_tile_args a = { .unit = (uint32_t)unit,
                              .pack = unit < 4 ? (uint32_t)(4 / unit) : 1,
                              .m = l->dims[m], .n = l->dims[0],
                              .in_n = l->in[0], .out_m = l->out[m] };
    drop(&rest, m);
    drop(&rest, 0);
    if (align < 4 || a.m % a.pack || a.n % a.pack || a.in_n % a.pack ||
        a.out_m % a.pack || !strides_divide(&rest, 0, a.pack, true))
        a.pack = 1;
    int64_t side = (int64_t)QN_TILE_LANES * a.pack;
    int64_t rows = (a.m + side - 1) / side, columns = (a.n + side - 1) / side;
    a.tiles = rows * columns * product(&rest);
    if (a.tiles >= INDEX_LIMIT)
        return false;
    a.tiles_m = qn_fastdiv_of(rows);
    a.tiles_n = qn_fastdiv_of(columns);
    fill_dims(&a.d, &rest);
    p->way = QN_WAY_TILES;
    p->align = unit * a.pack;
    p->grid = qn_cuda_grid_stride(s->accel, a.tiles * THREADS, 1, THREADS,
                                  WAVES);
    p->grid.block[0] = QN_TILE_LANES;
    p->grid.block[1] = QN_TILE_ROWS;
    p->args.tiles = a;
    return true;
}

static bool plan_vectors(const qn_strided *s, const qn_loops *l, size_t unit,
                         size_t align, qn_strided_plan *p)
{
    int64_t each = VECTOR / (int64_t)unit;
    if (align < VECTOR || unit > 4 || l->out[0] != 1 || l->in[0] == 1 ||
        l->dims[0] % each || !strides_divide(l, 1, each, false))
        return false;
    qn_loops v = *l;
    v.dims[0] /= each;
    v.in[0] *= each;
    for (int d = 1; d < v.rank; d++)
        v.out[d] /= each;
    struct qn_strided_args *a = &p->args.units;
    *a = (struct qn_strided_args){ .n = product(&v), .step = l->in[0],
                                   .unit = (uint32_t)unit };
    a->wide = a->n >= INDEX_LIMIT;
    fill_dims(&a->d, &v);
    p->way = QN_WAY_VECTORS;
    p->align = VECTOR;
    p->grid = qn_cuda_grid_stride(s->accel, a->n, 1, THREADS, WAVES);
    return true;
}

static void plan_units(const qn_strided *s, const qn_loops *l, size_t unit,
                       qn_strided_plan *p)
{
    struct qn_strided_args *a = &p->args.units;
    *a = (struct qn_strided_args){ .n = product(l), .unit = (uint32_t)unit };
    a->wide = a->n >= INDEX_LIMIT;
    fill_dims(&a->d, l);
    p->way = QN_WAY_UNITS;
    p->align = unit;
    p->grid = qn_cuda_grid_stride(s->accel, a->n, a->n > MANY ? 4 : 1, THREADS,
                                  WAVES);
}

static void make_plan(const qn_strided *s, size_t align, qn_strided_plan *p)
{
    qn_loops l = s->loops;
    align = qn_align_of((uint64_t)s->offset, align);
    if (align < s->size) /* elements are aligned, whatever their offset */
        align = s->size;
    size_t unit = widen(&l, s->size, align);
    memset(p, 0, sizeof *p);
    if (l.rank == 0 || (l.rank == 1 && l.in[0] == 1 && l.out[0] == 1)) {
        p->way = QN_WAY_COPY;
        p->align = 1;
        p->bytes = product(&l) * (int64_t)unit;
    } else if (!plan_tiles(s, &l, unit, align, p) &&
               !plan_vectors(s, &l, unit, align, p)) {
        plan_units(s, &l, unit, p);
    }
}

qn_status qn_strided_init(qn_strided *s, qn_accel *accel, const qn_loops *l,
                          size_t size, int64_t offset, qn_error *err)
{
    *s = (qn_strided){ .accel = accel, .loops = *l, .size = size,
                       .offset = offset * (int64_t)size };
    if (!reduce(&s->loops))
        return QN_OK;
    qn_status st = qn_cuda_find(accel, "strided", "qn_strided_units", &s->units,
                                err);
    if (st == QN_OK)
        st = qn_cuda_find(accel, "strided", "qn_strided_vectors", &s->vectors,
                          err);
    if (st == QN_OK)
        st = qn_cuda_find(accel, "strided", "qn_strided_tiles", &s->tiles, err);
    if (st == QN_OK)
        make_plan(s, VECTOR, &s->plan);
    return st;
}

qn_status qn_strided_launch(const qn_launch *k, const qn_strided *s,
                            const void *in, void *out)
{
    qn_strided_plan p = s->plan;
    const char *src = (const char *)in + s->offset;
    size_t align = qn_align_of((uintptr_t)src | (uintptr_t)out, VECTOR);
    if (p.way != QN_WAY_NOTHING && align < p.align)
        make_plan(s, align, &p);
    switch (p.way) {
    case QN_WAY_COPY:
        return qn_cuda_copy(k, out, src, (size_t)p.bytes);
    case QN_WAY_TILES:
        p.args.tiles.src = src;
        p.args.tiles.dst = out;
        return qn_cuda_launch(k, s->tiles, &p.grid, &p.args.tiles);
    case QN_WAY_VECTORS:
    case QN_WAY_UNITS:
        p.args.units.src = src;
        p.args.units.dst = out;
        return qn_cuda_launch(k, p.way == QN_WAY_UNITS ? s->units : s->vectors,
                              &p.grid, &p.args.units);
    default:
        return QN_OK;
    }
}
