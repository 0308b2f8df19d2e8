/* SPDX-License-Identifier: Apache-2.0 */
/* quern plan: the memory planner alone, on a file of buffers. */
#include "runtime/plan/report.h"
#include "server/cli/commands.h"
#include "server/cli/text.h"

#include <errno.h>
#include <string.h>

enum { MAX_FILE = 1 << 30 };

static qn_status read_file(const char *path, qn_region *region, char **text,
                           size_t *len, qn_error *err)
{
    FILE *f = fopen(path, "rb");
    long size = -1;
    *text = NULL;
    if (f && !fseek(f, 0, SEEK_END))
        size = ftell(f);
    if (size >= 0 && size < MAX_FILE && !fseek(f, 0, SEEK_SET))
        *text = qn_region_alloc(region, (size_t)size + 1, 1);
    *len = *text ? fread(*text, 1, (size_t)size, f) : 0;
    bool whole = *text && *len == (size_t)size;
    int cause = errno;
    if (f)
        fclose(f);
    return whole ? QN_OK
                 : qn_fail(err, QN_IO, "cannot read %s: %s", path,
                           strerror(cause));
}

static qn_status write_file(const char *path, const qn_plan_text *text,
                            qn_error *err)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(text->data, 1, text->len, f) == text->len;
    if (f && fclose(f))
        ok = false;
    return ok ? QN_OK
              : qn_fail(err, QN_IO, "cannot write %s: %s", path,
                        strerror(errno));
}

static qn_status plan(const qn_options *o, qn_region *region,
                      qn_layout_report *report, qn_error *err)
{
    char *text;
    size_t len;
    qn_plan_csv csv = { 0 };
    qn_plan_text out = { 0 }, table = { 0 };
    const char *path = qn_opt_text(o, "output");
    int64_t steps = qn_opt_int(o, "steps");
    qn_status st = read_file(o->args[0], region, &text, &len, err);
    if (st == QN_OK)
        st = qn_plan_csv_read(text, len, region, &csv, err);
    if (st != QN_OK) {
        qn_error_prefix(err, "%s", o->args[0]);
        return st;
    }
    size_t *offsets = qn_region_alloc(region, csv.n + 1, sizeof *offsets);
    if (!offsets)
        return qn_fail(err, QN_NO_MEMORY, "out of memory");
    qn_layout_options options = { .no_reuse = qn_opt_bool(o, "no-reuse"),
                                  .search_steps = steps ? (uint64_t)steps
                                                        : QN_PLAN_STEPS };
    st = qn_layout_run(&csv, &options, offsets, report, err);
    if (st == QN_OK)
        st = qn_layout_print(&csv, report, qn_opt_size(o, "capacity"),
                             qn_opt_bool(o, "json"), &table, err);
    if (st == QN_OK)
        fwrite(table.data, 1, table.len, stdout);
    if (st == QN_OK && path)
        st = qn_plan_csv_write(&csv, offsets, &out, err);
    if (st == QN_OK && path)
        st = write_file(path, &out, err);
    qn_free(out.data);
    qn_free(table.data);
    return st;
}

int qn_cmd_plan(const qn_options *options)
{
    qn_error err = { 0 };
    qn_region region = { 0 };
    qn_layout_report report = { 0 };
    size_t capacity = qn_opt_size(options, "capacity");
    qn_status st = plan(options, &region, &report, &err);
    qn_region_release(&region);
    if (st != QN_OK)
        return qn_complain(&err);
    return capacity && report.stats.peak > capacity ? 1 : 0;
}
