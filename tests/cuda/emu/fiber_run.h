/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the engine of fibers share: fiber.c, who runs and who
 * waits; fiber_switch.c, stacks; fiber_launch.c, grids and shared memory. */
#ifndef QN_TESTS_CUDA_FIBER_RUN_H
#define QN_TESTS_CUDA_FIBER_RUN_H

#include "tests/cuda/emu/emu.h"
#include "tests/cuda/emu/fiber.h"

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

/* A stack for a fiber that starts in qn_simt_enter(); kept in r->idle. */
struct fiber *qn_simt_fiber_take(struct qn_simt_run *r);
/* Save this fiber, go on with that one. last: nobody comes back here. */
void qn_simt_go(struct qn_simt_run *r, struct fiber *from, struct fiber *to,
                bool last);
/* The first thing that a fiber does. */
void qn_simt_fiber_entered(struct qn_simt_run *r);
/* The life of a fiber; never returns. */
void qn_simt_enter(void);

#endif
