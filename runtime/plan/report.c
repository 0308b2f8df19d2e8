/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/clock.h"
#include "runtime/plan/report.h"

#include <stdlib.h>

/* FNV-1a over the offsets' bytes, low byte first on any machine. */
static uint64_t hash_offsets(const size_t *offsets, size_t n)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (size_t i = 0; i < n; i++)
        for (unsigned shift = 0; shift < 64; shift += 8)
            h = (h ^ (((uint64_t)offsets[i] >> shift) & 0xff)) *
                0x100000001b3U;
    return h;
}

static bool alive(const qn_buffer *b, uint32_t time)
{
    return b->bytes && b->lower <= time && time < b->upper;
}

struct change {
    uint32_t time;
    bool birth;
    size_t bytes;
};

static int by_time(const void *pa, const void *pb)
{
    const struct change *a = pa, *b = pb;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int)a->birth - (int)b->birth;
}

/* The first moment at which most bytes live. */
static qn_status find_peak_time(const qn_plan_csv *csv, uint32_t *out,
                                qn_error *err)
{
    struct change *changes = qn_calloc(csv->n, 2 * sizeof *changes);
    size_t n = 0, live = 0, most = 0;
    *out = 0;
    if (!changes)
        return qn_fail(err, QN_NO_MEMORY, "no heap for %zu buffers", csv->n);
    for (size_t i = 0; i < csv->n; i++) {
        const qn_buffer *b = &csv->buffers[i];
        changes[n++] = (struct change){ b->lower, true, b->bytes };
        changes[n++] = (struct change){ b->upper, false, b->bytes };
    }
    qsort(changes, n, sizeof *changes, by_time);
    for (size_t i = 0; i < n; i++) {
        live = changes[i].birth ? live + changes[i].bytes
                                : live - changes[i].bytes;
        if (live > most) {
            most = live;
            *out = changes[i].time;
        }
    }
    qn_free(changes);
    return QN_OK;
}

static void find_top(const qn_plan_csv *csv, qn_layout_report *r)
{
    for (size_t i = 0; i < csv->n; i++) {
        if (!alive(&csv->buffers[i], r->peak_time))
            continue;
        size_t bytes = csv->buffers[i].bytes;
        size_t at = r->n_top < QN_PLAN_TOP ? r->n_top++ : QN_PLAN_TOP;
        while (at > 0 && csv->buffers[r->top[at - 1]].bytes < bytes) {
            if (at < QN_PLAN_TOP)
                r->top[at] = r->top[at - 1];
            at--;
        }
        if (at < QN_PLAN_TOP)
            r->top[at] = i;
    }
}

qn_status qn_layout_run(const qn_plan_csv *csv,
                        const qn_layout_options *options, size_t *offsets,
                        qn_layout_report *out, qn_error *err)
{
    *out = (qn_layout_report){ .buffers = csv->n };
    uint64_t start = qn_clock_ns();
    qn_status st = qn_layout_solve(csv->buffers, csv->n, NULL, options,
                                   offsets, &out->stats, err);
    out->ms = (double)(qn_clock_ns() - start) / 1e6;
    if (st == QN_OK)
        st = qn_layout_verify(csv->buffers, csv->n, NULL, offsets,
                              out->stats.peak, err);
    if (st == QN_OK)
        st = find_peak_time(csv, &out->peak_time, err);
    if (st != QN_OK)
        return st;
    out->ratio = out->stats.lower_bound ? (double)out->stats.peak /
                                              (double)out->stats.lower_bound
                                        : 1.0;
    out->hash = hash_offsets(offsets, csv->n);
    find_top(csv, out);
    return QN_OK;
}

/* ---- printing ---- */

static qn_status add_json_text(qn_plan_text *out, const char *s, qn_error *err)
{
    qn_status st = qn_plan_text_add(out, err, "\"");
    for (; *s && st == QN_OK; s++) {
        unsigned char c = (unsigned char)*s;
        st = c < 0x20 || c == '"' || c == '\\' || c == 0x7f
                 ? qn_plan_text_add(out, err, "\\u%04x", c)
                 : qn_plan_text_add(out, err, "%c", *s);
    }
    return st == QN_OK ? qn_plan_text_add(out, err, "\"") : st;
}

static qn_status print_json(const qn_plan_csv *csv, const qn_layout_report *r,
                            size_t capacity, qn_plan_text *out, qn_error *err)
{
    const qn_layout_stats *s = &r->stats;
    qn_status st = qn_plan_text_add(
        out, err,
        "{\"buffers\": %zu, \"lower_bound\": %zu, \"peak\": %zu, "
        "\"ratio\": %.6f, \"total\": %zu, \"method\": \"%s\", \"ms\": %.3f, "
        "\"hash\": \"%016llx\"", r->buffers, s->lower_bound, s->peak, r->ratio,
        s->total, s->winner, r->ms, (unsigned long long)r->hash);
    if (st == QN_OK && capacity)
        st = qn_plan_text_add(out, err, ", \"capacity\": %zu, \"fits\": %s",
                              capacity, s->peak <= capacity ? "true" : "false");
    if (st == QN_OK)
        st = qn_plan_text_add(out, err, ", \"peak_time\": %u, \"top\": [",
                              r->peak_time);
    for (size_t i = 0; i < r->n_top && st == QN_OK; i++) {
        st = qn_plan_text_add(out, err, "%s{\"id\": ", i ? ", " : "");
        if (st == QN_OK)
            st = add_json_text(out, csv->ids[r->top[i]], err);
        if (st == QN_OK)
            st = qn_plan_text_add(out, err, ", \"size\": %zu}",
                                  csv->buffers[r->top[i]].bytes);
    }
    return st == QN_OK ? qn_plan_text_add(out, err, "]}\n") : st;
}

/* Ids come from a file: control bytes do not reach a terminal. */
static qn_status add_plain_text(qn_plan_text *out, const char *s,
                                qn_error *err)
{
    qn_status st = QN_OK;
    for (; *s && st == QN_OK; s++) {
        unsigned char c = (unsigned char)*s;
        st = qn_plan_text_add(out, err, "%c", c < 0x20 || c == 0x7f ? '?' : *s);
    }
    return st;
}

static qn_status print_table(const qn_plan_csv *csv,
                             const qn_layout_report *r, size_t capacity,
                             qn_plan_text *out, qn_error *err)
{
    const qn_layout_stats *s = &r->stats;
    qn_status st = qn_plan_text_add(
        out, err,
        "buffers      %zu\n"
        "lower bound  %zu bytes\n"
        "peak         %zu bytes, %.4f of the bound, by %s in %.1f ms\n"
        "without reuse %zu bytes\n"
        "layout       %016llx, verified\n", r->buffers, s->lower_bound,
        s->peak, r->ratio, s->winner, r->ms, s->total,
        (unsigned long long)r->hash);
    if (st == QN_OK && capacity)
        st = qn_plan_text_add(out, err, "capacity     %zu bytes: %s\n",
                              capacity,
                              s->peak <= capacity ? "fits" : "does not fit");
    if (st == QN_OK && r->n_top)
        st = qn_plan_text_add(out, err, "largest of those alive at %u:\n",
                              r->peak_time);
    for (size_t i = 0; i < r->n_top && st == QN_OK; i++) {
        st = qn_plan_text_add(out, err, "  %12zu  ",
                              csv->buffers[r->top[i]].bytes);
        if (st == QN_OK)
            st = add_plain_text(out, csv->ids[r->top[i]], err);
        if (st == QN_OK)
            st = qn_plan_text_add(out, err, "\n");
    }
    return st;
}

qn_status qn_layout_print(const qn_plan_csv *csv,
                          const qn_layout_report *report, size_t capacity,
                          bool json, qn_plan_text *out, qn_error *err)
{
    return json ? print_json(csv, report, capacity, out, err)
                : print_table(csv, report, capacity, out, err);
}
