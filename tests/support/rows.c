/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/rows.h"

#include "runtime/base/half.h"
#include "runtime/ops/op.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

double test_filler(int64_t i)
{
    return (double)((i * 37 + i / 23 * 5 + 11) % 23 - 11) / 4;
}

double test_value(const qn_tensor *t, int64_t i)
{
    switch (t->dtype) {
#define READ(name, type) \
    case QN_##name:      \
        return (double)((const type *)t->data)[i];
        READ(F32, float)
        READ(F64, double)
        READ(I8, int8_t)
        READ(I16, int16_t)
        READ(I32, int32_t)
        READ(I64, int64_t)
        READ(U8, uint8_t)
        READ(U16, uint16_t)
        READ(U32, uint32_t)
        READ(U64, uint64_t)
        READ(BOOL, uint8_t)
#undef READ
    case QN_F16:
        return (double)qn_f16_to_f32(((const uint16_t *)t->data)[i]);
    case QN_BF16:
        return (double)qn_bf16_to_f32(((const uint16_t *)t->data)[i]);
    default:
        fail_msg("no values of type %s in these tests",
                 qn_dtype_name(t->dtype));
        return 0;
    }
}

static void write_element(const qn_tensor *t, int64_t i, double v)
{
    switch (t->dtype) {
#define WRITE(name, type)               \
    case QN_##name:                     \
        ((type *)t->data)[i] = (type)v; \
        break;
        WRITE(F32, float)
        WRITE(F64, double)
        WRITE(I8, int8_t)
        WRITE(I16, int16_t)
        WRITE(I32, int32_t)
        WRITE(I64, int64_t)
        WRITE(U8, uint8_t)
        WRITE(U16, uint16_t)
        WRITE(U32, uint32_t)
        WRITE(U64, uint64_t)
        WRITE(BOOL, uint8_t)
#undef WRITE
    case QN_F16:
        ((uint16_t *)t->data)[i] = qn_f64_to_f16(v);
        break;
    case QN_BF16:
        ((uint16_t *)t->data)[i] = qn_f64_to_bf16(v);
        break;
    default:
        fail_msg("no values of type %s in these tests",
                 qn_dtype_name(t->dtype));
    }
}

static qn_dtype type_named(const char *s, size_t len)
{
    static const struct {
        const char *name;
        qn_dtype dtype;
    } names[] = {
        { "f32", QN_F32 },   { "f64", QN_F64 }, { "f16", QN_F16 },
        { "i8", QN_I8 },     { "i16", QN_I16 }, { "i32", QN_I32 },
        { "i64", QN_I64 },   { "u8", QN_U8 },   { "u16", QN_U16 },
        { "u32", QN_U32 },   { "u64", QN_U64 }, { "bool", QN_BOOL },
        { "bf16", QN_BF16 },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == len && !memcmp(names[i].name, s, len))
            return names[i].dtype;
    fail_msg("no type in \"%s\"", s);
    return QN_NONE;
}

/* Integers have no quarters: the filler is counted in them. */
static double filler(qn_dtype dtype, int64_t i)
{
    double v = test_filler(i);
    if (dtype == QN_BOOL)
        return v > 0;
    if (qn_dtypes_has(QN_TYPES_UNSIGNED, dtype))
        return 4 * v + 11;
    return qn_dtypes_has(QN_TYPES_SIGNED, dtype) ? 4 * v : v;
}

qn_tensor test_row_tensor(qn_region *region, const char *text)
{
    qn_tensor t = { 0 };
    if (!*text)
        return t;
    size_t len = strcspn(text, " ");
    t.dtype = type_named(text, len);
    const char *p = text + len;
    while (*p == ' ' || *p == ',') {
        char *end;
        long long d = strtoll(p + 1, &end, 10);
        if (end == p + 1)
            break;
        t.shape.dims[t.shape.rank++] = d;
        p = end;
    }
    p += strspn(p, " ");
    int64_t n = qn_count(&t);
    t.data = qn_region_alloc(region, (size_t)n + 1, qn_dtype_size(t.dtype));
    assert_non_null(t.data);
    if (*p != ':') {
        for (int64_t i = 0; i < n; i++)
            write_element(&t, i, filler(t.dtype, i));
        return t;
    }
    p++;
    for (int64_t i = 0; i < n; i++) {
        char *end;
        double v = strtod(p, &end);
        if (end == p)
            fail_msg("value %lld is missing in \"%s\"", (long long)i, text);
        write_element(&t, i, v);
        p = end;
    }
    if (p[strspn(p, " ")])
        fail_msg("more than %lld values in \"%s\"", (long long)n, text);
    return t;
}

static void add_list(test_node *t, const char *name, const char *p)
{
    int64_t list[32], *kept;
    size_t n = 0;
    while (*p != ']') {
        char *end;
        assert_true(n < 32);
        list[n++] = strtoll(p + 1, &end, 10);
        if (end == p + 1) { /* [] */
            n--;
            end++;
        }
        p = end;
    }
    kept = qn_region_alloc(&t->region, n + 1, sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, list, n * sizeof *kept);
    test_node_ints(t, name, n, kept);
}

void test_node_attrs(test_node *t, const char *attrs)
{
    const char *p = attrs ? attrs : "";
    while (*(p += strspn(p, " "))) {
        size_t name_len = strcspn(p, "="), len;
        const char *name = qn_region_strndup(&t->region, p, name_len);
        p += name_len + 1;
        len = strcspn(p, " ");
        const char *value = qn_region_strndup(&t->region, p, len);
        char *end;
        assert_non_null(value);
        long long whole = strtoll(value, &end, 10);
        if (*value == '[')
            add_list(t, name, value);
        else if (!*end)
            test_node_int(t, name, whole);
        else if (strtod(value, &end), !*end)
            test_node_float(t, name, strtof(value, NULL));
        else
            test_node_string(t, name, value);
        p += len;
    }
}

static uint32_t count(const char *const list[TEST_ROW_ARGS])
{
    uint32_t n = 0;
    while (n < TEST_ROW_ARGS && list[n])
        n++;
    return n;
}

static void compare(const test_row *row, size_t number, uint32_t k,
                    const qn_tensor *got, const qn_tensor *want)
{
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    if (got->dtype != want->dtype || !qn_shape_equal(&got->shape, &want->shape))
        fail_msg("row %zu %s %s: output %u is %s %s, expected %s %s", number,
                 row->op, row->attrs ? row->attrs : "", k,
                 qn_dtype_name(got->dtype), qn_shape_text(&got->shape, a),
                 qn_dtype_name(want->dtype), qn_shape_text(&want->shape, b));
    for (int64_t i = 0; i < qn_count(want); i++) {
        double g = test_value(got, i), w = test_value(want, i);
        if (g == w || (isnan(g) && isnan(w)))
            continue;
        if (!(fabs(g - w) <= row->atol + row->rtol * fabs(w)))
            fail_msg(
                "row %zu %s %s: output %u index %lld is %.9g, expected %.9g",
                number, row->op, row->attrs ? row->attrs : "", k, (long long)i,
                g, w);
    }
}

static void run_row(const test_row *row, size_t number)
{
    test_node t;
    uint32_t n_in = count(row->in), n_out = count(row->out);
    test_node_init(&t, row->op, row->opset, n_in, n_out ? n_out : 1);
    test_node_attrs(&t, row->attrs);
    for (uint32_t i = 0; i < n_in; i++)
        t.in[i] = test_row_tensor(&t.region, row->in[i]);
    qn_status st = test_node_run(&t);
    if (row->says ? st != row->status || !strstr(t.err.text, row->says)
                  : st != QN_OK)
        fail_msg("row %zu %s %s: status %s, \"%s\"", number, row->op,
                 row->attrs ? row->attrs : "", qn_status_name(st), t.err.text);
    for (uint32_t k = 0; st == QN_OK && k < n_out; k++) {
        qn_tensor want = test_row_tensor(&t.region, row->out[k]);
        if (qn_present(&want))
            compare(row, number, k, &t.out[k], &want);
    }
    test_node_release(&t);
}

void test_rows_run(const test_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_row(&rows[i], i);
}

/* dst = src with channels moved to the end, or back. */
static qn_tensor transposed(const qn_tensor *src, bool to_last,
                            qn_region *region)
{
    const int64_t *d = src->shape.dims;
    int64_t c = d[to_last ? 1 : 3], s = to_last ? d[2] * d[3] : d[1] * d[2];
    qn_tensor t = *src;
    t.shape = to_last ? qn_shape_make(4, (int64_t[]){ d[0], d[2], d[3], d[1] })
                      : qn_shape_make(4, (int64_t[]){ d[0], d[3], d[1], d[2] });
    size_t size = qn_dtype_size(t.dtype);
    t.data = qn_region_alloc(region, (size_t)qn_count(src) + 1, size);
    assert_non_null(t.data);
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t i = 0; i < c; i++)
            for (int64_t j = 0; j < s; j++) {
                size_t plain = (size_t)((n * c + i) * s + j) * size;
                size_t last = (size_t)((n * s + j) * c + i) * size;
                memcpy((char *)t.data + (to_last ? last : plain),
                       (const char *)src->data + (to_last ? plain : last),
                       size);
            }
    return t;
}

qn_status test_node_run_nhwc(test_node *t)
{
    qn_node *node = &t->node;
    const qn_kernel *kernel;
    qn_tensor in[TEST_MAX_ARGS];
    const void *packed[TEST_MAX_ARGS] = { NULL };
    qn_status st = qn_eval_infer(node, t->in, t->out, &t->err);
    if (st == QN_OK)
        st = qn_eval_kernel(node, t->in, &kernel, &t->err);
    if (st != QN_OK)
        return st;
    if (!(kernel->flags & QN_KERNEL_NHWC))
        fail_msg("%s: the kernel does not take channels last", node->op_name);
    node->order = QN_ORDER_NHWC;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = t->in[i].shape.rank == 4
                    ? transposed(&t->in[i], true, &t->region)
                    : t->in[i];
    for (uint32_t i = 0; i < node->n_out; i++) {
        size_t count_out = (size_t)qn_count(&t->out[i]) + 1;
        t->out[i].data = qn_region_alloc(&t->region, count_out,
                                         qn_dtype_size(t->out[i].dtype));
        assert_non_null(t->out[i].data);
        const int64_t *d = t->out[i].shape.dims;
        if (t->out[i].shape.rank == 4)
            t->out[i].shape =
                qn_shape_make(4, (int64_t[]){ d[0], d[2], d[3], d[1] });
    }
    qn_prepare p = { .node = node,
                     .n_in = node->n_in,
                     .n_out = node->n_out,
                     .in = in,
                     .out = t->out,
                     .packed = packed,
                     .max_threads = 1,
                     .region = &t->region };
    if (kernel->prepare && (st = kernel->prepare(&p, &t->err)) != QN_OK)
        return st;
    void *workspace = qn_region_alloc(&t->region, p.workspace + 1, 1);
    assert_non_null(workspace);
    st = kernel->launch(&(qn_launch){ .node = node,
                                      .state = p.state,
                                      .n_in = node->n_in,
                                      .n_out = node->n_out,
                                      .in = in,
                                      .out = t->out,
                                      .packed = packed,
                                      .workspace = workspace,
                                      .err = &t->err });
    for (uint32_t i = 0; st == QN_OK && i < node->n_out; i++)
        if (t->out[i].shape.rank == 4)
            t->out[i] = transposed(&t->out[i], false, &t->region);
    return st;
}
