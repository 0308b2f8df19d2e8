/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the emulated driver share.
 *
 *   inject.c    counters of calls, injected failures, reports
 *   driver.c    devices, contexts, names of errors
 *   memory.c    the table of allocations, protection against the host
 *   memory_api.c, virtual.c, copy.c    cuMem...
 *   stream.c    a thread per stream, points in time, events
 *   capture.c, graph.c                 captures and graphs
 *   launch.c    modules, functions, launches
 *   log.c       what was executed
 *   fiber*.c    device code
 *
 * Lock order: context lock, stream lock, memory lock, point lock, log lock.
 * The capture lock is taken before all of these. */
#ifndef QN_TESTS_CUDA_INTERNAL_H
#define QN_TESTS_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>

#include "tests/cuda/emu/emu.h"
#include "tests/cuda/emu/fiber.h"

#pragma GCC visibility push(hidden)

/* cuda.h declares its functions without visibility; the library is compiled
 * with -fvisibility=hidden, and every definition of one says so */
#define API __attribute__((visibility("default"))) CUresult CUDAAPI

enum { MOST_DEVICES = 8 };

/* --- inject.c */

struct counter {
    const char *name;
    uint64_t count; /* atomic */
    struct counter *next;
    bool listed;
};
struct counter *counter_find(const char *name); /* made where not there */
void counter_add(struct counter *c);

enum enter {
    ANY = 0,
    INIT = 1,    /* after cuInit */
    CONTEXT = 3, /* and with a current context, which must be healthy */
    UNSAFE = 4,  /* not during captures, see capture_unsafe() */
};
CUresult enter(struct counter *api, int what);
CUresult injected(struct counter *api);
bool poisons(int code);
/* At the head of a function of the API. */
#define ENTER(name, what) \
    do { \
        static struct counter counter_ = { name, 0, NULL, false }; \
        CUresult entered_ = enter(&counter_, what); \
        if (entered_ != CUDA_SUCCESS) \
            return entered_; \
    } while (0)

/* --- driver.c */

struct CUctx_st {
    int device;
    unsigned users, flags; /* guarded by lock, like the list of streams */
    int sticky;            /* atomic; CUresult */
    pthread_mutex_t lock;
    struct CUstream_st *streams, *legacy;
    struct point *legacy_point; /* last work of the legacy stream, or NULL */
    unsigned peers;             /* bit per device whose memory it may use */
};

struct device {
    char name[64];
    int multiprocessors;
    uint64_t memory, in_use; /* atomic */
    struct CUctx_st context;
};
extern struct device devices[MOST_DEVICES];
extern int n_devices; /* 0 before cuInit */
CUcontext current_context(void);
CUresult sticky_of(CUcontext context);
void poison(CUcontext context, CUresult code);
uint64_t env_number(const char *name, uint64_t otherwise);

/* --- faults.c */

void faults_init(void);
/* Around the life of a thread that runs device code. */
void *faults_thread_start(void);
void faults_thread_end(void *stack);

/* --- memory.c */

enum range_kind {
    RANGE_DEVICE = 1, /* cuMemAlloc */
    RANGE_POOL,
    RANGE_PINNED,     /* cuMemAllocHost */
    RANGE_REGISTERED, /* cuMemHostRegister */
    RANGE_RESERVED,   /* address space; what is mapped into it has its own */
    RANGE_MAPPED,     /* within one RANGE_RESERVED */
    RANGE_LEAVING,    /* RANGE_POOL whose free is in a queue */
};
struct range {
    char *start;
    size_t bytes;
    enum range_kind kind;
    int device;
    bool accessible;     /* RANGE_MAPPED: after cuMemSetAccess */
    char *map;           /* what mmap gave, with fences */
    size_t map_bytes;
    struct CUmemPoolHandle_st *pool;
    struct physical *physical;
};

void memory_init(void);
/* Let this thread use device memory, nested. Streams do for their life. */
void memory_open(void);
void memory_shut(void);
/* True if the host has no access even while streams work (protection keys). */
bool memory_has_keys(void);
/* The range that p lies in, copied. */
bool range_find(const void *p, struct range *out);
/* All of [p, p + bytes) usable by device work; NULL out is fine. */
bool range_usable(const void *p, size_t bytes, struct range *out);
void range_insert(const struct range *range);
/* Change the kind of the range that starts there; false: there is none. */
bool range_leave(const void *start, struct range *out);
bool range_remove(const void *start, unsigned kinds, struct range *out);
bool range_overlaps(const void *p, size_t bytes, unsigned kinds);
/* RANGE_MAPPED entries that make up exactly [p, p + bytes), in order. */
bool range_each_mapped(char *p, size_t bytes,
                       void (*fn)(struct range *range, void *arg), void *arg);
/* Nearest range, for messages. */
void range_text(const void *p, char *text, size_t bytes);
/* Protection of pages as device memory: PROT_NONE or accessible. */
void memory_protect(void *p, size_t bytes);
bool memory_charge(int device, uint64_t bytes);
void memory_uncharge(int device, uint64_t bytes);
CUresult device_alloc(int device, size_t bytes, enum range_kind kind,
                      struct CUmemPoolHandle_st *pool, void **out);
void device_free(const struct range *range);
void quarantine(char *map, size_t bytes);

/* --- points, streams, events (stream.c) */

struct point {
    unsigned refs; /* atomic */
    int done;      /* atomic */
    uint64_t number;
    struct timespec time;
};
struct point *point_new(void);
struct point *point_ref(struct point *p);
void point_unref(struct point *p);
void point_wait(struct point *p);
bool point_done(const struct point *p);
void point_observed(const struct point *p); /* the host knows that it is done */

/* Work, in a stream or as a node of a graph. */
struct op {
    uint32_t kind;     /* enum qn_emu_log_kind */
    bool keeps_arg;    /* fn does not write to arg */
    bool always;       /* also when the context is dead */
    struct counter *counter;
    const char *what;  /* static, or the counter's */
    void (*fn)(void *arg);
    uint64_t tag;
    CUresult poisons;  /* instead of fn: kill the context */
    size_t bytes;
    _Alignas(16) char arg[];
};
struct op *op_new(uint32_t kind, const char *what, void (*fn)(void *),
                  const void *arg, size_t bytes);
/* Execute on the calling stream thread, unless the context is dead. */
void op_run(struct CUstream_st *s, struct op *op, uint64_t enqueued,
            uint64_t launch, uint32_t node);

enum item_kind { ITEM_OP, ITEM_RECORD, ITEM_WAIT, ITEM_GRAPH, ITEM_QUIT };
struct item {
    struct item *next;
    enum item_kind kind;
    uint64_t enqueued;
    struct op *op;
    struct point *point;
    CUgraphExec exec;
    uint64_t tag;
};

struct CUstream_st {
    uint32_t magic;
    CUcontext context;
    uint64_t number;
    unsigned flags;
    int priority;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the queue */
    pthread_cond_t wake;
    struct item *first, **last;
    bool sleeping;
    uint64_t enqueued, completed; /* completed: atomic */
    uint64_t random;
    uint64_t tag;
    struct CUstream_st *next; /* of the context */
    /* guarded by the capture lock */
    struct capture *capture; /* atomic for the quick look */
    uint32_t *after;         /* nodes that the next one comes after */
    size_t n_after;
    struct CUstream_st *next_captured;
};

struct CUevent_st {
    uint32_t magic;
    unsigned flags;
    CUcontext context;
    pthread_mutex_t lock;
    struct point *point; /* NULL: never recorded */
    /* last recorded in a capture: its number, else 0 (capture lock) */
    uint64_t capture;
    uint32_t *after;
    size_t n_after;
};

/* NULL and CU_STREAM_LEGACY become the legacy stream of the context. */
CUresult stream_of(CUstream handle, struct CUstream_st **out);
/* op: taken. Into the capture where there is one, else into the queue. */
CUresult stream_op(struct CUstream_st *s, struct op *op);
void stream_push(struct CUstream_st *s, struct item item);
struct point *stream_record(struct CUstream_st *s);
bool stream_idle(struct CUstream_st *s);
void stream_sync(struct CUstream_st *s);
void context_sync(CUcontext context); /* all streams of it */
uint64_t random_next(uint64_t *state);
extern uint64_t delay_seed; /* atomic */
extern uint32_t delay_most_us; /* atomic */
extern _Thread_local const char *stream_doing; /* for messages */
/* The legacy stream may not be used while blocking streams capture. */
CUresult legacy_check(struct CUstream_st *s);

/* --- captures and graphs */

struct node {
    struct op *op; /* NULL: an empty node */
    uint32_t *after;
    size_t n_after;
};
struct graph_body {
    unsigned refs; /* atomic */
    struct node *nodes;
    size_t n, capacity;
};
struct CUgraphExec_st {
    uint32_t magic;
    unsigned refs;
    pthread_mutex_t lock;
    struct point *last; /* end of the last launch, or NULL */
    struct graph_body *body;
};
extern pthread_mutex_t capture_lock;
/* Is s part of a capture? */
static inline bool stream_captured(const struct CUstream_st *s)
{
    return __atomic_load_n(&s->capture, __ATOMIC_ACQUIRE) != NULL;
}
CUresult capture_op(struct CUstream_st *s, struct op *op);
CUresult capture_record(struct CUstream_st *s, struct CUevent_st *e);
/* *handled false: neither is part of a capture, do the plain thing. */
CUresult capture_wait(struct CUstream_st *s, struct CUevent_st *e,
                      bool *handled);
/* The call conflicts with the capture of s: it is lost. */
CUresult capture_conflict(struct CUstream_st *s, CUresult code);
CUresult capture_unsafe(void);
/* Any stream of the context, only blocking ones, in a capture? They are lost
 * and code is returned. */
CUresult capture_in_context(CUcontext context, bool blocking_only,
                            CUresult code);
struct graph_body *body_new(void);
void body_unref(struct graph_body *b);
void body_add(struct graph_body *b, struct node node);
CUgraph graph_new(struct graph_body *b);
void exec_unref(CUgraphExec exec);
void exec_run(struct CUstream_st *s, const struct item *item);

/* --- log.c */

bool log_on(void);
uint64_t log_now(void);
void log_add(const struct qn_emu_entry *entry);

#pragma GCC visibility pop

#endif
