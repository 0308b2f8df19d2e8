/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/simd/nms.h"

enum { BLOCK = 64 }; /* boxes between two looks at the result */

static int overlaps(const qn_boxes *some, int64_t n, const qn_boxes *all,
                    int64_t i, float limit)
{
    float x0 = all->x0[i], y0 = all->y0[i], x1 = all->x1[i], y1 = all->y1[i];
    float area = all->area[i];
    for (int64_t from = 0; from < n; from += BLOCK) {
        int64_t to = n - from < BLOCK ? n : from + BLOCK;
        int hit = 0;
        for (int64_t b = from; b < to; b++) {
            float l = some->x0[b] > x0 ? some->x0[b] : x0;
            float t = some->y0[b] > y0 ? some->y0[b] : y0;
            float r = some->x1[b] < x1 ? some->x1[b] : x1;
            float u = some->y1[b] < y1 ? some->y1[b] : y1;
            float w = r - l > 0 ? r - l : 0, h = u - t > 0 ? u - t : 0;
            float common = w * h;
            float ratio = common / (some->area[b] + area - common);
            hit |= (common > 0) & (ratio > limit);
        }
        if (hit)
            return 1;
    }
    return 0;
}

const qn_nms_table QN_ISA_FN(qn_nms) = { .overlaps = overlaps };
