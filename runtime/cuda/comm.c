/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: NCCL, opened when a first communicator is made. */
#include "runtime/cuda/lane.h"

#include "runtime/base/checked.h"

#include <nccl.h>

#include <string.h>

static const char libnccl[] = "libnccl.so.2";

/* field, function */
#define NCCL_LIST(X)                                                           \
    X(error_text, ncclGetErrorString)                                          \
    X(init_all, ncclCommInitAll)                                               \
    X(destroy, ncclCommDestroy)                                                \
    X(abort_comm, ncclCommAbort)                                               \
    X(group_start, ncclGroupStart)                                             \
    X(group_end, ncclGroupEnd)                                                 \
    X(all_reduce, ncclAllReduce)                                               \
    X(all_gather, ncclAllGather)                                               \
    X(reduce_scatter, ncclReduceScatter)                                       \
    X(broadcast, ncclBroadcast)

typedef struct nccl {
#define FIELD(field, function) __typeof__(&function) field;
    NCCL_LIST(FIELD)
#undef FIELD
} nccl;

static const qn_cuda_symbol symbols[] = {
#define SYMBOL(field, function)                                                \
    { QN_CUDA_NAME(function), offsetof(nccl, field) },
    NCCL_LIST(SYMBOL)
#undef SYMBOL
};

struct qn_acomm {
    void *library;
    nccl nc;
    int n;
    qn_cuda_device *devices[QN_ACCEL_MAX];
    ncclComm_t comms[QN_ACCEL_MAX]; /* under the lock, as `aborted` */
    qn_cuda_comm_link links[QN_ACCEL_MAX]; /* in its devices' lists */
    pthread_mutex_t lock;
    bool aborted;
};

static qn_status check(const qn_acomm *c, ncclResult_t r, const char *what,
                       qn_error *err)
{
    if (r == ncclSuccess)
        return QN_OK;
    /* a poisoned context shows up as a failure of NCCL's own: ask each card */
    for (int i = 0; i < c->n; i++) {
        qn_cuda_device *d = c->devices[i];
        if (qn_cuda_enter(d, err) == QN_DEVICE_LOST)
            return QN_DEVICE_LOST;
        CUresult q = d->cu.stream_query(d->upload);
        if (qn_cuda_classify(q) == QN_CUDA_POISON)
            return qn_cuda_check(d, q, err, "%s", what);
    }
    return qn_fail(err, QN_DEVICE, "%s: %s", what, c->nc.error_text(r));
}

static qn_cuda_device *lost_one(const qn_acomm *c)
{
    for (int i = 0; i < c->n; i++)
        if (qn_cuda_dead(c->devices[i]))
            return c->devices[i];
    return NULL;
}

/* On all devices; the thread's context is any of theirs afterwards. */
static void abort_all(qn_acomm *c)
{
    pthread_mutex_lock(&c->lock);
    c->aborted = true;
    for (int i = 0; i < c->n; i++) {
        if (!c->comms[i])
            continue;
        (void)c->devices[i]->cu.context_set(c->devices[i]->context);
        (void)c->nc.abort_comm(c->comms[i]);
        c->comms[i] = NULL;
    }
    pthread_mutex_unlock(&c->lock);
}

/* A kernel's fault shows in whatever is asked next, and nobody else may be
 * asking that device anything. */
static void ask_all(const qn_acomm *c)
{
    for (int i = 0; i < c->n; i++) {
        qn_cuda_device *d = c->devices[i];
        if (qn_cuda_enter(d, NULL) != QN_OK)
            continue;
        CUresult r = d->cu.stream_query(d->upload);
        if (qn_cuda_classify(r) == QN_CUDA_POISON)
            qn_cuda_note(d, r, "looking after a collective");
    }
}

bool qn_cuda_comms_look(qn_cuda_device *d, bool ask)
{
    bool any = false, moved = false;
    pthread_mutex_lock(&d->comms.lock);
    for (const qn_cuda_comm_link *l = d->comms.first; l; l = l->next) {
        any = true;
        if (ask)
            ask_all(l->comm);
        moved = moved || ask;
        if (!lost_one(l->comm))
            continue;
        abort_all(l->comm); /* again and again: it has nothing left to do */
        moved = true;
    }
    pthread_mutex_unlock(&d->comms.lock);
    if (moved)
        (void)d->cu.context_set(d->context);
    return any;
}

static void list(qn_acomm *c)
{
    for (int i = 0; i < c->n; i++) {
        qn_cuda_comms *at = &c->devices[i]->comms;
        pthread_mutex_lock(&at->lock);
        c->links[i] = (qn_cuda_comm_link){ c, at->first };
        at->first = &c->links[i];
        pthread_mutex_unlock(&at->lock);
    }
}

static void unlist(qn_acomm *c)
{
    for (int i = 0; i < c->n; i++) {
        qn_cuda_comms *at = &c->devices[i]->comms;
        pthread_mutex_lock(&at->lock);
        qn_cuda_comm_link **l = &at->first;
        while (*l && *l != &c->links[i])
            l = &(*l)->next;
        if (*l)
            *l = c->links[i].next;
        pthread_mutex_unlock(&at->lock);
    }
}

void qn_cuda_comm_free(qn_acomm *comm)
{
    if (!comm)
        return;
    unlist(comm);
    /* a graceful end waits for a card that answers no more; and cards that wait
     * for a lost one's share never come to an end by themselves */
    if (lost_one(comm))
        abort_all(comm);
    for (int i = 0; i < comm->n; i++) {
        qn_cuda_device *d = comm->devices[i];
        if (!comm->comms[i])
            continue;
        if (qn_cuda_enter_blocking(d, NULL) == QN_OK) {
            (void)comm->nc.destroy(comm->comms[i]);
            qn_cuda_gate_leave(d);
        } else {
            (void)comm->nc.abort_comm(comm->comms[i]);
        }
    }
    pthread_mutex_destroy(&comm->lock);
    qn_cuda_library_close(comm->library);
    qn_free(comm);
}

/* A device's collectives run one behind the other, see accel.h. */
static qn_status make_event(qn_cuda_device *d, qn_error *err)
{
    CUevent e = NULL;
    if (d->exchanged)
        return QN_OK;
    qn_status st = qn_cuda_enter(d, err);
    if (st == QN_OK)
        st = qn_cuda_check(d, d->cu.event_new(&e, CU_EVENT_DISABLE_TIMING), err,
                           "making the event of collectives");
    if (st == QN_OK)
        d->exchanged = e;
    return st;
}

static qn_status start(qn_acomm *c, qn_error *err)
{
    int ordinals[QN_ACCEL_MAX];
    int behind = 0;
    qn_status st = QN_OK;
    for (int i = 0; i < c->n; i++)
        ordinals[i] = c->devices[i]->base.ordinal;
    for (; st == QN_OK && behind < c->n; behind += st == QN_OK)
        st = qn_cuda_enter_blocking(c->devices[behind], err);
    for (int i = 0; st == QN_OK && i < c->n; i++)
        st = make_event(c->devices[i], err);
    if (st == QN_OK)
        st = check(c, c->nc.init_all(c->comms, c->n, ordinals),
                   "making a communicator", err);
    if (st != QN_OK)
        memset(c->comms, 0, sizeof c->comms);
    while (behind-- > 0)
        qn_cuda_gate_leave(c->devices[behind]);
    return st;
}

qn_status qn_cuda_comm_new(qn_accel *const *accels, int n, qn_acomm **out,
                           qn_error *err)
{
    *out = NULL;
    if (n < 1 || n > QN_ACCEL_MAX)
        return qn_fail(err, QN_INVALID, "a communicator of %d ranks, 1 to %d",
                       n, QN_ACCEL_MAX);
    qn_acomm *c = qn_calloc(1, sizeof *c);
    if (!c)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a communicator");
    pthread_mutex_init(&c->lock, NULL);
    c->n = n;
    for (int i = 0; i < n; i++)
        c->devices[i] = qn_cuda_of(accels[i]);
    qn_status st = QN_OK;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            if (c->devices[i] == c->devices[k])
                st = qn_fail(err, QN_INVALID, "ranks %d and %d are both %s", k,
                             i, c->devices[i]->base.label);
    if (st == QN_OK)
        st = qn_cuda_library_open(libnccl, &c->library, err);
    if (st == QN_OK)
        st = qn_cuda_library_bind(c->library, libnccl, symbols,
                                  sizeof symbols / sizeof symbols[0], &c->nc,
                                  err);
    if (st == QN_OK)
        st = start(c, err);
    if (st != QN_OK) {
        qn_cuda_comm_free(c);
        return st;
    }
    list(c);
    *out = c;
    return st;
}

/* ---- collectives ---- */

static const struct {
    qn_dtype dtype;
    ncclDataType_t nccl;
} types[] = {
    { QN_F32, ncclFloat32 }, { QN_F16, ncclFloat16 },  { QN_BF16, ncclBfloat16 },
    { QN_F64, ncclFloat64 }, { QN_I8, ncclInt8 },      { QN_U8, ncclUint8 },
    { QN_I32, ncclInt32 },   { QN_U32, ncclUint32 },   { QN_I64, ncclInt64 },
    { QN_U64, ncclUint64 },
};

static ncclRedOp_t reduction_of(qn_reduction r)
{
    switch (r) {
    case QN_REDUCE_PROD:
        return ncclProd;
    case QN_REDUCE_MIN:
        return ncclMin;
    case QN_REDUCE_MAX:
        return ncclMax;
    case QN_REDUCE_AVG:
        return ncclAvg;
    case QN_REDUCE_SUM:
        break;
    }
    return ncclSum;
}

/* Moving takes any type, as bytes; computing those that NCCL has. */
static qn_status type_of(const qn_collective_call *call, ncclDataType_t *type,
                         size_t *count, qn_error *err)
{
    bool moves = call->kind == QN_ALL_GATHER || call->kind == QN_BROADCAST;
    *count = call->count;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == call->dtype) {
            *type = types[i].nccl;
            return QN_OK;
        }
    *type = ncclUint8;
    size_t size = qn_dtype_size(call->dtype);
    if (!moves || !size || call->dtype == QN_STRING)
        return qn_fail(err, QN_UNSUPPORTED, "no collective for %s",
                       qn_dtype_name(call->dtype));
    return qn_mul_size(call->count, size, count)
               ? QN_OK
               : qn_fail(err, QN_TOO_LARGE, "a collective of %zu elements",
                         call->count);
}

static ncclResult_t one(const qn_acomm *c, int rank,
                        const qn_collective_call *call, ncclDataType_t type,
                        size_t count)
{
    const qn_collective_part *p = &call->parts[rank];
    qn_queue *q = &p->lane->queues[QN_ACCEL_STREAM_COMM];
    cudaStream_t stream = (cudaStream_t)q->stream;
    ncclRedOp_t op = reduction_of(call->reduction);
    ncclComm_t comm = c->comms[rank];
    ncclResult_t r = ncclInvalidArgument;
    switch (call->kind) {
    case QN_ALL_REDUCE:
        r = c->nc.all_reduce(p->send, p->recv, count, type, op, comm, stream);
        break;
    case QN_ALL_GATHER:
        r = c->nc.all_gather(p->send, p->recv, count, type, comm, stream);
        break;
    case QN_REDUCE_SCATTER:
        r = c->nc.reduce_scatter(p->send, p->recv, count, type, op, comm,
                                 stream);
        break;
    case QN_BROADCAST:
        r = c->nc.broadcast(p->send, p->recv, count, type, call->root, comm,
                            stream);
        break;
    }
    if (r == ncclSuccess)
        qn_cuda_count(q);
    return r;
}

/* The part's stream waits for the device's last collective. */
static qn_status enter_turn(const qn_collective_part *p, qn_error *err)
{
    qn_cuda_device *d = p->lane->device;
    if (p->lane->capturing)
        return qn_fail(err, QN_UNSUPPORTED, "%s: collectives cannot be captured",
                       d->base.label);
    qn_status st = qn_cuda_enter(d, err);
    /* one that was never recorded holds nobody up */
    return st != QN_OK
               ? st
               : qn_cuda_check(d,
                               d->cu.stream_wait(
                                   p->lane->queues[QN_ACCEL_STREAM_COMM].stream,
                                   d->exchanged, 0),
                               err, "waiting for a collective");
}

static void leave_turn(const qn_collective_part *p, qn_status *st, qn_error *err)
{
    qn_cuda_device *d = p->lane->device;
    qn_error *why = *st == QN_OK ? err : NULL;
    qn_status now = qn_cuda_enter(d, why);
    if (now == QN_OK)
        now = qn_cuda_check(d,
                            d->cu.event_record(
                                d->exchanged,
                                p->lane->queues[QN_ACCEL_STREAM_COMM].stream),
                            why, "recording a collective");
    if (*st == QN_OK)
        *st = now;
}

/* All ranks' calls, or none where a device was lost meanwhile. */
static qn_status group(qn_acomm *comm, const qn_collective_call *call,
                       ncclDataType_t type, size_t count, qn_error *err)
{
    ncclResult_t r = ncclSuccess;
    const char *what = "beginning a collective";
    pthread_mutex_lock(&comm->lock);
    bool aborted = comm->aborted;
    if (!aborted)
        r = comm->nc.group_start();
    if (!aborted && r == ncclSuccess) {
        what = "a collective";
        for (int i = 0; r == ncclSuccess && i < comm->n; i++)
            r = one(comm, i, call, type, count);
        /* the group ends in any case, or the next one would be inside it */
        ncclResult_t ended = comm->nc.group_end();
        r = r == ncclSuccess ? ended : r;
    }
    pthread_mutex_unlock(&comm->lock);
    return aborted ? qn_cuda_lost(lost_one(comm), err)
                   : check(comm, r, what, err);
}

qn_status qn_cuda_collective(qn_acomm *comm, const qn_collective_call *call,
                             qn_error *err)
{
    ncclDataType_t type;
    size_t count;
    qn_status st = type_of(call, &type, &count, err);
    if (st == QN_OK && call->kind == QN_BROADCAST &&
        (call->root < 0 || call->root >= comm->n))
        st = qn_fail(err, QN_INVALID, "broadcast from rank %d of %d",
                     call->root, comm->n);
    for (int i = 0; st == QN_OK && i < comm->n; i++) {
        if (call->parts[i].lane->device != comm->devices[i])
            st = qn_fail(err, QN_INTERNAL, "rank %d is not on %s", i,
                         comm->devices[i]->base.label);
        else
            st = enter_turn(&call->parts[i], err);
    }
    if (st != QN_OK || !count)
        return st;
    st = group(comm, call, type, count, err);
    for (int i = 0; i < comm->n; i++)
        leave_turn(&call->parts[i], &st, err);
    return st;
}
