/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

qn_status load(loaded *l, pb *model)
{
    memset(l, 0, sizeof *l);
    l->model = *model;
    return qn_model_parse(model->data, model->n, &l->file, &l->graph, &l->err);
}

void unload(loaded *l)
{
    qn_graph_free(l->graph);
    qn_model_close(l->file);
    pb_free(&l->model);
}

void must_load(loaded *l, pb *model)
{
    if (load(l, model) != QN_OK)
        fail_msg("not loaded: %s", l->err.text);
}

void must_refuse(pb *model, qn_status want, const char *says)
{
    loaded l;
    qn_status st = load(&l, model);
    if (st != want || !strstr(l.err.text, says))
        fail_msg("status %s \"%s\", expected %s \"%s\"", qn_status_name(st),
                 l.err.text, qn_status_name(want), says);
    assert_null(l.graph);
    assert_null(l.file);
    unload(&l);
}

const qn_value *find_value(const qn_graph *g, const char *name)
{
    for (uint32_t i = 0; i < g->n_values; i++)
        if (!strcmp(g->values[i].name, name))
            return &g->values[i];
    fail_msg("no value '%s'", name);
    return NULL;
}

/* y = Identity(x), float [N, 2]. */
pb identity_graph(void)
{
    pb g = { 0 };
    pb_text(&g, PB_GRAPH_NAME, "g");
    pb_add_input(&g, "x", F32, "N,2");
    pb_add_output(&g, "y", F32, "N,2");
    pb_add_node(&g, "Identity", "id", "x", "y");
    return g;
}
