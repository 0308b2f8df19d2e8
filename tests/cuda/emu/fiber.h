/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of one block on one thread of the system.
 *
 * A block starts as one fiber, which runs thread after thread as plain calls.
 * A thread that has to wait for others (barrier, shuffle, vote) is left where
 * it stands; the rest of the block goes on in another fiber, and the waiting
 * one continues once those it waits for have come. A kernel without barriers
 * so runs as a loop. Order: lanes of the own warp first, then other warps in
 * rising order, so that a round of a barrier costs one switch a thread.
 *
 * If nobody can run and somebody waits, the block has diverged: the process
 * ends with a message that names kernel, block, threads and places. */
#ifndef QN_TESTS_CUDA_FIBER_H
#define QN_TESTS_CUDA_FIBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QN_SIMT_API __attribute__((visibility("default")))

#ifdef __cplusplus
template <class T> struct qn_simt_identity {
    typedef T type;
};
extern "C" {
#endif

typedef struct qn_simt_dim3 {
    unsigned x, y, z;
} qn_simt_dim3;

enum { QN_SIMT_SITES = 1024 };

/* The state of this thread of the system: the block in work and the thread of
 * it that runs. Read by device code through threadIdx and its like. */
typedef struct qn_simt_state {
    qn_simt_dim3 thread, block, block_dim, grid_dim;
    void *dynamic;           /* shared memory asked for at launch */
    void **sites;            /* [QN_SIMT_SITES], see qn_simt_site */
    unsigned linear;         /* number of the thread in its block */
    struct qn_simt_run *run; /* fiber.c; NULL outside of kernels */
} qn_simt_state;

/* __thread: thread_local of C++ would ask for a constructor at each access */
extern QN_SIMT_API __thread qn_simt_state qn_simt
    __attribute__((tls_model("initial-exec")));

/* One kernel of device code; static storage, in a list that never shrinks. */
typedef struct qn_simt_kernel {
    const char *name;
    size_t argument_bytes;
    unsigned most_threads;          /* of __launch_bounds__ */
    void (*loop)(const void *args); /* while (take_thread) body */
    uint64_t launches;              /* atomic */
    struct qn_simt_kernel *next;
} qn_simt_kernel;

QN_SIMT_API void qn_simt_register(qn_simt_kernel *kernel);
qn_simt_kernel *qn_simt_find(const char *name);
qn_simt_kernel *qn_simt_first(void);

/* A declaration of shared memory: its number once it was first reached. */
typedef struct qn_simt_site {
    unsigned number; /* atomic; 0: not yet numbered */
} qn_simt_site;

QN_SIMT_API void *qn_simt_shared_new(qn_simt_site *site, size_t bytes,
                                     size_t align);
static inline void *qn_simt_shared(qn_simt_site *site, size_t bytes,
                                   size_t align)
{
    void *p = qn_simt.sites[__atomic_load_n(&site->number, __ATOMIC_RELAXED)];
    return p ? p : qn_simt_shared_new(site, bytes, align);
}

/* The next thread of the block that has not started becomes the one that
 * runs. False: none is left. */
QN_SIMT_API bool qn_simt_take_thread(void);

/* Wait for all live threads of the block. With votes != 0 returns the number
 * of threads whose vote was 1. */
QN_SIMT_API unsigned qn_simt_barrier(int votes, unsigned vote, const char *file,
                                     int line);

enum qn_simt_meeting {
    QN_SIMT_SYNC = 1,
    QN_SIMT_SHUFFLE,
    QN_SIMT_BALLOT,
    QN_SIMT_JOIN,
};

/* Wait for the live lanes named in mask, which must do the same with the same
 * mask. Returns the 32 values brought; valid until the next meeting. */
QN_SIMT_API const uint64_t *qn_simt_meet(int kind, unsigned mask,
                                         uint64_t value, const char *file,
                                         int line);
/* Value of a lane among those; all bits set for one that did not come. */
QN_SIMT_API uint64_t qn_simt_lane_value(const uint64_t *values, unsigned mask,
                                        int lane);
QN_SIMT_API unsigned qn_simt_ballot(unsigned mask, unsigned vote,
                                    const char *file, int line);
QN_SIMT_API unsigned qn_simt_active_mask(void);

/* A meeting of the lanes of a full warp, or of all threads of the block, to
 * which each brings the address of a value of its own. Whoever comes last
 * runs join for all: values[n] is the address of the nth, NULL where a lane
 * will not come. What takes ten switches a thread by shuffles takes one. */
typedef void (*qn_simt_join)(void *const *values, unsigned n);
QN_SIMT_API void qn_simt_join_warp(void *value, qn_simt_join join,
                                   const char *file, int line);
QN_SIMT_API void qn_simt_join_block(void *value, qn_simt_join join,
                                    const char *file, int line);
static inline int qn_simt_lane(void)
{
    return (int)(qn_simt.linear & 31u);
}

/* End the process: what the running thread does wrong. */
QN_SIMT_API void qn_simt_misuse(const char *what, const char *file, int line)
    __attribute__((noreturn));
QN_SIMT_API void qn_simt_misaligned(const void *p, unsigned bytes)
    __attribute__((noreturn));

/* Run a whole grid on the calling thread. args: argument_bytes, 16-byte
 * aligned. The caller has checked the dimensions. */
void qn_simt_launch(qn_simt_kernel *kernel, qn_simt_dim3 grid,
                    qn_simt_dim3 block, size_t dynamic_bytes, const void *args);

/* Where this thread of the system is in device code, for messages; an empty
 * string outside of kernels. Safe in a signal handler. */
void qn_simt_where(char *text, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
