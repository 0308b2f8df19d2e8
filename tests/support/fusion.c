/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/fusion.h"

#include "runtime/base/half.h"
#include "tests/support/graph.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- numbers ---- */

static uint32_t step(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

uint32_t fusion_random(fusion_model *m)
{
    return step(&m->state);
}

static void put(qn_dtype dtype, void *data, int64_t i, double value)
{
    float f = (float)value;
    uint16_t half = dtype == QN_F16 ? qn_f32_to_f16(f) : qn_f32_to_bf16(f);
    if (dtype == QN_F32)
        memcpy((char *)data + 4 * i, &f, sizeof f);
    else
        memcpy((char *)data + 2 * i, &half, sizeof half);
}

static double get(qn_dtype dtype, const void *data, int64_t i)
{
    float f;
    uint16_t half;
    if (dtype == QN_F32) {
        memcpy(&f, (const char *)data + 4 * i, sizeof f);
        return (double)f;
    }
    memcpy(&half, (const char *)data + 2 * i, sizeof half);
    return (double)(dtype == QN_F16 ? qn_f16_to_f32(half)
                                    : qn_bf16_to_f32(half));
}

static void fill(qn_dtype dtype, void *data, int64_t n, uint64_t seed,
                 double most)
{
    for (int64_t i = 0; i < n; i++)
        put(dtype, data, i, ((double)step(&seed) / 0x1p31 - 1) * most);
}

qn_value_id fusion_input(fusion_model *m, int rank, const int64_t *dims)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f" };
    assert_true(m->n_inputs < sizeof names / sizeof names[0]);
    return tg_input(m->g, names[m->n_inputs++], m->dtype, rank, dims);
}

qn_value_id fusion_weights(fusion_model *m, int rank, const int64_t *dims,
                           double most)
{
    qn_shape shape = qn_shape_make(rank, dims);
    int64_t n = qn_shape_product(&shape, 0, rank);
    void *data = qn_region_alloc(&m->region, (size_t)n + 1, sizeof(float));
    assert_non_null(data);
    fill(m->dtype, data, n, fusion_random(m), most);
    return tg_const(m->g, m->dtype, rank, dims, data);
}

qn_value_id fusion_number(fusion_model *m, double value)
{
    void *data = qn_region_alloc(&m->region, 1, sizeof(float));
    assert_non_null(data);
    put(m->dtype, data, 0, value);
    return tg_const(m->g, m->dtype, 0, NULL, data);
}

/* ---- running ---- */

static void ok(qn_status st, const qn_error *err)
{
    if (st != QN_OK)
        fail_msg("%s: %s", qn_status_name(st), err->text);
}

static size_t bytes_of(const qn_tensor *t)
{
    size_t bytes = 0;
    qn_error err = { 0 };
    ok(qn_tensor_bytes(t->dtype, &t->shape, &bytes, &err), &err);
    return bytes;
}

static void keep(const qn_run *run, fusion_answer *out)
{
    for (uint32_t i = 0; i < out->n; i++) {
        qn_tensor t = qn_run_output(run, i);
        size_t bytes = bytes_of(&t);
        out->out[i] = t;
        out->out[i].data = qn_region_alloc(&out->region, bytes + 1, 1);
        assert_non_null(out->out[i].data);
        if (bytes)
            memcpy(out->out[i].data, t.data, bytes);
    }
}

static void run_plan(qn_session *s, fusion_answer *out)
{
    const qn_io *io;
    qn_tensor in[8] = { { 0 } };
    qn_plan *plan;
    qn_plan_report report;
    qn_error err = { 0 };
    qn_run run;
    uint32_t n = qn_session_inputs(s, &io);
    for (uint32_t i = 0; i < n; i++) {
        in[i] = (qn_tensor){ .dtype = io[i].type.dtype };
        in[i].shape.rank = io[i].rank;
        for (int k = 0; k < io[i].rank; k++)
            in[i].shape.dims[k] = io[i].dims[k].value;
    }
    ok(qn_session_plan(s, in, &plan, &err), &err);
    qn_plan_read(plan, &report);
    out->fused = report.fused;
    out->launches = report.launches;
    qn_run_init(&run, s, plan);
    ok(qn_run_lease(&run, NULL, NULL, &err), &err);
    for (uint32_t i = 0; i < n; i++) {
        qn_tensor t = qn_run_input(&run, i);
        fill(t.dtype, t.data, qn_count(&t), 77 + i, 2);
    }
    ok(qn_run_sync(&run, &err), &err);
    out->n = qn_session_outputs(s, &io);
    assert_true(out->n <= FUSION_OUTPUTS);
    keep(&run, out);
    qn_run_release(&run);
    qn_plan_release(plan);
}

void fusion_run(qn_runtime *runtime, fusion_build build, const void *arg,
                qn_dtype dtype, bool accel, bool no_passes,
                fusion_answer *out)
{
    fusion_model m = { .dtype = dtype };
    qn_session_options o = { .n_accels = accel, .no_passes = no_passes };
    qn_session *s;
    qn_error err = { 0 };
    memset(out, 0, sizeof *out);
    m.g = tg_new(NULL);
    build(&m, arg);
    tg_finish(m.g);
    ok(qn_session_new(runtime, m.g, &o, &s, &err), &err);
    qn_region_release(&m.region);
    run_plan(s, out);
    qn_session_free(s);
}

void fusion_release(fusion_answer *a)
{
    qn_region_release(&a->region);
}

/* ---- comparing ---- */

static void compare(const fusion_answer *want, const fusion_answer *got,
                    double rtol, double atol, bool exact, const char *what)
{
    assert_int_equal(want->n, got->n);
    for (uint32_t i = 0; i < want->n; i++) {
        const qn_tensor *x = &want->out[i], *y = &got->out[i];
        assert_int_equal(x->dtype, y->dtype);
        assert_true(qn_shape_equal(&x->shape, &y->shape));
        for (int64_t k = 0; k < qn_count(x); k++) {
            double p = get(x->dtype, x->data, k), q = get(y->dtype, y->data, k);
            bool same = (isnan(p) && isnan(q)) ||
                        (p == q && signbit(p) == signbit(q));
            if (!same && (exact || !(fabs(p - q) <= atol + rtol * fabs(p))))
                fail_msg("%s, %s: output %u, element %lld: %.9g, expected "
                         "%.9g", what, qn_dtype_name(x->dtype), i,
                         (long long)k, q, p);
        }
    }
}

void fusion_same_bits(const fusion_answer *want, const fusion_answer *got,
                      const char *what)
{
    compare(want, got, 0, 0, true, what);
}

void fusion_close(const fusion_answer *want, const fusion_answer *got,
                  double rtol, double atol, const char *what)
{
    compare(want, got, rtol, atol, false, what);
}
