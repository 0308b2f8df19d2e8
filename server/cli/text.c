/* SPDX-License-Identifier: Apache-2.0 */
#include "server/cli/text.h"

#include "runtime/base/alloc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *qn_bytes_text(size_t bytes, char buf[QN_BYTES_TEXT])
{
    static const char *const units[] = { "B", "KB", "MB", "GB", "TB" };
    double v = (double)bytes;
    size_t u = 0;
    while (v >= 999.5 && u + 1 < sizeof units / sizeof units[0]) {
        v /= 1000;
        u++;
    }
    int digits = u == 0 || v >= 100 ? 0 : v >= 10 ? 1 : 2;
    snprintf(buf, QN_BYTES_TEXT, "%.*f %s", digits, v, units[u]);
    return buf;
}

void qn_table_init(qn_table *table, const char *const *columns, size_t n)
{
    *table = (qn_table){ .columns = columns, .n_columns = n };
}

void qn_table_cell(qn_table *table, const char *fmt, ...)
{
    va_list args;
    char text[512];
    if (table->n_cells == table->cap_cells) {
        size_t cap = table->cap_cells ? table->cap_cells * 2 : 64;
        char **grown = qn_realloc(table->cells, cap, sizeof *grown);
        if (!grown)
            return;
        table->cells = grown;
        table->cap_cells = cap;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    table->cells[table->n_cells] = qn_strdup(text);
    if (table->cells[table->n_cells])
        table->n_cells++;
}

static void print_cell(const qn_table *t, size_t column, const char *text,
                       int width, FILE *to)
{
    bool last = column + 1 == t->n_columns;
    if (t->columns[column][0] == '>')
        fprintf(to, "%*s", width, text);
    else if (last)
        fprintf(to, "%s", text);
    else
        fprintf(to, "%-*s", width, text);
    fputs(last ? "\n" : "  ", to);
}

void qn_table_print(const qn_table *table, FILE *to)
{
    int width[16] = { 0 };
    size_t n = table->n_columns;
    for (size_t c = 0; c < n; c++)
        width[c] = (int)strlen(table->columns[c] +
                               (table->columns[c][0] == '>'));
    for (size_t i = 0; i < table->n_cells; i++) {
        int len = (int)strlen(table->cells[i]);
        if (len > width[i % n])
            width[i % n] = len;
    }
    for (size_t c = 0; c < n; c++)
        print_cell(table, c,
                   table->columns[c] + (table->columns[c][0] == '>'), width[c],
                   to);
    for (size_t i = 0; i < table->n_cells; i++)
        print_cell(table, i % n, table->cells[i], width[i % n], to);
}

void qn_table_release(qn_table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        qn_free(table->cells[i]);
    qn_free(table->cells);
    *table = (qn_table){ 0 };
}

void qn_progress_init(qn_progress *progress, const char *unit)
{
    *progress = (qn_progress){ .on = isatty(STDERR_FILENO) };
    snprintf(progress->unit, sizeof progress->unit, "%s", unit);
}

void qn_progress_show(qn_progress *progress, size_t done, size_t total,
                      const char *what)
{
    uint64_t now = progress->on ? qn_clock_ns() : 0;
    if (!progress->on || now - progress->last_ns < 100000000u)
        return;
    progress->last_ns = now;
    if (total)
        fprintf(stderr, "\r\033[K%zu/%zu %s  %.60s", done, total,
                progress->unit, what ? what : "");
    else
        fprintf(stderr, "\r\033[K%zu %s  %.60s", done, progress->unit,
                what ? what : "");
    fflush(stderr);
}

void qn_progress_end(qn_progress *progress)
{
    if (progress->on && progress->last_ns)
        fputs("\r\033[K", stderr);
}

int qn_complain(const qn_error *err)
{
    fprintf(stderr, "quern: %s\n", err->text);
    return err->status == QN_INVALID ? 2 : 1;
}

void qn_print_json(json_t *root)
{
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', stdout);
    json_decref(root);
}

qn_status qn_parse_shape(const char *text, qn_shape *out, qn_error *err)
{
    qn_shape s = { 0 };
    const char *p = text;
    if (!strcmp(text, "scalar"))
        p = "";
    while (*p) {
        char *end;
        if (*p < '0' || *p > '9' || s.rank == QN_MAX_RANK)
            return qn_fail(err, QN_INVALID,
                           "'%s' is not a shape such as 1x3x224x224", text);
        s.dims[s.rank++] = strtoll(p, &end, 10);
        p = end;
        if (*p && (!strchr("x,", *p) || !p[1]))
            return qn_fail(err, QN_INVALID,
                           "'%s' is not a shape such as 1x3x224x224", text);
        p += *p != 0;
    }
    *out = s;
    return QN_OK;
}
