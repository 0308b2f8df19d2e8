/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static memory of a session: one block per model, laid out in graph order.
 *
 *   | plain constants, 64-byte aligned | packed weights | string heap |
 *
 * A constant that only packing kernels read is kept in packed form alone. Each
 * tensor goes from the file's mapping (or its folding) straight to its place,
 * so loading peaks at the block plus the one tensor that is being packed.
 */
#include "runtime/base/checked.h"
#include "runtime/exec/session_impl.h"
#include "runtime/ops/op.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STATIC_ALIGN = 64 };

qn_status qn_graph_each(qn_graph *graph,
                        qn_status (*fn)(qn_graph *graph, void *arg,
                                        qn_error *err),
                        void *arg, qn_error *err)
{
    qn_status st = fn(graph, arg, err);
    for (uint32_t i = 0; st == QN_OK && i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        for (uint32_t a = 0; st == QN_OK && a < node->n_attrs; a++)
            if (node->attrs[a].graph)
                st = qn_graph_each(node->attrs[a].graph, fn, arg, err);
    }
    return st;
}

/* The constant that a value stands for, through captures; NULL if none. */
static const qn_value *constant_of(const qn_graph *graph, qn_value_id id)
{
    while (id != QN_NO_VALUE) {
        const qn_value *v = &graph->values[id];
        if (v->kind != QN_VALUE_CAPTURE)
            return v->data ? v : NULL;
        id = v->outer;
        graph = graph->parent;
    }
    return NULL;
}

static qn_status count_graph(qn_graph *graph, void *arg, qn_error *err)
{
    qn_static *st = arg;
    (void)err;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].data)
            graph->values[i].slot = st->n_slots++;
    for (uint32_t i = 0; i < graph->n_nodes; i++)
        st->n_packed += graph->nodes[i]->n_in;
    return QN_OK;
}

static qn_status note_slots(qn_graph *graph, void *arg, qn_error *err)
{
    qn_static *st = arg;
    (void)err;
    for (uint32_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].data)
            st->slots[graph->values[i].slot] = (qn_slot){
                .data = graph->values[i].data,
                .shape = graph->values[i].data->shape,
                .offset = QN_UNPLACED };
    return QN_OK;
}

/* Types of a node's inputs, and the shapes of those that are constant. */
static qn_status node_inputs(const qn_graph *graph, const qn_node *node,
                             qn_tensor **out, qn_error *err)
{
    qn_tensor *in = qn_calloc(node->n_in + 1u, sizeof *in);
    *out = in;
    if (!in)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for %u inputs",
                       node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] == QN_NO_VALUE)
            continue;
        const qn_value *c = constant_of(graph, node->in[i]);
        in[i].dtype = graph->values[node->in[i]].type.dtype;
        in[i].shape.rank = -1;
        if (c && c->kind == QN_VALUE_CONST)
            in[i].shape = c->data->shape;
    }
    return QN_OK;
}

static qn_status plan_node(qn_static *st, const qn_graph *graph,
                           const qn_node *node, qn_error *err)
{
    qn_tensor *in;
    qn_status status = node_inputs(graph, node, &in, err);
    for (uint32_t i = 0; status == QN_OK && i < node->n_in; i++) {
        const qn_value *c = constant_of(graph, node->in[i]);
        if (!c)
            continue;
        const qn_kernel *k = node->kernel;
        size_t bytes = 0;
        /* a default that a request may replace cannot be packed ahead */
        if (c->kind == QN_VALUE_CONST && k && k->pack_size &&
            !(i < 32 && (node->op->value_in >> i & 1)))
            bytes = k->pack_size(node, node->n_in, in, i);
        if (bytes)
            st->packed[st->n_packed++] = (qn_packed){
                .node = node, .input = i, .slot = c->slot, .bytes = bytes };
        else
            st->slots[c->slot].plain = true;
    }
    qn_free(in);
    return status;
}

static qn_status plan_graph(qn_graph *graph, void *arg, qn_error *err)
{
    qn_static *st = arg;
    qn_status status = QN_OK;
    for (uint32_t i = 0; status == QN_OK && i < graph->n_nodes; i++)
        status = plan_node(st, graph, graph->nodes[i], err);
    for (uint32_t i = 0; i < graph->n_outputs; i++) {
        const qn_value *c = constant_of(graph, graph->outputs[i]);
        if (c)
            st->slots[c->slot].plain = true;
    }
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->values[graph->inputs[i]].data)
            st->slots[graph->values[graph->inputs[i]].slot].plain = true;
    return status;
}

static bool advance(size_t *at, size_t bytes)
{
    return qn_add_size(*at, bytes, at) && qn_align_size(*at, STATIC_ALIGN, at);
}

static bool lay_out(qn_static *st, qn_static_report *report)
{
    size_t at = 0, strings = 0;
    for (uint32_t i = 0; i < st->n_slots; i++) {
        qn_slot *s = &st->slots[i];
        if (!s->plain)
            continue;
        s->offset = at;
        report->plain += s->data->bytes;
        if (!advance(&at, s->data->bytes) ||
            !qn_add_size(strings, s->data->string_bytes, &strings))
            return false;
    }
    for (uint32_t i = 0; i < st->n_packed; i++) {
        st->packed[i].offset = at;
        report->packed += st->packed[i].bytes;
        if (!advance(&at, st->packed[i].bytes))
            return false;
    }
    st->strings_offset = at;
    return advance(&at, strings) &&
           qn_align_size(at, (size_t)sysconf(_SC_PAGESIZE), &st->bytes);
}

static qn_status fill_plain(qn_static *st, qn_error *err)
{
    size_t heap = 0;
    for (uint32_t i = 0; i < st->n_slots; i++) {
        qn_slot *s = &st->slots[i];
        if (!s->plain)
            continue;
        char *dst = st->block + s->offset;
        qn_status status = qn_const_read(s->data, dst, err);
        if (status != QN_OK)
            return status;
        if (s->data->dtype != QN_STRING || !s->data->string_bytes)
            continue;
        /* elements count from their own heap: move them to the common one */
        memcpy(st->block + st->strings_offset + heap, s->data->strings,
               s->data->string_bytes);
        qn_string *e = (qn_string *)(void *)dst;
        for (size_t k = 0; k < s->data->bytes / sizeof *e; k++)
            e[k].where += e[k].len ? heap : 0;
        heap += s->data->string_bytes;
    }
    return QN_OK;
}

static qn_status pack_one(qn_static *st, const qn_graph *graph,
                          const qn_packed *p, qn_error *err)
{
    const qn_const *c = st->slots[p->slot].data;
    qn_tensor *in;
    qn_status status = node_inputs(graph, p->node, &in, err);
    void *copy = NULL;
    if (status == QN_OK) {
        in[p->input].data = st->slots[p->slot].plain
                                ? st->block + st->slots[p->slot].offset
                                : NULL;
        if (!in[p->input].data) {
            /* unaligned in the file, or computed: one tensor at a time */
            copy = aligned_alloc(STATIC_ALIGN,
                                 (c->bytes + STATIC_ALIGN) &
                                     ~(size_t)(STATIC_ALIGN - 1));
            in[p->input].data = copy;
            status = copy ? qn_const_read(c, copy, err)
                          : qn_fail(err, QN_NO_MEMORY,
                                    "no memory to pack a tensor of %zu bytes",
                                    c->bytes);
        }
        if (status == QN_OK)
            status = p->node->kernel->pack(p->node, p->node->n_in, in, p->input,
                                           st->block + p->offset, err);
    }
    free(copy);
    qn_free(in);
    return status;
}

static qn_status pack_graph(qn_graph *graph, void *arg, qn_error *err)
{
    qn_static *st = arg;
    qn_status status = QN_OK;
    for (uint32_t i = 0; status == QN_OK && i < graph->n_nodes; i++)
        for (uint32_t k = 0; status == QN_OK && k < graph->nodes[i]->n_in; k++) {
            const qn_packed *p = qn_static_packed(st, graph->nodes[i], k);
            if (p)
                status = pack_one(st, graph, p, err);
        }
    return status;
}

static int compare_packed(const void *a, const void *b)
{
    const qn_packed *x = a, *y = b;
    if (x->node != y->node)
        return (uintptr_t)x->node < (uintptr_t)y->node ? -1 : 1;
    return x->input < y->input ? -1 : x->input > y->input;
}

const qn_packed *qn_static_packed(const qn_static *st, const qn_node *node,
                                  uint32_t input)
{
    qn_packed key = { .node = node, .input = input };
    if (!st->n_packed)
        return NULL;
    return bsearch(&key, st->packed, st->n_packed, sizeof key, compare_packed);
}

static qn_status map_block(qn_static *st, qn_ledger *ledger, qn_error *err)
{
    size_t bytes = st->bytes;
    st->bytes = 0; /* until it is charged */
    if (!bytes)
        return QN_OK;
    qn_status status = qn_ledger_charge(ledger, QN_MEM_STATIC, bytes, err);
    if (status != QN_OK)
        return status;
    st->block = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (st->block == MAP_FAILED) {
        st->block = NULL;
        qn_ledger_give_back(ledger, QN_MEM_STATIC, bytes);
        return qn_fail(err, QN_NO_MEMORY,
                       "the system refused %zu bytes of static memory", bytes);
    }
    st->bytes = bytes;
    (void)madvise(st->block, bytes, MADV_HUGEPAGE);
    return QN_OK;
}

qn_status qn_static_build(qn_static *st, qn_graph *graph, qn_ledger *ledger,
                          qn_static_report *report, qn_error *err)
{
    memset(st, 0, sizeof *st);
    qn_status status = qn_graph_each(graph, count_graph, st, err);
    st->slots = qn_calloc(st->n_slots + 1u, sizeof *st->slots);
    st->packed = qn_calloc(st->n_packed + 1u, sizeof *st->packed);
    st->n_packed = 0;
    if (!st->slots || !st->packed) {
        status = qn_fail(err, QN_NO_MEMORY, "no memory for %u constants",
                         st->n_slots);
        st->n_slots = 0;
    }
    if (status == QN_OK)
        status = qn_graph_each(graph, note_slots, st, err);
    if (status == QN_OK)
        status = qn_graph_each(graph, plan_graph, st, err);
    if (status == QN_OK && !lay_out(st, report))
        status = qn_fail(err, QN_TOO_LARGE, "static memory exceeds SIZE_MAX");
    if (status == QN_OK)
        status = map_block(st, ledger, err);
    if (status == QN_OK) {
        qsort(st->packed, st->n_packed, sizeof *st->packed, compare_packed);
        status = fill_plain(st, err);
    }
    if (status == QN_OK)
        status = qn_graph_each(graph, pack_graph, st, err);
    report->bytes = st->bytes;
    /* the reader's bytes go away after this: nothing may look there again */
    for (uint32_t i = 0; i < st->n_slots; i++)
        st->slots[i].data = NULL;
    if (status == QN_OK && st->block)
        (void)mprotect(st->block, st->bytes, PROT_READ);
    if (status != QN_OK)
        qn_static_release(st, ledger);
    return status;
}

void qn_static_release(qn_static *st, qn_ledger *ledger)
{
    if (st->block) {
        munmap(st->block, st->bytes);
        qn_ledger_give_back(ledger, QN_MEM_STATIC, st->bytes);
    }
    qn_free(st->slots);
    qn_free(st->packed);
    memset(st, 0, sizeof *st);
}
