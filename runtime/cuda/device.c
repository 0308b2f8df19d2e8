/* SPDX-License-Identifier: Apache-2.0 */
/* A device: opened, described, closed. */
#include "runtime/cuda/libs.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- opening ---- */

static qn_status attribute(qn_cuda_device *d, CUdevice_attribute which, int *out,
                           qn_error *err)
{
    return qn_cuda_check(d, d->cu.device_attribute(out, which, d->device), err,
                         "asking for attribute %d", (int)which);
}

static qn_status describe(qn_cuda_device *d, qn_error *err)
{
    int major = 0, minor = 0, shared = 0, optin = 0, l2 = 0, vmm = 0;
    qn_cuda_limits *l = &d->limits;
    const struct {
        CUdevice_attribute which;
        int *out;
    } wanted[] = {
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major },
        { CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor },
        { CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &l->multiprocessors },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, &shared },
        { CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &optin },
        { CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
          &l->max_threads_sm },
        { CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2 },
        { CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &vmm },
    };
    qn_status st = qn_cuda_check(
        d, d->cu.device_name(d->name, sizeof d->name, d->device), err,
        "asking for the name");
    if (st == QN_OK)
        st = qn_cuda_check(d, d->cu.device_memory(&d->memory_total, d->device),
                           err, "asking for the size of memory");
    for (size_t i = 0; st == QN_OK && i < sizeof wanted / sizeof wanted[0]; i++)
        st = attribute(d, wanted[i].which, wanted[i].out, err);
    if (st != QN_OK)
        return st;
    l->capability = major * 10 + minor;
    l->shared_static = (size_t)shared;
    l->shared_max = (size_t)(optin > shared ? optin : shared);
    l->l2_bytes = (size_t)l2;
    if (!vmm)
        return qn_fail(err, QN_UNSUPPORTED,
                       "%s (%s): its driver cannot map memory by pages",
                       d->base.label, d->name);
    return QN_OK;
}

static qn_status enter_first(qn_cuda_device *d, qn_error *err)
{
    /* A thread that waits for the card sleeps. Refused where somebody made the
     * context before us: then it is as they want it. */
    (void)d->cu.primary_flags(d->device, CU_CTX_SCHED_BLOCKING_SYNC);
    qn_status st = qn_cuda_check(d,
                                 d->cu.primary_retain(&d->context, d->device),
                                 err, "making a context");
    if (st != QN_OK)
        return st;
    d->retained = true;
    st = qn_cuda_enter(d, err);
    if (st == QN_OK)
        st = qn_cuda_check(d,
                           d->cu.stream_priorities(&d->priority_low,
                                                   &d->priority_high),
                           err, "asking for stream priorities");
    if (st != QN_OK)
        return st;
    CUstream stream = NULL;
    st = qn_cuda_check(d,
                       d->cu.stream_new(&stream, CU_STREAM_NON_BLOCKING,
                                        d->priority_low),
                       err, "making the stream for uploads");
    if (st == QN_OK)
        d->upload = stream;
    return st;
}

static void device_free(qn_accel *accel)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    if (!d)
        return;
    qn_cuda_reaper_stop(d);
    if (d->retained) {
        (void)d->cu.context_set(d->context);
        qn_cuda_dnn_close(d);
        qn_cuda_blas_close(d);
        qn_cuda_code_release(d);
        if (d->exchanged)
            qn_cuda_note(d, d->cu.event_free(d->exchanged), "cuEventDestroy");
        if (d->upload)
            qn_cuda_note(d, d->cu.stream_free(d->upload), "cuStreamDestroy");
        (void)d->cu.context_set(NULL);
        (void)d->cu.primary_release(d->device);
    }
    qn_cuda_driver_close(&d->cu);
    pthread_cond_destroy(&d->reaper.work);
    pthread_mutex_destroy(&d->comms.lock);
    pthread_mutex_destroy(&d->reaper.lock);
    pthread_mutex_destroy(&d->code.lock);
    qn_cuda_gate_release(&d->gate);
    qn_free(d);
}

/* ---- what it is ---- */

static void device_info(qn_accel *accel, qn_accel_info *out)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    size_t left = 0, all = 0;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", d->name);
    snprintf(out->driver, sizeof out->driver, "%d.%d", d->cu.version / 1000,
             d->cu.version % 1000 / 10);
    snprintf(out->libraries, sizeof out->libraries, "%s, %s", d->blas_version,
             d->dnn_version);
    out->capability = d->limits.capability;
    out->multiprocessors = d->limits.multiprocessors;
    out->memory_total = d->memory_total;
    if (qn_cuda_enter(d, NULL) == QN_OK) {
        CUresult r = d->cu.mem_info(&left, &all);
        qn_cuda_note(d, r, "asking for free memory");
        out->memory_free = r == CUDA_SUCCESS ? left : 0;
    }
    out->launches = atomic_load(&d->launches);
    out->lanes = atomic_load(&d->lanes);
}

static bool device_dead(qn_accel *accel, qn_error *err)
{
    qn_cuda_device *d = qn_cuda_of(accel);
    if (!qn_cuda_dead(d))
        return false;
    (void)qn_cuda_lost(d, err);
    return true;
}

static const struct qn_accel_ops table = {
    .free = device_free,
    .info = device_info,
    .dead = device_dead,
    .kernel_find = qn_cuda_kernel_find,
    .map = qn_cuda_map,
    .unmap = qn_cuda_unmap,
    .pin = qn_cuda_pin,
    .unpin = qn_cuda_unpin,
    .alloc = qn_cuda_alloc,
    .release = qn_cuda_release,
    .upload = qn_cuda_upload,
    .lane_new = qn_cuda_lane_new,
    .lane_free = qn_cuda_lane_free,
    .begin = qn_cuda_begin,
    .end = qn_cuda_end,
    .fault = qn_cuda_lane_fault,
    .fault_words = qn_cuda_fault_words,
    .queue = qn_cuda_queue,
    .copy = qn_cuda_lane_copy,
    .clear = qn_cuda_lane_clear,
    .reserve = qn_cuda_reserve,
    .record = qn_cuda_record,
    .wait = qn_cuda_wait,
    .query = qn_cuda_query,
    .notify = qn_cuda_notify,
    .capture_begin = qn_cuda_capture_begin,
    .capture_end = qn_cuda_capture_end,
    .graph_launch = qn_cuda_graph_launch,
    .graph_free = qn_cuda_graph_free,
    .comm_new = qn_cuda_comm_new,
    .comm_free = qn_cuda_comm_free,
    .collective = qn_cuda_collective,
};

static void locks_init(qn_cuda_device *d)
{
    pthread_condattr_t attr;
    qn_cuda_gate_init(&d->gate);
    pthread_mutex_init(&d->code.lock, NULL);
    pthread_mutex_init(&d->reaper.lock, NULL);
    pthread_mutex_init(&d->comms.lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->reaper.work, &attr);
    pthread_condattr_destroy(&attr);
}

static qn_status open_driver(qn_cuda_device *d, qn_error *err)
{
    int devices = 0, ordinal = d->base.ordinal;
    qn_status st = qn_cuda_driver_open(&d->cu, &devices, err);
    if (st != QN_OK)
        return st;
    if (ordinal < 0 || ordinal >= devices)
        return qn_fail(err, QN_NOT_FOUND,
                       "there is no %s: the driver has %d device%s, from 0",
                       d->base.label, devices, devices == 1 ? "" : "s");
    return qn_cuda_check(d, d->cu.device_get(&d->device, ordinal), err,
                         "opening device %d", ordinal);
}

qn_status qn_cuda_open(int ordinal, const qn_host_api *host, qn_accel **out,
                       qn_error *err)
{
    *out = NULL;
    qn_cuda_device *d = qn_calloc(1, sizeof *d);
    if (!d)
        return qn_fail(err, QN_NO_MEMORY, "out of memory for a device");
    d->ops = table;
    d->base.ops = &d->ops;
    d->base.ordinal = ordinal;
    snprintf(d->base.label, sizeof d->base.label, "cuda:%d", ordinal);
    if (host)
        d->log = host->log;
    locks_init(d);
    qn_status st = open_driver(d, err);
    if (st == QN_OK)
        st = describe(d, err);
    if (st == QN_OK)
        st = enter_first(d, err);
    if (st == QN_OK)
        st = qn_cuda_memory_init(d, err);
    if (st == QN_OK)
        st = qn_cuda_code_init(d, err);
    if (st == QN_OK)
        st = qn_cuda_blas_open(d, err);
    if (st == QN_OK)
        st = qn_cuda_dnn_open(d, err);
    if (st == QN_OK)
        st = qn_cuda_reaper_start(d, err);
    if (st == QN_OK)
        *out = &d->base;
    else
        device_free(&d->base);
    return st;
}
