/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/packed.h"

#include "runtime/ops/op.h"

#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

/* Elements of 4-byte or other size, N C H W <-> N H W C. */
static void *reorder(test_node *t, const qn_tensor *x, const void *data,
                     bool to_last)
{
    const int64_t *d = x->shape.dims;
    size_t size = qn_dtype_size(x->dtype), n = (size_t)qn_count(x);
    const int64_t c = d[1], hw = d[2] * d[3];
    char *dst = qn_region_alloc(&t->region, n + 1, size);
    assert_non_null(dst);
    for (int64_t b = 0; b < d[0]; b++)
        for (int64_t i = 0; i < c; i++)
            for (int64_t p = 0; p < hw; p++) {
                size_t plain = (size_t)((b * c + i) * hw + p);
                size_t last = (size_t)((b * hw + p) * c + i);
                memcpy(dst + (to_last ? last : plain) * size,
                       (const char *)data + (to_last ? plain : last) * size,
                       size);
            }
    return dst;
}

static qn_shape physical(const qn_shape *s)
{
    return qn_shape_make(4, (int64_t[]){ s->dims[0], s->dims[2], s->dims[3],
                                         s->dims[1] });
}

qn_status test_node_run_packed(test_node *t, uint32_t constants)
{
    const bool last = t->node.order == QN_ORDER_NHWC;
    const bool plain_in = qn_node_int(&t->node, "qn_plain_input", 0) != 0;
    qn_tensor in[TEST_MAX_ARGS], shapes[TEST_MAX_ARGS], out[TEST_MAX_ARGS];
    const void *packed[TEST_MAX_ARGS] = { 0 };
    const qn_kernel *kernel;
    qn_status st = qn_eval_infer(&t->node, t->in, t->out, &t->err);
    if (st == QN_OK)
        st = qn_eval_kernel(&t->node, t->in, &kernel, &t->err);
    if (st != QN_OK)
        return st;
    for (uint32_t i = 0; i < t->node.n_in; i++) {
        in[i] = shapes[i] = t->in[i];
        if (!(constants >> i & 1)) {
            shapes[i].data = NULL;
            shapes[i].shape = (qn_shape){ .rank = -1 };
        }
    }
    for (uint32_t i = 0; i < t->node.n_in; i++) {
        size_t bytes = constants >> i & 1 && kernel->pack_size
                           ? kernel->pack_size(&t->node, t->node.n_in, shapes, i)
                           : 0;
        if (bytes) {
            void *dst = qn_region_alloc(&t->region, bytes, 1);
            assert_non_null(dst);
            st = kernel->pack(&t->node, t->node.n_in, shapes, i, dst, &t->err);
            if (st != QN_OK)
                return st;
            packed[i] = dst;
            in[i].data = NULL;
        } else if (last && in[i].shape.rank == 4 && i != 1 &&
                   !(i == 0 && plain_in)) {
            in[i].data = reorder(t, &t->in[i], t->in[i].data, true);
            in[i].shape = physical(&in[i].shape);
        }
    }
    for (uint32_t i = 0; i < t->node.n_out; i++) {
        size_t n = (size_t)qn_count(&t->out[i]);
        out[i] = t->out[i];
        if (last && out[i].shape.rank == 4)
            out[i].shape = physical(&out[i].shape);
        out[i].data = qn_region_alloc(&t->region, n + 1,
                                      qn_dtype_size(out[i].dtype) + 1);
        assert_non_null(out[i].data);
    }
    qn_prepare p = { .node = &t->node, .n_in = t->node.n_in,
                     .n_out = t->node.n_out, .in = in, .out = out,
                     .packed = packed, .max_threads = 3,
                     .region = &t->region };
    if (kernel->prepare && (st = kernel->prepare(&p, &t->err)) != QN_OK)
        return st;
    char *ws = qn_region_alloc(&t->region, p.workspace + 128, 1);
    assert_non_null(ws);
    memset(ws, 0xff, p.workspace + 64);
    st = kernel->launch(&(qn_launch){
        .node = &t->node, .state = p.state, .n_in = t->node.n_in,
        .n_out = t->node.n_out, .in = in, .out = out, .packed = packed,
        .workspace = ws, .strings = &t->strings, .err = &t->err });
    for (size_t i = 0; i < 64; i++)
        if ((unsigned char)ws[p.workspace + i] != 0xff)
            fail_msg("%s wrote past its workspace", t->node.op_name);
    for (uint32_t i = 0; st == QN_OK && i < t->node.n_out; i++)
        t->out[i].data = last && t->out[i].shape.rank == 4
                             ? reorder(t, &t->out[i], out[i].data, false)
                             : out[i].data;
    return st;
}
