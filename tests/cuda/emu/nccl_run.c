/* SPDX-License-Identifier: Apache-2.0 */
/* Stand-in for libnccl.so.2: on the streams. */
#include "tests/cuda/emu/comm.h"
#include "tests/cuda/emu/emu.h"
#include "tests/cuda/emu/libnum.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Ranks that wait longer than this will wait forever. */
enum { PATIENCE_S = 60, BLOCK = 512 };

size_t qn_comm_size(ncclDataType_t type)
{
    static const size_t sizes[] = {
        [ncclInt8] = 1,    [ncclUint8] = 1,   [ncclInt32] = 4,
        [ncclUint32] = 4,  [ncclInt64] = 8,   [ncclUint64] = 8,
        [ncclFloat16] = 2, [ncclFloat32] = 4, [ncclFloat64] = 8,
        [ncclBfloat16] = 2
    };
    return (size_t)type < sizeof sizes / sizeof sizes[0] ? sizes[type] : 0;
}

const char *qn_comm_name(enum qn_comm_kind kind)
{
    static const char *const names[] = { "all-reduce", "all-gather",
                                         "reduce-scatter", "broadcast",
                                         "reduce" };
    return names[kind];
}

/* --- arithmetic: acc[i] = acc[i] op v[i], rounded to the type each time */

#define COMBINE(wide, v, a)                                                    \
    switch (op) {                                                              \
    case ncclProd:                                                             \
        (a) = (wide)((a) * (v));                                               \
        break;                                                                 \
    case ncclMax:                                                              \
        (a) = (v) > (a) ? (v) : (a);                                           \
        break;                                                                 \
    case ncclMin:                                                              \
        (a) = (v) < (a) ? (v) : (a);                                           \
        break;                                                                 \
    default:                                                                   \
        (a) = (wide)((a) + (v));                                               \
        break;                                                                 \
    }

/* Signed sums wrap: added as unsigned, compared as signed. */
#define INTEGER(name, type, wrap)                                              \
    static void name(ncclRedOp_t op, void *acc, const void *in, size_t n)      \
    {                                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            type a, v;                                                         \
            memcpy(&a, (char *)acc + i * sizeof a, sizeof a);                  \
            memcpy(&v, (const char *)in + i * sizeof v, sizeof v);             \
            if (op == ncclMax)                                                 \
                a = v > a ? v : a;                                             \
            else if (op == ncclMin)                                            \
                a = v < a ? v : a;                                             \
            else if (op == ncclProd)                                           \
                a = (type)((wrap)a * (wrap)v);                                 \
            else                                                               \
                a = (type)((wrap)a + (wrap)v);                                 \
            memcpy((char *)acc + i * sizeof a, &a, sizeof a);                  \
        }                                                                      \
    }                                                                          \
    static void name##_mean(void *acc, int ranks, size_t n)                    \
    {                                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            type a;                                                            \
            memcpy(&a, (char *)acc + i * sizeof a, sizeof a);                  \
            a = (type)(a / (type)ranks);                                       \
            memcpy((char *)acc + i * sizeof a, &a, sizeof a);                  \
        }                                                                      \
    }
INTEGER(int8, int8_t, unsigned)
INTEGER(uint8, uint8_t, unsigned)
INTEGER(int32, int32_t, uint32_t)
INTEGER(uint32, uint32_t, uint32_t)
INTEGER(int64, int64_t, uint64_t)
INTEGER(uint64, uint64_t, uint64_t)

#define SAME(v) (v)
#define REAL(name, store, wide, from, to)                                      \
    static void name(ncclRedOp_t op, void *acc, const void *in, size_t n)      \
    {                                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            store s, t;                                                        \
            memcpy(&s, (char *)acc + i * sizeof s, sizeof s);                  \
            memcpy(&t, (const char *)in + i * sizeof t, sizeof t);             \
            wide a = from(s), v = from(t);                                     \
            COMBINE(wide, v, a)                                                \
            s = to(a);                                                         \
            memcpy((char *)acc + i * sizeof s, &s, sizeof s);                  \
        }                                                                      \
    }                                                                          \
    static void name##_mean(void *acc, int ranks, size_t n)                    \
    {                                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            store s;                                                           \
            memcpy(&s, (char *)acc + i * sizeof s, sizeof s);                  \
            wide a = from(s) / (wide)ranks;                                    \
            s = to(a);                                                         \
            memcpy((char *)acc + i * sizeof s, &s, sizeof s);                  \
        }                                                                      \
    }
REAL(half, uint16_t, float, qn_num_from_half, qn_num_to_half)
REAL(bf16, uint16_t, float, qn_num_from_bf16, qn_num_to_bf16)
REAL(single, float, float, SAME, SAME)
REAL(wide, double, double, SAME, SAME)

static const struct {
    void (*combine)(ncclRedOp_t op, void *acc, const void *in, size_t n);
    void (*mean)(void *acc, int ranks, size_t n);
} arithmetic[] = {
    [ncclInt8] = { int8, int8_mean },
    [ncclUint8] = { uint8, uint8_mean },
    [ncclInt32] = { int32, int32_mean },
    [ncclUint32] = { uint32, uint32_mean },
    [ncclInt64] = { int64, int64_mean },
    [ncclUint64] = { uint64, uint64_mean },
    [ncclFloat16] = { half, half_mean },
    [ncclFloat32] = { single, single_mean },
    [ncclFloat64] = { wide, wide_mean },
    [ncclBfloat16] = { bf16, bf16_mean },
};

/* Elements [at, at + n) of all ranks' inputs into acc, by rank. */
static void reduce(const struct qn_comm_meeting *m, int ranks, size_t at,
                   size_t n, char *acc)
{
    const struct qn_comm_spec *s = &m->spec;
    size_t size = qn_comm_size(s->type);
    memcpy(acc, m->send[0] + at * size, n * size);
    for (int r = 1; r < ranks; r++)
        arithmetic[s->type].combine(s->op, acc, m->send[r] + at * size, n);
    if (s->op == ncclAvg)
        arithmetic[s->type].mean(acc, ranks, n);
}

/* Block by block: a rank's output may be its input. */
static void work(const struct qn_comm_meeting *m, int ranks)
{
    const struct qn_comm_spec *s = &m->spec;
    size_t size = qn_comm_size(s->type), bytes = s->count * size;
    char acc[BLOCK * 8];
    if (bytes == 0)
        return;
    if (s->kind == QN_COMM_ALL_GATHER) {
        for (int from = 0; from < ranks; from++)
            for (int to = 0; to < ranks; to++)
                memmove(m->recv[to] + (size_t)from * bytes, m->send[from],
                        bytes);
        return;
    }
    if (s->kind == QN_COMM_BROADCAST) {
        for (int to = 0; to < ranks; to++)
            memmove(m->recv[to], m->send[s->root], bytes);
        return;
    }
    bool scatter = s->kind == QN_COMM_REDUCE_SCATTER;
    for (int part = 0; part < (scatter ? ranks : 1); part++)
        for (size_t at = 0; at < s->count; at += BLOCK) {
            size_t n = s->count - at < BLOCK ? s->count - at : BLOCK;
            reduce(m, ranks, (size_t)part * s->count + at, n, acc);
            for (int to = 0; to < ranks; to++)
                if (s->kind == QN_COMM_ALL_REDUCE || (scatter && to == part) ||
                    (s->kind == QN_COMM_REDUCE && to == s->root))
                    memcpy(m->recv[to] + at * size, acc, n * size);
        }
}

/* --- the meeting */

static struct qn_comm_meeting *meeting_of(struct qn_comm_clique *q,
                                          const struct qn_comm_part *p,
                                          uint64_t number)
{
    for (struct qn_comm_meeting *m = q->meetings; m; m = m->next)
        if (m->number == number)
            return m;
    struct qn_comm_meeting *m = calloc(1, sizeof *m);
    if (!m)
        qn_emu_report("NCCL: no host memory to emulate with");
    m->number = number;
    m->spec = p->spec;
    m->first = p->comm->rank;
    m->next = q->meetings;
    q->meetings = m;
    return m;
}

static void check(const struct qn_comm_meeting *m, const struct qn_comm_part *p)
{
    const struct qn_comm_spec *a = &m->spec, *b = &p->spec;
    if (a->kind == b->kind && a->type == b->type && a->op == b->op &&
        a->count == b->count && a->root == b->root)
        return;
    qn_emu_report("NCCL: collective %llu is %s of %zu elements (type %d, op "
                  "%d, root %d) on rank %d and %s of %zu (type %d, op %d, root "
                  "%d) on rank %d",
                  (unsigned long long)m->number, qn_comm_name(a->kind),
                  a->count, (int)a->type, (int)a->op, a->root, m->first,
                  qn_comm_name(b->kind), b->count, (int)b->type, (int)b->op,
                  b->root, p->comm->rank);
}

static void leave(struct qn_comm_clique *q, struct qn_comm_meeting *m)
{
    if (++m->left < m->arrived || !m->done)
        return;
    struct qn_comm_meeting **at = &q->meetings;
    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
    free(m);
}

/* Wait for a change; reports where nothing changes for a minute. */
static void await(struct qn_comm_clique *q, const struct qn_comm_part *p)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (pthread_cond_timedwait(&q->changed, &q->lock, &until) != 0)
        qn_emu_report("NCCL: rank %d waits in %s; the other ranks do not come",
                      p->comm->rank, qn_comm_name(p->spec.kind));
}

void qn_comm_run(void *arg)
{
    const struct qn_comm_part *p = arg;
    struct ncclComm *c = p->comm;
    struct qn_comm_clique *q = c->clique;
    pthread_mutex_lock(&q->lock);
    if (c->dead && !q->aborted)
        qn_emu_report("NCCL: a graph uses rank %d after its communicator was "
                      "destroyed",
                      c->rank);
    /* The collectives of a communicator run in the order of the calls, even
     * from several streams. */
    while (p->call && c->executed + 1 != p->call && !q->aborted)
        await(q, p);
    if (!q->aborted) {
        struct qn_comm_meeting *m = meeting_of(q, p, ++c->meetings);
        check(m, p);
        m->send[c->rank] = p->send;
        m->recv[c->rank] = p->recv;
        if (++m->arrived == q->ranks) {
            work(m, q->ranks);
            m->done = true;
            pthread_cond_broadcast(&q->changed);
        }
        while (!m->done && !q->aborted)
            await(q, p);
        leave(q, m);
    }
    if (p->call)
        c->executed++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}
