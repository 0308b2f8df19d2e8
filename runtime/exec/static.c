/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Static memory of a session: one block per model and device, laid out in graph
 * order.
 *
 *   | plain constants, 64-byte aligned | packed weights | string heap |
 *
 * A constant that only packing kernels read is kept in packed form alone. Each
 * tensor goes from the file's mapping (or its folding) straight to its place,
 * so loading peaks at the block plus the one tensor that is being packed or
 * uploaded.
 */
#include "runtime/base/checked.h"
#include "runtime/exec/session_impl.h"
#include "runtime/ops/collective.h"
#include "runtime/ops/op.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    STATIC_ALIGN = 64,
    DEVICE_ALIGN = 256,
    /* Constants of this size stay on the host too: the planner may compute with
     * them, and kernels may read them when they are prepared. */
    KEPT_ON_HOST = 16 << 10
};

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

/* Where the constant has to be for input i of the node. Nodes without a kernel,
 * views and control flow, may pass it on to anybody. */
static void need_plain(qn_static *st, const qn_value *c, const qn_node *node,
                       uint32_t i)
{
    qn_slot *slot = &st->slots[c->slot];
    uint32_t host = node->op->value_in;
    if (node->kernel)
        host |= node->kernel->host_in;
    bool on_host = i < 32 && (host >> i & 1);
    if (!node->kernel)
        slot->spaces |= (UINT32_C(1) << st->n_spaces) - 2;
    else if (!on_host)
        slot->spaces |= (UINT32_C(1) << qn_node_space(node, i)) & ~UINT32_C(1);
    if (!node->kernel || on_host || !node->place ||
        slot->data->bytes <= KEPT_ON_HOST)
        slot->plain = true;
    if (slot->data->dtype == QN_STRING)
        slot->spaces = 0;
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
                .node = node, .input = i, .slot = c->slot, .bytes = bytes,
                .space = node->place };
        else
            need_plain(st, c, node, i);
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
        if (!c)
            continue;
        st->slots[c->slot].plain = true;
        /* a branch's, which anybody may read once it is known to be taken */
        if (graph->parent && c->data->dtype != QN_STRING)
            st->slots[c->slot].spaces |= (UINT32_C(1) << st->n_spaces) - 2;
    }
    /* defaults of inputs are the host's, as what a request would send */
    for (uint32_t i = 0; i < graph->n_inputs; i++)
        if (graph->values[graph->inputs[i]].data)
            st->slots[graph->values[graph->inputs[i]].slot].plain = true;
    return status;
}

static bool advance(size_t *at, size_t bytes, size_t align)
{
    return qn_add_size(*at, bytes, at) && qn_align_size(*at, align, at);
}

static bool lay_out_host(qn_static *st, qn_static_report *report)
{
    size_t at = 0, strings = 0;
    for (uint32_t i = 0; i < st->n_slots; i++) {
        qn_slot *s = &st->slots[i];
        if (!s->plain)
            continue;
        s->offset = at;
        report->plain += s->data->bytes;
        if (!advance(&at, s->data->bytes, STATIC_ALIGN) ||
            !qn_add_size(strings, s->data->string_bytes, &strings))
            return false;
    }
    for (uint32_t i = 0; i < st->n_packed; i++) {
        if (st->packed[i].space)
            continue;
        st->packed[i].offset = at;
        report->packed += st->packed[i].bytes;
        if (!advance(&at, st->packed[i].bytes, STATIC_ALIGN))
            return false;
    }
    st->strings_offset = at;
    return advance(&at, strings, STATIC_ALIGN) &&
           qn_align_size(at, (size_t)sysconf(_SC_PAGESIZE),
                         &st->blocks[0].bytes);
}

static bool lay_out_device(qn_static *st, uint8_t space)
{
    size_t at = 0;
    for (uint32_t i = 0; i < st->n_slots; i++) {
        const qn_slot *s = &st->slots[i];
        if (!(s->spaces >> space & 1))
            continue;
        st->device_offsets[i * (st->n_spaces - 1) + space - 1] = at;
        if (!advance(&at, s->data->bytes, DEVICE_ALIGN))
            return false;
    }
    for (uint32_t i = 0; i < st->n_packed; i++) {
        if (st->packed[i].space != space)
            continue;
        st->packed[i].offset = at;
        if (!advance(&at, st->packed[i].bytes, DEVICE_ALIGN))
            return false;
    }
    st->blocks[space].bytes = at;
    return true;
}

static bool lay_out(qn_static *st, qn_static_report *report)
{
    bool fits = lay_out_host(st, report);
    for (uint8_t s = 1; fits && s < st->n_spaces; s++)
        fits = lay_out_device(st, s);
    return fits;
}

size_t qn_static_offset(const qn_static *st, uint32_t slot, uint8_t space)
{
    if (!space)
        return st->slots[slot].offset;
    return st->slots[slot].spaces >> space & 1
               ? st->device_offsets[slot * (st->n_spaces - 1) + space - 1]
               : QN_UNPLACED;
}

static qn_status fill_plain(qn_static *st, qn_error *err)
{
    size_t heap = 0;
    for (uint32_t i = 0; i < st->n_slots; i++) {
        qn_slot *s = &st->slots[i];
        if (!s->plain)
            continue;
        char *dst = st->blocks[0].data + s->offset;
        qn_status status = qn_const_read(s->data, dst, err);
        if (status != QN_OK)
            return status;
        if (s->data->dtype != QN_STRING || !s->data->string_bytes)
            continue;
        /* elements count from their own heap: move them to the common one */
        memcpy(st->blocks[0].data + st->strings_offset + heap, s->data->strings,
               s->data->string_bytes);
        qn_string *e = (qn_string *)(void *)dst;
        for (size_t k = 0; k < s->data->bytes / sizeof *e; k++)
            e[k].where += e[k].len ? heap : 0;
        heap += s->data->string_bytes;
    }
    return QN_OK;
}

/* A tensor's bytes, aligned, until free(*temp): they may lie unaligned in the
 * file, or have to be computed. */
static qn_status load(const qn_const *c, void **temp, qn_error *err)
{
    *temp = aligned_alloc(STATIC_ALIGN, (c->bytes + STATIC_ALIGN) &
                                            ~(size_t)(STATIC_ALIGN - 1));
    if (!*temp)
        return qn_fail(err, QN_NO_MEMORY,
                       "no memory to prepare a tensor of %zu bytes", c->bytes);
    return qn_const_read(c, *temp, err);
}

static qn_status pack_into(qn_session *session, const qn_packed *p,
                           const qn_tensor *in, qn_error *err)
{
    const qn_kernel *kernel = p->node->kernel;
    char *block = session->memory.blocks[p->space].data;
    if (!p->space)
        return kernel->pack(p->node, p->node->n_in, in, p->input,
                            block + p->offset, err);
    void *temp = aligned_alloc(STATIC_ALIGN, (p->bytes + STATIC_ALIGN) &
                                                 ~(size_t)(STATIC_ALIGN - 1));
    if (!temp)
        return qn_fail(err, QN_NO_MEMORY, "no memory to pack %zu bytes",
                       p->bytes);
    qn_status status =
        kernel->pack(p->node, p->node->n_in, in, p->input, temp, err);
    qn_accel *accel = session->accels[p->space - 1]->accel;
    if (status == QN_OK)
        status = accel->ops->upload(accel, block + p->offset, temp, p->bytes,
                                    err);
    free(temp);
    return status;
}

static qn_status pack_one(qn_session *session, const qn_graph *graph,
                          const qn_packed *p, qn_error *err)
{
    const qn_static *st = &session->memory;
    const qn_slot *slot = &st->slots[p->slot];
    qn_tensor *in;
    qn_status status = node_inputs(graph, p->node, &in, err);
    void *copy = NULL;
    if (status == QN_OK && slot->plain)
        in[p->input].data = st->blocks[0].data + slot->offset;
    else if (status == QN_OK) {
        status = load(slot->data, &copy, err);
        in[p->input].data = copy;
    }
    if (status == QN_OK)
        status = pack_into(session, p, in, err);
    free(copy);
    qn_free(in);
    return status;
}

static qn_status fill_devices(qn_session *session, qn_error *err)
{
    const qn_static *st = &session->memory;
    qn_status status = QN_OK;
    for (uint32_t i = 0; status == QN_OK && i < st->n_slots; i++) {
        const qn_slot *s = &st->slots[i];
        void *temp = NULL;
        if (!s->spaces || !s->data->bytes)
            continue;
        if (!s->plain)
            status = load(s->data, &temp, err);
        const void *bytes = s->plain ? st->blocks[0].data + s->offset : temp;
        for (uint8_t n = 1; status == QN_OK && n < st->n_spaces; n++) {
            qn_accel *accel = session->accels[n - 1]->accel;
            if (s->spaces >> n & 1)
                status = accel->ops->upload(
                    accel, st->blocks[n].data + qn_static_offset(st, i, n),
                    bytes, s->data->bytes, err);
        }
        free(temp);
    }
    return status;
}

static qn_status pack_graph(qn_graph *graph, void *arg, qn_error *err)
{
    qn_session *session = arg;
    qn_status status = QN_OK;
    for (uint32_t i = 0; status == QN_OK && i < graph->n_nodes; i++)
        for (uint32_t k = 0; status == QN_OK && k < graph->nodes[i]->n_in; k++) {
            const qn_packed *p =
                qn_static_packed(&session->memory, graph->nodes[i], k);
            if (p)
                status = pack_one(session, graph, p, err);
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

static qn_status map_host(qn_static_block *block, qn_ledger *ledger,
                          qn_error *err)
{
    size_t bytes = block->bytes;
    block->bytes = 0; /* until it is charged */
    if (!bytes)
        return QN_OK;
    qn_status status = qn_ledger_charge(ledger, QN_MEM_STATIC, bytes, err);
    if (status != QN_OK)
        return status;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        qn_ledger_give_back(ledger, QN_MEM_STATIC, bytes);
        return qn_fail(err, QN_NO_MEMORY,
                       "the system refused %zu bytes of static memory", bytes);
    }
    *block = (qn_static_block){ p, bytes };
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    return QN_OK;
}

static qn_status map_device(qn_static_block *block, qn_accel_slot *slot,
                            qn_error *err)
{
    size_t bytes = block->bytes;
    void *p;
    block->bytes = 0;
    if (!bytes)
        return QN_OK;
    qn_status status = qn_ledger_charge(slot->ledger, QN_MEM_STATIC, bytes, err);
    if (status == QN_OK) {
        status = slot->accel->ops->alloc(slot->accel, bytes, &p, err);
        if (status != QN_OK)
            qn_ledger_give_back(slot->ledger, QN_MEM_STATIC, bytes);
    }
    if (status != QN_OK)
        return qn_error_prefix(err, "static memory on %s", slot->accel->label);
    *block = (qn_static_block){ p, bytes };
    return QN_OK;
}

/* All blocks or none: a block that could not be had is empty. */
static qn_status map_blocks(qn_session *session, qn_error *err)
{
    qn_static *st = &session->memory;
    qn_status status = map_host(&st->blocks[0], session->runtime->ledger, err);
    for (uint8_t n = 1; n < st->n_spaces; n++) {
        if (status == QN_OK)
            status = map_device(&st->blocks[n], session->accels[n - 1], err);
        else
            st->blocks[n].bytes = 0;
        session->report.accel_bytes += st->blocks[n].bytes;
    }
    return status;
}

/* Nothing is laid out or charged yet. */
static qn_status make_tables(qn_session *session, qn_error *err)
{
    qn_static *st = &session->memory;
    qn_graph *graph = session->graph;
    st->n_spaces = session->options.n_accels + 1;
    qn_status status = qn_graph_each(graph, count_graph, st, err);
    st->slots = qn_calloc(st->n_slots + 1u, sizeof *st->slots);
    st->packed = qn_calloc(st->n_packed + 1u, sizeof *st->packed);
    st->device_offsets = qn_calloc(
        (size_t)st->n_slots * (st->n_spaces - 1) + 1, sizeof(size_t));
    st->n_packed = 0;
    if (!st->slots || !st->packed || !st->device_offsets) {
        status = qn_fail(err, QN_NO_MEMORY, "no memory for %u constants",
                         st->n_slots);
        st->n_slots = 0;
    }
    if (status == QN_OK)
        status = qn_graph_each(graph, note_slots, st, err);
    if (status == QN_OK)
        status = qn_graph_each(graph, plan_graph, st, err);
    return status;
}

qn_status qn_static_build(qn_session *session, qn_error *err)
{
    qn_static *st = &session->memory;
    memset(st, 0, sizeof *st);
    qn_status status = make_tables(session, err);
    if (status == QN_OK) {
        if (lay_out(st, &session->report))
            status = map_blocks(session, err);
        else
            status = qn_fail(err, QN_TOO_LARGE,
                             "static memory exceeds SIZE_MAX");
    }
    if (status == QN_OK) {
        qsort(st->packed, st->n_packed, sizeof *st->packed, compare_packed);
        status = fill_plain(st, err);
    }
    if (status == QN_OK)
        status = fill_devices(session, err);
    if (status == QN_OK)
        status = qn_graph_each(session->graph, pack_graph, session, err);
    session->report.bytes = st->blocks[0].data ? st->blocks[0].bytes : 0;
    /* the reader's bytes go away after this: nothing may look there again */
    for (uint32_t i = 0; i < st->n_slots; i++)
        st->slots[i].data = NULL;
    if (status == QN_OK && st->blocks[0].data)
        (void)mprotect(st->blocks[0].data, st->blocks[0].bytes, PROT_READ);
    if (status != QN_OK)
        qn_static_release(session);
    return status;
}

void qn_static_release(qn_session *session)
{
    qn_static *st = &session->memory;
    for (uint32_t n = 0; n < st->n_spaces; n++) {
        const qn_static_block *block = &st->blocks[n];
        qn_accel_slot *slot = n ? session->accels[n - 1] : NULL;
        if (!block->data)
            continue;
        if (slot)
            slot->accel->ops->release(slot->accel, block->data);
        else
            munmap(block->data, block->bytes);
        qn_ledger_give_back(slot ? slot->ledger : session->runtime->ledger,
                            QN_MEM_STATIC, block->bytes);
    }
    qn_free(st->slots);
    qn_free(st->packed);
    qn_free(st->device_offsets);
    memset(st, 0, sizeof *st);
}
