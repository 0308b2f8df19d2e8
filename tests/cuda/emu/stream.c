/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: a thread each, first in, first out; and points in their time.
 *
 * A point is what an event holds: recording gives the event a new one, and who
 * waits keeps the one that was there at the time of the call, as CUDA says. */
#include "tests/cuda/emu/internal.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { STREAM_MAGIC = 0x5154524d };

uint64_t delay_seed;
uint32_t delay_most_us;
_Thread_local const char *stream_doing;
static _Thread_local uint64_t thread_tag;

static uint64_t last_stream, last_point; /* atomic */
static struct CUstream_st *dead_streams; /* atomic; never freed, for checks */

/* one lock for all points: completions are rare against device work */
static pthread_mutex_t point_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t point_cond = PTHREAD_COND_INITIALIZER;
static unsigned point_waiters;

/* --- points */

struct point *point_new(void)
{
    struct point *p = calloc(1, sizeof *p);
    if (!p)
        qn_emu_report("no memory for an event");
    p->refs = 1;
    p->number = __atomic_add_fetch(&last_point, 1, __ATOMIC_RELAXED);
    return p;
}

struct point *point_ref(struct point *p)
{
    __atomic_add_fetch(&p->refs, 1, __ATOMIC_RELAXED);
    return p;
}

void point_unref(struct point *p)
{
    if (p && __atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(p);
}

static void point_reach(struct point *p)
{
    clock_gettime(CLOCK_MONOTONIC, &p->time);
    pthread_mutex_lock(&point_lock);
    __atomic_store_n(&p->done, 1, __ATOMIC_RELEASE);
    if (point_waiters)
        pthread_cond_broadcast(&point_cond);
    pthread_mutex_unlock(&point_lock);
}

bool point_done(const struct point *p)
{
    return __atomic_load_n(&p->done, __ATOMIC_ACQUIRE);
}

void point_wait(struct point *p)
{
    if (point_done(p))
        return;
    pthread_mutex_lock(&point_lock);
    point_waiters++;
    while (!p->done)
        pthread_cond_wait(&point_cond, &point_lock);
    point_waiters--;
    pthread_mutex_unlock(&point_lock);
}

void point_observed(const struct point *p)
{
    if (log_on())
        log_add(&(struct qn_emu_entry){ .kind = QN_EMU_OBSERVED,
                                        .point = p->number,
                                        .enqueued = log_now() });
}

/* --- random delays */

/* A hash in the manner of splitmix64; the state is the counter. */
uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void qn_emu_delays(uint64_t seed, uint32_t max_us)
{
    __atomic_store_n(&delay_seed, seed, __ATOMIC_RELAXED);
    __atomic_store_n(&delay_most_us, max_us, __ATOMIC_RELAXED);
}

static uint64_t random_of_item(const struct CUstream_st *s)
{
    uint64_t state = __atomic_load_n(&delay_seed, __ATOMIC_RELAXED) +
                     s->number * 0x2545f4914f6cdd1du +
                     s->completed * 0x632be59bd9b4e019u;
    return random_next(&state);
}

/* Half of the items at once, the others late. */
static void delay(const struct CUstream_st *s)
{
    uint32_t most = __atomic_load_n(&delay_most_us, __ATOMIC_RELAXED);
    if (most == 0)
        return;
    uint64_t r = random_of_item(s);
    if (r & 1) {
        sched_yield();
        return;
    }
    uint64_t ns = (r >> 1) % ((uint64_t)most * 1000 + 1);
    struct timespec t = { (time_t)(ns / 1000000000u),
                          (long)(ns % 1000000000u) };
    nanosleep(&t, NULL);
}

/* --- work */

struct op *op_new(uint32_t kind, const char *what, void (*fn)(void *),
                  const void *arg, size_t bytes)
{
    struct op *op = aligned_alloc(16, (sizeof *op + bytes + 15) / 16 * 16);
    if (!op)
        qn_emu_report("no memory for %zu bytes of arguments", bytes);
    memset(op, 0, sizeof *op);
    op->kind = kind;
    op->what = what;
    op->fn = fn;
    op->bytes = bytes;
    if (bytes)
        memcpy(op->arg, arg, bytes);
    return op;
}

static void op_call(const struct op *op, bool once)
{
    if (once || op->keeps_arg) {
        void *arg;
        memcpy(&arg, &(const void *){ op->arg }, sizeof arg);
        op->fn(arg);
        return;
    }
    void *copy = aligned_alloc(16, (op->bytes + 31) / 16 * 16);
    if (!copy)
        qn_emu_report("no memory for %zu bytes of arguments", op->bytes);
    memcpy(copy, op->arg, op->bytes);
    op->fn(copy);
    free(copy);
}

void op_run(struct CUstream_st *s, struct op *op, uint64_t enqueued,
            uint64_t launch, uint32_t node)
{
    static struct counter totals[] = { { "kernel", 0, NULL, false },
                                       { "copy", 0, NULL, false },
                                       { "library", 0, NULL, false } };
    if (sticky_of(s->context) != CUDA_SUCCESS && !op->always)
        return;
    if (op->poisons != CUDA_SUCCESS) {
        poison(s->context, op->poisons);
        return;
    }
    if (log_on()) {
        struct qn_emu_entry e = { .enqueued = enqueued,
                                  .stream = s->number,
                                  .tag = op->tag,
                                  .launch = launch,
                                  .node = node,
                                  .kind = op->kind };
        snprintf(e.what, sizeof e.what, "%s", op->what);
        log_add(&e);
    }
    stream_doing = op->what;
    op_call(op, launch == 0);
    stream_doing = NULL;
    if (op->kind >= QN_EMU_KERNEL && op->kind <= QN_EMU_LIBRARY)
        counter_add(&totals[op->kind - QN_EMU_KERNEL]);
    if (op->counter)
        counter_add(op->counter);
}

static void log_point(const struct CUstream_st *s, const struct item *i,
                      uint32_t kind)
{
    if (log_on())
        log_add(&(struct qn_emu_entry){ .kind = kind,
                                        .stream = s->number,
                                        .enqueued = i->enqueued,
                                        .tag = i->tag,
                                        .point = i->point->number });
}

static void execute(struct CUstream_st *s, struct item *i)
{
    switch (i->kind) {
    case ITEM_OP:
        op_run(s, i->op, i->enqueued, 0, 0);
        free(i->op);
        break;
    case ITEM_RECORD:
        log_point(s, i, QN_EMU_RECORD);
        point_reach(i->point);
        point_unref(i->point);
        break;
    case ITEM_WAIT:
        point_wait(i->point);
        log_point(s, i, QN_EMU_WAIT);
        point_unref(i->point);
        break;
    case ITEM_GRAPH:
        if (sticky_of(s->context) == CUDA_SUCCESS)
            exec_run(s, i);
        exec_unref(i->exec);
        break;
    case ITEM_QUIT:
        break;
    }
}

static void *stream_main(void *arg)
{
    struct CUstream_st *s = arg;
    void *stack = faults_thread_start();
    bool always_open = memory_has_keys();
    if (always_open)
        memory_open();
    for (bool quit = false; !quit;) {
        pthread_mutex_lock(&s->lock);
        s->sleeping = true;
        while (!s->first)
            pthread_cond_wait(&s->wake, &s->lock);
        s->sleeping = false;
        struct item *i = s->first;
        s->first = i->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);
        quit = i->kind == ITEM_QUIT;
        if (!quit)
            delay(s);
        bool open_now = !always_open &&
                        (i->kind == ITEM_OP || i->kind == ITEM_GRAPH);
        if (open_now)
            memory_open();
        execute(s, i);
        if (open_now)
            memory_shut();
        free(i);
        __atomic_add_fetch(&s->completed, 1, __ATOMIC_RELEASE);
    }
    if (always_open)
        memory_shut();
    faults_thread_end(stack);
    return NULL;
}

static uint64_t stream_tag(const struct CUstream_st *s)
{
    return thread_tag ? thread_tag : s->tag;
}

static void push(struct CUstream_st *s, struct item item)
{
    struct item *i = malloc(sizeof *i);
    if (!i)
        qn_emu_report("no memory for an item of a stream");
    *i = item;
    i->next = NULL;
    i->enqueued = log_now();
    i->tag = stream_tag(s);
    pthread_mutex_lock(&s->lock);
    *s->last = i;
    s->last = &i->next;
    s->enqueued++;
    if (s->sleeping)
        pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
}

static struct point *record(struct CUstream_st *s)
{
    struct point *p = point_new();
    push(s, (struct item){ .kind = ITEM_RECORD, .point = point_ref(p) });
    return p;
}

/* The legacy stream comes after all that other streams hold, and what they
 * get later comes after it; those created as non-blocking stand aside. */
static void push_legacy(struct CUstream_st *s, struct item item)
{
    CUcontext c = s->context;
    pthread_mutex_lock(&c->lock);
    for (struct CUstream_st *o = c->streams; o; o = o->next)
        if (o != s && !(o->flags & CU_STREAM_NON_BLOCKING))
            push(s, (struct item){ .kind = ITEM_WAIT, .point = record(o) });
    push(s, item);
    point_unref(c->legacy_point);
    c->legacy_point = record(s);
    pthread_mutex_unlock(&c->lock);
}

void stream_push(struct CUstream_st *s, struct item item)
{
    CUcontext c = s->context;
    if (s == c->legacy) {
        push_legacy(s, item);
        return;
    }
    if (!(s->flags & CU_STREAM_NON_BLOCKING)) {
        pthread_mutex_lock(&c->lock);
        struct point *p = c->legacy_point;
        if (p && !point_done(p))
            push(s, (struct item){ .kind = ITEM_WAIT, .point = point_ref(p) });
        pthread_mutex_unlock(&c->lock);
    }
    push(s, item);
}

CUresult stream_op(struct CUstream_st *s, struct op *op)
{
    op->tag = stream_tag(s);
    if (stream_captured(s))
        return capture_op(s, op);
    CUresult r = legacy_check(s);
    if (r != CUDA_SUCCESS) {
        free(op);
        return r;
    }
    stream_push(s, (struct item){ .kind = ITEM_OP, .op = op });
    return CUDA_SUCCESS;
}

struct point *stream_record(struct CUstream_st *s)
{
    struct point *p = point_new();
    stream_push(s, (struct item){ .kind = ITEM_RECORD, .point = point_ref(p) });
    return p;
}

bool stream_idle(struct CUstream_st *s)
{
    pthread_mutex_lock(&s->lock);
    bool idle =
        s->enqueued == __atomic_load_n(&s->completed, __ATOMIC_ACQUIRE);
    pthread_mutex_unlock(&s->lock);
    return idle;
}

void stream_sync(struct CUstream_st *s)
{
    if (stream_idle(s) && !log_on())
        return;
    struct point *p = record(s);
    point_wait(p);
    point_observed(p);
    point_unref(p);
}

void context_sync(CUcontext c)
{
    enum { MOST = 4096 };
    struct point *points[MOST];
    size_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (struct CUstream_st *s = c->streams; s; s = s->next)
        if (!stream_idle(s) && n < MOST)
            points[n++] = record(s);
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < n; i++) {
        point_wait(points[i]);
        point_observed(points[i]);
        point_unref(points[i]);
    }
}

int qn_emu_enqueue(CUstream stream, void (*fn)(void *), const void *arg,
                   size_t bytes, const char *what)
{
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r == CUDA_SUCCESS)
        r = sticky_of(s->context);
    if (r != CUDA_SUCCESS)
        return (int)r;
    struct counter *counter = counter_find(what);
    struct op *op = op_new(QN_EMU_LIBRARY, counter->name, fn, arg, bytes);
    op->counter = counter;
    return (int)stream_op(s, op);
}

void qn_emu_tag(CUstream stream, uint64_t tag)
{
    struct CUstream_st *s;
    if (stream_of(stream, &s) == CUDA_SUCCESS)
        s->tag = tag;
}

void qn_emu_tag_thread(uint64_t tag)
{
    thread_tag = tag;
}

uint64_t qn_emu_stream_number(CUstream stream)
{
    struct CUstream_st *s;
    return stream_of(stream, &s) == CUDA_SUCCESS ? s->number : 0;
}

/* --- life of a stream */

static CUresult stream_new(CUcontext c, unsigned flags, int priority,
                           struct CUstream_st **out)
{
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->magic = STREAM_MAGIC;
    s->context = c;
    s->flags = flags;
    s->priority = priority;
    s->last = &s->first;
    s->number = __atomic_add_fetch(&last_stream, 1, __ATOMIC_RELAXED);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->wake, NULL);
    if (pthread_create(&s->thread, NULL, stream_main, s) != 0) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_detach(s->thread);
    *out = s;
    return CUDA_SUCCESS;
}

static void stream_list(struct CUstream_st *s)
{
    s->next = s->context->streams;
    s->context->streams = s;
}

CUresult stream_of(CUstream handle, struct CUstream_st **out)
{
    CUresult r = CUDA_SUCCESS;
    if (handle == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_NOT_SUPPORTED; /* of this emulation */
    if (handle && handle != CU_STREAM_LEGACY) {
        *out = handle;
        return handle->magic == STREAM_MAGIC ? CUDA_SUCCESS
                                             : CUDA_ERROR_INVALID_HANDLE;
    }
    CUcontext c = current_context();
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&c->lock);
    if (!c->legacy) {
        r = stream_new(c, 0, 0, &c->legacy);
        if (r == CUDA_SUCCESS)
            stream_list(c->legacy);
    }
    *out = c->legacy;
    pthread_mutex_unlock(&c->lock);
    return r;
}

CUresult legacy_check(struct CUstream_st *s)
{
    if (s != s->context->legacy)
        return CUDA_SUCCESS;
    return capture_in_context(s->context, true,
                              CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

API cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    ENTER("cuStreamCreateWithPriority", CONTEXT);
    if (!out || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    CUcontext c = current_context();
    struct CUstream_st *s;
    CUresult r = stream_new(c, flags, priority, &s);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&c->lock);
    stream_list(s);
    pthread_mutex_unlock(&c->lock);
    *out = s;
    return CUDA_SUCCESS;
}

API cuStreamCreate(CUstream *out, unsigned int flags)
{
    ENTER("cuStreamCreate", CONTEXT);
    return cuStreamCreateWithPriority(out, flags, 0);
}

API cuStreamGetPriority(CUstream stream, int *out)
{
    ENTER("cuStreamGetPriority", INIT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r == CUDA_SUCCESS)
        *out = s->priority;
    return r;
}

API cuStreamGetFlags(CUstream stream, unsigned int *out)
{
    ENTER("cuStreamGetFlags", INIT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r == CUDA_SUCCESS)
        *out = s->flags;
    return r;
}

API cuStreamGetCtx(CUstream stream, CUcontext *out)
{
    ENTER("cuStreamGetCtx", INIT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r == CUDA_SUCCESS)
        *out = s->context;
    return r;
}

/* Work that is queued still runs; the thread ends behind it. */
API cuStreamDestroy(CUstream stream)
{
    ENTER("cuStreamDestroy", INIT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    CUcontext c = s->context;
    if (s == c->legacy)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream_captured(s))
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    pthread_mutex_lock(&c->lock);
    struct CUstream_st **at = &c->streams;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    s->magic = 0;
    s->next = NULL;
    pthread_mutex_unlock(&c->lock);
    do
        s->next = __atomic_load_n(&dead_streams, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&dead_streams, &s->next, s, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    push(s, (struct item){ .kind = ITEM_QUIT });
    return sticky_of(c);
}

API cuStreamSynchronize(CUstream stream)
{
    ENTER("cuStreamSynchronize", CONTEXT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (stream_captured(s))
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    r = legacy_check(s);
    if (r == CUDA_SUCCESS)
        r = capture_unsafe();
    if (r != CUDA_SUCCESS)
        return r;
    stream_sync(s);
    return sticky_of(s->context);
}

API cuStreamQuery(CUstream stream)
{
    ENTER("cuStreamQuery", CONTEXT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (stream_captured(s))
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    r = legacy_check(s);
    if (r == CUDA_SUCCESS)
        r = capture_unsafe();
    if (r != CUDA_SUCCESS)
        return r;
    if (!stream_idle(s))
        return CUDA_ERROR_NOT_READY;
    if (log_on()) { /* a point to observe; the stream has nothing to do */
        struct point *p = record(s);
        point_wait(p);
        point_observed(p);
        point_unref(p);
    }
    return sticky_of(s->context);
}
