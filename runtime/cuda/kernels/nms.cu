/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NonMaxSuppression: a block for each (batch, class). It keeps the best
 * candidate, then in one pass drops those that overlap it and finds the next
 * best, until enough are kept: exactly what taking them in order does, without
 * sorting. Rejected: a bit matrix of all overlaps, n * n bits for each class of
 * which a few rows are looked at. Then counts are added up and rows written.
 */
#include "runtime/cuda/kernels/nms.h"

#include "runtime/cuda/kernels/number.h"
#include "runtime/cuda/kernels/scan.h"

#define QN_NMS_GONE (~(uint64_t)0)

struct box {
    float x0, y0, x1, y1, area;
};

QN_DEVICE float least(float a, float b)
{
    return a < b ? a : b;
}

QN_DEVICE float most(float a, float b)
{
    return a > b ? a : b;
}

/* Products are rounded by themselves, as on the host. */
QN_DEVICE box read_box(const float *g, bool center)
{
    box b;
    if (center) {
        b.x0 = g[0] - g[2] / 2;
        b.x1 = g[0] + g[2] / 2;
        b.y0 = g[1] - g[3] / 2;
        b.y1 = g[1] + g[3] / 2;
    } else {
        b.y0 = least(g[0], g[2]);
        b.y1 = most(g[0], g[2]);
        b.x0 = least(g[1], g[3]);
        b.x1 = most(g[1], g[3]);
    }
    b.area = __fmul_rn(b.x1 - b.x0, b.y1 - b.y0);
    return b;
}

QN_DEVICE bool overlaps(const box &kept, const box &b, float limit)
{
    float l = most(kept.x0, b.x0), t = most(kept.y0, b.y0);
    float r = least(kept.x1, b.x1), u = least(kept.y1, b.y1);
    float w = r - l > 0 ? r - l : 0, h = u - t > 0 ? u - t : 0;
    float common = __fmul_rn(w, h);
    return common > 0 && common / (kept.area + b.area - common) > limit;
}

/* Smaller is better: the score's order turned round, then the index. NaN ranks
 * last. */
QN_DEVICE uint64_t rank_of(float score, int64_t i)
{
    uint32_t u = __float_as_uint(score != score ? -INFINITY : score + 0.0f);
    uint32_t rising = u & 0x80000000u ? ~u : u | 0x80000000u;
    return (uint64_t)~rising << 32 | (uint64_t)i;
}

QN_KERNEL_BOUNDS(nms_select, QN_NMS_THREADS, struct qn_nms_args, a)
{
    QN_SHARED(unsigned, found, 1);
    float limit = a.iou ? *a.iou : 0;
    bool good = limit >= 0 && limit <= 1;
    if (!good && qn_global_index() == 0)
        qn_device_fault(a.fault, QN_DEVICE_FAULT_VALUE, (int64_t)limit, 1);
    for (int64_t pair = blockIdx.x; pair < a.pairs; pair += gridDim.x) {
        const float *boxes = a.boxes + pair / a.classes * a.n * 4;
        const float *scores = a.scores + pair * a.n;
        uint64_t *keys = a.keys + pair * a.n;
        if (threadIdx.x == 0)
            *found = 0;
        __syncthreads();
        for (int64_t i = threadIdx.x; good && i < a.n; i += blockDim.x)
            if (!a.score || scores[i] > *a.score)
                keys[atomicAdd(found, 1u)] = rank_of(scores[i], i);
        __syncthreads();
        int64_t n = *found, count = 0;
        uint64_t last = QN_NMS_GONE;
        box kept = { 0, 0, 0, 0, 0 };
        while (count < a.most) {
            uint64_t best = QN_NMS_GONE;
            for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
                uint64_t key = keys[i];
                if (key == QN_NMS_GONE)
                    continue;
                if (count && (key == last ||
                              overlaps(kept,
                                       read_box(boxes + (key & UINT32_MAX) * 4,
                                                a.center != 0),
                                       limit)))
                    keys[i] = QN_NMS_GONE;
                else if (key < best)
                    best = key;
            }
            last = qn_block_reduce(best, qn_op_min(), QN_NMS_GONE);
            if (last == QN_NMS_GONE)
                break;
            int64_t i = (int64_t)(last & UINT32_MAX);
            kept = read_box(boxes + i * 4, a.center != 0);
            if (threadIdx.x == 0)
                a.kept[pair * a.most + count] = (int32_t)i;
            count++;
        }
        if (threadIdx.x == 0)
            a.counts[pair] = count;
        __syncthreads();
    }
}

QN_KERNEL_BOUNDS(nms_scan, QN_SCAN_THREADS, struct qn_nms_args, a)
{
    qn_scan_counts(a.counts, a.pairs);
}

QN_KERNEL(nms_write, struct qn_nms_args, a)
{
    for (int64_t pair = blockIdx.x; pair < a.pairs; pair += gridDim.x) {
        int64_t at = a.counts[pair], n = a.counts[pair + 1] - at;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            int64_t *row = a.out + (at + i) * 3;
            row[0] = pair / a.classes;
            row[1] = pair % a.classes;
            row[2] = a.kept[pair * a.most + i];
        }
    }
}
