/* SPDX-License-Identifier: Apache-2.0 */
/* Static orders, in which the greedy methods place blocks. */
#include "runtime/plan/layout_solver.h"

#include <stdlib.h>

struct key {
    uint64_t major, minor; /* larger first */
    uint32_t id;
};

static int by_key(const void *pa, const void *pb)
{
    const struct key *a = pa, *b = pb;
    if (a->major != b->major)
        return a->major > b->major ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor > b->minor ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static uint64_t fullest_section(const qn_problem *p, const qn_block *b)
{
    size_t most = 0;
    for (uint32_t s = b->from; s < b->to; s++)
        if (p->live[s] > most)
            most = p->live[s];
    return most;
}

/* 96 bits of product in two keys. */
static void set_area(struct key *key, const qn_block *b)
{
    uint64_t width = b->to - b->from;
    uint64_t low = (b->bytes & UINT32_MAX) * width;
    key->major = ((uint64_t)b->bytes >> 32) * width + (low >> 32);
    key->minor = low & UINT32_MAX;
}

/* Bytes born before each section and bytes dead at it: their difference is what
 * a block meets. */
struct met {
    size_t *born, *dead;
};

static bool sum_met(const qn_problem *p, qn_region *region, struct met *met)
{
    size_t m = (size_t)p->n_sections + 1;
    met->born = qn_region_alloc(region, m, sizeof *met->born);
    met->dead = qn_region_alloc(region, m, sizeof *met->dead);
    if (!met->born || !met->dead)
        return false;
    for (uint32_t b = 0; b < p->n; b++) {
        met->born[p->blocks[b].from + 1] += p->blocks[b].bytes;
        met->dead[p->blocks[b].to] += p->blocks[b].bytes;
    }
    for (uint32_t s = 0; s < p->n_sections; s++) {
        met->born[s + 1] += met->born[s];
        met->dead[s + 1] += met->dead[s];
    }
    return true;
}

static uint64_t conflict_bytes(const qn_problem *p, uint32_t b,
                               const struct met *met)
{
    const qn_block *block = &p->blocks[b];
    if (!p->by_conflicts)
        return met->born[block->to] - met->dead[block->from];
    uint64_t sum = 0;
    for (size_t i = p->start[b]; i < p->start[b + 1]; i++)
        sum += p->blocks[p->other[i]].bytes;
    return sum;
}

qn_status qn_solver_sort(qn_solver *solver, qn_order order, qn_region *region,
                         qn_error *err)
{
    const qn_problem *p = solver->p;
    struct key *keys = qn_region_alloc(region, p->n, sizeof *keys);
    struct met met = { NULL, NULL };
    if (!keys || (order == QN_ORDER_CONFLICT && !sum_met(p, region, &met)))
        return qn_fail(err, QN_NO_MEMORY, "no heap to sort %u blocks", p->n);
    for (uint32_t b = 0; b < p->n; b++) {
        const qn_block *block = &p->blocks[b];
        keys[b] = (struct key){ block->bytes, block->bytes, b };
        switch (order) {
        case QN_ORDER_PEAK:
            keys[b].major = fullest_section(p, block);
            break;
        case QN_ORDER_AREA:
            set_area(&keys[b], block);
            break;
        case QN_ORDER_CONFLICT:
            keys[b].major = conflict_bytes(p, b, &met);
            break;
        case QN_ORDER_LIFE:
            keys[b].major = block->to - block->from;
            break;
        case QN_ORDER_START:
            keys[b].major = UINT32_MAX - block->from;
            break;
        case QN_ORDER_SIZE:
        case QN_ORDER_COUNT:
            break;
        }
    }
    qsort(keys, p->n, sizeof *keys, by_key);
    for (uint32_t i = 0; i < p->n; i++)
        solver->order[i] = keys[i].id;
    return QN_OK;
}
