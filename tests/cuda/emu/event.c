/* SPDX-License-Identifier: Apache-2.0 */
/* Events. */
#include "tests/cuda/emu/internal.h"

enum { EVENT_MAGIC = 0x5145564e };

static CUresult event_of(CUevent e)
{
    return e && e->magic == EVENT_MAGIC ? CUDA_SUCCESS
                                        : CUDA_ERROR_INVALID_HANDLE;
}

API cuEventCreate(CUevent *out, unsigned int flags)
{
    ENTER("cuEventCreate", CONTEXT);
    unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    if (!out || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUevent_st *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->magic = EVENT_MAGIC;
    e->flags = flags;
    e->context = current_context();
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return CUDA_SUCCESS;
}

API cuEventDestroy(CUevent e)
{
    ENTER("cuEventDestroy", INIT);
    CUresult r = event_of(e);
    if (r != CUDA_SUCCESS)
        return r;
    r = sticky_of(e->context);
    e->magic = 0;
    point_unref(e->point);
    pthread_mutex_destroy(&e->lock);
    free(e->after);
    free(e);
    return r;
}

static CUresult event_record(CUevent e, CUstream stream)
{
    CUresult r = event_of(e);
    struct CUstream_st *s;
    if (r == CUDA_SUCCESS)
        r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (s->context != e->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream_captured(s))
        return capture_record(s, e);
    r = legacy_check(s);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&capture_lock);
    e->capture = 0;
    pthread_mutex_unlock(&capture_lock);
    /* the lock spans both, so that points follow each other as records do */
    pthread_mutex_lock(&e->lock);
    struct point *before = e->point;
    e->point = stream_record(s);
    pthread_mutex_unlock(&e->lock);
    point_unref(before);
    return CUDA_SUCCESS;
}

API cuEventRecord(CUevent e, CUstream stream)
{
    ENTER("cuEventRecord", CONTEXT);
    return event_record(e, stream);
}

API cuEventRecordWithFlags(CUevent e, CUstream stream, unsigned int flags)
{
    ENTER("cuEventRecordWithFlags", CONTEXT);
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUstream_st *s;
    if (flags && stream_of(stream, &s) == CUDA_SUCCESS && stream_captured(s))
        return CUDA_ERROR_NOT_SUPPORTED; /* of this emulation */
    return event_record(e, stream);
}

static struct point *event_point(CUevent e)
{
    pthread_mutex_lock(&e->lock);
    struct point *p = e->point ? point_ref(e->point) : NULL;
    pthread_mutex_unlock(&e->lock);
    return p;
}

API cuStreamWaitEvent(CUstream stream, CUevent e, unsigned int flags)
{
    ENTER("cuStreamWaitEvent", CONTEXT);
    CUresult r = event_of(e);
    struct CUstream_st *s;
    if (r == CUDA_SUCCESS)
        r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    bool handled = false;
    r = capture_wait(s, e, &handled);
    if (handled || r != CUDA_SUCCESS)
        return r;
    r = legacy_check(s);
    struct point *p = r == CUDA_SUCCESS ? event_point(e) : NULL;
    if (p) /* never recorded: nothing to wait for */
        stream_push(s, (struct item){ .kind = ITEM_WAIT, .point = p });
    return r;
}

/* Is the event part of a capture? Then it cannot be asked for. */
static CUresult event_ask(CUevent e)
{
    CUresult r = event_of(e);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&capture_lock);
    bool captured = e->capture != 0;
    pthread_mutex_unlock(&capture_lock);
    return captured ? CUDA_ERROR_CAPTURED_EVENT : capture_unsafe();
}

API cuEventQuery(CUevent e)
{
    ENTER("cuEventQuery", CONTEXT);
    CUresult r = event_ask(e);
    if (r != CUDA_SUCCESS)
        return r;
    struct point *p = event_point(e);
    if (!p)
        return CUDA_SUCCESS;
    bool done = point_done(p);
    if (done)
        point_observed(p);
    point_unref(p);
    if (sticky_of(e->context) != CUDA_SUCCESS)
        return sticky_of(e->context);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

API cuEventSynchronize(CUevent e)
{
    ENTER("cuEventSynchronize", CONTEXT);
    CUresult r = event_ask(e);
    if (r != CUDA_SUCCESS)
        return r;
    struct point *p = event_point(e);
    if (p) {
        point_wait(p);
        point_observed(p);
        point_unref(p);
    }
    return sticky_of(e->context);
}

API cuEventElapsedTime(float *out, CUevent start, CUevent end)
{
    ENTER("cuEventElapsedTime", CONTEXT);
    if (event_of(start) != CUDA_SUCCESS || event_of(end) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    struct point *a = event_point(start), *b = event_point(end);
    CUresult r = !a || !b ? CUDA_ERROR_INVALID_HANDLE
                 : !point_done(a) || !point_done(b) ? CUDA_ERROR_NOT_READY
                                                    : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS)
        *out = (float)((double)(b->time.tv_sec - a->time.tv_sec) * 1e3 +
                       (double)(b->time.tv_nsec - a->time.tv_nsec) * 1e-6);
    point_unref(a);
    point_unref(b);
    return r;
}
