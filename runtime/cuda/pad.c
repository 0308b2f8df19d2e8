/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pad: each output unit finds its input unit, or takes the constant.
 * Neighbouring axes without pads are one; what lies inside the last padded axis
 * is counted in units of up to 16 bytes. The constant may lie on the device: it
 * is read there.
 */
#include "runtime/base/half.h"
#include "runtime/cuda/kernels/pad.h"
#include "runtime/cuda/strided.h"
#include "runtime/cuda/tables.h"
#include "runtime/ops/move.h"

#include <string.h>

enum { PAD_IN = 4, THREADS = 256, WAVES = 8, MANY = 1 << 20 };

typedef struct pad_state {
    const qn_accel *accel;
    const qn_cuda_fn *fn;
    struct qn_pad_args args; /* units are elements */
    int64_t inside;          /* elements inside the last padded axis */
} pad_state;

static bool supports(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_STRING;
}

/* The constant of versions before 11, in the data's type. */
static void old_value(const qn_node *node, qn_dtype dtype,
                      unsigned char value[16])
{
    float f = qn_node_float(node, "value", 0.0f);
    double d = (double)f;
    uint16_t h = qn_f32_to_f16(f);
    const void *bits = dtype == QN_F64   ? (const void *)&d
                       : dtype == QN_F16 ? (const void *)&h
                                         : (const void *)&f;
    if (node->op->since < 11)
        memcpy(value, bits, qn_dtype_size(dtype));
}

/* Axes outermost first, then reversed. */
static void plan_axes(pad_state *s, const qn_pad *p, const qn_node *node,
                      const qn_shape *in)
{
    struct qn_pad_axis axes[QN_PAD_DIMS];
    int64_t strides[QN_MAX_RANK];
    int logical[QN_MAX_RANK] = { 0 }, last = -1, n = 0;
    bool plain = false; /* the axis before has no pads either */
    qn_strides(in, strides);
    for (int d = 0; d < in->rank; d++)
        logical[qn_memory_axis(node, in->rank, d)] = d;
    for (int m = 0; m < in->rank; m++)
        if (p->before[logical[m]] || p->after[logical[m]])
            last = m;
    s->inside = qn_shape_product(in, last + 1, in->rank);
    for (int m = 0; m <= last; m++) {
        int64_t before = p->before[logical[m]], after = p->after[logical[m]];
        int64_t dim = in->dims[m];
        bool none = !before && !after;
        if (none && plain) {
            axes[n - 1].n *= dim;
            axes[n - 1].out *= dim;
            axes[n - 1].stride = strides[m];
            continue;
        }
        plain = none;
        axes[n++] = (struct qn_pad_axis){
            .out = dim + before + after,
            .before = before > 0 ? before : 0,
            .first = before < 0 ? -before : 0,
            .n = dim + (before < 0 ? before : 0) + (after < 0 ? after : 0),
            .stride = strides[m]
        };
    }
    if (s->inside != 1 || n == 0)
        axes[n++] = (struct qn_pad_axis){ .out = s->inside, .n = s->inside,
                                          .stride = 1 };
    s->args.rank = n;
    for (int i = 0; i < n; i++)
        s->args.axes[i] = axes[n - 1 - i];
}

/* From elements to units of `unit` bytes. */
static void use_unit(struct qn_pad_args *a, int64_t inside, size_t unit)
{
    int64_t each = (int64_t)(unit / a->size);
    a->unit = (uint32_t)unit;
    if (each > 1) { /* then axis 0 is what lies inside */
        a->axes[0].out = a->axes[0].n = inside / each;
        for (int d = 1; d < a->rank; d++)
            a->axes[d].stride /= each;
    }
    a->n = 1;
    for (int d = 0; d < a->rank; d++) {
        a->n *= a->axes[d].out;
        a->axes[d].div = qn_fastdiv_of(a->axes[d].out);
    }
    a->wide = a->n >= (int64_t)1 << 31;
}

static qn_status prepare_pad(qn_prepare *p, qn_error *err)
{
    const qn_tensor *data = &p->in[0];
    qn_tensor in[PAD_IN];
    qn_pad pad;
    pad_state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    for (uint32_t i = 0; i < p->n_in && i < PAD_IN; i++)
        in[i] = p->in[i];
    in[0].shape = qn_node_logical_shape(p->node, &data->shape);
    qn_status st = qn_pad_resolve(
        &(qn_infer){ .node = p->node, .n_in = p->n_in, .in = in }, &pad, err);
    if (st != QN_OK)
        return st;
    s->accel = p->accel;
    s->args.mode = (uint32_t)pad.mode;
    s->args.size = (uint32_t)qn_dtype_size(data->dtype);
    old_value(p->node, data->dtype, s->args.fill);
    plan_axes(s, &pad, p->node, &data->shape);
    p->state = s;
    return qn_cuda_find(p->accel, "pad", "qn_pad", &s->fn, err);
}

static qn_status launch_pad(const qn_launch *k)
{
    const pad_state *s = k->state;
    struct qn_pad_args a = s->args;
    if (qn_count(&k->out[0]) == 0)
        return QN_OK;
    a.src = k->in[0].data;
    a.dst = k->out[0].data;
    if (k->n_in > 2 && qn_present(&k->in[2]))
        a.value = k->in[2].data;
    size_t unit = qn_align_of((uintptr_t)a.src | (uintptr_t)a.dst |
                                  (uint64_t)s->inside * a.size, 16);
    use_unit(&a, s->inside, unit > a.size ? unit : a.size);
    qn_cuda_grid g = qn_cuda_grid_stride(s->accel, a.n, a.n > MANY ? 4 : 1,
                                         THREADS, WAVES);
    return qn_cuda_launch(k, s->fn, &g, &a);
}

static const qn_kernel rows[] = {
    { .domain = "", .name = "Pad", .since = 1, .until = QN_OPSET_MAX,
      .flags = QN_KERNEL_NHWC, .supports = supports, .prepare = prepare_pad,
      .launch = launch_pad },
};

QN_KERNEL_TABLE(qn_cuda_pad, rows);
