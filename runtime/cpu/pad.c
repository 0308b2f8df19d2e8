/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pad. The output is walked in rows along the last padded axis ("row axis");
 * what lies inside that axis is one unit of bytes. Each axis maps an output
 * index to an input index or to "outside"; a row whose outer indices are all
 * inside is left edge + memcpy + right edge, any other is filled.
 *
 *   out index o  ->  i = o - before
 *   reflect      ... 2 1 | 0 1 2 3 | 2 1 ...   (period 2 (n - 1))
 *   edge         ... 0 0 | 0 1 2 3 | 3 3 ...
 *   wrap         ... 2 3 | 0 1 2 3 | 0 1 ...
 * Negative pads move the window [first, first + n) of the input that counts.
 */
#include "runtime/base/half.h"
#include "runtime/cpu/strided.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

enum { MAX_IN = 4, PIECE_BYTES = 128 * 1024 };

typedef struct pad_axis {
    int64_t out;      /* output extent */
    int64_t before;   /* padding before the window, >= 0 */
    int64_t first, n; /* window of the input */
    int64_t stride;   /* of the input, in bytes */
} pad_axis;

typedef struct pad_job {
    qn_pad_mode mode;
    int outer; /* axes[0..outer) are counted, axes[outer] is the row axis */
    pad_axis axes[QN_MAX_RANK + 1];
    int64_t unit; /* bytes */
    size_t size;  /* of an element */
    char value[16];
    const char *src;
    char *dst;
} pad_job;

/* Index into the input, or -1 for "outside". */
static int64_t source(const pad_axis *a, qn_pad_mode mode, int64_t o)
{
    int64_t i = o - a->before, n = a->n;
    if (i >= 0 && i < n)
        return a->first + i;
    switch (mode) {
    case QN_PAD_CONSTANT:
        return -1;
    case QN_PAD_EDGE:
        i = i < 0 ? 0 : n - 1;
        break;
    case QN_PAD_REFLECT: /* pads are below n, so one turn is enough */
        i = i < 0 ? -i : 2 * (n - 1) - i;
        break;
    case QN_PAD_WRAP:
        i %= n;
        i += i < 0 ? n : 0;
        break;
    }
    return a->first + i;
}

static void pad_row(const pad_job *j, const char *src, char *dst)
{
    const pad_axis *a = &j->axes[j->outer];
    int64_t unit = j->unit, inside = a->before + a->n;
    if (j->mode == QN_PAD_CONSTANT) {
        int64_t each = unit / (int64_t)j->size;
        qn_fill(dst, j->value, j->size, a->before * each);
        qn_fill(dst + inside * unit, j->value, j->size,
                (a->out - inside) * each);
    } else {
        for (int64_t o = 0; o < a->before; o++)
            memcpy(dst + o * unit, src + source(a, j->mode, o) * unit,
                   (size_t)unit);
        for (int64_t o = inside; o < a->out; o++)
            memcpy(dst + o * unit, src + source(a, j->mode, o) * unit,
                   (size_t)unit);
    }
    if (a->n)
        memcpy(dst + a->before * unit, src + a->first * unit,
               (size_t)(a->n * unit));
}

static void pad_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const pad_job *j = arg;
    int64_t row_bytes = j->axes[j->outer].out * j->unit;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        char *dst = j->dst + row * row_bytes;
        int64_t rest = row, at = 0;
        bool outside = false;
        for (int d = j->outer - 1; d >= 0 && !outside; d--) {
            const pad_axis *a = &j->axes[d];
            int64_t i = source(a, j->mode, rest % a->out);
            rest /= a->out;
            outside = i < 0;
            at += i * a->stride;
        }
        if (outside)
            qn_fill(dst, j->value, j->size, row_bytes / (int64_t)j->size);
        else /* an empty input has no address */
            pad_row(j, j->axes[j->outer].n ? j->src + at : NULL, dst);
    }
}

/* The constant in the data's type; zero bits (or "") by default. */
static void pad_value(const qn_launch *k, char value[16])
{
    qn_dtype dtype = k->in[0].dtype;
    float f = qn_node_float(k->node, "value", 0.0f);
    if (k->n_in > 2 && qn_present(&k->in[2])) {
        memcpy(value, k->in[2].data, qn_dtype_size(dtype));
    } else if (k->node->op->since < 11) {
        double d = (double)f;
        uint16_t h = qn_f32_to_f16(f);
        const void *bits = dtype == QN_F64   ? (const void *)&d
                           : dtype == QN_F16 ? (const void *)&h
                                             : (const void *)&f;
        memcpy(value, bits, qn_dtype_size(dtype));
    }
}

/* Neighbouring axes without pads become one; those inside the last padded axis
 * become the unit. */
static void plan_axes(pad_job *j, const qn_pad *p, const qn_node *node,
                      const qn_shape *in)
{
    int64_t strides[QN_MAX_RANK], size = (int64_t)j->size;
    int logical[QN_MAX_RANK] = { 0 }, last = -1;
    qn_strides(in, strides);
    for (int d = 0; d < in->rank; d++)
        logical[qn_memory_axis(node, in->rank, d)] = d;
    for (int m = 0; m < in->rank; m++)
        if (p->before[logical[m]] || p->after[logical[m]])
            last = m;
    j->unit = size * qn_shape_product(in, last < 0 ? 0 : last + 1, in->rank);
    bool plain = false; /* the axis before has no pads either */
    int n = 0;
    for (int m = 0; m <= last; m++) {
        int64_t before = p->before[logical[m]], after = p->after[logical[m]];
        int64_t dim = in->dims[m];
        if (!before && !after && plain) {
            j->axes[n - 1].n *= dim;
            j->axes[n - 1].out *= dim;
            j->axes[n - 1].stride = strides[m] * size;
            continue;
        }
        plain = !before && !after;
        j->axes[n++] = (pad_axis){
            .out = dim + before + after,
            .before = before > 0 ? before : 0,
            .first = before < 0 ? -before : 0,
            .n = dim + (before < 0 ? before : 0) + (after < 0 ? after : 0),
            .stride = strides[m] * size
        };
    }
    if (n == 0)
        j->axes[n++] = (pad_axis){ .out = 1, .n = 1 };
    j->outer = n - 1;
}

static qn_status launch_pad(const qn_launch *k)
{
    const qn_tensor *data = &k->in[0];
    qn_tensor in[MAX_IN];
    qn_pad pad;
    pad_job j = { .size = qn_dtype_size(data->dtype), .src = data->data,
                  .dst = k->out[0].data };

    for (uint32_t i = 0; i < k->n_in && i < MAX_IN; i++)
        in[i] = k->in[i];
    in[0].shape = qn_node_logical_shape(k->node, &data->shape);
    qn_status st = qn_pad_resolve(
        &(qn_infer){ .node = k->node, .n_in = k->n_in, .in = in }, &pad, k->err);
    if (st != QN_OK)
        return st;
    int64_t count = qn_count(&k->out[0]);
    if (count == 0)
        return QN_OK;
    j.mode = pad.mode;
    pad_value(k, j.value);
    plan_axes(&j, &pad, k->node, &data->shape);
    int64_t row_bytes = j.axes[j.outer].out * j.unit;
    int64_t rows = count * (int64_t)j.size / row_bytes;
    qn_parallel(k->team, rows, 1 + PIECE_BYTES / row_bytes, pad_piece, &j);
    return QN_OK;
}

static const qn_kernel rows[] = {
    { .domain = "", .name = "Pad", .since = 1, .until = QN_OPSET_MAX,
      .flags = QN_KERNEL_NHWC, .launch = launch_pad },
};

QN_KERNEL_TABLE(qn_cpu_pad, rows);
