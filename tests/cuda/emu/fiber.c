/* SPDX-License-Identifier: Apache-2.0 */
/* See fiber.h: who of a block runs, who waits for what. A qn_simt_run is a set
 * of stacks and the state of a block; a thread of the system borrows one for a
 * launch. */
#include "tests/cuda/emu/fiber_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__thread qn_simt_state qn_simt __attribute__((tls_model("initial-exec")));

/* --- messages */

static void dim_text(char *text, size_t bytes, qn_simt_dim3 d)
{
    snprintf(text, bytes, "(%u,%u,%u)", d.x, d.y, d.z);
}

void qn_simt_where(char *text, size_t bytes)
{
    char block[48], thread[48];
    text[0] = 0;
    if (!qn_simt.run)
        return;
    dim_text(block, sizeof block, qn_simt.block);
    dim_text(thread, sizeof thread, qn_simt.thread);
    snprintf(text, bytes, "kernel %s, block %s, thread %s",
             qn_simt.run->kernel->name, block, thread);
}

void qn_simt_misaligned(const void *p, unsigned bytes)
{
    char where[300];
    qn_simt_where(where, sizeof where);
    qn_emu_report("misaligned access of %u bytes at %p: %s", bytes, p, where);
}

void qn_simt_misuse(const char *what, const char *file, int line)
{
    char where[300];
    qn_simt_where(where, sizeof where);
    qn_emu_report("%s, at %s:%d: %s", where, file, line, what);
}

static void __attribute__((noreturn)) diverged(struct qn_simt_run *r)
{
    static const char *const verb[] = { "__syncthreads", "__syncwarp",
                                        "a shuffle", "a vote", "a reduction" };
    char text[2048];
    char block[48];
    size_t n = 0;
    unsigned told = 0;
    dim_text(block, sizeof block, qn_simt.block);
    for (unsigned t = 0; t < r->threads && told < 12; t++) {
        const struct fiber *f = r->of_thread[t];
        const struct fiber *before = t ? r->of_thread[t - 1] : NULL;
        if (f && before && f->line == before->line && f->mask == before->mask &&
            f->waits_as == before->waits_as)
            continue; /* like the one before */
        if (!f && t && !before)
            continue;
        told++;
        n += (size_t)(f ? snprintf(text + n, sizeof text - n,
                                   "\n    from thread %u: waits in %s, %s:%d, "
                                   "mask 0x%08x",
                                   t, verb[f->waits_as], f->file, f->line,
                                   f->mask)
                        : snprintf(text + n, sizeof text - n,
                                   "\n    from thread %u: has exited", t));
        if (n >= sizeof text)
            break;
    }
    qn_emu_report("kernel %s, block %s: divergence, no thread can go on%s",
                  r->kernel->name, block, text);
}

/* --- who runs */

static void make_runnable(struct qn_simt_run *r, unsigned w, unsigned lanes)
{
    r->warp[w].runnable |= lanes;
    if (lanes)
        r->runnable_warps |= 1u << w;
}

/* A thread that can go on, of warp w if there is one, else of the next; it
 * counts as running from now on. NULL: none. */
static inline struct fiber *pick_runnable(struct qn_simt_run *r, unsigned w)
{
    if (!r->runnable_warps)
        return NULL;
    if (!r->warp[w].runnable) {
        unsigned after = w == 31 ? 0 : r->runnable_warps & (~0u << (w + 1));
        w = (unsigned)__builtin_ctz(after ? after : r->runnable_warps);
    }
    struct warp *warp = &r->warp[w];
    unsigned t = w * 32 + (unsigned)__builtin_ctz(warp->runnable);
    warp->runnable &= warp->runnable - 1;
    if (!warp->runnable)
        r->runnable_warps &= ~(1u << w);
    struct fiber *f = r->of_thread[t];
    r->of_thread[t] = NULL;
    r->waiting--;
    return f;
}

/* The running thread waits. Returns when somebody made it runnable and its
 * turn has come. */
static void wait_turn(struct qn_simt_run *r, int as, unsigned mask,
                      const char *file, int line)
{
    struct fiber *self = r->current, *to = NULL;
    qn_simt_dim3 index = qn_simt.thread;
    unsigned t = qn_simt.linear, w = t >> 5;
    self->waits_as = as;
    self->mask = mask;
    self->file = file;
    self->line = line;
    r->of_thread[t] = self;
    r->waiting++;
    bool unstarted = r->next < r->threads;
    if (!unstarted || r->warp[w].runnable || r->next >> 5 != w)
        to = pick_runnable(r, w);
    if (!to) {
        if (!unstarted)
            diverged(r);
        to = qn_simt_fiber_take(r);
    }
    qn_simt_go(r, self, to, false);
    qn_simt.thread = index;
    qn_simt.linear = t;
}

static void barrier_release(struct qn_simt_run *r)
{
    if (r->join) {
        r->join(r->brought, r->threads);
        r->join = NULL;
    }
    for (unsigned w = 0; w * 32 < r->threads; w++) {
        make_runnable(r, w, r->warp[w].at_barrier);
        r->warp[w].at_barrier = 0;
    }
    r->at_barrier = 0;
    r->votes_seen = r->votes;
    r->votes = 0;
}

static bool meeting_complete(const struct warp *w, const struct meeting *m)
{
    return ((m->arrived | ~w->live) & m->mask) == m->mask;
}

/* All are there: the values of those who will not come are all ones. */
static void meeting_close(struct meeting *m)
{
    unsigned absent = m->mask & ~m->arrived;
    uint64_t none = m->kind == QN_SIMT_JOIN ? 0 : ~(uint64_t)0;
    for (; absent; absent &= absent - 1)
        m->value[m->parity][__builtin_ctz(absent)] = none;
    if (m->kind == QN_SIMT_JOIN) {
        void *values[32];
        memcpy(values, m->value[m->parity], sizeof values);
        m->join(values, 32);
    }
    m->unread = m->arrived;
    m->arrived = 0;
    m->parity ^= 1;
}

/* The programming guide allows a barrier in a condition only if all threads of
 * the block find it true; that they may have exited is not excepted. */
static void __attribute__((noreturn))
gone_from_barrier(const struct qn_simt_run *r, const char *file, int line)
{
    char where[300];
    qn_simt_where(where, sizeof where);
    qn_emu_report("%s: divergence: %u of %u threads exit without the barrier "
                  "of %s:%d",
                  where, r->threads - r->live, r->threads, file, line);
}

/* Others may have waited for the thread only because it was alive. */
static void exit_seen_by_others(struct qn_simt_run *r, unsigned w)
{
    struct warp *warp = &r->warp[w];
    for (struct meeting *m = warp->meeting; m < warp->meeting + MOST_MEETINGS;
         m++)
        if (m->arrived && meeting_complete(warp, m)) {
            make_runnable(r, w, m->arrived);
            meeting_close(m);
        }
    if (r->at_barrier)
        gone_from_barrier(r, r->barrier_file, r->barrier_line);
}

bool qn_simt_take_thread(void)
{
    struct qn_simt_run *r = qn_simt.run;
    struct fiber *self = r->current;
    if (self->has_thread) {
        unsigned t = qn_simt.linear;
        r->warp[t >> 5].live &= ~(1u << (t & 31));
        r->live--;
        if (r->waiting)
            exit_seen_by_others(r, t >> 5);
    }
    if (r->next == r->threads) {
        self->has_thread = false;
        return false;
    }
    self->has_thread = true;
    qn_simt.linear = r->next++;
    qn_simt.thread = r->next_index;
    if (++r->next_index.x == qn_simt.block_dim.x) {
        r->next_index.x = 0;
        if (++r->next_index.y == qn_simt.block_dim.y) {
            r->next_index.y = 0;
            r->next_index.z++;
        }
    }
    return true;
}

/* The life of a fiber: threads, as long as there are any; then whoever can go
 * on; the last one goes back to the caller of the launch. */
void LEFT_BEHIND qn_simt_enter(void)
{
    struct qn_simt_run *r = qn_simt.run;
    struct fiber *self = r->current;
    qn_simt_fiber_entered(r);
    r->kernel->loop(r->args);
    struct fiber *to = pick_runnable(r, qn_simt.linear >> 5);
    if (!to) {
        if (r->live)
            diverged(r);
        to = &r->main;
    }
    r->idle[r->idle_fibers++] = self;
    qn_simt_go(r, self, to, true);
    abort(); /* nobody resumes a fiber that is idle */
}

/* --- what threads do together */

unsigned qn_simt_barrier(int votes, unsigned vote, const char *file, int line)
{
    struct qn_simt_run *r = qn_simt.run;
    unsigned t = qn_simt.linear;
    if (r->at_barrier == 0) {
        r->barrier_file = file;
        r->barrier_line = line;
    } else if (r->barrier_line != line ||
               (r->barrier_file != file && strcmp(r->barrier_file, file))) {
        char where[300];
        qn_simt_where(where, sizeof where);
        qn_emu_report("%s is at the barrier of %s:%d, others of its block are "
                      "at %s:%d",
                      where, file, line, r->barrier_file, r->barrier_line);
    }
    if (__builtin_expect(r->live < r->threads, 0))
        gone_from_barrier(r, file, line);
    r->votes += vote;
    if (++r->at_barrier == r->live) {
        r->at_barrier--;
        barrier_release(r);
    } else {
        r->warp[t >> 5].at_barrier |= 1u << (t & 31);
        wait_turn(r, 0, ~0u, file, line);
    }
    return votes ? r->votes_seen : 0;
}

void qn_simt_join_block(void *value, qn_simt_join join, const char *file,
                        int line)
{
    struct qn_simt_run *r = qn_simt.run;
    r->brought[qn_simt.linear] = value;
    if (r->at_barrier == 0)
        r->join = join; /* a barrier at another place would be reported */
    qn_simt_barrier(0, 0, file, line);
}

static struct meeting *meeting_find(struct warp *w, unsigned mask)
{
    for (int i = 0; i < MOST_MEETINGS; i++)
        if (w->meeting[i].mask == mask)
            return &w->meeting[i];
    for (int i = 0; i < MOST_MEETINGS; i++)
        if (!w->meeting[i].arrived && !w->meeting[i].unread) {
            w->meeting[i].mask = mask;
            return &w->meeting[i];
        }
    qn_emu_report("kernel %s: over %d groups of lanes of one warp at work",
                  qn_simt.run->kernel->name, (int)MOST_MEETINGS);
}

/* Which half of the meeting's values is the running lane's to read. */
static inline int meet(struct meeting **out, int kind, unsigned mask,
                       uint64_t value, const char *file, int line)
{
    struct qn_simt_run *r = qn_simt.run;
    unsigned w = qn_simt.linear >> 5, bit = 1u << (qn_simt.linear & 31);
    struct warp *warp = &r->warp[w];
    struct meeting *m = &warp->meeting[0];
    if (__builtin_expect(m->mask != mask, 0))
        m = meeting_find(warp, mask);
    *out = m;
    if (__builtin_expect(!(mask & bit), 0))
        qn_emu_report("kernel %s, thread %u at %s:%d: mask 0x%08x does not "
                      "name the lane itself",
                      r->kernel->name, qn_simt.linear, file, line, mask);
    int parity = m->parity;
    if (!m->arrived) {
        m->kind = kind;
        m->file = file;
        m->line = line;
        m->ballot[parity] = 0;
    } else if (__builtin_expect(m->kind != kind, 0)) {
        char where[300];
        qn_simt_where(where, sizeof where);
        qn_emu_report("%s at %s:%d meets lanes that do something else at %s:%d",
                      where, file, line, m->file, m->line);
    }
    m->value[parity][qn_simt.linear & 31] = value;
    if (value)
        m->ballot[parity] |= bit;
    m->arrived |= bit;
    if (meeting_complete(warp, m)) {
        make_runnable(r, w, m->arrived & ~bit);
        meeting_close(m);
    } else {
        wait_turn(r, kind, mask, file, line);
    }
    m->unread &= ~bit;
    return parity;
}

const uint64_t *qn_simt_meet(int kind, unsigned mask, uint64_t value,
                             const char *file, int line)
{
    struct meeting *m;
    int parity = meet(&m, kind, mask, value, file, line);
    return m->value[parity];
}

void qn_simt_join_warp(void *value, qn_simt_join join, const char *file,
                       int line)
{
    struct meeting *m;
    struct warp *warp = &qn_simt.run->warp[qn_simt.linear >> 5];
    m = meeting_find(warp, ~0u);
    if (m->arrived && m->join != join)
        qn_simt_misuse("another reduction than the rest of its warp", file,
                       line);
    m->join = join;
    meet(&m, QN_SIMT_JOIN, ~0u, (uintptr_t)value, file, line);
}

uint64_t qn_simt_lane_value(const uint64_t *values, unsigned mask, int lane)
{
    return mask >> lane & 1u ? values[lane] : ~(uint64_t)0;
}

unsigned qn_simt_ballot(unsigned mask, unsigned vote, const char *file,
                        int line)
{
    struct meeting *m;
    int parity = meet(&m, QN_SIMT_BALLOT, mask, vote, file, line);
    return m->ballot[parity];
}

unsigned qn_simt_active_mask(void)
{
    return qn_simt.run->warp[qn_simt.linear >> 5].live;
}
