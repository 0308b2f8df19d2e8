/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From buffers to blocks: checks, groups, sections. Who conflicts with whom is
 * in layout_conflict.c.
 */
#include "runtime/plan/layout_problem.h"

#include "runtime/base/checked.h"
#include "runtime/plan/layout_conflict.h"

#include <stdlib.h>
#include <string.h>

static qn_status no_heap(qn_error *err, size_t n)
{
    return qn_fail(err, QN_NO_MEMORY, "no heap to lay out %zu buffers", n);
}

static qn_status check_buffers(const qn_buffer *buffers, size_t n,
                               qn_error *err)
{
    if (n >= QN_NO_BLOCK)
        return qn_fail(err, QN_TOO_LARGE, "%zu buffers, the most are %u", n,
                       QN_NO_BLOCK - 1);
    for (size_t i = 0; i < n; i++) {
        const qn_buffer *b = &buffers[i];
        if (b->lower >= b->upper)
            return qn_fail(err, QN_INVALID,
                           "buffer %zu lives in [%u, %u), which is empty", i,
                           b->lower, b->upper);
        if (b->align & (b->align - 1))
            return qn_fail(err, QN_INVALID,
                           "buffer %zu has alignment %u, not a power of two", i,
                           b->align);
    }
    return QN_OK;
}

static size_t align_of(const qn_buffer *b)
{
    return b->align ? b->align : 1;
}

/* ---- groups ---- */

struct member {
    int32_t group;
    uint32_t pos, buffer;
};

static int by_group(const void *pa, const void *pb)
{
    const struct member *a = pa, *b = pb;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->pos != b->pos)
        return a->pos < b->pos ? -1 : 1;
    return a->buffer < b->buffer ? -1 : 1;
}

/* While blocks are made: times as given, not yet in sections. */
static bool extend(qn_block *block, const qn_buffer *b, size_t *inner)
{
    size_t align = align_of(b), at;
    if (!qn_align_size(block->used, align, &at) ||
        !qn_add_size(at, b->bytes, &block->used))
        return false;
    *inner = at;
    if (align > block->align)
        block->align = align;
    if (b->lower < block->from)
        block->from = b->lower;
    if (b->upper > block->to)
        block->to = b->upper;
    return true;
}

static qn_block *new_block(qn_problem *p)
{
    qn_block *block = &p->blocks[p->n++];
    *block = (qn_block){ .align = 1, .from = UINT32_MAX };
    return block;
}

static qn_status too_large(qn_error *err, size_t i)
{
    return qn_fail(err, QN_TOO_LARGE,
                   "the sizes up to buffer %zu exceed an address", i);
}

static qn_status group_blocks(const qn_buffer *buffers,
                              const struct member *members, size_t n,
                              qn_problem *p, qn_error *err)
{
    for (size_t k = 0, end; k < n; k = end) {
        qn_block *block = new_block(p);
        for (end = k; end < n && members[end].group == members[k].group;
             end++) {
            const struct member *m = &members[end];
            if (end > k && m[-1].pos == m->pos)
                return qn_fail(err, QN_INVALID,
                               "buffers %u and %u are both at position %u of "
                               "group %d", m[-1].buffer, m->buffer, m->pos,
                               m->group);
            p->block_of[m->buffer] = p->n - 1;
            if (!extend(block, &buffers[m->buffer], &p->inner[m->buffer]))
                return too_large(err, m->buffer);
        }
        if (block->used)
            continue;
        p->n--; /* nothing in it has bytes */
        for (size_t i = k; i < end; i++)
            p->block_of[members[i].buffer] = QN_NO_BLOCK;
    }
    return QN_OK;
}

static qn_status make_blocks(const qn_buffer *buffers, size_t n,
                             qn_region *region, qn_problem *p, qn_error *err)
{
    struct member *members = qn_region_alloc(region, n, sizeof *members);
    p->blocks = qn_region_alloc(region, n, sizeof *p->blocks);
    p->block_of = qn_region_alloc(region, n, sizeof *p->block_of);
    p->inner = qn_region_alloc(region, n, sizeof *p->inner);
    if (!members || !p->blocks || !p->block_of || !p->inner)
        return no_heap(err, n);
    size_t n_members = 0;
    for (size_t i = 0; i < n; i++) {
        p->block_of[i] = QN_NO_BLOCK;
        if (!qn_add_size(p->total, buffers[i].bytes, &p->total))
            return too_large(err, i);
        if (buffers[i].group >= 0) {
            members[n_members++] = (struct member){ buffers[i].group,
                                                    buffers[i].group_pos,
                                                    (uint32_t)i };
        } else if (buffers[i].bytes) {
            p->block_of[i] = p->n;
            if (!extend(new_block(p), &buffers[i], &p->inner[i]))
                return too_large(err, i);
        }
    }
    qsort(members, n_members, sizeof *members, by_group);
    return group_blocks(buffers, members, n_members, p, err);
}

/* Round sizes, and see that any order of the blocks fits a size_t. */
static qn_status round_blocks(qn_problem *p, qn_error *err)
{
    size_t unit = SIZE_MAX, sum = 0;
    for (uint32_t b = 0; b < p->n; b++)
        if (p->blocks[b].align < unit)
            unit = p->blocks[b].align;
    for (uint32_t b = 0; b < p->n; b++) {
        qn_block *block = &p->blocks[b];
        if (!qn_align_size(block->used, unit, &block->bytes) ||
            !qn_add_size(sum, block->bytes, &sum) ||
            !qn_add_size(sum, block->align, &sum))
            return too_large(err, p->n);
    }
    return QN_OK;
}

/* ---- sections ---- */

static int by_time(const void *pa, const void *pb)
{
    uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
    return a < b ? -1 : a > b;
}

static uint32_t index_of(const uint32_t *times, uint32_t n, uint32_t t)
{
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (times[mid] < t)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

enum { BIRTH = 1, DEATH = 2 };

/*
 * A live set is contained in no other one where deaths follow births. So a new
 * section begins at the first birth after a death.
 */
static qn_status make_sections(qn_problem *p, qn_region *region, qn_error *err)
{
    size_t n_times = 0;
    uint32_t *times = qn_region_alloc(region, p->n, 2 * sizeof *times);
    uint32_t *section = qn_region_alloc(region, p->n, 2 * sizeof *section);
    unsigned char *event = qn_region_alloc(region, p->n, 2);
    if (!times || !section || !event)
        return no_heap(err, p->n);
    for (uint32_t b = 0; b < p->n; b++) {
        times[n_times++] = p->blocks[b].from;
        times[n_times++] = p->blocks[b].to;
    }
    qsort(times, n_times, sizeof *times, by_time);
    uint32_t m = 0;
    for (size_t i = 0; i < n_times; i++)
        if (m == 0 || times[m - 1] != times[i])
            times[m++] = times[i];
    for (uint32_t b = 0; b < p->n; b++) {
        event[index_of(times, m, p->blocks[b].from)] |= BIRTH;
        event[index_of(times, m, p->blocks[b].to)] |= DEATH;
    }
    bool died = false;
    uint32_t at = 0;
    for (uint32_t t = 0; t < m; t++) {
        died = died || (event[t] & DEATH);
        if (died && (event[t] & BIRTH)) {
            at++;
            died = false;
        }
        section[t] = at;
    }
    p->n_sections = p->n ? at + 1 : 0;
    p->live = qn_region_alloc(region, (size_t)p->n_sections + 1,
                              sizeof *p->live);
    if (!p->live)
        return no_heap(err, p->n);
    for (uint32_t b = 0; b < p->n; b++) {
        qn_block *block = &p->blocks[b];
        block->from = section[index_of(times, m, block->from)];
        block->to = section[index_of(times, m, block->to) - 1] + 1;
        p->live[block->from] += block->bytes; /* differences at first */
        p->live[block->to] -= block->bytes;
    }
    for (uint32_t s = 1; s < p->n_sections; s++)
        p->live[s] += p->live[s - 1];
    return QN_OK;
}

/* Live bytes; of the block on top only the used ones count. */
static qn_status section_bound(qn_problem *p, qn_region *region, qn_error *err)
{
    size_t *spare = qn_region_alloc(region, p->n_sections, sizeof *spare);
    if (!spare)
        return no_heap(err, p->n);
    for (uint32_t b = 0; b < p->n; b++) {
        const qn_block *block = &p->blocks[b];
        size_t rest = block->bytes - block->used;
        for (uint32_t s = block->from; s < block->to && rest; s++)
            if (rest > spare[s])
                spare[s] = rest;
    }
    for (uint32_t s = 0; s < p->n_sections; s++)
        if (p->live[s] - spare[s] > p->bound)
            p->bound = p->live[s] - spare[s];
    return QN_OK;
}

qn_status qn_problem_build(const qn_buffer *buffers, size_t n,
                           const qn_conflicts *conflicts, qn_region *region,
                           qn_problem *out, qn_error *err)
{
    memset(out, 0, sizeof *out);
    qn_status st = check_buffers(buffers, n, err);
    if (st == QN_OK && conflicts)
        st = qn_conflicts_check(conflicts, n, err);
    if (st == QN_OK)
        st = make_blocks(buffers, n, region, out, err);
    if (st == QN_OK)
        st = round_blocks(out, err);
    if (st == QN_OK)
        st = make_sections(out, region, err);
    if (st == QN_OK)
        st = conflicts ? qn_problem_take_conflicts(out, conflicts, n, region,
                                                   err)
                       : qn_problem_make_pairs(out, region, err);
    if (st == QN_OK)
        st = conflicts ? qn_problem_clique_bound(out, region, err)
                       : section_bound(out, region, err);
    return st;
}
