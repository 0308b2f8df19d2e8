/* SPDX-License-Identifier: Apache-2.0 */
/* Overlap of one box with many. */
#ifndef QN_CPU_SIMD_NMS_H
#define QN_CPU_SIMD_NMS_H

#include "runtime/cpu/isa.h"

#include <stdint.h>

/* Arrays of n floats each; corners in order, x0 <= x1 and y0 <= y1. */
typedef struct qn_boxes {
    float *x0, *y0, *x1, *y1, *area;
} qn_boxes;

typedef struct qn_nms_table {
    /* Whether box i of `all` has an intersection over union above `limit` with
     * any of the first n of `some`. */
    int (*overlaps)(const qn_boxes *some, int64_t n, const qn_boxes *all,
                    int64_t i, float limit);
} qn_nms_table;

QN_ISA_TABLES(qn_nms_table, qn_nms);

static inline const qn_nms_table *qn_nms_pick(void)
{
    return QN_ISA_PICK(qn_nms, qn_isa_level());
}

#endif
