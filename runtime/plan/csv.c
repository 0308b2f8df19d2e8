/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plan/csv.h"

#include "runtime/base/checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef enum column {
    COL_ID,
    COL_LOWER,
    COL_UPPER,
    COL_SIZE,
    COL_ALIGN,
    COL_OFFSET,
    COL_GROUP,
    COL_GROUP_POS,
    COL_COUNT
} column;

static const char *const column_names[COL_COUNT] = {
    "id", "lower", "upper", "size", "align", "offset", "group", "group_pos"
};

enum { REQUIRED = COL_SIZE + 1 };

/* A cursor; line and column are of `at`. */
struct reader {
    const char *at, *end;
    const char *line_start;
    size_t line;
};

struct cell {
    const char *text;
    size_t len;
    bool last; /* of its line */
};

static qn_status fail_at(const struct reader *r, const char *where,
                         qn_status status, qn_error *err, const char *fmt, ...)
    QN_PRINTF(5, 6);

static qn_status fail_at(const struct reader *r, const char *where,
                         qn_status status, qn_error *err, const char *fmt, ...)
{
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    return qn_fail(err, status, "line %zu, column %zu: %s", r->line,
                   (size_t)(where - r->line_start) + 1, what);
}

/* Text of others in a message: short, and printable. */
static const char *shown(const struct cell *c, char buf[40])
{
    size_t n = c->len < 32 ? c->len : 32;
    for (size_t i = 0; i < n; i++) {
        char ch = c->text[i];
        buf[i] = ch >= 0x20 && ch < 0x7f ? ch : '?';
    }
    memcpy(buf + n, c->len > n ? "..." : "", c->len > n ? 4 : 1);
    return buf;
}

/* To the start of the next line that is not empty; false at the end. */
static bool skip_empty(struct reader *r)
{
    while (r->at < r->end && (*r->at == '\n' || *r->at == '\r')) {
        if (*r->at++ == '\n') {
            r->line++;
            r->line_start = r->at;
        }
    }
    return r->at < r->end;
}

static qn_status next_cell(struct reader *r, struct cell *out, qn_error *err)
{
    const char *from = r->at, *p = from;
    while (p < r->end && *p != ',' && *p != '\n') {
        if (*p == '"' || *p == '\0')
            return fail_at(r, p, QN_FORMAT, err,
                           "a quote or zero byte, cells are plain text");
        p++;
    }
    out->last = p == r->end || *p == '\n';
    r->at = p < r->end && *p == ',' ? p + 1 : p;
    if (out->last && p > from && p[-1] == '\r')
        p--;
    while (p > from && (p[-1] == ' ' || p[-1] == '\t'))
        p--;
    while (from < p && (*from == ' ' || *from == '\t'))
        from++;
    out->text = from;
    out->len = (size_t)(p - from);
    return QN_OK;
}

static qn_status parse_number(const struct reader *r, const struct cell *c,
                              column col, uint64_t most, uint64_t *out,
                              qn_error *err)
{
    char buf[40];
    uint64_t value = 0;
    if (c->len == 0)
        return fail_at(r, c->text, QN_FORMAT, err, "%s is empty",
                       column_names[col]);
    for (size_t i = 0; i < c->len; i++) {
        if (c->text[i] < '0' || c->text[i] > '9')
            return fail_at(r, c->text + i, QN_FORMAT, err,
                           "%s '%s' is not a whole number", column_names[col],
                           shown(c, buf));
        uint64_t digit = (uint64_t)(c->text[i] - '0');
        if (value > (most - digit) / 10)
            return fail_at(r, c->text, QN_RANGE, err,
                           "%s '%s' exceeds %llu", column_names[col],
                           shown(c, buf), (unsigned long long)most);
        value = value * 10 + digit;
    }
    *out = value;
    return QN_OK;
}

/* ---- the header ---- */

struct header {
    column cols[COL_COUNT];
    size_t n;
    bool seen[COL_COUNT];
};

static bool is(const struct cell *c, const char *name)
{
    return strlen(name) == c->len && memcmp(name, c->text, c->len) == 0;
}

static qn_status read_header(struct reader *r, struct header *h, qn_error *err)
{
    struct cell c = { NULL, 0, false };
    char buf[40];
    memset(h, 0, sizeof *h);
    if (!skip_empty(r))
        return fail_at(r, r->at, QN_FORMAT, err,
                       "no header, expected id,lower,upper,size");
    while (!c.last) {
        qn_status st = next_cell(r, &c, err);
        if (st != QN_OK)
            return st;
        int col = 0;
        while (col < COL_COUNT && !is(&c, column_names[col]))
            col++;
        if (is(&c, "alignment"))
            col = COL_ALIGN;
        if (col == COL_COUNT)
            return fail_at(r, c.text, QN_FORMAT, err,
                           "unknown column '%s', known are id, lower, upper, "
                           "size, align, offset, group, group_pos",
                           shown(&c, buf));
        if (h->seen[col])
            return fail_at(r, c.text, QN_FORMAT, err, "column '%s' again",
                           column_names[col]);
        h->seen[col] = true;
        h->cols[h->n++] = (column)col;
    }
    for (int col = 0; col < REQUIRED; col++)
        if (!h->seen[col])
            return fail_at(r, r->line_start, QN_FORMAT, err,
                           "the header has no column '%s'", column_names[col]);
    if (h->seen[COL_GROUP] != h->seen[COL_GROUP_POS])
        return fail_at(r, r->line_start, QN_FORMAT, err,
                       "group and group_pos come together");
    return QN_OK;
}

/* ---- a line ---- */

static qn_status set_cell(const struct reader *r, const struct cell *c,
                          column col, qn_region *region, qn_plan_csv *csv,
                          qn_error *err)
{
    static const uint64_t most[COL_COUNT] = {
        [COL_LOWER] = UINT32_MAX,  [COL_UPPER] = UINT32_MAX,
        [COL_SIZE] = SIZE_MAX,     [COL_ALIGN] = 1U << 31,
        [COL_OFFSET] = SIZE_MAX,   [COL_GROUP] = INT32_MAX,
        [COL_GROUP_POS] = UINT32_MAX,
    };
    qn_buffer *b = &csv->buffers[csv->n];
    uint64_t v = 0;
    if (col == COL_ID) {
        csv->ids[csv->n] = qn_region_strndup(region, c->text, c->len);
        return csv->ids[csv->n] ? QN_OK
                                : qn_fail(err, QN_NO_MEMORY,
                                          "no heap for the names of buffers");
    }
    if (c->len == 0 && (col == COL_GROUP || col == COL_GROUP_POS ||
                        col == COL_ALIGN))
        return QN_OK;
    qn_status st = parse_number(r, c, col, most[col], &v, err);
    if (st != QN_OK)
        return st;
    switch (col) {
    case COL_LOWER:
        b->lower = (uint32_t)v;
        break;
    case COL_UPPER:
        b->upper = (uint32_t)v;
        break;
    case COL_SIZE:
        b->bytes = (size_t)v;
        break;
    case COL_ALIGN:
        if (v & (v - 1))
            return fail_at(r, c->text, QN_FORMAT, err,
                           "align %llu is not a power of two",
                           (unsigned long long)v);
        b->align = (uint32_t)v;
        break;
    case COL_OFFSET:
        csv->offsets[csv->n] = (size_t)v;
        break;
    case COL_GROUP:
        b->group = (int32_t)v;
        break;
    case COL_GROUP_POS:
        b->group_pos = (uint32_t)v;
        break;
    case COL_ID:
    case COL_COUNT:
        break;
    }
    return QN_OK;
}

static qn_status read_line(struct reader *r, const struct header *h,
                           qn_region *region, qn_plan_csv *csv, qn_error *err)
{
    struct cell c = { NULL, 0, false };
    size_t k = 0;
    csv->buffers[csv->n].group = -1;
    for (; !c.last; k++) {
        qn_status st = next_cell(r, &c, err);
        if (st == QN_OK && k >= h->n)
            st = fail_at(r, c.text, QN_FORMAT, err, "more than %zu cells",
                         h->n);
        if (st == QN_OK)
            st = set_cell(r, &c, h->cols[k], region, csv, err);
        if (st != QN_OK)
            return st;
    }
    if (k < h->n)
        return fail_at(r, r->at, QN_FORMAT, err, "%zu cells, expected %zu", k,
                       h->n);
    const qn_buffer *b = &csv->buffers[csv->n];
    if (b->lower >= b->upper)
        return fail_at(r, r->line_start, QN_FORMAT, err,
                       "lower %u is not below upper %u", b->lower, b->upper);
    csv->n++;
    return QN_OK;
}

static size_t count_lines(const char *text, size_t len)
{
    size_t n = 0;
    bool some = false;
    for (size_t i = 0; i < len; i++) {
        some = some || (text[i] != '\n' && text[i] != '\r');
        if (text[i] == '\n' || i + 1 == len) {
            n += some;
            some = false;
        }
    }
    return n;
}

qn_status qn_plan_csv_read(const char *text, size_t len, qn_region *region,
                           qn_plan_csv *out, qn_error *err)
{
    struct reader r = { text, text + len, text, 1 };
    struct header h;
    qn_plan_csv csv = { 0 };
    memset(out, 0, sizeof *out);
    size_t lines = count_lines(text, len);
    if (lines > INT32_MAX)
        return qn_fail(err, QN_TOO_LARGE, "%zu buffers, the most are %d",
                       lines - 1, INT32_MAX - 1);
    qn_status st = read_header(&r, &h, err);
    if (st != QN_OK)
        return st;
    csv.buffers = qn_region_alloc(region, lines, sizeof *csv.buffers);
    csv.ids = qn_region_alloc(region, lines, sizeof *csv.ids);
    if (h.seen[COL_OFFSET])
        csv.offsets = qn_region_alloc(region, lines, sizeof *csv.offsets);
    if (!csv.buffers || !csv.ids || (h.seen[COL_OFFSET] && !csv.offsets))
        return qn_fail(err, QN_NO_MEMORY, "no heap for %zu buffers", lines);
    while (st == QN_OK && skip_empty(&r))
        st = read_line(&r, &h, region, &csv, err);
    if (st == QN_OK)
        *out = csv;
    return st;
}

/* ---- writing ---- */

qn_status qn_plan_text_add(qn_plan_text *out, qn_error *err, const char *fmt,
                           ...)
{
    for (;;) {
        va_list args;
        size_t room = out->cap - out->len;
        va_start(args, fmt);
        int n = vsnprintf(out->data ? out->data + out->len : NULL,
                          out->data ? room : 0, fmt, args);
        va_end(args);
        if (n < 0)
            return qn_fail(err, QN_INTERNAL, "a number would not print");
        if (out->data && (size_t)n < room) {
            out->len += (size_t)n;
            return QN_OK;
        }
        size_t cap = out->cap * 2 + (size_t)n + 256;
        char *data = qn_realloc(out->data, cap, 1);
        if (!data) {
            if (out->data)
                out->data[out->len] = 0;
            return qn_fail(err, QN_NO_MEMORY, "no heap for %zu bytes of text",
                           cap);
        }
        out->data = data;
        out->cap = cap;
    }
}

static qn_status write_line(const qn_plan_csv *csv, size_t i, bool align,
                            bool group, const size_t *offsets,
                            qn_plan_text *out, qn_error *err)
{
    const qn_buffer *b = &csv->buffers[i];
    qn_status st = qn_plan_text_add(out, err, "%s,%u,%u,%zu", csv->ids[i],
                                    b->lower, b->upper, b->bytes);
    if (st == QN_OK && align)
        st = qn_plan_text_add(out, err, ",%u", b->align ? b->align : 1);
    if (st == QN_OK && offsets)
        st = qn_plan_text_add(out, err, ",%zu", offsets[i]);
    if (st == QN_OK && group)
        st = b->group >= 0 ? qn_plan_text_add(out, err, ",%d,%u", b->group,
                                              b->group_pos)
                           : qn_plan_text_add(out, err, ",,");
    return st == QN_OK ? qn_plan_text_add(out, err, "\n") : st;
}

qn_status qn_plan_csv_write(const qn_plan_csv *csv, const size_t *offsets,
                            qn_plan_text *out, qn_error *err)
{
    bool align = false, group = false;
    for (size_t i = 0; i < csv->n; i++) {
        align = align || csv->buffers[i].align > 1;
        group = group || csv->buffers[i].group >= 0;
    }
    qn_status st = qn_plan_text_add(out, err, "id,lower,upper,size%s%s%s\n",
                                    align ? ",align" : "",
                                    offsets ? ",offset" : "",
                                    group ? ",group,group_pos" : "");
    for (size_t i = 0; i < csv->n && st == QN_OK; i++)
        st = write_line(csv, i, align, group, offsets, out, err);
    return st;
}
