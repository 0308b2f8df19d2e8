/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops around the microkernels. Rows are cut into tiles of nearly equal height
 * (49 rows: 4 tiles of 6 and 5 of 5, not 8 of 6 and one of 1).
 */
#include "runtime/cpu/gemm/gemm.h"

#include <math.h>

/* About 20 us of work on one core: the least that is worth a hand-over. */
static const int64_t WORTH = 1000000;

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool qn_gemm_clamp(const qn_gemm_end *end, float *low, float *high)
{
    *low = -INFINITY;
    *high = INFINITY;
    if (end->act == QN_ACT_RELU) {
        *low = 0;
        return true;
    }
    if (end->act == QN_ACT_CLIP) {
        *low = end->act_a;
        *high = end->act_b;
        return true;
    }
    return false;
}

static bool late_act(const qn_gemm_end *end)
{
    return end->act != QN_ACT_NONE && end->act != QN_ACT_RELU &&
           end->act != QN_ACT_CLIP;
}

static void set_end(qn_gemm_tile *t, const qn_gemm_end *end)
{
    t->alpha = end->scale ? end->alpha : 1.0f;
    t->ldr = end->ldr;
    t->clamp = qn_gemm_clamp(end, &t->low, &t->high);
}

/* The parts of `end` that depend on where the tile lies. */
static void set_place(qn_gemm_tile *t, const qn_gemm_end *end, int64_t row,
                      int64_t col)
{
    t->bias = end->bias ? end->bias + col : NULL;
    t->row_bias = end->row_bias ? end->row_bias + row : NULL;
    t->residual = end->residual
                      ? end->residual + (size_t)row * end->ldr + col
                      : NULL;
}

/* One row of tiles: `rows` rows by columns [n0, n0 + n), `pick` panels wide. */
static void run_tile(const qn_gemm_isa *isa, const qn_gemm_end *end,
                     qn_gemm_tile *t, qn_gemm_fn fn, int64_t rows)
{
    fn(t);
    if (t->last && late_act(end))
        for (int64_t r = 0; r < rows; r++)
            isa->act(end->act, end->act_a, end->act_b,
                     t->c + (size_t)r * t->ldc, (size_t)t->n);
}

/* Steps of K that one pass takes: a panel of B then stays in L1 while the tiles
 * pass, and the sums wait in `part`. */
enum { PASS = 384, MAX_PART = QN_GEMM_MAX_ROWS * QN_GEMM_MAX_NR };

/* The next pass from (tap, at) on: t's taps, depth, a_off; false at the end. */
typedef struct passes {
    size_t tap, at;
} passes;

static void next_pass(const qn_gemm_block *g, passes *p, qn_gemm_tile *t)
{
    t->a_off = g->offset + p->at;
    t->first = !p->tap && !p->at;
    if (g->depth > PASS + PASS / 2) {
        size_t left = g->depth - p->at;
        t->taps = 1;
        /* the last two share what is left: no short pass */
        t->depth = left >= 2 * PASS ? PASS : left > PASS ? left / 2 : left;
        p->at += t->depth;
        if (p->at == g->depth) {
            p->at = 0;
            p->tap++;
        }
    } else {
        size_t most = g->depth ? PASS / g->depth : 1;
        most = most ? most : 1;
        t->taps = g->taps - p->tap < most ? g->taps - p->tap : most;
        t->depth = g->depth;
        p->tap += t->taps;
    }
    t->last = p->tap == g->taps;
}

/* All rows times `width` columns from `col` on, by `rows -> kernel` in fn. */
static void run_panel(const qn_gemm_block *g, qn_gemm_tile *t,
                      const qn_gemm_fn *fn, int64_t col, float *part)
{
    const int64_t tiles = ceil_div(g->m, g->isa->mr);
    passes at = { 0, 0 };
    do {
        size_t tap = at.tap;
        next_pass(g, &at, t);
        for (int64_t i = 0; i < tiles; i++) {
            int64_t r0 = g->m * i / tiles, r1 = g->m * (i + 1) / tiles;
            t->a = g->rows + tap * g->step + r0;
            t->c = g->c + (size_t)r0 * g->ldc + col;
            t->part = part + r0 * (int64_t)t->ldp;
            set_place(t, g->end, r0, col);
            run_tile(g->isa, g->end, t, fn[r1 - r0 - 1], r1 - r0);
        }
        t->b += t->taps * t->depth * t->ldb;
    } while (!t->last);
}

void qn_gemm_run_block(const qn_gemm_block *g)
{
    const qn_gemm_isa *isa = g->isa;
    const int64_t nr = 2 * isa->vec, k = (int64_t)(g->taps * g->depth);
    /* few rows: more panels at once, for enough independent chains */
    const int wide = g->m == 1 ? 4 : g->m == 2 ? 2 : 1;
    float part[MAX_PART];
    qn_gemm_tile t = { .a_step = g->step, .ldc = g->ldc,
                       .b_panel = (size_t)(nr * k) };

    set_end(&t, g->end);
    for (int64_t p = g->p0; p < g->p1;) {
        const int64_t left = g->n - p * nr;
        const bool multi = wide > 1 && p + wide <= g->p1 && left >= wide * nr;
        const int64_t width = qn_gemm_panel_width(isa, g->n, p);
        t.b = g->b + p * nr * k;
        t.ldb = (size_t)width;
        t.n = (int)min_i64(left, multi ? wide * nr : nr);
        t.ldp = (size_t)(multi ? wide * nr : nr);
        run_panel(g, &t, multi ? isa->wide : isa->tile[width > isa->vec], p * nr,
                  part);
        p += multi ? wide : 1;
    }
}

/* ---- B packed beforehand ---- */

typedef struct packed_run {
    const qn_gemm_isa *isa;
    int64_t m, n, k;
    const float *a, *b;
    size_t lda;
    float *c;
    size_t ldc;
    const qn_gemm_end *end;
    int64_t row_blocks, col_blocks, panels;
} packed_run;

static void packed_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const packed_run *g = arg;
    const float *rows[QN_GEMM_MAX_ROWS];
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t rb = item / g->col_blocks, cb = item % g->col_blocks;
        int64_t r0 = g->m * rb / g->row_blocks;
        int64_t r1 = g->m * (rb + 1) / g->row_blocks;
        qn_gemm_end e = *g->end;
        for (int64_t r = r0; r < r1; r++)
            rows[r - r0] = g->a + (size_t)r * g->lda;
        if (e.row_bias)
            e.row_bias += r0;
        if (e.residual)
            e.residual += (size_t)r0 * e.ldr;
        qn_gemm_run_block(&(qn_gemm_block){
            .isa = g->isa, .rows = rows, .step = 0, .taps = 1,
            .depth = (size_t)g->k, .m = r1 - r0, .n = g->n,
            .p0 = g->panels * cb / g->col_blocks,
            .p1 = g->panels * (cb + 1) / g->col_blocks, .b = g->b,
            .c = g->c + (size_t)r0 * g->ldc, .ldc = g->ldc, .end = &e });
    }
}

void qn_gemm_run(qn_team *team, const qn_gemm_isa *isa, int64_t m, int64_t n,
                 int64_t k, const float *a, size_t lda, const float *b, float *c,
                 size_t ldc, const qn_gemm_end *end)
{
    if (!m || !n)
        return;
    const int64_t nr = 2 * isa->vec, panels = ceil_div(n, nr);
    packed_run g = { .isa = isa, .m = m, .n = n, .k = k, .a = a, .lda = lda,
                     .b = b, .c = c, .ldc = ldc, .end = end,
                     .panels = panels };
    /* Rows of A that stay in half of a common L2 while the panels pass. */
    int64_t fit = 65536 / (k + 1) / isa->mr * isa->mr;
    if (fit < 8 * isa->mr)
        fit = 8 * isa->mr;
    g.row_blocks = ceil_div(m, min_i64(fit, QN_GEMM_MAX_ROWS));
    /* Cut columns too where there are few rows. */
    int64_t work = ceil_div(m, g.row_blocks) * nr * (k + 1);
    g.col_blocks = ceil_div(panels, ceil_div(WORTH, work));
    qn_parallel(team, g.row_blocks * g.col_blocks, 1, packed_piece, &g);
}

typedef struct rows_run {
    qn_gemm_block block;
    int64_t panels, cuts;
} rows_run;

static void rows_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const rows_run *r = arg;
    qn_gemm_block g = r->block;
    (void)thread;
    g.p0 = r->panels * begin / r->cuts;
    g.p1 = r->panels * end / r->cuts;
    for (int64_t r0 = 0; r0 < r->block.m; r0 += QN_GEMM_MAX_ROWS) {
        qn_gemm_end e = *r->block.end;
        if (e.row_bias)
            e.row_bias += r0;
        if (e.residual)
            e.residual += (size_t)r0 * e.ldr;
        g.end = &e;
        g.rows = r->block.rows + r0;
        g.c = r->block.c + (size_t)r0 * g.ldc;
        g.m = min_i64(r->block.m - r0, QN_GEMM_MAX_ROWS);
        qn_gemm_run_block(&g);
    }
}

void qn_gemm_run_rows(qn_team *team, const qn_gemm_isa *isa,
                      const float *const *rows, int64_t m, int64_t n, int64_t k,
                      const float *b, float *c, size_t ldc,
                      const qn_gemm_end *end)
{
    if (!m || !n)
        return;
    const int64_t nr = 2 * isa->vec;
    rows_run r = { .block = { .isa = isa, .rows = rows, .taps = 1,
                              .depth = (size_t)k, .m = m, .n = n, .b = b, .c = c,
                              .ldc = ldc, .end = end },
                   .panels = ceil_div(n, nr) };
    r.cuts = ceil_div(r.panels, ceil_div(WORTH, m * nr * (k + 1)));
    qn_parallel(team, r.cuts, 1, rows_piece, &r);
}

/* ---- B made on the way ---- */

enum { MADE_ROWS = 192, MADE_FLOATS = 8192 };

typedef struct made_shape {
    int64_t depth;      /* steps of K at once */
    int64_t panels;     /* full panels at once */
    int64_t row_blocks, col_blocks;
    size_t b_floats, part_floats;
} made_shape;

static made_shape made(const qn_gemm_isa *isa, int64_t m, int64_t n, int64_t k)
{
    const int64_t nr = 2 * isa->vec, all = ceil_div(n, nr);
    made_shape s = { .depth = k, .panels = 1 };
    if (k * nr > MADE_FLOATS)
        s.depth = MADE_FLOATS / nr;
    else if (k > 0)
        s.panels = min_i64(MADE_FLOATS / (k * nr), all);
    if (s.panels < 1)
        s.panels = 1;
    s.row_blocks = ceil_div(m, MADE_ROWS);
    s.col_blocks = ceil_div(all, s.panels);
    s.b_floats = (size_t)(s.depth * nr * s.panels);
    if (s.depth < k)
        s.part_floats = (size_t)(min_i64(m, MADE_ROWS) * nr);
    return s;
}

size_t qn_gemm_made_floats(const qn_gemm_isa *isa, int64_t m, int64_t n,
                           int64_t k)
{
    made_shape s = made(isa, m, n, k);
    return (s.b_floats + s.part_floats + 15) & ~(size_t)15;
}

typedef struct made_run {
    const qn_gemm_made *g;
    made_shape s;
    size_t per_thread;
} made_run;

/* Rows [r0, r1) times one filled panel, steps [k0, k1) of K. */
static void made_panel(const made_run *run, const qn_gemm_view *v, int64_t r0,
                       int64_t r1, int64_t k0, int64_t k1, int64_t n0,
                       const float *b, size_t ldb, float *part)
{
    const qn_gemm_made *g = run->g;
    const qn_gemm_isa *isa = g->isa;
    const int64_t nr = 2 * isa->vec, m = r1 - r0, tiles = ceil_div(m, isa->mr);
    const int width = qn_gemm_panel_width(isa, g->n, n0 / nr);
    const float *rows[QN_GEMM_MAX_MR];
    qn_gemm_tile t = { .a = rows, .a_off = (size_t)k0, .taps = 1,
                       .depth = (size_t)(k1 - k0), .b = b,
                       .ldb = ldb, .ldc = v->ldc, .ldp = (size_t)nr,
                       .n = (int)min_i64(nr, g->n - n0), .first = k0 == 0,
                       .last = k1 == g->k };

    set_end(&t, &v->end);
    for (int64_t i = 0; i < tiles; i++) {
        int64_t a = r0 + m * i / tiles, z = r0 + m * (i + 1) / tiles;
        for (int64_t r = a; r < z; r++)
            rows[r - a] = v->a + (size_t)r * v->lda;
        t.c = v->c + (size_t)a * v->ldc + n0;
        t.part = part ? part + (a - r0) * nr : NULL;
        set_place(&t, &v->end, a, n0);
        run_tile(isa, &v->end, &t, isa->tile[width > isa->vec][z - a - 1],
                 z - a);
    }
}

static void made_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const made_run *run = arg;
    const qn_gemm_made *g = run->g;
    const made_shape *s = &run->s;
    const int64_t nr = 2 * g->isa->vec, per_batch = s->row_blocks * s->col_blocks;
    float *b = g->workspace + (size_t)thread * run->per_thread;
    float *part = s->part_floats ? b + s->b_floats : NULL;

    for (int64_t item = begin; item < end; item++) {
        int64_t batch = item / per_batch, at = item % per_batch;
        int64_t cb = at / s->row_blocks, rb = at % s->row_blocks;
        int64_t r0 = g->m * rb / s->row_blocks;
        int64_t r1 = g->m * (rb + 1) / s->row_blocks;
        int64_t n0 = cb * s->panels * nr;
        int64_t n1 = min_i64(g->n, n0 + s->panels * nr);
        int64_t k0 = 0;
        qn_gemm_view v = { 0 };
        g->view(g->arg, batch, &v);
        do {
            int64_t k1 = min_i64(g->k, k0 + s->depth);
            for (int64_t n = n0; n < n1; n += nr) {
                int width = qn_gemm_panel_width(g->isa, g->n, n / nr);
                int cols = (int)min_i64(nr, n1 - n);
                float *panel = b + (n - n0) * s->depth;
                if (v.b && cols == width) {
                    made_panel(run, &v, r0, r1, k0, k1, n,
                               v.b + (size_t)k0 * v.ldb + n, v.ldb, part);
                    continue;
                }
                g->fill(g->arg, batch, k0, k1, n, cols, width, panel);
                made_panel(run, &v, r0, r1, k0, k1, n, panel, (size_t)width,
                           part);
            }
            k0 = k1;
        } while (k0 < g->k);
    }
}

void qn_gemm_run_made(qn_team *team, const qn_gemm_made *g)
{
    if (!g->batches || !g->m || !g->n)
        return;
    made_run run = { .g = g, .s = made(g->isa, g->m, g->n, g->k),
                     .per_thread = qn_gemm_made_floats(g->isa, g->m, g->n,
                                                       g->k) };
    int64_t work = ceil_div(g->m, run.s.row_blocks) * run.s.panels * 2 *
                   g->isa->vec * (g->k + 1);
    qn_parallel(team, g->batches * run.s.row_blocks * run.s.col_blocks,
                ceil_div(WORTH, work), made_piece, &run);
}
