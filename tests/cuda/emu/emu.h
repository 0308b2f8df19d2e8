/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated driver offers beside cuda.h: to the stand-ins of the
 * libraries (cuBLASLt, cuDNN, NCCL), which link to its libcuda.so.1, and to
 * tests, which find these functions by dlsym in the libcuda.so.1 they opened.
 * All may be called from any thread. */
#ifndef QN_TESTS_CUDA_EMU_H
#define QN_TESTS_CUDA_EMU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* as in cuda.h, which not every user of this header needs */
typedef struct CUstream_st *CUstream;

#define QN_EMU_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* --- for the stand-ins of libraries */

/**
 * Run fn on the thread of stream s, in order with what is queued there, with
 * access to device memory. During a capture it becomes a node of the graph
 * and runs at each launch of that.
 *
 *   s      a stream, or NULL for the legacy default stream
 *   fn     gets a private copy of arg; the copy is overwritten by nobody but
 *          fn, and is made anew from arg for each launch of a graph
 *   bytes  size of arg, copied before this returns
 *   what   name for counters, log and messages; copied
 *
 * Returns a CUresult: CUDA_SUCCESS, what a capture forbids, an injected error
 * or the sticky error of the context.
 */
QN_EMU_API int qn_emu_enqueue(CUstream s, void (*fn)(void *copy_of_arg),
                              const void *arg, size_t bytes, const char *what);

/* True if [p, p + bytes) lies in one live device or pinned host allocation, or
 * in mapped and accessible pages of a reservation. bytes 0: p alone. */
QN_EMU_API bool qn_emu_device_range(const void *p, size_t bytes);

/* End the process with a message: the client broke a contract that the real
 * library states. Never returns. */
QN_EMU_API void qn_emu_report(const char *fmt, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* Count one call of api and tell whether it is to fail: the CUresult (or the
 * library's own code) asked for by qn_emu_fail_at() or QN_EMU_FAIL, or 0. */
QN_EMU_API int qn_emu_fail(const char *api);

/* True if the context of a device (below 0: of any) has a sticky error: work
 * queued there is dropped from now on. For functions that wait for the work of
 * other streams, which then will not come. */
QN_EMU_API bool qn_emu_dead(int device);

/* --- for tests */

/* How often this was done since the last qn_emu_reset_counts(): a kernel's
 * name or what of qn_emu_enqueue() counts executions on the device, a name of
 * the API counts calls. "kernel", "copy", "library", "graph" are totals. */
QN_EMU_API uint64_t qn_emu_count(const char *what);
QN_EMU_API void qn_emu_reset_counts(void);

/* Call fn for each name with a count other than 0. */
QN_EMU_API void qn_emu_each_count(void (*fn)(void *arg, const char *what,
                                             uint64_t count),
                                  void *arg);

/* The nth call (from 1, counted from now) of api returns code, once. A code
 * that poisons a context on real hardware (700, 719, ...) does so here. With
 * "cuLaunchKernel" and such a code the launch itself succeeds, as launches
 * do, and the error comes out of what follows. */
QN_EMU_API void qn_emu_fail_at(const char *api, uint64_t nth, int code);
/* Forget every injection that has not happened. */
QN_EMU_API void qn_emu_fail_none(void);

/* Each item of a stream is delayed by up to max_us microseconds drawn from
 * seed, the stream's number and the item's; ready nodes of a graph run in an
 * order drawn in the same way. max_us 0 and seed 0: no delays, plain order. */
QN_EMU_API void qn_emu_delays(uint64_t seed, uint32_t max_us);

/* Clear the sticky error of every context, which hardware never does. All
 * streams must be idle. */
QN_EMU_API void qn_emu_revive(void);

/* Bytes of device memory in use on a device: allocations, physical handles,
 * and what pools hold. */
QN_EMU_API uint64_t qn_emu_bytes_in_use(int device);
/* Limit of that, for tests of running out; default QN_EMU_MEMORY. */
QN_EMU_API void qn_emu_set_memory(int device, uint64_t bytes);

/* Everything enqueued on s from now on carries this number in the log. */
QN_EMU_API void qn_emu_tag(CUstream s, uint64_t tag);
/* The same for everything that this thread enqueues, on any stream; goes before
 * the stream's own. 0: none. */
QN_EMU_API void qn_emu_tag_thread(uint64_t tag);

/* --- the log of what was executed, for a race detector that trusts nobody
 *
 * happens-before over the log is: the order of entries with one stream number
 * (a graph launch is one span of its stream's order, see below); RECORD of a
 * point before each WAIT for it; and an item whose `enqueued` lies after the
 * sequence of an OBSERVED entry comes after the point observed there.
 * Inside of a graph launch (NODE .. between GRAPH_BEGIN and GRAPH_END) only
 * the edges count: a NODE comes after the nodes named by EDGE entries that
 * follow it. */
enum qn_emu_log_kind {
    QN_EMU_KERNEL = 1,  /* what: the kernel */
    QN_EMU_COPY = 2,    /* copies and fills; what: the API */
    QN_EMU_LIBRARY = 3, /* what: as given to qn_emu_enqueue */
    QN_EMU_RECORD = 4,  /* point: the point that is now complete */
    QN_EMU_WAIT = 5,    /* point: the point waited for */
    QN_EMU_OBSERVED = 6, /* a host thread saw point complete; stream 0 */
    QN_EMU_GRAPH_BEGIN = 7, /* launch: number of this launch */
    QN_EMU_GRAPH_END = 8,
    QN_EMU_EDGE = 9, /* node comes after node `point` of the same launch */
    QN_EMU_MARK = 10 /* qn_emu_log_mark(): tag; stream 0 */
};

struct qn_emu_entry {
    uint64_t sequence; /* position in the one order of everything logged */
    uint64_t enqueued; /* value of the sequence when the host enqueued it */
    uint64_t stream;   /* number of the stream that executed it, from 1 */
    uint64_t tag;      /* at the time of enqueue, or of capture in a graph */
    uint64_t point;    /* RECORD, WAIT, OBSERVED: number; EDGE: a node */
    uint64_t launch;   /* graph launch that this is part of; 0: none */
    uint32_t node;     /* inside of a graph launch: the node's number */
    uint32_t kind;     /* enum qn_emu_log_kind */
    char what[48];     /* cut to fit */
};

/* Start an empty log, or stop it. */
QN_EMU_API void qn_emu_log(bool on);
/* Entries so far; up to capacity of them are copied to entries. */
QN_EMU_API size_t qn_emu_log_read(struct qn_emu_entry *entries,
                                  size_t capacity);
/* Put something that the host did into the log. */
QN_EMU_API void qn_emu_log_mark(uint64_t tag);
/* The number that the log uses for a stream. */
QN_EMU_API uint64_t qn_emu_stream_number(CUstream s);

#ifdef __cplusplus
}
#endif

#endif
