/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/layout_conflict.h"

#include <stdlib.h>
#include <string.h>

static qn_status no_heap(qn_error *err, size_t n)
{
    return qn_fail(err, QN_NO_MEMORY, "no heap for the conflicts of %zu blocks",
                   n);
}

static bool has(const qn_conflicts *c, size_t row, uint32_t value)
{
    size_t lo = c->start[row], hi = c->start[row + 1];
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->other[mid] < value)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < c->start[row + 1] && c->other[lo] == value;
}

qn_status qn_conflicts_check(const qn_conflicts *c, size_t n, qn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (c->start[i] > c->start[i + 1])
            return qn_fail(err, QN_INVALID,
                           "conflicts of buffer %zu end before they start", i);
        for (size_t k = c->start[i]; k < c->start[i + 1]; k++) {
            uint32_t x = c->other[k];
            if (x >= n || x == i)
                return qn_fail(err, QN_INVALID,
                               "buffer %zu conflicts with %u, of %zu buffers",
                               i, x, n);
            if (k > c->start[i] && c->other[k - 1] >= x)
                return qn_fail(err, QN_INVALID,
                               "conflicts of buffer %zu do not ascend: %u, %u",
                               i, c->other[k - 1], x);
        }
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = c->start[i]; k < c->start[i + 1]; k++)
            if (!has(c, c->other[k], (uint32_t)i))
                return qn_fail(err, QN_INVALID,
                               "buffer %zu conflicts with %u, but not %u with "
                               "%zu", i, c->other[k], c->other[k], i);
    return QN_OK;
}

/* ---- rows ---- */

static int by_id(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    return a < b ? -1 : a > b;
}

qn_status qn_problem_take_conflicts(qn_problem *p, const qn_conflicts *c,
                                    size_t n_buffers, qn_region *region,
                                    qn_error *err)
{
    size_t *end = qn_region_alloc(region, p->n, sizeof *end);
    p->by_conflicts = true;
    p->start = qn_region_alloc(region, (size_t)p->n + 1, sizeof *p->start);
    p->other = qn_region_alloc(region, n_buffers ? c->start[n_buffers] : 0,
                               sizeof *p->other);
    if (!end || !p->start || !p->other)
        return no_heap(err, p->n);
    for (size_t i = 0; i < n_buffers; i++)
        if (p->block_of[i] != QN_NO_BLOCK)
            p->start[p->block_of[i] + 1] += c->start[i + 1] - c->start[i];
    for (uint32_t b = 0; b < p->n; b++) {
        p->start[b + 1] += p->start[b];
        end[b] = p->start[b];
    }
    for (size_t i = 0; i < n_buffers; i++) {
        uint32_t b = p->block_of[i];
        for (size_t k = c->start[i]; k < c->start[i + 1]; k++) {
            if (b == QN_NO_BLOCK)
                break;
            uint32_t x = p->block_of[c->other[k]];
            if (x != QN_NO_BLOCK && x != b)
                p->other[end[b]++] = x;
        }
    }
    /* Members of one group may name the same block: keep each once. */
    size_t at = 0;
    for (uint32_t b = 0; b < p->n; b++) {
        uint32_t *row = p->other + p->start[b];
        size_t len = end[b] - p->start[b], first = at;
        qsort(row, len, sizeof *row, by_id);
        for (size_t k = 0; k < len; k++)
            if (at == first || p->other[at - 1] != row[k])
                p->other[at++] = row[k];
        p->start[b] = first;
    }
    p->start[p->n] = at;
    return QN_OK;
}

/* Every pair of blocks that live at one time, by first section: counted in
 * end[] while p->other is NULL, else written where end[] says. */
static void sweep(qn_problem *p, const uint32_t *order, uint32_t *active,
                  size_t *end)
{
    uint32_t n_active = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t b = order[k], kept = 0;
        for (uint32_t i = 0; i < n_active; i++) {
            uint32_t x = active[i];
            if (p->blocks[x].to <= p->blocks[b].from)
                continue;
            active[kept++] = x;
            if (p->other) {
                p->other[end[x]++] = b;
                p->other[end[b]++] = x;
            } else {
                end[x]++;
                end[b]++;
            }
        }
        active[kept] = b;
        n_active = kept + 1;
    }
}

/* Blocks by first section, ties by id (a counting sort). */
static bool order_by_start(const qn_problem *p, qn_region *region,
                           uint32_t *order)
{
    uint32_t *count = qn_region_alloc(region, (size_t)p->n_sections + 1,
                                      sizeof *count);
    if (!count)
        return false;
    for (uint32_t b = 0; b < p->n; b++)
        count[p->blocks[b].from + 1]++;
    for (uint32_t s = 0; s < p->n_sections; s++)
        count[s + 1] += count[s];
    for (uint32_t b = 0; b < p->n; b++)
        order[count[p->blocks[b].from]++] = b;
    return true;
}

/* Pairs, each counted twice: a block meets those born before its end, less
 * those dead at its birth, less itself. */
static bool count_pairs(const qn_problem *p, qn_region *region, uint64_t *out)
{
    uint32_t *born = qn_region_alloc(region, (size_t)p->n_sections + 1,
                                     sizeof *born);
    uint32_t *dead = qn_region_alloc(region, (size_t)p->n_sections + 1,
                                     sizeof *dead);
    if (!born || !dead)
        return false;
    for (uint32_t b = 0; b < p->n; b++) {
        born[p->blocks[b].from + 1]++;
        dead[p->blocks[b].to]++;
    }
    for (uint32_t s = 0; s < p->n_sections; s++) {
        born[s + 1] += born[s];
        dead[s + 1] += dead[s];
    }
    *out = 0;
    for (uint32_t b = 0; b < p->n; b++)
        *out += born[p->blocks[b].to] - dead[p->blocks[b].from] - 1U;
    return true;
}

qn_status qn_problem_make_pairs(qn_problem *p, qn_region *region,
                                qn_error *err)
{
    uint64_t pairs;
    if (!count_pairs(p, region, &pairs))
        return no_heap(err, p->n);
    if (pairs > QN_LAYOUT_MAX_PAIRS)
        return QN_OK;
    uint32_t *order = qn_region_alloc(region, p->n, sizeof *order);
    uint32_t *active = qn_region_alloc(region, p->n, sizeof *active);
    size_t *start = qn_region_alloc(region, (size_t)p->n + 1, sizeof *start);
    size_t *end = qn_region_alloc(region, p->n, sizeof *end);
    uint32_t *other = qn_region_alloc(region, (size_t)pairs, sizeof *other);
    if (!order || !active || !start || !end || !other ||
        !order_by_start(p, region, order))
        return no_heap(err, p->n);
    sweep(p, order, active, end);
    for (uint32_t b = 0; b < p->n; b++) {
        start[b + 1] = start[b] + end[b];
        end[b] = start[b];
    }
    p->other = other;
    sweep(p, order, active, end);
    p->start = start;
    return QN_OK;
}

/* ---- the bound by cliques ---- */

enum { CLIQUES = 16 };

struct weighed {
    size_t weight;
    uint32_t id;
};

static int by_weight(const void *pa, const void *pb)
{
    const struct weighed *a = pa, *b = pb;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Grow a clique from the heaviest blocks of a section on; met[] is zero. */
static void try_section(qn_problem *p, uint32_t section, struct weighed *tmp,
                        uint32_t *met)
{
    uint32_t n = 0, kept = 0;
    size_t sum = 0, spare = 0;
    for (uint32_t b = 0; b < p->n; b++)
        if (p->blocks[b].from <= section && section < p->blocks[b].to)
            tmp[n++] = (struct weighed){ p->blocks[b].bytes, b };
    qsort(tmp, n, sizeof *tmp, by_weight);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t b = tmp[k].id;
        const qn_block *block = &p->blocks[b];
        if (met[b] != kept)
            continue;
        kept++;
        sum += block->bytes;
        if (block->bytes - block->used > spare)
            spare = block->bytes - block->used;
        for (size_t i = p->start[b]; i < p->start[b + 1]; i++)
            met[p->other[i]]++;
    }
    if (sum - spare > p->bound)
        p->bound = sum - spare;
    memset(met, 0, p->n * sizeof *met);
}

qn_status qn_problem_clique_bound(qn_problem *p, qn_region *region,
                                  qn_error *err)
{
    size_t most = p->n > p->n_sections ? p->n : p->n_sections;
    struct weighed *sections = qn_region_alloc(region, p->n_sections,
                                               sizeof *sections);
    struct weighed *tmp = qn_region_alloc(region, most, sizeof *tmp);
    uint32_t *met = qn_region_alloc(region, p->n, sizeof *met);
    if (!sections || !tmp || !met)
        return no_heap(err, p->n);
    for (uint32_t b = 0; b < p->n; b++) {
        const qn_block *block = &p->blocks[b];
        if (block->used > p->bound)
            p->bound = block->used;
        for (size_t i = p->start[b]; i < p->start[b + 1]; i++) {
            const qn_block *x = &p->blocks[p->other[i]];
            size_t rest = block->bytes - block->used;
            if (x->bytes - x->used > rest)
                rest = x->bytes - x->used;
            if (block->bytes + x->bytes - rest > p->bound)
                p->bound = block->bytes + x->bytes - rest;
        }
    }
    for (uint32_t s = 0; s < p->n_sections; s++)
        sections[s] = (struct weighed){ p->live[s], s };
    qsort(sections, p->n_sections, sizeof *sections, by_weight);
    for (uint32_t k = 0; k < p->n_sections && k < CLIQUES; k++)
        try_section(p, sections[k].id, tmp, met);
    return QN_OK;
}
