/* SPDX-License-Identifier: Apache-2.0 */
/* Stream capture: a stream in capture adds nodes to a graph in place of work
 * to its queue; a wait for an event recorded there draws another stream in.
 * All state is guarded by capture_lock. */
#include "tests/cuda/emu/internal.h"

#include <string.h>

struct capture {
    uint64_t number; /* what events refer to */
    CUstreamCaptureMode mode;
    pthread_t thread;
    struct CUstream_st *origin, *streams;
    bool lost; /* invalidated */
    struct graph_body *body;
    struct capture *next;
};

pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static int n_captures; /* atomic, for the quick look */
static uint64_t last_capture;
static _Thread_local CUstreamCaptureMode thread_mode =
    CU_STREAM_CAPTURE_MODE_GLOBAL;

static uint32_t *copy_nodes(const uint32_t *nodes, size_t n)
{
    uint32_t *copy = malloc((n ? n : 1) * sizeof *copy);
    if (!copy)
        qn_emu_report("no memory for a capture");
    if (n)
        memcpy(copy, nodes, n * sizeof *copy);
    return copy;
}

static struct capture *find(uint64_t number)
{
    struct capture *c = captures;
    while (c && c->number != number)
        c = c->next;
    return c;
}

static void join(struct capture *c, struct CUstream_st *s)
{
    s->next_captured = c->streams;
    c->streams = s;
    s->after = NULL;
    s->n_after = 0;
    __atomic_store_n(&s->capture, c, __ATOMIC_RELEASE);
}

/* s->after = its nodes and those given, each once. */
static void add_after(struct CUstream_st *s, const uint32_t *nodes, size_t n)
{
    uint32_t *all = malloc((s->n_after + n + 1) * sizeof *all);
    if (!all)
        qn_emu_report("no memory for a capture");
    size_t count = s->n_after;
    if (count)
        memcpy(all, s->after, count * sizeof *all);
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < count && all[k] != nodes[i])
            k++;
        if (k == count)
            all[count++] = nodes[i];
    }
    free(s->after);
    s->after = all;
    s->n_after = count;
}

CUresult capture_op(struct CUstream_st *s, struct op *op)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    struct capture *c = s->capture;
    if (!c) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; /* ended in between */
    } else if (c->lost) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        uint32_t number = (uint32_t)c->body->n;
        struct node node = { op, s->after, s->n_after };
        body_add(c->body, node);
        s->after = copy_nodes(&number, 1);
        s->n_after = 1;
    }
    pthread_mutex_unlock(&capture_lock);
    if (r != CUDA_SUCCESS)
        free(op);
    return r;
}

CUresult capture_record(struct CUstream_st *s, struct CUevent_st *e)
{
    CUresult r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    pthread_mutex_lock(&capture_lock);
    struct capture *c = s->capture;
    if (c && !c->lost) {
        free(e->after);
        e->after = copy_nodes(s->after, s->n_after);
        e->n_after = s->n_after;
        e->capture = c->number;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&capture_lock);
    return r;
}

CUresult capture_wait(struct CUstream_st *s, struct CUevent_st *e,
                      bool *handled)
{
    CUresult r = CUDA_SUCCESS;
    pthread_mutex_lock(&capture_lock);
    struct capture *own = s->capture;
    struct capture *its = e->capture ? find(e->capture) : NULL;
    *handled = own || e->capture;
    if (own && own->lost) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (own && !e->capture) {
        pthread_mutex_lock(&e->lock);
        bool recorded = e->point != NULL;
        pthread_mutex_unlock(&e->lock);
        if (recorded) { /* outside: a dependency across the boundary */
            own->lost = true;
            r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
        }
    } else if (e->capture && !its) {
        r = CUDA_ERROR_CAPTURED_EVENT; /* of a capture that has ended */
        if (own)
            own->lost = true;
    } else if (its && its->lost) {
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (own && own != its) {
        own->lost = its->lost = true;
        r = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    } else if (its) {
        if (s == s->context->legacy) {
            its->lost = true;
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        } else {
            if (!own)
                join(its, s);
            add_after(s, e->after, e->n_after);
        }
    }
    pthread_mutex_unlock(&capture_lock);
    return r;
}

CUresult capture_conflict(struct CUstream_st *s, CUresult code)
{
    pthread_mutex_lock(&capture_lock);
    if (s->capture) {
        if (s->capture->lost)
            code = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        s->capture->lost = true;
    }
    pthread_mutex_unlock(&capture_lock);
    return code;
}

/* The rules of cuThreadExchangeStreamCaptureMode(). */
CUresult capture_unsafe(void)
{
    CUresult r = CUDA_SUCCESS;
    if (__atomic_load_n(&n_captures, __ATOMIC_ACQUIRE) == 0 ||
        thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return r;
    pthread_mutex_lock(&capture_lock);
    for (struct capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self()) &&
                   c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool other = c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                     thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!own && !other)
            continue;
        c->lost = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&capture_lock);
    return r;
}

CUresult capture_in_context(CUcontext context, bool blocking_only,
                            CUresult code)
{
    CUresult r = CUDA_SUCCESS;
    if (__atomic_load_n(&n_captures, __ATOMIC_ACQUIRE) == 0)
        return r;
    pthread_mutex_lock(&capture_lock);
    for (struct capture *c = captures; c; c = c->next)
        for (struct CUstream_st *s = c->streams; s; s = s->next_captured)
            if (s->context == context &&
                (!blocking_only || !(s->flags & CU_STREAM_NON_BLOCKING))) {
                c->lost = true;
                r = code;
            }
    pthread_mutex_unlock(&capture_lock);
    return r;
}

API cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    ENTER("cuStreamBeginCapture", CONTEXT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if ((int)mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s == s->context->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&capture_lock);
    if (s->capture) {
        r = CUDA_ERROR_ILLEGAL_STATE;
    } else {
        struct capture *c = calloc(1, sizeof *c);
        if (!c)
            qn_emu_report("no memory for a capture");
        c->number = ++last_capture;
        c->mode = mode;
        c->thread = pthread_self();
        c->origin = s;
        c->body = body_new();
        c->next = captures;
        captures = c;
        join(c, s);
        __atomic_add_fetch(&n_captures, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&capture_lock);
    return r;
}

/* Does everything that streams of the capture did come before the end of the
 * stream that began it? */
static bool all_joined(const struct capture *c)
{
    bool *before = calloc(c->body->n + 1, sizeof *before);
    if (!before)
        qn_emu_report("no memory for a capture");
    for (size_t i = 0; i < c->origin->n_after; i++)
        before[c->origin->after[i]] = true;
    for (size_t i = c->body->n; i-- > 0;) /* nodes come after lower numbers */
        for (size_t k = 0; before[i] && k < c->body->nodes[i].n_after; k++)
            before[c->body->nodes[i].after[k]] = true;
    bool all = true;
    for (struct CUstream_st *s = c->streams; s; s = s->next_captured)
        for (size_t i = 0; i < s->n_after; i++)
            all = all && before[s->after[i]];
    free(before);
    return all;
}

static void capture_end(struct capture *c)
{
    struct CUstream_st *next;
    for (struct CUstream_st *s = c->streams; s; s = next) {
        next = s->next_captured;
        free(s->after);
        s->after = NULL;
        s->n_after = 0;
        s->next_captured = NULL;
        __atomic_store_n(&s->capture, NULL, __ATOMIC_RELEASE);
    }
    struct capture **at = &captures;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    __atomic_sub_fetch(&n_captures, 1, __ATOMIC_RELEASE);
    body_unref(c->body);
    free(c);
}

API cuStreamEndCapture(CUstream stream, CUgraph *out)
{
    ENTER("cuStreamEndCapture", INIT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (out)
        *out = NULL;
    pthread_mutex_lock(&capture_lock);
    struct capture *c = s->capture;
    if (!c) {
        r = CUDA_ERROR_ILLEGAL_STATE;
    } else if (c->origin != s) {
        c->lost = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    } else if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
               !pthread_equal(c->thread, pthread_self())) {
        c->lost = true;
        r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    } else {
        if (c->lost)
            r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        else if (!all_joined(c))
            r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
        else if (out)
            *out = graph_new(c->body);
        capture_end(c);
    }
    pthread_mutex_unlock(&capture_lock);
    return r == CUDA_SUCCESS ? sticky_of(s->context) : r;
}

static CUresult capture_status(struct CUstream_st *s,
                               CUstreamCaptureStatus *status, cuuint64_t *id)
{
    CUresult r = legacy_check(s);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&capture_lock);
    *status = !s->capture       ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->lost ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id && s->capture)
        *id = s->capture->number;
    pthread_mutex_unlock(&capture_lock);
    return CUDA_SUCCESS;
}

API cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    ENTER("cuStreamIsCapturing", CONTEXT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    return status ? capture_status(s, status, NULL) : CUDA_ERROR_INVALID_VALUE;
}

/* in cuda.h only for those who ask for old versions of the API */
API cuStreamGetCaptureInfo_v2(CUstream, CUstreamCaptureStatus *, cuuint64_t *,
                              CUgraph *, const CUgraphNode **, size_t *);

/* Status and number; the graph under construction is not given out. */
API cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus *status,
                              cuuint64_t *id, CUgraph *graph,
                              const CUgraphNode **dependencies, size_t *n)
{
    ENTER("cuStreamGetCaptureInfo", CONTEXT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    if (graph || dependencies || n)
        return CUDA_ERROR_NOT_SUPPORTED; /* of this emulation */
    return capture_status(s, status, id);
}

API cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus *status,
                              cuuint64_t *id, CUgraph *graph,
                              const CUgraphNode **dependencies,
                              const CUgraphEdgeData **edges, size_t *n)
{
    if (edges)
        return CUDA_ERROR_NOT_SUPPORTED; /* of this emulation */
    return cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies,
                                     n);
}

API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    ENTER("cuThreadExchangeStreamCaptureMode", ANY);
    if (!mode || (int)*mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}
