/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN: the library, its handles, the table of plans, execution. */
#include "runtime/cuda/dnn_internal.h"

#include <stdio.h>
#include <string.h>

#define LIBRARY "libcudnn.so.9"

enum { LIMIT = 64 << 20 }; /* workspace of one convolution */

static const qn_cuda_symbol symbols[] = {
#define SYMBOL(field, function) { #function, offsetof(qn_cuda_dnn, field) },
    QN_CUDA_DNN_LIST(SYMBOL)
#undef SYMBOL
};

qn_status qn_cuda_dnn_fail(const qn_cuda_dnn *dnn, cudnnStatus_t st,
                           const char *what, qn_error *err)
{
    const bool memory =
        st == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
        st == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    return qn_fail(err, memory ? QN_NO_MEMORY : QN_DEVICE, "%s: %s", what,
                   dnn->text(st));
}

/* ---- open and close ---- */

qn_status qn_cuda_dnn_open(qn_cuda_device *device, qn_error *err)
{
    qn_cuda_dnn *dnn = qn_calloc(1, sizeof *dnn);
    if (!dnn || pthread_mutex_init(&dnn->lock, NULL)) {
        qn_free(dnn);
        return qn_fail(err, QN_NO_MEMORY, "no memory for cuDNN");
    }
    device->dnn = dnn;
    qn_status st = qn_cuda_library_open(LIBRARY, &dnn->library, err);
    if (st == QN_OK)
        st = qn_cuda_library_bind(dnn->library, LIBRARY, symbols,
                                  sizeof symbols / sizeof symbols[0], dnn, err);
    if (st != QN_OK)
        return st;
    cudnnStatus_t rc = dnn->handle_new(&dnn->handle);
    if (rc != CUDNN_STATUS_SUCCESS) {
        dnn->handle = NULL;
        return qn_cuda_dnn_fail(dnn, rc, "opening cuDNN", err);
    }
    /* 91900: 9.19.0 */
    const size_t v = dnn->version();
    snprintf(device->dnn_version, sizeof device->dnn_version,
             "cuDNN %zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
    return QN_OK;
}

static void plan_free(const qn_cuda_dnn *dnn, qn_cuda_dnn_plan *p)
{
    if (p->plan)
        dnn->free(p->plan);
    if (p->config)
        dnn->free(p->config);
    pthread_mutex_destroy(&p->lock);
    qn_free(p);
}

void qn_cuda_dnn_close(qn_cuda_device *device)
{
    qn_cuda_dnn *dnn = device->dnn;
    if (!dnn)
        return;
    for (qn_cuda_dnn_plan *p = dnn->plans, *next; p; p = next) {
        next = p->next;
        plan_free(dnn, p);
    }
    if (dnn->handle)
        dnn->handle_free(dnn->handle);
    pthread_mutex_destroy(&dnn->lock);
    qn_cuda_library_close(dnn->library);
    qn_free(dnn);
    device->dnn = NULL;
}

qn_status qn_cuda_dnn_queue_open(qn_queue *queue, qn_error *err)
{
    const qn_cuda_dnn *dnn = qn_cuda_queue_device(queue)->dnn;
    cudnnHandle_t handle = NULL;
    queue->dnn_handle = NULL;
    if (queue->number == QN_ACCEL_STREAM_COMM)
        return QN_OK; /* collectives only */
    cudnnStatus_t rc = dnn->handle_new(&handle);
    if (rc != CUDNN_STATUS_SUCCESS)
        return qn_cuda_dnn_fail(dnn, rc, "a handle of cuDNN", err);
    rc = dnn->set_stream(handle, queue->stream);
    if (rc != CUDNN_STATUS_SUCCESS) {
        dnn->handle_free(handle);
        return qn_cuda_dnn_fail(dnn, rc, "the stream of a handle of cuDNN", err);
    }
    queue->dnn_handle = handle;
    return QN_OK;
}

void qn_cuda_dnn_queue_close(qn_queue *queue)
{
    const qn_cuda_dnn *dnn = qn_cuda_queue_device(queue)->dnn;
    if (queue->dnn_handle)
        dnn->handle_free(queue->dnn_handle);
    queue->dnn_handle = NULL;
}

/* ---- the table ---- */

static qn_cuda_dnn_plan *known(const qn_cuda_dnn *dnn,
                               const qn_cuda_dnn_conv *problem)
{
    for (qn_cuda_dnn_plan *p = dnn->plans; p; p = p->next)
        if (!memcmp(&p->problem, problem, sizeof *problem))
            return p;
    return NULL;
}

static qn_status add(qn_cuda_dnn *dnn, const qn_cuda_dnn_conv *problem,
                     qn_cuda_dnn_plan **out, qn_error *err)
{
    qn_cuda_dnn_plan *p = qn_calloc(1, sizeof *p);
    if (!p || pthread_mutex_init(&p->lock, NULL)) {
        qn_free(p);
        return qn_fail(err, QN_NO_MEMORY, "no memory for a plan of cuDNN");
    }
    p->problem = *problem;
    qn_status st = qn_cuda_dnn_build(dnn, p, LIMIT, err);
    if (st != QN_OK) {
        plan_free(dnn, p);
        return st;
    }
    p->next = dnn->plans;
    dnn->plans = p;
    dnn->n_plans++;
    *out = p;
    return QN_OK;
}

/* "1x64x56x56" */
static const char *dims_text(const int64_t *dims, int rank, char *buf,
                             size_t size)
{
    size_t n = 0;
    for (int i = 0; i < rank && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%lld", i ? "x" : "",
                              (long long)dims[i]);
    return buf;
}

/* Which problems the library takes is its secret: one line for each new one. */
static void tell(qn_cuda_device *dev, const qn_cuda_dnn_plan *p)
{
    const qn_cuda_dnn_conv *c = &p->problem;
    char x[64], w[64], y[64], choice[96];
    if (p->plan)
        snprintf(choice, sizeof choice, "engine %lld, workspace %zu",
                 (long long)p->engine, p->workspace);
    else
        snprintf(choice, sizeof choice, "none of %lld configurations",
                 (long long)p->tried);
    qn_logf(&dev->log, QN_LOG_DEBUG,
            "%s: cuDNN: %s%s%s%s %s%s: %s by %s to %s, strides %lld %lld, "
            "dilations %lld %lld, pads %lld %lld: %s",
            dev->base.label, c->transposed ? "convtranspose" : "conv",
            c->residual ? "+residual" : "", c->bias ? "+bias" : "",
            c->relu ? "+relu" : "", qn_dtype_name((qn_dtype)c->dtype),
            c->tf32 ? " rounded" : "", dims_text(c->x, c->rank, x, sizeof x),
            dims_text(c->w, c->rank, w, sizeof w),
            dims_text(c->y, c->rank, y, sizeof y), (long long)c->stride[0],
            (long long)c->stride[1], (long long)c->dilation[0],
            (long long)c->dilation[1], (long long)c->pad[0],
            (long long)c->pad[1], choice);
}

qn_status qn_cuda_dnn_find(qn_accel *accel, const qn_cuda_dnn_conv *problem,
                           const qn_cuda_dnn_plan **out, qn_error *err)
{
    qn_cuda_device *dev = qn_cuda_of(accel);
    qn_cuda_dnn *dnn = dev->dnn;
    qn_cuda_dnn_plan *p;
    *out = NULL;
    qn_status st = qn_cuda_enter_blocking(dev, err);
    if (st != QN_OK)
        return st;
    pthread_mutex_lock(&dnn->lock);
    p = known(dnn, problem);
    if (!p && dnn->n_plans < QN_CUDA_DNN_PLANS) {
        st = add(dnn, problem, &p, err);
        if (st == QN_OK)
            tell(dev, p);
    }
    pthread_mutex_unlock(&dnn->lock);
    qn_cuda_gate_leave(dev);
    if (st == QN_OK && p && p->plan)
        *out = p;
    return st;
}

size_t qn_cuda_dnn_workspace(const qn_cuda_dnn_plan *plan)
{
    return plan->workspace;
}

/* ---- execution ---- */

static cudnnStatus_t pack(const qn_cuda_dnn *dnn, cudnnBackendDescriptor_t v,
                          const int64_t *ids, void *const *pointers, int64_t n,
                          void *workspace)
{
    cudnnStatus_t rc = dnn->set(v, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                CUDNN_TYPE_INT64, n, ids);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = dnn->set(v, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                      CUDNN_TYPE_VOID_PTR, n, pointers);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = dnn->set(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                      CUDNN_TYPE_VOID_PTR, 1, &workspace);
    return rc == CUDNN_STATUS_SUCCESS ? dnn->finalize(v) : rc;
}

qn_status qn_cuda_dnn_run(const qn_launch *k, const qn_cuda_dnn_plan *plan,
                          const void *x, const void *w, void *y,
                          const void *bias, const void *residual,
                          void *workspace)
{
    qn_cuda_device *dev = qn_cuda_queue_device(k->queue);
    const qn_cuda_dnn *dnn = dev->dnn;
    qn_cuda_dnn_plan *own = (qn_cuda_dnn_plan *)(uintptr_t)plan;
    int64_t ids[5] = { QN_DNN_X, QN_DNN_W, QN_DNN_Y }, n = 3;
    void *pointers[5] = { (void *)(uintptr_t)x, (void *)(uintptr_t)w, y };
    cudnnBackendDescriptor_t v = NULL;

    qn_status st = qn_cuda_enter(dev, k->err);
    if (st != QN_OK)
        return st;
    if (bias) {
        ids[n] = QN_DNN_BIAS;
        pointers[n++] = (void *)(uintptr_t)bias;
    }
    if (residual) {
        ids[n] = QN_DNN_RESIDUAL;
        pointers[n++] = (void *)(uintptr_t)residual;
    }
    cudnnStatus_t rc = dnn->new(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &v);
    if (rc == CUDNN_STATUS_SUCCESS)
        rc = pack(dnn, v, ids, pointers, n, workspace);
    if (rc == CUDNN_STATUS_SUCCESS) {
        pthread_mutex_lock(&own->lock);
        rc = dnn->execute(k->queue->dnn_handle, plan->plan, v);
        pthread_mutex_unlock(&own->lock);
    }
    if (v)
        dnn->free(v);
    if (rc != CUDNN_STATUS_SUCCESS)
        return qn_cuda_library_failed(k, "cuDNN", dnn->text(rc));
    qn_cuda_count(k->queue);
    return QN_OK;
}
