/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that move elements by rules known from shapes: Transpose, Concat,
 * Split, Expand, Tile, DepthToSpace, SpaceToDepth. Slice and Pad have files of
 * their own.
 */
#include "runtime/base/checked.h"
#include "runtime/ops/move.h"
#include "runtime/ops/tables.h"

#include <string.h>

void qn_strides(const qn_shape *shape, int64_t strides[QN_MAX_RANK])
{
    int64_t s = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        strides[i] = s;
        s *= shape->dims[i];
    }
}

/*
 * Depth C' is (by, bx, C) in mode DCR and (C, by, bx) in mode CRD; SpaceToDepth
 * makes the former. In the wide tensor [N, C, H, W], row h * b + by and column
 * w * b + bx: six loops n, c, h, by, w, bx on both sides.
 */
void qn_block_loops(const qn_node *node, const qn_shape *in,
                    const qn_shape *out, qn_copy_loop loops[QN_BLOCK_LOOPS])
{
    bool depth = !strcmp(node->op_name, "DepthToSpace");
    const qn_shape *wide = depth ? out : in, *deep = depth ? in : out;
    bool crd = depth && !strcmp(qn_node_string(node, "mode", "DCR"), "CRD");
    int64_t b = qn_node_int(node, "blocksize", 1), ws[QN_MAX_RANK],
            ds[QN_MAX_RANK], c = wide->dims[1];
    qn_strides(wide, ws);
    qn_strides(deep, ds);
    const struct {
        int64_t n, wide, deep;
    } rows[QN_BLOCK_LOOPS] = {
        { wide->dims[0], ws[0], ds[0] },
        { c, ws[1], crd ? ds[1] * b * b : ds[1] },
        { deep->dims[2], ws[2] * b, ds[2] },
        { b, ws[2], crd ? ds[1] * b : ds[1] * c * b },
        { deep->dims[3], ws[3] * b, ds[3] },
        { b, ws[3], crd ? ds[1] : ds[1] * c },
    };
    for (int i = 0; i < QN_BLOCK_LOOPS; i++)
        loops[i] = (qn_copy_loop){ rows[i].n,
                                   depth ? rows[i].deep : rows[i].wide,
                                   depth ? rows[i].wide : rows[i].deep };
}

/* ---- Transpose ---- */

qn_status qn_transpose_perm(const qn_node *node, int rank,
                            int perm[QN_MAX_RANK], qn_error *err)
{
    bool seen[QN_MAX_RANK] = { false };
    size_t n;
    const int64_t *want = qn_node_ints(node, "perm", &n);
    for (int i = 0; i < rank; i++)
        perm[i] = rank - 1 - i;
    if (!qn_node_attr(node, "perm"))
        return QN_OK;
    if (n != (size_t)rank)
        return qn_fail(err, QN_SHAPE, "perm has %zu entries, the input has rank "
                       "%d", n, rank);
    for (int i = 0; i < rank; i++) {
        if (want[i] < 0 || want[i] >= rank || seen[want[i]])
            return qn_fail(err, QN_INVALID, "perm[%d] = %lld is out of range or "
                           "listed twice", i, (long long)want[i]);
        perm[i] = (int)want[i];
        seen[perm[i]] = true;
    }
    return QN_OK;
}

static qn_status infer_transpose(const qn_infer *in, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    int perm[QN_MAX_RANK];
    qn_status st = qn_transpose_perm(in->node, from->rank, perm, err);
    if (st != QN_OK)
        return st;
    in->out[0].shape.rank = from->rank;
    for (int i = 0; i < from->rank; i++)
        in->out[0].shape.dims[i] = from->dims[perm[i]];
    return QN_OK;
}

/* ---- Concat ---- */

static qn_status check_concat(const qn_node *node, qn_error *err)
{
    if (node->op->since >= 4 && !qn_node_attr(node, "axis"))
        return qn_fail(err, QN_INVALID, "attribute axis is missing");
    return QN_OK;
}

static qn_status infer_concat(const qn_infer *in, qn_error *err)
{
    const qn_shape *first = &in->in[0].shape;
    qn_shape to = *first;
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    int axis;
    qn_status st = qn_axis(qn_node_int(in->node, "axis", 1), first->rank, &axis,
                           err);
    if (st != QN_OK)
        return st;
    for (uint32_t i = 1; i < in->n_in; i++) {
        const qn_shape *s = &in->in[i].shape;
        if (!qn_present(&in->in[i]))
            return qn_fail(err, QN_INVALID, "input %u is missing", i);
        bool fits = s->rank == to.rank;
        for (int d = 0; fits && d < to.rank; d++)
            fits = d == axis || s->dims[d] == to.dims[d];
        if (!fits)
            return qn_fail(err, QN_SHAPE, "input %u is %s, which does not join "
                           "%s along axis %d", i, qn_shape_text(s, a),
                           qn_shape_text(first, b), axis);
        if (!qn_add_i64(to.dims[axis], s->dims[axis], &to.dims[axis]))
            return qn_fail(err, QN_TOO_LARGE, "axis %d grows above 2^63", axis);
    }
    in->out[0].shape = to;
    return qn_check_output(in, 0, err);
}

/* ---- Split ---- */

/* Sizes given by attribute or input; *given false: equal parts. */
static qn_status split_sizes(const qn_infer *in, int64_t *sizes, bool *given,
                             qn_error *err)
{
    size_t n = 0;
    *given = false;
    if (in->node->op->since < 13) {
        const int64_t *ints = qn_node_ints(in->node, "split", &n);
        if (ints && n == in->n_out)
            memcpy(sizes, ints, n * sizeof *sizes);
    }
    if (in->n_in > 1 && qn_present(&in->in[1])) {
        const qn_tensor *t = &in->in[1];
        n = (size_t)qn_count(t);
        if (n == in->n_out && in->node->op->since >= 13) {
            qn_status st = qn_infer_ints(in, 1, sizes, n, &n, err);
            if (st != QN_OK)
                return st;
        } else if (n == in->n_out) {
            return qn_fail(err, QN_UNSUPPORTED, "split sizes as a float input "
                           "(opset 1)");
        }
        *given = true;
    }
    *given = *given || qn_node_attr(in->node, "split");
    if (*given && n != in->n_out)
        return qn_fail(err, QN_INVALID, "split lists %zu sizes for %u outputs", n,
                       in->n_out);
    return QN_OK;
}

static qn_status equal_parts(const qn_infer *in, int64_t dim, int64_t *sizes,
                             qn_error *err)
{
    int64_t n = (int64_t)in->n_out, part = dim / n + (dim % n != 0);
    int64_t last = dim - part * (n - 1);
    if (last < 0 || (in->node->op->since < 18 && last != part))
        return qn_fail(err, QN_SHAPE, "%lld does not split into %lld %sparts",
                       (long long)dim, (long long)n,
                       in->node->op->since < 18 ? "equal " : "");
    for (int64_t i = 0; i < n; i++)
        sizes[i] = i + 1 < n ? part : last;
    return QN_OK;
}

int64_t qn_split_size(const qn_node *node, uint32_t n_in, const qn_tensor *in,
                      int64_t dim, uint32_t n_out, uint32_t i)
{
    int64_t size, part = dim / n_out + (dim % n_out != 0);
    size_t n;
    const int64_t *ints = qn_node_ints(node, "split", &n);
    if (node->op->since < 13 && i < n)
        return ints[i];
    if (n_in > 1 && qn_present(&in[1])) {
        memcpy(&size, (const int64_t *)in[1].data + i, sizeof size);
        return size;
    }
    return i + 1 < n_out ? part : dim - part * (n_out - 1);
}

static qn_status infer_split_into(const qn_infer *in, int64_t *sizes,
                                  qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    const qn_attr *count = qn_node_attr(in->node, "num_outputs");
    int64_t sum = 0;
    bool given;
    int axis;
    qn_status st = qn_axis(qn_node_int(in->node, "axis", 0), from->rank, &axis,
                           err);
    if (st == QN_OK)
        st = split_sizes(in, sizes, &given, err);
    if (st != QN_OK)
        return st;
    if (count && count->i != (int64_t)in->n_out)
        return qn_fail(err, QN_INVALID, "num_outputs is %lld, the node has %u",
                       (long long)count->i, in->n_out);
    if (!given)
        st = equal_parts(in, from->dims[axis], sizes, err);
    if (st != QN_OK)
        return st;
    for (uint32_t i = 0; i < in->n_out; i++) {
        if (sizes[i] < 0 || !qn_add_i64(sum, sizes[i], &sum))
            return qn_fail(err, QN_INVALID, "size %u of split is %lld", i,
                           (long long)sizes[i]);
        in->out[i].shape = *from;
        in->out[i].shape.dims[axis] = sizes[i];
    }
    if (sum != from->dims[axis])
        return qn_fail(err, QN_SHAPE, "split sizes sum to %lld, axis %d has %lld",
                       (long long)sum, axis, (long long)from->dims[axis]);
    return QN_OK;
}

static qn_status infer_split(const qn_infer *in, qn_error *err)
{
    int64_t few[64], *sizes = few;
    if (in->n_out > sizeof few / sizeof few[0]) {
        sizes = qn_calloc(in->n_out, sizeof *sizes);
        if (!sizes)
            return qn_fail(err, QN_NO_MEMORY, "no memory for %u sizes", in->n_out);
    }
    qn_status st = infer_split_into(in, sizes, err);
    if (sizes != few)
        qn_free(sizes);
    return st;
}

/* ---- Expand, Tile ---- */

static qn_status infer_expand(const qn_infer *in, qn_error *err)
{
    qn_shape want = { 0 };
    size_t n;
    qn_status st = qn_infer_ints(in, 1, want.dims, QN_MAX_RANK, &n, err);
    if (st != QN_OK)
        return st;
    want.rank = (int32_t)n;
    for (int i = 0; i < want.rank; i++)
        if (want.dims[i] < 0)
            return qn_fail(err, QN_INVALID, "the shape to expand to has %lld at "
                           "axis %d", (long long)want.dims[i], i);
    st = qn_shape_broadcast(&in->in[0].shape, &want, &in->out[0].shape, err);
    return st == QN_OK ? qn_check_output(in, 0, err) : st;
}

static qn_status tile_by(const qn_infer *in, const int64_t *repeats,
                         qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    qn_shape to = { .rank = from->rank };
    for (int i = 0; i < from->rank; i++) {
        if (repeats[i] < 0)
            return qn_fail(err, QN_INVALID, "repeats[%d] = %lld is negative", i,
                           (long long)repeats[i]);
        if (!qn_mul_i64(from->dims[i], repeats[i], &to.dims[i]))
            return qn_fail(err, QN_TOO_LARGE, "axis %d: %lld x %lld is above "
                           "2^63", i, (long long)from->dims[i],
                           (long long)repeats[i]);
    }
    in->out[0].shape = to;
    return qn_check_output(in, 0, err);
}

static qn_status infer_tile(const qn_infer *in, qn_error *err)
{
    int64_t repeats[QN_MAX_RANK];
    size_t n;
    qn_status st = qn_infer_ints(in, 1, repeats, QN_MAX_RANK, &n, err);
    if (st != QN_OK)
        return st;
    if (n != (size_t)in->in[0].shape.rank)
        return qn_fail(err, QN_SHAPE, "%zu repeats for an input of rank %d", n,
                       in->in[0].shape.rank);
    return tile_by(in, repeats, err);
}

/* Opset 1: how often, and along which axis, as two scalars of the data's type. */
static qn_status infer_tile_axis(const qn_infer *in, qn_error *err)
{
    int64_t repeats[QN_MAX_RANK];
    double tiles, at;
    int axis;
    qn_status st = qn_read_scalar(in, 1, &tiles, err);
    if (st == QN_OK)
        st = qn_read_scalar(in, 2, &at, err);
    if (st != QN_OK)
        return st;
    if (!(tiles >= 0 && tiles < 0x1p62) || !(at >= 0 && at < QN_MAX_RANK))
        return qn_fail(err, QN_RANGE, "%g tiles along axis %g", tiles, at);
    st = qn_axis((int64_t)at, in->in[0].shape.rank, &axis, err);
    if (st != QN_OK)
        return st;
    for (int i = 0; i < QN_MAX_RANK; i++)
        repeats[i] = i == axis ? (int64_t)tiles : 1;
    return tile_by(in, repeats, err);
}

/* ---- DepthToSpace, SpaceToDepth ---- */

enum { MAX_BLOCK = 1 << 20 }; /* its square must fit */

static qn_status check_block(const qn_node *node, qn_error *err)
{
    int64_t b = qn_node_int(node, "blocksize", 0);
    const char *mode = qn_node_string(node, "mode", "DCR");
    if (b < 1 || b > MAX_BLOCK)
        return qn_fail(err, QN_INVALID, "blocksize is %lld", (long long)b);
    if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
        return qn_fail(err, QN_INVALID, "mode '%.40s' is neither DCR nor CRD",
                       mode);
    return QN_OK;
}

static qn_status infer_block(const qn_infer *in, qn_error *err)
{
    const qn_shape *from = &in->in[0].shape;
    int64_t b = qn_node_int(in->node, "blocksize", 1);
    bool depth = !strcmp(in->node->op_name, "DepthToSpace");
    char text[QN_SHAPE_TEXT];
    if (from->rank != 4)
        return qn_fail(err, QN_SHAPE, "the input has rank %d, expected 4",
                       from->rank);
    qn_shape to = *from;
    bool fits = depth ? from->dims[1] % (b * b) == 0
                      : from->dims[2] % b == 0 && from->dims[3] % b == 0;
    if (!fits)
        return qn_fail(err, QN_SHAPE, "%s does not divide by blocksize %lld",
                       qn_shape_text(from, text), (long long)b);
    if (depth) {
        to.dims[1] /= b * b;
        fits = qn_mul_i64(to.dims[2], b, &to.dims[2]) &&
               qn_mul_i64(to.dims[3], b, &to.dims[3]);
    } else {
        to.dims[2] /= b;
        to.dims[3] /= b;
        fits = qn_mul_i64(to.dims[1], b * b, &to.dims[1]);
    }
    if (!fits)
        return qn_fail(err, QN_TOO_LARGE, "%s by blocksize %lld is too large",
                       qn_shape_text(from, text), (long long)b);
    in->out[0].shape = to;
    return qn_check_output(in, 0, err);
}

#define ROW(NAME, SINCE, UNTIL, MIN, MAX, TYPES, ...)                          \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL,              \
      .min_in = MIN, .max_in = MAX, .min_out = 1, .max_out = 1,                \
      .types = { TYPES }, __VA_ARGS__ }
#define SHAPED(NAME, SINCE, UNTIL, TYPES, INFER)                               \
    { .domain = "", .name = NAME, .since = SINCE, .until = UNTIL, .min_in = 2, \
      .max_in = 2, .min_out = 1, .max_out = 1, .value_in = 1u << 1,            \
      .types = { TYPES, QN_BIT(I64) }, .infer = INFER }
#define CONCAT(SINCE, UNTIL, TYPES)                                            \
    ROW("Concat", SINCE, UNTIL, 1, QN_VARIADIC, TYPES,                         \
        .flags = QN_OP_SAME_TYPE, .check = check_concat, .infer = infer_concat)
#define SPLIT(SINCE, UNTIL, MAX, VALUES, ...)                                  \
    { .domain = "", .name = "Split", .since = SINCE, .until = UNTIL,           \
      .min_in = 1, .max_in = MAX, .min_out = 1, .max_out = QN_VARIADIC,        \
      .value_in = VALUES, .types = { __VA_ARGS__ }, .infer = infer_split }
#define BLOCK(NAME, SINCE, UNTIL, TYPES)                                       \
    ROW(NAME, SINCE, UNTIL, 1, 1, TYPES, .check = check_block,                 \
        .infer = infer_block)
#define TRANSPOSE(SINCE, UNTIL, TYPES)                                         \
    ROW("Transpose", SINCE, UNTIL, 1, 1, TYPES, .infer = infer_transpose)

static const qn_op rows[] = {
    TRANSPOSE(1, 12, QN_TYPES_CLASSIC),
    TRANSPOSE(13, 20, QN_TYPES_V13),
    TRANSPOSE(21, 22, QN_TYPES_V21),
    TRANSPOSE(23, 23, QN_TYPES_V23),
    TRANSPOSE(24, 24, QN_TYPES_V24),
    TRANSPOSE(25, QN_OPSET_MAX, QN_TYPES_V25),
    CONCAT(1, 3, QN_TYPES_IEEE),
    CONCAT(4, 10, QN_TYPES_CLASSIC),
    CONCAT(11, 12, QN_TYPES_CLASSIC),
    CONCAT(13, QN_OPSET_MAX, QN_TYPES_V13),
    SPLIT(1, 1, 2, 0, QN_TYPES_IEEE),
    SPLIT(2, 10, 1, 0, QN_TYPES_CLASSIC),
    SPLIT(11, 12, 1, 0, QN_TYPES_CLASSIC),
    SPLIT(13, 17, 2, 1u << 1, QN_TYPES_V13, QN_BIT(I64)),
    SPLIT(18, QN_OPSET_MAX, 2, 1u << 1, QN_TYPES_V13, QN_BIT(I64)),
    SHAPED("Expand", 8, 12, QN_TYPES_CLASSIC, infer_expand),
    SHAPED("Expand", 13, QN_OPSET_MAX, QN_TYPES_V13, infer_expand),
    ROW("Tile", 1, 5, 3, 3, QN_TYPES_IEEE, .flags = QN_OP_SAME_TYPE,
        .value_in = 3u << 1, .infer = infer_tile_axis),
    SHAPED("Tile", 6, 12, QN_TYPES_CLASSIC, infer_tile),
    SHAPED("Tile", 13, QN_OPSET_MAX, QN_TYPES_V13, infer_tile),
    BLOCK("DepthToSpace", 1, 10, QN_TYPES_CLASSIC),
    BLOCK("DepthToSpace", 11, 12, QN_TYPES_CLASSIC),
    BLOCK("DepthToSpace", 13, QN_OPSET_MAX, QN_TYPES_V13),
    BLOCK("SpaceToDepth", 1, 12, QN_TYPES_CLASSIC),
    BLOCK("SpaceToDepth", 13, QN_OPSET_MAX, QN_TYPES_V13),
};

QN_OP_TABLE(qn_ops_move, rows);
