/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check that every plan passes before it is used. Written against the
 * contract in layout.h alone: shares no code, no rounding and no idea with the
 * solver.
 *
 * By lifetimes: walk through time with the living buffers sorted by offset. One
 * that is born may touch neither of its neighbours there; since all the living
 * are then disjoint and sorted, looking at two is enough.
 */
#include "runtime/plan/layout.h"

#include "runtime/base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct event {
    uint32_t time;
    uint32_t birth; /* deaths of a moment come first */
    uint32_t buffer;
};

static int by_time(const void *pa, const void *pb)
{
    const struct event *a = pa, *b = pb;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->birth != b->birth)
        return a->birth < b->birth ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* The living: buffers with bytes, ascending by offset. */
struct living {
    uint32_t *ids;
    size_t n;
};

static size_t place_of(const struct living *l, const size_t *offsets,
                       size_t offset)
{
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (offsets[l->ids[mid]] < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static qn_status overlap(const qn_buffer *buffers, const size_t *offsets,
                         uint32_t a, uint32_t b, qn_error *err)
{
    return qn_fail(err, QN_INTERNAL,
                   "buffers %u at [%zu, %zu) and %u at [%zu, %zu) overlap", a,
                   offsets[a], offsets[a] + buffers[a].bytes, b, offsets[b],
                   offsets[b] + buffers[b].bytes);
}

static qn_status check_lifetimes(const qn_buffer *buffers, size_t n,
                                 const size_t *offsets, struct event *events,
                                 struct living *l, qn_error *err)
{
    size_t n_events = 0;
    for (size_t i = 0; i < n; i++) {
        if (!buffers[i].bytes)
            continue;
        events[n_events++] = (struct event){ buffers[i].lower, 1, (uint32_t)i };
        events[n_events++] = (struct event){ buffers[i].upper, 0, (uint32_t)i };
    }
    qsort(events, n_events, sizeof *events, by_time);
    for (size_t k = 0; k < n_events; k++) {
        uint32_t b = events[k].buffer;
        size_t at = place_of(l, offsets, offsets[b]);
        if (!events[k].birth) {
            memmove(l->ids + at, l->ids + at + 1,
                    (l->n - at - 1) * sizeof *l->ids);
            l->n--;
            continue;
        }
        if (at < l->n &&
            offsets[l->ids[at]] < offsets[b] + buffers[b].bytes)
            return overlap(buffers, offsets, l->ids[at], b, err);
        if (at > 0) {
            uint32_t under = l->ids[at - 1];
            if (offsets[under] + buffers[under].bytes > offsets[b])
                return overlap(buffers, offsets, under, b, err);
        }
        memmove(l->ids + at + 1, l->ids + at, (l->n - at) * sizeof *l->ids);
        l->ids[at] = b;
        l->n++;
    }
    return QN_OK;
}

static qn_status check_conflicts(const qn_buffer *buffers, size_t n,
                                 const qn_conflicts *conflicts,
                                 const size_t *offsets, qn_error *err)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = conflicts->start[i]; k < conflicts->start[i + 1];
             k++) {
            uint32_t x = conflicts->other[k];
            if (x >= n)
                return qn_fail(err, QN_INTERNAL,
                               "buffer %zu conflicts with %u, of %zu", i, x, n);
            if (buffers[i].bytes && buffers[x].bytes &&
                offsets[i] < offsets[x] + buffers[x].bytes &&
                offsets[x] < offsets[i] + buffers[i].bytes)
                return overlap(buffers, offsets, (uint32_t)i, x, err);
        }
    return QN_OK;
}

static qn_status check_each(const qn_buffer *buffers, size_t n,
                            const size_t *offsets, size_t peak, qn_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (buffers[i].align > 1 && offsets[i] % buffers[i].align != 0)
            return qn_fail(err, QN_INTERNAL,
                           "buffer %zu at %zu is not aligned to %u", i,
                           offsets[i], buffers[i].align);
        if (offsets[i] > peak || buffers[i].bytes > peak - offsets[i])
            return qn_fail(err, QN_INTERNAL,
                           "buffer %zu at %zu, %zu bytes, ends beyond %zu", i,
                           offsets[i], buffers[i].bytes, peak);
    }
    return QN_OK;
}

/* ---- groups ---- */

struct member {
    int32_t group;
    uint32_t pos, buffer;
};

static int by_place(const void *pa, const void *pb)
{
    const struct member *a = pa, *b = pb;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->pos != b->pos)
        return a->pos < b->pos ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* Each member starts at the first aligned byte behind the one before it. */
static qn_status check_groups(const qn_buffer *buffers, size_t n,
                              const size_t *offsets, struct member *members,
                              qn_error *err)
{
    size_t count = 0;
    bool empty = true; /* a group without bytes is not placed */
    for (size_t i = 0; i < n; i++)
        if (buffers[i].group >= 0)
            members[count++] = (struct member){ buffers[i].group,
                                                buffers[i].group_pos,
                                                (uint32_t)i };
    qsort(members, count, sizeof *members, by_place);
    for (size_t k = 0; k < count; k++) {
        if (k == 0 || members[k].group != members[k - 1].group) {
            empty = true;
            for (size_t i = k;
                 i < count && members[i].group == members[k].group; i++)
                empty = empty && !buffers[members[i].buffer].bytes;
            continue;
        }
        uint32_t before = members[k - 1].buffer, self = members[k].buffer;
        size_t want = offsets[before] + buffers[before].bytes;
        if (buffers[self].align > 1 && want % buffers[self].align)
            want += buffers[self].align - want % buffers[self].align;
        if (!empty && offsets[self] != want)
            return qn_fail(err, QN_INTERNAL,
                           "buffer %u of group %d lies at %zu, behind buffer "
                           "%u it should be at %zu", self, members[k].group,
                           offsets[self], before, want);
    }
    return QN_OK;
}

qn_status qn_layout_verify(const qn_buffer *buffers, size_t n,
                           const qn_conflicts *conflicts,
                           const size_t *offsets, size_t peak, qn_error *err)
{
    struct event *events = qn_calloc(n, 2 * sizeof *events);
    struct member *members = qn_calloc(n, sizeof *members);
    struct living living = { qn_calloc(n, sizeof *living.ids), 0 };
    qn_status st = QN_OK;
    if (!events || !members || !living.ids)
        st = qn_fail(err, QN_NO_MEMORY, "no heap to check %zu buffers", n);
    if (st == QN_OK)
        st = check_each(buffers, n, offsets, peak, err);
    if (st == QN_OK)
        st = check_groups(buffers, n, offsets, members, err);
    if (st == QN_OK)
        st = conflicts ? check_conflicts(buffers, n, conflicts, offsets, err)
                       : check_lifetimes(buffers, n, offsets, events, &living,
                                         err);
    qn_free(events);
    qn_free(members);
    qn_free(living.ids);
    return st;
}
