/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cuda/support/device_node.h"

#include "runtime/device/plugin.h"
#include "runtime/ops/op.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { GUARD = 512, RUBBISH = 0xa5, FENCE = 0xff, STEP = 41, SKIPPED = 77 };

static struct {
    qn_accels accels;
    qn_log log;
    qn_alane *lane;
    int64_t *counts; /* pinned */
} dev;

/* ---- the device ---- */

static void write_log(void *arg, qn_log_level level, const char *text)
{
    (void)arg;
    if (level >= QN_LOG_WARN)
        fprintf(stderr, "# %s\n", text);
}

int device_setup(void **state)
{
    static const int first = 0;
    qn_error err = { 0 };
    (void)state;
    dev.log = (qn_log){ .write = write_log, .level = QN_LOG_DEBUG };
    if (qn_accels_open(&first, 1, &dev.log, &dev.accels, &err) != QN_OK) {
        printf("skipped: %s\n", err.text);
        exit(SKIPPED);
    }
    qn_accel *a = device_accel();
    if (a->ops->lane_new(a, &dev.lane, &err) != QN_OK) {
        fprintf(stderr, "no lane: %s\n", err.text);
        return -1;
    }
    dev.counts = a->ops->pin(a, 8 * sizeof *dev.counts);
    return dev.counts ? 0 : -1;
}

int device_teardown(void **state)
{
    qn_accel *a = device_accel();
    (void)state;
    a->ops->unpin(a, dev.counts, 8 * sizeof *dev.counts);
    a->ops->lane_free(dev.lane);
    qn_accels_close(&dev.accels);
    return 0;
}

qn_accel *device_accel(void)
{
    return dev.accels.accel[0];
}

qn_alane *device_lane(void)
{
    return dev.lane;
}

typedef struct latch {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool done;
    qn_status status;
} latch;

static void reached(void *arg, qn_status status)
{
    latch *l = arg;
    pthread_mutex_lock(&l->lock);
    l->done = true;
    l->status = status;
    pthread_cond_signal(&l->cond);
    pthread_mutex_unlock(&l->lock);
}

qn_status device_drain(qn_accel *accel, qn_alane *lane)
{
    latch l = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false,
                QN_OK };
    qn_notice notice = { .fn = reached, .arg = &l };
    qn_error err = { 0 };
    qn_status st = accel->ops->record(lane, 0, 0, &err);
    if (st != QN_OK)
        return st;
    accel->ops->notify(lane, 0, &notice);
    pthread_mutex_lock(&l.lock);
    while (!l.done)
        pthread_cond_wait(&l.cond, &l.lock);
    pthread_mutex_unlock(&l.lock);
    return l.status;
}

/* ---- values in guarded memory ---- */

typedef struct guarded {
    char *block;  /* on the device */
    char *at;     /* the value in it */
    size_t bytes; /* of the value */
    size_t all;   /* of the block */
} guarded;

typedef struct job {
    const char *name; /* for messages */
    test_node *t;
    const device_options *o;
    qn_accel *accel;
    const qn_kernel *kernel;
    qn_node node;
    qn_region region;
    bool host[TEST_MAX_ARGS]; /* inputs that stay on the host */
    int alias;                /* input that output 0 lies in, or -1 */
    qn_tensor in[TEST_MAX_ARGS], out[TEST_MAX_ARGS]; /* as launch() sees them */
    const void *plain[TEST_MAX_ARGS]; /* inputs in their order, on the host */
    guarded in_mem[TEST_MAX_ARGS], out_mem[TEST_MAX_ARGS], work;
    guarded pack_mem[TEST_MAX_ARGS];
    const void *packed[TEST_MAX_ARGS];
    qn_error err;
} job;

static void check(const job *j, qn_status st, const char *what)
{
    if (st != QN_OK)
        fail_msg("%s: %s: %s, \"%s\"", j->name, what, qn_status_name(st),
                 j->err.text);
}

static void *scratch(job *j, size_t bytes)
{
    void *p = qn_region_alloc(&j->region, bytes + 64, 1);
    assert_non_null(p);
    return p;
}

/* `fill` bytes (NULL: rubbish) between two fences. */
static void guard(job *j, guarded *g, const void *fill, size_t bytes,
                  size_t shift)
{
    g->bytes = bytes;
    g->all = 2 * GUARD + shift + bytes;
    char *image = scratch(j, g->all);
    memset(image, FENCE, g->all);
    if (fill && bytes)
        memcpy(image + GUARD + shift, fill, bytes);
    else if (bytes)
        memset(image + GUARD + shift, RUBBISH, bytes);
    void *p;
    check(j, j->accel->ops->alloc(j->accel, g->all, &p, &j->err), "alloc");
    g->block = p;
    g->at = g->block + GUARD + shift;
    check(j, j->accel->ops->upload(j->accel, p, image, g->all, &j->err),
          "upload");
}

/* The block's bytes, back on the host; checks both fences. Returns the value. */
static void *fetch(job *j, const guarded *g, const char *what, uint32_t i)
{
    const struct qn_accel_ops *ops = j->accel->ops;
    void *copy = scratch(j, g->bytes);
    unsigned char *pinned = ops->pin(j->accel, g->all);
    assert_non_null(pinned);
    check(j,
          ops->copy(dev.lane, 0, QN_COPY_FROM_DEVICE, pinned, g->block, g->all,
                    NULL, &j->err),
          "copy");
    check(j, device_drain(j->accel, dev.lane), "reading back");
    size_t lead = (size_t)(g->at - g->block);
    for (size_t k = 0; k < g->all; k++)
        if ((k < lead || k >= lead + g->bytes) && pinned[k] != FENCE)
            fail_msg("%s: %s %u: byte %lld of %zu was written", j->name, what, i,
                     (long long)k - (long long)lead, g->bytes);
    if (g->bytes)
        memcpy(copy, pinned + lead, g->bytes);
    ops->unpin(j->accel, pinned, g->all);
    return copy;
}

static void drop(job *j, guarded *g)
{
    if (g->block)
        j->accel->ops->release(j->accel, g->block);
    g->block = NULL;
}

/* ---- orders ---- */

static bool reordered(const job *j, const qn_tensor *t)
{
    return j->o->nhwc && t->shape.rank == 4;
}

static qn_shape physical(const qn_shape *s)
{
    const int64_t *d = s->dims;
    return qn_shape_make(4, (int64_t[]){ d[0], d[2], d[3], d[1] });
}

/* dst: channels last, or from there back to N, C, H, W; `t` has the plain shape. */
static void reorder(const qn_tensor *t, bool to_last, const char *src, char *dst)
{
    const int64_t *d = t->shape.dims;
    size_t size = qn_dtype_size(t->dtype), plain = 0;
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t s = 0; s < d[2] * d[3]; s++, plain++) {
                size_t last = (size_t)((n * d[2] * d[3] + s) * d[1] + c);
                memcpy(dst + (to_last ? last : plain) * size,
                       src + (to_last ? plain : last) * size, size);
            }
}

/* ---- before the launch ---- */

static size_t bytes_of(job *j, const qn_tensor *t)
{
    size_t bytes = 0;
    check(j, qn_tensor_bytes(t->dtype, &t->shape, &bytes, &j->err), "size");
    return bytes;
}

static void bind_inputs(job *j)
{
    uint32_t host = j->node.op->value_in | j->kernel->host_in;
    for (uint32_t i = 0; i < j->node.n_in; i++) {
        const qn_tensor *t = &j->t->in[i];
        j->in[i] = *t;
        j->host[i] = (host >> i) & 1;
        if (!qn_present(t))
            continue;
        size_t bytes = bytes_of(j, t);
        char *copy = scratch(j, bytes);
        if (reordered(j, t) && !(j->o->constants >> i & 1)) {
            reorder(t, true, t->data, copy);
            j->in[i].shape = physical(&t->shape);
        } else if (bytes) {
            memcpy(copy, t->data, bytes);
        }
        j->plain[i] = copy;
        j->in[i].data = copy;
        if (j->host[i])
            continue;
        guard(j, &j->in_mem[i], copy, bytes,
              j->o->shift * qn_dtype_size(t->dtype));
        j->in[i].data = j->in_mem[i].at;
    }
}

/* Constants go into the layout that the kernel asks for, on the host. */
static void pack(job *j)
{
    qn_tensor seen[TEST_MAX_ARGS];
    for (uint32_t i = 0; i < j->node.n_in; i++) {
        bool constant = j->o->constants >> i & 1;
        seen[i] = j->t->in[i];
        if (!constant) {
            seen[i].data = NULL;
            seen[i].shape.rank = -1;
        }
    }
    for (uint32_t i = 0; j->kernel->pack_size && i < j->node.n_in; i++) {
        if (!(j->o->constants >> i & 1) || j->host[i] || !qn_present(&seen[i]))
            continue;
        size_t n = j->kernel->pack_size(&j->node, j->node.n_in, seen, i);
        if (!n)
            continue;
        char *packed = scratch(j, n);
        check(j,
              j->kernel->pack(&j->node, j->node.n_in, seen, i, packed, &j->err),
              "pack");
        guard(j, &j->pack_mem[i], packed, n, 0);
        j->packed[i] = j->pack_mem[i].at;
        j->in[i].data = NULL;
    }
}

/* `cpu`: the cpu's outputs as infer() gave them: dtypes and bounds. */
static void bind_outputs(job *j, const qn_tensor *bounds)
{
    j->alias = -1;
    for (uint32_t i = 0; j->o->in_place && i < j->node.n_in; i++)
        if (j->alias < 0 && (j->node.op->inplace >> i & 1) && !j->host[i] &&
            j->in[i].data &&
            qn_shape_equal(&j->t->in[i].shape, &bounds[0].shape) &&
            qn_dtype_size(j->in[i].dtype) == qn_dtype_size(bounds[0].dtype))
            j->alias = (int)i;
    if (j->o->in_place && j->alias < 0)
        fail_msg("%s: no input that output 0 may overwrite", j->name);
    for (uint32_t i = 0; i < j->node.n_out; i++) {
        const qn_tensor *t = &bounds[i];
        j->out[i] = *t;
        j->out[i].data = NULL;
        if (!qn_present(t))
            continue;
        if (reordered(j, t))
            j->out[i].shape = physical(&t->shape);
        if (i == 0 && j->alias >= 0) {
            j->out_mem[0] = j->in_mem[j->alias];
        } else {
            guard(j, &j->out_mem[i], NULL, bytes_of(j, t),
                  j->o->shift * qn_dtype_size(t->dtype));
        }
        j->out[i].data = j->out_mem[i].at;
    }
}

static qn_status prepare(job *j, qn_prepare *p)
{
    qn_tensor in[TEST_MAX_ARGS], out[TEST_MAX_ARGS];
    for (uint32_t i = 0; i < j->node.n_in; i++) {
        bool known = (j->o->constants >> i & 1) ||
                     (j->node.op->value_in >> i & 1);
        in[i] = j->in[i];
        if (!known)
            in[i].data = NULL;
    }
    for (uint32_t i = 0; i < j->node.n_out; i++) {
        out[i] = j->out[i];
        out[i].data = NULL;
    }
    *p = (qn_prepare){ .node = &j->node,
                       .n_in = j->node.n_in,
                       .n_out = j->node.n_out,
                       .in = in,
                       .out = out,
                       .packed = j->packed,
                       .max_threads = 1,
                       .region = &j->region,
                       .accel = j->accel,
                       .precision = j->o->precision };
    qn_status st = j->kernel->prepare ? j->kernel->prepare(p, &j->err) : QN_OK;
    if (st == QN_OK)
        guard(j, &j->work, NULL, p->workspace, 0);
    p->in = p->out = NULL;
    return st;
}

static void clear(job *j, uint32_t what)
{
    const struct qn_accel_ops *ops = j->accel->ops;
    for (uint32_t i = 0; i < j->node.n_out; i++)
        if ((what >> i & 1) && j->out_mem[i].block)
            check(j,
                  ops->clear(dev.lane, 0, j->out_mem[i].at, j->out_mem[i].bytes,
                             &j->err),
                  "clear");
    if (what & QN_CLEAR_WORKSPACE)
        check(j, ops->clear(dev.lane, 0, j->work.at, j->work.bytes, &j->err),
              "clear");
}

/* ---- the launch ---- */

static qn_status launch(job *j)
{
    const struct qn_accel_ops *ops = j->accel->ops;
    qn_prepare p;
    char text[160];
    uint32_t step = 0;
    qn_status st = prepare(j, &p);
    if (st != QN_OK)
        return st;
    qn_launch k = { .node = &j->node,
                    .state = p.state,
                    .n_in = j->node.n_in,
                    .n_out = j->node.n_out,
                    .in = j->in,
                    .out = j->out,
                    .packed = j->packed,
                    .workspace = j->work.bytes ? j->work.at : NULL,
                    .queue = ops->queue(dev.lane, 0),
                    .step = STEP,
                    .counts = dev.counts,
                    .err = &j->err };
    check(j, ops->begin(dev.lane, &j->err), "begin");
    clear(j, p.clear);
    memset(dev.counts, RUBBISH, 8 * sizeof *dev.counts);
    st = j->kernel->launch(&k);
    if (st != QN_OK)
        return st;
    check(j, ops->end(dev.lane, &j->err), "end");
    check(j, device_drain(j->accel, dev.lane), "waiting");
    if (ops->fault(dev.lane, &step, text, sizeof text)) {
        if (step != STEP)
            fail_msg("%s: a fault of step %u, not %d: %s", j->name, step, STEP,
                     text);
        return qn_fail(&j->err, QN_RANGE, "%s", text);
    }
    if (j->kernel->finish)
        st = j->kernel->finish(&k);
    return st;
}

/* ---- after it ---- */

void device_tolerance(qn_dtype dtype, double *rtol, double *atol)
{
    *rtol = *atol = 0;
    switch (dtype) {
    case QN_F64:
        *rtol = *atol = 1e-12;
        break;
    case QN_F32:
        *rtol = 1e-5;
        *atol = 1e-6;
        break;
    case QN_F16:
        *rtol = 0x1p-10 * 1.01;
        *atol = 0x1p-24 * 1.01;
        break;
    case QN_BF16:
        *rtol = 0x1p-7 * 1.01;
        *atol = 1e-30;
        break;
    default:
        break;
    }
}

static bool has_values(qn_dtype dtype)
{
    return qn_dtypes_has(QN_TYPES_FLOAT | QN_TYPES_INT | QN_BIT(BOOL), dtype);
}

static void compare(const job *j, uint32_t i, const qn_tensor *got,
                    const qn_tensor *want)
{
    char a[QN_SHAPE_TEXT], b[QN_SHAPE_TEXT];
    double rtol = j->o->rtol, atol = j->o->atol;
    bool floats = qn_dtypes_has(QN_TYPES_FLOAT, want->dtype);
    size_t size = qn_dtype_size(want->dtype);
    if (got->dtype != want->dtype || !qn_shape_equal(&got->shape, &want->shape))
        fail_msg("%s: output %u is %s %s, the cpu's %s %s", j->name, i,
                 qn_dtype_name(got->dtype), qn_shape_text(&got->shape, a),
                 qn_dtype_name(want->dtype), qn_shape_text(&want->shape, b));
    if (!floats || j->o->exact)
        rtol = atol = 0;
    else if (rtol == 0 && atol == 0)
        device_tolerance(want->dtype, &rtol, &atol);
    for (int64_t k = 0; k < qn_count(want); k++) {
        const char *g = (const char *)got->data + (size_t)k * size;
        const char *w = (const char *)want->data + (size_t)k * size;
        if (!memcmp(g, w, size))
            continue;
        if (!has_values(want->dtype))
            fail_msg("%s: output %u index %lld (of %s): other bytes", j->name, i,
                     (long long)k, qn_dtype_name(want->dtype));
        double x = test_value(got, k), y = test_value(want, k);
        if (floats && isnan(x) && isnan(y))
            continue;
        if (floats && !j->o->exact &&
            (x == y || fabs(x - y) <= atol + rtol * fabs(y)))
            continue;
        fail_msg("%s: output %u index %lld is %.9g, the cpu's %.9g", j->name, i,
                 (long long)k, x, y);
    }
}

static void compare_all(job *j)
{
    for (uint32_t i = 0; i < j->node.n_out; i++) {
        qn_tensor got = j->out[i];
        if (!qn_present(&j->t->out[i]))
            continue;
        got.data = fetch(j, &j->out_mem[i], "output", i);
        if (reordered(j, &j->t->out[i])) {
            qn_tensor plain = j->t->out[i];
            plain.data = scratch(j, j->out_mem[i].bytes);
            if (qn_count(&got) == qn_count(&plain))
                reorder(&plain, false, got.data, plain.data);
            got = plain;
        }
        if (i == 0 && j->o->result && j->out_mem[0].bytes)
            memcpy(j->o->result, got.data, j->out_mem[0].bytes);
        compare(j, i, &got, &j->t->out[i]);
    }
}

static void check_others(job *j)
{
    for (uint32_t i = 0; i < j->node.n_in; i++) {
        if (j->pack_mem[i].block)
            (void)fetch(j, &j->pack_mem[i], "packed input", i);
        if (!j->in_mem[i].block || (int)i == j->alias)
            continue;
        const void *now = fetch(j, &j->in_mem[i], "input", i);
        if (memcmp(now, j->plain[i], j->in_mem[i].bytes))
            fail_msg("%s: input %u was changed", j->name, i);
    }
    if (j->work.block)
        (void)fetch(j, &j->work, "workspace", 0);
}

static void release(job *j)
{
    for (uint32_t i = 0; i < TEST_MAX_ARGS; i++) {
        if ((int)i == j->alias)
            j->in_mem[i].block = NULL; /* output 0's */
        drop(j, &j->in_mem[i]);
        drop(j, &j->out_mem[i]);
        drop(j, &j->pack_mem[i]);
    }
    drop(j, &j->work);
    qn_region_release(&j->region);
}

static const qn_kernel *find(const test_node *t)
{
    qn_dtype types[TEST_MAX_ARGS] = { QN_NONE };
    qn_accel *a = device_accel();
    for (uint32_t i = 0; i < t->node.n_in; i++)
        types[i] = t->in[i].dtype;
    return a->ops->kernel_find(a, &t->node, t->node.n_in, types);
}

const qn_kernel *device_node_run(test_node *t, const device_options *o,
                                 const char *name)
{
    static const device_options none;
    qn_tensor bounds[TEST_MAX_ARGS] = { { 0 } };
    job j = { .name = name, .t = t, .o = o ? o : &none,
              .accel = device_accel(), .node = t->node, .alias = -1 };
    j.kernel = find(t);
    if (!j.kernel)
        fail_msg("%s: no kernel on %s", name, j.accel->label);
    if (t->node.op->flags & QN_OP_VIEW)
        fail_msg("%s: a view needs no kernel", name);
    check(&j, qn_eval_infer(&t->node, t->in, bounds, &j.err), "infer");
    qn_status cpu = test_node_run(t);
    if (j.o->faults ? cpu == QN_OK : cpu != QN_OK)
        fail_msg("%s: the cpu gives %s, \"%s\"", name, qn_status_name(cpu),
                 t->err.text);
    if (j.o->nhwc) {
        if (!(j.kernel->flags & QN_KERNEL_NHWC) &&
            !(j.node.op->flags & QN_OP_ELEMENTWISE))
            fail_msg("%s: the kernel does not take channels last", name);
        j.node.order = QN_ORDER_NHWC;
    }
    bind_inputs(&j);
    pack(&j);
    bind_outputs(&j, bounds);
    qn_status st = launch(&j);
    if (j.o->faults ? st == QN_OK : st != QN_OK)
        fail_msg("%s: %s gives %s, \"%s\"", name, j.accel->label,
                 qn_status_name(st), j.err.text);
    if (st == QN_OK)
        compare_all(&j);
    check_others(&j);
    release(&j);
    return j.kernel;
}

/* ---- rows ---- */

static void run_row(const device_row *row, size_t number)
{
    test_node t;
    char name[240];
    uint32_t n_in = 0;
    while (n_in < TEST_ROW_ARGS && row->in[n_in])
        n_in++;
    snprintf(name, sizeof name, "row %zu %s %s (%s)", number, row->op,
             row->attrs ? row->attrs : "", n_in ? row->in[0] : "no input");
    test_node_init(&t, row->op, row->opset, n_in, row->n_out ? row->n_out : 1);
    test_node_attrs(&t, row->attrs);
    for (uint32_t i = 0; i < n_in; i++)
        t.in[i] = test_row_tensor(&t.region, row->in[i]);
    if (row->no_kernel) {
        if (find(&t))
            fail_msg("%s: there is a kernel, none was expected", name);
    } else {
        device_node_run(&t,
                        &(device_options){ .rtol = row->rtol,
                                           .atol = row->atol,
                                           .exact = row->exact,
                                           .constants = row->constants,
                                           .shift = row->shift,
                                           .in_place = row->in_place,
                                           .nhwc = row->nhwc,
                                           .faults = row->faults,
                                           .precision = row->precision },
                        name);
    }
    test_node_release(&t);
}

void device_rows_run(const device_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        run_row(&rows[i], i);
}
