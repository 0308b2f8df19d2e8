/* SPDX-License-Identifier: Apache-2.0 */
/* NonMaxSuppression. Thresholds are read on the device. */
#include "runtime/base/checked.h"
#include "runtime/cuda/kernels/nms.h"
#include "runtime/cuda/tables.h"
#include "runtime/cuda/typed.h"
#include "runtime/ops/op.h"

typedef struct nms_state {
    const qn_cuda_fn *select, *scan, *write;
} nms_state;

static size_t align8(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

static qn_status nms_prepare(qn_prepare *p, qn_error *err)
{
    nms_state *s;
    const qn_shape *shape = &p->in[1].shape;
    size_t pairs, keys, kept = (size_t)p->out[0].shape.dims[0];
    qn_status st = qn_cuda_state(p, sizeof *s, &s, err);
    const struct {
        const char *name;
        const qn_cuda_fn **fn;
    } all[] = { { "nms_select", &s->select },
                { "nms_scan", &s->scan },
                { "nms_write", &s->write } };
    for (size_t i = 0; st == QN_OK && i < sizeof all / sizeof all[0]; i++)
        st = qn_cuda_find(p->accel, "nms", all[i].name, all[i].fn, err);
    if (st != QN_OK)
        return st;
    if (!qn_mul_size((size_t)shape->dims[0], (size_t)shape->dims[1], &pairs) ||
        !qn_mul_size(pairs, (size_t)shape->dims[2] * sizeof(uint64_t), &keys) ||
        !qn_mul_size(kept, sizeof(int32_t), &kept) ||
        !qn_mul_size(pairs + 1, sizeof(int64_t), &pairs) ||
        !qn_add_size(keys, pairs, &p->workspace) ||
        !qn_add_size(p->workspace, kept, &p->workspace))
        return qn_fail(err, QN_TOO_LARGE,
                       "%lld boxes of %lld classes in %lld batches are too many",
                       (long long)shape->dims[2], (long long)shape->dims[1],
                       (long long)shape->dims[0]);
    p->workspace = align8(p->workspace);
    return QN_OK;
}

static const void *optional(const qn_launch *k, uint32_t i)
{
    return i < k->n_in && qn_present(&k->in[i]) ? k->in[i].data : NULL;
}

static qn_status nms_launch(const qn_launch *k)
{
    const nms_state *s = k->state;
    const qn_shape *shape = &k->in[1].shape;
    const int64_t *most = optional(k, 2);
    struct qn_nms_args a = {
        .boxes = k->in[0].data,
        .scores = k->in[1].data,
        .iou = optional(k, 3),
        .score = optional(k, 4),
        .out = k->out[0].data,
        .counts = k->workspace,
        .pairs = shape->dims[0] * shape->dims[1],
        .classes = shape->dims[1],
        .n = shape->dims[2],
        .most = most ? *most : 0,
        .center = qn_node_int(k->node, "center_point_box", 0) != 0,
        .fault = qn_cuda_fault(k),
    };
    if (a.most > a.n)
        a.most = a.n;
    if (a.most < 0)
        a.most = 0;
    a.keys = (uint64_t *)(a.counts + a.pairs + 1);
    a.kept = (int32_t *)(a.keys + a.pairs * a.n);
    /* a block even without pairs: thresholds are checked in any case */
    int64_t blocks = a.pairs < 1 ? 1 : a.pairs < 65536 ? a.pairs : 65536;
    qn_cuda_grid grid = { .grid = { (uint32_t)blocks },
                          .block = { QN_NMS_THREADS } };
    qn_cuda_grid one = { .grid = { 1 }, .block = { 1024 } };
    qn_status st = qn_cuda_launch(k, s->select, &grid, &a);
    if (st == QN_OK)
        st = qn_cuda_launch(k, s->scan, &one, &a);
    if (st == QN_OK)
        st = qn_cuda_launch(k, s->write, &grid, &a);
    return st != QN_OK ? st : qn_cuda_read(k, a.counts + a.pairs, 1);
}

static qn_status nms_finish(const qn_launch *k)
{
    k->out[0].shape = qn_shape_make(2, (int64_t[]){ k->counts[0], 3 });
    return QN_OK;
}

static const qn_kernel kernels[] = {
    { .domain = "",
      .name = "NonMaxSuppression",
      .since = 1,
      .until = QN_OPSET_MAX,
      .prepare = nms_prepare,
      .launch = nms_launch,
      .finish = nms_finish },
};

QN_KERNEL_TABLE(qn_cuda_nms, kernels);
