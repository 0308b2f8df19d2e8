/* SPDX-License-Identifier: Apache-2.0 */
/* quern op: one operator, from the command line. */
#include "server/cli/commands.h"
#include "server/cli/loaded.h"
#include "server/cli/preview.h"
#include "server/cli/text.h"

#include "runtime/base/alloc.h"
#include "runtime/exec/eval.h"
#include "runtime/ops/tables.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 32, MADE_STRINGS = 1 << 20 };

/* "1", "2.5", "1,2,3", "0.5,1", or text. */
static qn_status parse_attr(const char *spec, qn_region *region, qn_attr *out,
                            qn_error *err)
{
    const char *equals = strchr(spec, '=');
    if (!equals || equals == spec || !equals[1])
        return qn_fail(err, QN_INVALID, "--attr '%s': expected name=value",
                       spec);
    const char *value = equals + 1;
    size_t len = strlen(value), n = 1;
    bool number = strspn(value, "0123456789+-.,eE") == len &&
                  strpbrk(value, "0123456789");
    bool whole = number && !strpbrk(value, ".eE");
    for (const char *p = value; *p; p++)
        n += *p == ',';
    *out = (qn_attr){
        .name = qn_region_strndup(region, spec, (size_t)(equals - spec)),
        .kind = QN_ATTR_STRING,
        .s = { qn_region_strndup(region, value, len), len }
    };
    int64_t *ints = qn_region_alloc(region, n, sizeof *ints);
    float *floats = qn_region_alloc(region, n, sizeof *floats);
    if (!out->name || !out->s.s || !ints || !floats)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    if (!number)
        return QN_OK;
    const char *p = value;
    for (size_t i = 0; i < n; i++) {
        char *end;
        floats[i] = strtof(p, &end);
        ints[i] = whole ? strtoll(p, &end, 10) : 0;
        if (end == p || (*end && *end != ','))
            return qn_fail(err, QN_INVALID, "--attr '%s': bad number", spec);
        p = end + (*end == ',');
    }
    out->i = ints[0];
    out->f = floats[0];
    out->n = n;
    out->ints = ints;
    out->floats = floats;
    if (n == 1)
        out->kind = whole ? QN_ATTR_INT : QN_ATTR_FLOAT;
    else
        out->kind = whole ? QN_ATTR_INTS : QN_ATTR_FLOATS;
    return QN_OK;
}

/* A trailing comma makes a list of one: drop the empty last item. */
static void trim_list(qn_attr *a, const char *spec)
{
    size_t len = strlen(spec);
    if (a->kind != QN_ATTR_STRING && spec[len - 1] == ',')
        a->n--;
}

static qn_status parse_attrs(const qn_options *o, qn_region *region,
                             qn_attr *attrs, uint32_t *n, qn_error *err)
{
    const char *const *specs;
    size_t count = qn_opt_list(o, "attr", &specs);
    if (count > MAX_ARGS)
        return qn_fail(err, QN_INVALID, "more than %d attributes", MAX_ARGS);
    for (size_t i = 0; i < count; i++) {
        qn_status st = parse_attr(specs[i], region, &attrs[i], err);
        if (st != QN_OK)
            return st;
        trim_list(&attrs[i], specs[i]);
    }
    *n = (uint32_t)count;
    return QN_OK;
}

static qn_status evaluate(qn_node *node, const qn_tensor *in, qn_tensor *out,
                          qn_strings *strings, qn_region *region, qn_error *err)
{
    bool known;
    node->op = qn_op_find("", node->op_name, node->opset, &known);
    if (!node->op)
        return qn_fail(err, known ? QN_UNSUPPORTED : QN_NOT_FOUND,
                       known ? "operator %s has no version for opset %d"
                             : "no operator %s (opset %d)",
                       node->op_name, node->opset);
    if (node->n_in < node->op->min_in ||
        (node->op->max_in != QN_VARIADIC && node->n_in > node->op->max_in))
        return qn_fail(err, QN_INVALID, "%s takes %u to %u inputs, got %u",
                       node->op_name, node->op->min_in, node->op->max_in,
                       node->n_in);
    for (uint32_t i = 0; i < node->n_in; i++) {
        uint32_t k = i < QN_OP_TYPED ? i : QN_OP_TYPED - 1;
        while (k && !node->op->types[k])
            k--;
        if (node->op->types[k] &&
            !qn_dtypes_has(node->op->types[k], in[i].dtype))
            return qn_fail(err, QN_TYPE, "%s: input %u cannot be %s",
                           node->op_name, i, qn_dtype_name(in[i].dtype));
    }
    qn_status st = node->op->check ? node->op->check(node, err) : QN_OK;
    return st == QN_OK ? qn_eval_node(node, in, out, strings, region, err) : st;
}

/* One heap for the strings of all inputs, whose elements count from its start,
 * and room for those that the operator makes. */
static qn_status gather_strings(qn_tensor_file *files, size_t n,
                                qn_region *region, qn_strings *out,
                                qn_error *err)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        total += files[i].string_bytes;
    out->limit = total + MADE_STRINGS;
    out->base[QN_STRINGS_STATIC] = qn_region_alloc(region, total + 1, 1);
    out->base[QN_STRINGS_REQUEST] = qn_region_alloc(region, out->limit, 1);
    if (!out->base[QN_STRINGS_STATIC] || !out->base[QN_STRINGS_REQUEST])
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n; i++) {
        qn_string *s = files[i].tensor.data;
        if (files[i].tensor.dtype != QN_STRING || !files[i].string_bytes)
            continue;
        memcpy(out->base[QN_STRINGS_STATIC] + at, files[i].strings,
               files[i].string_bytes);
        for (int64_t k = 0; k < qn_count(&files[i].tensor); k++)
            s[k].where += at;
        at += files[i].string_bytes;
    }
    return QN_OK;
}

static void print_outputs(const qn_node *node, const qn_tensor *out,
                          const qn_strings *strings)
{
    for (uint32_t i = 0; i < node->n_out; i++) {
        char shape[QN_SHAPE_TEXT], values[400];
        if (!qn_present(&out[i]))
            continue;
        printf("%s %s  %s\n", qn_dtype_name(out[i].dtype),
               qn_shape_text(&out[i].shape, shape),
               qn_preview(&out[i], strings, values, sizeof values));
    }
}

/* ---- --list ---- */

static const qn_op_table *const families[] = {
#define FAMILY(name) &qn_ops_##name,
    QN_OP_FAMILIES(FAMILY)
#undef FAMILY
};

static int by_name(const void *a, const void *b)
{
    const qn_op *x = *(const qn_op *const *)a, *y = *(const qn_op *const *)b;
    int order = strcmp(x->domain, y->domain);
    if (!order)
        order = strcmp(x->name, y->name);
    return order ? order : x->since - y->since;
}

/* One line an operator: its name, then the opsets that its versions begin at.
 * Operators of the ONNX domain; those of passes are nobody's to name. */
static qn_status print_list(qn_error *err)
{
    size_t n = 0, all = 0;
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        all += families[f]->n;
    const qn_op **rows = qn_calloc(all, sizeof *rows);
    if (!rows)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    for (size_t f = 0; f < sizeof families / sizeof families[0]; f++)
        for (size_t i = 0; i < families[f]->n; i++)
            if (!*families[f]->rows[i].domain)
                rows[n++] = &families[f]->rows[i];
    qsort(rows, n, sizeof *rows, by_name);
    for (size_t i = 0; i < n; i++) {
        bool first = !i || strcmp(rows[i]->name, rows[i - 1]->name);
        if (first)
            printf("%s%s", i ? "\n" : "", rows[i]->name);
        if (first || rows[i]->since != rows[i - 1]->since)
            printf(" %u", rows[i]->since);
    }
    printf("\n");
    qn_free(rows);
    return QN_OK;
}

int qn_cmd_op(const qn_options *options)
{
    qn_error err = { 0 };
    qn_region region = { 0 };
    qn_attr attrs[MAX_ARGS];
    qn_tensor_file files[MAX_ARGS] = { 0 };
    qn_tensor in[MAX_ARGS] = { 0 }, out[MAX_ARGS] = { 0 };
    qn_value_id ids[MAX_ARGS] = { 0 };
    qn_strings strings = { 0 };
    const char *const *specs;
    size_t n = qn_opt_list(options, "input", &specs), n_read = 0;
    if (qn_opt_bool(options, "list") || !options->n_args) {
        qn_status listed = qn_opt_bool(options, "list")
                               ? print_list(&err)
                               : qn_fail(&err, QN_INVALID,
                                         "which operator? quern op --list");
        return listed == QN_OK ? 0 : qn_complain(&err);
    }
    qn_node node = { .name = "op", .domain = "", .op_name = options->args[0],
                     .opset = (int)qn_opt_int(options, "opset"),
                     .n_out = (uint32_t)qn_opt_int(options, "outputs"),
                     .in = ids, .out = ids, .attrs = attrs };
    qn_status st = n > MAX_ARGS
                       ? qn_fail(&err, QN_INVALID, "more than %d inputs",
                                 MAX_ARGS)
                       : qn_tensor_files_read(specs, n, files, &n_read, &err);
    if (st == QN_OK)
        st = parse_attrs(options, &region, attrs, &node.n_attrs, &err);
    if (st == QN_OK)
        st = gather_strings(files, n_read, &region, &strings, &err);
    for (size_t i = 0; i < n_read; i++)
        in[i] = files[i].tensor;
    node.n_in = (uint32_t)n_read;
    if (st == QN_OK)
        st = evaluate(&node, in, out, &strings, &region, &err);
    const char *path = qn_opt_text(options, "output");
    if (st == QN_OK && path)
        st = qn_tensor_npy_write(path, &out[0], &err);
    if (st == QN_OK)
        print_outputs(&node, out, &strings);
    for (size_t i = 0; i < n_read; i++)
        qn_tensor_file_release(&files[i]);
    qn_region_release(&region);
    return st == QN_OK ? 0 : qn_complain(&err);
}
