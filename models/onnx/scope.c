/* SPDX-License-Identifier: Apache-2.0 */
/* Names of values: one open-addressing table per graph or function. */
#include "models/onnx/reader.h"

#include <string.h>

enum { FIRST_CAP = 32 };

qn_status qn_reader_no_memory(qn_reader *r)
{
    return qn_fail(r->err, QN_NO_MEMORY, "out of memory to read the model");
}

/* FNV-1a, folded, since the low bits index the table. */
static size_t hash(qn_span name)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (unsigned char)name.s[i]) * 0x100000001b3u;
    return (size_t)(h ^ (h >> 32));
}

static qn_scope_slot *probe(qn_scope_slot *slots, size_t cap, qn_span name)
{
    size_t at = hash(name) & (cap - 1);

    while (slots[at].used && !qn_span_equal(slots[at].name, name))
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

qn_scope_slot *qn_scope_find(const qn_scope *scope, qn_span name)
{
    if (!scope->cap)
        return NULL;
    qn_scope_slot *slot = probe(scope->slots, scope->cap, name);
    return slot->used ? slot : NULL;
}

static qn_status grow(qn_reader *r, qn_scope *scope)
{
    size_t cap = scope->cap ? 2 * scope->cap : FIRST_CAP;
    qn_scope_slot *slots = qn_region_alloc(&r->scratch, cap, sizeof *slots);

    if (!slots)
        return qn_reader_no_memory(r);
    for (size_t i = 0; i < scope->cap; i++)
        if (scope->slots[i].used)
            *probe(slots, cap, scope->slots[i].name) = scope->slots[i];
    scope->slots = slots;
    scope->cap = cap;
    return QN_OK;
}

qn_status qn_scope_add(qn_reader *r, qn_scope *scope, qn_span name,
                       qn_value_id id)
{
    if (scope->n >= scope->cap / 2) {
        qn_status st = grow(r, scope);
        if (st != QN_OK)
            return st;
    }
    qn_scope_slot *slot = probe(scope->slots, scope->cap, name);
    if (slot->used)
        return qn_fail(r->err, QN_FORMAT, "two values are named '%.*s'",
                       (int)(name.len < 120 ? name.len : 120), name.s);
    *slot = (qn_scope_slot){ .name = name, .id = id, .used = true };
    scope->n++;
    return QN_OK;
}

/* Value `id` of `owner`, as seen from `graph` inside it. */
static qn_status capture(qn_reader *r, qn_graph *graph, const qn_graph *owner,
                         qn_value_id id, qn_value_id *out)
{
    if (graph == owner) {
        *out = id;
        return QN_OK;
    }
    qn_status st = capture(r, graph->parent, owner, id, &id);
    return st == QN_OK ? qn_graph_capture(graph, id, out, r->err) : st;
}

qn_status qn_scope_resolve(qn_reader *r, qn_scope *scope, qn_span name,
                           qn_value_id *out)
{
    for (qn_scope *s = scope; s; s = s->parent) {
        const qn_scope_slot *slot = qn_scope_find(s, name);
        if (!slot)
            continue;
        *out = slot->id;
        if (s == scope || slot->id == QN_NO_VALUE)
            return QN_OK;
        qn_status st = capture(r, scope->graph, s->graph, slot->id, out);
        return st == QN_OK ? qn_scope_add(r, scope, name, *out) : st;
    }
    return qn_fail(r->err, QN_FORMAT, "nothing makes value '%.*s'",
                   (int)(name.len < 120 ? name.len : 120), name.s);
}

int qn_scope_opset(const qn_scope *scope, qn_span domain)
{
    for (size_t i = 0; i < scope->imports->n; i++)
        if (qn_span_equal(scope->imports->list[i].domain, domain))
            return scope->imports->list[i].version;
    return 0;
}
