/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver's result means.
 *
 * The header of the runtime API marks codes that leave "the process in an
 * inconsistent state"; with them go those after which a context answers nothing
 * else: an assertion in device code, uncorrectable memory, a lost MPS client or
 * context. Everything else fails one call.
 */
#include "runtime/cuda/internal.h"

#include <sched.h>
#include <stdio.h>

static const CUresult poison[] = {
    CUDA_ERROR_DEINITIALIZED,
    CUDA_ERROR_ECC_UNCORRECTABLE,
    CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUDA_ERROR_CONTAINED,
    CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_TIMEOUT,
    CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUDA_ERROR_ASSERT,
    CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS,
    CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUDA_ERROR_INVALID_PC,
    CUDA_ERROR_LAUNCH_FAILED,
    CUDA_ERROR_TENSOR_MEMORY_LEAK,
    CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUDA_ERROR_EXTERNAL_DEVICE,
};

qn_cuda_meaning qn_cuda_classify(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return QN_CUDA_FINE;
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        return QN_CUDA_MEMORY;
    for (size_t i = 0; i < sizeof poison / sizeof poison[0]; i++)
        if (poison[i] == result)
            return QN_CUDA_POISON;
    return QN_CUDA_OTHER;
}

void qn_cuda_kill(qn_cuda_device *d, const char *why)
{
    if (atomic_flag_test_and_set(&d->claimed)) {
        /* another thread is writing its reason down: whoever hears of a lost
         * device finds it dead */
        while (!qn_cuda_dead(d))
            sched_yield();
        return;
    }
    snprintf(d->dead_text, sizeof d->dead_text, "%s", why);
    atomic_store_explicit(&d->dead, true, memory_order_release);
    qn_logf(&d->log, QN_LOG_ERROR,
            "%s: beyond use until this process restarts: %s", d->base.label,
            why);
}

qn_status qn_cuda_lost(const qn_cuda_device *d, qn_error *err)
{
    return qn_fail(err, QN_DEVICE_LOST, "%s is lost: %s", d->base.label,
                   d->dead_text);
}

qn_status qn_cuda_check(qn_cuda_device *d, CUresult result, qn_error *err,
                        const char *what, ...)
{
    if (result == CUDA_SUCCESS)
        return QN_OK;
    char doing[160], why[300];
    const char *text = NULL, *name = NULL;
    va_list args;
    va_start(args, what);
    vsnprintf(doing, sizeof doing, what, args);
    va_end(args);
    (void)d->cu.error_text(result, &text);
    (void)d->cu.error_name(result, &name);
    snprintf(why, sizeof why, "%s: %s (%s)", doing,
             text ? text : "unknown error", name ? name : "?");
    switch (qn_cuda_classify(result)) {
    case QN_CUDA_POISON:
        qn_cuda_kill(d, why);
        return qn_cuda_lost(d, err);
    case QN_CUDA_MEMORY:
        return qn_fail(err, QN_NO_MEMORY, "%s: %s", d->base.label, why);
    case QN_CUDA_FINE:
    case QN_CUDA_OTHER:
        break;
    }
    return qn_fail(err, QN_DEVICE, "%s: %s", d->base.label, why);
}

void qn_cuda_note(qn_cuda_device *d, CUresult result, const char *what)
{
    qn_error err = { 0 };
    if (result == CUDA_SUCCESS || qn_cuda_dead(d))
        return;
    if (qn_cuda_check(d, result, &err, "%s", what) != QN_DEVICE_LOST)
        qn_logf(&d->log, QN_LOG_WARN, "%s", err.text);
}

qn_status qn_cuda_enter(qn_cuda_device *d, qn_error *err)
{
    if (qn_cuda_dead(d))
        return qn_cuda_lost(d, err);
    return qn_cuda_check(d, d->cu.context_set(d->context), err,
                         "making the context current");
}
