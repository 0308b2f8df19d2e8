/* SPDX-License-Identifier: Apache-2.0 */
/* quern inspect: what a model is, whether Quern can run it, what it takes. */
#include "models/survey.h"
#include "server/cli/commands.h"
#include "server/cli/inspect_devices.h"
#include "server/cli/loaded.h"
#include "server/cli/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct inspection {
    qn_survey survey;
    qn_loaded loaded;
    qn_static_report memory;
    qn_plan *plan;
    qn_plan_report report;
    qn_ledger_state ledger;
    qn_error error; /* why there is no session or plan; "" text if there is */
} inspection;

static qn_status make_plan(inspection *in, const qn_options *o)
{
    const qn_io *io;
    const char *const *shapes;
    size_t n_shapes = qn_opt_list(o, "shape", &shapes);
    uint32_t n = qn_session_inputs(in->loaded.session, &io);
    qn_tensor_file *made = qn_calloc(n + 1u, sizeof *made);
    qn_tensor *tensors = qn_calloc(n + 1u, sizeof *tensors);
    qn_status st = made && tensors ? QN_OK
                                   : qn_fail(&in->error, QN_NO_MEMORY,
                                             "out of memory");
    if (st == QN_OK)
        st = qn_loaded_make(&in->loaded, shapes, n_shapes, NULL, 0, made,
                            &in->error);
    for (uint32_t i = 0; i < n && st == QN_OK; i++)
        tensors[i] = made[i].tensor;
    if (st == QN_OK)
        st = qn_session_plan(in->loaded.session, tensors, &in->plan,
                             &in->error);
    if (st == QN_OK)
        qn_plan_read(in->plan, &in->report);
    for (uint32_t i = 0; i < n && made; i++)
        qn_tensor_file_release(&made[i]);
    qn_free(made);
    qn_free(tensors);
    return st;
}

static void look(inspection *in, const qn_options *o)
{
    qn_load_options load = qn_load_options_read(o);
    load.session.no_reuse = qn_opt_bool(o, "no-reuse");
    qn_status st = qn_loaded_open(&in->loaded, o->args, (uint32_t)o->n_args,
                                  &load, &in->error);
    if (in->loaded.runtime)
        qn_ledger_read(qn_runtime_ledger(in->loaded.runtime), &in->ledger);
    if (st != QN_OK)
        return;
    qn_session_static(in->loaded.session, &in->memory);
    make_plan(in, o);
}

static bool planned(const inspection *in)
{
    return in->plan != NULL;
}

/* What one request leases. */
static size_t request_bytes(const inspection *in)
{
    return in->report.lease_bytes;
}

static size_t fit(const inspection *in)
{
    size_t one = request_bytes(in);
    size_t left = in->ledger.budget - in->memory.bytes;
    return one ? left / one : 0;
}

/* ---- for people ---- */

static void print_operators(const inspection *in)
{
    static const char *const columns[] = { "operator", ">opset", ">nodes",
                                           "" };
    qn_table t;
    qn_table_init(&t, columns, 4);
    for (size_t i = 0; i < in->survey.n; i++) {
        const qn_survey_row *r = &in->survey.rows[i];
        qn_table_cell(&t, "%s%s%s", r->domain, *r->domain ? "." : "", r->op);
        qn_table_cell(&t, "%d", r->opset);
        qn_table_cell(&t, "%zu", r->count);
        qn_table_cell(&t, "%s", r->supported ? "" : "not supported");
    }
    qn_table_print(&t, stdout);
    qn_table_release(&t);
}

static void print_ios(const char *what, const qn_io *io, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        printf("%-8s %s  %s [", i ? "" : what, io[i].name,
               qn_dtype_name(io[i].type.dtype));
        for (int d = 0; d < io[i].rank; d++) {
            if (io[i].dims[d].value >= 0)
                printf("%s%lld", d ? ", " : "", (long long)io[i].dims[d].value);
            else
                printf("%s%s", d ? ", " : "",
                       io[i].dims[d].symbol ? io[i].dims[d].symbol : "?");
        }
        printf("%s]%s%s\n", io[i].rank < 0 ? "any rank" : "",
               io[i].optional ? " optional" : "",
               io[i].value_in_key ? " (shapes depend on its value)" : "");
    }
}

static int larger_first(const void *a, const void *b)
{
    const qn_plan_value *x = *(const qn_plan_value *const *)a;
    const qn_plan_value *y = *(const qn_plan_value *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void print_values(const inspection *in, size_t rows)
{
    static const char *const columns[] = { "value", "type", "shape", ">bytes",
                                           ">offset", ">first", ">last" };
    const qn_plan_report *r = &in->report;
    const qn_plan_value **sorted = qn_calloc(r->n_values + 1u, sizeof *sorted);
    qn_table t;
    if (!sorted)
        return;
    for (uint32_t i = 0; i < r->n_values; i++)
        sorted[i] = &r->values[i];
    qsort(sorted, r->n_values, sizeof *sorted, larger_first);
    qn_table_init(&t, columns, 7);
    for (uint32_t i = 0; i < r->n_values && i < rows; i++) {
        const qn_plan_value *v = sorted[i];
        char shape[QN_SHAPE_TEXT];
        qn_table_cell(&t, "%.60s%s", v->name ? v->name : "",
                      v->workspace ? " (workspace)" : "");
        qn_table_cell(&t, "%s", v->workspace ? "" : qn_dtype_name(v->dtype));
        qn_table_cell(&t, "%s%s",
                      v->workspace ? "" : qn_shape_text(&v->shape, shape),
                      v->dynamic ? " at most" : "");
        qn_table_cell(&t, "%zu", v->bytes);
        qn_table_cell(&t, "%zu", v->offset);
        qn_table_cell(&t, "%u", v->first);
        qn_table_cell(&t, "%u", v->last);
    }
    if (rows && r->n_values) {
        printf("\n");
        qn_table_print(&t, stdout);
        if (r->n_values > rows)
            printf("(%u more; --values)\n", r->n_values - (uint32_t)rows);
    }
    qn_table_release(&t);
    qn_free(sorted);
}

/* Where each rank's tensors of a collective lie, with the guards around. */
static void print_blocks(const inspection *in)
{
    static const char *const columns[] = { "collective", ">launch", ">rank", "",
                                           ">bytes", ">offset", ">guard" };
    const qn_plan_report *r = &in->report;
    qn_table t;
    if (!r->n_collectives)
        return;
    qn_table_init(&t, columns, 7);
    for (uint32_t i = 0; i < r->n_collectives; i++)
        for (uint32_t k = 0; k < r->collectives[i].n_blocks; k++) {
            const qn_plan_collective *c = &r->collectives[i];
            const qn_plan_block *b = &c->blocks[k];
            qn_table_cell(&t, "%s %.60s", k ? "" : c->kind, k ? "" : c->name);
            qn_table_cell(&t, "%u", c->launch);
            qn_table_cell(&t, "%u", b->rank);
            qn_table_cell(&t, "%s", b->output ? "out" : "in");
            qn_table_cell(&t, "%zu", b->bytes);
            qn_table_cell(&t, "%zu", b->offset);
            qn_table_cell(&t, "%zu", b->guard);
        }
    printf("\n");
    qn_table_print(&t, stdout);
    qn_table_release(&t);
}

static void print_fusion(const qn_plan_report *r)
{
    const qn_plan_fused *f = &r->fused;
    if (!f->saved)
        return;
    printf("fusion   %u launches instead of %u: %u activations and %u sums with "
           "the kernel before\n", r->launches, r->launches + f->saved,
           f->activations, f->sums);
    if (f->chains || f->attention)
        printf("         %u chains of %u operators, %u attentions\n", f->chains,
               f->chain_steps, f->attention);
}

static void print_memory(const inspection *in, size_t rows)
{
    const qn_plan_report *r = &in->report;
    char a[QN_BYTES_TEXT], b[QN_BYTES_TEXT], c[QN_BYTES_TEXT];
    printf("\nstatic   %s (packed %s, plain %s); %u kernels, %u folded, "
           "%u normalisations folded in\n",
           qn_bytes_text(in->memory.bytes, a), qn_bytes_text(in->memory.packed, b),
           qn_bytes_text(in->memory.plain, c), in->memory.kernels,
           in->memory.folded_nodes, in->memory.fused_nodes);
    printf("arena    %s, lower bound %s, without reuse %s\n",
           qn_bytes_text(r->arena_bytes, a), qn_bytes_text(r->lower_bound, b),
           qn_bytes_text(r->no_reuse_bytes, c));
    if (r->lower_bound)
        printf("         %.4f of the lower bound (%s, %.1f ms), peak at launch "
               "%u of %u: %s\n",
               (double)r->arena_bytes / (double)r->lower_bound,
               r->solver ? r->solver : "?", r->build_ms, r->peak_launch,
               r->launches, r->peak_node ? r->peak_node : "?");
    print_fusion(r);
    printf("request  %s in whole pages: arena, inputs %s, outputs %s",
           qn_bytes_text(request_bytes(in), a), qn_bytes_text(r->input_bytes, b),
           qn_bytes_text(r->output_bytes, c));
    printf(", side %s\n", qn_bytes_text(r->side_bytes, a));
    printf("fits     yes, %zu at once in a budget of %s\n", fit(in),
           qn_bytes_text(in->ledger.budget, a));
    qn_inspect_devices_print(&in->loaded, r);
    print_values(in, rows);
    print_blocks(in);
}

static void print_text(const inspection *in, const qn_options *o)
{
    const qn_io *io;
    char a[QN_BYTES_TEXT];
    for (int i = 0; i < o->n_args; i++)
        printf("%-8s %s\n", i ? "" : "model", o->args[i]);
    if (in->loaded.opset)
        printf("format   IR %lld, opset %lld, %s\n",
               (long long)in->loaded.ir_version, (long long)in->loaded.opset,
               qn_bytes_text(in->loaded.file_bytes, a));
    if (in->loaded.session) {
        uint32_t n = qn_session_inputs(in->loaded.session, &io);
        print_ios("inputs", io, n);
        n = qn_session_outputs(in->loaded.session, &io);
        print_ios("outputs", io, n);
    }
    printf("\n");
    print_operators(in);
    printf("%zu nodes, %zu operators, %zu not supported\n", in->survey.nodes,
           in->survey.n, in->survey.unsupported);
    if (planned(in))
        print_memory(in, (size_t)qn_opt_int(o, "values"));
}

/* ---- for programs ---- */

static json_t *operators_json(const inspection *in, bool unsupported)
{
    json_t *list = json_array();
    for (size_t i = 0; i < in->survey.n; i++) {
        const qn_survey_row *r = &in->survey.rows[i];
        if (unsupported && r->supported)
            continue;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:i, s:I, s:b}", "name", r->op,
                            "domain", r->domain, "opset", r->opset, "nodes",
                            (json_int_t)r->count, "supported", r->supported));
    }
    return list;
}

static json_t *values_json(const qn_plan_report *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n_values; i++) {
        const qn_plan_value *v = &r->values[i];
        json_t *name = json_string(v->name ? v->name : "");
        json_array_append_new(
            list,
            json_pack("{s:o, s:I, s:I, s:i, s:i, s:b, s:b}", "name",
                      name ? name : json_string("?"), "offset",
                      (json_int_t)v->offset, "bytes", (json_int_t)v->bytes,
                      "first", (int)v->first, "last", (int)v->last, "dynamic",
                      v->dynamic, "workspace", v->workspace));
    }
    return list;
}

static json_t *blocks_json(const qn_plan_collective *c)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < c->n_blocks; k++) {
        const qn_plan_block *b = &c->blocks[k];
        json_array_append_new(
            list, json_pack("{s:i, s:b, s:i, s:I, s:I, s:I}", "rank",
                            (int)b->rank, "output", b->output, "space",
                            (int)b->space, "offset", (json_int_t)b->offset,
                            "bytes", (json_int_t)b->bytes, "guard",
                            (json_int_t)b->guard));
    }
    return list;
}

static json_t *collectives_json(const qn_plan_report *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n_collectives; i++) {
        const qn_plan_collective *c = &r->collectives[i];
        json_t *name = json_string(c->name);
        json_array_append_new(
            list, json_pack("{s:o, s:s, s:i, s:i, s:o}", "name",
                            name ? name : json_string("?"), "kind", c->kind,
                            "ranks", (int)c->ranks, "launch", (int)c->launch,
                            "blocks", blocks_json(c)));
    }
    return list;
}

static json_t *fusion_json(const qn_plan_fused *f)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "activations",
                     (int)f->activations, "sums", (int)f->sums, "chains",
                     (int)f->chains, "chain_operators", (int)f->chain_steps,
                     "attention", (int)f->attention, "launches_saved",
                     (int)f->saved);
}

static void print_json(const inspection *in, const qn_options *o)
{
    json_t *root = json_pack(
        "{s:s, s:I, s:I, s:I, s:o, s:o, s:I}", "model", o->args[0], "ir_version",
        (json_int_t)in->loaded.ir_version, "opset",
        (json_int_t)in->loaded.opset, "file_bytes",
        (json_int_t)in->loaded.file_bytes, "operators",
        operators_json(in, false), "unsupported", operators_json(in, true),
        "nodes", (json_int_t)in->survey.nodes);
    if (in->loaded.session)
        json_object_update_new(
            root, json_pack("{s:I, s:i, s:i, s:i}", "static_bytes",
                            (json_int_t)in->memory.bytes, "kernels",
                            (int)in->memory.kernels, "folded",
                            (int)in->memory.folded_nodes, "fused",
                            (int)in->memory.fused_nodes));
    if (planned(in)) {
        const qn_plan_report *r = &in->report;
        json_object_update_new(
            root,
            json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s, s:I, "
                      "s:I, s:o, s:o, s:o}",
                      "arena_bytes", (json_int_t)r->arena_bytes, "lower_bound",
                      (json_int_t)r->lower_bound, "no_reuse_bytes",
                      (json_int_t)r->no_reuse_bytes, "input_bytes",
                      (json_int_t)r->input_bytes, "output_bytes",
                      (json_int_t)r->output_bytes, "side_bytes",
                      (json_int_t)r->side_bytes, "launches",
                      (json_int_t)r->launches, "plan_ms", r->build_ms,
                      "peak_node", r->peak_node ? r->peak_node : "", "solver",
                      r->solver ? r->solver : "", "budget_bytes",
                      (json_int_t)in->ledger.budget, "fits",
                      (json_int_t)fit(in), "values", values_json(r),
                      "collectives", collectives_json(r), "fusion",
                      fusion_json(&r->fused)));
        qn_inspect_devices_json(&in->loaded, r, root);
    } else {
        json_object_set_new(root, "error", json_string(in->error.text));
    }
    qn_print_json(root);
}

/* Buffers of the plan in the planner's CSV format, with their offsets: of the
 * first accelerator if there is one. */
static qn_status write_layout(const inspection *in, const char *path,
                              qn_error *err)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return qn_fail(err, QN_IO, "%s: %s", path, strerror(errno));
    fprintf(f, "id,lower,upper,size,offset\n");
    for (uint32_t i = 0; i < in->report.n_values; i++) {
        const qn_plan_value *v = &in->report.values[i];
        if (v->space != (in->report.n_spaces > 1))
            continue;
        fprintf(f, "%u,%u,%u,%zu,%zu\n", i, v->first, v->last + 1, v->bytes,
                v->offset);
    }
    if (fclose(f))
        return qn_fail(err, QN_IO, "%s: %s", path, strerror(errno));
    return QN_OK;
}

int qn_cmd_inspect(const qn_options *options)
{
    inspection in;
    qn_error err = { 0 };
    const char *layout = qn_opt_text(options, "layout");
    memset(&in, 0, sizeof in);
    qn_status st = QN_OK;
    for (int i = 0; st == QN_OK && i < options->n_args; i++)
        st = qn_model_survey(options->args[i], &in.survey, &err);
    if (st == QN_OK) {
        look(&in, options);
        if (qn_opt_bool(options, "json"))
            print_json(&in, options);
        else
            print_text(&in, options);
        if (planned(&in) && layout)
            st = write_layout(&in, layout, &err);
        else if (!planned(&in) && !qn_opt_bool(options, "json"))
            printf("\n");
        if (!planned(&in)) {
            st = in.error.status;
            err = in.error;
        }
    }
    if (in.plan)
        qn_plan_release(in.plan);
    qn_loaded_close(&in.loaded);
    qn_survey_release(&in.survey);
    return st == QN_OK ? 0 : qn_complain(&err);
}
