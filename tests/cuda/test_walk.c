/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How elementwise launches are merged and cut, without a device: every output
 * element is visited once, and each operand is read where NumPy's rule says,
 * however small the parts are. Kernels index as walk_offsets() does below.
 */
#include "runtime/cuda/walk.c" /* the plug-in's inside: tests cannot link it */

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

qn_cuda_grid qn_cuda_grid_stride(const qn_accel *accel, int64_t n, int each,
                                 int threads, int waves)
{
    (void)accel, (void)n, (void)each, (void)threads, (void)waves;
    return (qn_cuda_grid){ { 0 }, { 0 }, 0 };
}

typedef struct dims {
    int rank;
    int64_t d[5];
} dims;

static const struct {
    dims out, in[3];
    int rank; /* after merging */
} rows[] = {
    { { 0, { 0 } }, { { 0, { 0 } }, { 0, { 0 } }, { 0, { 0 } } }, 1 },
    { { 2, { 4, 9 } }, { { 2, { 4, 9 } }, { 2, { 4, 9 } }, { 0, { 0 } } }, 1 },
    { { 2, { 4, 9 } }, { { 2, { 4, 9 } }, { 1, { 9 } }, { 2, { 4, 1 } } }, 2 },
    { { 4, { 2, 5, 4, 4 } },
      { { 4, { 2, 5, 4, 4 } }, { 3, { 5, 1, 1 } }, { 4, { 1, 5, 1, 1 } } },
      3 },
    { { 5, { 2, 3, 1, 4, 6 } },
      { { 5, { 2, 1, 1, 4, 1 } }, { 5, { 1, 3, 1, 1, 6 } }, { 1, { 1 } } },
      4 },
    { { 3, { 5, 6, 7 } }, { { 3, { 5, 1, 7 } }, { 2, { 6, 1 } }, { 0, { 0 } } },
      3 },
    { { 2, { 0, 3 } }, { { 1, { 3 } }, { 0, { 0 } }, { 0, { 0 } } }, 1 },
};

/* Where operand `in` is read for output element `at`. */
static int64_t expected(const dims *out, const dims *in, int64_t at)
{
    int64_t off = 0, step = 1;
    for (int i = 0; i < out->rank; i++) {
        int64_t here = at % out->d[out->rank - 1 - i];
        at /= out->d[out->rank - 1 - i];
        if (i < in->rank && in->d[in->rank - 1 - i] != 1)
            off += here * step;
        if (i < in->rank)
            step *= in->d[in->rank - 1 - i];
    }
    return off;
}

static uint32_t offset(const struct qn_walk *w, const struct qn_operand *op,
                       uint32_t at)
{
    uint32_t off = 0;
    for (uint32_t d = w->rank - 1; d > 0; d--) {
        uint32_t up = qn_fastdiv32(&w->dims[d], at);
        off += (at - up * (uint32_t)w->dims[d].divisor) * op->stride[d];
        at = up;
    }
    return off + at * op->stride[0];
}

static void walk_part(size_t r, const qn_cuda_part *p, int width, char *seen)
{
    static char memory[4096];
    const void *data[3] = { memory, memory, memory };
    const size_t size[3] = { 1, 1, 1 };
    struct qn_walk w;
    char *out = memory;
    qn_cuda_part_walk(p, data, size, out, 1, width, &w);
    int64_t first = (char *)qn_cuda_part_out(p, out, 1) - out;
    for (uint32_t i = 0; i < w.total; i++) {
        if (seen[first + i]++)
            fail_msg("row %zu: element %lld twice", r, (long long)(first + i));
        for (int k = 0; k < 3; k++) {
            struct qn_operand op;
            qn_cuda_part_operand(p, k, data[k], 1, &op);
            int64_t got = (const char *)op.data - memory +
                          (int64_t)offset(&w, &op, i);
            int64_t want = expected(&rows[r].out, &rows[r].in[k], first + i);
            if (got != want)
                fail_msg("row %zu, operand %d, element %lld: at %lld, expected "
                         "%lld",
                         r, k, (long long)(first + i), (long long)got,
                         (long long)want);
            /* a vector is one run, or one element over and over */
            if (w.vector && i % (uint32_t)width && w.rank > 1 &&
                got - (int64_t)op.stride[w.rank - 1] !=
                    expected(&rows[r].out, &rows[r].in[k], first + i - 1))
                fail_msg("row %zu, operand %d: a vector is cut at %u", r, k, i);
        }
    }
}

static void test_parts(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (int64_t most = 1; most < 200; most += most < 20 ? 1 : 37) {
            const dims *o = &rows[r].out;
            qn_shape out = qn_shape_make(o->rank, o->d), in[3];
            const qn_shape *shapes[3] = { &in[0], &in[1], &in[2] };
            qn_cuda_merge m;
            qn_cuda_part p;
            char seen[1024] = { 0 };
            for (int k = 0; k < 3; k++)
                in[k] = qn_shape_make(rows[r].in[k].rank, rows[r].in[k].d);
            qn_cuda_merge_init(&m, &out, 3, shapes);
            if (m.rank != rows[r].rank)
                fail_msg("row %zu: rank %d, expected %d", r, m.rank,
                         rows[r].rank);
            qn_cuda_part_init(&p, &m, most);
            while (qn_cuda_part_next(&p)) {
                if (p.total > most || p.total < 1)
                    fail_msg("row %zu: a part of %lld, at most %lld", r,
                             (long long)p.total, (long long)most);
                walk_part(r, &p, 4, seen);
            }
            for (int64_t i = 0; i < m.total; i++)
                if (!seen[i])
                    fail_msg("row %zu: element %lld never, parts of %lld", r,
                             (long long)i, (long long)most);
        }
}

/* What is longer than 32 bits: places only, no memory. */
static void test_long(void **state)
{
    (void)state;
    qn_shape out = qn_shape_make(3, (int64_t[]){ 3, 5, INT64_C(1) << 31 });
    qn_shape row = qn_shape_make(1, (int64_t[]){ INT64_C(1) << 31 });
    const qn_shape *shapes[2] = { &out, &row };
    int64_t next = 0, parts = 0;
    qn_cuda_merge m;
    qn_cuda_part p;
    qn_cuda_merge_init(&m, &out, 2, shapes);
    qn_cuda_part_init(&p, &m, QN_WALK_MOST);
    for (; qn_cuda_part_next(&p); parts++) {
        assert_true(p.out_at == next);
        assert_true(p.at[0] == next);
        assert_true(p.at[1] == next % (INT64_C(1) << 31));
        assert_true(p.total <= QN_WALK_MOST);
        next += p.total;
    }
    assert_true(next == m.total);
    assert_int_equal(parts, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
