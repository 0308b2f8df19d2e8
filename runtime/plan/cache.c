/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session's plans by key: least recently used go first when the byte limit is
 * reached; those that a run holds stay alive until it lets go. A key is
 * compared in full; the hash only saves comparisons. Concurrent requests for a
 * key that is being built wait for the one build.
 */
#include "runtime/base/clock.h"
#include "runtime/base/checked.h"
#include "runtime/exec/graphs.h"
#include "runtime/plan/build.h"

#include <stdio.h>
#include <string.h>

enum {
    /* A value input larger than this is data, not a shape: its effects are
     * found when the request runs. */
    KEY_VALUES = 64,
    DEFAULT_CACHE_BYTES = 64 << 20
};

typedef struct key {
    unsigned char *bytes; /* NULL while measuring */
    size_t len;
    uint64_t hash;
    unsigned char few[512]; /* keys of most models need no heap */
} key;

static void key_release(key *k)
{
    if (k->bytes != k->few)
        qn_free(k->bytes);
}

static bool value_matters(const qn_session *s, const qn_tensor *t, uint32_t i)
{
    return s->inputs[i].value_in_key && t->data && qn_count(t) <= KEY_VALUES &&
           t->dtype != QN_STRING;
}

static void put(key *k, const void *bytes, size_t n)
{
    if (k->bytes && n)
        memcpy(k->bytes + k->len, bytes, n);
    k->len += n;
}

static void write_key(const qn_session *s, const qn_tensor *inputs, key *k)
{
    k->len = 0;
    for (uint32_t i = 0; i < s->graph->n_inputs; i++) {
        static const qn_tensor absent;
        const qn_tensor *t = qn_present(&inputs[i]) ? &inputs[i] : &absent;
        int32_t head[2] = { (int32_t)t->dtype, t->shape.rank };
        bool value = value_matters(s, t, i);
        put(k, head, sizeof head);
        put(k, t->shape.dims, (size_t)t->shape.rank * sizeof t->shape.dims[0]);
        put(k, &value, sizeof value);
        if (value)
            put(k, t->data, (size_t)qn_count(t) * qn_dtype_size(t->dtype));
    }
}

static qn_status make_key(const qn_session *s, const qn_tensor *inputs, key *k,
                          qn_error *err)
{
    k->bytes = NULL;
    write_key(s, inputs, k);
    k->bytes = k->len <= sizeof k->few ? k->few : qn_calloc(k->len, 1);
    if (!k->bytes)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a plan's key");
    write_key(s, inputs, k);
    k->hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < k->len; i++)
        k->hash = (k->hash ^ k->bytes[i]) * 0x100000001b3u;
    return QN_OK;
}

/* ---- checking what came in ---- */

static qn_status wrong_shape(const qn_io *io, const qn_shape *got, int axis,
                             const char *why, qn_error *err)
{
    char text[QN_SHAPE_TEXT], want[96];
    size_t at = 0;
    want[0] = 0;
    for (int32_t i = 0; i < io->rank && at < sizeof want - 24; i++) {
        int n = io->dims[i].value >= 0
                    ? snprintf(want + at, sizeof want - at, "%s%lld",
                               i ? ", " : "", (long long)io->dims[i].value)
                    : snprintf(want + at, sizeof want - at, "%s%.12s",
                               i ? ", " : "",
                               io->dims[i].symbol ? io->dims[i].symbol : "?");
        at += n > 0 ? (size_t)n : 0;
    }
    qn_shape_text(got, text);
    if (axis >= 0)
        qn_fail(err, QN_SHAPE, "input '%s': shape %s does not fit [%s]: axis %d "
                "%s", io->name, text, want, axis, why);
    else
        qn_fail(err, QN_SHAPE, "input '%s': shape %s does not fit [%s]: %s",
                io->name, text, want, why);
    char wanted[100];
    snprintf(wanted, sizeof wanted, "[%s]", want);
    qn_error_where(err, io->name, wanted, text);
    return QN_SHAPE;
}

/* Equal symbols have equal sizes, across all inputs. */
static qn_status check_symbol(const qn_session *s, const qn_tensor *inputs,
                              uint32_t i, int32_t axis, qn_error *err)
{
    const char *symbol = s->inputs[i].dims[axis].symbol;
    int64_t size = inputs[i].shape.dims[axis];
    for (uint32_t j = 0; j <= i; j++) {
        const qn_io *io = &s->inputs[j];
        for (int32_t k = 0; qn_present(&inputs[j]) && k < io->rank; k++) {
            if (j == i && k >= axis)
                break;
            if (io->dims[k].value < 0 && io->dims[k].symbol &&
                !strcmp(io->dims[k].symbol, symbol) &&
                inputs[j].shape.dims[k] != size) {
                char why[160];
                snprintf(why, sizeof why,
                         "is %lld, but '%.40s' is %lld in input '%.60s'",
                         (long long)size, symbol,
                         (long long)inputs[j].shape.dims[k], io->name);
                return wrong_shape(&s->inputs[i], &inputs[i].shape, axis, why,
                                   err);
            }
        }
    }
    return QN_OK;
}

static qn_status check_input(const qn_session *s, const qn_tensor *inputs,
                             uint32_t i, qn_error *err)
{
    const qn_io *io = &s->inputs[i];
    const qn_tensor *t = &inputs[i];
    int64_t count;
    if (!qn_present(t)) {
        if (io->optional)
            return QN_OK;
        qn_fail(err, QN_INVALID, "input '%s' is missing", io->name);
        qn_error_where(err, io->name, qn_dtype_wire(io->type.dtype), "nothing");
        return QN_INVALID;
    }
    if (t->dtype != io->type.dtype) {
        qn_fail(err, QN_TYPE, "input '%s' is %s, the model takes %s", io->name,
                qn_dtype_wire(t->dtype), qn_dtype_wire(io->type.dtype));
        qn_error_where(err, io->name, qn_dtype_wire(io->type.dtype),
                       qn_dtype_wire(t->dtype));
        return QN_TYPE;
    }
    if (t->shape.rank < 0 || t->shape.rank > QN_MAX_RANK)
        return qn_fail(err, QN_SHAPE, "input '%s': rank %d is outside 0..%d",
                       io->name, t->shape.rank, QN_MAX_RANK);
    if (!qn_shape_count(&t->shape, &count))
        return wrong_shape(io, &t->shape, -1, "too many elements", err);
    /* a scalar may come as [1]: that is how most clients can send one */
    if (io->rank < 0 || s->options.loose_shapes || (io->rank == 0 && count == 1))
        return QN_OK;
    if (io->rank != t->shape.rank) {
        char why[64];
        snprintf(why, sizeof why, "rank is %d, not %d", t->shape.rank, io->rank);
        return wrong_shape(io, &t->shape, -1, why, err);
    }
    for (int32_t k = 0; k < io->rank; k++) {
        if (io->dims[k].value >= 0 && io->dims[k].value != t->shape.dims[k]) {
            char why[64];
            snprintf(why, sizeof why, "has size %lld, expected %lld",
                     (long long)t->shape.dims[k], (long long)io->dims[k].value);
            return wrong_shape(io, &t->shape, k, why, err);
        }
        if (io->dims[k].value < 0 && io->dims[k].symbol) {
            qn_status st = check_symbol(s, inputs, i, k, err);
            if (st != QN_OK)
                return st;
        }
    }
    return QN_OK;
}

static qn_status check_inputs(const qn_session *s, const qn_tensor *inputs,
                              qn_error *err)
{
    for (uint32_t i = 0; i < s->graph->n_inputs; i++) {
        qn_status st = check_input(s, inputs, i, err);
        if (st != QN_OK)
            return st;
    }
    return QN_OK;
}

/* ---- the list, under session->lock ---- */

static qn_plan **find(qn_session *s, const key *k)
{
    for (qn_plan **at = &s->plans; *at; at = &(*at)->next)
        if ((*at)->hash == k->hash && (*at)->key_bytes == k->len &&
            !memcmp((*at)->key, k->bytes, k->len))
            return at;
    return NULL;
}

static void to_front(qn_session *s, qn_plan **at)
{
    qn_plan *p = *at;
    *at = p->next;
    p->next = s->plans;
    s->plans = p;
}

static void destroy(qn_plan *plan)
{
    qn_graphs_drop_plan(plan);
    qn_plan_drop_uploads(plan);
    qn_ledger_give_back(plan->session->runtime->ledger, QN_MEM_PLAN,
                        plan->charged);
    qn_region_release(&plan->region);
    qn_free(plan);
}

void qn_plan_release(qn_plan *plan)
{
    if (plan && atomic_fetch_sub(&plan->refs, 1) == 1)
        destroy(plan);
}

/* Take plans out from the old end until `limit` bytes are left. Those that are
 * held by runs leave the cache, too, and go when they are let go. */
static qn_plan *evict(qn_session *s, size_t limit, const qn_plan *keep)
{
    qn_plan *gone = NULL;
    while (s->plan_bytes > limit) {
        qn_plan **victim = NULL;
        for (qn_plan **at = &s->plans; *at; at = &(*at)->next)
            if (!(*at)->building && *at != keep)
                victim = at;
        if (!victim)
            break;
        qn_plan *p = *victim;
        *victim = p->next;
        s->plan_bytes -= p->charged;
        p->next = gone;
        gone = p;
    }
    return gone;
}

/* Not under the lock: bytes that are given back may grant others theirs. */
static void let_go(qn_plan *gone)
{
    while (gone) {
        qn_plan *next = gone->next;
        qn_plan_release(gone);
        gone = next;
    }
}

static size_t cache_limit(const qn_session *s)
{
    return s->options.plan_cache_bytes ? s->options.plan_cache_bytes
                                       : (size_t)DEFAULT_CACHE_BYTES;
}

/* ---- building ---- */

qn_status qn_plan_build(qn_session *session, const qn_tensor *inputs,
                        qn_plan *plan, qn_error *err)
{
    uint64_t start = qn_clock_ns();
    qn_builder b = { .session = session, .plan = plan, .err = err };
    b.strings.base[QN_STRINGS_STATIC] =
        session->memory.blocks[0].data
            ? session->memory.blocks[0].data + session->memory.strings_offset
            : NULL;
    qn_status st = qn_build_emit(&b, inputs);
    if (st == QN_OK && !session->options.no_passes)
        st = qn_build_fuse(&b);
    if (st == QN_OK)
        st = qn_build_place(&b);
    qn_free(b.values);
    qn_free(b.steps);
    qn_region_release(&b.scratch);
    plan->report.build_ms = (double)(qn_clock_ns() - start) / 1e6;
    return st;
}

static qn_status charge(qn_session *s, qn_plan *plan, qn_error *err)
{
    size_t bytes = plan->region.bytes + sizeof *plan;
    qn_ledger *ledger = s->runtime->ledger;
    qn_status st = qn_ledger_charge(ledger, QN_MEM_PLAN, bytes, err);
    if (st != QN_OK) { /* older plans make room */
        pthread_mutex_lock(&s->lock);
        qn_plan *gone = evict(s, 0, NULL);
        pthread_mutex_unlock(&s->lock);
        let_go(gone);
        st = qn_ledger_charge(ledger, QN_MEM_PLAN, bytes, err);
    }
    if (st == QN_OK)
        plan->charged = plan->report.plan_bytes = bytes;
    return st;
}

static qn_status build(qn_session *s, const qn_tensor *inputs, qn_plan *plan,
                       qn_error *err)
{
    qn_tensor *known = qn_calloc(s->graph->n_inputs + 1u, sizeof *known);
    if (!known)
        return qn_fail(err, QN_NO_MEMORY, "no memory to build a plan");
    for (uint32_t i = 0; i < s->graph->n_inputs; i++) {
        known[i] = inputs[i];
        if (!value_matters(s, &inputs[i], i))
            known[i].data = NULL;
    }
    qn_status st = qn_plan_build(s, known, plan, err);
    qn_free(known);
    if (st == QN_OK)
        st = charge(s, plan, err);
    return st;
}

/* What every request of this plan leases; refused at once if it never fits. */
static qn_status fits(const qn_session *s, const qn_plan *plan, qn_error *err)
{
    qn_ledger_state state;
    qn_ledger_read(s->runtime->ledger, &state);
    size_t need = plan->report.lease_bytes;
    size_t could = state.budget - state.by_class[QN_MEM_STATIC];
    if (need <= could)
        return QN_OK;
    qn_fail(err, QN_TOO_LARGE,
            "this request needs %zu bytes (arena %zu, inputs %zu, outputs %zu); "
            "the budget of %zu bytes leaves %zu beside the loaded models",
            need, plan->arena_bytes[0], plan->in_bytes, plan->out_bytes,
            state.budget, could);
    return QN_TOO_LARGE;
}

static qn_status new_plan(qn_session *s, const key *k, qn_plan **out,
                          qn_error *err)
{
    qn_plan *plan = qn_calloc(1, sizeof *plan);
    void *copy = plan ? qn_region_alloc(&plan->region, k->len + 1, 1) : NULL;
    if (!copy) {
        qn_free(plan);
        return qn_fail(err, QN_NO_MEMORY, "no memory for a plan");
    }
    memcpy(copy, k->bytes, k->len);
    plan->session = s;
    plan->hash = k->hash;
    plan->key = copy;
    plan->key_bytes = k->len;
    *out = plan;
    return QN_OK;
}

static qn_status get(qn_session *s, const qn_tensor *inputs, bool may_build,
                     qn_plan **out, qn_error *err)
{
    key k;
    *out = NULL;
    qn_status st = check_inputs(s, inputs, err);
    if (st == QN_OK)
        st = make_key(s, inputs, &k, err);
    if (st != QN_OK)
        return st;
    pthread_mutex_lock(&s->lock);
    qn_plan **at;
    while ((at = find(s, &k)) && (*at)->building && may_build)
        pthread_cond_wait(&s->built, &s->lock);
    if (at && !(*at)->building) {
        to_front(s, at);
        *out = s->plans;
        atomic_fetch_add(&(*out)->refs, 1);
        pthread_mutex_unlock(&s->lock);
        key_release(&k);
        return QN_OK;
    }
    qn_plan *plan = NULL;
    if (!may_build)
        st = qn_fail(err, QN_NOT_READY, "no plan for these shapes yet");
    else
        st = new_plan(s, &k, &plan, err);
    key_release(&k);
    if (st != QN_OK) {
        pthread_mutex_unlock(&s->lock);
        return st;
    }
    plan->building = true;
    plan->next = s->plans;
    s->plans = plan;
    atomic_init(&plan->refs, 2); /* the cache's and the caller's */
    pthread_mutex_unlock(&s->lock);

    st = build(s, inputs, plan, err);
    if (st == QN_OK)
        st = fits(s, plan, err);

    qn_plan *gone = NULL;
    pthread_mutex_lock(&s->lock);
    plan->building = false;
    at = &s->plans;
    while (*at != plan)
        at = &(*at)->next;
    if (st != QN_OK) {
        *at = plan->next;
    } else {
        s->plan_bytes += plan->charged;
        gone = evict(s, cache_limit(s), plan);
        *out = plan;
    }
    pthread_cond_broadcast(&s->built);
    pthread_mutex_unlock(&s->lock);
    let_go(gone);
    if (st != QN_OK)
        destroy(plan);
    return st;
}

qn_status qn_session_plan(qn_session *session, const qn_tensor *inputs,
                          qn_plan **out, qn_error *err)
{
    return get(session, inputs, true, out, err);
}

qn_status qn_session_plan_cached(qn_session *session, const qn_tensor *inputs,
                                 qn_plan **out, qn_error *err)
{
    return get(session, inputs, false, out, err);
}

size_t qn_session_plans(qn_session *session, qn_plan **out, size_t cap)
{
    size_t n = 0;
    pthread_mutex_lock(&session->lock);
    for (qn_plan *p = session->plans; p && n < cap; p = p->next)
        if (!p->building) {
            atomic_fetch_add(&p->refs, 1);
            out[n++] = p;
        }
    pthread_mutex_unlock(&session->lock);
    return n;
}

void qn_plan_read(const qn_plan *plan, qn_plan_report *out)
{
    *out = plan->report;
}
