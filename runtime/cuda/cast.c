/* SPDX-License-Identifier: Apache-2.0 */
/* Cast, CastLike, BitCast; strings stay on the cpu. */
#include "runtime/cuda/kernels/cast.h"

#include "runtime/cuda/tables.h"
#include "runtime/cuda/walk.h"

#include <stdio.h>
#include <string.h>

typedef struct state {
    const qn_cuda_fn *fn; /* NULL: the bytes are the same */
    qn_cuda_grid grid;
    bool wrap;
    int round; /* as CV_UP ... of kernels/convert.h */
} state;

static const struct {
    qn_dtype from, to;
    const char *name;
} pairs[] = {
    { QN_F32, QN_F16, "cast_f32_f16" },   { QN_F32, QN_BF16, "cast_f32_bf16" },
    { QN_F16, QN_F32, "cast_f16_f32" },   { QN_BF16, QN_F32, "cast_bf16_f32" },
    { QN_F32, QN_I64, "cast_f32_i64" },   { QN_F32, QN_I32, "cast_f32_i32" },
    { QN_I64, QN_F32, "cast_i64_f32" },   { QN_I64, QN_I32, "cast_i64_i32" },
    { QN_I32, QN_I64, "cast_i32_i64" },   { QN_I32, QN_F32, "cast_i32_f32" },
    { QN_U8, QN_F32, "cast_u8_f32" },     { QN_F32, QN_U8, "cast_f32_u8" },
    { QN_BOOL, QN_F32, "cast_bool_f32" },
};

static const char *kernel_name(qn_dtype from, qn_dtype to)
{
    const qn_dtypes ints = QN_TYPES_INT | QN_BIT(BOOL) | QN_BIT(U4) |
                           QN_BIT(I4) | QN_BIT(U2) | QN_BIT(I2);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (pairs[i].from == from && pairs[i].to == to)
            return pairs[i].name;
    return from == QN_F64              ? "cast_double"
           : qn_dtypes_has(ints, from) ? "cast_int"
                                       : "cast_float";
}

static qn_status prepare_as(qn_prepare *p, const char *name, qn_error *err)
{
    const char *round = qn_node_string(p->node, "round_mode", "up");
    state *s = qn_region_alloc(p->region, 1, sizeof *s);
    if (!s)
        return qn_fail(err, QN_NO_MEMORY, "no memory for a kernel's state");
    s->wrap = !qn_node_int(p->node, "saturate", 1);
    s->round = !strcmp(round, "down") ? 1 : !strcmp(round, "nearest") ? 2 : 0;
    s->grid = qn_cuda_walk_grid(p->accel, qn_count(&p->in[0]), QN_CAST_WIDTH);
    p->state = s;
    return name ? qn_cuda_find(p->accel, "cast", name, &s->fn, err) : QN_OK;
}

static qn_status prepare_cast(qn_prepare *p, qn_error *err)
{
    qn_dtype from = p->in[0].dtype, to = p->out[0].dtype;
    return prepare_as(p, from == to ? NULL : kernel_name(from, to), err);
}

/* Types that not every byte is an element of. */
static qn_status prepare_bits(qn_prepare *p, qn_error *err)
{
    qn_dtype to = p->out[0].dtype;
    bool settle = to == QN_BOOL || qn_dtype_file_bits(to) < 8;
    return prepare_as(p, settle ? "cast_settle" : NULL, err);
}

static qn_status launch(const qn_launch *k)
{
    const state *s = k->state;
    const qn_tensor *x = &k->in[0], *y = &k->out[0];
    const qn_shape *shape = &x->shape;
    const void *data = x->data;
    const size_t in = qn_dtype_size(x->dtype), out = qn_dtype_size(y->dtype);
    struct qn_cast_args a = { .from = (int32_t)x->dtype,
                              .to = (int32_t)y->dtype,
                              .wrap = s->wrap,
                              .round = s->round };
    qn_status st = QN_OK;
    qn_cuda_merge m;
    qn_cuda_part p;
    if (!s->fn)
        return x->data == y->data
                   ? QN_OK
                   : qn_cuda_copy(k, y->data, x->data,
                                  (size_t)qn_count(x) * in);
    qn_cuda_merge_init(&m, shape, 1, &shape);
    qn_cuda_part_init(&p, &m, QN_WALK_MOST);
    while (st == QN_OK && qn_cuda_part_next(&p)) {
        qn_cuda_part_walk(&p, &data, &in, y->data, out, QN_CAST_WIDTH, &a.walk);
        qn_cuda_part_operand(&p, 0, data, in, &a.x);
        a.y = qn_cuda_part_out(&p, y->data, out);
        st = qn_cuda_launch(k, s->fn, &s->grid, &a);
    }
    return st;
}

static bool to_number(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    const qn_attr *to = qn_node_attr(node, "to");
    (void)n_in;
    /* the older form of the attribute, a name, knows no strings */
    return in[0] != QN_STRING &&
           !(to && to->kind == QN_ATTR_INT && to->i == QN_STRING);
}

static bool like_number(const qn_node *node, uint32_t n_in, const qn_dtype *in)
{
    (void)node, (void)n_in;
    return in[0] != QN_STRING && in[1] != QN_STRING;
}

static const qn_kernel rows[] = {
    { .name = "Cast", .domain = "", .since = 1, .until = UINT16_MAX,
      .supports = to_number, .prepare = prepare_cast, .launch = launch },
    { .name = "CastLike", .domain = "", .since = 15, .until = UINT16_MAX,
      .supports = like_number, .prepare = prepare_cast, .launch = launch },
    { .name = "BitCast", .domain = "", .since = 26, .until = UINT16_MAX,
      .prepare = prepare_bits, .launch = launch },
};

QN_KERNEL_TABLE(qn_cuda_cast, rows);
