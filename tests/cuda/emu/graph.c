/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes in an order in which each comes after lower numbers. A launch
 * runs them on the thread of its stream, one by one, in some order that the
 * edges allow: drawn from the seed where there is one, so that an edge that
 * is missing shows. */
#include "tests/cuda/emu/internal.h"

#include <string.h>

enum { GRAPH_MAGIC = 0x51475248, EXEC_MAGIC = 0x51475845 };

struct CUgraph_st {
    uint32_t magic;
    struct graph_body *body;
};

static uint64_t last_launch; /* atomic */

struct graph_body *body_new(void)
{
    struct graph_body *b = calloc(1, sizeof *b);
    if (!b)
        qn_emu_report("no memory for a graph");
    b->refs = 1;
    return b;
}

static struct graph_body *body_ref(struct graph_body *b)
{
    __atomic_add_fetch(&b->refs, 1, __ATOMIC_RELAXED);
    return b;
}

void body_unref(struct graph_body *b)
{
    if (__atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < b->n; i++) {
        free(b->nodes[i].op);
        free(b->nodes[i].after);
    }
    free(b->nodes);
    free(b);
}

void body_add(struct graph_body *b, struct node node)
{
    if (b->n == b->capacity) {
        size_t more = b->capacity ? b->capacity * 2 : 64;
        void *p = realloc(b->nodes, more * sizeof *b->nodes);
        if (!p)
            qn_emu_report("no memory for a graph of %zu nodes", more);
        b->nodes = p;
        b->capacity = more;
    }
    b->nodes[b->n++] = node;
}

CUgraph graph_new(struct graph_body *b)
{
    struct CUgraph_st *g = calloc(1, sizeof *g);
    if (!g)
        qn_emu_report("no memory for a graph");
    g->magic = GRAPH_MAGIC;
    g->body = body_ref(b);
    return g;
}

static bool is_graph(CUgraph g)
{
    return g && g->magic == GRAPH_MAGIC;
}

static bool is_exec(CUgraphExec e)
{
    return e && e->magic == EXEC_MAGIC;
}

API cuGraphDestroy(CUgraph g)
{
    ENTER("cuGraphDestroy", INIT);
    if (!is_graph(g))
        return CUDA_ERROR_INVALID_VALUE;
    g->magic = 0;
    body_unref(g->body);
    free(g);
    return CUDA_SUCCESS;
}

API cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n)
{
    ENTER("cuGraphGetNodes", INIT);
    if (!is_graph(g) || !n)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes && i < *n; i++)
        nodes[i] = i < g->body->n ? (CUgraphNode)(void *)&g->body->nodes[i]
                                  : NULL;
    if (!nodes || *n > g->body->n)
        *n = g->body->n;
    return CUDA_SUCCESS;
}

API cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *out)
{
    ENTER("cuGraphNodeGetType", INIT);
    if (!handle || !out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct node *node = (const void *)handle;
    *out = node->op->kind != QN_EMU_COPY        ? CU_GRAPH_NODE_TYPE_KERNEL
           : strstr(node->op->what, "Memset") ? CU_GRAPH_NODE_TYPE_MEMSET
                                              : CU_GRAPH_NODE_TYPE_MEMCPY;
    return CUDA_SUCCESS;
}

API cuGraphInstantiate(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
    ENTER("cuGraphInstantiate", CONTEXT);
    unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                               CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    if (!out || !is_graph(g) || (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraphExec_st *e = calloc(1, sizeof *e);
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->magic = EXEC_MAGIC;
    e->refs = 1;
    e->body = body_ref(g->body);
    pthread_mutex_init(&e->lock, NULL);
    *out = e;
    return CUDA_SUCCESS;
}

API cuGraphUpload(CUgraphExec e, CUstream stream)
{
    ENTER("cuGraphUpload", CONTEXT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!is_exec(e))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_captured(s))
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_SUCCESS;
}

API cuGraphLaunch(CUgraphExec e, CUstream stream)
{
    ENTER("cuGraphLaunch", CONTEXT);
    struct CUstream_st *s;
    CUresult r = stream_of(stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!is_exec(e))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream_captured(s)) /* child graphs are not part of this emulation */
        return capture_conflict(s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    r = legacy_check(s);
    if (r != CUDA_SUCCESS)
        return r;
    __atomic_add_fetch(&e->refs, 1, __ATOMIC_RELAXED);
    /* launches of one graph come one after the other, whatever the stream */
    pthread_mutex_lock(&e->lock);
    if (e->last && !point_done(e->last))
        stream_push(s, (struct item){ .kind = ITEM_WAIT,
                                      .point = point_ref(e->last) });
    stream_push(s, (struct item){ .kind = ITEM_GRAPH, .exec = e });
    point_unref(e->last);
    e->last = stream_record(s);
    pthread_mutex_unlock(&e->lock);
    return CUDA_SUCCESS;
}

void exec_unref(CUgraphExec e)
{
    if (__atomic_sub_fetch(&e->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    body_unref(e->body);
    pthread_mutex_destroy(&e->lock);
    point_unref(e->last);
    free(e);
}

/* Launches under way go on and free it. */
API cuGraphExecDestroy(CUgraphExec e)
{
    ENTER("cuGraphExecDestroy", INIT);
    if (!is_exec(e))
        return CUDA_ERROR_INVALID_VALUE;
    e->magic = 0;
    exec_unref(e);
    return CUDA_SUCCESS;
}

static void log_graph(const struct CUstream_st *s, const struct item *i,
                      uint32_t kind, uint64_t launch, uint32_t node,
                      uint64_t before)
{
    log_add(&(struct qn_emu_entry){ .kind = kind,
                                    .stream = s->number,
                                    .enqueued = i->enqueued,
                                    .tag = i->tag,
                                    .launch = launch,
                                    .node = node,
                                    .point = before });
}

static void run_node(struct CUstream_st *s, const struct item *i,
                     const struct graph_body *b, uint32_t n, uint64_t launch)
{
    const struct node *node = &b->nodes[n];
    op_run(s, node->op, i->enqueued, launch, n);
    for (size_t k = 0; k < node->n_after && log_on(); k++)
        log_graph(s, i, QN_EMU_EDGE, launch, n, node->after[k]);
}

/* Any order that the edges allow: draw among the nodes that are ready. */
static void run_shuffled(struct CUstream_st *s, const struct item *i,
                         const struct graph_body *b, uint64_t launch)
{
    uint64_t random = __atomic_load_n(&delay_seed, __ATOMIC_RELAXED) +
                      s->number * 0x2545f4914f6cdd1du + s->completed;
    bool *done = calloc(b->n + 1, sizeof *done);
    uint32_t *ready = malloc((b->n + 1) * sizeof *ready);
    bool *listed = calloc(b->n + 1, sizeof *listed);
    if (!done || !ready || !listed)
        qn_emu_report("no memory to run a graph");
    size_t n_ready = 0, first = 0; /* all before first are listed */
    for (size_t left = b->n; left > 0; left--) {
        for (size_t n = first; n < b->n && n < first + 256; n++) {
            bool free_to_go = !listed[n];
            for (size_t k = 0; free_to_go && k < b->nodes[n].n_after; k++)
                free_to_go = done[b->nodes[n].after[k]];
            if (free_to_go) {
                listed[n] = true;
                ready[n_ready++] = (uint32_t)n;
            }
        }
        while (first < b->n && listed[first])
            first++;
        size_t pick = (size_t)(random_next(&random) % n_ready);
        uint32_t n = ready[pick];
        ready[pick] = ready[--n_ready];
        run_node(s, i, b, n, launch);
        done[n] = true;
    }
    free(done);
    free(ready);
    free(listed);
}

void exec_run(struct CUstream_st *s, const struct item *i)
{
    static struct counter total = { "graph", 0, NULL, false };
    struct CUgraphExec_st *e = i->exec;
    const struct graph_body *b = e->body;
    uint64_t launch = __atomic_add_fetch(&last_launch, 1, __ATOMIC_RELAXED);
    if (log_on())
        log_graph(s, i, QN_EMU_GRAPH_BEGIN, launch, 0, 0);
    if (__atomic_load_n(&delay_seed, __ATOMIC_RELAXED))
        run_shuffled(s, i, b, launch);
    else
        for (size_t n = 0; n < b->n; n++)
            run_node(s, i, b, (uint32_t)n, launch);
    if (log_on())
        log_graph(s, i, QN_EMU_GRAPH_END, launch, 0, 0);
    counter_add(&total);
}
