/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda/walk.h"

/* Append a dimension, or merge it into the one before where every operand
 * crosses the two as if they were one. */
static void push(qn_cuda_merge *m, int64_t dim, const int64_t *stride)
{
    int last = m->rank - 1;
    bool merge = last >= 0;
    for (int k = 0; k < m->n && merge; k++)
        merge = m->stride[k][last] == stride[k] * dim;
    if (!merge) {
        last = m->rank++;
        m->dims[last] = 1;
    }
    m->dims[last] *= dim;
    for (int k = 0; k < m->n; k++)
        m->stride[k][last] = stride[k];
}

/* Elements to the next one along dimension d of the output. */
static int64_t stride_of(const qn_shape *s, int out_rank, int d)
{
    int i = d - (out_rank - s->rank);
    if (i < 0 || s->dims[i] == 1)
        return 0;
    return qn_shape_product(s, i + 1, s->rank);
}

void qn_cuda_merge_init(qn_cuda_merge *m, const qn_shape *out, int n,
                        const qn_shape *const *shapes)
{
    static const int64_t none[QN_CUDA_OPERANDS];
    m->n = n;
    m->rank = 0;
    m->total = qn_shape_product(out, 0, out->rank);
    for (int i = 0; i < out->rank && m->total; i++) {
        int64_t stride[QN_CUDA_OPERANDS] = { 0 };
        if (out->dims[i] == 1)
            continue;
        for (int k = 0; k < n; k++)
            stride[k] = stride_of(shapes[k], out->rank, i);
        push(m, out->dims[i], stride);
    }
    if (m->rank == 0)
        push(m, 1, none);
}

void qn_cuda_part_init(qn_cuda_part *p, const qn_cuda_merge *m, int64_t most)
{
    int64_t inner = 1;
    *p = (qn_cuda_part){ .m = m, .cut = m->rank - 1 };
    while (p->cut > 0 && inner * m->dims[p->cut] <= most)
        inner *= m->dims[p->cut--];
    p->chunk = most / inner;
    if (p->chunk > m->dims[p->cut])
        p->chunk = m->dims[p->cut];
}

bool qn_cuda_part_next(qn_cuda_part *p)
{
    const qn_cuda_merge *m = p->m;
    int64_t inner = 1, pieces, rest, row;
    if (!m->total)
        return false;
    for (int d = p->cut + 1; d < m->rank; d++)
        inner *= m->dims[d];
    pieces = (m->dims[p->cut] + p->chunk - 1) / p->chunk;
    rest = p->next / pieces;
    row = p->next % pieces * p->chunk;
    p->rows = m->dims[p->cut] - row;
    if (p->rows > p->chunk)
        p->rows = p->chunk;
    p->total = p->rows * inner;
    p->out_at = row * inner;
    for (int k = 0; k < m->n; k++)
        p->at[k] = row * m->stride[k][p->cut];
    inner *= m->dims[p->cut];
    for (int d = p->cut - 1; d >= 0; d--) {
        int64_t i = rest % m->dims[d];
        rest /= m->dims[d];
        p->out_at += i * inner;
        for (int k = 0; k < m->n; k++)
            p->at[k] += i * m->stride[k][d];
        inner *= m->dims[d];
    }
    p->next++;
    return rest == 0; /* else the outermost index is past its end */
}

static bool aligned(const void *data, int64_t at, size_t size, int width)
{
    return ((uintptr_t)data + (size_t)at * size) % (size * (size_t)width) == 0;
}

static bool can_vector(const qn_cuda_part *p, const void *const *data,
                       const size_t *size, int width)
{
    const qn_cuda_merge *m = p->m;
    int last = m->rank - 1;
    if (p->cut < last && m->dims[last] % width)
        return false;
    for (int k = 0; k < m->n; k++) {
        if (m->stride[k][last] == 0)
            continue;
        if (!aligned(data[k], p->at[k], size[k], width))
            return false;
        for (int d = p->cut; d < last; d++)
            if (m->stride[k][d] % width)
                return false;
    }
    return true;
}

void qn_cuda_part_walk(const qn_cuda_part *p, const void *const *data,
                       const size_t *size, const void *out, size_t out_size,
                       int width, struct qn_walk *walk)
{
    const qn_cuda_merge *m = p->m;
    *walk = (struct qn_walk){
        .total = (uint32_t)p->total,
        .rank = (uint32_t)(m->rank - p->cut),
        .vector = aligned(out, p->out_at, out_size, width) &&
                  can_vector(p, data, size, width),
    };
    walk->dims[0] = qn_fastdiv_of(p->rows);
    for (int d = p->cut + 1; d < m->rank; d++)
        walk->dims[d - p->cut] = qn_fastdiv_of(m->dims[d]);
}

void qn_cuda_part_operand(const qn_cuda_part *p, int k, const void *data,
                          size_t size, struct qn_operand *out)
{
    const qn_cuda_merge *m = p->m;
    *out = (struct qn_operand){
        .data = (const char *)data + (size_t)p->at[k] * size,
    };
    for (int d = p->cut; d < m->rank; d++)
        out->stride[d - p->cut] = (uint32_t)m->stride[k][d];
}

const char *qn_cuda_suffix(qn_dtype dtype)
{
    static const char *const names[QN_DTYPE_COUNT] = {
        [QN_F32] = "f32",   [QN_F64] = "f64",  [QN_F16] = "f16",
        [QN_BF16] = "bf16", [QN_I8] = "i8",    [QN_I16] = "i16",
        [QN_I32] = "i32",   [QN_I64] = "i64",  [QN_U8] = "u8",
        [QN_U16] = "u16",   [QN_U32] = "u32",  [QN_U64] = "u64",
        [QN_BOOL] = "u8",
    };
    return dtype < QN_DTYPE_COUNT ? names[dtype] : NULL;
}
