/* SPDX-License-Identifier: Apache-2.0 */
/* See fiber.h. One qn_simt_run is a set of stacks and the state of a block; a
 * thread of the system borrows one for a launch.
 *
 * A switch saves what the ABI says a call preserves and nothing else: no
 * system call, no signal mask, 2 ns. Stacks start at staggered offsets: with
 * all of them at one offset in a page, a round of a barrier would evict its
 * own cache lines. */
#include "tests/cuda/emu/fiber.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/cuda/emu/emu.h"

#if defined __SANITIZE_ADDRESS__
#define WITH_ASAN 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#ifndef WITH_ASAN
#define WITH_ASAN 0
#endif

#if defined __SANITIZE_THREAD__
#define WITH_TSAN 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifndef WITH_TSAN
#define WITH_TSAN 0
#endif

#if WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#elif WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif
/* Functions whose frame is left behind on a stack that is used again: what
 * they marked around their variables would stay marked. */
#if WITH_ASAN
#define LEFT_BEHIND __attribute__((no_sanitize_address, noinline))
#else
#define LEFT_BEHIND
#endif

enum {
    MOST_THREADS = 1024,
    MOST_WARPS = MOST_THREADS / 32,
    MOST_MEETINGS = 8,
    STACK_BYTES = (WITH_ASAN ? 256 : 64) * 1024,
    GUARD_BYTES = 4096,
    STATIC_BYTES = 48 * 1024,
    DYNAMIC_BYTES = 232 * 1024,
    FENCE_BYTES = 32, /* behind each static declaration */
};
static const unsigned char fresh_byte = 0xff, fence_byte = 0xb7;

struct fiber {
    void *sp;
    char *stack;      /* lowest usable byte */
    bool has_thread;  /* a thread of the block is at work on it */
    int waits_as;     /* 0: barrier, else enum qn_simt_meeting */
    unsigned mask;    /* of the meeting */
    const char *file; /* where it waits */
    int line;
#if WITH_ASAN
    void *fake;
    size_t bytes;
#elif WITH_TSAN
    void *context;
#endif
};

/* Lanes with one mask that wait for each other. Values are kept twice: a lane
 * can be at the next meeting before all have read this one, but not at the
 * one after that. */
struct meeting {
    unsigned mask, arrived, unread;
    int kind, parity;
    const char *file;
    int line;
    unsigned ballot[2];
    qn_simt_join join; /* of QN_SIMT_JOIN */
    uint64_t value[2][32];
};

struct warp {
    unsigned live; /* not exited, started or not */
    unsigned runnable;
    unsigned at_barrier;
    struct meeting meeting[MOST_MEETINGS];
};

struct qn_simt_run {
    qn_simt_kernel *kernel;
    const void *args;
    unsigned threads;
    unsigned next;           /* first thread that has not started */
    qn_simt_dim3 next_index; /* its coordinates */
    unsigned live, waiting, at_barrier;
    unsigned runnable_warps;
    const char *barrier_file;
    int barrier_line;
    unsigned votes, votes_seen;
    qn_simt_join join; /* of the barrier at hand, or NULL */
    void *brought[MOST_THREADS];
    struct fiber *current, *of_thread[MOST_THREADS];
    struct fiber main;
    bool from_main; /* the switch under way comes from there */
    struct warp warp[MOST_WARPS];

    struct fiber fiber[MOST_THREADS];
    struct fiber *idle[MOST_THREADS];
    unsigned fibers, idle_fibers;

    char *shared, *dynamic_end;
    size_t shared_used;
    void *sites[QN_SIMT_SITES];
    struct {
        unsigned site;
        size_t at, bytes;
    } declared[QN_SIMT_SITES];
    unsigned declarations;

    struct qn_simt_run *next_free;
};

__thread qn_simt_state qn_simt __attribute__((tls_model("initial-exec")));

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qn_simt_run *free_runs;
static qn_simt_kernel *kernels;
static unsigned sites;

/* --- registry */

void qn_simt_register(qn_simt_kernel *kernel)
{
    pthread_mutex_lock(&lock);
    kernel->next = kernels;
    kernels = kernel;
    pthread_mutex_unlock(&lock);
}

qn_simt_kernel *qn_simt_first(void)
{
    pthread_mutex_lock(&lock);
    qn_simt_kernel *first = kernels;
    pthread_mutex_unlock(&lock);
    return first;
}

qn_simt_kernel *qn_simt_find(const char *name)
{
    for (qn_simt_kernel *k = qn_simt_first(); k; k = k->next)
        if (!strcmp(k->name, name))
            return k;
    return NULL;
}

/* --- the switch: save the callee's registers here, take up those there */

void qn_simt_switch(void **save, void *to);
void qn_simt_enter(void);

#if defined __x86_64__
__asm__(".text\n"
        ".globl qn_simt_switch\n"
        ".hidden qn_simt_switch\n"
        ".type qn_simt_switch,@function\n"
        ".p2align 4\n"
        "qn_simt_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size qn_simt_switch,.-qn_simt_switch\n");

static void *first_frame(char *top)
{
    void **sp = (void **)(void *)top;
    *--sp = NULL; /* what qn_simt_enter would return to */
    void (*enter)(void) = qn_simt_enter;
    memcpy(--sp, &enter, sizeof enter);
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    return sp;
}
#elif defined __aarch64__
__asm__(".text\n"
        ".globl qn_simt_switch\n"
        ".hidden qn_simt_switch\n"
        ".type qn_simt_switch,%function\n"
        ".p2align 4\n"
        "qn_simt_switch:\n"
        "    stp x29, x30, [sp, #-160]!\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    ldp x29, x30, [sp], #160\n"
        "    ret\n"
        ".size qn_simt_switch,.-qn_simt_switch\n");

static void *first_frame(char *top)
{
    void **sp = (void **)(void *)top - 20;
    memset(sp, 0, 160);
    void (*enter)(void) = qn_simt_enter;
    memcpy(&sp[1], &enter, sizeof enter); /* x30 */
    return sp;
}
#else
#error "fibers: write the switch for this architecture"
#endif

static void LEFT_BEHIND go(struct qn_simt_run *r, struct fiber *from,
                           struct fiber *to, bool last)
{
    r->current = to;
#if WITH_ASAN
    r->from_main = from == &r->main;
    __sanitizer_start_switch_fiber(last ? NULL : &from->fake, to->stack,
                                   to->bytes);
#elif WITH_TSAN
    if (from == &r->main)
        from->context = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->context, 0);
#endif
    (void)last;
    qn_simt_switch(&from->sp, to->sp);
#if WITH_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(from->fake, &bottom, &bytes);
#endif
}

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

static struct fiber *fiber_take(struct qn_simt_run *r)
{
    if (r->idle_fibers)
        return r->idle[--r->idle_fibers];
    struct fiber *f = &r->fiber[r->fibers++];
    char *p = mmap(NULL, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, GUARD_BYTES, PROT_NONE) != 0)
        qn_emu_report("no memory for the stack of fiber %u", r->fibers);
    f->stack = p + GUARD_BYTES;
#if WITH_ASAN
    f->bytes = STACK_BYTES;
#elif WITH_TSAN
    f->context = __tsan_create_fiber(0);
#endif
    return f;
}

/* The stack, staggered over the lines of a page. */
static void fiber_prepare(struct qn_simt_run *r, struct fiber *f)
{
    size_t number = (size_t)(f - r->fiber);
    f->sp = first_frame(f->stack + STACK_BYTES - (number * 5 % 64) * 64);
    f->has_thread = false;
}

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
        to = fiber_take(r);
        fiber_prepare(r, to);
    }
    go(r, self, to, false);
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
#if WITH_ASAN
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
    if (r->from_main) { /* the only way to learn about that stack */
        memcpy(&r->main.stack, &bottom, sizeof bottom);
        r->main.bytes = bytes;
    }
#endif
    r->kernel->loop(r->args);
    struct fiber *to = pick_runnable(r, qn_simt.linear >> 5);
    if (!to) {
        if (r->live)
            diverged(r);
        to = &r->main;
    }
    r->idle[r->idle_fibers++] = self;
    go(r, self, to, true);
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

/* --- shared memory */

void *qn_simt_shared_new(qn_simt_site *site, size_t bytes, size_t align)
{
    struct qn_simt_run *r = qn_simt.run;
    pthread_mutex_lock(&lock);
    unsigned number = site->number;
    if (!number) {
        number = ++sites;
        if (number >= QN_SIMT_SITES)
            qn_emu_report("over %d declarations of shared memory",
                          QN_SIMT_SITES - 1);
        __atomic_store_n(&site->number, number, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&lock);
    if (r->sites[number])
        return r->sites[number];
    if (align < 16)
        align = 16;
    size_t at = (r->shared_used + align - 1) / align * align;
    if (bytes > STATIC_BYTES || at + bytes > STATIC_BYTES)
        qn_emu_report("kernel %s declares over %d bytes of shared memory",
                      r->kernel->name, (int)STATIC_BYTES);
    r->shared_used = at + bytes + FENCE_BYTES;
    memset(r->shared + at, fresh_byte, bytes);
    memset(r->shared + at + bytes, fence_byte, FENCE_BYTES);
    r->declared[r->declarations].site = number;
    r->declared[r->declarations].at = at;
    r->declared[r->declarations++].bytes = bytes;
    r->sites[number] = r->shared + at;
    return r->shared + at;
}

static void shared_check(struct qn_simt_run *r)
{
    for (unsigned i = 0; i < r->declarations; i++) {
        const char *fence =
            r->shared + r->declared[i].at + r->declared[i].bytes;
        for (int k = 0; k < FENCE_BYTES; k++)
            if ((unsigned char)fence[k] != fence_byte)
                qn_emu_report("kernel %s, block (%u,%u,%u): write %d bytes "
                              "behind %zu bytes of shared memory",
                              r->kernel->name, qn_simt.block.x, qn_simt.block.y,
                              qn_simt.block.z, k, r->declared[i].bytes);
    }
}

/* --- launches */

static void *map_shared(size_t bytes)
{
    char *p =
        mmap(NULL, bytes + (size_t)2 * GUARD_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, GUARD_BYTES, PROT_NONE) != 0 ||
        mprotect(p + GUARD_BYTES + bytes, GUARD_BYTES, PROT_NONE) != 0)
        qn_emu_report("no memory for %zu bytes of shared memory", bytes);
    return p + GUARD_BYTES;
}

static struct qn_simt_run *run_take(void)
{
    pthread_mutex_lock(&lock);
    struct qn_simt_run *r = free_runs;
    if (r)
        free_runs = r->next_free;
    pthread_mutex_unlock(&lock);
    if (r)
        return r;
    r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r == MAP_FAILED)
        qn_emu_report("no memory for a block");
    /* room for the fence of the last declaration */
    r->shared = map_shared(STATIC_BYTES + GUARD_BYTES);
    r->dynamic_end = (char *)map_shared(DYNAMIC_BYTES) + DYNAMIC_BYTES;
    return r;
}

static void run_give(struct qn_simt_run *r)
{
    for (unsigned i = 0; i < r->declarations; i++)
        r->sites[r->declared[i].site] = NULL;
    r->declarations = 0;
    r->shared_used = 0;
    pthread_mutex_lock(&lock);
    r->next_free = free_runs;
    free_runs = r;
    pthread_mutex_unlock(&lock);
}

static void run_block(struct qn_simt_run *r)
{
    r->next = 0;
    r->next_index = (qn_simt_dim3){ 0, 0, 0 };
    r->live = r->threads;
    for (unsigned w = 0; w * 32 < r->threads; w++) {
        unsigned lanes = r->threads - w * 32;
        r->warp[w].live = lanes >= 32 ? ~0u : (1u << lanes) - 1;
    }
    for (unsigned i = 0; i < r->declarations; i++)
        memset(r->shared + r->declared[i].at, fresh_byte, r->declared[i].bytes);
    struct fiber *first = fiber_take(r);
    fiber_prepare(r, first);
    go(r, &r->main, first, false);
    shared_check(r);
}

void qn_simt_launch(qn_simt_kernel *kernel, qn_simt_dim3 grid,
                    qn_simt_dim3 block, size_t dynamic_bytes, const void *args)
{
    struct qn_simt_run *r = run_take();
    size_t rounded = (dynamic_bytes + 15) / 16 * 16;
    if (rounded > DYNAMIC_BYTES || block.x * block.y * block.z > MOST_THREADS)
        qn_emu_report("kernel %s: launch beyond the limits", kernel->name);
    r->kernel = kernel;
    r->args = args;
    r->threads = block.x * block.y * block.z;
    qn_simt.block_dim = block;
    qn_simt.grid_dim = grid;
    qn_simt.dynamic = r->dynamic_end - rounded;
    qn_simt.sites = r->sites;
    qn_simt.run = r;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                qn_simt.block = (qn_simt_dim3){ x, y, z };
                if (rounded)
                    memset(qn_simt.dynamic, fresh_byte, rounded);
                run_block(r);
            }
    qn_simt.run = NULL;
    run_give(r);
    __atomic_add_fetch(&kernel->launches, 1, __ATOMIC_RELAXED);
}
