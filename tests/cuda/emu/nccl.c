/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libnccl.so.2: communicators, groups, calls. */
#include "tests/cuda/emu/comm.h"
#include "tests/cuda/emu/emu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;
static struct qn_comm_clique *cliques; /* under registry, as the next two */
static struct ncclComm *comms;
static uint64_t ids;

static _Thread_local char last_error[256];

/* What a group has gathered. */
struct pending {
    bool init;
    struct qn_comm_part part;
    CUstream stream;
    ncclComm_t *out;
    int ranks, rank, device;
    ncclUniqueId id;
};
static _Thread_local struct {
    int depth;
    size_t n, capacity;
    struct pending *of;
    ncclResult_t failed; /* first of the group's calls */
} group;

__attribute__((format(printf, 2, 3))) static ncclResult_t
fail(ncclResult_t r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    if (group.depth && group.failed == ncclSuccess)
        group.failed = r;
    return r;
}

static bool alive(const struct ncclComm *comm)
{
    bool found = false;
    pthread_mutex_lock(&registry);
    for (struct ncclComm *c = comms; c && !found; c = c->next)
        found = c == comm;
    pthread_mutex_unlock(&registry);
    if (!found)
        return false;
    pthread_mutex_lock(&comm->clique->lock);
    found = !comm->dead;
    pthread_mutex_unlock(&comm->clique->lock);
    return found;
}

/* --- versions and texts */

ncclResult_t ncclGetVersion(int *version)
{
    if (!version)
        return fail(ncclInvalidArgument, "ncclGetVersion: NULL");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "unhandled cuda error",
        [ncclSystemError] = "unhandled system error",
        [ncclInternalError] = "internal error",
        [ncclInvalidArgument] = "invalid argument",
        [ncclInvalidUsage] = "invalid usage",
        [ncclRemoteError] = "remote process exited or network error",
        [ncclInProgress] = "NCCL operation in progress",
    };
    return (unsigned)result < sizeof texts / sizeof texts[0]
               ? texts[result]
               : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return last_error;
}

/* --- cliques */

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    int injected = qn_emu_fail("ncclGetUniqueId");
    if (injected)
        return fail((ncclResult_t)injected, "injected");
    if (!out)
        return fail(ncclInvalidArgument, "ncclGetUniqueId: NULL");
    struct qn_comm_clique *q = calloc(1, sizeof *q);
    if (!q)
        return fail(ncclSystemError, "no memory");
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    pthread_mutex_lock(&registry);
    snprintf(q->id.internal, sizeof q->id.internal, "quern emulation %llu",
             (unsigned long long)++ids);
    q->next = cliques;
    cliques = q;
    pthread_mutex_unlock(&registry);
    *out = q->id;
    return ncclSuccess;
}

static struct qn_comm_clique *clique_of(const ncclUniqueId *id)
{
    pthread_mutex_lock(&registry);
    struct qn_comm_clique *q = cliques;
    while (q && memcmp(&q->id, id, sizeof *id) != 0)
        q = q->next;
    pthread_mutex_unlock(&registry);
    return q;
}

/* A rank comes in; it is complete when all have. */
static ncclResult_t join(const struct pending *p)
{
    struct qn_comm_clique *q = clique_of(&p->id);
    if (!q)
        return fail(ncclInvalidArgument, "the unique id is of nobody");
    struct ncclComm *c = calloc(1, sizeof *c);
    if (!c)
        return fail(ncclSystemError, "no memory");
    c->clique = q;
    c->rank = p->rank;
    c->device = p->device;
    ncclResult_t r = ncclSuccess;
    pthread_mutex_lock(&q->lock);
    if (q->joined && q->ranks != p->ranks)
        r = fail(ncclInvalidUsage, "rank %d says %d ranks, others said %d",
                 p->rank, p->ranks, q->ranks);
    else if (q->comms[p->rank])
        r = fail(ncclInvalidUsage, "rank %d twice", p->rank);
    for (int i = 0; r == ncclSuccess && i < QN_COMM_RANKS; i++)
        if (q->comms[i] && q->comms[i]->device == p->device)
            r = fail(ncclInvalidUsage,
                     "duplicate GPU: ranks %d and %d both on device %d", i,
                     p->rank, p->device);
    if (r == ncclSuccess) {
        q->ranks = p->ranks;
        q->comms[p->rank] = c;
        q->joined++;
        pthread_cond_broadcast(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    if (r != ncclSuccess) {
        free(c);
        return r;
    }
    pthread_mutex_lock(&registry);
    c->next = comms;
    comms = c;
    pthread_mutex_unlock(&registry);
    *p->out = c;
    return ncclSuccess;
}

static void await_all(const struct pending *p)
{
    struct qn_comm_clique *q = (*p->out)->clique;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&q->lock);
    while (q->joined < q->ranks)
        if (pthread_cond_timedwait(&q->changed, &q->lock, &until) != 0)
            qn_emu_report("ncclCommInitRank: rank %d waits, %d of %d ranks "
                          "came",
                          p->rank, q->joined, q->ranks);
    pthread_mutex_unlock(&q->lock);
}

static ncclResult_t append(const struct pending *p)
{
    if (group.n == group.capacity) {
        size_t more = group.capacity ? 2 * group.capacity : 16;
        struct pending *grown = realloc(group.of, more * sizeof *grown);
        if (!grown)
            return fail(ncclSystemError, "no memory");
        group.of = grown;
        group.capacity = more;
    }
    group.of[group.n++] = *p;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id,
                                    int rank, ncclConfig_t *config)
{
    int injected = qn_emu_fail("ncclCommInitRank");
    if (injected)
        return fail((ncclResult_t)injected, "injected");
    if (!out || ranks < 1 || ranks > QN_COMM_RANKS || rank < 0 || rank >= ranks)
        return fail(ncclInvalidArgument, "rank %d of %d", rank, ranks);
    *out = NULL;
    if (config && (config->magic != 0xcafebeef || config->blocking == 0))
        return fail(ncclInvalidArgument,
                    "configuration not initialized, or not blocking");
    CUdevice device;
    if (cuCtxGetDevice(&device) != CUDA_SUCCESS) {
        qn_emu_report("ncclCommInitRank: no current context");
        return ncclUnhandledCudaError;
    }
    struct pending p = { .init = true, .out = out, .ranks = ranks,
                         .rank = rank, .device = device, .id = id };
    if (group.depth)
        return append(&p);
    ncclResult_t r = join(&p);
    if (r == ncclSuccess)
        await_all(&p);
    return r;
}

ncclResult_t ncclCommInitRank(ncclComm_t *out, int ranks, ncclUniqueId id,
                              int rank)
{
    return ncclCommInitRankConfig(out, ranks, id, rank, NULL);
}

ncclResult_t ncclCommInitAll(ncclComm_t *out, int n, const int *devices)
{
    int injected = qn_emu_fail("ncclCommInitAll"), present = 0;
    if (injected)
        return fail((ncclResult_t)injected, "injected");
    if (!out || n < 1 || n > QN_COMM_RANKS)
        return fail(ncclInvalidArgument, "%d devices", n);
    for (int i = 0; i < n; i++)
        out[i] = NULL;
    if (cuDeviceGetCount(&present) != CUDA_SUCCESS)
        return fail(ncclUnhandledCudaError, "no driver");
    for (int i = 0; i < n; i++) {
        int device = devices ? devices[i] : i;
        if (device < 0 || device >= present)
            return fail(ncclInvalidArgument, "device %d of %d", device,
                        present);
        for (int j = 0; j < i; j++)
            if (device == (devices ? devices[j] : j))
                return fail(ncclInvalidUsage, "device %d twice", device);
    }
    ncclUniqueId id;
    ncclResult_t r = ncclGetUniqueId(&id);
    for (int i = 0; r == ncclSuccess && i < n; i++) {
        struct pending p = { .init = true, .out = &out[i], .ranks = n,
                             .rank = i, .device = devices ? devices[i] : i,
                             .id = id };
        r = join(&p);
    }
    return r;
}

/* --- the life of a communicator */

static ncclResult_t end(ncclComm_t comm, bool abort, const char *api)
{
    int injected = qn_emu_fail(api);
    if (injected)
        return fail((ncclResult_t)injected, "injected");
    if (!comm)
        return ncclSuccess;
    if (!alive(comm))
        return fail(ncclInvalidArgument, "%s: no communicator", api);
    struct qn_comm_clique *q = comm->clique;
    pthread_mutex_lock(&q->lock);
    uint64_t left = comm->issued - comm->executed;
    if (abort) {
        q->aborted = true;
        pthread_cond_broadcast(&q->changed);
    } else if (left && !q->aborted) {
        qn_emu_report("%s: rank %d has %llu collectives that did not end", api,
                      comm->rank, (unsigned long long)left);
    }
    comm->dead = true;
    pthread_mutex_unlock(&q->lock);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return end(comm, false, "ncclCommDestroy");
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return end(comm, true, "ncclCommAbort");
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (!alive(comm))
        return fail(ncclInvalidArgument, "ncclCommFinalize: no communicator");
    pthread_mutex_lock(&comm->clique->lock);
    comm->finalized = true;
    pthread_mutex_unlock(&comm->clique->lock);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    int injected = qn_emu_fail("ncclCommGetAsyncError");
    if (!out || !alive(comm))
        return fail(ncclInvalidArgument, "no communicator");
    *out = injected ? (ncclResult_t)injected : comm->async;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *out)
{
    if (!out || !alive(comm))
        return fail(ncclInvalidArgument, "no communicator");
    *out = comm->clique->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *out)
{
    if (!out || !alive(comm))
        return fail(ncclInvalidArgument, "no communicator");
    *out = comm->device;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *out)
{
    if (!out || !alive(comm))
        return fail(ncclInvalidArgument, "no communicator");
    *out = comm->rank;
    return ncclSuccess;
}

/* --- collectives */

/* Outside of a group one thread may drive one rank only: a call may wait for
 * the other ranks' calls. Under the clique's lock. */
static void check_alone(struct ncclComm *c)
{
    for (int r = 0; r < c->clique->ranks; r++) {
        struct ncclComm *o = c->clique->comms[r];
        if (o != c && o &&
            o->alone[c->issued % QN_COMM_RECENT].call == c->issued &&
            pthread_equal(o->alone[c->issued % QN_COMM_RECENT].thread,
                          pthread_self()))
            qn_emu_report("NCCL: one thread calls ranks %d and %d outside of "
                          "a group; real calls may deadlock",
                          r, c->rank);
    }
    c->alone[c->issued % QN_COMM_RECENT].call = c->issued;
    c->alone[c->issued % QN_COMM_RECENT].thread = pthread_self();
}

static ncclResult_t issue(struct qn_comm_part *p, CUstream stream, bool alone)
{
    static const char *const whats[] = { "nccl.all_reduce", "nccl.all_gather",
                                         "nccl.reduce_scatter",
                                         "nccl.broadcast", "nccl.reduce" };
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    if (cuStreamIsCapturing(stream, &capture) != CUDA_SUCCESS)
        return fail(ncclUnhandledCudaError, "the stream is not usable");
    struct ncclComm *c = p->comm;
    pthread_mutex_lock(&c->clique->lock);
    p->call = 0;
    if (capture == CU_STREAM_CAPTURE_STATUS_NONE) {
        p->call = ++c->issued;
        if (alone)
            check_alone(c);
    }
    pthread_mutex_unlock(&c->clique->lock);
    if (qn_emu_enqueue(stream, qn_comm_run, p, sizeof *p,
                       whats[p->spec.kind])) {
        /* the other ranks wait for this one in vain */
        pthread_mutex_lock(&c->clique->lock);
        c->async = ncclUnhandledCudaError;
        if (p->call)
            c->issued--;
        pthread_mutex_unlock(&c->clique->lock);
        return fail(ncclUnhandledCudaError, "no launch");
    }
    return ncclSuccess;
}

/* The stream must be of the communicator's device. */
static bool device_ok(const struct ncclComm *c, CUstream stream)
{
    CUcontext context = NULL;
    CUdevice device = -1;
    if (!stream)
        return cuCtxGetDevice(&device) == CUDA_SUCCESS && device == c->device;
    if (cuStreamGetCtx(stream, &context) != CUDA_SUCCESS ||
        cuCtxPushCurrent(context) != CUDA_SUCCESS)
        return false;
    CUresult r = cuCtxGetDevice(&device);
    cuCtxPopCurrent(&context);
    return r == CUDA_SUCCESS && device == c->device;
}

static void check_range(const char *what, const struct qn_comm_part *p,
                        const void *at, size_t bytes)
{
    size_t size = qn_comm_size(p->spec.type);
    if (bytes && (!qn_emu_device_range(at, bytes) || (uintptr_t)at % size != 0))
        qn_emu_report("NCCL: %s, rank %d: %s at %p, %zu bytes, is not device "
                      "memory, or not aligned",
                      qn_comm_name(p->spec.kind), p->comm->rank, what, at,
                      bytes);
}

/* Buffers of this rank: device memory, and no overlap but the allowed one. */
static void check_buffers(const struct qn_comm_part *p)
{
    const struct qn_comm_spec *s = &p->spec;
    size_t one = s->count * qn_comm_size(s->type);
    size_t all = one * (size_t)p->comm->clique->ranks;
    size_t rank = (size_t)p->comm->rank;
    bool root = p->comm->rank == s->root;
    size_t in = s->kind == QN_COMM_REDUCE_SCATTER ? all : one;
    size_t out = s->kind == QN_COMM_ALL_GATHER ? all : one;
    if (s->kind == QN_COMM_BROADCAST && !root)
        in = 0;
    if (s->kind == QN_COMM_REDUCE && !root)
        out = 0;
    check_range("the input", p, p->send, in);
    check_range("the output", p, p->recv, out);
    uintptr_t a = (uintptr_t)p->send, b = (uintptr_t)p->recv;
    bool overlap = in && out && a < b + out && b < a + in;
    bool in_place = s->kind == QN_COMM_ALL_GATHER       ? a == b + rank * one
                    : s->kind == QN_COMM_REDUCE_SCATTER ? b == a + rank * one
                                                        : a == b;
    if (overlap && !in_place)
        qn_emu_report("NCCL: %s, rank %d: input and output overlap",
                      qn_comm_name(s->kind), p->comm->rank);
}

static ncclResult_t collective(const char *api, enum qn_comm_kind kind,
                               const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, int root,
                               ncclComm_t comm, CUstream stream)
{
    int injected = qn_emu_fail(api);
    if (injected)
        return fail((ncclResult_t)injected, "injected");
    if (!alive(comm))
        return fail(ncclInvalidArgument, "%s: no communicator", api);
    if (!qn_comm_size(type) || op < ncclSum || op > ncclAvg || root < 0 ||
        root >= comm->clique->ranks)
        return fail(ncclInvalidArgument, "%s: type %d, op %d, root %d", api,
                    (int)type, (int)op, root);
    if (count > SIZE_MAX / 8 / QN_COMM_RANKS)
        return fail(ncclInvalidArgument, "%s: %zu elements", api, count);
    pthread_mutex_lock(&comm->clique->lock);
    bool over = comm->finalized || comm->clique->aborted;
    pthread_mutex_unlock(&comm->clique->lock);
    if (over)
        return fail(ncclInvalidUsage, "%s: finalized or aborted", api);
    if (!device_ok(comm, stream))
        return fail(ncclInvalidUsage, "%s: the stream is not of device %d",
                    api, comm->device);
    struct pending p = {
        .part = { .comm = comm, .spec = { kind, type, op, count, root },
                  .send = send, .recv = recv },
        .stream = stream
    };
    check_buffers(&p.part);
    if (group.depth)
        return append(&p);
    return issue(&p.part, stream, true);
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective("ncclAllReduce", QN_COMM_ALL_REDUCE, send, recv, count,
                      type, op, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective("ncclAllGather", QN_COMM_ALL_GATHER, send, recv, count,
                      type, ncclSum, 0, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return collective("ncclReduceScatter", QN_COMM_REDUCE_SCATTER, send, recv,
                      count, type, op, 0, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return collective("ncclBroadcast", QN_COMM_BROADCAST, send, recv, count,
                      type, ncclSum, root, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count,
                        ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return collective("ncclReduce", QN_COMM_REDUCE, send, recv, count, type, op,
                      root, comm, stream);
}

/* --- groups */

ncclResult_t ncclGroupStart(void)
{
    int injected = qn_emu_fail("ncclGroupStart");
    if (injected)
        return fail((ncclResult_t)injected, "injected");
    group.depth++;
    return ncclSuccess;
}

static ncclResult_t flush(void)
{
    ncclResult_t r = group.failed;
    size_t inits = 0;
    for (size_t i = 0; i < group.n; i++)
        inits += group.of[i].init;
    if (r == ncclSuccess && inits && inits < group.n)
        r = fail(ncclInvalidUsage, "one group of inits and collectives");
    for (size_t i = 0; r == ncclSuccess && i < group.n; i++)
        r = group.of[i].init
                ? join(&group.of[i])
                : issue(&group.of[i].part, group.of[i].stream, false);
    for (size_t i = 0; r == ncclSuccess && i < inits; i++)
        await_all(&group.of[i]);
    return r;
}

ncclResult_t ncclGroupEnd(void)
{
    int injected = qn_emu_fail("ncclGroupEnd");
    if (!group.depth)
        return fail(ncclInvalidUsage, "ncclGroupEnd: no group");
    if (--group.depth)
        return ncclSuccess;
    ncclResult_t r = injected ? fail((ncclResult_t)injected, "injected")
                              : flush();
    free(group.of);
    memset(&group, 0, sizeof group);
    return r;
}
