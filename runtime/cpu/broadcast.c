/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cpu/broadcast.h"

/* Append a dimension, or merge it into the one before where every operand
 * crosses the two as if they were one. */
static void push(qn_bcast *b, int64_t dim, const int64_t *stride)
{
    int last = b->rank - 1;
    bool merge = last >= 0;
    for (int k = 0; k < b->n && merge; k++)
        merge = b->stride[k][last] == stride[k] * dim;
    if (!merge) {
        last = b->rank++;
        b->dims[last] = 1;
    }
    b->dims[last] *= dim;
    for (int k = 0; k < b->n; k++)
        b->stride[k][last] = stride[k];
}

void qn_bcast_init(qn_bcast *b, const qn_shape *out, int n,
                   const qn_shape *const *shapes)
{
    int64_t stride[QN_BCAST_MAX][QN_MAX_RANK] = { { 0 } };

    b->n = n;
    b->rank = 0;
    b->total = qn_shape_product(out, 0, out->rank);
    for (int k = 0; k < n; k++) {
        const qn_shape *s = shapes[k];
        int64_t step = 1;
        for (int i = s->rank - 1; i >= 0; i--) {
            if (s->dims[i] != 1)
                stride[k][i + out->rank - s->rank] = step;
            step *= s->dims[i];
        }
    }
    for (int i = 0; i < out->rank && b->total; i++) {
        int64_t at[QN_BCAST_MAX] = { 0 };
        for (int k = 0; k < n; k++)
            at[k] = stride[k][i];
        if (out->dims[i] != 1)
            push(b, out->dims[i], at);
    }
    if (b->rank == 0)
        push(b, 1, (const int64_t[QN_BCAST_MAX]){ 0 });
}

void qn_bcast_walk(const qn_bcast *b, int64_t begin, int64_t end,
                   qn_bcast_row row, void *arg)
{
    int last = b->rank - 1;
    int64_t at[QN_MAX_RANK], from[QN_BCAST_MAX] = { 0 }, rest = begin;

    for (int i = last; i >= 0; i--) {
        at[i] = rest % b->dims[i];
        rest /= b->dims[i];
        for (int k = 0; k < b->n; k++)
            from[k] += at[i] * b->stride[k][i];
    }
    while (begin < end) {
        int64_t n = b->dims[last] - at[last];
        n = n < end - begin ? n : end - begin;
        row(arg, from, begin, n);
        begin += n;
        at[last] += n;
        for (int k = 0; k < b->n; k++)
            from[k] += n * b->stride[k][last];
        for (int i = last; i > 0 && at[i] == b->dims[i]; i--) {
            at[i] = 0;
            at[i - 1]++;
            for (int k = 0; k < b->n; k++)
                from[k] += b->stride[k][i - 1] - b->dims[i] * b->stride[k][i];
        }
    }
}
