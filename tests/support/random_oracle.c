/* SPDX-License-Identifier: Apache-2.0 */
/* Node by node, each result in memory of its own, nothing planned. */
#include "runtime/exec/eval.h"
#include "runtime/ops/op.h"
#include "tests/support/random_graph.h"

#include <math.h>
#include <string.h>

typedef struct frame {
    const qn_graph *g;
    const qn_tensor *parent; /* values of the graph around */
    int depth;
} frame;

typedef struct oracle {
    qn_region *region;
    double scale;
    FILE *dump;
    qn_error *err;
} oracle;

static qn_status run(oracle *o, frame f, const qn_tensor *inputs,
                     qn_tensor *out);

static void note(oracle *o, const qn_tensor *t)
{
    const float *x = t->data;
    if (t->dtype != QN_F32)
        return;
    for (int64_t i = 0; i < qn_count(t); i++)
        if (isfinite(x[i]) && fabs((double)x[i]) > o->scale)
            o->scale = fabs((double)x[i]);
}

static void show_values(FILE *to, const qn_tensor *t)
{
    int64_t n = qn_count(t);
    for (int64_t i = 0; i < n && i < 8; i++)
        if (t->dtype == QN_F32)
            fprintf(to, " %g", (double)((const float *)t->data)[i]);
        else if (t->dtype == QN_I64)
            fprintf(to, " %lld", (long long)((const int64_t *)t->data)[i]);
        else if (t->dtype == QN_BOOL)
            fprintf(to, " %d", ((const uint8_t *)t->data)[i]);
    fprintf(to, "%s", n > 8 ? " ..." : "");
}

static void show(oracle *o, frame f, const qn_node *node, const qn_tensor *v)
{
    if (!o->dump)
        return;
    fprintf(o->dump, "%*s", 2 * f.depth + 2, "");
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != QN_NO_VALUE) {
            char shape[QN_SHAPE_TEXT];
            const qn_tensor *t = &v[node->out[i]];
            fprintf(o->dump, "%%%u %s%s =", node->out[i],
                    qn_dtype_name(t->dtype), qn_shape_text(&t->shape, shape));
            show_values(o->dump, t);
            fprintf(o->dump, i + 1 < node->n_out ? ", " : " <- ");
        }
    fprintf(o->dump, "%s(", node->op_name);
    for (uint32_t i = 0; i < node->n_in; i++) {
        qn_value_id id = node->in[i];
        if (id == QN_NO_VALUE) {
            fprintf(o->dump, "%s-", i ? ", " : "");
            continue;
        }
        const qn_value *val = &f.g->values[id];
        fprintf(o->dump, "%s%%%u", i ? ", " : "", id);
        if (val->kind == QN_VALUE_CONST) {
            char shape[QN_SHAPE_TEXT];
            fprintf(o->dump, ":const%s{",
                    qn_shape_text(&v[id].shape, shape));
            show_values(o->dump, &v[id]);
            fprintf(o->dump, " }");
        } else if (val->kind == QN_VALUE_CAPTURE) {
            fprintf(o->dump, ":outer %%%u", val->outer);
        }
    }
    fprintf(o->dump, ")");
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const qn_attr *a = &node->attrs[i];
        fprintf(o->dump, " %s=", a->name);
        if (a->kind == QN_ATTR_INT)
            fprintf(o->dump, "%lld", (long long)a->i);
        for (size_t k = 0; k < a->n && a->kind == QN_ATTR_INTS; k++)
            fprintf(o->dump, "%lld,", (long long)a->ints[k]);
    }
    fprintf(o->dump, "\n");
}

static qn_status run_if(oracle *o, frame f, const qn_node *node, qn_tensor *v)
{
    const qn_tensor *c = &v[node->in[0]];
    qn_tensor out[RG_OUTPUTS];
    if (qn_count(c) != 1)
        return qn_fail(o->err, QN_SHAPE, "condition of %d elements",
                       (int)qn_count(c));
    bool yes = *(const uint8_t *)c->data;
    const qn_attr *a =
        qn_node_attr(node, yes ? "then_branch" : "else_branch");
    if (o->dump)
        fprintf(o->dump, "%*sIf %%%u: %s {\n", 2 * f.depth + 2, "",
                node->in[0], a->name);
    qn_status st = run(o, (frame){ a->graph, v, f.depth + 1 }, NULL, out);
    for (uint32_t i = 0; st == QN_OK && i < node->n_out; i++)
        if (node->out[i] != QN_NO_VALUE)
            v[node->out[i]] = out[i];
    return st;
}

static qn_status bind(oracle *o, frame f, const qn_tensor *inputs, qn_tensor *v)
{
    for (uint32_t i = 0; i < f.g->n_values; i++) {
        const qn_value *value = &f.g->values[i];
        if (value->kind == QN_VALUE_CAPTURE)
            v[i] = f.parent[value->outer];
        if (!value->data)
            continue;
        v[i] = (qn_tensor){ value->data->dtype, value->data->shape, NULL };
        v[i].data = qn_region_alloc(o->region, value->data->bytes + 1, 1);
        if (!v[i].data)
            return QN_NO_MEMORY;
        qn_status st = qn_const_read(value->data, v[i].data, o->err);
        if (st != QN_OK)
            return st;
    }
    for (uint32_t i = 0; inputs && i < f.g->n_inputs; i++) {
        if (qn_present(&inputs[i]))
            v[f.g->inputs[i]] = inputs[i];
        if (o->dump) {
            char shape[QN_SHAPE_TEXT];
            const qn_tensor *t = &v[f.g->inputs[i]];
            fprintf(o->dump, "  input %s %%%u %s%s =",
                    f.g->values[f.g->inputs[i]].name, f.g->inputs[i],
                    qn_dtype_name(t->dtype), qn_shape_text(&t->shape, shape));
            show_values(o->dump, t);
            fprintf(o->dump, "%s\n", qn_present(&inputs[i]) ? "" : " (default)");
        }
    }
    return QN_OK;
}

static qn_status run(oracle *o, frame f, const qn_tensor *inputs, qn_tensor *out)
{
    const qn_graph *g = f.g;
    qn_tensor *v = qn_region_alloc(o->region, g->n_values + 1u, sizeof *v);
    if (!v)
        return QN_NO_MEMORY;
    qn_status st = bind(o, f, inputs, v);
    for (uint32_t i = 0; st == QN_OK && i < g->n_nodes; i++) {
        const qn_node *node = g->nodes[i];
        qn_tensor in[16], results[8];
        if (node->op->flags & QN_OP_CONTROL) {
            st = run_if(o, f, node, v);
        } else {
            for (uint32_t k = 0; k < node->n_in; k++)
                in[k] = node->in[k] == QN_NO_VALUE ? (qn_tensor){ 0 }
                                                   : v[node->in[k]];
            st = qn_eval_node(node, in, results, NULL, o->region, o->err);
            for (uint32_t k = 0; st == QN_OK && k < node->n_out; k++)
                if (node->out[k] != QN_NO_VALUE) {
                    v[node->out[k]] = results[k];
                    note(o, &results[k]);
                }
        }
        if (st == QN_OK)
            show(o, f, node, v);
    }
    for (uint32_t i = 0; st == QN_OK && i < g->n_outputs; i++) {
        out[i] = v[g->outputs[i]];
        if (o->dump)
            fprintf(o->dump, "%*soutput %u: %%%u\n", 2 * f.depth + 2, "", i,
                    g->outputs[i]);
    }
    return st;
}

qn_status rg_oracle(const qn_graph *g, const qn_tensor *inputs, qn_tensor *out,
                    qn_region *region, double *scale, FILE *dump,
                    qn_error *err)
{
    oracle o = { .region = region, .scale = 1, .dump = dump, .err = err };
    qn_status st = run(&o, (frame){ .g = g }, inputs, out);
    if (scale)
        *scale = o.scale;
    return st;
}
