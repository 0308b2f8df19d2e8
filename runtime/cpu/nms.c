/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NonMaxSuppression. Boxes are brought into corner form once per batch. Each
 * (batch, class) puts its candidates into a heap by score and takes them in
 * turn, best first, equal scores by index, until enough are kept: only as much
 * is sorted as is looked at. A candidate is compared with the boxes kept so
 * far, several at once.
 *
 * Without max_output_boxes_per_class nothing is selected; without a score
 * threshold every box is a candidate. A NaN score ranks last.
 */
#include "runtime/cpu/simd/nms.h"

#include "runtime/base/checked.h"
#include "runtime/base/half.h"
#include "runtime/cpu/grain.h"
#include "runtime/cpu/tables.h"
#include "runtime/ops/op.h"

#include <math.h>
#include <string.h>

enum { FIELDS = 5 }; /* arrays in qn_boxes */

typedef struct nms_job {
    const float *scores; /* [batches, classes, n] */
    int64_t *out;        /* [batches x classes][most][3] */
    int64_t classes, n, most;
    bool center, filtered;
    float iou, score;   /* thresholds */
    const float *given; /* [batches, n, 4] */
    float *boxes;       /* [batches][FIELDS][n] */
    int64_t *counts;    /* [batches x classes] */
    char *scratch;      /* per thread: heap [n], kept boxes [FIELDS][n] */
    const qn_nms_table *simd;
} nms_job;

/* A multiple of 8, as the keys of the next thread want it. */
static size_t scratch_bytes(int64_t n)
{
    return ((size_t)n * (sizeof(uint64_t) + FIELDS * sizeof(float)) + 7) &
           ~(size_t)7;
}

static qn_boxes view(float *p, int64_t n)
{
    return (qn_boxes){ p, p + n, p + 2 * n, p + 3 * n, p + 4 * n };
}

static float least(float a, float b)
{
    return a < b ? a : b;
}

static float most(float a, float b)
{
    return a > b ? a : b;
}

static void read_box(const nms_job *j, const float *g, qn_boxes *b, int64_t i)
{
    if (j->center) { /* x, y, width, height */
        b->x0[i] = g[0] - g[2] / 2;
        b->x1[i] = g[0] + g[2] / 2;
        b->y0[i] = g[1] - g[3] / 2;
        b->y1[i] = g[1] + g[3] / 2;
    } else { /* y, x of two opposite corners, in any order */
        b->y0[i] = least(g[0], g[2]);
        b->y1[i] = most(g[0], g[2]);
        b->x0[i] = least(g[1], g[3]);
        b->x1[i] = most(g[1], g[3]);
    }
    b->area[i] = (b->x1[i] - b->x0[i]) * (b->y1[i] - b->y0[i]);
}

/* items: batches */
static void boxes_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const nms_job *j = arg;
    (void)thread;
    for (int64_t batch = begin; batch < end; batch++) {
        qn_boxes b = view(j->boxes + batch * FIELDS * j->n, j->n);
        for (int64_t i = 0; i < j->n; i++)
            read_box(j, j->given + (batch * j->n + i) * 4, &b, i);
    }
}

/* Smaller is better: the score's order turned round, then the index. */
static uint64_t rank_of(float score, int64_t i)
{
    uint32_t u = qn_f32_bits(score != score ? -INFINITY : score + 0.0f);
    uint32_t rising = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (uint64_t)~rising << 32 | (uint64_t)i;
}

static void sift_down(uint64_t *heap, int64_t n, int64_t at, uint64_t e)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= e)
            break;
        heap[at] = heap[child];
    }
    heap[at] = e;
}

static int64_t candidates(const nms_job *j, const float *scores, uint64_t *heap)
{
    int64_t n = 0;
    for (int64_t i = 0; i < j->n; i++)
        if (!j->filtered || scores[i] > j->score)
            heap[n++] = rank_of(scores[i], i);
    for (int64_t i = n / 2; i-- > 0;)
        sift_down(heap, n, i, heap[i]);
    return n;
}

static void keep(const qn_boxes *from, int64_t i, qn_boxes *to, int64_t at)
{
    to->x0[at] = from->x0[i];
    to->y0[at] = from->y0[i];
    to->x1[at] = from->x1[i];
    to->y1[at] = from->y1[i];
    to->area[at] = from->area[i];
}

/* items: batches x classes */
static void select_piece(void *arg, int64_t begin, int64_t end, int thread)
{
    const nms_job *j = arg;
    uint64_t *heap =
        (uint64_t *)(void *)(j->scratch + (size_t)thread * scratch_bytes(j->n));
    qn_boxes kept = view((float *)(heap + j->n), j->n);
    for (int64_t pair = begin; pair < end; pair++) {
        int64_t batch = pair / j->classes, count = 0;
        qn_boxes all = view(j->boxes + batch * FIELDS * j->n, j->n);
        int64_t left = candidates(j, j->scores + pair * j->n, heap);
        while (left > 0 && count < j->most) {
            int64_t i = (int64_t)(heap[0] & UINT32_MAX);
            left--;
            sift_down(heap, left, 0, heap[left]);
            if (j->simd->overlaps(&kept, count, &all, i, j->iou))
                continue;
            int64_t *row = j->out + (pair * j->most + count) * 3;
            row[0] = batch;
            row[1] = pair % j->classes;
            row[2] = i;
            keep(&all, i, &kept, count++);
        }
        j->counts[pair] = count;
    }
}

/* Close the gaps between the pairs' rows; returns how many rows there are. */
static int64_t close_gaps(const nms_job *j, int64_t pairs)
{
    int64_t rows = 0;
    for (int64_t p = 0; p < pairs; p++) {
        if (rows != p * j->most && j->counts[p])
            memmove(j->out + rows * 3, j->out + p * j->most * 3,
                    (size_t)j->counts[p] * 3 * sizeof *j->out);
        rows += j->counts[p];
    }
    return rows;
}

static float scalar(const qn_launch *k, uint32_t i, float otherwise)
{
    return i < k->n_in && qn_present(&k->in[i]) ? *(const float *)k->in[i].data
                                                : otherwise;
}

static qn_status nms_launch(const qn_launch *k)
{
    const qn_shape *s = &k->in[1].shape;
    int64_t batches = s->dims[0];
    nms_job j = { .given = k->in[0].data,
                  .scores = k->in[1].data,
                  .out = k->out[0].data,
                  .classes = s->dims[1],
                  .n = s->dims[2],
                  .center = qn_node_int(k->node, "center_point_box", 0) != 0,
                  .iou = scalar(k, 3, 0),
                  .score = scalar(k, 4, 0),
                  .filtered = k->n_in > 4 && qn_present(&k->in[4]),
                  .simd = qn_nms_pick() };
    if (!(j.iou >= 0 && j.iou <= 1))
        return qn_launch_fail(
            k, QN_RANGE, "iou_threshold is %g, expected 0 to 1", (double)j.iou);
    if (k->n_in > 2 && qn_present(&k->in[2]))
        j.most = *(const int64_t *)k->in[2].data;
    if (j.most > j.n)
        j.most = j.n;
    k->out[0].shape = qn_shape_make(2, (int64_t[]){ 0, 3 });
    int64_t pairs = batches * j.classes;
    if (j.most <= 0 || pairs == 0)
        return QN_OK;
    j.counts = k->workspace;
    j.boxes = (float *)(j.counts + pairs);
    /* an even number of floats: what follows holds 64-bit keys */
    j.scratch = (char *)(j.boxes + (batches * FIELDS * j.n + 1) / 2 * 2);
    qn_parallel(k->team, batches, qn_grain((double)j.n * 3), boxes_piece, &j);
    qn_parallel(k->team, pairs, qn_grain((double)j.n * 5), select_piece, &j);
    k->out[0].shape.dims[0] = close_gaps(&j, pairs);
    return QN_OK;
}

static qn_status nms_prepare(qn_prepare *p, qn_error *err)
{
    const qn_shape *s = &p->in[1].shape;
    size_t batches = (size_t)s->dims[0], n = (size_t)s->dims[2], counts, boxes;
    size_t scratch = scratch_bytes(s->dims[2]) + sizeof(uint64_t), per_thread;
    if (!qn_mul_size(batches * sizeof(int64_t), (size_t)s->dims[1], &counts) ||
        !qn_mul_size(batches, n * FIELDS * sizeof(float), &boxes) ||
        !qn_mul_size((size_t)p->max_threads, scratch, &per_thread) ||
        !qn_add_size(counts, boxes + sizeof(float), &p->workspace) ||
        !qn_add_size(p->workspace, per_thread, &p->workspace))
        return qn_fail(err, QN_TOO_LARGE,
                       "%zu boxes in %zu batches are too many", n, batches);
    return QN_OK;
}

static const qn_kernel kernels[] = {
    { .domain = "",
      .name = "NonMaxSuppression",
      .since = 1,
      .until = QN_OPSET_MAX,
      .prepare = nms_prepare,
      .launch = nms_launch },
};

QN_KERNEL_TABLE(qn_cpu_nms, kernels);
