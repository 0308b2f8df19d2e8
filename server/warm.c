/* SPDX-License-Identifier: Apache-2.0 */
#include "server/warm.h"

#include "runtime/base/alloc.h"

#include <string.h>

/* A made-up input larger than this is not worth a try at load. */
enum { MAX_ELEMENTS = 1 << 22 };

void qn_open_shape(const qn_io *io, qn_open open, qn_shape *out)
{
    *out = (qn_shape){ .rank = io->rank < 0 ? 0 : io->rank };
    for (int d = 0; d < out->rank; d++) {
        int64_t fixed = io->dims[d].value;
        int64_t size = d || open.batch || out->rank == 1 ? open.size : 1;
        out->dims[d] = fixed >= 0 ? fixed : size;
    }
}

int qn_open_value(const qn_io *io)
{
    return io->value_in_key ? 1 : 0;
}

static void fill(const qn_tensor *t, int value)
{
    int64_t n = qn_count(t);
    size_t bytes = (size_t)n * qn_dtype_size(t->dtype);
    if (bytes)
        memset(t->data, 0, bytes);
    for (int64_t i = 0; value && i < n; i++) {
        if (t->dtype == QN_I64)
            ((int64_t *)t->data)[i] = value;
        else if (t->dtype == QN_I32)
            ((int32_t *)t->data)[i] = value;
    }
}

/* Types, shapes and the values that shapes depend on. */
static bool make(qn_session *session, qn_open open, qn_region *region,
                 qn_tensor *in)
{
    const qn_io *io;
    uint32_t n = qn_session_inputs(session, &io);
    for (uint32_t i = 0; i < n; i++) {
        int64_t count;
        if (io[i].optional)
            continue;
        if (io[i].type.kind != QN_TYPE_TENSOR)
            return false;
        in[i].dtype = io[i].type.dtype;
        qn_open_shape(&io[i], open, &in[i].shape);
        if (!qn_shape_count(&in[i].shape, &count) || count > MAX_ELEMENTS)
            return false;
        if (!io[i].value_in_key)
            continue;
        in[i].data = qn_region_alloc(region, (size_t)count + 1,
                                     qn_dtype_size(in[i].dtype));
        if (!in[i].data)
            return false;
        fill(&in[i], qn_open_value(&io[i]));
    }
    return true;
}

static bool run_once(qn_session *session, qn_plan *plan, uint64_t *run_ns)
{
    const qn_io *io;
    qn_run run;
    qn_error err = { 0 };
    uint32_t n = qn_session_inputs(session, &io);
    memset(&run, 0, sizeof run);
    qn_run_init(&run, session, plan);
    bool ok = qn_run_lease(&run, NULL, NULL, &err) == QN_OK;
    for (uint32_t i = 0; i < n && ok; i++) {
        qn_tensor t = qn_run_input(&run, i);
        if (qn_present(&t) && t.data)
            fill(&t, qn_open_value(&io[i]));
    }
    ok = ok && qn_run_sync(&run, &err) == QN_OK;
    if (ok)
        *run_ns = run.times.done_ns - run.times.first_launch_ns;
    qn_run_release(&run);
    return ok;
}

typedef enum result { REFUSED, PLANNED, RAN } result;

static result try_size(qn_session *session, qn_open open, uint64_t *run_ns)
{
    const qn_io *io;
    qn_error err = { 0 };
    qn_region region = { 0 };
    qn_plan *plan = NULL;
    result r = REFUSED;
    uint32_t n = qn_session_inputs(session, &io);
    qn_tensor *in = qn_region_alloc(&region, n + 1u, sizeof *in);
    if (in && make(session, open, &region, in) &&
        qn_session_plan(session, in, &plan, &err) == QN_OK) {
        r = run_once(session, plan, run_ns) ? RAN : PLANNED;
        /* the second run is warm */
        if (r == RAN && !run_once(session, plan, run_ns))
            r = PLANNED;
        qn_plan_release(plan);
    }
    qn_region_release(&region);
    return r;
}

static bool any_open(qn_session *session)
{
    const qn_io *io;
    uint32_t n = qn_session_inputs(session, &io);
    for (uint32_t i = 0; i < n; i++)
        for (int d = 0; d < io[i].rank && !io[i].optional; d++)
            if (io[i].dims[d].value < 0)
                return true;
    return false;
}

void qn_warm(qn_session *session, qn_open *out, uint64_t *run_ns)
{
    static const int64_t sizes[] = { 1,  2,  4,   8,   16,  32,  48,
                                     64, 96, 128, 224, 256, 320, 512 };
    size_t n = any_open(session) ? sizeof sizes / sizeof sizes[0] : 1;
    bool planned = false;
    *out = (qn_open){ .size = 1 };
    *run_ns = 0;
    for (size_t i = 0; i < n; i++)
        for (int batch = 0; batch < (i ? 2 : 1); batch++) {
            qn_open open = { .size = sizes[i], .batch = batch };
            result r = try_size(session, open, run_ns);
            if (r == RAN || (r == PLANNED && !planned))
                *out = open;
            if (r == RAN)
                return;
            planned |= r == PLANNED;
        }
}
